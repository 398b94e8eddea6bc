"""The weights of EXP4.P, which reward what is uncertain."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from kernelbandits.policies.base import Choice
from kernelbandits.policies.experts.log_weights import shares
from kernelbandits.policies.experts.notes import known_propensity, noted, noted_shares
from kernelbandits.policies.randomised_policy import Odds
from kernelbandits.types import Decision, Matrix, Vector

__all__ = ["ConfidentWeights"]


class ConfidentWeights:
    """Log-weights of M experts for T rounds, the probabilities that they give, and how a reward moves them.

    With N actions in the round:

        p_min = min(1/N, factor · sqrt(ln M / (N T)))
        p     = (1 − N p_min) Σ wᵢ ξⁱ / Σ wᵢ + p_min
        vᵢ    = Σ_j ξⁱ_j / p_j
        wᵢ   ← wᵢ · exp( speed · (p_min / 2) · ( ξⁱ_a r / p_a + vᵢ sqrt(ln(M/δ) / (N T)) ) )
    """

    def __init__(
        self,
        n_experts: int,
        *,
        horizon: int,
        failure_probability: float,
        exploration_factor: float,
        learning_factor: float,
    ) -> None:
        self.log_weights: Vector = np.zeros(n_experts)
        self._horizon, self._factor, self._speed = horizon, exploration_factor, learning_factor
        self._log_experts = log(n_experts)
        self._log_ratio = log(n_experts / failure_probability)

    @property
    def shares(self) -> Vector:
        """Share of each expert in the mixture."""
        return shares(self.log_weights)

    def floor(self, n_actions: int) -> float:
        """p_min: the least probability of an action."""
        return min(1.0 / n_actions, self._factor * sqrt(self._log_experts / (n_actions * self._horizon)))

    def odds(self, advice: Matrix) -> Odds:
        """Probabilities of the actions, given a row of advice per expert."""
        n_actions = advice.shape[1]
        floor = self.floor(n_actions)
        mixed = (1.0 - n_actions * floor) * (self.shares @ advice) + floor
        probabilities = mixed / mixed.sum()
        return Odds(probabilities, memo={"advice": advice, "spread": advice @ (1.0 / probabilities)})

    @staticmethod
    def remembered(choice: Choice) -> Choice:
        """The choice with what learning needs: ξⁱ_a of the action that was drawn, and vᵢ."""
        advice, spread = choice.memo["advice"], choice.memo["spread"]
        return choice._replace(memo={"advice": advice[:, choice.action].copy(), "spread": spread})

    def take_in(self, decision: Decision, reward: float) -> None:
        """Learn a reward in [0, 1]."""
        self.log_weights = self.log_weights + self._step(decision, reward)

    def take_back(self, decision: Decision, reward: float) -> None:
        """Unlearn a reward in [0, 1]."""
        self.log_weights = self.log_weights - self._step(decision, reward)

    def correct(self, decision: Decision, change: float) -> None:
        """A learnt reward was off by `change`."""
        self.log_weights = self.log_weights + self._earned(decision, change)

    def _step(self, decision: Decision, reward: float) -> Vector:
        """What a reward adds to the log-weights."""
        confidence = sqrt(self._log_ratio / (max(decision.n_actions, 1) * self._horizon))
        spread = noted(decision, "spread", len(self.log_weights))
        return self._earned(decision, reward) + self._pace(decision) * confidence * spread

    def _earned(self, decision: Decision, reward: float) -> Vector:
        """The part of the step that is in proportion to the reward."""
        advice = noted_shares(decision, "advice", len(self.log_weights))
        return self._pace(decision) * reward / known_propensity(decision) * advice

    def _pace(self, decision: Decision) -> float:
        return self._speed * self.floor(max(decision.n_actions, 1)) / 2.0
