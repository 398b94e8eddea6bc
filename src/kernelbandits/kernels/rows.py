"""Numeric rows, dense or SciPy-sparse, as points; growing buffers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy import ndarray, vdot  # local names: `check` and `one` run in every round
from numpy.typing import NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits._sparse import sound
from kernelbandits.errors import DamagedFile, InvalidContexts
from kernelbandits.kernels.points import NO_CONTEXT, Shared
from kernelbandits.types import MOST_COLUMNS, Indices, Matrix, Point, Points

__all__ = ["FLOAT64", "GrowingMatrix", "GrowingNames", "Rows", "is_sparse", "room"]

FLOAT64: Final = np.dtype(np.float64)

FEW_NUMBERS: Final = 10_000
"""Numbers whose squares BLAS sums in one thread, in a third of the time of testing each."""


def is_sparse(points: Points) -> bool:
    """Whether these are SciPy-sparse rows; does not import SciPy."""
    return hasattr(points, "tocsr")


class Rows(Shared):
    """Kind of dense or SciPy-sparse numeric rows; canonical: float64, C order or CSR."""

    def check(self, points: Points) -> Points:
        if type(points) is ndarray and points.dtype is FLOAT64 and points.ndim == 2 and points.flags.c_contiguous:
            n_numbers = points.size
            # The sum of squares is finite only if every number is.
            is_finite = isfinite(vdot(points, points)) if n_numbers <= FEW_NUMBERS else _surely_finite(points)
            if is_finite and n_numbers:
                return points
        rows = self.shaped(points)
        n_rows, n_columns = rows.shape
        if n_rows == 0:
            raise InvalidContexts(NO_CONTEXT)
        if n_columns == 0:
            raise InvalidContexts(f"A context needs at least one column, got shape {rows.shape}.")
        is_finite = np.isfinite(rows.data if is_sparse(rows) else rows)
        if not is_finite.all():
            raise InvalidContexts(
                f"Contexts must be finite numbers; row {_first_bad_row(rows, is_finite)} holds NaN or an infinity. "
                "Fill gaps or drop the row."
            )
        return rows

    def shaped(self, points: Points) -> Points:
        """Points as float64 rows, possibly none, without validation of the values; raises InvalidContexts."""
        return _sparse_rows(points) if is_sparse(points) else _dense_rows(points)

    def count(self, points: Points) -> int:
        if type(points) is np.ndarray and points.ndim == 2 and points.dtype.kind in "buif":
            return len(points)
        is_plain = is_sparse(points) and getattr(points, "ndim", 0) == 2
        return int((points if is_plain else self.shaped(points)).shape[0])

    def take(self, points: Points, rows: Indices) -> Points:
        return points[rows]

    def one(self, points: Points, row: int) -> Point:
        if type(points) is not ndarray:
            return points[[row]]
        point = points[row].copy()
        point.setflags(False)  # read-only: decisions hold it, and must not change
        return point

    def as_collection(self, point: Point) -> Points:
        if type(point) is np.ndarray and point.ndim == 1:
            row = point[None]
            return row if point.dtype is FLOAT64 and point.size and _surely_finite(row) else self.check(row)
        rows = self.check(point if is_sparse(point) else np.atleast_2d(_array(point)))
        if rows.shape[0] != 1:
            raise InvalidContexts(f"One context is one row, got {rows.shape[0]} rows.")
        return rows

    def from_trusted(self, point: Point) -> Points:
        if type(point) is np.ndarray:
            return point[None]
        return sound(point)

    def stack(self, *collections: Points) -> Points:
        first, *others = collections
        for points in others:
            self.validate_comparable(first, points)
        if is_sparse(first):
            from scipy.sparse import vstack

            return vstack(collections, format="csr")
        return np.concatenate(collections)

    def keys(self, points: Points) -> list[Hashable]:
        if type(points) is np.ndarray or not is_sparse(points):
            rows = np.add(points, 0.0, order="C")  # maps −0.0 to 0.0
            return [rows.tobytes()] if len(rows) == 1 else rows.view(f"V{rows.strides[0]}").ravel().tolist()
        columns = points.indices.astype(np.int64)  # SciPy uses 32 or 64 bits
        return [(columns[a:b].tobytes(), points.data[a:b].tobytes()) for a, b in pairwise(points.indptr)]

    def grow(self, store: Any, count: int, points: Points) -> Any:
        if store is None:
            return _SparseStore(points) if is_sparse(points) else points.copy()
        self.validate_comparable(store, points)
        if isinstance(store, _SparseStore):
            store.put(count, points)
            return store
        needed = count + len(points)
        if needed > len(store):
            larger = np.empty((max(needed, 2 * len(store)), store.shape[1]))
            larger[:count] = store[:count]
            store = larger
        store[count:needed] = points
        return store

    def view(self, store: Any, count: int) -> Points:
        return store.view(count) if isinstance(store, _SparseStore) else store[:count]

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        if not is_sparse(points):
            return {"rows": points}
        return {
            "data": points.data,
            "indices": points.indices.astype(np.int64),
            "indptr": points.indptr.astype(np.int64),
            "shape": np.array(points.shape, dtype=np.int64),
        }

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        if "rows" in arrays:
            return saved_array(arrays, "rows", "f", (None, None))
        from scipy.sparse import csr_array

        n_rows, n_columns = saved_array(arrays, "shape", "i", (2,), least=0, most=MOST_COLUMNS).tolist()
        data = saved_array(arrays, "data", "f", (None,))
        indices = saved_array(arrays, "indices", "i", data.shape, least=0, most=n_columns - 1)
        starts = saved_array(arrays, "indptr", "i", (n_rows + 1,), least=0, most=len(data))
        if starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
            raise DamagedFile("'indptr' in the file must rise from 0 to the number of entries.")
        return csr_array((data, indices, starts), shape=(n_rows, n_columns))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def validate_comparable(self, known: Any, points: Points) -> None:
        if known.shape[1] != points.shape[1]:
            raise InvalidContexts(
                f"These contexts have {points.shape[1]} columns; those learned before have {known.shape[1]}. "
                "Describe every action with the same columns."
            )
        if type(points) is np.ndarray and type(known) is np.ndarray:
            return
        if is_sparse(points) != (is_sparse(known) or isinstance(known, _SparseStore)):
            raise InvalidContexts(
                "Dense and sparse contexts cannot be learned by one model. Convert them: rows.toarray(), or "
                "scipy.sparse.csr_array(rows)."
            )


class _SparseStore:
    """Growing CSR rows: three buffers with spare capacity, and views of them."""

    def __init__(self, rows: Points) -> None:
        self.shape = (None, rows.shape[1])
        self._data = rows.data.copy()
        self._indices = rows.indices.astype(np.int64)
        self._starts = rows.indptr.astype(np.int64)

    def put(self, count: int, rows: Points) -> None:
        used = int(self._starts[count])
        self._data = room(self._data, used, rows.nnz)
        self._indices = room(self._indices, used, rows.nnz)
        self._starts = room(self._starts, count + 1, rows.shape[0])
        self._data[used : used + rows.nnz] = rows.data
        self._indices[used : used + rows.nnz] = rows.indices
        self._starts[count + 1 : count + 1 + rows.shape[0]] = used + rows.indptr[1:]

    def view(self, count: int) -> Points:
        from scipy.sparse import csr_array

        used = int(self._starts[count])
        arrays = (self._data[:used], self._indices[:used], self._starts[: count + 1])
        return csr_array(arrays, shape=(count, self.shape[1]), copy=False)


def room(buffer: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """The buffer, or a larger copy of it, so that `more` entries fit after `used`."""
    if used + more <= len(buffer):
        return buffer
    larger = np.empty(max(used + more, 2 * len(buffer)), dtype=buffer.dtype)
    larger[:used] = buffer[:used]
    return larger


def _dense_rows(points: Points) -> Matrix:
    rows = _array(points)
    if rows.ndim and not len(rows):
        raise InvalidContexts(NO_CONTEXT)
    if rows.dtype.kind not in "buif":
        raise InvalidContexts(
            f"This kernel takes rows of real numbers, got {type(points).__name__} with dtype {rows.dtype}. "
            "Strings, sets, ids and pairs have kernels of their own (Spectrum, Jaccard, Precomputed, PairProduct, ...)."
        )
    if rows.ndim != 2:
        raise InvalidContexts(
            f"Contexts must be a 2-d array, one row per action, got shape {rows.shape}. One action: "
            "reshape(1, -1). One feature: reshape(-1, 1)."
        )
    if isinstance(rows, np.ma.MaskedArray) and np.ma.is_masked(rows):
        raise InvalidContexts("Some entries of the contexts are masked, and a kernel needs them all. Fill the gaps.")
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and `check` rejects it
        return np.ascontiguousarray(rows, dtype=np.float64)


def _array(points: Any) -> NDArray[Any]:
    """Points as an array, masked if they were; raises InvalidContexts for objects without a shape."""
    try:
        return np.ma.asarray(points) if isinstance(points, np.ma.MaskedArray) else np.asarray(points)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidContexts(f"Contexts must be rows of equal length: {error}.") from error


def _sparse_rows(points: Points) -> Points:
    from scipy.sparse import csr_array

    points = sound(points)
    if points.dtype.kind not in "buif":
        raise InvalidContexts(f"Sparse contexts must hold real numbers, got dtype {points.dtype}.")
    rows = csr_array(points, dtype=np.float64)
    if rows.has_canonical_format and rows.data.all():
        return rows
    rows = rows.copy()  # summing and dropping work in place, and must not change the caller's matrix
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _surely_finite(rows: Matrix) -> bool:
    """Whether every number is certainly finite; False if a closer test is needed."""
    if rows.size <= FEW_NUMBERS:
        return isfinite(np.vdot(rows, rows))  # the sum of squares is finite only if every number is
    numbers = rows.ravel()
    return all(_surely_finite(numbers[a : a + FEW_NUMBERS]) for a in range(0, len(numbers), FEW_NUMBERS))


def _first_bad_row(rows: Points, is_finite: NDArray[np.bool_]) -> int:
    """Row of the first entry that is not finite."""
    place = int(np.argmin(is_finite))  # first False, in C order
    if is_sparse(rows):
        return int(np.searchsorted(rows.indptr, place, side="right")) - 1
    return place // int(rows.shape[1])


Name = TypeVar("Name", bound=Hashable)


class GrowingMatrix:
    """Immutable matrix in a larger buffer; `grown` returns a larger one.

    The cost of growing is that of the appended part, since both share a buffer: the larger one writes beyond the
    smaller one. The buffer doubles when it is full. It is copied if a second matrix grows from the same smaller one, as
    after an interrupted growth. Matrices can be read in any thread; only one thread may grow them at a time.
    """

    def __init__(self, matrix: Matrix) -> None:
        self._buffer = _Buffer(np.array(matrix, dtype=np.float64, order="C"))
        self._shape = self._buffer.array.shape

    @property
    def values(self) -> Matrix:
        """The matrix, without a copy; read-only."""
        view = self._buffer.array[: self._shape[0], : self._shape[1]]
        view.flags.writeable = False
        return view

    def grown(self, below: Matrix | float, right: Matrix | float, corner: Matrix) -> GrowingMatrix:
        """The matrix [[values, right], [below, corner]]; a number fills its block."""
        n_rows, n_columns = self._shape
        all_rows, all_columns = n_rows + corner.shape[0], n_columns + corner.shape[1]
        buffer = self._buffer
        held = buffer.array.shape
        if buffer.used != self._shape or all_rows > held[0] or all_columns > held[1]:
            needed = (all_rows, all_columns)
            array = np.empty([old if n <= old else max(n, 2 * old) for n, old in zip(needed, held, strict=True)])
            array[:n_rows, :n_columns] = self.values
            buffer = _Buffer(array)
        buffer.used = all_rows, all_columns
        buffer.array[n_rows:all_rows, :n_columns] = below
        buffer.array[:n_rows, n_columns:all_columns] = right
        buffer.array[n_rows:all_rows, n_columns:all_columns] = corner
        larger = GrowingMatrix.__new__(GrowingMatrix)
        larger._buffer, larger._shape = buffer, (all_rows, all_columns)
        return larger


class _Buffer:
    """Buffer of a matrix, and the part of it that its largest matrix uses."""

    def __init__(self, array: Matrix) -> None:
        self.array = array
        self.used: tuple[int, ...] = array.shape


class GrowingNames(Generic[Name]):
    """Immutable sequence of distinct names; `grown` returns a longer one.

    Both share a list and a dictionary, in which entries beyond the own length are ignored.
    """

    def __init__(self, names: Sequence[Name] = ()) -> None:
        self._names = list(names)
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._n_names = len(self._names)

    def __len__(self) -> int:
        return self._n_names

    def grown(self, new: Sequence[Name]) -> GrowingNames[Name]:
        """These names followed by the new ones."""
        n_names, larger = self._n_names, GrowingNames[Name]()
        if len(self._names) == n_names:
            larger._names, larger._rows = self._names, self._rows
        else:
            larger._names = self.listed()
            larger._rows = {name: row for row, name in enumerate(larger._names)}
        larger._names.extend(new)  # from here on no other sequence can grow in this list
        larger._rows.update(zip(new, range(n_names, n_names + len(new)), strict=True))
        larger._n_names = n_names + len(new)
        return larger

    def row(self, name: Name) -> int:
        """Index of a name; −1 if it is absent."""
        row = self._rows.get(name, -1)
        return row if row < self._n_names and (row < 0 or self._names[row] == name) else -1

    def __getitem__(self, row: int) -> Name:
        return self._names[row]

    def listed(self) -> list[Name]:
        """All names, as a new list."""
        return self._names[: self._n_names]
