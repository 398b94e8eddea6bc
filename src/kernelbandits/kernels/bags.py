"""Bags of numbered things, each with a weight, and the inner products of all pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.types import Matrix, Points, Vector

__all__ = ["Bag", "Numbers", "bag_products"]

Numbers: TypeAlias = NDArray[np.int32]
Bag: TypeAlias = tuple[Numbers, Vector]  # numbers of the things, each once, and their weights

DENSE_ENTRIES: Final = 200_000
"""Up to this size the smaller side is written out in full: it stays in the processor's cache (1.6 MB), and a product
with a sparse matrix is then about four times faster than one of two sparse matrices."""


def bag_products(first: Sequence[Bag], second: Sequence[Bag], n_things: int) -> Matrix:
    """Σ over the things that two bags share of the product of their weights, for every pair of bags."""
    if len(second) > len(first):  # the smaller side on the right
        return bag_products(second, first, n_things).T
    left = _sparse_rows(first, n_things)
    right = left if second is first else _sparse_rows(second, n_things)
    if len(second) * n_things <= DENSE_ENTRIES:
        return np.asarray(left @ right.toarray().T)
    return np.asarray((left @ right.T).toarray())


def _sparse_rows(bags: Sequence[Bag], n_things: int) -> Points:
    """The bags as sparse rows, a column a thing."""
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *(len(numbers) for numbers, _ in bags)])
    if not ends[-1]:
        return csr_array((len(bags), n_things))
    numbers = np.concatenate([numbers for numbers, _ in bags])
    weights = np.concatenate([weights for _, weights in bags])
    return csr_array((weights, numbers, ends.astype(numbers.dtype)), shape=(len(bags), n_things))
