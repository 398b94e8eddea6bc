"""Exact selection engine of a catalog whose items are on another device, such as a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.posterior.device import Device, computes_on_device
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.catalog import Generation
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.synchronized_columns import RowIndex, is_row
from kernelbandits.selection.ties import TieBreaker, lowered, tied_for_best
from kernelbandits.types import Indices, Matrix, Points, Prediction, Selection, Vector, new_cost

__all__ = ["DeviceEngine"]

CHUNK_BYTES: Final = 4e9
"""Columns of all items are stored in chunks of about as many bytes."""

MOST_TRIES: Final = 8
"""Largest number of active sets tried in a round before all items are scored."""

SAFETY: Final = 1e-9
"""Fraction added to a bound, far above its rounding error."""


class _Effect(NamedTuple):
    """Effect of the pending points on all other items.

    With their covariances C and means at the last synchronization, their counts n and mean rewards ȳ since then,
    S = C + γ diag(1/n) = L Lᵀ and d = ȳ − mean, an item with covariances c has now

        mean + c S⁻¹ d   and   variance − c S⁻¹ cᵀ.
    """

    inverse: Matrix
    """L⁻¹."""

    residual: Vector
    """L⁻¹ d."""

    drift: float
    """Root of (S⁻¹ d)ᵀ C (S⁻¹ d)."""

    log_det: float
    """Ln det(I + diag(n) C / γ)."""

    def rise(self, beta: float) -> float:
        """Factor F: no score exceeds mean + F √variance of the last synchronization (Cauchy–Schwarz, two ways)."""
        factor = min(beta + self.drift, sqrt(beta * beta + float(self.residual @ self.residual)))
        return factor * (1.0 + SAFETY)


NO_EFFECT: Final = _Effect(np.zeros((0, 0)), np.zeros(0), 0.0, 0.0)


class _Pending:
    """Points observed since all items were synchronized."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.points: list[Points] = []
        self.columns: list[Any] = []  # each point's row of the columns of all items
        self.covariance: Matrix = np.zeros((0, 0))
        self.means: Vector = np.zeros(0)

    def effect(self, counts: Vector, sums: Vector, regularization: float) -> _Effect:
        """Effect of these points, observed as often and with these reward sums."""
        if not self.slots:
            return NO_EFFECT
        from scipy.linalg import cholesky, solve_triangular

        lower = cholesky(self.covariance + np.diag(regularization / counts), lower=True)
        inverse = solve_triangular(lower, np.eye(len(counts)), lower=True)
        residual = inverse @ (sums / counts - self.means)
        weights = inverse.T @ residual
        drift = sqrt(max(0.0, float(weights @ self.covariance @ weights)))
        log_det = 2.0 * float(np.log(np.diagonal(lower)).sum()) + float(np.log(counts / regularization).sum())
        return _Effect(inverse, residual, drift, log_det)


class _ActiveSet(NamedTuple):
    """Items whose means and variances are computed in every round."""

    rows: Indices
    points: Any
    columns: Any
    """Rows of the columns of all items."""

    means: Any
    variances: Any
    """At the last synchronization, as are the covariances."""

    covariances: Any
    """With the pending points."""

    other_means: Any
    """Means of all items, and −∞ for those of the set."""

    other_roots: Any
    """Roots of the variances of all items."""


class _Block(NamedTuple):
    """Points that entered the columns of all items together."""

    points: Points
    columns: Any
    """Their rows of the columns before this block."""

    inverse: Any
    """L⁻ᵀ: maps covariances with these points to the columns of the block."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Sizes by which a device engine divides its work."""

    most_pending: int = 64
    """Distinct pending points; beyond it, all items are synchronized in one matrix product."""

    most_active: int = 4096
    """Items of a new active set. It is chosen again when it has grown to twice as many."""

    most_columns: int = 1024
    """Largest number of columns of a chunk."""

    items_at_once: int = 1_000_000
    """Items whose similarities are computed at once: 512 MB for 64 points."""


