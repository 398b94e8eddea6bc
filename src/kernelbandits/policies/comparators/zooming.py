"""Contextual zooming (Slivkins 2014): balls of a metric space."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from math import log
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kernelbandits._parameters import Parameter, ValueType, parameter
from kernelbandits._saved_state import SUMS_TO_ONE, saved_array, saved_part
from kernelbandits._transactions import Journal
from kernelbandits.errors import (
    CannotSave,
    DamagedFile,
    DecisionError,
    InvalidContexts,
    InvalidParameter,
)
from kernelbandits.kernels import Kernel, KernelLike, PointKind, Rows
from kernelbandits.kernels.points import describe_kind
from kernelbandits.kernels.stationary import feature_distances
from kernelbandits.kernels.wrappers import function_name
from kernelbandits.policies.base import HORIZON, KERNEL, REWARD_RANGE, Policy
from kernelbandits.posterior.base import check_no_overflow
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Matrix, Parameters, Points, Selection, Vector
from kernelbandits.validation import check_instance, check_positive

__all__ = ["Balls", "ContextualZooming", "Metric"]

Metric: TypeAlias = Callable[[Points, Points], Matrix]
"""Function that returns the distances of all pairs of two collections, at most 1."""


class Balls:
    """Active balls: centers, radii, counts and rewards.

    The domain of a ball consists of its points that lie in no ball of smaller radius. As the first ball has radius 1
    and no distance is larger, every point is in some domain. Distances between centers are cached: a new ball costs one
    row of them.
    """

    def __init__(self, metric: Metric, kind: PointKind, journal: Journal) -> None:
        self._metric, self._kind, self._journal = metric, kind, journal
        self._count = 0
        self._centers: Any = None
        self._numbers = np.zeros((3, 4))  # radii, counts and rewards
        self._apart = np.zeros((4, 4))

    def __len__(self) -> int:
        return self._count

    @property
    def centers(self) -> Points:
        """One point per ball; requires at least one ball."""
        return self._kind.view(self._centers, self._count)

    @property
    def radii(self) -> Vector:
        """Radii: 1 for the first ball, half of its parent's for every other."""
        return self._numbers[0, : self._count]

    @property
    def plays(self) -> Vector:
        """Number of learned rewards per ball."""
        return self._numbers[1, : self._count]

    @property
    def rewards(self) -> Vector:
        """Sum of rewards per ball."""
        return self._numbers[2, : self._count]

    @property
    def apart(self) -> Matrix:
        """Distances between centers."""
        return self._apart[: self._count, : self._count]

    def distances(self, points: Points) -> Matrix:
        """Return the distances from every center to every point; raise InvalidContexts for incompatible points."""
        self._kind.validate_comparable(self.centers, points)
        return self._metric(self.centers, points)

    def domains(self, distances: Matrix) -> NDArray[np.bool_]:
        """Return which points lie in which domain, one row per ball."""
        radii = self.radii[:, None]
        inside = distances <= radii
        smallest = np.where(inside, radii, np.inf).min(axis=0)
        shared_out: NDArray[np.bool_] = inside & (radii == smallest)
        return shared_out

    def add(self, point: Points, radius: float) -> None:
        """Add a ball around a collection of size one."""
        count = self._count
        to_others = self.distances(point)[:, 0] if count else np.zeros(0)
        if not count:
            self._metric(point, point)  # raises if points cannot be compared
        self._journal.note(vars(self).update, {"_count": count, "_centers": self._centers})
        self._centers = self._kind.grow(self._centers, count, point)
        if count == len(self._apart):
            self._numbers = np.pad(self._numbers, ((0, 0), (0, count)))
            self._apart = np.pad(self._apart, (0, count))
        self._numbers[:, count] = radius, 0.0, 0.0
        self._apart[:count, count] = self._apart[count, :count] = to_others
        self._count = count + 1

    def play(self, ball: int, reward: float) -> None:
        """Add a reward to a ball."""
        before = self._numbers[:, ball].copy()
        self._journal.note(self._put_back, ball, before)
        self._numbers[:, ball] = before + np.array([0.0, 1.0, reward])

    def _put_back(self, ball: int, numbers: Vector) -> None:
        self._numbers[:, ball] = numbers

    def state(self) -> Parameters:
        """Return plain values and arrays for `restore`."""
        if not self._count:
            return {}
        return {"centers": self._kind.pack(self.centers), "numbers": self._numbers[:, : self._count].copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; only before there are balls."""
        if not state:
            return
        centers = self._kind.check(self._kind.unpack(saved_part(state, "centers")))
        numbers = saved_array(state, "numbers", "f", (3, self._kind.count(centers)))
        radii, plays, rewards = numbers
        if radii[0] != 1.0 or not (radii.min() > 0.0 and radii.max() <= 1.0 and plays.min() >= 0.0):
            raise DamagedFile(
                "The balls in the file have to have radii above zero and at most 1, the first 1, and counts from zero."
            )
        if plays.max() > 2.0**53 or rewards.min() < 0.0 or (rewards > plays * (1.0 + SUMS_TO_ONE)).any():
            raise DamagedFile("The rewards of a ball in the file have to lie between zero and the number of its plays.")
        for ball, radius in enumerate(numbers[0]):  # in the original order: the distances are bitwise equal
            self.add(self._kind.take(centers, np.array([ball])), float(radius))
        self._numbers[:, : self._count] = numbers


class _Closeness:
    """Distance of a kernel or a function, times a factor, clipped at 1."""

    def __init__(
        self, kernel: Kernel | None, distance: Callable[[Any, Any], Matrix] | None, kind: PointKind, factor: float
    ) -> None:
        self._kernel, self.distance, self._kind, self._factor = kernel, distance, kind, factor

    def __call__(self, first: Points, second: Points) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected below with a clear error message
            if self._kernel is not None:
                distances = feature_distances(self._kernel, first, second)
            else:
                distances = self._checked(first, second)
            check_no_overflow(distances)
            return np.minimum(1.0, self._factor * distances)

    def _checked(self, first: Points, second: Points) -> Matrix:
        assert self.distance is not None
        distances = np.asarray(self.distance(first, second), dtype=np.float64)
        shape = self._kind.count(first), self._kind.count(second)
        if distances.shape != shape or not (distances >= 0.0).all():  # also catches NaN
            raise InvalidContexts(
                f"A distance gives one number from zero up for every pair, shape {shape}; got shape {distances.shape}"
                f"{'' if distances.shape != shape else ' with negative entries or NaN'}."
            )
        return distances


def _function(distance: Any) -> Any:
    if not callable(distance):
        raise InvalidParameter(f"The distance is a function of two collections, got {type(distance).__name__}.")
    return distance


def _not_saved(_: Any) -> Any:
    raise CannotSave("A distance is a function, which a file cannot hold. A policy with a kernel can be saved.")


DISTANCE: Final = ValueType(_function, function_name, _not_saved)
KIND: Final = ValueType(
    partial(check_instance, kind=cast(type[Any], PointKind), name="The kind of points"), describe_kind
)


class ContextualZooming(Policy):
    """Contextual zooming: cover the actions with balls, refined where many rewards are observed (Slivkins 2009, 2014).

    The only assumption about the rewards is a Lipschitz condition: |f(p) − f(q)| ≤ Dist(p, q). A kernel defines such a
    distance, Dist = min(1, B ‖φ(p) − φ(q)‖) with B ≥ ‖f‖. Over the active balls b, initially a single one of radius 1,
    with plays the number of rewards of a ball:

        conf(b)  = exploration · 4 sqrt(ln T / (1 + plays))
        pre(b)   = mean reward + radius + conf(b)
        index(b) = radius + min over active b′ of [ pre(b′) + Dist(center of b, center of b′) ]

    where a ball without a reward has mean 0, and mean + conf of at least 1, the highest reward, for any factor. A round
    considers the balls whose domain (the ball without all smaller active ones) contains an action, takes the one with
    the largest index, and selects the lowest row in its domain. When the count of a ball is so large that
    conf ≤ radius, a child with half its radius is added around the selected action. Points are actions in their
    contexts, as a round passes them, in any form that the kernel accepts: rows, strings, `Pairs`.

    The guarantee requires all assumptions: rewards in the range, and the Lipschitz condition for Dist. With the paper's
    constant the first ball alone takes 16 ln T rounds and a child four times as many, all of them at the lowest row of
    its domain: learning takes tens of thousands of rounds, so the default is a practical one (docs/defaults.md). If the
    kernel itself is appropriate, and not only its distance, KernelUCB learns far faster.

    A round among N actions costs M · N distances, M the number of active balls, and at most M² for the indices; a
    reward costs M distances. M grows with the rounds and never shrinks, most slowly with the paper's constant: a ball
    of radius r has children only after 16 ln T / r² rounds. Memory is 8 M² bytes.

    Rewards may be delayed: a decision's memo stores its ball, and no child is added if a smaller ball covers the point
    in the meantime. Pending decisions count in conf of their ball, and not in its mean. A reward cannot be removed, as
    the balls that it created remain.

    Parameters
    ----------
    kernel
        As in KernelUCB; or None, with a `distance`.
    distance
        A function of two collections of points (in the canonical form of `kind`; rows: float64 arrays) that returns the
        matrix of their distances. A policy with a `distance` cannot be saved.
    kind
        Point type for a `distance`; rows by default.
    horizon
        T: number of rounds.
    norm_bound
        B ≥ ‖f‖ in the RKHS of the kernel; with a `distance`, the factor with which it bounds the change of f. The
        default is not a bound but a practical value, since most functions change less than their norm allows. Pass a
        bound for the guarantee.
    exploration
        Factor of conf. "theory" is the published 1; the default learns in practice and has no guarantee. The defaults
        are for noisy rewards and contexts that change; with little noise and fixed actions, `exploration=0.01` and
        `norm_bound=1.0` learn faster.
    reward_range
        Smallest and largest reward; others are rejected. Distances are divided by its length.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Linear
    >>> policy = ContextualZooming(Linear(), horizon=400, norm_bound=1.0, exploration=0.1)
    >>> contexts = np.linspace(0, 1, 9)[:, None]
    >>> for _ in range(400):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> contexts[decision.action]
    array([0.75])
    """

    needs_reward_range = True

    kernel: Parameter[KernelLike | None, Kernel | None] = parameter(KERNEL, default=None, kw_only=False)
    distance: Callable[[Any, Any], Matrix] | None = parameter(DISTANCE, default=None)
    kind: PointKind | None = parameter(KIND, default=None, attribute="_kind_of_points")
    horizon: int = parameter(HORIZON)
    norm_bound: float = parameter(
        partial(check_positive, name="The norm bound", hint="1.0 is a common guess."), default=0.2
    )
    exploration: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The exploration", hint="1.0 is the paper's."),
        default=0.1,
        theory=1.0,
        is_assignable=True,
    )
    reward_range: tuple[float, float] = parameter(REWARD_RANGE, default=(0.0, 1.0))

    def _setup(self) -> None:
        super()._setup()
        if (self.kernel is None) == (self.distance is None):
            raise InvalidParameter("Closeness is given by a kernel or by a distance, and by one of them.")
        if self.kernel is not None and self.kind is not None:
            raise InvalidParameter("A kernel knows the kind of its points; `kind` is for those of a distance.")
        self._own_kind: PointKind = self.kernel.kind if self.kernel is not None else self.kind or Rows()
        self._closeness = _Closeness(self.kernel, self.distance, self._own_kind, self.norm_bound / self._rewards.span)
        self.balls = Balls(self._closeness, self._own_kind, self._journal)
        """Active balls, with rewards scaled to [0, 1]. Read-only."""

    def _kind(self, contexts: Points) -> PointKind:
        return self._own_kind

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        balls = self.balls
        if not len(balls):  # the first learned pair will be the center of the first ball
            return Selection(0, memo={"ball": np.array([0])})
        domains = balls.domains(balls.distances(actions.points))
        relevant = np.flatnonzero(domains.any(axis=1))
        confidence = self._confidence(balls.plays + self._pending_plays())
        means = balls.rewards / np.maximum(1.0, balls.plays)
        likely = np.where(balls.plays > 0.0, means + confidence, np.maximum(confidence, 1.0))
        pre = likely + balls.radii
        index = balls.radii[relevant] + (pre + balls.apart[relevant]).min(axis=1)
        best = int(tied_for_best(index)[0])
        ball = int(relevant[best])
        return Selection(
            row=int(np.argmax(domains[ball])),  # the lowest
            mean=self._rewards.from_unit(float(means[ball])) if balls.plays[ball] else np.nan,
            width=self._rewards.span * float(confidence[ball]),
            score=self._rewards.from_unit(float(index[best])),
            memo={"ball": np.array([ball])},
        )

    def domains(self, contexts: Points) -> NDArray[np.bool_]:
        """Return which actions lie in the domain of which active ball, one row per ball; each is in at least one.

        Before the first reward there are no balls, hence no rows.
        """
        points = self._points(contexts, None)
        if not len(self.balls):
            return np.zeros((0, self._own_kind.count(points)), dtype=bool)
        return self.balls.domains(self.balls.distances(points))

    def _confidence(self, plays: Vector) -> Vector:
        return np.asarray(self.exploration * 4.0 * np.sqrt(log(self.horizon) / (1.0 + plays)))

    def _pending_plays(self) -> Vector:
        """Return the number of pending decisions per ball."""
        pending = np.zeros(len(self.balls))
        for ball, count in self._pending_counts().items():
            pending[ball] = count
        return pending

    def _pending_key(self, decision: Decision) -> Hashable:
        return self._ball_of(decision)

    # -- learning --------------------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        """Do nothing: the balls record their changes."""

    def _validate_decision(self, decision: Decision) -> None:
        self._ball_of(decision)

    def _update(self, decision: Decision, reward: float) -> None:
        balls, point, ball = self.balls, self._point(decision), self._ball_of(decision)
        if not len(balls):
            balls.add(point, 1.0)
        is_full = self._confidence(balls.plays[ball]).item() <= balls.radii[ball]
        if is_full and balls.domains(balls.distances(point))[ball, 0]:  # no smaller ball covers it
            balls.add(point, float(balls.radii[ball]) / 2.0)
        balls.play(ball, self._rewards.unit(reward))

    def _ball_of(self, decision: Decision) -> int:
        """Return the ball of a decision, or raise DecisionError."""
        noted = np.asarray(decision.memo.get("ball", ()))
        n_balls = max(1, len(self.balls))
        if noted.shape != (1,) or noted.dtype.kind not in "iu" or not 0 <= noted[0] < n_balls:
            raise DecisionError(
                f"The memo of a decision names one of the {n_balls} active balls, got {dict(decision.memo)!r:.80}. "
                "Stored decisions must be learned in the order in which they were."
            )
        return int(noted[0])

    def _validate_comparable(self, point: Points) -> None:
        if len(self.balls):
            self.balls.distances(point)

    # -- description and serialization -----------------------------------------------------------------------------

    def _probe(self) -> Points | None:
        return self.balls.centers if len(self.balls) else None

    def _state(self) -> Parameters:
        return {"balls": self.balls.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.balls.restore(saved_part(state, "balls"))
