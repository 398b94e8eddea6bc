"""What policies share that learn a linear reward from a few spanning actions."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.policies.linear.fixed_linear import FixedLinearPolicy
from kernelbandits.policies.linear.spanning import coordinates_of, spanning_rows
from kernelbandits.types import Decision, Indices, Parameters, Points, Vector

__all__ = ["SpanningPolicy"]


class SpanningPolicy(FixedLinearPolicy):
    """Keeps a count and a sum of rewards for every action of a fixed set, and knows some that span all.

    Coordinates are those of the spanning actions: a spanning action is a unit vector, and the reward of an action is
    the same combination of the spanning actions' rewards as the action is of them.
    """

    def __init__(self, actions: Points, *, reward_range: tuple[float, float] | None) -> None:
        super().__init__(actions, reward_range=reward_range)
        self.spanning: Indices = spanning_rows(self._features)
        """Rows of the spanning actions, chosen by greedy volume, in the order in which they are played."""
        self._coordinates = coordinates_of(self._features, self.spanning)
        self._counts = np.zeros(self.n_actions, dtype=np.int64)
        self._sums: Vector = np.zeros(self.n_actions)

    def _take_in(self, decision: Decision, reward: float) -> None:
        row = self._row_of(decision)
        self._sums[row] = self._total(row, reward)
        self._counts[row] += 1

    def _correct(self, decision: Decision, change: float) -> None:
        row = self._row_of(decision)
        self._sums[row] = self._total(row, change)

    def _take_back(self, decision: Decision, reward: float) -> None:
        row = self._row_of(decision)
        if not self._counts[row]:
            raise NotLearnt(f"Action {row} was never learnt from, so no reward of it can be taken back.")
        total = self._total(row, -reward)
        self._counts[row] -= 1
        self._sums[row] = total if self._counts[row] else 0.0

    def _total(self, row: int, change: float) -> float:
        """The sum of rewards of an action once this comes in, or InvalidReward."""
        total = self._sums.item(row) + change
        if not isfinite(total):
            raise InvalidReward(f"The rewards of action {row} add up to more than a float64 holds, with {change:.3g}.")
        return total

    def _state(self) -> Parameters:
        return {"counts": self._counts.copy(), "sums": self._sums.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._counts = np.array(state["counts"], dtype=np.int64)
        self._sums = np.array(state["sums"], dtype=np.float64)
