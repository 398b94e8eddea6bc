"""Matrices that grow at the lower right."""

from __future__ import annotations

import numpy as np

from kernelbandits.types import Matrix

__all__ = ["GrowingMatrix"]


class GrowingMatrix:
    """A matrix in a larger buffer. Appending costs what is appended; the buffer doubles when it is full."""

    def __init__(self, matrix: Matrix) -> None:
        self._buffer = np.array(matrix, dtype=np.float64, order="C")
        self._shape = self._buffer.shape

    @property
    def values(self) -> Matrix:
        """The matrix as it is now, without a copy."""
        return self._buffer[: self._shape[0], : self._shape[1]]

    def reserve(self, n_rows: int, n_columns: int) -> None:
        """Make room for so many rows and columns more, so that appending them cannot fail."""
        needed = self._shape[0] + n_rows, self._shape[1] + n_columns
        held = self._buffer.shape
        if needed[0] <= held[0] and needed[1] <= held[1]:
            return
        larger = np.empty([n if n <= old else max(n, 2 * old) for n, old in zip(needed, held, strict=True)])
        larger[: self._shape[0], : self._shape[1]] = self.values
        self._buffer = larger

    def append(self, below: Matrix | float, right: Matrix | float, corner: Matrix) -> None:
        """Become [[values, right], [below, corner]]; a number fills its block."""
        self.reserve(*corner.shape)
        n_rows, n_columns = self._shape
        all_rows, all_columns = n_rows + corner.shape[0], n_columns + corner.shape[1]
        self._buffer[n_rows:all_rows, :n_columns] = below
        self._buffer[:n_rows, n_columns:all_columns] = right
        self._buffer[n_rows:all_rows, n_columns:all_columns] = corner
        self._shape = all_rows, all_columns
