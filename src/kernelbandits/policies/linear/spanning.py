"""Few actions that stand for all: every action is a combination of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.errors import InvalidContexts
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Indices, Matrix

__all__ = ["coordinates_of", "spanning_rows", "to_one"]

SPAN_TOLERANCE: Final = 1e-10
"""What is left of an action beside those chosen, relative to the longest one, up to which it counts as their
combination: far above rounding errors, far below any feature that was meant."""


def to_one(points: Matrix) -> Matrix:
    """The same points in a unit in which the largest number is 1, so that no square over- or underflows.

    InvalidContexts where every number is zero: there is no direction to learn in.
    """
    largest = float(np.abs(points).max())
    if largest == 0.0:
        raise InvalidContexts(
            f"All {len(points)} actions are zero, so that no linear reward tells them apart. Add a column of ones."
        )
    return points / largest


def spanning_rows(points: Matrix) -> Indices:
    """Rows of linearly independent points that span all, by greedy volume: each adds the longest side it can.

    The first is the longest point, the next the one furthest from the line through it, then from the plane through
    both, and so on; ties go to the lowest row. The volume is at least 1/r! of the largest that r points can have.
    O(N d r).

    >>> spanning_rows(np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 1.0]])).tolist()
    [1, 2]
    """
    left = to_one(points)
    chosen: list[int] = []
    directions: list[Matrix] = []
    longest = 0.0
    for _ in range(min(points.shape)):
        lengths = np.linalg.norm(left, axis=1)
        most = float(lengths.max())
        longest = longest or most
        if most <= SPAN_TOLERANCE * longest:
            break
        row = int(tied_for_best(lengths / most)[0])
        direction = left[row] / lengths[row]
        for earlier in directions:  # once more: what little was left of them has grown by the division
            direction = direction - (direction @ earlier) * earlier
        direction = direction / np.linalg.norm(direction)
        left = left - np.outer(left @ direction, direction)
        chosen.append(row)
        directions.append(direction)
    return np.array(chosen, dtype=np.intp)


def coordinates_of(points: Matrix, rows: Indices) -> Matrix:
    """Every point as a combination of spanning ones: z with x = Σ z_i · points[rows[i]]; a spanning point is a unit.

    >>> coordinates_of(np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]]), np.array([0, 1]))
    array([[1.  , 0.  ],
           [0.  , 1.  ],
           [0.5 , 0.25]])
    """
    scaled = to_one(points)
    coordinates = np.ascontiguousarray(np.linalg.lstsq(scaled[rows].T, scaled.T)[0].T)
    coordinates[rows] = np.eye(len(rows))
    return coordinates
