"""Chunks of many points, so that their similarities to the data fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.types import Points, Vector

__all__ = ["ENTRIES_AT_ONCE", "blocks", "summed_similarity"]

ENTRIES_AT_ONCE: Final = 8_000_000
"""Similarities held in memory at a time: 64 MB."""


def blocks(kind: PointKind, points: Points, n_known: int) -> Iterator[tuple[slice, Points]]:
    """Chunks of the points, with their indices, whose similarities to `n_known` others are held in memory at a time."""
    n_points, step = kind.count(points), max(1, ENTRIES_AT_ONCE // max(1, n_known))
    if n_points <= step:
        yield slice(0, n_points), points
        return
    for first in range(0, n_points, step):
        rows = np.arange(first, min(n_points, first + step))
        yield slice(first, first + len(rows)), kind.take(points, rows)


def summed_similarity(kernel: Kernel, points: Points, weights: Vector, others: Points) -> Vector:
    """Σ w k(x, z) over the points x, for each of the others z; computed from features if that is cheaper.

    >>> from kernelbandits.kernels import Linear
    >>> summed_similarity(Linear(), np.array([[1.0], [2.0]]), np.array([3.0, 1.0]), np.array([[1.0], [10.0]]))
    array([ 5., 50.])
    """
    n_points, n_others, n_features = len(weights), kernel.kind.count(others), kernel.n_features(points)
    if n_features is not None and n_features * (n_points + n_others) < n_points * n_others:
        summed = np.zeros(n_features)
        for block, part in blocks(kernel.kind, points, n_features):
            summed += weights[block] @ kernel.features(part)
        return np.concatenate([kernel.features(part) @ summed for _, part in blocks(kernel.kind, others, n_features)])
    return np.concatenate([weights @ kernel.gram(points, part) for _, part in blocks(kernel.kind, others, n_points)])
