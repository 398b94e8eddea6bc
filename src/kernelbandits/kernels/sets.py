"""The kernel between sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbandits.kernels.bags import Bag, bag_products
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.sequences import Sets
from kernelbandits.types import ItemId, Matrix, Points, Vector

__all__ = ["Jaccard"]


@dataclass(frozen=True)
class Jaccard(Kernel):
    """|A ∩ B| / |A ∪ B| of sets of words, tags, ids; two empty sets are alike.

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
    """The members of each set as numbers of weight one."""
    members = [
        np.array([numbers.setdefault(item, len(numbers)) for item in one], dtype=np.int32) for one in _checked(sets)
    ]
    return [(some, np.ones(len(some))) for some in members]


def _checked(sets: Points) -> list[frozenset[ItemId]]:
    """The sets in canonical form, at no cost where they are."""
    kind = Jaccard.kind
    kind.refuse_unordered(sets)
    return [one if type(one) is frozenset else kind.check_one(one) for one in sets]


def _sizes(bags: list[Bag]) -> Vector:
    return np.array([len(members) for members, _ in bags], dtype=np.float64)
