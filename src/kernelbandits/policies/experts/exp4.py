"""Exponential weights for experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import e, log, sqrt
from typing import Any

import numpy as np

from kernelbandits.checks import a_count, positive
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.experts.advice import Expert
from kernelbandits.policies.experts.expert_policy import ExpertPolicy
from kernelbandits.policies.experts.log_weights import shares
from kernelbandits.policies.experts.notes import known_propensity, noted_shares
from kernelbandits.policies.randomised_policy import Odds
from kernelbandits.restoring import saved_array
from kernelbandits.types import Decision, Parameters, Seed, Vector

__all__ = ["EXP4"]


class EXP4(ExpertPolicy):
    """Follows experts in proportion to weights that grow exponentially with what their advice would have earned.

    With M experts, the advice ξⁱ of expert i for the N actions of the round, and T = horizon:

        g = min(1, factor · sqrt(N ln M / ((e − 1) T)))
        p = (1 − g) Σ wᵢ ξⁱ / Σ wᵢ + g / N              the action is drawn from p
        wᵢ ← wᵢ · exp(speed · g · ξⁱ_a · r / (p_a N))   r: reward of the action a, brought to [0, 1]

    Nothing is assumed about contexts and rewards, which an adversary may choose; what is small is the expected regret
    against the best single expert, of order sqrt(T N ln M). Against the best action it is no better than the experts
    are. N is that of the round, so rounds may differ in it (the proof has one N). Beyond the horizon it goes on with
    the same g.

    A round costs one look at every expert's advice and O(M N); nothing grows with the number of rounds. A decision's
    memo holds M numbers. Rewards may be late, amended and unlearnt: log-weights are sums over decisions.

    Parameters
    ----------
    experts
        Whose advice is followed: `constant_experts`, `linear_experts`… or your own.
    horizon
        T: rounds that are to be played, about.
    exploration_factor
        Times g, which is both the share of uniform draws and the pace of learning.
    learning_factor
        `speed`: times the pace of learning alone. Both are 1 in the proof, which is slow on problems that nobody made
        hard: with 220 stumps and four actions, 4000 rounds, the regret against the best expert was 0.10 a round with
        1 and 0.05 with 3 (playing at random: 0.28).
    reward_range
        Lowest and highest reward.
    seed
        Of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import constant_experts
    >>> policy = EXP4(constant_experts(3), horizon=200, seed=0)
    >>> for _ in range(200):
    ...     decision = policy.choose([[0.0], [1.0], [2.0]])
    ...     policy.learn(decision, 1.0 if decision.action == 1 else 0.0)
    >>> int(policy.weights.argmax())
    1

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire (2003), the nonstochastic multiarmed bandit problem, EXP4.
    """

    def __init__(
        self,
        experts: Sequence[Expert],
        *,
        horizon: int,
        exploration_factor: float = 1.0,
        learning_factor: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: Seed = None,
    ) -> None:
        super().__init__(experts, reward_range=reward_range, seed=seed)
        self._horizon = a_count(horizon, "The horizon")
        self._exploration_factor = positive(exploration_factor, "The exploration factor")
        self._learning_factor = positive(learning_factor, "The learning factor")
        self._log_weights: Vector = np.zeros(len(self.experts))

    @property
    def horizon(self) -> int:
        """T: rounds that are to be played, about."""
        return self._horizon

    @property
    def exploration_factor(self) -> float:
        """What g is multiplied by."""
        return self._exploration_factor

    @property
    def learning_factor(self) -> float:
        """What the pace of learning alone is multiplied by."""
        return self._learning_factor

    @property
    def weights(self) -> Vector:
        """Share of each expert in the mixture."""
        return shares(self._log_weights)

    def mixing(self, n_actions: int) -> float:
        """The g of a round with so many actions."""
        rate = sqrt(n_actions * log(len(self.experts)) / ((e - 1.0) * self.horizon))
        return min(1.0, self.exploration_factor * rate)

    def _parameters(self) -> Parameters:
        return {
            **self._expert_parameters(),
            "horizon": self.horizon,
            "exploration_factor": self.exploration_factor,
            "learning_factor": self.learning_factor,
            "reward_range": self.reward_range,
        }

    def _odds(self, actions: Actions) -> Odds:
        advice, g = self._advice(actions), self.mixing(actions.n_actions)
        probabilities = (1.0 - g) * (self.weights @ advice) + g / actions.n_actions
        return Odds(probabilities / probabilities.sum(), memo={"advice": advice})

    def _drawn_choice(self, actions: Actions, odds: Odds) -> Choice:
        choice = super()._drawn_choice(actions, odds)
        return choice._replace(memo={"advice": choice.memo["advice"][:, choice.action].copy()})

    def _take_in(self, decision: Decision, reward: float) -> None:
        self._log_weights = self._log_weights + self._step(decision, self._rewards.unit(reward))

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._log_weights = self._log_weights + self._step(decision, self._rewards.unit_change(now - was))

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        self._log_weights = self._log_weights - self._step(decision, self._rewards.unit(reward))

    def _step(self, decision: Decision, reward: float) -> Vector:
        """What a reward adds to the log-weights."""
        advice = noted_shares(decision, "advice", len(self.experts))  # ξⁱ_a
        n_actions = max(decision.n_actions, 1)
        pace = self.learning_factor * self.mixing(n_actions) / n_actions
        return pace * reward / known_propensity(decision) * advice

    def _state(self) -> Parameters:
        return {"log_weights": self._log_weights}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._log_weights = saved_array(state, "log_weights", "f", self._log_weights.shape)
