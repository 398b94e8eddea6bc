"""What policies share that learn a linear reward from a few spanning actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelbandits.kernels import Linear, Rows
from kernelbandits.policies.fixed_actions import FixedActionsPolicy
from kernelbandits.policies.linear.spanning import coordinates_of, spanning_rows
from kernelbandits.policies.row_tally import RowTally
from kernelbandits.types import Decision, Indices, Matrix, Parameters, Points

__all__ = ["SpanningPolicy"]


class SpanningPolicy(FixedActionsPolicy):
    """Keeps a count and a sum of rewards for every action of a fixed set, and knows some that span all.

    Coordinates are those of the spanning actions: a spanning action is a unit vector, and the reward of an action is
    the same combination of the spanning actions' rewards as the action is of them.
    """

    def __init__(self, actions: Points, *, reward_range: tuple[float, float] | None) -> None:
        super().__init__(actions, kind=Rows(), reward_range=reward_range)
        features = Linear().features(self.actions)
        self.spanning: Indices = spanning_rows(features)
        """Rows of the spanning actions, chosen by greedy volume, in the order in which they are played."""
        self._coordinates: Matrix = coordinates_of(features, self.spanning)
        self._tally = RowTally(self.n_actions, self._journal)

    def _take_in(self, decision: Decision, reward: float) -> None:
        self._tally.add(self._row_of(decision), reward)

    def _note_model(self) -> None:
        self._note_references()

    def _validate_decision(self, decision: Decision) -> None:
        self._row_of(decision)

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._tally.amend(self._row_of(decision), was, now)

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        self._tally.take_back(self._row_of(decision), reward)

    def _state(self) -> Parameters:
        return self._tally.state()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tally.restore(state)
