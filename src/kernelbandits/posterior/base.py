"""What every posterior promises, and what those that keep their observations share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import sqrt
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array, saved_sums
from kernelbandits._transactions import Journal, Transactional, handles_transaction
from kernelbandits.errors import (
    DamagedFile,
    IllConditioned,
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
    NotSupported,
    NumericalError,
    warn_user,
)
from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.kernels.base import a_kernel
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.observations import NO_SLOTS, NOTHING, Batch, Observations
from kernelbandits.posterior.pending import Pending
from kernelbandits.types import Indices, Matrix, Points, Prediction, Selection, Vector
from kernelbandits.validation import LARGEST, an_array, positive, shown

__all__ = [
    "SMALLEST_REGULARIZATION",
    "Posterior",
    "RecordedPosterior",
    "checked_regularization",
    "checked_rewards",
    "checked_times",
    "least_regularization",
    "refuse_overflow",
    "saved_totals",
    "too_small",
]

SMALLEST_COUNT: Final = 5e-324
LARGEST_COUNT: Final = 2.0**53
"""Of the observations of a point in a file: above zero, since forgetting makes them fractions, and a number to which
one can be added."""

SMALLEST_REGULARIZATION: Final = 1e-8
"""Times max k: below it the widths lose their digits. Measured with 500 points of a Gaussian kernel on a line, the
relative error of width² is 6e-6 at this value and grows in inverse proportion."""

SLACK: Final = 1e-8
"""Share of k(x, x) by which a similarity may fall short of being positive semi-definite before it is refused."""

ROUNDING: Final = 4.0 * float(np.finfo(np.float64).eps)
"""Times tr K / γ: the share of k(x, x) that rounding can cost."""

MOST_TIMES: Final = 2**53
"""That a point counts: larger whole numbers have no exact float."""


class Posterior(Transactional, ABC):
    """Mean and width of the reward at any point, given what was observed.

    With A = K + γI over the observed points, y their rewards and k the similarities of x to them:

        mean(x)  = kᵀ A⁻¹ y
        width(x) = γ^(-1/2) · sqrt(k(x, x) − kᵀ A⁻¹ k)

    Before any observation the mean is 0 and the width sqrt(k(x, x) / γ). Repeated points are one point with a count.
    Knows points and rewards; has not heard of actions.

    Every public method may be called from any thread, and those of the library's posteriors change them wholly or not
    at all; so does every posterior inside a policy, which shares its lock with it.
    """

    kernel: Kernel
    regularization: float

    forgets: bool = False
    """Whether older observations count less, or not at all: then widths grow back, and no interval is proved."""

    @abstractmethod
    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        """Add observations, one or many; each reward counts `times` times."""

    # -- for callers that know what they hold --------------------------------------------------------------------------

    def observe_one(self, point: Points, reward: float) -> None:
        """`observe` for a collection of one that was checked before, and a finite reward."""
        self._observe_one(point, reward)

    def estimate(self, points: Points) -> Prediction:
        """`predict` for points that were checked before."""
        return self._estimate(points)

    def best(self, points: Points, exploration: float) -> Selection | None:
        """Which of these checked points have the highest mean + exploration · width, without `predict` for all.

        None where it takes `predict`: for most posteriors, and where what was found out is not enough to say.
        """
        return self._best(points, exploration)

    # The same inside a transaction: a policy holds the lock of its posterior, and its own call commits or rolls back.

    def _observe_one(self, point: Points, reward: float) -> None:
        self.observe(point, [reward])

    @abstractmethod
    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        """Replace rewards of observed points; widths do not depend on rewards and stay.

        `numbers` are those that `last_number` gave, where it matters which observation of a point is meant.
        """

    @abstractmethod
    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        """Take observations back, exactly; `numbers` as in `amend`."""

    @property
    def last_number(self) -> int | None:
        """Number of the latest observation; None where all observations of a point count alike."""
        return None

    has_policy: bool = False
    """Whether a policy learns with it."""

    n_merged: int = 0
    """Observations whose points are not kept any more: they count in every answer and cannot be changed."""

    def _join(self, journal: Journal) -> None:
        """Take part in the transactions of a policy, or of another posterior."""
        self._journal = journal

    def _note_change(self) -> None:
        """Note how to undo the change that comes next.

        The default notes a copy of all attributes, for a posterior of your own. The library's posteriors note less,
        at the place where they change it.
        """
        self._note_copy()

    @abstractmethod
    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """Mean from the data; width from the data and, as if they had been observed, the `pending` points."""

    def _estimate(self, points: Points) -> Prediction:
        return self.predict(points)

    def _best(self, points: Points, exploration: float) -> Selection | None:
        return None

    def _play(
        self,
        rounds: NDArray[np.float64],
        rewards: Matrix,
        exploration: float,
    ) -> tuple[Indices, Vector, Vector]:
        """`best` and `observe_one` in turn for rounds × points × columns, as far as it goes: rows, means and widths.

        The points need not be checked before: it stops at numbers that are not finite, or refuses them.
        """
        return NO_SLOTS, NOTHING, NOTHING

    @property
    @handles_transaction
    def is_sure(self) -> bool:
        """Whether nothing can be refused or lose its digits: a kernel beyond doubt, regularization enough for it."""
        return False

    @property
    @handles_transaction
    def plays(self) -> bool:
        """Whether `_play` has a loop of its own; most posteriors have none."""
        return False

    @abstractmethod
    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        """Posterior covariance divided by γ; its diagonal is width²."""

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """Covariance of the weighted sum Σ w f(x) over the points with the reward at each of the others, divided by γ.

        weights @ covariance(points, others), without ever holding that matrix.
        """
        points, others = self.kernel.kind.check(points), self.kernel.kind.check(others)
        total = np.zeros(self.kernel.kind.count(others))
        for block, part in blocks(self.kernel.kind, points, len(total)):
            total += weights[block] @ self.covariance(part, others)
        return total

    @abstractmethod
    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """Distinct points, dual weights α, counts, reward sums of what is kept; only after an observation.

        mean = Σ α k, where no observations were merged.
        """

    def weights_for(self, values: Matrix) -> Matrix:
        """Dual weights had each point of `support` had these mean rewards: (K + γ D⁻¹)⁻¹ values, D = diag(counts).

        One column per question, one row per point. From the fit f, as γα = s − n f; only after an observation.
        """
        if self.n_merged:
            raise NotSupported(
                f"{self.n_merged} observations were merged into sums, so their dual weights are not known. Keep all "
                "points: PrimalPosterior(kernel, regularization=…)."
            )
        points, _, counts, _ = self.support()
        sums = counts[:, None] * values
        return (sums - counts[:, None] * (self.covariance(points) @ sums)) / self.regularization

    @property
    @abstractmethod
    def log_det_gain(self) -> float:
        """Ln det(I + K/γ) over all observations."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Distinct points kept."""

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """Observations, repeats counted."""

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function.

        ‖θ‖² = αᵀKα, and the fit at an observed point is f = (s − γα)/n, so no Gram matrix is needed.
        """
        if not self.size:
            return 0.0
        _, weights, counts, sums = self.support()
        squared = float(weights @ ((sums - self.regularization * weights) / counts))
        return sqrt(max(0.0, squared))

    def copy(self) -> Self:
        """An independent copy; the kernel is frozen and shared."""
        return copy.deepcopy(self)

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore` needs."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved state; only before any observation."""


