"""Coordinates of all slots of a record, in a basis that takes in whatever lies outside."""

from __future__ import annotations

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.posterior.basis import Basis
from kernelbandits.posterior.blocks import blocks
from kernelbandits.types import Indices, Matrix, Points

__all__ = ["Coordinates"]


class Coordinates:
    """φ of the points in slots, one column each, that follows its basis: (rank, n_slots).

    Keeping all columns costs memory of 8·rank·n_slots bytes. It is what makes a larger basis exact: coordinates that
    earlier points have along a new one are small, and not nothing.
    """

    def __init__(self, kernel: Kernel, *, tolerance: float) -> None:
        self.basis = Basis(kernel, tolerance=tolerance)
        self.n_slots = 0
        self._store: Matrix = np.empty((0, 0))  # with room to spare in both directions

    @property
    def rank(self) -> int:
        """Points in the basis."""
        return self.basis.size

    @property
    def columns(self) -> Matrix:
        """φ of all slots."""
        return self._store[: self.rank, : self.n_slots]

    def append(self, columns: Matrix) -> None:
        """φ of the next slots."""
        first, last = self.n_slots, self.n_slots + columns.shape[1]
        self._make_room(last)
        self._store[: self.rank, first:last] = columns
        self.n_slots = last

    def keep(self, slots: Indices) -> None:
        """Forget all slots but these."""
        self._store, self.n_slots = self._store[:, slots], len(slots)

    def admit(self, points: Points, past: Points) -> bool:
        """Take points into the basis; `past` are those of the slots.

        Gives whether the rows of φ are what they were, apart from new ones below.
        """
        kind, first = self.basis.kernel.kind, self.basis.include(points)
        if not self.n_slots:
            return False
        past = kind.take(past, np.arange(self.n_slots))
        stays = first > 0
        if not stays:
            first = self._express_anew(past)
        self._make_room(self.n_slots)
        if first < self.rank:
            for block, part in blocks(kind, past, self.rank):
                self._store[first : self.rank, block] = self.basis.more_coordinates(self._store[:first, block], part)
        return stays

    def _express_anew(self, past: Points) -> int:
        """All rows of φ; then the basis takes in what has been left outside, being neither in the old nor the new one.

        Gives the number of rows before that.
        """
        kind, first = self.basis.kernel.kind, self.rank
        self._make_room(self.n_slots)
        for block, part in blocks(kind, past, first):
            self._store[:first, block] = self.basis.coordinates(part)
        outside, _ = self.basis.outside(self.columns, self.basis.kernel.diagonal(past))
        if len(outside):
            self.basis.append(kind.take(past, outside))
        return first

    def _make_room(self, n_columns: int) -> None:
        rows, columns = self._store.shape
        if self.rank <= rows and n_columns <= columns:
            return
        n_rows = rows if self.rank <= rows else self.rank + self.rank // 4
        larger = np.empty((n_rows, columns if n_columns <= columns else max(n_columns, 2 * columns)))
        larger[:rows, :columns] = self._store
        self._store = larger
