"""Where a point stands in a collection."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.kernels import PointKind
from kernelbandits.types import Indices, Matrix, Points

__all__ = ["RowIndex"]

ROWS_AT_ONCE: Final = 65_536
"""Rows whose fingerprints are computed together: a few megabytes at a time."""


class RowIndex:
    """Finds the lowest row that holds the same point.

    Rows of numbers are sorted by a fingerprint, 64 bits made of theirs, and compared in full where it agrees: 16 bytes
    a row and a fraction of a second for a million. Other points are kept in a dictionary by their keys.
    """

    def __init__(self, kind: PointKind, points: Points) -> None:
        self._kind, self._points = kind, points
        self._rows: dict[Hashable, int] = {}
        self._order: Indices | None = None
        if isinstance(points, np.ndarray):
            self._factors = _factors(points.shape[1])
            fingerprints = _fingerprints(points, self._factors)
            self._order = np.argsort(fingerprints, kind="stable")
            self._sorted = fingerprints[self._order]
        else:
            for row, key in enumerate(kind.keys(points)):
                self._rows.setdefault(key, row)

    @property
    def n_bytes(self) -> int:
        """Memory held."""
        return 100 * len(self._rows) if self._order is None else 16 * len(self._order)

    def find(self, points: Points) -> Indices:
        """The lowest row of each of the points, −1 where there is none."""
        if self._order is None or not isinstance(points, np.ndarray):
            return np.array([self._rows.get(key, -1) for key in self._kind.keys(points)], dtype=np.intp)
        if points.shape[1] != self._points.shape[1]:
            return np.full(len(points), -1, dtype=np.intp)
        found = np.full(len(points), -1, dtype=np.intp)
        fingerprints = _fingerprints(points, self._factors)
        for place, start in enumerate(np.searchsorted(self._sorted, fingerprints)):
            for row in self._order[start : np.searchsorted(self._sorted, fingerprints[place], side="right")]:
                if np.array_equal(self._points[row], points[place]):
                    found[place] = row
                    break
        return found


def _factors(n_columns: int) -> NDArray[np.uint64]:
    """Odd numbers, the same in every process."""
    return np.random.default_rng(n_columns).integers(2**63, size=n_columns, dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )


def _fingerprints(rows: Matrix, factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Σ_column bits · factor modulo 2⁶⁴; adding 0.0 makes −0.0 the same number as 0.0."""
    fingerprints = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        bits = np.ascontiguousarray(rows[start : start + ROWS_AT_ONCE] + 0.0).view(np.uint64)
        fingerprints[start : start + ROWS_AT_ONCE] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return fingerprints
