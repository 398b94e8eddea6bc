"""Inner products and distances between all rows of two matrices, dense or sparse."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["as_rows", "dense", "distances", "inner_products", "row_pair", "squared_distances", "squared_norms"]

EXPANSION_LIMIT: Final = 1e3
"""Largest ‖x‖² (after centring) for which ‖x‖² + ‖z‖² − 2x·z is used: its rounding error is then below about 1e-12,
hence below 1e-12 in a Gaussian kernel too; beyond it differences are formed directly."""

SPARSE_BLOCK: Final = 2_000_000
"""Entries of the dense block that sparse distances are computed in."""


def as_rows(points: Points) -> Points:
    """Rows as float64, without the checks that a boundary makes."""
    if is_sparse(points):
        return points.tocsr()
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2:
        raise InvalidContexts(f"Rows have to be a 2-d array, got shape {rows.shape}.")
    return rows


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


def inner_products(first: Points, second: Points) -> Matrix:
    """X · z of every pair."""
    return dense(first @ second.T)


def squared_norms(rows: Points) -> Vector:
    """‖x‖² of every row."""
    if is_sparse(rows):
        return dense(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def squared_distances(first: Points, second: Points) -> Matrix:
    """‖x − z‖² of every pair, at matrix-product speed where that is accurate."""
    if not is_sparse(first) and not is_sparse(second):
        centre = second[0]  # distances do not change under a shift, and small numbers have small rounding errors
        first, second = first - centre, second - centre
    norms, other_norms = squared_norms(first), squared_norms(second)
    if not max(norms.max(initial=0.0), other_norms.max(initial=0.0)) <= EXPANSION_LIMIT:
        return distances(first, second, metric="sqeuclidean")
    squared = inner_products(first, second)
    squared *= -2.0
    squared += norms[:, None]
    squared += other_norms[None, :]
    return np.maximum(squared, 0.0, out=squared)


def distances(
    first: Points, second: Points, *, metric: Literal["euclidean", "sqeuclidean", "cityblock"] = "euclidean"
) -> Matrix:
    """A distance of every pair from their differences: accurate for close points, slower than a product."""
    from scipy.spatial.distance import cdist

    if not is_sparse(first) and not is_sparse(second):
        return np.asarray(cdist(first, second, metric))
    first, second = _occupied_columns(first, second)
    result = np.empty((first.shape[0], second.shape[0]))
    block = max(1, SPARSE_BLOCK // max(1, first.shape[1]))
    for a in range(0, first.shape[0], block):
        left = dense(first[a : a + block])
        for b in range(0, second.shape[0], block):
            result[a : a + block, b : b + block] = cdist(left, dense(second[b : b + block]), metric)
    return result


def _occupied_columns(first: Points, second: Points) -> tuple[Points, Points]:
    """Both sides without the columns that are zero in every row: they add nothing to a distance."""
    from scipy.sparse import csr_array

    first, second = csr_array(first), csr_array(second)
    columns = np.union1d(first.indices, second.indices)
    return first[:, columns], second[:, columns]


def dense(product: Any) -> Matrix:
    """The same numbers as an ordinary array."""
    return product.toarray() if is_sparse(product) else np.asarray(product)
