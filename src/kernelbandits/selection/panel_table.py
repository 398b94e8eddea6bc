"""Where the panels of a factor are, for loops that go through all of them in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.types import Matrix

__all__ = ["PanelTable"]


class PanelTable:
    """Addresses, kept from round to round: a panel's arrays stay where they are until it runs out of room."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Matrix, Matrix]] = []  # alive as long as their addresses are used
        self._rows: NDArray[np.int64] = np.zeros((0, 5), dtype=np.int64)

    def of(self, factor: GrowingCholesky) -> NDArray[np.int64]:
        """A row a panel: addresses of `left` and `corner`, start, number of rows, width of the corner.

        Good until the factor grows or changes.
        """
        arrays, place = self._arrays, -1
        for place, (start, n_rows, left, corner) in enumerate(factor.panels()):
            if place < len(arrays) and arrays[place][0] is left and arrays[place][1] is corner:
                self._rows[place, 3] = n_rows
                continue
            if place >= len(arrays):
                arrays.append((left, corner))
                self._rows = np.concatenate([self._rows, np.zeros((1, 5), dtype=np.int64)])
            arrays[place] = left, corner
            self._rows[place] = left.ctypes.data, corner.ctypes.data, start, n_rows, corner.shape[1]
        if place + 1 < len(arrays):
            del arrays[place + 1 :]
            self._rows = self._rows[: place + 1].copy()
        return self._rows
