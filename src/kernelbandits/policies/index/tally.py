"""How often each of many things was counted, and what it summed up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import DamagedFile
from kernelbandits.kernels import Ids
from kernelbandits.restoring import below, saved_array
from kernelbandits.types import ItemId, Matrix

__all__ = ["Tally"]


class Tally:
    """A count and a sum for each item; an item never counted has zeros.

    >>> tally = Tally()
    >>> tally.add("a", 2, 0.5)
    >>> tally.of(["b", "a"])
    array([[0. , 2. ],
           [0. , 0.5]])
    """

    def __init__(self) -> None:
        self._slots: dict[ItemId, int] = {}
        self._totals: Matrix = np.zeros((2, 16))  # counts over sums; the first slot is that of items never counted

    def of(self, items: Sequence[ItemId]) -> Matrix:
        """Counts over sums of these items, shape (2, n)."""
        slots = np.fromiter(map(self._slots.get, items, repeat(0)), dtype=np.intp, count=len(items))
        return self._totals[:, slots]

    def totals(self, item: ItemId) -> tuple[float, float]:
        """Count and sum of one item."""
        slot = self._slots.get(item, 0)
        return self._totals.item(0, slot), self._totals.item(1, slot)

    def add(self, item: ItemId, count: int, total: float) -> None:
        """Add to both; what is down to no count has no sum either, whatever the rounding."""
        counted, summed = self.totals(item)
        self.put(item, counted + count, summed + total if counted + count else 0.0)

    def put(self, item: ItemId, count: float, total: float) -> None:
        """Set both."""
        slot = self._slots.get(item)
        if slot is None:
            slot = len(self._slots) + 1
            if slot >= self._totals.shape[1]:
                self._totals = np.concatenate([self._totals, np.zeros_like(self._totals)], axis=1)
            self._slots[item] = slot
        self._totals[0, slot] = count
        self._totals[1, slot] = total

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore` needs."""
        kept = [item for item, slot in self._slots.items() if self._totals[0, slot]]
        counts, sums = self.of(kept)
        return {"counts": counts, "sums": sums, **{f"items.{key}": array for key, array in Ids().pack(kept).items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved state; only before anything was counted."""
        items = Ids().unpack(below("items.", state))
        if len(set(items)) != len(items):
            raise DamagedFile("An action stands in the file twice.")
        counts = saved_array(state, "counts", "f", (len(items),), least=1.0, most=2.0**53)
        if (counts != np.floor(counts)).any():
            raise DamagedFile("'counts' in the file has to hold whole numbers.")
        sums = saved_array(state, "sums", "f", (len(items),))
        for item, count, total in zip(items, counts.tolist(), sums.tolist(), strict=True):
            self.add(item, int(count), total)
