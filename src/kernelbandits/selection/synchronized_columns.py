"""Column log of all catalog items, synchronized with the observations of a posterior; index of catalog rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import batch_updates, column_log
from kernelbandits.selection._catalog_loops import DRIFT, UPDATES, loops
from kernelbandits.selection.column_log import DRIFT_LIMIT, ColumnLog
from kernelbandits.selection.similarities import FixedPoints
from kernelbandits.types import Indices, Matrix, Points

__all__ = ["RowIndex", "SynchronizedColumns", "is_row"]

ROWS_AT_ONCE: Final = 65_536
"""Rows whose fingerprints are computed together: a few megabytes at a time."""


class RowIndex:
    """Index that finds the lowest row holding a given point.

    Numeric rows are sorted by a 64-bit fingerprint and compared in full if it matches: 16 bytes per row and a fraction
    of a second for a million rows. Other points are stored in a dictionary by their keys.
    """

    def __init__(self, kind: PointKind, points: Points) -> None:
        self._kind, self._points = kind, points
        self._rows: dict[Hashable, int] = {}
        self._order: Indices | None = None
        if isinstance(points, np.ndarray):
            self._factors = _factors(points.shape[1])
            fingerprints = _fingerprints(points, self._factors)
            self._order = np.argsort(fingerprints, kind="stable")
            self._sorted = fingerprints[self._order]
        else:
            for row, key in enumerate(kind.keys(points)):
                self._rows.setdefault(key, row)

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        return 100 * len(self._rows) if self._order is None else 16 * len(self._order)

    def find(self, points: Points) -> Indices:
        """Lowest row of each of the points, −1 if it is not found."""
        if self._order is None or not isinstance(points, np.ndarray):
            return np.array([self._rows.get(key, -1) for key in self._kind.keys(points)], dtype=np.intp)
        if points.shape[1] != self._points.shape[1]:
            return np.full(len(points), -1, dtype=np.intp)
        found = np.full(len(points), -1, dtype=np.intp)
        fingerprints = _fingerprints(points, self._factors)
        for place, start in enumerate(np.searchsorted(self._sorted, fingerprints)):
            for row in self._order[start : np.searchsorted(self._sorted, fingerprints[place], side="right")]:
                if np.array_equal(self._points[row], points[place]):
                    found[place] = row
                    break
        return found


def _factors(n_columns: int) -> NDArray[np.uint64]:
    """Odd multipliers, the same in every process."""
    return np.random.default_rng(n_columns).integers(2**63, size=n_columns, dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )


def _fingerprints(rows: Matrix, factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Σ_column bits · factor modulo 2⁶⁴; adding 0.0 maps −0.0 to 0.0."""
    fingerprints = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        bits = np.ascontiguousarray(rows[start : start + ROWS_AT_ONCE] + 0.0).view(np.uint64)
        fingerprints[start : start + ROWS_AT_ONCE] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return fingerprints


ROOM: Final = 512_000_000
"""Largest memory in bytes for runs of points that have a later run; beyond it the log is rebuilt with one run per
point."""

LEAST_EXTRA: Final = 32
"""Number of such runs that are always allowed, of any size."""

MOST_EXTRA: Final = 512
"""Largest number of such runs for fewer points than this: a rebuild costs about as much as reading m² columns, so it
should not be needed more often than every m runs."""

UPDATES_PER_CHECK: Final = 16
"""Updates between two checks whether a rebuild is due."""

UPDATES_PER_REBUILD: Final = 5_000
"""Updates after which the log is rebuilt in any case at γ = 0.005 and below; proportionally more above. Measured on 150
points of a line, 6,000 updates without a rebuild leave errors of 2e-15 in v and 1e-11 in the mean at γ = 0.001."""

BLOCK_OF_CHANGES: Final = 4
"""Number of changed points from which they are applied together, by matrix products."""


