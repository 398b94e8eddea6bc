"""What was observed: distinct points, how often each was seen, and the sum of its rewards."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.kernels.points import PointKind
from kernelbandits.posterior.waiting import Waiting
from kernelbandits.types import Indices, Points, Vector

__all__ = ["NOTHING", "NO_SLOTS", "Batch", "Observations"]

NO_SLOTS: Final = np.zeros(0, dtype=np.intp)
NOTHING: Final = np.zeros(0)
TOO_MUCH: Final = "The rewards of a context add up to more than a double can hold. Scale them down."


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Observations sorted into points never seen and points known, each once."""

    keys: list[Hashable]
    """Of the new points."""

    points: Points
    """The new points; None when there are none."""

    counts: Vector
    sums: Vector
    """Of the new points."""

    slots: Indices
    """Where the known points are kept."""

    slot_counts: Vector
    slot_sums: Vector
    """What comes on top of theirs."""

    n_observations: int


class Observations:
    """Distinct points in slots. Repeats raise a count; a point whose count falls to zero leaves an empty slot."""

    def __init__(self, kind: PointKind) -> None:
        self._kind = kind
        self._slots: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._store: Any = None
        self._counts: Vector = np.zeros(0)
        self._sums: Vector = np.zeros(0)
        self._n_slots = 0
        self._waiting = Waiting(kind)
        self.n_observations = 0
        self.version = 0
        """Grows with every change, so that what is derived from the record knows when it is behind."""

    @property
    def size(self) -> int:
        """Distinct points."""
        if self._waiting.rewards:
            self._take_over()
        return len(self._slots)

    @property
    def n_slots(self) -> int:
        """Distinct points ever seen, those taken back too."""
        if self._waiting.rewards:
            self._take_over()
        return self._n_slots

    @property
    def points(self) -> Points:
        """Points of all slots, empty ones too; only where there is a slot."""
        return self._kind.view(self._store, self.n_slots)

    @property
    def counts(self) -> Vector:
        """Observations of each slot; zero for an empty one."""
        if self._waiting.rewards:
            self._take_over()
        return self._counts[: self._n_slots]

    @property
    def sums(self) -> Vector:
        """Sum of the rewards of each slot."""
        if self._waiting.rewards:
            self._take_over()
        return self._sums[: self._n_slots]

    def sort(self, points: Points, rewards: Vector, times: Vector) -> Batch:
        """Group the observations by point; nothing is kept yet."""
        if self._waiting.rewards:
            self._take_over()
        keys, slot_of = self._kind.keys(points), self._slots.get
        places = np.array([slot_of(key, -1) for key in keys], dtype=np.intp)
        is_new = places < 0
        new_rows = np.flatnonzero(is_new)
        fresh: dict[Hashable, int] = {}
        new = np.array([fresh.setdefault(keys[row], len(fresh)) for row in new_rows.tolist()], dtype=np.intp)
        first_rows = np.zeros(len(fresh), dtype=np.intp)
        first_rows[new[::-1]] = new_rows[::-1]  # the lowest row of each is written last
        weighted = rewards * times
        slots, known = np.unique(places[~is_new], return_inverse=True)
        return Batch(
            keys=list(fresh),
            points=self._kind.take(points, first_rows) if fresh else None,
            counts=_totals(new, times[is_new], len(fresh)),
            sums=_totals(new, weighted[is_new], len(fresh)),
            slots=slots,
            slot_counts=_totals(known, times[~is_new], len(slots)),
            slot_sums=_totals(known, weighted[~is_new], len(slots)),
            n_observations=int(times.sum()),
        )

    def locate(self, point: Points) -> tuple[Hashable, int]:
        """Key of the only point of a collection, and its slot; −1 where it was never seen."""
        if self._waiting.rewards:
            self._take_over()
        key = self._kind.keys(point)[0]
        return key, self._slots.get(key, -1)

    def add_one(self, point: Points, key: Hashable, slot: int, reward: float) -> None:
        """One more observation of a point that was located: the usual case, at a tenth of the cost."""
        if slot < 0:
            slot = self._n_slots
            self._store = self._kind.grow(self._store, slot, point)
            if slot == len(self._counts):
                self._counts, self._sums = _roomier(self._counts), _roomier(self._sums)
            self._counts[slot], self._sums[slot] = 1.0, reward
            self._keys.append(key)
            self._slots[key] = slot
            self._n_slots = slot + 1
        else:
            total = self._sums.item(slot) + reward
            if not isfinite(total):
                raise InvalidReward(TOO_MUCH)
            self._counts[slot] += 1.0
            self._sums[slot] = total
        self.n_observations += 1
        self.version += 1

    def retract_one(self, slot: int, total: float) -> None:
        """Undo `add_one`, for as long as nothing else has changed: the slot it was given, and the sum before."""
        if slot < 0:
            self._n_slots -= 1
            del self._slots[self._keys.pop()]
        else:
            self._counts[slot] -= 1.0
            self._sums[slot] = total
        self.n_observations -= 1
        self.version += 1

    def add(self, batch: Batch) -> Callable[[], None]:
        """Keep what was sorted; gives a function that undoes it, for as long as nothing else has changed."""
        before = (self.n_slots, self.n_observations, self._counts[batch.slots], self._sums[batch.slots])
        if not (np.isfinite(batch.sums).all() and np.isfinite(before[3] + batch.slot_sums).all()):
            raise InvalidReward(TOO_MUCH)
        if batch.keys:
            n_slots = self.n_slots + len(batch.keys)
            self._store = self._kind.grow(self._store, self.n_slots, batch.points)
            self._counts = _extended(self._counts, self.n_slots, batch.counts)
            self._sums = _extended(self._sums, self.n_slots, batch.sums)
            self._keys.extend(batch.keys)
            self._slots.update(zip(batch.keys, range(self.n_slots, n_slots), strict=True))
            self._n_slots = n_slots
        self._counts[batch.slots] += batch.slot_counts
        self._sums[batch.slots] += batch.slot_sums
        self.n_observations += batch.n_observations
        self.version += 1

        def undo() -> None:
            self._n_slots, self.n_observations, self._counts[batch.slots], self._sums[batch.slots] = before
            for key in batch.keys:
                del self._slots[key]
            del self._keys[self.n_slots :]
            self.version += 1

        return undo

    def queue(self, points: Points, rewards: Sequence[float]) -> None:
        """More observations, not too large to be added, that are sorted when someone asks for what was observed."""
        self._waiting.add(points, rewards)
        self._count_queued(len(rewards))

    def queue_one(self, point: Points, reward: float) -> None:
        """Likewise one."""
        self._waiting.add_one(point, reward)
        self._count_queued(1)

    def _count_queued(self, n_observations: int) -> None:
        self.n_observations += n_observations
        self.version += 1
        if self._waiting.is_full:
            self._take_over()

    def _take_over(self) -> None:
        """Sort what is queued."""
        points, rewards = self._waiting.taken()
        self.n_observations -= len(rewards)  # they were counted when they came
        self.version -= 1
        if len(rewards) == 1:
            key = self._kind.keys(points)[0]
            self.add_one(points, key, self._slots.get(key, -1), float(rewards[0]))
        else:
            self.add(self.sort(points, rewards, np.ones(len(rewards))))

    def find(self, points: Points) -> Indices:
        """Slots of known points, or NotLearnt."""
        if self._waiting.rewards:
            self._take_over()
        keys = self._kind.keys(points)
        unknown = next((row for row, key in enumerate(keys) if key not in self._slots), None)
        if unknown is not None:
            raise NotLearnt(
                f"Point {unknown} of this call was never observed ({self._kind.one(points, unknown)!r:.80}), so "
                "there is nothing to change. Only what was learnt can be amended or taken back."
            )
        return np.array([self._slots[key] for key in keys], dtype=np.intp)

    def change(self, slots: Indices, changes: Vector) -> None:
        """Add to the reward sums."""
        if not np.isfinite(self._sums[slots] + changes).all():
            raise InvalidReward(TOO_MUCH)
        np.add.at(self._sums, slots, changes)
        self.version += 1

    def subtract(self, slots: Indices, rewards: Vector) -> Callable[[], None]:
        """Take one observation each back; `slots` may repeat. A slot that runs empty forgets its point.

        Gives a function that undoes it, for as long as nothing else has changed.
        """
        before = (self._counts.copy(), self._sums.copy(), dict(self._slots), self.n_observations)
        np.subtract.at(self._counts, slots, 1.0)
        np.subtract.at(self._sums, slots, rewards)
        self.n_observations -= len(slots)
        self.version += 1
        for slot in {int(slot) for slot in slots if self._counts[slot] == 0.0}:
            self._sums[slot] = 0.0
            del self._slots[self._keys[slot]]

        def undo() -> None:
            self._counts, self._sums, self._slots, self.n_observations = before
            self.version += 1

        return undo

    def retotal(self, keys: Sequence[Hashable], counts: Vector, sums: Vector) -> Callable[[], None]:
        """Other counts, which need not be whole, and reward sums for known points; at a count of 0 it is forgotten.

        Gives a function that undoes it, for as long as nothing else has changed.
        """
        if self._waiting.rewards:
            self._take_over()
        if not np.isfinite(sums).all():
            raise InvalidReward(TOO_MUCH)
        slots = np.array([self._slots[key] for key in keys], dtype=np.intp)
        before = (self._counts[slots], self._sums[slots], self.n_observations)
        self._counts[slots], self._sums[slots] = counts, sums
        self.n_observations += round(float((counts - before[0]).sum()))
        self.version += 1
        for key, count in zip(keys, counts.tolist(), strict=True):
            if count == 0.0:
                del self._slots[key]

        def undo() -> None:
            self._counts[slots], self._sums[slots], self.n_observations = before
            self._slots.update(zip(keys, slots.tolist(), strict=True))
            self.version += 1

        return undo

    def fade(self, rate: float, gone: Sequence[Hashable]) -> Callable[[], None]:
        """Let every observation count `rate` times what it did, and forget the points of these keys.

        Gives a function that undoes it, for as long as nothing else has changed.
        """
        before = (self.counts.copy(), self.sums.copy(), dict(self._slots), self.n_observations)
        counts, sums = self.counts, self.sums
        counts *= rate
        sums *= rate
        for key in gone:
            slot = self._slots.pop(key)
            counts[slot] = sums[slot] = 0.0
        self.n_observations = round(float(counts.sum()))
        self.version += 1

        def undo() -> None:
            self.counts[:], self.sums[:], self._slots, self.n_observations = before
            self.version += 1

        return undo

    def kept(self) -> tuple[Points, Vector, Vector]:
        """Copies of points, counts and sums without the empty slots; only where there is a point."""
        live = np.flatnonzero(self.counts)
        return self._kind.take(self.points, live), self.counts[live], self.sums[live]

    def totals(self, points: Points, counts: Vector, sums: Vector) -> Batch:
        """Distinct points never seen here, with their totals, as `kept` gives them."""
        keys = self._kind.keys(points)
        return Batch(keys, points, counts, sums, NO_SLOTS, NOTHING, NOTHING, round(counts.sum()))

    def compacted(self) -> Observations:
        """The same without empty slots."""
        fresh = Observations(self._kind)
        if self.size:
            fresh.add(fresh.totals(*self.kept()))
        return fresh


def _totals(places: Indices, amounts: Vector, n_places: int) -> Vector:
    """Sum of the amounts at each place."""
    return np.bincount(places, amounts, n_places).astype(np.float64)


def _extended(buffer: Vector, used: int, values: Vector) -> Vector:
    """A buffer with room to spare that begins with the used part and then the values."""
    needed = used + len(values)
    if needed > len(buffer):
        buffer = _roomier(buffer, needed)
    buffer[used:needed] = values
    return buffer


def _roomier(buffer: Vector, needed: int = 16) -> Vector:
    """The same with room for twice as much, and for as much as is needed."""
    larger = np.zeros(max(needed, 2 * len(buffer)))
    larger[: len(buffer)] = buffer
    return larger