class DeviceEngine(Selector):
    """Mean and variance of every item of a catalog on a device, synchronized with the observations of a posterior.

    Up to 64 distinct points are pending. Means and variances of an active set are computed in every round. All other
    items are bounded in one pass: by the Cauchy–Schwarz inequality, the score of an item with mean m and variance v at
    the last synchronization is at most m + F √v with one factor F for all items. Items whose bound reaches the best
    score join the active set. After 64 distinct points all items are synchronized by matrix products: 64·m
    multiplications per item and m columns, at the speed of the device.

    The results are those of `CatalogEngine`, and the record is read in the same way: delayed, amended and removed
    rewards need no special handling. After an amended or removed reward, everything is computed from the counts.

    Memory on the device is 8·N·m bytes; an observation that does not fit raises `OutOfMemory`.
    """

    def __init__(
        self,
        points: Points,
        kernel: Kernel,
        regularization: float,
        device: Device,
        limits: DeviceLimits | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.regularization, self._device = kernel, regularization, device
        self._limits = DeviceLimits() if limits is None else limits
        self._root = sqrt(regularization)
        self.generation = Generation()
        """Generation of the catalog whose rows these are."""
        self._record: Any = None
        self._take(points)

    def _take(self, points: Points) -> None:
        self._points = points
        self._index: RowIndex | None = None
        self._chosen = -1
        self._on_device = self._device.array(points) if computes_on_device(self.kernel, points) else None
        self.n_items: int = self.kernel.kind.count(points)
        """Number of items that the engine covers; the catalog may have grown since."""
        self._start()

    @property
    def n_bytes(self) -> int:
        """Memory in bytes on the device, without the points."""
        return 8 * self.n_items * (4 + sum(int(chunk.shape[1]) for chunk in self._chunks))

    # -- synchronization -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin before any observation."""
        device = self._device
        self._means = device.zeros(self.n_items)
        self._variances = device.array(self.kernel.diagonal(self._points))
        self._chunks: list[Any] = []  # columns of all items, V: what is explained of their covariances is V Vᵀ
        self._used: list[int] = []  # columns of every chunk that are in use
        self._weights: Vector = np.zeros(0)  # mean = V weights
        self._n_columns = 0
        self._blocks: list[_Block] = []
        self._log_det = 0.0
        self._counts, self._sums = np.zeros(0), np.zeros(0)  # totals of the slots when V was synchronized
        self._version = -1
        self._begin()

    def _begin(self) -> None:
        """Begin without pending points."""
        self._pending = _Pending()
        self._effect = NO_EFFECT
        self._active: _ActiveSet | None = None

    def synchronize(self, record: Observations) -> None:
        """Use this record from now on; each query reads its current state."""
        if record is not self._record:
            self.is_finished = False
            self._record = record
            self._start()
            self.is_finished = True

    def grow(self, points: Points) -> None:
        """Add catalog items: `points` are all items, the previous ones first and unchanged."""
        if self.kernel.kind.count(points) > self.n_items:
            self.is_finished = False
            self._take(points)
            self.is_finished = True

    def follow(self, generation: Generation, points: Points) -> bool:
        """Whether no item was removed from the catalog up to this generation; otherwise a new engine is needed."""
        return generation is self.generation

    def _catch_up(self) -> None:
        """Bring the pending points up to date with the record."""
        record = self._record
        if record.version == self._version:
            return
        counts, sums = record.counts, record.sums
        if self._is_outdated(counts, sums):
            self._start()
        before, summed = _padded(self._counts, len(counts)), _padded(self._sums, len(counts))
        fresh = np.setdiff1d(np.flatnonzero(counts > before), self._pending.slots)
        for slot in fresh.tolist():
            if len(self._pending.slots) == self._limits.most_pending:
                self._settle(counts, sums)
                before, summed = _padded(self._counts, len(counts)), _padded(self._sums, len(counts))
            self._add_pending(slot)
        slots = self._pending.slots
        self._effect = self._pending.effect((counts - before)[slots], (sums - summed)[slots], self.regularization)
        self._version = record.version

    def _is_outdated(self, counts: Vector, sums: Vector) -> bool:
        """Whether rewards that are in the columns were amended or removed."""
        n_known = len(self._counts)
        if n_known > len(counts) or (counts[:n_known] < self._counts).any():
            return True
        is_amended = (counts[:n_known] == self._counts) & (sums[:n_known] != self._sums)
        before = _padded(self._counts, len(counts))
        return bool(is_amended.any() or any(counts[slot] <= before[slot] for slot in self._pending.slots))

    def _add_pending(self, slot: int) -> None:
        """Add a point to the pending ones, also to the active set."""
        pending, device, xp = self._pending, self._device, self._device.xp
        point = self.kernel.kind.take(self._record.points, np.array([slot]))
        row = self._row_of(point)
        column = self._column_of(point) if row < 0 else self._column_at(row)
        others = self.kernel.kind.stack(*pending.points, point)
        covariances = self.kernel.gram(others, point)[:, 0]
        if self._n_columns:
            rows = xp.stack([*pending.columns, column])
            covariances = covariances - device.numpy(rows @ column)
        covariance = np.empty((len(covariances), len(covariances)))
        covariance[:-1, :-1] = pending.covariance
        covariance[-1], covariance[:, -1] = covariances, covariances
        pending.covariance = covariance
        pending.means = np.append(pending.means, self._weights @ device.numpy(column))
        pending.slots.append(slot)
        pending.points.append(point)
        pending.columns.append(column)
        active = self._active
        if active is not None:
            more = self._covariances(active.points, active.columns, point, column)
            self._active = active._replace(covariances=xp.concat([active.covariances, more[:, None]], axis=1))

    def _covariances(self, items: Any, columns: Any, point: Points, column: Any) -> Any:
        """Covariances of items with a point at the last synchronization."""
        similar = self._similarity(items, point)[:, 0]
        return similar - columns @ column if self._n_columns else similar

    def _similarity(self, items: Any, points: Points) -> Any:
        """K of items, on the device or as points, with points."""
        if self._on_device is not None:
            return self.kernel.gram(items, self._device.array(points))
        return self._device.array(self.kernel.gram(items, points))

    def _row_of(self, point: Points) -> int:
        """Item that is this point, −1 if none is; most often it was chosen last."""
        if self._chosen >= 0 and is_row(self._points, self._chosen, point):
            return self._chosen
        if self._index is None:
            self._index = RowIndex(self.kernel.kind, self._points)
        return int(self._index.find(point)[0])

    def _column_at(self, row: int) -> Any:
        """Row of the columns for an item."""
        parts = [part[row, :] for _, part in self._filled()]
        return self._device.xp.concat(parts) if parts else self._device.zeros(0)

    def _column_of(self, point: Points) -> Any:
        """Row of the columns for any point: forward substitution, block by block."""
        device, xp = self._device, self._device.xp
        column = device.zeros(self._n_columns)
        done = 0
        for block in self._blocks:
            covariances = device.array(self.kernel.gram(block.points, point)[:, 0])
            if done:
                covariances = covariances - block.columns @ column[:done]
            size = covariances.shape[0]
            column[done : done + size] = xp.matmul(covariances, block.inverse)
            done += size
        return column

    def _settle(self, counts: Vector, sums: Vector) -> None:
        """Move the pending points into the columns of all items."""
        pending, device, xp = self._pending, self._device, self._device.xp
        slots = pending.slots
        if not slots:
            return
        before, summed = _padded(self._counts, len(counts)), _padded(self._sums, len(counts))
        effect = pending.effect((counts - before)[slots], (sums - summed)[slots], self.regularization)
        points = self.kernel.kind.stack(*pending.points)
        size, inverse = len(slots), device.array(effect.inverse.T)
        columns = xp.stack(pending.columns)
        filled = list(self._filled())
        chunk, first = self._room(size)
        residual = device.array(effect.residual)
        step = self._limits.items_at_once
        for start in range(0, self.n_items, step):
            rows = slice(start, min(self.n_items, start + step))
            covariances = self._similarity(self._part(rows), points)
            for offset, known in filled:
                covariances = covariances - known[rows, :] @ columns[:, offset : offset + known.shape[1]].T
            new = covariances @ inverse
            chunk[rows, first : first + size] = new
            self._means[rows] = self._means[rows] + new @ residual
            self._variances[rows] = self._variances[rows] - xp.sum(new * new, axis=1)
        self._blocks.append(_Block(points, columns, inverse))
        self._weights = np.append(self._weights, effect.residual)
        self._n_columns += size
        self._log_det += effect.log_det
        done, totals = before, summed
        done[slots], totals[slots] = counts[slots], sums[slots]
        self._counts, self._sums = done, totals
        self._begin()

    def _part(self, rows: slice) -> Any:
        if self._on_device is not None:
            return self._on_device[rows, :]
        return self.kernel.kind.take(self._points, np.arange(rows.start, rows.stop))

    def _room(self, n_columns: int) -> tuple[Any, int]:
        """Chunk with room for as many columns, and the first that is free; a block is never divided."""
        used = self._used
        if self._chunks and used[-1] + n_columns <= self._chunks[-1].shape[1]:
            used[-1] += n_columns
            return self._chunks[-1], used[-1] - n_columns
        limits = self._limits
        width = max(limits.most_pending, min(limits.most_columns, int(CHUNK_BYTES / 8 / self.n_items)))
        self._device.check_room(8.0 * self.n_items * width)
        self._chunks.append(self._device.zeros(self.n_items, width))
        used.append(n_columns)
        return self._chunks[-1], 0

    def _filled(self) -> Iterator[tuple[int, Any]]:
        """Columns in use, chunk by chunk, with the number of columns before."""
        first = 0
        for chunk, used in zip(self._chunks, self._used, strict=True):
            yield first, chunk[:, :used]
            first += used

    # -- selection -------------------------------------------------------------------------------------------------

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection:
        if actions.catalog is None:
            raise TypeError("A catalog engine selects among the items of its catalog.")
        self.is_finished = False
        beta = exploration / self._root
        self._catch_up()
        # Another thread may have added items to the catalog since this round began.
        is_whole = actions.rows is None and self.n_items == actions.n_rows
        found = self._search(beta) if is_whole and beta >= 0.0 else None
        if found is None:
            rows = np.arange(self.n_items) if is_whole else actions.view.rows
            found = (rows, *self._estimates(rows))
        rows, means, variances = found
        widths = np.sqrt(variances) / self._root
        tied = tied_for_best(means + exploration * widths)
        place, propensity = break_tie(tied)
        mean, width, self._chosen = float(means[place]), float(widths[place]), int(rows[place])
        row = self._chosen if actions.rows is None else int(np.searchsorted(actions.rows, self._chosen))
        cost = new_cost(("device", actions.n_actions, len(rows), len(rows), int(len(rows) < actions.n_actions)))
        self.is_finished = True
        return Selection(row, mean, width, mean + exploration * width, propensity, cost=cost)

    def _search(self, beta: float) -> tuple[Indices, Vector, Vector] | None:
        """Rows, means and variances of all items that may be the best; None if too many may be it."""
        for _ in range(MOST_TRIES):
            if self._active is None:
                self._activate(self._best_rows(beta))
            assert self._active is not None
            active, rise = self._active, self._effect.rise(beta)
            means, variances, bound = self._active_values(active, rise)
            threshold = lowered(float((means + beta * np.sqrt(variances)).max()))
            if bound < threshold:
                return active.rows, means, variances
            bounds = self._device.numpy(active.other_means + rise * active.other_roots)
            rows = np.union1d(active.rows, np.flatnonzero(bounds >= threshold))
            if len(rows) <= 2 * self._limits.most_active:
                self._activate(rows)
            elif self._pending.slots:
                self._settle(self._record.counts, self._record.sums)
                self._effect = NO_EFFECT
            else:
                return None
        return None

    def _best_rows(self, beta: float) -> Indices:
        """Items with the highest scores at the last synchronization."""
        xp = self._device.xp
        scores = self._means + beta * _root_of(xp, self._variances)
        order = xp.argsort(scores, descending=True)[: min(self._limits.most_active, self.n_items)]
        return np.sort(np.asarray(self._device.numpy(order), dtype=np.intp))

    def _activate(self, rows: Indices) -> None:
        """Choose these items as the active set."""
        device, xp, pending = self._device, self._device.xp, self._pending
        places = xp.asarray(rows, device=device.device)
        if self._on_device is not None:
            points = xp.take(self._on_device, places, axis=0)
        else:
            points = self.kernel.kind.take(self._points, rows)
        columns = device.zeros(len(rows), 0)
        if self._n_columns:
            columns = xp.concat([xp.take(part, places, axis=0) for _, part in self._filled()], axis=1)
        covariances = device.zeros(len(rows), 0)
        if pending.slots:
            covariances = self._similarity(points, self.kernel.kind.stack(*pending.points))
            if self._n_columns:
                covariances = covariances - columns @ xp.stack(pending.columns).T
        is_other = np.ones(self.n_items, dtype=np.bool_)
        is_other[rows] = False
        outside = xp.asarray(is_other, device=device.device)
        self._active = _ActiveSet(
            rows,
            points,
            columns,
            xp.take(self._means, places),
            xp.take(self._variances, places),
            covariances,
            xp.where(outside, self._means, xp.full((self.n_items,), -inf, dtype=xp.float64, device=device.device)),
            _root_of(xp, self._variances),
        )

    def _active_values(self, active: _ActiveSet, rise: float) -> tuple[Vector, Vector, float]:
        """Means and variances of the active set, and the largest bound of all other items."""
        device, xp = self._device, self._device.xp
        means, variances = active.means, active.variances
        if self._pending.slots:
            effect = device.array(np.vstack([self._effect.inverse, self._effect.residual]))
            explained = active.covariances @ effect[:-1, :].T
            means = means + explained @ effect[-1, :]
            variances = variances - xp.sum(explained * explained, axis=1)
        bound = xp.max(active.other_means + rise * active.other_roots)
        values = device.numpy(xp.concat([means, variances, xp.reshape(bound, (1,))]))
        n_rows = len(active.rows)
        return values[:n_rows], np.maximum(values[n_rows:-1], 0.0), float(values[-1])

    # -- other queries ---------------------------------------------------------------------------------------------

    def _estimates(self, rows: Indices) -> tuple[Vector, Vector]:
        """Means and variances of these items, after all items were synchronized."""
        if self._pending.slots:
            self._settle(self._record.counts, self._record.sums)
            self._effect = NO_EFFECT
        means, variances = self._device.numpy(self._means), self._device.numpy(self._variances)
        return means[rows], np.maximum(variances[rows], 0.0)

    def estimate(self, rows: Indices | None = None) -> Prediction:
        """Mean and width of these items, or of all items if `rows` is None."""
        self.is_finished = False
        self._catch_up()
        means, variances = self._estimates(np.arange(self.n_items) if rows is None else np.asarray(rows))
        self.is_finished = True
        return Prediction(means, np.sqrt(variances) / self._root)

    def log_det_gain(self) -> float:
        """Ln det(I + K/γ) over the record."""
        self.is_finished = False
        self._catch_up()
        self.is_finished = True
        return self._log_det + self._effect.log_det


def _padded(totals: Vector, size: int) -> Vector:
    """Copy with zeros for later slots."""
    padded = np.zeros(size)
    padded[: len(totals)] = totals
    return padded


def _root_of(xp: Any, values: Any) -> Any:
    return xp.sqrt(xp.clip(values, min=0.0))
