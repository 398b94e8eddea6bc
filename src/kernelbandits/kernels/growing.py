"""Matrices and lists of names that grow at the end, for readers that do not wait."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from kernelbandits.types import Matrix

__all__ = ["GrowingMatrix", "GrowingNames"]

Name = TypeVar("Name", bound=Hashable)


class GrowingMatrix:
    """A matrix in a larger buffer; it stays what it is, and `grown` gives a larger one.

    Growing costs what is appended, since both share a buffer: the larger one writes beyond the smaller one. The buffer
    doubles when it is full. For a second matrix that grows from the same smaller one, as after a growth that was
    interrupted, it is copied. Matrices can be read in any thread; growing is for one at a time.
    """

    def __init__(self, matrix: Matrix) -> None:
        self._buffer = _Buffer(np.array(matrix, dtype=np.float64, order="C"))
        self._shape = self._buffer.array.shape

    @property
    def values(self) -> Matrix:
        """The matrix, without a copy: for reading only."""
        view = self._buffer.array[: self._shape[0], : self._shape[1]]
        view.flags.writeable = False
        return view

    def grown(self, below: Matrix | float, right: Matrix | float, corner: Matrix) -> GrowingMatrix:
        """The matrix [[values, right], [below, corner]]; a number fills its block."""
        n_rows, n_columns = self._shape
        all_rows, all_columns = n_rows + corner.shape[0], n_columns + corner.shape[1]
        buffer = self._buffer
        held = buffer.array.shape
        if buffer.used != self._shape or all_rows > held[0] or all_columns > held[1]:
            needed = (all_rows, all_columns)
            array = np.empty([old if n <= old else max(n, 2 * old) for n, old in zip(needed, held, strict=True)])
            array[:n_rows, :n_columns] = self.values
            buffer = _Buffer(array)
        buffer.used = all_rows, all_columns
        buffer.array[n_rows:all_rows, :n_columns] = below
        buffer.array[:n_rows, n_columns:all_columns] = right
        buffer.array[n_rows:all_rows, n_columns:all_columns] = corner
        larger = GrowingMatrix.__new__(GrowingMatrix)
        larger._buffer, larger._shape = buffer, (all_rows, all_columns)
        return larger


class _Buffer:
    """Room for a matrix, and how much of it the largest matrix in it uses."""

    def __init__(self, array: Matrix) -> None:
        self.array = array
        self.used: tuple[int, ...] = array.shape


class GrowingNames(Generic[Name]):
    """Different names in order; they stay what they are, and `grown` gives more of them.

    Both share a list and a dictionary, in which names beyond one's own number do not count.
    """

    def __init__(self, names: Sequence[Name] = ()) -> None:
        self._names = list(names)
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._n_names = len(self._names)

    def __len__(self) -> int:
        return self._n_names

    def grown(self, new: Sequence[Name]) -> GrowingNames[Name]:
        """These names and then the new ones."""
        n_names, larger = self._n_names, GrowingNames[Name]()
        if len(self._names) == n_names:
            larger._names, larger._rows = self._names, self._rows
        else:
            larger._names = self.listed()
            larger._rows = {name: row for row, name in enumerate(larger._names)}
        larger._names.extend(new)  # from here on no other list can grow in this place
        larger._rows.update(zip(new, range(n_names, n_names + len(new)), strict=True))
        larger._n_names = n_names + len(new)
        return larger

    def row(self, name: Name) -> int:
        """The place of a name; −1 where it is not there."""
        row = self._rows.get(name, -1)
        return row if row < self._n_names and (row < 0 or self._names[row] == name) else -1

    def __getitem__(self, row: int) -> Name:
        return self._names[row]

    def listed(self) -> list[Name]:
        """All of them, as a list of its own."""
        return self._names[: self._n_names]
