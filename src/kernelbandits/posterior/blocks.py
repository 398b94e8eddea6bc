"""Many points a part at a time, so that their similarities to the data never fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kernelbandits.kernels import PointKind
from kernelbandits.types import Points

__all__ = ["blocks"]

ENTRIES_AT_ONCE: Final = 8_000_000
"""Similarities held at a time: 64 MB."""


def blocks(kind: PointKind, points: Points, n_known: int) -> Iterator[tuple[slice, Points]]:
    """Parts of the points, with their places, whose similarities to `n_known` others are held at once."""
    n_points, step = kind.count(points), max(1, ENTRIES_AT_ONCE // max(1, n_known))
    if n_points <= step:
        yield slice(0, n_points), points
        return
    for first in range(0, n_points, step):
        rows = np.arange(first, min(n_points, first + step))
        yield slice(first, first + len(rows)), kind.take(points, rows)
