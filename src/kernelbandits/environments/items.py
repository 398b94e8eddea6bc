"""Points that a data set brings: checked once, taken by number, and named by a digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelbandits.errors import CannotSave, InvalidContexts
from kernelbandits.kernels import Objects, PointKind, Rows, kind_of
from kernelbandits.kernels.points import digest_of
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.types import Indices, Parameters, Point, Points, Vector

__all__ = ["Items", "described_numbers", "digest_of_anything"]


@dataclass(frozen=True, eq=False)
class Items:
    """Many points of one kind: rows, sparse rows, strings, ids, sets, or objects of your own.

    >>> items = Items.of(["apple", "pear", "plum"])
    >>> len(items), items.take(np.array([2, 0]))
    (3, ['plum', 'apple'])
    """

    kind: PointKind
    points: Points
    """In the canonical form of the kind, and not shared with whoever gave them."""

    @classmethod
    def of(cls, points: Points) -> Items:
        """Look at the points, check them and keep a copy."""
        kind = _kind_by_looks(points)
        checked = kind.check(points)
        copied = kind.take(checked, np.arange(kind.count(checked)))
        if isinstance(copied, np.ndarray):
            copied.setflags(write=False)  # what was described stays as it was
        return cls(kind, copied)

    def __len__(self) -> int:
        return self.kind.count(self.points)

    @property
    def are_dense_rows(self) -> bool:
        """Whether these are rows of numbers in one array."""
        return isinstance(self.points, np.ndarray)

    @property
    def are_rows(self) -> bool:
        """Whether these are rows of numbers, dense or sparse."""
        return isinstance(self.kind, Rows)

    def take(self, rows: Indices) -> Points:
        """Some of them, in this order."""
        return self.kind.take(self.points, rows)

    def one(self, row: int) -> Point:
        """One of them, as a user would write it."""
        return self.kind.one(self.points, row)

    @cached_property
    def _description(self) -> Parameters:
        shape = [int(length) for length in self.points.shape] if self.are_rows else [len(self)]
        return {"kind": type(self.kind).__name__, "shape": shape, "digest": digest_of_anything(self.kind, self.points)}

    def describe(self) -> Parameters:
        """Kind, size and digest: equal for equal points in equal order. Objects of your own are told by their repr."""
        return dict(self._description)


def digest_of_anything(kind: PointKind, points: Points) -> str:
    """A few characters, equal for equal points; points without a plain form are told by their repr."""
    try:
        return digest_of(kind, kind.check(points))
    except (CannotSave, InvalidContexts):
        return hashlib.sha256(repr(points).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def described_numbers(values: Vector) -> Parameters:
    """Length and digest of a row of numbers."""
    column = np.ascontiguousarray(values, dtype=np.float64)[:, None]
    return {"shape": [len(column)], "digest": digest_of(Rows(), column)}


def _kind_by_looks(points: Points) -> PointKind:
    kind = kind_of(points)
    if not isinstance(kind, Rows) or is_sparse(points):
        return kind
    try:
        is_numbers = np.asarray(points).dtype.kind in "buif"
    except ValueError:  # rows of different lengths
        is_numbers = True
    if is_numbers or isinstance(points, np.ndarray):
        return kind
    if not isinstance(points, list | tuple):
        raise InvalidContexts(f"Points are an array or a sequence, one entry a point, got {type(points).__name__}.")
    return Objects()
