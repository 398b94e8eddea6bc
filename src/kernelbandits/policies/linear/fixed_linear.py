"""What policies share whose rewards are linear in the features of a fixed set."""

from __future__ import annotations

import numpy as np

from kernelbandits.errors import DecisionError
from kernelbandits.kernels import Linear, Rows
from kernelbandits.policies.fixed_actions import FixedActionsPolicy
from kernelbandits.types import Decision, Indices, Matrix, Points

__all__ = ["FixedLinearPolicy"]


class FixedLinearPolicy(FixedActionsPolicy):
    """A fixed set of rows, which may span a part of the space only: what is learnt lies in their span."""

    def __init__(self, actions: Points, *, reward_range: tuple[float, float] | None) -> None:
        super().__init__(actions, kind=Rows(), reward_range=reward_range)
        self._features: Matrix = Linear().features(self.actions)

    def _row_of(self, decision: Decision) -> int:
        """Row of a decision in the fixed set, or DecisionError."""
        row = decision.action
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < self.n_actions:
            raise DecisionError(f"An action is a row of the {self.n_actions} of the fixed set, got action={row!r}.")
        return int(row)

    def _awaited_rows(self) -> Indices:
        """Rows of the decisions that are awaited."""
        return np.array([self._row_of(decision) for decision in self._ledger.pending.values()], dtype=np.intp)
