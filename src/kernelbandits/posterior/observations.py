"""Observations: distinct points with counts and reward sums, and a buffer of new ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any, Final, TypeVar

import numpy as np

from kernelbandits._transactions import Journal
from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.kernels.points import PointKind
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = [
    "EMPTY_SHARE",
    "MOST_COLLECTIONS",
    "NOTHING",
    "NO_SLOTS",
    "Batch",
    "ObservationBuffer",
    "Observations",
    "two_sum",
]

MOST_COLLECTIONS: Final = 512
"""Number of collections in the buffer that triggers sorting: sorting this many single points takes half a
millisecond."""
MOST_POINTS: Final = 100_000

EMPTY_SHARE: Final = 0.25
"""Fraction of empty slots at which a record is compacted, and what is derived from it rebuilt."""


class ObservationBuffer:
    """Buffer of points with one reward each; it owns its contents."""

    def __init__(self, kind: PointKind) -> None:
        self._kind = kind
        self._collections: list[Points] = []
        self._rows: Matrix | None = None  # buffer for dense rows added one by one, the last of the queue
        self._n_rows = 0
        self.rewards: list[float] = []
        """Rewards of all buffered points."""

    @property
    def is_full(self) -> bool:
        """Whether the buffer should be sorted."""
        n_collections = len(self._collections) + self._n_rows
        return n_collections >= MOST_COLLECTIONS or len(self.rewards) >= MOST_POINTS

    def add(self, points: Points, rewards: Sequence[float]) -> None:
        """Append a validated collection with its rewards."""
        self._close_rows()
        self._collections.append(self._kind.take(points, np.arange(len(rewards))))
        self.rewards += rewards

    def add_one(self, point: Points, reward: float) -> None:
        """Append a collection of one; a dense row is joined with preceding ones."""
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
        """Return all points and rewards, in order, and empty the buffer."""
        self._close_rows()
        points = self._collections[0] if len(self._collections) == 1 else self._kind.stack(*self._collections)
        rewards = np.array(self.rewards)
        self._collections, self.rewards = [], []
        return points, rewards

    def _close_rows(self) -> None:
        """Convert rows that were added one by one into a collection, which is not written to any more."""
        if self._rows is not None and self._n_rows:
            self._collections.append(self._rows[: self._n_rows])
            self._rows, self._n_rows = None, 0

    def mark(self) -> tuple[Any, ...]:
        """State of the buffer, for `put_back`."""
        collections, rewards = self._collections, self.rewards
        return collections, len(collections), self._rows, self._n_rows, rewards, len(rewards)

    def put_back(self, mark: tuple[Any, ...]) -> None:
        """Restore a former state: what was added since is dropped."""
        self._collections, n_collections, self._rows, self._n_rows, self.rewards, n_rewards = mark
        del self._collections[n_collections:], self.rewards[n_rewards:]


NO_SLOTS: Final = np.zeros(0, dtype=np.intp)
NOTHING: Final = np.zeros(0)
NO_TOTALS: Final = (NO_SLOTS, NOTHING, NOTHING, NOTHING)
Numbers = TypeVar("Numbers", float, Vector)
TOO_MUCH: Final = "The rewards of a context add up to more than a double can hold. Scale them down."


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Observations grouped by point: new points and known points, each once."""

    keys: list[Hashable]
    """Keys of the new points."""

    points: Points
    """New points; None if there are none."""

    counts: Vector
    sums: Vector
    errors: Vector
    """Rounding errors for the new points; the exact sums of rewards are sums + errors."""

    slots: Indices
    """Slots of the known points."""

    slot_counts: Vector
    slot_sums: Vector
    slot_errors: Vector
    """Rounding errors of the sums added to the known points."""

    n_observations: int


