"""Posterior interface, and the base class of posteriors that store their observations."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import sqrt
from typing import Any, Final, NamedTuple, Self

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
from kernelbandits.validation import LARGEST, check_array, check_positive, short_repr

__all__ = [
    "SMALLEST_REGULARIZATION",
    "Capabilities",
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
"""Largest count of a point in a file. Counts are positive, possibly fractional because of forgetting, and small enough
that adding one changes them."""

SMALLEST_REGULARIZATION: Final = 1e-8
"""Multiple of max k below which widths lose accuracy. Measured with 500 points of a Gaussian kernel on a line, the
relative error of width² is 6e-6 at this value and grows in inverse proportion."""

SLACK: Final = 1e-8
"""Fraction of k(x, x) by which a similarity may violate positive semi-definiteness before it is rejected."""

ROUNDING: Final = 4.0 * float(np.finfo(np.float64).eps)
"""Multiple of tr K / γ that bounds the fraction of k(x, x) lost to rounding."""

MOST_TIMES: Final = 2**53
"""Largest value of `times`: larger integers are not exact as floats."""


class Capabilities(NamedTuple):
    """What a posterior offers beyond the interface. Callers read it instead of its type."""

    has_record: bool = False
    """Whether `record` holds the observations: distinct points, counts and reward sums (`RecordedPosterior`)."""

    has_factor: bool = False
    """Whether it keeps a Cholesky factor over the distinct points (`ExactPosterior.whitening`, `expect`)."""

    finds_best: bool = False
    """Whether `best` finds the best point without predicting all: in a finite feature space."""

    is_exact: bool = False
    """Whether means and widths are those of all observations, up to rounding."""

    forgets: bool = False
    """Whether older observations have a smaller weight or none: then widths can grow, and no confidence interval is
    proved."""

    array_library: str = "numpy"
    """Library of the arrays that `predict` and `covariance` return. Points of a kind are converted in `PointKind`, and
    results in `Prediction`; a posterior on another device converts in these two places."""


class Posterior(Transactional, ABC):
    """Mean and width of the reward at any point, given the observations.

    With A = K + γI over the observed points, y their rewards and k the similarities of x to them:

        mean(x)  = kᵀ A⁻¹ y
        width(x) = γ^(-1/2) · sqrt(k(x, x) − kᵀ A⁻¹ k)

    Before any observation the mean is 0 and the width sqrt(k(x, x) / γ). Repeated points are one point with a count. A
    posterior handles points and rewards; it has no notion of actions.

    Every public method may be called from any thread. Methods of the library's posteriors are atomic: they apply a
    change completely or not at all. So is every posterior inside a policy, which shares its lock with it.
    """

    kernel: Kernel
    regularization: float

    capabilities: Capabilities = Capabilities()
    """What it offers beyond this interface."""

    changes_form: bool = False
    """Whether its form, and with it the capabilities, changes with the data and the queries."""

    def _current_form(self, points: Points | None = None) -> Posterior:
        """Posterior that answers: the current form of one that changes it, otherwise itself.

        A query at these validated points may be a reason to change it.
        """
        return self

    @abstractmethod
    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        """Add one or many observations; each reward counts `times` times."""

    # -- for callers with validated arguments --------------------------------------------------------------------------

    def observe_one(self, point: Points, reward: float) -> None:
        """`observe` for a validated collection of one point and a finite reward."""
        self._observe_one(point, reward)

    def estimate(self, points: Points) -> Prediction:
        """`predict` for validated points."""
        return self._estimate(points)

    def best(self, points: Points, exploration: float) -> Selection | None:
        """Best of these validated points by mean + exploration · width, without `predict` for all.

        None if `predict` is required: for most posteriors, and if the bounds do not decide.
        """
        return self._best(points, exploration)

    # Variants inside a transaction: a policy holds the lock of its posterior, and its own call commits or rolls back.

    def _observe_one(self, point: Points, reward: float) -> None:
        self.observe(point, [reward])

    @abstractmethod
    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        """Replace rewards of observed points; widths do not depend on rewards.

        `numbers` are values of `last_number`, needed if it matters which observation of a point is meant.
        """

    @abstractmethod
    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        """Remove observations, exactly; `numbers` as in `amend`."""

    @property
    def last_number(self) -> int | None:
        """Number of the latest observation; None if all observations of a point are equivalent."""
        return None

    has_policy: bool = False
    """Whether a policy uses this posterior."""

    n_merged: int = 0
    """Observations whose points are no longer stored: they count in every prediction and cannot be changed."""

    def _join(self, journal: Journal) -> None:
        """Join the transactions of a policy or of another posterior."""
        self._journal = journal

    def _note_change(self) -> None:
        """Record how to undo the next change.

        The default records a copy of all attributes, for user-defined posteriors. The library's posteriors record less,
        where they make the change.
        """
        self._note_copy()

    @abstractmethod
    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """Mean from the data; width from the data and from the `pending` points, as if they had been observed."""

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
        """Alternate `best` and `observe_one` for rounds × points × columns; return rows, means and widths.

        The points need not be validated before: it stops at numbers that are not finite, or rejects them.
        """
        return NO_SLOTS, NOTHING, NOTHING

    @property
    @handles_transaction
    def is_well_posed(self) -> bool:
        """Whether the kernel is PSD-certified and the system is well conditioned; then no call is rejected."""
        return False

    @property
    @handles_transaction
    def plays(self) -> bool:
        """Whether `_play` has an implementation; most posteriors have none."""
        return False

    @abstractmethod
    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        """Posterior covariance divided by γ; its diagonal is width²."""

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """Covariance of the weighted sum Σ w f(x) over the points with the reward at each of the others, divided by γ.

        Equals weights @ covariance(points, others), without storing that matrix.
        """
        points, others = self.kernel.kind.check(points), self.kernel.kind.check(others)
        total = np.zeros(self.kernel.kind.count(others))
        for block, part in blocks(self.kernel.kind, points, len(total)):
            total += weights[block] @ self.covariance(part, others)
        return total

    @abstractmethod
    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """Distinct points, dual weights α, counts and reward sums of the stored observations; requires an observation.

        mean = Σ α k, if no observations were merged.
        """

    def weights_for(self, values: Matrix) -> Matrix:
        """Dual weights for other mean rewards of the `support` points: (K + γ D⁻¹)⁻¹ values, D = diag(counts).

        One column per right-hand side, one row per point. Computed from the fit f, as γα = s − n f; requires an
        observation.
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
        """Number of distinct points stored."""

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """Number of observations, including repeats."""

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
        """Independent copy; the kernel is immutable and shared."""
        return copy.deepcopy(self)

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore` needs."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; only before any observation."""


class RecordedPosterior(Posterior):
    """Base class of posteriors that store their observations: validation and bookkeeping here, algebra in the subclass.

    The record is authoritative, and the algebra is synchronized with it: immediately if that may fail, so that a
    rejected call changes nothing, and otherwise when it is next needed.
    """

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        _import_ahead()
        self.kernel = a_kernel(kernel)
        self.regularization = checked_regularization(regularization)
        self.record = Observations(kernel.kind, self._journal)
        """Observations: distinct points in slots, their counts and reward sums."""
        self._largest_similarity = 0.0
        self._is_certified = kernel.is_certified

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        self.record.join(journal)

    def _note_change(self) -> None:
        """Record nothing: the observations record their own changes, and the algebra is derived from them."""

    @property
    @handles_transaction
    def is_well_posed(self) -> bool:
        return self._is_certified and self.regularization >= SMALLEST_REGULARIZATION * self._largest_similarity

    @abstractmethod
    def _follow(self, batch: Batch) -> None:
        """Update the algebra after a batch was added to the record, or raise."""

    @property
    def _may_wait(self) -> bool:
        """Whether the algebra may be synchronized later, since nothing can be rejected."""
        return False

    def _follow_one(self, point: Points, slot: int, reward: float) -> None:
        """Update the algebra after a single observation of a point, which is new if its slot was −1."""
        count, total, error = np.ones(1), np.array([reward]), np.zeros(1)
        none = (NO_SLOTS, NOTHING, NOTHING, NOTHING)
        if slot < 0:
            self._follow(Batch(self.kernel.kind.keys(point), point, count, total, error, *none, 1))
        else:
            self._follow(Batch([], None, NOTHING, NOTHING, NOTHING, np.array([slot]), count, total, error, 1))

    @abstractmethod
    def _observations_removed(self) -> None:
        """Update the algebra after observations were removed from the record."""

    @abstractmethod
    def _rewards_changed(self) -> None:
        """Update the algebra after reward sums of the record, and nothing else, have changed."""

    @abstractmethod
    def _undone(self, n_slots: int) -> None:
        """Invalidate what was derived from slots after the first `n_slots`: the record is rolled back."""

    _is_stale: bool = False
    """Whether the record was rolled back and the algebra, which is not synchronized automatically, must be
    recomputed."""

    def _settle(self) -> None:
        """Recompute the algebra if needed."""

    def _note(self) -> None:
        """Record that the algebra must be rolled back with the record; called before the record notes its change."""
        self._settle()
        self._journal.note(self._roll_back, self.record, self.record.n_slots, self._largest_similarity)

    def _roll_back(self, record: Observations, n_slots: int, largest_similarity: float) -> None:
        self._undone(n_slots if record is self.record else 0)
        self.record, self._largest_similarity = record, largest_similarity

    @abstractmethod
    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        """Mean and width² of validated points."""

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(points)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        self._update(self.record.sort(points, values, repeats))

    def _observe_one(self, point: Points, reward: float) -> None:
        self._observe_located(point, reward, *self.record.locate(point))

    def _observe_located(self, point: Points, reward: float, key: Hashable, slot: int) -> None:
        """Add one observation of a point with this key, which is new if its slot is −1."""
        record, before = self.record, self._largest_similarity
        largest = before
        if slot < 0:
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
                largest = self.kernel.diagonal(point).item()
            if not largest <= before:
                refuse_overflow(np.array([largest]))
                self._warn_if_ill_conditioned(largest)
        if self._is_stale:
            self._settle()
        may_wait = slot >= 0 and self._may_wait
        if not may_wait:  # else the algebra is unchanged; the record notes its change
            self._journal.notes.append((self._roll_back, (record, record.n_slots, before)))
        if largest > before:
            self._largest_similarity = largest
        record.add_one(point, key, slot, reward)  # rejects a sum of a known point that overflows
        if not (may_wait or self._may_wait):
            with self._refusing(), np.errstate(over="ignore", invalid="ignore"):
                self._follow_one(point, slot, reward)

    def absorb(self, points: Points, counts: Vector, sums: Vector, errors: Vector | None = None) -> None:
        """Adopt distinct points with their totals; only before any observation."""
        self._update(self.record.totals(points, counts, sums, errors), is_new=False)

    def _update(self, batch: Batch, *, is_new: bool = True) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
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
        self._rewards_changed()

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
            self._observations_removed()

    def _find(self, points: Points) -> Indices:
        """Slots of observed points; raises NotLearnt."""
        try:
            return self.record.find(points)
        except NotLearnt as error:
            if not self.n_merged:
                raise
            raise NotLearnt(
                f"{error} It may be one of the {self.n_merged} oldest observations, of which only sums are kept."
            ) from error

    # -- for callers that weight observations -------------------------------------------------------------------------

    def observe_weighted(self, points: Points, rewards: Vector, weights: Vector) -> None:
        """`observe` for validated points and rewards with weights that need not be integers."""
        self._update(self.record.sort(points, rewards, weights))

    def set_totals(self, keys: Sequence[Hashable], counts: Vector, sums: Vector) -> None:
        """Set the counts and reward sums of known points; a count of 0 removes the point."""
        self._note()
        self.record.set_totals(keys, counts, sums)
        with self._refusing():
            self._observations_removed()

    def discount(self, rate: float, gone: Sequence[Hashable]) -> None:
        """Multiply the weights of all observations by `rate`, and remove these points, whose weight is negligible."""
        self._note()
        self.record.discount(rate, gone)
        with self._refusing():
            self._fade(rate)

    def _fade(self, rate: float) -> None:
        """Update the algebra after the record was discounted."""
        self._observations_removed()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Convert a failed factorization into a clear error."""
        try:
            yield
        except np.linalg.LinAlgError as error:
            known = self.kernel.diagonal(self.record.points) if self.record.n_slots else NOTHING
            # Merged observations are no longer in the record, but still in the sums.
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
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
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
        """See `Posterior`; γα = s − n f, with f the fit at the observed points."""
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
        """Warn once, before any change, that such points are too large for the regularization."""
        limit = SMALLEST_REGULARIZATION * largest
        if self._is_well_posed and self.regularization < limit:
            warn_user(
                f"The regularization {self.regularization:.3g} is below 1e-8 times the largest k(x, x), {largest:.3g}, "
                f"so widths lose their digits. Take at least {limit:.3g}.",
                IllConditioned,
            )


@cache
def _import_ahead() -> None:
    """Import what later calls import: a process forked during an import would wait forever for the import lock."""
    for name in ("scipy.linalg.blas", "scipy.linalg.lapack", "scipy.sparse", "scipy.spatial.distance", "threadpoolctl"):
        import_module(name)


def refuse_overflow(*arrays: NDArray[np.float64]) -> None:
    """Raise InvalidContexts unless all numbers are finite: finite contexts can still have infinite similarities."""
    for array in arrays:
        if np.isfinite(array).all():
            continue
        raise InvalidContexts(
            "The similarities of these contexts overflow or are not numbers. Check the kernel's parameters and the "
            "scale of the contexts."
        )


def least_regularization(diagonal: Vector, counts: Vector) -> float:
    """Smallest γ at which rounding is harmless for these counts of points with these k(x, x).

    Above it widths are accurate, and the rounding error eps · tr K · k(x, x) / γ stays below the slack.
    """
    largest = float(diagonal.max()) * max(1.0, float(counts.max()))
    return max(SMALLEST_REGULARIZATION * largest, ROUNDING * float(diagonal @ counts) / SLACK)


def too_small(regularization: float, diagonal: Vector, counts: Vector) -> NumericalError:
    """Error for a γ that is lost in the rounding errors of these counts of points with these k(x, x)."""
    return NumericalError(
        f"The regularization {regularization:.3g} is too small beside similarities of up to {diagonal.max():.3g} of "
        f"{int(counts.sum())} observations: rounding errors are larger than it. Nothing was changed. Take a "
        f"regularization of at least {least_regularization(diagonal, counts):.2g}."
    )


def checked_regularization(regularization: float) -> float:
    """Validate a positive finite number; raise InvalidParameter otherwise."""
    try:
        value = check_positive(regularization, "The regularization")
    except InvalidParameter as error:
        raise InvalidParameter(
            f"The regularization has to be positive and finite ({1 / LARGEST:g} to {LARGEST:g}), got "
            f"{short_repr(regularization)}. It keeps the Gram matrix invertible; 1.0 is a good start."
        ) from error
    return value


def checked_rewards(rewards: ArrayLike, n_points: int) -> Vector:
    """Validate one finite number per point; raise InvalidReward otherwise."""
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
        return check_array(values, "Rewards")
    except InvalidParameter as error:
        raise InvalidReward(f"A reward has to be a real number, got {short_repr(values)}.") from error


def saved_totals(kind: PointKind, state: Mapping[str, NDArray[Any]]) -> tuple[Points, Vector, Vector, Vector]:
    """Distinct points, counts, reward sums and their rounding errors from a saved state; raises DamagedFile."""
    points = kind.check(kind.unpack(below("points.", state)))
    keys = kind.keys(points)
    if len(set(keys)) != len(keys):
        raise DamagedFile("A point stands in the file twice.")
    counts = saved_array(state, "counts", "f", (len(keys),), least=SMALLEST_COUNT, most=LARGEST_COUNT)
    return points, counts, *saved_sums(state, counts)


def checked_times(times: ArrayLike, n_points: int) -> Vector:
    """Validate a positive integer per point; raise InvalidParameter otherwise."""
    if isinstance(times, int) and times == 1:
        return np.ones(n_points)
    repeats = check_array(times, "`times`")
    if not (np.isfinite(repeats).all() and (repeats >= 1).all() and (repeats == np.round(repeats)).all()):
        raise InvalidParameter(f"`times` has to be whole numbers from 1, got {short_repr(times)}.")
    if repeats.size and repeats.max() > MOST_TIMES:
        raise InvalidParameter(f"`times` has to be at most {MOST_TIMES:,}, got {short_repr(times)}.")
    if repeats.ndim and repeats.shape != (n_points,):
        raise InvalidParameter(
            f"`times` has to be one number, or one per context ({n_points}), got shape {repeats.shape}."
        )
    return np.broadcast_to(repeats, (n_points,)).astype(np.float64)
