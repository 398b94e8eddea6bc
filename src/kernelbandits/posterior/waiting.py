"""Observations that wait to be sorted into distinct points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kernelbandits.kernels.points import PointKind
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["MOST_COLLECTIONS", "Waiting"]

MOST_COLLECTIONS: Final = 512
"""Sorting this many single points takes half a millisecond."""
MOST_POINTS: Final = 100_000


class Waiting:
    """A queue of points with a reward each; what it holds is its own."""

    def __init__(self, kind: PointKind) -> None:
        self._kind = kind
        self._collections: list[Points] = []
        self._rows: Matrix | None = None  # room for dense rows that come one by one, which are the last of the queue
        self._n_rows = 0
        self.rewards: list[float] = []
        """Of all that wait."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to sort."""
        n_collections = len(self._collections) + self._n_rows
        return n_collections >= MOST_COLLECTIONS or len(self.rewards) >= MOST_POINTS

    def add(self, points: Points, rewards: Sequence[float]) -> None:
        """A collection, checked, with its rewards."""
        self._close_rows()
        self._collections.append(self._kind.take(points, np.arange(len(rewards))))
        self.rewards += rewards

    def add_one(self, point: Points, reward: float) -> None:
        """A collection of one: a row among others that came so, where it is a row."""
        if type(point) is not np.ndarray:
            self.add(point, [reward])
            return
        rows = self._rows
        if rows is None:
            rows = self._rows = np.empty((MOST_COLLECTIONS, point.shape[1]))
        rows[self._n_rows] = point[0]
        self._n_rows += 1
        self.rewards.append(reward)

    def taken(self) -> tuple[Points, Vector]:
        """All of it, in order; the queue is empty afterwards."""
        self._close_rows()
        points = self._collections[0] if len(self._collections) == 1 else self._kind.stack(*self._collections)
        rewards = np.array(self.rewards)
        self._collections, self.rewards = [], []
        return points, rewards

    def _close_rows(self) -> None:
        """Rows that came one by one become a collection, and are not written to any more."""
        if self._rows is not None and self._n_rows:
            self._collections.append(self._rows[: self._n_rows])
            self._rows, self._n_rows = None, 0

    def mark(self) -> tuple[Any, ...]:
        """The state of the queue, for `put_back`."""
        collections, rewards = self._collections, self.rewards
        return collections, len(collections), self._rows, self._n_rows, rewards, len(rewards)

    def put_back(self, mark: tuple[Any, ...]) -> None:
        """Restore a former state: what was added since is dropped."""
        self._collections, n_collections, self._rows, self._n_rows, self.rewards, n_rewards = mark
        del self._collections[n_collections:], self.rewards[n_rewards:]