class SynchronizedColumns:
    """Column log of all catalog items, synchronized with a record by applying the differences.

    More observations of a point are a pull, a changed sum alone changes the means, and any other change (removed
    observations, sums that decreased from far above, another record) leads to a rebuild from the counts. Points of the
    record that are not items have columns after those of the items.
    """

    def __init__(self, points: Points, kernel: Kernel, regularization: float) -> None:
        self.kernel, self.regularization, self.points = kernel, regularization, points
        self.n_items = kernel.kind.count(points)
        self.log = ColumnLog(kernel.diagonal(points), regularization)
        self.record = Observations(kernel.kind)
        self.checks_drift = True
        self.n_rebuilds = 0
        self._outside: Points | None = None
        self._fixed_points = FixedPoints(kernel, points)
        self._largest = float(self.log.prior.max())
        self._index: RowIndex | None = None
        self.next_check = float(UPDATES_PER_CHECK)

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        held = self.log.n_bytes + self._fixed_points.n_bytes
        return held + (0 if self._index is None else self._index.n_bytes)

    def start(self, record: Observations) -> None:
        """Synchronize with another record."""
        self.record, self._outside = record, None
        if self.log.size > self.n_items:
            self.log = ColumnLog(self.log.prior[: self.n_items], self.regularization)
        self.log.n_slots = 0
        self.begin_again()

    def find_new(self, guess: int = -1) -> Indices:
        """Items in new slots of the record, −1 for none; `guess` is an item that is likely the new one."""
        log, record, kind = self.log, self.record, self.kernel.kind
        new = kind.take(record.points, np.arange(log.n_slots, record.n_slots))
        if guess >= 0 and record.n_slots == log.n_slots + 1 and is_row(self.points, guess, new):
            return np.array([guess])
        if self._index is None:
            self._index = RowIndex(kind, self.points)
        return self._index.find(new)

    def meet(self, places: Indices) -> None:
        """Register new slots, whose points are these items."""
        log, kind = self.log, self.kernel.kind
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            outside = self.slot_points(log.n_slots + unknown)
            places[unknown] = log.size + np.arange(len(unknown))
            self._insert(log.size, outside)
            self._outside = outside if self._outside is None else kind.stack(self._outside, outside)
        log.meet(places)

    def grow(self, points: Points) -> None:
        """Add items: `points` are all items, the previous ones first and unchanged."""
        n_items = self.kernel.kind.count(points)
        new = self.kernel.kind.take(points, np.arange(self.n_items, n_items))
        self._insert(self.n_items, new)
        self.points, self.n_items, self._index = points, n_items, None
        self._fixed_points = FixedPoints(self.kernel, points)

    def keep(self, rows: Indices, points: Points) -> None:
        """Keep these items only; `points` are their points and possibly more.

        An item that was observed becomes a point that is not an item.
        """
        kind, log = self.kernel.kind, self.log
        observed = np.setdiff1d(log.places[(log.places >= 0) & (log.places < self.n_items)], rows)
        if len(observed):
            outside = kind.take(self.points, observed)
            self._outside = outside if self._outside is None else kind.stack(self._outside, outside)
        column_log.keep(log, np.concatenate([rows, np.arange(self.n_items, log.size), observed]))
        self.points, self.n_items, self._index = kind.take(points, np.arange(len(rows))), len(rows), None
        self._fixed_points = FixedPoints(self.kernel, self.points)
        self._largest = float(log.prior.max())

    def _insert(self, place: int, points: Points) -> None:
        """Insert columns for more points."""
        gram, prior = self.kernel.gram, self.kernel.diagonal(points)
        column_log.insert(self.log, place, prior, lambda slots: gram(self.slot_points(slots), points))
        self._largest = max(self._largest, float(prior.max()))

    def changed(self, log: ColumnLog) -> list[int]:
        """Slots whose count or sum differs from the one applied to this log."""
        found = np.empty(self.record.n_slots, dtype=np.int64)
        n_found = loops.changes(self.record.counts, self.record.sums, log.applied, found)
        slots: list[int] = found[:n_found].tolist()
        return slots

    def update(self, slots: list[int]) -> None:
        """Synchronize the log after a change of these slots."""
        self.tidy()
        log, counts, sums = self.log, self.record.counts, self.record.sums
        changed = np.array(slots, dtype=np.int64)
        more = counts[changed] - log.applied[0, changed]
        pulled, amended = changed[more > 0.0], changed[more == 0.0]
        has_shrunk = (more < 0.0).any() or log.has_fallen(sums)
        if has_shrunk or len(pulled) > max(BLOCK_OF_CHANGES, log.n_runs):
            self.begin_again()
            return
        if len(pulled) >= BLOCK_OF_CHANGES:
            batch_updates.pull_many(log, pulled, counts[pulled], sums[pulled], self.similarities)
        else:
            for slot in pulled.tolist():
                log.pull(slot, counts.item(slot), sums.item(slot), self.similarities)
        for slot in amended.tolist():
            log.change_sum(slot, sums.item(slot))

    def tidy(self) -> None:
        """Merge the tail of the log, or rebuild the log, if due."""
        log = self.log
        if log.n_runs >= log.next_look:
            batch_updates.shorten(log)
        if log.state.item(UPDATES) >= self.next_check:
            self.next_check = log.state.item(UPDATES) + UPDATES_PER_CHECK
            if self._must_begin_again():
                self.begin_again()

    def _must_begin_again(self) -> bool:
        log = self.log
        extra = max(LEAST_EXTRA, min(ROOM // (8 * log.size), max(MOST_EXTRA, log.n_points)))
        if log.n_runs >= log.n_points + extra:
            return True
        if not self.checks_drift:
            return False
        if log.state.item(DRIFT) > DRIFT_LIMIT * self._largest:
            return True
        return log.state.item(UPDATES) >= UPDATES_PER_REBUILD * max(1.0, self.regularization / 0.005)

    def begin_again(self) -> None:
        """Rebuild everything from the counts of the record, most recently pulled points last."""
        log, record = self.log, self.record
        if record.n_slots > log.n_slots:
            batch_updates.rebuild(log, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), self.similarities)
            self.meet(self.find_new())
        live = np.flatnonzero(record.counts)
        last_run = log.last_run[live]
        live = live[np.argsort(np.where(last_run < 0, log.n_runs, last_run), kind="stable")]
        batch_updates.rebuild(log, live, record.counts[live], record.sums[live], self.similarities)
        self.next_check = UPDATES_PER_CHECK
        self.n_rebuilds += 1

    # -- similarities ----------------------------------------------------------------------------------------------

    def slot_points(self, slots: Indices) -> Points:
        """Points of these slots of the record."""
        return self.kernel.kind.take(self.record.points, np.asarray(slots))

    def similarities(self, slots: Indices, out: Matrix) -> None:
        """Write k(·, x) of these slots' points with all items, followed by the points that are not items."""
        points = self.slot_points(slots)
        self._fixed_points.write(points, out[:, : self.n_items])
        if self._outside is not None:
            out[:, self.n_items :] = self.kernel.gram(points, self._outside)

    def between(self, slots: Indices, others: Indices) -> Matrix:
        """Similarities between the points of two lists of slots."""
        return self.kernel.gram(self.slot_points(slots), self.slot_points(others))


def is_row(points: Points, row: int, one: Points) -> bool:
    """Whether a numeric row equals this point."""
    return isinstance(points, np.ndarray) and isinstance(one, np.ndarray) and np.array_equal(points[row], one[0])
