"""Kernels on ids and sets: Delta and Jaccard."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kernelbandits.kernels._distances import Bag, bag_products
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.points import PointKind, check_kind
from kernelbandits.kernels.sequences import Ids, Sets
from kernelbandits.types import Indices, ItemId, Matrix, Points, Vector

__all__ = ["Delta", "Jaccard"]


@dataclass(frozen=True, repr=False)
class Delta(Kernel):
    """1 if both are the same point or id, else 0: every action is learned independently, as without contexts.

    `kind` is the type of the points: ids by default, `Delta(kind=Rows())` for numeric rows. Added to another kernel it
    gives every point an independent term: `Gaussian(length_scale=1.0) + 0.1 * Delta(kind=Rows())`.

    >>> Delta().gram(["a", "b"], ["b", "c"])
    array([[0., 0.],
           [1., 0.]])
    """

    kind: PointKind = Ids()  # noqa: RUF009 – a kind has no state

    def __post_init__(self) -> None:
        check_kind(self.kind)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        numbers: dict[Hashable, int] = {}
        left = self._numbered(first, numbers)
        right = left if second is None else self._numbered(second, numbers)
        return np.equal(left[:, None], right[None, :]).astype(np.float64)

    def diagonal(self, points: Points) -> Vector:
        return np.ones(self.kind.count(self._checked(points)))

    def _checked(self, points: Points) -> Points:
        return self.kind.check(points) if self.kind.count(points) else points

    def _numbered(self, points: Points, numbers: dict[Hashable, int]) -> Indices:
        """An integer per point, equal for equal points."""
        keys = self.kind.keys(self._checked(points))
        return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.intp, count=len(keys))


@dataclass(frozen=True, repr=False)
class Jaccard(Kernel):
    """|A ∩ B| / |A ∪ B| of sets of words, tags or ids; 1 for two empty sets.

    >>> Jaccard().gram([{"red", "wool"}], [{"red", "silk"}, {"blue"}]).round(3)
    array([[0.333, 0.   ]])
    """

    kind = Sets()

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        numbers: dict[ItemId, int] = {}
        left = _bags(first, numbers)
        right = left if second is None else _bags(second, numbers)
        shared = bag_products(left, right, len(numbers))
        all_members = _sizes(left)[:, None] + _sizes(right)[None, :] - shared
        return np.divide(shared, all_members, out=np.ones_like(shared), where=all_members > 0)

    def diagonal(self, points: Points) -> Vector:
        return np.ones(len(_checked(points)))


def _bags(sets: Points, numbers: dict[ItemId, int]) -> list[Bag]:
    """Members of each set as integers of weight one."""
    members = [
        np.array([numbers.setdefault(item, len(numbers)) for item in one], dtype=np.int32) for one in _checked(sets)
    ]
    return [(some, np.ones(len(some))) for some in members]


def _checked(sets: Points) -> list[frozenset[ItemId]]:
    """Sets in canonical form, at no cost if they already are."""
    kind = Jaccard.kind
    kind.check_ordered(sets)
    return [one if type(one) is frozenset else kind.check_one(one) for one in sets]


def _sizes(bags: list[Bag]) -> Vector:
    return np.array([len(members) for members, _ in bags], dtype=np.float64)