class Observations:
    """Distinct points in slots. Repeats raise a count; a point whose count falls to zero leaves an empty slot.

    A slot is the index of a distinct point. The sum of its rewards is stored as two doubles, the sum and its rounding
    error (Knuth's two-sum). A reward of up to 1e18 that is added and removed leaves an error of at most 1e-12 in the
    sum of others.

    Every change is recorded in the journal before it is made, so that the enclosing call can be rolled back.
    """

    def __init__(self, kind: PointKind, journal: Journal | None = None) -> None:
        self._journal = Journal() if journal is None else journal
        self._kind = kind
        self._slots: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._store: Any = None
        self._counts: Vector = np.zeros(0)
        self._sums: Vector = np.zeros(0)
        self._errors: Vector = np.zeros(0)  # the exact sum is _sums + _errors
        self._n_slots = 0
        self._waiting = ObservationBuffer(kind)
        self.n_observations = 0
        self.version = 0
        """Version, increased with every change, so that derived state can detect that it is out of date."""

    @property
    def size(self) -> int:
        """Number of distinct points."""
        if self._waiting.rewards:
            self._add_waiting()
        return len(self._slots)

    @property
    def n_slots(self) -> int:
        """Number of distinct points ever seen, including removed ones."""
        if self._waiting.rewards:
            self._add_waiting()
        return self._n_slots

    @property
    def points(self) -> Points:
        """Points of all slots, including empty ones; requires a slot."""
        return self._kind.view(self._store, self.n_slots)

    @property
    def counts(self) -> Vector:
        """Number of observations of each slot; zero for an empty one."""
        if self._waiting.rewards:
            self._add_waiting()
        return self._counts[: self._n_slots]

    @property
    def sums(self) -> Vector:
        """Sum of the rewards of each slot."""
        if self._waiting.rewards:
            self._add_waiting()
        return self._sums[: self._n_slots]

    def current_totals(self) -> tuple[Vector, Vector, int]:
        """Buffers of `counts` and `sums`, and the number of slots, in one call; entries after the slots are unused."""
        if self._waiting.rewards:
            self._add_waiting()
        return self._counts, self._sums, self._n_slots

    def sort(self, points: Points, rewards: Vector, times: Vector) -> Batch:
        """Group the observations by point; nothing is stored yet."""
        if self._waiting.rewards:
            self._add_waiting()
        keys, slot_of = self._kind.keys(points), self._slots.get
        if self._slots.keys().isdisjoint(keys) and len(set(keys)) == len(keys):  # every point is new: nothing to group
            copies, n_observations = self._kind.take(points, np.arange(len(keys))), int(times.sum())
            counts, sums, errors = times.astype(np.float64), rewards * times + 0.0, np.zeros(len(keys))
            return Batch(keys, copies, counts, sums, errors, NO_SLOTS, NOTHING, NOTHING, NOTHING, n_observations)
        places = np.array([slot_of(key, -1) for key in keys], dtype=np.intp)
        is_new = places < 0
        new_rows = np.flatnonzero(is_new)
        fresh: dict[Hashable, int] = {}
        new = np.array([fresh.setdefault(keys[row], len(fresh)) for row in new_rows.tolist()], dtype=np.intp)
        first_rows = np.zeros(len(fresh), dtype=np.intp)
        first_rows[new[::-1]] = new_rows[::-1]  # the lowest row of each is written last
        weighted = rewards * times
        slots, known = np.unique(places[~is_new], return_inverse=True)
        sums, errors = _exact_totals(new, weighted[is_new], len(fresh))
        slot_sums, slot_errors = _exact_totals(known, weighted[~is_new], len(slots))
        return Batch(
            keys=list(fresh),
            points=self._kind.take(points, first_rows) if fresh else None,
            counts=_totals(new, times[is_new], len(fresh)),
            sums=sums,
            errors=errors,
            slots=slots,
            slot_counts=_totals(known, times[~is_new], len(slots)),
            slot_sums=slot_sums,
            slot_errors=slot_errors,
            n_observations=int(times.sum()),
        )

    def locate(self, point: Points) -> tuple[Hashable, int]:
        """Key of the only point of a collection, and its slot; −1 if it was never seen."""
        if self._waiting.rewards:
            self._add_waiting()
        key = self._kind.keys(point)[0]
        return key, self._slots.get(key, -1)

    # -- changes ---------------------------------------------------------------------------------------------------

    def add_one(self, point: Points, key: Hashable, slot: int, reward: float) -> None:
        """Add one observation of a located point: the common case, at a tenth of the cost."""
        if slot < 0:
            slot = self._n_slots
            self._journal.notes.append((self._put_back, (slot, self.n_observations, *NO_TOTALS)))
            self._store = self._kind.grow(self._store, slot, point)
            if slot >= len(self._errors):
                self._make_room(slot + 1)
            self._counts[slot], self._sums[slot], self._errors[slot] = 1.0, reward, 0.0
            self._keys.append(key)
            self._slots[key] = slot
            self._n_slots = slot + 1
        else:
            count, old, error = self._counts.item(slot), self._sums.item(slot), self._errors.item(slot)
            shifted = old + reward  # inlined `two_sum`
            shift = shifted - old
            rest = error + ((old - (shifted - shift)) + (reward - shift))
            total = shifted + rest
            rest -= total - shifted
            if not isfinite(total):
                raise InvalidReward(TOO_MUCH)
            before = (self._n_slots, self.n_observations, slot, count, old, error)
            self._journal.notes.append((self._put_back, before))
            self._counts[slot] = count + 1.0
            self._sums[slot] = total
            self._errors[slot] = rest
        self.n_observations += 1
        self.version += 1

    def add(self, batch: Batch) -> None:
        """Add a grouped batch."""
        slots, n_slots = batch.slots, self.n_slots
        with np.errstate(over="ignore", invalid="ignore"):
            sums, errors = two_sum(self._sums[slots], self._errors[slots] + batch.slot_errors, batch.slot_sums)
        if not (np.isfinite(batch.sums).all() and np.isfinite(sums).all()):
            raise InvalidReward(TOO_MUCH)
        before = (self._counts[slots], self._sums[slots], self._errors[slots])
        self._journal.note(self._put_back, n_slots, self.n_observations, slots, *before)
        if batch.keys:
            last = n_slots + len(batch.keys)
            self._store = self._kind.grow(self._store, n_slots, batch.points)
            self._make_room(last)
            self._counts[n_slots:last], self._sums[n_slots:last] = batch.counts, batch.sums
            self._errors[n_slots:last] = batch.errors
            self._keys.extend(batch.keys)
            self._slots.update(zip(batch.keys, range(n_slots, last), strict=True))
            self._n_slots = last
        self._counts[slots] += batch.slot_counts
        self._sums[slots], self._errors[slots] = sums, errors
        self.n_observations += batch.n_observations
        self.version += 1

    def queue(self, points: Points, rewards: Sequence[float]) -> None:
        """Buffer observations, which are grouped when the record is next read; their sums must not overflow."""
        self._note_queue()
        self._waiting.add(points, rewards)
        self.n_observations += len(rewards)
        self.version += 1
        if self._waiting.is_full:
            self._add_waiting()

    def queue_one(self, point: Points, reward: float) -> None:
        """Buffer one observation."""
        waiting = self._waiting
        rows, n_rows, rewards = waiting._rows, waiting._n_rows, waiting.rewards
        # Inlined `mark`, and `add_one` for a dense row.
        mark = waiting._collections, len(waiting._collections), rows, n_rows, rewards, len(rewards)
        self._journal.notes.append((self._put_back_queue, (mark, self.n_observations)))
        if rows is not None and type(point) is np.ndarray:
            rows[n_rows] = point
            waiting._n_rows = n_rows + 1
            rewards.append(reward)
        else:
            waiting.add_one(point, reward)
        self.n_observations += 1
        self.version += 1
        if len(rewards) >= MOST_COLLECTIONS and waiting.is_full:
            self._add_waiting()

    def _note_queue(self) -> None:
        self._journal.note(self._put_back_queue, self._waiting.mark(), self.n_observations)

    def _add_waiting(self) -> None:
        """Group the buffered observations. They are already counted in `n_observations`."""
        self._note_queue()
        points, rewards = self._waiting.taken()
        n_observations, version = self.n_observations, self.version
        if len(rewards) == 1:
            key = self._kind.keys(points)[0]
            self.add_one(points, key, self._slots.get(key, -1), float(rewards[0]))
        else:
            self.add(self.sort(points, rewards, np.ones(len(rewards))))
        self.n_observations, self.version = n_observations, version

    def find(self, points: Points) -> Indices:
        """Slots of known points; raises NotLearnt."""
        if self._waiting.rewards:
            self._add_waiting()
        keys = self._kind.keys(points)
        unknown = next((row for row, key in enumerate(keys) if key not in self._slots), None)
        if unknown is not None:
            raise NotLearnt(
                f"Point {unknown} of this call was never observed ({self._kind.one(points, unknown)!r:.80}), so "
                "there is nothing to change. Only what was learned can be amended or removed."
            )
        return np.array([self._slots[key] for key in keys], dtype=np.intp)

    def change(self, slots: Indices, *changes: Vector) -> None:
        """Add to the reward sums, one vector of changes after the other; `slots` may repeat."""
        places, sums, errors = self._changed_sums(slots, *changes)
        before = (self._counts[places], self._sums[places], self._errors[places])
        self._journal.note(self._put_back, self._n_slots, self.n_observations, places, *before)
        self._sums[places], self._errors[places] = sums, errors
        self.version += 1

    def subtract(self, slots: Indices, rewards: Vector) -> None:
        """Remove one observation per entry; `slots` may repeat. A slot whose count reaches zero drops its point."""
        places, sums, errors = self._changed_sums(slots, -rewards)
        counts = self._counts[places] - np.bincount(slots, minlength=self._n_slots)[places]
        self._retotal(places, counts, sums, errors, self.n_observations - len(slots))

    def set_totals(self, keys: Sequence[Hashable], counts: Vector, sums: Vector) -> None:
        """Set the counts, which need not be integers, and reward sums of known points; a count of 0 drops the point."""
        if self._waiting.rewards:
            self._add_waiting()
        if not np.isfinite(sums).all():
            raise InvalidReward(TOO_MUCH)
        slots = np.array([self._slots[key] for key in keys], dtype=np.intp)
        added = round(float((counts - self._counts[slots]).sum()))
        self._retotal(slots, counts, sums, np.zeros(len(slots)), self.n_observations + added)

    def _retotal(self, slots: Indices, counts: Vector, sums: Vector, errors: Vector, n_observations: int) -> None:
        before = (self._counts[slots], self._sums[slots], self._errors[slots])
        self._journal.note(self._put_back, self._n_slots, self.n_observations, slots, *before)
        gone = slots[counts == 0.0]
        self._counts[slots], self._sums[slots], self._errors[slots] = counts, sums, errors
        self._sums[gone] = self._errors[gone] = 0.0
        for slot in gone.tolist():
            del self._slots[self._keys[slot]]
        self.n_observations = n_observations
        self.version += 1

    def discount(self, rate: float, gone: Sequence[Hashable]) -> None:
        """Multiply the weight of every observation by `rate`, and drop the points of these keys."""
        counts, sums = rate * self.counts, rate * self.sums
        lost = [self._slots[key] for key in gone]
        counts[lost] = 0.0
        live = np.flatnonzero(self._counts[: self._n_slots])
        n_observations = round(float(counts.sum()))
        self._retotal(live, counts[live], sums[live], np.zeros(len(live)), n_observations)

    def _changed_sums(self, slots: Indices, *changes: Vector) -> tuple[Indices, Vector, Vector]:
        """Distinct slots, and their sums after the changes, in two parts."""
        places, where = np.unique(slots, return_inverse=True)
        sums, errors = self._sums[places], self._errors[places]
        with np.errstate(over="ignore", invalid="ignore"):
            for amounts in changes:
                for row in range(len(slots)):  # one after the other: each sum is rounded separately
                    place = where[row : row + 1]
                    sums[place], errors[place] = two_sum(sums[place], errors[place], amounts[row : row + 1])
        if not np.isfinite(sums).all():
            raise InvalidReward(TOO_MUCH)
        return places, sums, errors

    def _make_room(self, n_slots: int) -> None:
        if n_slots > len(self._errors):
            room = max(16, n_slots, 2 * len(self._errors))
            self._counts, self._sums, self._errors = (
                _longer(buffer, room) for buffer in (self._counts, self._sums, self._errors)
            )

    def join(self, journal: Journal) -> None:
        """Record changes in this journal from now on."""
        self._journal = journal

    # -- rolling back ------------------------------------------------------------------------------------------------

    def _put_back(self, n_slots: int, n_observations: int, slots: Any, counts: Any, sums: Any, errors: Any) -> None:
        """Drop slots from `n_slots` on, and restore the totals of others."""
        self._n_slots, self.n_observations = n_slots, n_observations
        for key in [key for key in self._keys[n_slots:] if self._slots.get(key, -1) >= n_slots]:
            del self._slots[key]
        del self._keys[n_slots:]
        if not n_slots:
            self._store = None
        self._counts[slots], self._sums[slots], self._errors[slots] = counts, sums, errors
        for slot in np.atleast_1d(slots).tolist():
            if self._counts[slot]:
                self._slots.setdefault(self._keys[slot], slot)
        self.version += 1

    def _put_back_queue(self, mark: Any, n_observations: int) -> None:
        self._waiting.put_back(mark)
        self.n_observations = n_observations
        self.version += 1

    # -- copies ------------------------------------------------------------------------------------------------------

    def stored(self) -> tuple[Points, Vector, Vector]:
        """Copies of points, counts and sums without the empty slots; requires a point."""
        live = np.flatnonzero(self.counts)
        return self._kind.take(self.points, live), self.counts[live], self.sums[live]

    def oldest(self, n_points: int) -> tuple[Points, Vector, Vector]:
        """Copies of points, counts and sums of the points that were seen first."""
        first = np.flatnonzero(self.counts)[:n_points]
        return self._kind.take(self.points, first), self.counts[first], self.sums[first]

    def errors(self) -> Vector:
        """Rounding errors of the sums that `stored` returns."""
        return self._errors[np.flatnonzero(self.counts)]

    def totals(self, points: Points, counts: Vector, sums: Vector, errors: Vector | None = None) -> Batch:
        """Add distinct new points with their totals, as returned by `stored` and `errors`."""
        keys = self._kind.keys(points)
        errors = np.zeros(len(sums)) if errors is None else errors
        n_observations = round(counts.sum())
        return Batch(keys, points, counts, sums, errors, NO_SLOTS, NOTHING, NOTHING, NOTHING, n_observations)

    def compacted(self, *, without: int = 0) -> Observations:
        """Copy without empty slots, and without the first `without` points."""
        fresh = Observations(self._kind, self._journal)
        if self.size > without:
            points, counts, sums = self.stored()
            rest = np.arange(without, len(counts))
            points = self._kind.take(points, rest) if without else points
            fresh.add(fresh.totals(points, counts[rest], sums[rest], self.errors()[rest]))
        return fresh


