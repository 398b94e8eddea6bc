"""Similarities of points with a fixed collection of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.selection.screening_loops import screening_loops
from kernelbandits.selection.similarities import BYTES_PER_ENTRY, FARTHEST, largest_norm, profile_of
from kernelbandits.selection.threads import for_each_part
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["Collection"]

ITEMS_AT_ONCE: Final = 16_384
"""Items that a kernel or a loop is given at a time: temporary arrays stay in cache, and threads share the parts."""


class Collection:
    """Points that stay, such as the items of a catalogue, and k(x, ·) with all of them.

    For Gaussian and Matérn kernels of rows of numbers a compiled loop computes them, for which the rows are kept by
    columns once more: a quarter of the time that `kernel.gram` takes for few points. Otherwise, and until the loop is
    compiled, the kernel does.
    """

    def __init__(self, kernel: Kernel, points: Points) -> None:
        self._kernel, self._points = kernel, points
        self._count = kernel.kind.count(points)
        self._profile = profile_of(kernel) if isinstance(points, np.ndarray) else None
        self._columns: list[Matrix] = []  # a part of the items each; relative to the first item, in length scales
        self._factors: Vector = np.zeros(0)

    @property
    def n_bytes(self) -> int:
        """Memory held beyond the points."""
        return sum(part.nbytes for part in self._columns)

    def write(self, points: Points, out: Matrix) -> None:
        """Write k(x, ·) of these points, a row each."""
        if self._profile is not None and not screening_loops.is_compiled:
            screening_loops.note(out.size)
        relative = self._relative(points)
        if relative is None:
            self._write_plainly(points, out)
            return
        loop, number = screening_loops.rows, 0 if self._profile is None else self._profile.number
        assert loop is not None

        def part(first: int, last: int) -> None:
            for place in range(first, last):
                columns, begin = self._columns[place], place * ITEMS_AT_ONCE
                n_items = columns.shape[1]
                for row in range(len(relative)):
                    result = out[row : row + 1, begin : begin + n_items]
                    loop(relative[row : row + 1], columns, n_items, self._factors, number, result)

        for_each_part(part, len(self._columns), align=1, n_bytes=BYTES_PER_ENTRY * out.size)

    def _relative(self, points: Points) -> Matrix | None:
        """The points as the loop wants them; None where it cannot be used."""
        if self._profile is None or screening_loops.rows is None:
            return None
        if not self._columns:
            whole = (self._points - self._points[0]) / self._profile.scale
            if largest_norm(whole) > FARTHEST:
                self._profile = None
                return None
            starts = range(0, self._count, ITEMS_AT_ONCE)
            self._columns = [np.ascontiguousarray(whole[start : start + ITEMS_AT_ONCE].T) for start in starts]
            self._factors = np.full(min(self._count, ITEMS_AT_ONCE), self._profile.factor)
        relative: Matrix = (points - self._points[0]) / self._profile.scale
        return relative if largest_norm(relative) <= FARTHEST else None

    def _write_plainly(self, points: Points, out: Matrix) -> None:
        if not isinstance(self._points, np.ndarray):
            out[:] = self._kernel.gram(points, self._points)
            return
        for start in range(0, self._count, ITEMS_AT_ONCE):
            stop = min(self._count, start + ITEMS_AT_ONCE)
            out[:, start:stop] = self._kernel.gram(points, self._points[start:stop])
