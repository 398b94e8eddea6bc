"""The similarity of things that have nothing in common."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.points import PointKind, a_kind
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["Delta"]


@dataclass(frozen=True)
class Delta(Kernel):
    """1 if both are the same point or id, else 0: every action is learnt on its own, as without contexts.

    `kind` says what the points are: ids unless told otherwise, `Delta(kind=Rows())` for rows of numbers. Added to
    another kernel it gives every point something of its own: `Gaussian(length_scale=1.0) + 0.1 * Delta(kind=Rows())`.

    >>> Delta().gram(["a", "b"], ["b", "c"])
    array([[0., 0.],
           [1., 0.]])
    """

    kind: PointKind = Ids()  # noqa: RUF009 – a kind has no state

    def __post_init__(self) -> None:
        a_kind(self.kind)

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
        """A number for each point, the same for the same point."""
        keys = self.kind.keys(self._checked(points))
        return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.intp, count=len(keys))
