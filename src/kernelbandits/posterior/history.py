"""Observations in the order in which they were learnt, as far as they are remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from math import fsum, inf
from typing import Final, TypeAlias

import numpy as np

from kernelbandits.errors import NotLearnt
from kernelbandits.types import Vector

__all__ = ["Entry", "History", "exact_sum"]

SAME_REWARD: Final = 1e-9
"""Relative difference up to which a reward to take back is the one remembered: was + (now − was) is rounded."""

Entry: TypeAlias = tuple[Hashable, float]  # key of a point, reward


class History:
    """Keys of points and their rewards, oldest first.

    Of one point the same reward can be remembered more than once, and what is to be changed or taken back comes
    without a date: the latest of those that fit is meant.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._order: deque[Hashable] = deque()
        self._rewards: dict[Hashable, deque[float]] = {}  # of each point, oldest first
        for key, reward in entries:
            self.append(key, reward)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Entry]:
        """Keys and rewards, oldest first."""
        rewards = {key: iter(own) for key, own in self._rewards.items()}
        return ((key, next(rewards[key])) for key in self._order)

    @property
    def size(self) -> int:
        """Distinct points."""
        return len(self._rewards)

    def append(self, key: Hashable, reward: float) -> None:
        """The latest observation."""
        self._order.append(key)
        own = self._rewards.get(key)
        if own is None:
            own = self._rewards[key] = deque()
        own.append(reward)

    def oldest(self, n: int) -> dict[Hashable, int]:
        """Points of the n oldest observations, and how many of these are theirs."""
        if n == 1:  # the usual case
            return {self._order[0]: 1}
        if n >= len(self._order):
            return {key: len(own) for key, own in self._rewards.items()}
        times: dict[Hashable, int] = {}
        for place in range(n):
            key = self._order[place]
            times[key] = times.get(key, 0) + 1
        return times

    def rest(self, key: Hashable, n: int) -> list[float]:
        """Rewards of a point without its n oldest."""
        return list(self._rewards[key])[n:]

    def forget(self, n: int) -> None:
        """Drop the n oldest observations."""
        for _ in range(n):
            key = self._order.popleft()
            own = self._rewards[key]
            own.popleft()
            if not own:
                del self._rewards[key]

    def amended(self, changes: Sequence[Entry]) -> History:
        """With changes added to rewards: in each case the latest of that point."""
        edited = dict[Hashable, float]()
        for key, change in changes:
            edited[key] = edited.get(key, self._latest(key)) + change
        changed = History(list(self))
        for key, reward in edited.items():
            changed._rewards[key][-1] = reward
        return changed

    def without(self, taken: Sequence[Entry]) -> History:
        """Without these observations: in each case the latest of that point and that reward."""
        entries = list(self)
        places: dict[Hashable, list[int]] = {}
        for place, (key, _) in enumerate(entries):
            places.setdefault(key, []).append(place)
        gone: set[int] = set()
        for key, reward in taken:
            fits = [place for place in places.get(key, ()) if _is_same(entries[place][1], reward)]
            if not fits:
                raise NotLearnt(
                    f"No observation of this point with the reward {reward!r} is remembered, so none can be taken "
                    "back: it was never learnt, or it has been forgotten since and counts no more."
                )
            places[key].remove(fits[-1])
            gone.add(fits[-1])
        return History([entry for place, entry in enumerate(entries) if place not in gone])

    def totals(self, weights: Vector) -> dict[Hashable, tuple[float, float]]:
        """Count and reward sum of every point, where the observations, oldest first, have these weights."""
        counts: dict[Hashable, list[float]] = {}
        sums: dict[Hashable, list[float]] = {}
        for (key, reward), weight in zip(self, weights.tolist(), strict=True):
            counts.setdefault(key, []).append(weight)
            sums.setdefault(key, []).append(weight * reward)
        return {key: (exact_sum(counts[key]), exact_sum(sums[key])) for key in counts}

    def arrays(self, keys: Sequence[Hashable]) -> dict[str, np.ndarray]:
        """To be saved: places of the points among these keys, and the rewards."""
        place_of = {key: place for place, key in enumerate(keys)}
        entries = list(self)
        return {
            "order": np.array([place_of[key] for key, _ in entries], dtype=np.int64),
            "rewards": np.array([reward for _, reward in entries]),
        }

    def _latest(self, key: Hashable) -> float:
        if key not in self._rewards:
            raise NotLearnt(
                "No observation of this point is remembered, so there is nothing to change: it was never learnt, or it "
                "has been forgotten since and counts no more."
            )
        return self._rewards[key][-1]


def exact_sum(values: Sequence[float]) -> float:
    """Rounded once, whatever has been added and taken away before; infinite where that is too large."""
    try:
        return fsum(values)
    except OverflowError:
        return inf


def _is_same(reward: float, other: float) -> bool:
    return abs(reward - other) <= SAME_REWARD * max(1.0, abs(reward), abs(other))
