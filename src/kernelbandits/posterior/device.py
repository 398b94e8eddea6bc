"""Exact posterior on another device, such as a GPU: products with the inverse factor instead of substitution."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from importlib import import_module
from math import ceil, log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits._optional import import_optional
from kernelbandits._transactions import inside_transaction
from kernelbandits.errors import InvalidParameter, NotSupported, OutOfMemory
from kernelbandits.kernels import Kernel, Rows
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.base import Capabilities
from kernelbandits.posterior.observations import EMPTY_SHARE, Batch
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Indices, Matrix, Points, Vector
from kernelbandits.validation import short_repr

__all__ = ["Device", "DevicePosterior", "InverseFactor", "checked_device", "computes_on_device"]

PENDING: Final = 64
"""Rows that wait until they enter the inverse factor together, by one matrix product."""

FIRST_ROWS: Final = 1024
"""Rows of the first block of the inverse factor."""

ROWS_PER_BLOCK: Final = 8
"""A later block has an eighth of the rows before it: the zeros beside its diagonal are few, and so are the blocks."""

ROWS_AT_ONCE: Final = 512
"""Rows of many new points that are appended at once, by the Cholesky factor of their corner."""

FEW_ROWS: Final = 4
"""Number of new rows up to which each is appended as a pending row."""

SPARE_ROWS: Final = 64
"""Rows of repeated points, beyond the number of distinct points, from which the factor is rebuilt without repeats."""

BYTES_PER_ENTRY: Final = 24
"""Memory of a Nyström posterior per squared point of its budget, for the remedy in an error message."""


class Device:
    """Array library and device on which a posterior computes.

    Parameters
    ----------
    name
        "cuda", "cuda:1", … for a GPU; "cpu" for arrays of the library in ordinary memory.
    library
        "torch", or the name of a module that implements the array API standard.
    """

    def __init__(self, name: str = "cuda", library: str = "torch") -> None:
        self.name, self.library = checked_device(name), library
        self._torch: Any = None
        if isinstance(library, str) and library == "torch":
            self._torch = import_optional("torch", "Computing on another device", extra="gpu")
            self.xp: Any = import_optional("array_api_compat.torch", "Computing on another device", extra="gpu")
            self.device = self._found()
        else:
            self.xp, self.device = _standard_library(library), None

    def _found(self) -> Any:
        """The device of PyTorch with this name; raises InvalidParameter if there is none."""
        torch = self._torch
        try:
            device = torch.device(self.name)
        except RuntimeError as error:
            raise InvalidParameter(
                f"The device must be 'cpu', 'cuda' or 'cuda:0' and so on, got {short_repr(self.name)}."
            ) from error
        if device.type not in ("cpu", "cuda"):
            raise InvalidParameter(
                f"Models are exact in double precision, and a device of the type {device.type!r} may not have it. "
                "Use 'cuda' or 'cpu'."
            )
        n_found = torch.cuda.device_count() if device.type == "cuda" else 1
        if (device.index or 0) >= n_found:
            there = f"finds {n_found}" if n_found else "finds none"
            raise InvalidParameter(
                f"device={self.name!r} needs a GPU that PyTorch can use, and it {there} here. Leave the device out to "
                "compute on the processor."
            )
        return device

    def __reduce__(self) -> tuple[type[Device], tuple[str, str]]:
        return Device, (self.name, self.library)

    def array(self, values: Any) -> Any:
        """Copy of a NumPy array on the device, in double precision."""
        return self.xp.asarray(np.array(values, dtype=np.float64), device=self.device)

    def zeros(self, *shape: int) -> Any:
        """Array of zeros on the device."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def numpy(self, array: Any) -> Matrix:
        """Copy of an array of the device as a NumPy array."""
        return np.asarray(array.cpu() if self._torch is not None else array)

    def free_bytes(self) -> float:
        """Memory in bytes that can still be allocated."""
        if self._torch is not None and self.device.type == "cuda":
            cuda = self._torch.cuda
            unused = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
            return float(cuda.mem_get_info(self.device)[0] + unused)
        try:
            return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):  # not on every platform
            return float("inf")

    def check_room(self, n_bytes: float) -> None:
        """Raise OutOfMemory if an allocation of this size would fail."""
        free = self.free_bytes()
        if n_bytes > free:
            budget = int(sqrt(free / BYTES_PER_ENTRY) // 100 * 100)
            remedy = f"Bound the memory, by an approximation: budget={budget}." if budget else "Free memory first."
            raise OutOfMemory(
                f"The model needs {n_bytes / 1e9:.3g} GB more on device={self.name!r}, where {free / 1e9:.3g} GB are "
                f"free. Nothing was changed. {remedy}"
            )


def checked_device(name: str) -> str:
    """Validate the name of a device; whether it is there, `Device` finds out."""
    if not isinstance(name, str) or not name:
        raise InvalidParameter(f"The device must be 'cpu', 'cuda' or 'cuda:0' and so on, got {short_repr(name)}.")
    return name


def _standard_library(name: str) -> Any:
    """Module that implements the array API standard; raises InvalidParameter for anything else."""
    found = None
    if isinstance(name, str) and name.isidentifier():
        with suppress(ImportError):
            found = import_module(name)
    if not hasattr(found, "__array_api_version__"):
        raise InvalidParameter(
            "The array library must be 'torch' or a module that implements the array API standard, got "
            f"{short_repr(name)}."
        )
    return found


class _Block(NamedTuple):
    """Consecutive rows of the inverse factor, with all columns up to the last of their diagonal."""

    start: int
    stop: int
    """First row of the next block."""

    array: Any


class InverseFactor:
    """Inverse W = L⁻¹ of a growing Cholesky factor on a device: lower triangular, in blocks of rows.

    A product with W reads half of a square matrix, once, whatever the number of columns. The last rows, at most 64, are
    pending: for these the rows of L are kept, and the inverse of their corner of L. So a new row costs what its own
    length is, and W grows by 64 rows at once in one matrix product.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: list[_Block] = []
        self._rows: Any = None  # rows of L that are pending, without their corner
        self._corner: Any = None  # inverse of their corner
        self._n_pending = 0
        self._n_settled = 0

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._n_settled + self._n_pending

    @property
    def capacity(self) -> int:
        """Number of rows for which memory is allocated."""
        return self._blocks[-1].stop if self._blocks else 0

    def reserve(self, n_rows: int) -> None:
        """Allocate memory for as many rows; raises OutOfMemory before anything is allocated."""
        start = self.capacity
        if n_rows <= start:
            return
        shapes = []
        while start < n_rows:
            stop = start + max(FIRST_ROWS, ceil(start / ROWS_PER_BLOCK))
            shapes.append((start, stop))
            start = stop
        entries = sum((stop - begin) * stop for begin, stop in shapes) + 2 * PENDING * start
        self._device.check_room(8.0 * entries)
        added = [_Block(begin, stop, self._device.zeros(stop - begin, stop)) for begin, stop in shapes]
        rows = self._device.zeros(PENDING, start)
        if self._rows is not None:
            rows[:, : self._rows.shape[1]] = self._rows
        self._rows = rows
        if self._corner is None:
            self._corner = self._device.zeros(PENDING, PENDING)
        self._blocks += added

    def apply(self, columns: Any) -> Any:
        """W times a matrix with one row per row of the factor."""
        parts = [self._product(block, columns) for block in self._settled()]
        if self._n_pending:
            n, p = self._n_settled, self._n_pending
            rest = columns[n:, :]
            if parts:
                parts = [self._joined(parts)]
                rest = rest - self._rows[:p, :n] @ parts[0]
            parts.append(self._corner[:p, :p] @ rest)
        return self._joined(parts)

    def _settled(self) -> Iterator[_Block]:
        """Blocks as far as they are filled."""
        for start, stop, array in self._blocks:
            if start < self._n_settled:
                yield _Block(start, min(stop, self._n_settled), array)

    @staticmethod
    def _product(block: _Block, columns: Any) -> Any:
        return block.array[: block.stop - block.start, : block.stop] @ columns[: block.stop, :]

    def _joined(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else self._device.xp.concat(parts, axis=0)

    def append(self, row: Any, pivot: float) -> None:
        """Append one row of L: its entries before the diagonal, and the diagonal."""
        n, p = self._n_settled, self._n_pending
        self._rows[p, :n] = row[:n]
        if p:
            self._corner[p, :p] = (row[n:] @ self._corner[:p, :p]) / -pivot
        self._corner[p, p] = 1.0 / pivot
        self._n_pending = p + 1
        if self._n_pending == PENDING:
            self.settle()

    def append_many(self, columns: Any, inverse: Any) -> None:
        """Append rows of L: the transpose of what stands before their corner, and the inverse of the corner."""
        self.settle()
        self._put(columns.T, inverse)

    def settle(self) -> None:
        """Move the pending rows into W."""
        p, n = self._n_pending, self._n_settled
        if p:
            self._n_pending = 0
            self._put(self._rows[:p, :n], self._corner[:p, :p])
            self._corner[:, :] = 0.0

    def _put(self, rows: Any, inverse: Any) -> None:
        """Append [−C R W, C] to W, for rows R of L with the inverse C of their corner."""
        n, m = self._n_settled, inverse.shape[0]
        new = self._device.zeros(m, n + m)
        new[:, n:] = inverse
        if n:
            left = -(inverse @ rows)
            for start, stop, array in self._settled():
                new[:, :stop] += left[:, start:stop] @ array[: stop - start, :stop]
        for start, stop, array in self._blocks:
            first, last = max(start, n), min(stop, n + m)
            if first < last:
                array[first - start : last - start, :last] = new[first - n : last - n, :last]
        self._n_settled = n + m


class _Query(NamedTuple):
    """The last query, whose points may be observed next."""

    points: Points
    whitened: Any
    mean: Vector
    prior: Vector
    explained: Vector


class _Model:
    """Everything on the device that is derived from the record: never saved and never copied, but computed again."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.factor = InverseFactor(device)
        self.points: Any = None  # rows of all rows of the factor, where similarities are computed on the device
        self.roots: Any = None  # square roots of the counts of the rows
        self.targets: Any = None  # z = L⁻¹ D^(-½) s
        self.slots: list[int] = []  # slot of every row; a repeated point has several rows
        self.row_counts: list[float] = []
        self.counts: Vector = np.zeros(0)  # totals of the slots that are in the factor
        self.sums: Vector = np.zeros(0)
        self.log_determinant = 0.0
        self.trace = 0.0
        self.version = -1  # version of the record that this belongs to
        self.latest: _Query | None = None

    def __reduce__(self) -> tuple[type[_Model], tuple[Device]]:
        return _Model, (self.device,)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Model:
        return _Model(self.device)

    @property
    def n_rows(self) -> int:
        return self.factor.size

    def reserve(self, n_rows: int, n_columns: int) -> None:
        """Allocate memory for this many rows, whose points have `n_columns` columns; 0 if they stay on the host."""
        if n_rows <= self.factor.capacity:
            return
        self.factor.reserve(n_rows)
        capacity = self.factor.capacity
        self.roots, self.targets = (_longer(self.device, old, capacity) for old in (self.roots, self.targets))
        if n_columns:
            self.points = _longer(self.device, self.points, capacity, n_columns)


def _longer(device: Device, old: Any, *shape: int) -> Any:
    longer = device.zeros(*shape)
    if old is not None:
        longer[: old.shape[0], ...] = old
    return longer


class DevicePosterior(RecordedPosterior):
    """Exact posterior on a GPU: O(size²) per query, read once at the memory bandwidth of the device.

    It computes what `ExactPosterior` computes, in double precision, with W = L⁻¹ in place of a substitution with L:

        v = W D^½ k(x),   mean = vᵀz,   width² = (k(x, x) − vᵀv) / γ.

    The error of v is of the order of ε sqrt(1 + tr K / γ), as with substitution. A repeated point is one more row until
    half of the rows are repeats; then the factor is rebuilt from the distinct points. Similarities are computed on the
    device where the kernel is a formula of rows (`Kernel.takes_any_array`), and otherwise on the host. Points, rewards
    and predictions are NumPy arrays.

    Memory on the device is 4·size² bytes. An observation that does not fit raises `OutOfMemory` and changes nothing.

    Parameters
    ----------
    kernel
        A kernel that is certainly positive semi-definite (`Kernel.is_certified`).
    regularization
        γ > 0.
    device
        "cuda", "cuda:1", …; "cpu" computes with the same code on arrays of the library in ordinary memory.
    array_library
        "torch", or the name of a module that implements the array API standard.
    """

    def __init__(
        self, kernel: Kernel, *, regularization: float, device: str = "cuda", array_library: str = "torch"
    ) -> None:
        super().__init__(kernel, regularization=regularization)
        if not self._is_certified:
            raise NotSupported(
                "A model on another device needs a kernel that is certainly positive semi-definite, and "
                f"{kernel!r:.80} is a table or a function. Leave the device out."
            )
        self.device, self.array_library = device, array_library
        self.capabilities = Capabilities(has_record=True, is_exact=True, array_library=array_library)
        self._model = _Model(Device(device, array_library))

    @property
    @inside_transaction
    def arrays(self) -> Device:
        """Library and device of its arrays."""
        return self._model.device

    # -- synchronization -----------------------------------------------------------------------------------------------

    @property
    def _may_wait(self) -> bool:
        return True  # certified kernels are never rejected, and memory is reserved before

    def _observe_located(self, point: Points, reward: float, key: Hashable, slot: int) -> None:
        self._reserve(point, 1)
        super()._observe_located(point, reward, key, slot)

    def _update(self, batch: Batch, *, is_new: bool = True) -> None:
        points = batch.points if batch.keys else self.record.points
        self._reserve(points, len(batch.keys) + len(batch.slots))
        super()._update(batch, is_new=is_new)

    def _reserve(self, points: Points, n_more: int) -> None:
        """Allocate memory for observations before they are recorded."""
        n_columns = points.shape[1] if computes_on_device(self.kernel, points) else 0
        self._model.reserve(max(self._model.n_rows, self.record.n_slots) + n_more, n_columns)

    def _apply(self, batch: Batch) -> None:
        """Synchronize at the next query."""

    def _observations_removed(self) -> None:
        if self.record.size < (1.0 - EMPTY_SHARE) * self.record.n_slots:
            self.record = self.record.compacted()
            self._forget()

    def _rewards_changed(self) -> None:
        """Compare the sums at the next query."""

    def _undone(self, n_slots: int) -> None:
        self._forget()

    def _forget(self) -> None:
        """Drop what is on the device; it is computed again when it is needed."""
        self._model = _Model(self._model.device)

    def _catch_up(self) -> None:
        """Append rows for what the record counts and the factor does not, or rebuild it."""
        record = self.record
        if self._model.version == record.version:
            return
        self._journal.note(self._forget)  # it is changed in place: an interrupted update makes it invalid
        counts, sums = record.counts.copy(), record.sums.copy()
        if self._must_rebuild(counts):
            self._forget()
        self._reserve(record.points, 0)
        model = self._model
        n_known = len(model.counts)
        counted, summed = np.zeros(len(counts)), np.zeros(len(counts))
        counted[:n_known], summed[:n_known] = model.counts, model.sums
        slots = np.flatnonzero(counts > counted)
        is_only_amended = (sums != summed) & (counts == counted)
        with self._clear_errors():
            self._append(slots, (counts - counted)[slots], (sums - summed)[slots])
        model.counts, model.sums = counts, sums
        if is_only_amended.any():
            self._compute_targets()
        model.latest = None
        model.version = record.version
        self._journal.drop(self._forget)

    def _must_rebuild(self, counts: Vector) -> bool:
        model = self._model
        before = np.zeros(len(counts))
        if len(model.counts) > len(counts):
            return True
        before[: len(model.counts)] = model.counts
        n_rows = model.n_rows + np.count_nonzero(counts > before)
        return bool((counts < before).any() or n_rows > 2 * np.count_nonzero(counts) + SPARE_ROWS)

    def _append(self, slots: Indices, counts: Vector, sums: Vector) -> None:
        """Append a row for each of these slots, with these totals."""
        if len(slots) == 1 and self._append_latest(slots, counts.item(), sums.item()):
            return
        take = self.kernel.kind.take
        if len(slots) <= FEW_ROWS:
            for place in range(len(slots)):
                part = slice(place, place + 1)
                self._query(take(self.record.points, slots[part]))
                self._append_latest(slots[part], counts.item(place), sums.item(place))
            return
        for first in range(0, len(slots), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            self._append_block(slots[part], counts[part], sums[part])

    def _append_latest(self, slots: Indices, count: float, total: float) -> bool:
        """Append a row for a point of the last query; False if it is not among these."""
        kind, model = self.kernel.kind, self._model
        query = model.latest
        if query is None:
            return False
        point = kind.take(self.record.points, slots)
        (key,) = kind.keys(point)
        row = next((row for row, other in enumerate(kind.keys(query.points)) if other == key), -1)
        if row < 0:
            return False
        root = sqrt(count)
        left = count * (query.prior.item(row) - query.explained.item(row))
        pivot = sqrt(self.regularization + max(left, 0.0))
        n_rows = model.n_rows
        column = query.whitened[:, row] if n_rows else None
        model.targets[n_rows] = (total / root - root * query.mean.item(row)) / pivot
        if column is None:
            column = model.device.zeros(0)
        elif count != 1.0:
            column = root * column
        model.factor.append(column, pivot)
        self._add_rows(point, slots, np.array([count]), query.prior[row : row + 1])
        model.log_determinant += 2.0 * log(pivot)
        model.latest = None
        return True

    def _append_block(self, slots: Indices, counts: Vector, sums: Vector) -> None:
        model, gamma = self._model, self.regularization
        device, xp = model.device, model.device.xp
        points = self.kernel.kind.take(self.record.points, slots)
        roots = device.array(np.sqrt(counts))
        corner = self._similarity(points, None) * roots[:, None] * roots[None, :]
        corner = corner + gamma * xp.eye(len(slots), dtype=xp.float64, device=device.device)
        targets = device.array(sums / np.sqrt(counts))
        columns = device.zeros(0, len(slots))
        if model.n_rows:
            columns = self._whiten(points) * roots[None, :]
            corner = corner - columns.T @ columns
            targets = targets - columns.T @ model.targets[: model.n_rows]
        lower = _cholesky(xp, corner)
        inverse = xp.linalg.solve(lower, xp.eye(len(slots), dtype=xp.float64, device=device.device))
        n_rows = model.n_rows
        model.targets[n_rows : n_rows + len(slots)] = inverse @ targets
        model.factor.append_many(columns, inverse)
        model.log_determinant += 2.0 * float(np.log(np.diagonal(device.numpy(lower))).sum())
        self._add_rows(points, slots, counts, self.kernel.diagonal(points))

    def _add_rows(self, points: Points, slots: Indices, counts: Vector, prior: Vector) -> None:
        """Describe the rows that were just appended to the factor."""
        model = self._model
        new = slice(len(model.slots), len(model.slots) + len(slots))
        if model.points is not None:
            model.points[new, :] = model.device.array(points)
        model.roots[new] = model.device.array(np.sqrt(counts))
        model.slots += slots.tolist()
        model.row_counts += counts.tolist()
        model.trace += float(counts @ prior)

    def _compute_targets(self) -> None:
        """Compute z from the reward sums of the record: the rows of a point share its mean reward."""
        model = self._model
        slots = np.array(model.slots, dtype=np.intp)
        means = model.sums / np.maximum(model.counts, 1.0)
        right = np.sqrt(np.array(model.row_counts)) * means[slots]
        model.targets[: len(slots)] = model.factor.apply(model.device.array(right)[:, None])[:, 0]

    # -- predicting ----------------------------------------------------------------------------------------------------

    def _similarity(self, points: Points, others: Points | None) -> Any:
        """k(x, z) of these points with all rows of the factor (`others`), or among themselves, on the device."""
        model, kernel = self._model, self.kernel
        if model.points is not None:
            rows = model.device.array(points)
            return kernel.gram(rows) if others is None else kernel.gram(others, rows)
        if others is None:
            return model.device.array(kernel.gram(points))
        return model.device.array(kernel.gram(self.record.points, points)[model.slots])

    def _whiten(self, points: Points) -> Any:
        """W D^½ k, one column per point."""
        model = self._model
        known = model.points[: model.n_rows, :] if model.points is not None else self.record.points
        return model.factor.apply(self._similarity(points, known) * model.roots[: model.n_rows][:, None])

    def _query(self, points: Points) -> _Query:
        """Estimates of points, remembered in case one of them is observed next."""
        model, xp = self._model, self._model.device.xp
        prior = self.kernel.diagonal(points)
        if not model.n_rows:
            nothing = np.zeros(len(prior))
            query = _Query(points, model.device.zeros(0, len(prior)), nothing, prior, nothing)
        else:
            whitened = self._whiten(points)
            mean = model.targets[: model.n_rows] @ whitened
            explained = xp.sum(whitened * whitened, axis=0)
            mean, explained = model.device.numpy(xp.stack([mean, explained]))
            query = _Query(points, whitened, mean, prior, explained)
        model.latest = query
        return query

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        if self.record.n_slots:
            self._catch_up()
        parts = []
        for _, part in blocks(self.kernel.kind, points, max(1, self._model.n_rows)):
            query = self._query(part)
            floor = query.prior / (self.regularization + self._model.trace)
            squared = np.maximum((query.prior - query.explained) / self.regularization, floor)
            parts.append((query.mean, squared))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([squared for _, squared in parts])

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        kind = self.kernel.kind
        points = kind.check(points)
        others = points if others is None else kind.check(others)
        left = self.kernel.gram(points, others)
        if self.size:
            self._catch_up()
            first = self._whiten(points)
            second = first if others is points else self._whiten(others)
            left = left - self._model.device.numpy(first.T @ second)
        return left / self.regularization

    @property
    def log_det_gain(self) -> float:
        if not self.size:
            return 0.0
        self._catch_up()
        return self._model.log_determinant - self._model.n_rows * log(self.regularization)

    @property
    @inside_transaction
    def n_rows(self) -> int:
        """Number of rows of the factor: repeated points have more than one until it is rebuilt."""
        return self._model.n_rows


def computes_on_device(kernel: Kernel, points: Points) -> bool:
    """Whether similarities of these points can be computed on a device."""
    return _takes_any_array(kernel) and isinstance(kernel.kind, Rows) and not is_sparse(points)


def _takes_any_array(kernel: Kernel) -> bool:
    """Whether a kernel and all its parts compute on arrays of any library."""
    is_ours = type(kernel).__module__.startswith("kernelbandits.kernels.")
    return kernel.takes_any_array and is_ours and all(map(_takes_any_array, kernel._parts()))


def _cholesky(xp: Any, matrix: Any) -> Any:
    """Cholesky factor; raises numpy.linalg.LinAlgError, whatever the library raises."""
    failure: Callable[..., Exception] = getattr(xp.linalg, "LinAlgError", np.linalg.LinAlgError)
    try:
        return xp.linalg.cholesky(matrix)
    except failure as error:  # type: ignore[misc]
        raise np.linalg.LinAlgError(str(error)) from error