class RecordedPosterior(Posterior):
    """A posterior that keeps its observations: checks and bookkeeping here, the algebra in the subclass.

    The record is the truth, and the algebra follows it: at once where that may fail, so that a refused call changes
    nothing, and otherwise when it is next needed.
    """

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        _import_ahead()
        self.kernel = a_kernel(kernel)
        self.regularization = checked_regularization(regularization)
        self.record = Observations(kernel.kind, self._journal)
        """What was observed: distinct points in slots, their counts and reward sums."""
        self._largest_similarity = 0.0
        self._is_certified = kernel.is_certified

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        self.record.join(journal)

    def _note_change(self) -> None:
        """The record notes its changes by itself; the algebra is derived from it."""

    @property
    @handles_transaction
    def is_sure(self) -> bool:
        return self._is_certified and self.regularization >= SMALLEST_REGULARIZATION * self._largest_similarity

    @abstractmethod
    def _follow(self, batch: Batch) -> None:
        """The record has taken in a batch: move the algebra, or raise."""

    @property
    def _may_wait(self) -> bool:
        """Whether the algebra may follow the record later, since nothing can be refused."""
        return False

    def _follow_one(self, point: Points, slot: int, reward: float) -> None:
        """Likewise a single observation of a point, new where its slot was −1."""
        count, total, error = np.ones(1), np.array([reward]), np.zeros(1)
        none = (NO_SLOTS, NOTHING, NOTHING, NOTHING)
        if slot < 0:
            self._follow(Batch(self.kernel.kind.keys(point), point, count, total, error, *none, 1))
        else:
            self._follow(Batch([], None, NOTHING, NOTHING, NOTHING, np.array([slot]), count, total, error, 1))

    @abstractmethod
    def _forget(self) -> None:
        """Observations were taken back from the record."""

    @abstractmethod
    def _retarget(self) -> None:
        """Reward sums of the record have changed, and nothing else."""

    @abstractmethod
    def _undone(self, n_slots: int) -> None:
        """The record is rolled back: what was derived from slots after the first `n_slots` is void."""

    _is_stale: bool = False
    """Whether the record was rolled back and the algebra, which does not follow by itself, has to be computed again."""

    def _settle(self) -> None:
        """Compute the algebra again where that is needed."""

    def _note(self) -> None:
        """Note that the algebra has to follow the record back; before the record notes its own change."""
        self._settle()
        self._journal.note(self._roll_back, self.record, self.record.n_slots, self._largest_similarity)

    def _roll_back(self, record: Observations, n_slots: int, largest_similarity: float) -> None:
        self._undone(n_slots if record is self.record else 0)
        self.record, self._largest_similarity = record, largest_similarity

    @abstractmethod
    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        """Mean and width² of checked points."""

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(points)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        self._take_in(self.record.sort(points, values, repeats))

    def _observe_one(self, point: Points, reward: float) -> None:
        record, before = self.record, self._largest_similarity
        key, slot = record.locate(point)
        largest = before
        if slot < 0:
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
                largest = self.kernel.diagonal(point).item()
            if not largest <= before:
                refuse_overflow(np.array([largest]))
                self._warn_if_ill_conditioned(largest)
        if self._is_stale:
            self._settle()
        may_wait = slot >= 0 and self._may_wait
        if not may_wait:  # else the algebra stays as it is, and the record notes its own change
            self._journal.notes.append((self._roll_back, (record, record.n_slots, before)))
        if largest > before:
            self._largest_similarity = largest
        record.add_one(point, key, slot, reward)  # refuses a sum that overflows, of a point that is known
        if not (may_wait or self._may_wait):
            with self._refusing(), np.errstate(over="ignore", invalid="ignore"):
                self._follow_one(point, slot, reward)

    def absorb(self, points: Points, counts: Vector, sums: Vector, errors: Vector | None = None) -> None:
        """Take over distinct points with their totals; only before any observation."""
        self._take_in(self.record.totals(points, counts, sums, errors), is_new=False)

    def _take_in(self, batch: Batch, *, is_new: bool = True) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            diagonal = self.kernel.diagonal(batch.points) if batch.keys else np.zeros(1)
            refuse_overflow(diagonal)
            largest = float(diagonal.max())
            if is_new:
                self._warn_if_ill_conditioned(largest)
            self._note()
            self.record.add(batch)
            self._largest_similarity = max(self._largest_similarity, largest)
            with self._refusing():
                self._follow(batch)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        points = self.kernel.kind.check(points)
        before, after = (checked_rewards(values, self.kernel.kind.count(points)) for values in (was, now))
        slots = self._find(points)
        self._note()
        self.record.change(slots, -before, after)
        self._retarget()

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        points = self.kernel.kind.check(points)
        values = checked_rewards(rewards, self.kernel.kind.count(points))
        slots = self._find(points)
        taken, times = np.unique(slots, return_counts=True)
        short = taken[times > self.record.counts[taken]]
        if short.size:
            seen = int(self.record.counts[short[0]])
            raise NotLearnt(f"A point that was observed {seen} times cannot be taken back more often than that.")
        self._note()
        self.record.subtract(slots, values)
        with self._refusing():
            self._forget()

    def _find(self, points: Points) -> Indices:
        """Slots of observed points, or NotLearnt."""
        try:
            return self.record.find(points)
        except NotLearnt as error:
            if not self.n_merged:
                raise
            raise NotLearnt(
                f"{error} It may be one of the {self.n_merged} oldest observations, of which only sums are kept."
            ) from error

    # -- for those who decide themselves how much an observation counts ----------------------------------------------

    def weigh_in(self, points: Points, rewards: Vector, weights: Vector) -> None:
        """`observe` for checked points and rewards that count `weights` times each, which need not be whole."""
        self._take_in(self.record.sort(points, rewards, weights))

    def retotal(self, keys: Sequence[Hashable], counts: Vector, sums: Vector) -> None:
        """Other counts and reward sums for known points; a count of 0 forgets the point."""
        self._note()
        self.record.retotal(keys, counts, sums)
        with self._refusing():
            self._forget()

    def fade(self, rate: float, gone: Sequence[Hashable]) -> None:
        """Let all observations count `rate` times what they did, and forget these points, whose rest is negligible."""
        self._note()
        self.record.fade(rate, gone)
        with self._refusing():
            self._fade(rate)

    def _fade(self, rate: float) -> None:
        """The record has faded."""
        self._forget()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn a factorization that fails into a clear error."""
        try:
            yield
        except np.linalg.LinAlgError as error:
            known = self.kernel.diagonal(self.record.points) if self.record.n_slots else NOTHING
            # Merged observations have left the record, but not the sums.
            diagonal = np.append(known, self._largest_similarity)
            raise too_small(self.regularization, diagonal, np.append(self.record.counts, self.n_merged)) from error

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        points = self.kernel.kind.check(points)
        prediction = self._estimate(points)
        if pending is None:
            return prediction
        return Pending(self, pending).narrowed(points, prediction)

    def _estimate(self, points: Points) -> Prediction:
        self._settle()
        if self.record.n_slots:
            self.kernel.kind.refuse_unlike(self.record.points, points)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            mean, squared = self._predict(points)
        refuse_overflow(mean, squared)
        return Prediction(mean, np.sqrt(squared))

    @property
    def size(self) -> int:
        return self.record.size

    @property
    def n_observations(self) -> int:
        return self.record.n_observations + self.n_merged

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """As described in `Posterior`; γα = s − n f, with f the fit at the observed points."""
        self._settle()
        points, counts, sums = self.record.kept()
        fit, _ = self._predict(points)
        return points, (sums - counts * fit) / self.regularization, counts, sums

    def state(self) -> dict[str, NDArray[Any]]:
        if not self.size:
            return {}
        points, counts, sums = self.record.kept()
        packed = self.kernel.kind.pack(points)
        totals = {"counts": counts, "sums": sums, "errors": self.record.errors()}
        return {**totals, **{f"points.{name}": array for name, array in packed.items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if state:
            self.absorb(*saved_totals(self.kernel.kind, state))

    @property
    def _is_well_posed(self) -> bool:
        """Whether the regularization is large enough for double precision."""
        return self.regularization >= SMALLEST_REGULARIZATION * self._largest_similarity

    def _warn_if_ill_conditioned(self, largest: float) -> None:
        """Say once, and before anything has moved, that such points are too large for the regularization."""
        limit = SMALLEST_REGULARIZATION * largest
        if self._is_well_posed and self.regularization < limit:
            warn_user(
                f"The regularization {self.regularization:.3g} is below 1e-8 times the largest k(x, x), {largest:.3g}, "
                f"so widths lose their digits. Take at least {limit:.3g}.",
                IllConditioned,
            )


@cache
def _import_ahead() -> None:
    """Import what later calls import: a process forked meanwhile would wait for ever for the lock of an import."""
    for name in ("scipy.linalg.blas", "scipy.linalg.lapack", "scipy.sparse", "scipy.spatial.distance", "threadpoolctl"):
        import_module(name)


def refuse_overflow(*arrays: NDArray[np.float64]) -> None:
    """InvalidContexts unless all numbers are finite: finite contexts can still have infinite similarities."""
    for array in arrays:
        if np.isfinite(array).all():
            continue
        raise InvalidContexts(
            "The similarities of these contexts overflow or are not numbers. Check the kernel's parameters and the "
            "scale of the contexts."
        )


def least_regularization(diagonal: Vector, counts: Vector) -> float:
    """Smallest γ at which rounding does no harm to so many observations of points with these k(x, x).

    From there on widths keep their digits, and rounding of eps · tr K · k(x, x) / γ stays below the slack.
    """
    largest = float(diagonal.max()) * max(1.0, float(counts.max()))
    return max(SMALLEST_REGULARIZATION * largest, ROUNDING * float(diagonal @ counts) / SLACK)


def too_small(regularization: float, diagonal: Vector, counts: Vector) -> NumericalError:
    """The error where γ is lost in the rounding errors of so many observations of points with these k(x, x)."""
    return NumericalError(
        f"The regularization {regularization:.3g} is too small beside similarities of up to {diagonal.max():.3g} of "
        f"{int(counts.sum())} observations: rounding errors are larger than it. Nothing was changed. Take a "
        f"regularization of at least {least_regularization(diagonal, counts):.2g}."
    )


def checked_regularization(regularization: float) -> float:
    """A positive finite number, or InvalidParameter."""
    try:
        value = positive(regularization, "The regularization")
    except InvalidParameter as error:
        raise InvalidParameter(
            f"The regularization has to be positive and finite ({1 / LARGEST:g} to {LARGEST:g}), got "
            f"{shown(regularization)}. It keeps the Gram matrix invertible; 1.0 is a good start."
        ) from error
    return value


def checked_rewards(rewards: ArrayLike, n_points: int) -> Vector:
    """One finite number per point, or InvalidReward."""
    if isinstance(rewards, np.ma.MaskedArray) and np.ma.is_masked(rewards):
        raise InvalidReward("A masked value is no reward. Leave out what was not observed.")
    values = _numbers(rewards)
    if values.ndim == 0 and n_points == 1:
        values = values.reshape(1)
    if values.shape != (n_points,):
        raise InvalidReward(
            f"There has to be one reward per context: {n_points} contexts, rewards of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise InvalidReward(f"A reward has to be a finite number, got {values[~np.isfinite(values)][0]}.")
    return values


def _numbers(values: ArrayLike) -> Vector:
    try:
        return an_array(values, "Rewards")
    except InvalidParameter as error:
        raise InvalidReward(f"A reward has to be a real number, got {shown(values)}.") from error


def saved_totals(kind: PointKind, state: Mapping[str, NDArray[Any]]) -> tuple[Points, Vector, Vector, Vector]:
    """Distinct points, their counts, reward sums and the errors of these as a file holds them, or DamagedFile."""
    points = kind.check(kind.unpack(below("points.", state)))
    keys = kind.keys(points)
    if len(set(keys)) != len(keys):
        raise DamagedFile("A point stands in the file twice.")
    counts = saved_array(state, "counts", "f", (len(keys),), least=SMALLEST_COUNT, most=LARGEST_COUNT)
    return points, counts, *saved_sums(state, counts)


def checked_times(times: ArrayLike, n_points: int) -> Vector:
    """A whole number from 1 for every point, or InvalidParameter."""
    if isinstance(times, int) and times == 1:
        return np.ones(n_points)
    repeats = an_array(times, "`times`")
    if not (np.isfinite(repeats).all() and (repeats >= 1).all() and (repeats == np.round(repeats)).all()):
        raise InvalidParameter(f"`times` has to be whole numbers from 1, got {shown(times)}.")
    if repeats.size and repeats.max() > MOST_TIMES:
        raise InvalidParameter(f"`times` has to be at most {MOST_TIMES:,}, got {shown(times)}.")
    if repeats.ndim and repeats.shape != (n_points,):
        raise InvalidParameter(
            f"`times` has to be one number, or one per context ({n_points}), got shape {repeats.shape}."
        )
    return np.broadcast_to(repeats, (n_points,)).astype(np.float64)
