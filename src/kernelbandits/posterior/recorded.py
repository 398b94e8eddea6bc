"""Base class of posteriors that store their observations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array, saved_sums
from kernelbandits._transactions import Journal, handles_transaction
from kernelbandits.errors import DamagedFile, IllConditioned, NotLearnt, warn_user
from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.kernels.base import check_kernel
from kernelbandits.posterior.base import (
    SMALLEST_REGULARIZATION,
    Capabilities,
    Posterior,
    check_no_overflow,
    checked_regularization,
    checked_rewards,
    checked_times,
    too_small,
)
from kernelbandits.posterior.observations import NO_SLOTS, NOTHING, Batch, Observations
from kernelbandits.posterior.pending import Pending
from kernelbandits.types import Indices, Points, Prediction, Vector

__all__ = ["RecordedPosterior", "saved_totals"]

SMALLEST_COUNT: Final = 5e-324
LARGEST_COUNT: Final = 2.0**53
"""Largest count of a point in a file. Counts are positive, possibly fractional because of forgetting, and small enough
that adding one changes them."""


class RecordedPosterior(Posterior):
    """Base class of posteriors that store their observations: validation and bookkeeping here, algebra in the subclass.

    The record is authoritative, and the algebra is synchronized with it: immediately if that may fail, so that a
    rejected call changes nothing, and otherwise when it is next needed.
    """

    capabilities = Capabilities(has_record=True, is_exact=True)

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        _import_ahead()
        self.kernel = check_kernel(kernel)
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
    def _apply(self, batch: Batch) -> None:
        """Update the algebra after a batch was added to the record, or raise."""

    @property
    def _may_wait(self) -> bool:
        """Whether the algebra may be synchronized later, since nothing can be rejected."""
        return False

    def _apply_one(self, point: Points, slot: int, reward: float) -> None:
        """Update the algebra after a single observation of a point, which is new if its slot was −1."""
        count, total, error = np.ones(1), np.array([reward]), np.zeros(1)
        none = (NO_SLOTS, NOTHING, NOTHING, NOTHING)
        if slot < 0:
            self._apply(Batch(self.kernel.kind.keys(point), point, count, total, error, *none, 1))
        else:
            self._apply(Batch([], None, NOTHING, NOTHING, NOTHING, np.array([slot]), count, total, error, 1))

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

    def _synchronize(self) -> None:
        """Recompute the algebra if needed."""

    def _note(self) -> None:
        """Record that the algebra must be rolled back with the record; called before the record notes its change."""
        self._synchronize()
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
                check_no_overflow(np.array([largest]))
                self._warn_if_ill_conditioned(largest)
        if self._is_stale:
            self._synchronize()
        may_wait = slot >= 0 and self._may_wait
        if not may_wait:  # else the algebra is unchanged; the record notes its change
            self._journal.notes.append((self._roll_back, (record, record.n_slots, before)))
        if largest > before:
            self._largest_similarity = largest
        record.add_one(point, key, slot, reward)  # rejects a sum of a known point that overflows
        if not (may_wait or self._may_wait):
            with self._clear_errors(), np.errstate(over="ignore", invalid="ignore"):
                self._apply_one(point, slot, reward)

    def absorb(self, points: Points, counts: Vector, sums: Vector, errors: Vector | None = None) -> None:
        """Adopt distinct points with their totals; only before any observation."""
        self._update(self.record.totals(points, counts, sums, errors), is_new=False)

    def _update(self, batch: Batch, *, is_new: bool = True) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
            diagonal = self.kernel.diagonal(batch.points) if batch.keys else np.zeros(1)
            check_no_overflow(diagonal)
            largest = float(diagonal.max())
            if is_new:
                self._warn_if_ill_conditioned(largest)
            self._note()
            self.record.add(batch)
            self._largest_similarity = max(self._largest_similarity, largest)
            with self._clear_errors():
                self._apply(batch)

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
            raise NotLearnt(f"A point that was observed {seen} times cannot be removed more often than that.")
        self._note()
        self.record.subtract(slots, values)
        with self._clear_errors():
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
        with self._clear_errors():
            self._observations_removed()

    def discount(self, rate: float, gone: Sequence[Hashable]) -> None:
        """Multiply the weights of all observations by `rate`, and remove these points, whose weight is negligible."""
        self._note()
        self.record.discount(rate, gone)
        with self._clear_errors():
            self._discounted(rate)

    def _discounted(self, rate: float) -> None:
        """Update the algebra after the record was discounted."""
        self._observations_removed()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
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
        return self._estimate(points) if pending is None else Pending(self, pending).estimate(points)

    def _estimate(self, points: Points) -> Prediction:
        return self._checked(points, self._predict)

    def _checked(self, points: Points, predict: Callable[[Points], tuple[Vector, Vector]]) -> Prediction:
        """Prediction by a function that returns means and squared widths."""
        self._synchronize()
        if self.record.n_slots:
            self.kernel.kind.validate_comparable(self.record.points, points)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
            mean, squared = predict(points)
        check_no_overflow(mean, squared)
        return Prediction(mean, np.sqrt(squared))

    @property
    def size(self) -> int:
        return self.record.size

    @property
    def n_observations(self) -> int:
        return self.record.n_observations + self.n_merged

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """See `Posterior`; γα = s − n f, with f the fit at the observed points."""
        self._synchronize()
        points, counts, sums = self.record.stored()
        fit, _ = self._predict(points)
        return points, (sums - counts * fit) / self.regularization, counts, sums

    def state(self) -> dict[str, NDArray[Any]]:
        if not self.size:
            return {}
        points, counts, sums = self.record.stored()
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


def saved_totals(kind: PointKind, state: Mapping[str, NDArray[Any]]) -> tuple[Points, Vector, Vector, Vector]:
    """Distinct points, counts, reward sums and their rounding errors from a saved state; raises DamagedFile."""
    points = kind.check(kind.unpack(below("points.", state)))
    keys = kind.keys(points)
    if len(set(keys)) != len(keys):
        raise DamagedFile("A point stands in the file twice.")
    counts = saved_array(state, "counts", "f", (len(keys),), least=SMALLEST_COUNT, most=LARGEST_COUNT)
    return points, counts, *saved_sums(state, counts)
