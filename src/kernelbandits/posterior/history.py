"""Observations in the order in which they were learnt, as far as they are remembered."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from math import fsum, inf
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import NotLearnt
from kernelbandits.journal import Journal
from kernelbandits.types import Vector

__all__ = ["Entry", "History", "Known", "exact_sum"]

SAME_REWARD: Final = 1e-9
"""Relative difference up to which a reward is the one remembered."""

Entry: TypeAlias = tuple[Hashable, float]  # key of a point, reward


class Known(NamedTuple):
    """An observation to be changed or taken back: by its number, or else by its point and reward."""

    key: Hashable
    reward: float
    number: int | None


class History:
    """Keys of points and their rewards, oldest first; each observation has a number that no other one gets.

    An observation that is named without its number is the latest one of its point and reward.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._numbers: dict[Hashable, deque[int]] = {}  # of each point, oldest first
        self.last = 0
        """Number of the latest observation."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Keys and rewards, oldest first."""
        return iter(self._entries.values())

    @property
    def size(self) -> int:
        """Distinct points."""
        return len(self._numbers)

    def append(self, entries: Sequence[Entry], *, skipped: int = 0) -> None:
        """The latest observations, after some that are not remembered."""
        self._journal.note(self._drop_after, self.last)
        self._put(range(self.last + skipped + 1, self.last + skipped + len(entries) + 1), entries)

    def _put(self, numbers: Sequence[int], entries: Sequence[Entry]) -> None:
        for number, entry in zip(numbers, entries, strict=True):
            self._entries[number] = entry
            own = self._numbers.get(entry[0])
            if own is None:
                own = self._numbers[entry[0]] = deque()
            own.append(number)
        self.last = numbers[-1] if numbers else self.last

    def oldest(self, n: int) -> dict[Hashable, int]:
        """Points of the n oldest observations, and how many of these are theirs."""
        if n >= len(self._entries):
            return {key: len(own) for key, own in self._numbers.items()}
        times: dict[Hashable, int] = {}
        for _, (key, _) in zip(range(n), self._entries.values(), strict=False):
            times[key] = times.get(key, 0) + 1
        return times

    def rest(self, key: Hashable, n: int) -> list[float]:
        """Rewards of a point without its n oldest."""
        return [self._entries[number][1] for number in list(self._numbers[key])[n:]]

    def forget(self, n: int) -> None:
        """Drop the n oldest observations."""
        self._journal.note(self._restore_oldest, [(number, self._entries[number]) for number in self._first(n)])
        for _ in range(n):
            number, (key, _) = self._entries.popitem(last=False)
            self._drop_number(key, number)

    def amended(self, known: Sequence[Known], rewards: Sequence[float]) -> History:
        """With other rewards for some observations."""
        changed = self._copy(set())
        for one, reward in zip(known, rewards, strict=True):
            changed._entries[changed._find(one)] = (one.key, reward)
        return changed

    def without(self, known: Sequence[Known]) -> History:
        """Without some observations."""
        gone: set[int] = set()
        for one in known:
            gone.add(self._find(one, gone))
        return self._copy(gone)

    def totals(self, weights: Vector) -> dict[Hashable, tuple[float, float]]:
        """Count and reward sum of every point, where the observations, oldest first, have these weights."""
        counts: dict[Hashable, list[float]] = {}
        sums: dict[Hashable, list[float]] = {}
        for (key, reward), weight in zip(self, weights.tolist(), strict=True):
            counts.setdefault(key, []).append(weight)
            sums.setdefault(key, []).append(weight * reward)
        return {key: (exact_sum(counts[key]), exact_sum(sums[key])) for key in counts}

    def arrays(self, keys: Sequence[Hashable]) -> dict[str, NDArray[np.int64] | Vector]:
        """To be saved: numbers, places of the points among these keys, rewards, and the latest number."""
        place_of = {key: place for place, key in enumerate(keys)}
        return {
            "numbers": np.array(list(self._entries), dtype=np.int64),
            "order": np.array([place_of[key] for key, _ in self], dtype=np.int64),
            "rewards": np.array([reward for _, reward in self], dtype=np.float64),
            "last": np.array([self.last], dtype=np.int64),
        }

    def restore(self, numbers: Sequence[int], entries: Sequence[Entry], last: int) -> None:
        """Take over what was saved; only before any observation."""
        self._put(numbers, entries)
        self.last = last

    def join(self, journal: Journal) -> None:
        """Note changes there from now on."""
        self._journal = journal

    def _find(self, known: Known, gone: set[int] | frozenset[int] = frozenset()) -> int:
        """Number of an observation, or NotLearnt."""
        key, reward, number = known
        if number is None:
            fits = (
                place
                for place in reversed(self._numbers.get(key, ()))
                if place not in gone and _is_same(self._entries[place][1], reward)
            )
            number = next(fits, None)
        if number is None or number in gone or self._entries.get(number, (None,))[0] != key:
            raise NotLearnt(
                f"No observation of this point with the reward {reward!r} is remembered, so there is nothing to "
                "change: it was never learnt, or it has been forgotten since and does not count any more."
            )
        return number

    def _copy(self, gone: set[int]) -> History:
        kept = [number for number in self._entries if number not in gone]
        copied = History(self._journal)
        copied.restore(kept, [self._entries[number] for number in kept], self.last)
        return copied

    def _first(self, n: int) -> list[int]:
        return [number for _, number in zip(range(n), self._entries, strict=False)]

    def _drop_number(self, key: Hashable, number: int) -> None:
        own = self._numbers.get(key)
        if own and number in (own[0], own[-1]):
            own.popleft() if own[0] == number else own.pop()
        if not own:
            self._numbers.pop(key, None)

    def _drop_after(self, last: int) -> None:
        """Roll `append` back."""
        while self._entries and next(reversed(self._entries)) > last:
            number, (key, _) = next(reversed(self._entries.items()))
            self._drop_number(key, number)
            del self._entries[number]
        self.last = last

    def _restore_oldest(self, forgotten: list[tuple[int, Entry]]) -> None:
        """Roll `forget` back."""
        for number, entry in reversed(forgotten):
            own = self._numbers.setdefault(entry[0], deque())
            if not own or own[0] > number:
                own.appendleft(number)
            self._entries[number] = entry
            self._entries.move_to_end(number, last=False)


def exact_sum(values: Sequence[float]) -> float:
    """Rounded once, whatever has been added and taken away before; infinite where that is too large."""
    try:
        return fsum(values)
    except OverflowError:
        return inf


def _is_same(reward: float, other: float) -> bool:
    return abs(reward - other) <= SAME_REWARD * max(1.0, abs(reward), abs(other))
