"""The weights of EXP4.P, which reward what is uncertain."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from kernelbandits.policies.experts.shares import shares
from kernelbandits.types import Matrix, Vector

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

    def probabilities(self, advice: Matrix) -> Vector:
        """Of each action, given a row of advice per expert."""
        n_actions = advice.shape[1]
        floor = self.floor(n_actions)
        mixed = (1.0 - n_actions * floor) * (self.shares @ advice) + floor
        probabilities: Vector = mixed / mixed.sum()
        return probabilities

    @staticmethod
    def spread(advice: Matrix, probabilities: Vector) -> Vector:
        """Vᵢ: the variance that the estimate of each expert's reward has, or a bound of it."""
        spread: Vector = advice @ (1.0 / probabilities)
        return spread

    def step(self, advice: Vector, spread: Vector, *, n_actions: int, propensity: float, reward: float) -> Vector:
        """What a reward in [0, 1] adds to the log-weights; `advice` is each expert's for the action that was taken."""
        confidence = sqrt(self._log_ratio / (n_actions * self._horizon))
        return self._pace(n_actions) * (advice * (reward / propensity) + spread * confidence)

    def change(self, advice: Vector, *, n_actions: int, propensity: float, change: float) -> Vector:
        """What a correction of a reward adds."""
        return self._pace(n_actions) * (advice * (change / propensity))

    def _pace(self, n_actions: int) -> float:
        return self._speed * self.floor(n_actions) / 2.0
