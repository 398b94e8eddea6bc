"""Contextual zooming."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_count, positive
from kernelbandits.errors import (
    CannotSave,
    DecisionError,
    GuaranteeVoid,
    InvalidContexts,
    InvalidParameter,
    warn_user,
)
from kernelbandits.kernels import Kernel, KernelLike, PointKind, Rows, as_kernel
from kernelbandits.kernels.feature_distances import feature_distances
from kernelbandits.kernels.points import describe_kind
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.metric.balls import Balls
from kernelbandits.posterior.base import refuse_overflow
from kernelbandits.restoring import saved_part
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Decision, Matrix, Parameters, Points, Vector

__all__ = ["ContextualZooming"]


class _Closeness:
    """Dist: what a kernel or a function says, times a factor, and at most 1."""

    def __init__(
        self, kernel: Kernel | None, distance: Callable[[Any, Any], Matrix] | None, kind: PointKind, factor: float
    ) -> None:
        self._kernel, self.distance, self._kind, self._factor = kernel, distance, kind, factor

    def __call__(self, first: Points, second: Points) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            if self._kernel is not None:
                distances = feature_distances(self._kernel, first, second)
            else:
                distances = self._checked(first, second)
            refuse_overflow(distances)
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


class ContextualZooming(Policy):
    """Covers the actions with balls, and with smaller ones where it plays much (Slivkins 2009, 2014).

    All it knows of the rewards is that close actions pay alike: |f(p) − f(q)| ≤ Dist(p, q). A kernel gives such a
    distance from similarities alone, Dist = min(1, B ‖φ(p) − φ(q)‖) with B ≥ ‖f‖. Over the active balls b, at first a
    single one of radius 1:

        conf(b)  = confidence_factor · 4 sqrt(ln T / (1 + plays))
        pre(b)   = mean reward + radius + conf(b)
        index(b) = radius + min over active b′ of [ pre(b′) + Dist(centre of b, centre of b′) ]

    where a ball without a reward has mean 0, and mean + conf of at least 1, the highest reward, whatever the factor.
    A round looks at the balls whose domain (the ball without all smaller active ones) holds an action, takes the one
    of largest index, and plays the lowest row in its domain. A ball played so often that conf ≤ radius gets a child of
    half its radius around the action played. Points are actions in their contexts, as a round gives them: rows,
    strings, `Pairs`, whatever the kernel takes.

    The guarantee needs the whole promise: rewards in the range, and Dist true for them. With the paper's constant the
    first ball alone takes 16 ln T plays and a child four times as many, all of them at the lowest row of its domain:
    it takes tens of thousands of rounds to learn, and a smaller `confidence_factor` to see it happen sooner. Where the
    kernel itself is believed, and not its distance alone, KernelUCB learns far faster.

    A round among N actions costs M · N distances, M the number of active balls, and at most M² for the indices; a
    reward costs M distances. M grows with the rounds and never shrinks, most slowly with the paper's constant: a ball
    of radius r has children only after 16 ln T / r² plays. Memory is 8 M² bytes.

    Rewards may come late: a decision's memo carries its ball, and a child is not made where a smaller ball has come to
    lie in the meantime. Awaited decisions count in conf, and not in the mean, of their ball. A reward cannot be taken
    back, as the balls that it brought stay.

    Parameters
    ----------
    kernel
        As in KernelUCB; or None, and a `distance`.
    distance
        A function of two collections of points (in the canonical form of `kind`; rows: float64 arrays) that gives the
        matrix of their distances. A policy with one cannot be saved.
    kind
        What the points of a `distance` are; rows by default.
    horizon
        T: rounds to come.
    norm_bound
        B ≥ ‖f‖ in the kernel's space; with a `distance`, what it has to be multiplied with to bound the change of f.
    confidence_factor
        Multiplies conf. 1 is the paper's; 0.1 to 0.5 learns in practice and proves nothing.
    reward_range
        Smallest and largest reward; others are refused. Distances are divided by its length.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Linear
    >>> policy = ContextualZooming(Linear(), horizon=400, confidence_factor=0.1)
    >>> contexts = np.linspace(0, 1, 9)[:, None]
    >>> for _ in range(400):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> contexts[decision.action]
    array([0.75])
    """

    needs_reward_range = True

    def __init__(
        self,
        kernel: KernelLike | None = None,
        *,
        distance: Callable[[Any, Any], Matrix] | None = None,
        kind: PointKind | None = None,
        horizon: int,
        norm_bound: float = 1.0,
        confidence_factor: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(reward_range=reward_range)
        if (kernel is None) == (distance is None):
            raise InvalidParameter("Closeness is given by a kernel or by a distance, and by one of them.")
        if distance is not None and not callable(distance):
            raise InvalidParameter(f"The distance is a function of two collections, got {type(distance).__name__}.")
        if kernel is not None and kind is not None:
            raise InvalidParameter("A kernel knows the kind of its points; `kind` is for those of a distance.")
        self.kernel = None if kernel is None else as_kernel(kernel)
        self._own_kind = self.kernel.kind if self.kernel is not None else kind or Rows()
        self._horizon = a_count(horizon, "The horizon")
        self._norm_bound = positive(norm_bound, "The bound on the norm", "1.0 is a common guess.")
        self._confidence_factor = positive(confidence_factor, "The confidence factor", "1.0 is the paper's.")
        self._closeness = _Closeness(self.kernel, distance, self._own_kind, self._norm_bound / self._rewards.span)
        self.balls = Balls(self._closeness, self._own_kind, self._journal)
        """The active balls; rewards are scaled to [0, 1] there. Not to be changed."""
        self._has_warned = False

    def _kind(self, contexts: Points) -> PointKind:
        return self._own_kind

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Choice:
        self._warn_beyond_horizon()
        balls = self.balls
        if not len(balls):  # the first ball will have the first pair learnt as its centre
            return Choice(0, memo={"ball": np.array([0])})
        domains = balls.domains(balls.distances(actions.points))
        relevant = np.flatnonzero(domains.any(axis=1))
        confidence = self._confidence(balls.plays + self._awaited())
        means = balls.rewards / np.maximum(1.0, balls.plays)
        likely = np.where(balls.plays > 0.0, means + confidence, np.maximum(confidence, 1.0))
        pre = likely + balls.radii
        index = balls.radii[relevant] + (pre + balls.apart[relevant]).min(axis=1)
        best = int(tied_for_best(index)[0])
        ball = int(relevant[best])
        return Choice(
            action=int(np.argmax(domains[ball])),  # the lowest
            mean=self._rewards.from_unit(float(means[ball])) if balls.plays[ball] else np.nan,
            width=self._rewards.span * float(confidence[ball]),
            score=self._rewards.from_unit(float(index[best])),
            memo={"ball": np.array([ball])},
        )

    def domains(self, contexts: Points) -> NDArray[np.bool_]:
        """Which actions lie in the domain of which active ball, a row a ball; every action is in one at least.

        Before the first reward there are no balls, hence no rows.
        """
        points = self._points(contexts, None)
        if not len(self.balls):
            return np.zeros((0, self._own_kind.count(points)), dtype=bool)
        return self.balls.domains(self.balls.distances(points))

    def _confidence(self, plays: Vector) -> Vector:
        return np.asarray(self._confidence_factor * 4.0 * np.sqrt(log(self._horizon) / (1.0 + plays)))

    def _awaited(self) -> Vector:
        """Awaited decisions of each ball."""
        awaited = np.zeros(len(self.balls))
        for decision in self._ledger.pending.values():
            awaited[self._ball_of(decision)] += 1.0
        return awaited

    def _warn_beyond_horizon(self) -> None:
        if self.round_index > self._horizon and not self._has_warned:
            warn_user(
                f"Round {self.round_index} lies beyond the horizon {self._horizon} that the confidence was made for. "
                "Give a longer one.",
                GuaranteeVoid,
            )
            self._has_warned = True

    # -- learning --------------------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        """The balls note what changes."""

    def _validate_decision(self, decision: Decision) -> None:
        self._ball_of(decision)

    def _take_in(self, decision: Decision, reward: float) -> None:
        balls, point, ball = self.balls, self._point(decision), self._ball_of(decision)
        if not len(balls):
            balls.add(point, 1.0)
        is_full = self._confidence(balls.plays[ball]).item() <= balls.radii[ball]
        if is_full and balls.domains(balls.distances(point))[ball, 0]:  # nothing smaller has come to lie there since
            balls.add(point, float(balls.radii[ball]) / 2.0)
        balls.play(ball, self._rewards.unit(reward))

    def _ball_of(self, decision: Decision) -> int:
        """The ball that a decision was made by, or DecisionError."""
        noted = np.asarray(decision.memo.get("ball", ()))
        n_balls = max(1, len(self.balls))
        if noted.shape != (1,) or noted.dtype.kind not in "iu" or not 0 <= noted[0] < n_balls:
            raise DecisionError(
                f"The memo of a decision names one of the {n_balls} active balls, got {dict(decision.memo)!r:.80}. "
                "Stored decisions have to be learnt in the order in which they were."
            )
        return int(noted[0])

    def _refuse_incomparable(self, point: Points) -> None:
        if len(self.balls):
            self.balls.distances(point)

    # -- describing and keeping ------------------------------------------------------------------------------------

    def _parameters(self) -> Parameters:
        closeness: Parameters
        if self.kernel is not None:
            closeness = {"kernel": self.kernel.describe()}
        else:
            distance = self._closeness.distance
            name = getattr(distance, "__qualname__", type(distance).__name__)
            closeness = {"distance": name, "kind": describe_kind(self._own_kind)}
        return {
            **closeness,
            "horizon": self._horizon,
            "norm_bound": self._norm_bound,
            "confidence_factor": self._confidence_factor,
            "reward_range": self.reward_range,
        }

    def _structure(self) -> Parameters:
        if self.kernel is None:
            raise CannotSave("A distance is a function, which a file cannot hold. A policy with a kernel can be saved.")
        return {}

    def _probe(self) -> Points | None:
        return self.balls.centres if len(self.balls) else None

    def _state(self) -> Parameters:
        return {"balls": self.balls.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.balls.restore(saved_part(state, "balls"))
