"""Pairwise inner products and distances of rows, and inner products of weighted bags."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits._arrays import array_namespace, is_foreign
from kernelbandits._sparse import sound
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels.rows import FLOAT64, Rows, is_sparse
from kernelbandits.types import Indices, Matrix, Points, Vector
from kernelbandits.validation import MOST_NUMBERS

__all__ = [
    "Bag",
    "Numbers",
    "as_rows",
    "bag_products",
    "dense",
    "dense_pair",
    "distances",
    "inner_products",
    "row_pair",
    "squared_distances",
    "squared_norms",
]

EXPANSION_LIMIT: Final = 1e3
"""Largest ‖x / ℓ‖² (after centering) for which ‖x‖² + ‖z‖² − 2x·z is used: its rounding error is then below about
1e-12, hence also below 1e-12 in a Gaussian kernel; beyond it differences are formed directly."""

Scale: TypeAlias = float | Vector  # one length scale, or one per column

FEW_ROWS: Final = 2
"""Rows on one side up to which differences are as fast as a product: one row against 10,000 of ten columns took 0.14
ms, and 0.54 ms by the expansion with its temporary arrays."""

SPARSE_BLOCK: Final = 2_000_000
"""Entries of the dense blocks in which sparse distances are computed."""

WIDE: Final = 100
"""Columns per entry of sparse rows above which empty columns are left out of a product. SciPy allocates a number for
every column, which for billions of columns exceeds the memory."""


def as_rows(points: Points) -> Points:
    """Rows as float64; raises InvalidContexts. Values are not validated; NaN is rejected at the public interface."""
    if type(points) is np.ndarray and points.dtype is FLOAT64 and points.ndim == 2:
        return points
    if is_foreign(points):
        return points
    if not is_sparse(points):
        return Rows().shaped(points)
    rows = sound(points)
    is_usual = rows.format == "csr" and rows.dtype == FLOAT64 and rows.nnz == len(rows.data)
    return rows if is_usual else Rows().shaped(rows)


def row_pair(first: Points, second: Points | None) -> tuple[Points, Points]:
    """Both sides as rows with the same number of columns; `None` means `first`."""
    first = as_rows(first)
    second = first if second is None else as_rows(second)
    if first.shape[1] != second.shape[1]:
        raise InvalidContexts(
            f"Rows of {first.shape[1]} and of {second.shape[1]} columns cannot be compared. Describe every action "
            "with the same columns."
        )
    return first, second


def dense_pair(first: Points, second: Points) -> tuple[Matrix, Matrix]:
    """Both sides as dense rows with the same number of columns, for gradients; raises InvalidContexts."""
    left, right = row_pair(first, second)
    if is_sparse(left) or is_sparse(right):
        raise InvalidContexts("Gradients are those of dense rows. Convert them: rows.toarray().")
    return left, right


def inner_products(first: Points, second: Points) -> Matrix:
    """Inner product x · z of every pair."""
    if is_sparse(first) and is_sparse(second) and first.shape[1] > WIDE * (first.nnz + second.nnz + 1):
        first, second, _ = _occupied_columns(first, second)
    return dense(first @ second.T)


def squared_norms(rows: Points) -> Vector:
    """‖x‖² of every row."""
    if type(rows) is np.ndarray and len(rows) == 1:
        return np.array([np.vdot(rows, rows)])
    if is_sparse(rows):
        return dense(rows.multiply(rows).sum(axis=1)).ravel()
    if is_foreign(rows):
        squared: Vector = array_namespace(rows).sum(rows * rows, axis=1)
        return squared
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def squared_distances(first: Points, second: Points, *, length_scale: Scale = 1.0) -> Matrix:
    """‖(x − z) / ℓ‖² of every pair, by a matrix product if that is accurate and faster."""
    if is_foreign(first):
        return distances(first, second, length_scale=length_scale) ** 2
    if min(first.shape[0], second.shape[0]) <= FEW_ROWS and not is_sparse(first) and not is_sparse(second):
        return distances(first, second, metric="sqeuclidean", length_scale=length_scale)
    left, right = _near_origin(first, second, length_scale)
    norms = squared_norms(left)
    other_norms = norms if right is left else squared_norms(right)
    if not max(norms.max(initial=0.0), other_norms.max(initial=0.0)) <= EXPANSION_LIMIT:  # also NaN after an overflow
        # From the original rows: centering and scaling would add rounding errors and are not needed here.
        return distances(first, second, metric="sqeuclidean", length_scale=length_scale)
    squared = inner_products(left, right)
    squared *= -2.0
    squared += norms[:, None]
    squared += other_norms[None, :]
    return np.maximum(squared, 0.0, out=squared)


def _near_origin(first: Points, second: Points, length_scale: Scale) -> tuple[Points, Points]:
    """Both sides divided by the length scale; dense rows are centered first, which changes no distance.

    For rows that lie close together, centering has no rounding error, however far from the origin they are.
    """
    if is_sparse(first) or is_sparse(second):
        left = _divided(first, length_scale)
        return left, left if second is first else _divided(second, length_scale)
    if not len(second):
        return first, second
    with np.errstate(over="ignore", invalid="ignore"):
        left = (first - second[0]) / length_scale
        return left, left if second is first else (second - second[0]) / length_scale


def _divided(rows: Points, length_scale: Scale) -> Points:
    return rows.multiply(1.0 / length_scale).tocsr() if is_sparse(rows) else rows / length_scale


Metric = Literal["euclidean", "sqeuclidean", "cityblock"]


def distances(first: Points, second: Points, *, metric: Metric = "euclidean", length_scale: Scale = 1.0) -> Matrix:
    """Distance of every pair from their differences: accurate for close points, slower than a product."""
    if is_foreign(first):
        apart: Matrix = _foreign_distances(first, second, metric, length_scale)
        return apart
    if isinstance(length_scale, float):
        apart = _all_distances(first, second, metric, None)
        apart /= length_scale**2 if metric == "sqeuclidean" else length_scale
        return apart
    # SciPy multiplies each column's term of the sum by a weight.
    return _all_distances(first, second, metric, 1.0 / length_scale if metric == "cityblock" else length_scale**-2.0)


def _all_distances(
    first: Points, second: Points, metric: Metric, weights: Vector | None, *, sparse_block: int = SPARSE_BLOCK
) -> Matrix:
    from scipy.spatial.distance import cdist

    if not is_sparse(first) and not is_sparse(second):
        return np.asarray(cdist(first, second, metric, w=weights))
    first, second, columns = _occupied_columns(first, second)
    weights = None if weights is None else weights[columns]
    result = np.zeros((first.shape[0], second.shape[0]))
    if not len(columns):
        return result
    block = max(1, sparse_block // len(columns))
    for a in range(0, first.shape[0], block):
        left = dense(first[a : a + block])
        for b in range(0, second.shape[0], block):
            result[a : a + block, b : b + block] = cdist(left, dense(second[b : b + block]), metric, w=weights)
    return result


def _foreign_distances(first: Any, second: Any, metric: Metric, length_scale: Scale) -> Any:
    """`distances` of arrays of another library: by its own function if it has one, otherwise from all differences."""
    xp = array_namespace(first)
    scale = length_scale if isinstance(length_scale, float) else xp.asarray(length_scale, device=first.device)
    first, second = first / scale, second / scale
    if hasattr(xp, "cdist"):
        order = 1.0 if metric == "cityblock" else 2.0
        return xp.cdist(first, second, p=order, compute_mode="donot_use_mm_for_euclid_dist")
    apart = first[:, None, :] - second[None, :, :]
    return xp.sum(xp.abs(apart), axis=2) if metric == "cityblock" else xp.sqrt(xp.sum(apart * apart, axis=2))


def _occupied_columns(first: Points, second: Points) -> tuple[Points, Points, Indices]:
    """Both sides without columns that are zero in every row, which do not affect distances, and the columns left."""
    from scipy.sparse import csr_array

    first, second = csr_array(first), csr_array(second)
    columns = np.union1d(first.indices, second.indices).astype(np.intp)
    left, right = (
        csr_array((rows.data, np.searchsorted(columns, rows.indices), rows.indptr), shape=(rows.shape[0], len(columns)))
        for rows in (first, second)
    )
    return left, right, columns


def dense(product: Any) -> Matrix:
    """Dense array of the same numbers; raises InvalidContexts if it would be too large."""
    if type(product) is np.ndarray or is_foreign(product):
        return product
    if is_sparse(product) and prod(product.shape) > MOST_NUMBERS:
        raise InvalidContexts(
            f"Sparse contexts of {product.shape[-1]:,} columns have too many features to be listed. Hash them into "
            "fewer, or take posterior='exact'."
        )
    return product.toarray() if is_sparse(product) else np.asarray(product)


Numbers: TypeAlias = NDArray[np.int32]
Bag: TypeAlias = tuple[Numbers, Vector]  # indices of the elements, each once, and their weights

DENSE_ENTRIES: Final = 200_000
"""Size up to which the smaller side is stored densely: it stays in the processor's cache (1.6 MB), and a product with a
sparse matrix is then about four times faster than one of two sparse matrices."""


def bag_products(
    first: Sequence[Bag], second: Sequence[Bag], n_things: int, *, dense_entries: int = DENSE_ENTRIES
) -> Matrix:
    """Inner product of every pair of bags: Σ over their common elements of the product of the weights."""
    if len(second) > len(first):  # the smaller side on the right
        return bag_products(second, first, n_things, dense_entries=dense_entries).T
    left = _sparse_rows(first, n_things)
    right = left if second is first else _sparse_rows(second, n_things)
    if len(second) * n_things <= dense_entries:
        return np.asarray(left @ right.toarray().T)
    return np.asarray((left @ right.T).toarray())


def _sparse_rows(bags: Sequence[Bag], n_things: int) -> Points:
    """Bags as sparse rows, one column per element."""
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *(len(numbers) for numbers, _ in bags)])
    if not ends[-1]:
        return csr_array((len(bags), n_things))
    numbers = np.concatenate([numbers for numbers, _ in bags])
    weights = np.concatenate([weights for _, weights in bags])
    return csr_array((weights, numbers, ends.astype(numbers.dtype)), shape=(len(bags), n_things))
