"""Balls of a metric space that share out its points among themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import DamagedFile
from kernelbandits.journal import Journal
from kernelbandits.kernels import PointKind
from kernelbandits.restoring import saved_array, saved_part
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["Balls", "Metric"]

Metric: TypeAlias = Callable[[Points, Points], Matrix]
"""Distances of every pair of two collections, none above 1."""


class Balls:
    """Centres, radii, plays and rewards of balls, each with the domain that no smaller ball takes from it.

    A ball's domain is what lies in it and in no ball of smaller radius. As the first ball has radius 1 and no distance
    is larger, every point is in some domain. Distances between centres are kept: a new ball costs one row of them.
    """

    def __init__(self, metric: Metric, kind: PointKind, journal: Journal) -> None:
        self._metric, self._kind, self._journal = metric, kind, journal
        self._count = 0
        self._centres: Any = None
        self._numbers = np.zeros((3, 4))  # radii, plays and rewards
        self._apart = np.zeros((4, 4))

    def __len__(self) -> int:
        return self._count

    @property
    def centres(self) -> Points:
        """A point a ball; only where there is one."""
        return self._kind.view(self._centres, self._count)

    @property
    def radii(self) -> Vector:
        """1 of the first, half of its parent's of every other."""
        return self._numbers[0, : self._count]

    @property
    def plays(self) -> Vector:
        """Rewards learnt by each."""
        return self._numbers[1, : self._count]

    @property
    def rewards(self) -> Vector:
        """Their sums."""
        return self._numbers[2, : self._count]

    @property
    def apart(self) -> Matrix:
        """Distances between centres."""
        return self._apart[: self._count, : self._count]

    def distances(self, points: Points) -> Matrix:
        """From every centre to every point, or InvalidContexts for points of another sort."""
        self._kind.refuse_unlike(self.centres, points)
        return self._metric(self.centres, points)

    def domains(self, distances: Matrix) -> NDArray[np.bool_]:
        """Which of these points lie in which domain, a row a ball."""
        radii = self.radii[:, None]
        inside = distances <= radii
        smallest = np.where(inside, radii, np.inf).min(axis=0)
        shared_out: NDArray[np.bool_] = inside & (radii == smallest)
        return shared_out

    def add(self, point: Points, radius: float) -> None:
        """One more ball around a collection of one point."""
        count = self._count
        to_others = self.distances(point)[:, 0] if count else np.zeros(0)
        if not count:
            self._metric(point, point)  # says no to what cannot be compared at all
        self._journal.note(vars(self).update, {"_count": count, "_centres": self._centres})
        self._centres = self._kind.grow(self._centres, count, point)
        if count == len(self._apart):
            self._numbers = np.pad(self._numbers, ((0, 0), (0, count)))
            self._apart = np.pad(self._apart, (0, count))
        self._numbers[:, count] = radius, 0.0, 0.0
        self._apart[:count, count] = self._apart[count, :count] = to_others
        self._count = count + 1

    def play(self, ball: int, reward: float) -> None:
        """One more reward of a ball."""
        before = self._numbers[:, ball].copy()
        self._journal.note(self._put_back, ball, before)
        self._numbers[:, ball] = before + np.array([0.0, 1.0, reward])

    def _put_back(self, ball: int, numbers: Vector) -> None:
        self._numbers[:, ball] = numbers

    def state(self) -> Parameters:
        """Plain values and arrays that `restore` needs."""
        if not self._count:
            return {}
        return {"centres": self._kind.pack(self.centres), "numbers": self._numbers[:, : self._count].copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; only before there are balls."""
        if not state:
            return
        centres = self._kind.check(self._kind.unpack(saved_part(state, "centres")))
        numbers = saved_array(state, "numbers", "f", (3, self._kind.count(centres)))
        if numbers[0, 0] != 1.0 or (numbers[0] <= 0.0).any() or (numbers[1] < 0.0).any():
            raise DamagedFile("The balls in the file have to have radii above zero, the first 1, and counts from zero.")
        for ball, radius in enumerate(numbers[0]):  # one by one, as they came: the distances are the same to the bit
            self.add(self._kind.take(centres, np.array([ball])), float(radius))
        self._numbers[:, : self._count] = numbers
