"""Few of many points, such that none of the others lies far from all of them."""

from __future__ import annotations

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.kernels.feature_distances import feature_distances
from kernelbandits.posterior.base import refuse_overflow
from kernelbandits.types import Indices, Points

__all__ = ["spread_rows"]


def spread_rows(kernel: Kernel, points: Points, n_points: int) -> Indices:
    """Rows of so many points, each the one farthest from those before; the first is row 0, ties go to the lowest row.

    Distances are those of the kernel's feature space; `Linear` gives the ordinary ones. The largest distance that is
    left is at most twice the least possible with so many points (Gonzalez 1985). Fewer come back where fewer are
    distinct. It costs n_points · N similarities.

    >>> from kernelbandits.kernels import Linear
    >>> spread_rows(Linear(), np.linspace(0, 1, 9)[:, None], 5)
    array([0, 8, 4, 2, 6])
    """
    kind = kernel.kind
    n_rows = min(n_points, len(set(kind.keys(points))))
    rows = np.zeros(n_rows, dtype=np.intp)
    nearest = np.full(kind.count(points), np.inf)
    for place in range(n_rows):
        if place:
            rows[place] = np.argmax(nearest)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            column = feature_distances(kernel, points, kind.take(points, rows[place : place + 1]))[:, 0]
        refuse_overflow(column)
        np.minimum(nearest, column, out=nearest)
        nearest[rows[place]] = -1.0  # no second time, whatever the rounding
    return rows
