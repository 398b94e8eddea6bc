"""How often each action of a fixed set was learnt from, and what its rewards add up to."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.restoring import saved_array
from kernelbandits.types import Indices, Parameters, Vector

__all__ = ["RowTally"]


class RowTally:
    """A count and a sum of rewards for each row; what is refused leaves both as they were.

    >>> tally = RowTally(3)
    >>> tally.add(1, 0.5)
    >>> tally.counts, tally.sums
    (array([0, 1, 0]), array([0. , 0.5, 0. ]))
    """

    def __init__(self, n_rows: int) -> None:
        self.counts: Indices = np.zeros(n_rows, dtype=np.int64)
        """Rewards of each row. Not to be changed."""
        self.sums: Vector = np.zeros(n_rows)
        """Their sum. Not to be changed."""

    def add(self, row: int, reward: float) -> None:
        """One more reward of a row."""
        self.sums[row] = self._total(row, reward)
        self.counts[row] += 1

    def amend(self, row: int, change: float) -> None:
        """A reward of a row was off by this much; NotLearnt where it has none."""
        self._refuse_unlearnt(row)
        self.sums[row] = self._total(row, change)

    def take_back(self, row: int, reward: float) -> None:
        """A reward of a row never happened; NotLearnt where it has none."""
        self._refuse_unlearnt(row)
        total = self._total(row, -reward)
        self.counts[row] -= 1
        self.sums[row] = total if self.counts[row] else 0.0  # no rounding is left of what was the only one

    def _refuse_unlearnt(self, row: int) -> None:
        if not self.counts[row]:
            raise NotLearnt(f"No reward of action {row} has been learnt, so none can be corrected or taken back.")

    def _total(self, row: int, change: float) -> float:
        """The sum of a row once this comes in, or InvalidReward."""
        total = self.sums.item(row) + change
        if not isfinite(total):
            raise InvalidReward(
                f"The rewards of action {row} add up to more than a float64 holds, with {change:.3g}. Scale them down."
            )
        return total

    def state(self) -> Parameters:
        """Arrays that `restore` needs."""
        return {"counts": self.counts.copy(), "sums": self.sums.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state."""
        self.counts = saved_array(state, "counts", "i", self.counts.shape, least=0, most=2**53).copy()
        self.sums = saved_array(state, "sums", "f", self.sums.shape).copy()
