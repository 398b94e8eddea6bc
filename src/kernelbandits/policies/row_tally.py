"""How often each action of a fixed set was learnt from, and what its rewards add up to."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.journal import Journal
from kernelbandits.posterior.observations import two_sum
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

    def __init__(self, n_rows: int, journal: Journal | None = None) -> None:
        self._journal = Journal() if journal is None else journal
        self.counts: Indices = np.zeros(n_rows, dtype=np.int64)
        """Rewards of each row. Not to be changed."""
        self.sums: Vector = np.zeros(n_rows)
        """Their sum. Not to be changed."""
        self._errors: Vector = np.zeros(n_rows)  # the exact sum is sums + _errors

    def add(self, row: int, reward: float) -> None:
        """One more reward of a row."""
        self._put(row, self.counts.item(row) + 1, reward)

    def amend(self, row: int, was: float, now: float) -> None:
        """A reward of a row is another one; NotLearnt where it has none."""
        self._refuse_unlearnt(row)
        self._put(row, self.counts.item(row), -was, now)

    def take_back(self, row: int, reward: float) -> None:
        """A reward of a row never happened; NotLearnt where it has none."""
        self._refuse_unlearnt(row)
        self._put(row, self.counts.item(row) - 1, -reward)

    def _put(self, row: int, count: int, *changes: float) -> None:
        total, error = self._total(row, *changes)
        self._journal.note(self._put_back, row, self.counts.item(row), self.sums.item(row), self._errors.item(row))
        self.counts[row] = count
        self.sums[row], self._errors[row] = (total, error) if count else (0.0, 0.0)

    def _put_back(self, row: int, count: int, total: float, error: float) -> None:
        self.counts[row], self.sums[row], self._errors[row] = count, total, error

    def _refuse_unlearnt(self, row: int) -> None:
        if not self.counts[row]:
            raise NotLearnt(f"No reward of action {row} has been learnt, so none can be corrected or taken back.")

    def _total(self, row: int, *changes: float) -> tuple[float, float]:
        """The sum of a row once these come in, and its rounding error; or InvalidReward."""
        total, error = self.sums.item(row), self._errors.item(row)
        for change in changes:
            total, error = two_sum(total, error, change)
        if not isfinite(total):
            raise InvalidReward(
                f"The rewards of action {row} add up to more than a float64 holds, with {changes[-1]:.3g}. Scale them "
                "down."
            )
        return total, error

    def state(self) -> Parameters:
        """Arrays that `restore` needs."""
        return {"counts": self.counts.copy(), "sums": self.sums.copy(), "errors": self._errors.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state."""
        self.counts = saved_array(state, "counts", "i", self.counts.shape, least=0, most=2**53).copy()
        self.sums = saved_array(state, "sums", "f", self.sums.shape).copy()
        self._errors = saved_array(state, "errors", "f", self.sums.shape).copy()