def _totals(places: Indices, amounts: Vector, n_places: int) -> Vector:
    """Sum of the amounts per place."""
    return np.bincount(places, amounts, n_places).astype(np.float64)


def _exact_totals(places: Indices, amounts: Vector, n_places: int) -> tuple[Vector, Vector]:
    """Sum of the amounts per place, and its rounding error."""
    totals, errors = _totals(places, amounts, n_places), np.zeros(n_places)
    if len(amounts) > n_places and np.isfinite(totals).all():
        order = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=n_places))
        for place in np.flatnonzero(np.diff(ends, prepend=0) > 1).tolist():
            values = amounts[order[(ends[place - 1] if place else 0) : ends[place]]].tolist()
            errors[place] = fsum([*values, -totals.item(place)])
    return totals, errors


def two_sum(sums: Numbers, errors: Numbers, amounts: Numbers) -> tuple[Numbers, Numbers]:
    """(sums + errors) + amounts as a rounded sum and its rounding error."""
    total = sums + amounts
    shift = total - sums
    rest = errors + ((sums - (total - shift)) + (amounts - shift))
    rounded = total + rest
    return rounded, rest - (rounded - total)


def _longer(buffer: Vector, length: int) -> Vector:
    """Copy padded with zeros."""
    longer = np.zeros(length)
    longer[: len(buffer)] = buffer
    return longer
