"""EXP4 and EXP4.P: exponential weights over experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, e, log, sqrt
from typing import Any, Literal

import numpy as np

from kernelbandits._parameters import Parameter, parameter
from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.base import EXPLORATION_FACTOR, HORIZON, LEARNING_FACTOR, UNIFORM_FACTOR
from kernelbandits.policies.experts.base import (
    Expert,
    known_propensity,
    memo_array,
    memo_shares,
    saved_log_weights,
    shares,
)
from kernelbandits.policies.experts.expert_policy import EXPERTS, ExpertPolicy, SharedExperts
from kernelbandits.policies.experts.library import with_uniform
from kernelbandits.policies.randomized import ActionDistribution
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Matrix, Parameters, Selection, Vector
from kernelbandits.validation import check_int, check_probability

__all__ = ["EXP4", "EXP4P", "ConfidentWeights", "long_enough"]


class EXP4(ExpertPolicy):
    """EXP4: mixture of experts with weights exponential in their estimated rewards (Auer et al. 2003).

    With M experts, the advice ξⁱ of expert i for the N actions of the round, and T = horizon:

        g = min(1, uniform_factor · sqrt(N ln M / ((e − 1) T)))
        p = (1 − g) Σ wᵢ ξⁱ / Σ wᵢ + g / N                        the action is drawn from p
        wᵢ ← wᵢ · exp(learning_factor · g · ξⁱ_a · r / (p_a N))   r: reward of the action a, scaled to [0, 1]

    Nothing is assumed about contexts and rewards, which an adversary may choose. The expected regret against the best
    single expert is of order sqrt(T N ln M). The theorem assumes that one of the experts advises uniformly. EXP4P
    appends such an expert; this policy takes the experts as they are, so pass one where the guarantee matters:
    `EXP4([*experts, UniformExpert()], …)`. Relative to the best action, the policy is no better than its experts. N is
    that of the round, so rounds may differ in it (the proof assumes one N). Beyond the horizon, g stays the same.

    A round costs one evaluation of every expert and O(M N), independent of the number of rounds. A decision's memo
    holds M numbers. Rewards may be delayed, amended and unlearned: log-weights are sums over decisions.

    Parameters
    ----------
    experts
        The experts: `constant_experts`, `linear_experts`, … or user-defined ones.
    horizon
        T: approximate number of rounds.
    uniform_factor
        Factor of g, which is both the fraction of uniform draws and the learning rate.
    learning_factor
        Factor of the learning rate alone. Both factors are 1 in the proof ("theory"), which is slow on problems that
        are not adversarial: with 220 stumps, four actions and 4000 rounds, the regret against the best expert was 0.10
        per round with 1 and 0.05 with 3 (uniformly random: 0.28). Any other value voids the guarantee.
    reward_range
        Lowest and highest reward.
    seed
        Seed of the draws.

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

    horizon: int = parameter(HORIZON)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.3, theory=1.0)
    learning_factor: Parameter[float | Literal["theory"], float] = parameter(LEARNING_FACTOR, default=10.0, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        self._log_weights: Vector = np.zeros(len(self.experts))

    @property
    def weights(self) -> Vector:
        """Weight of each expert in the mixture, normalized to sum 1."""
        return shares(self._log_weights)

    def mixing(self, n_actions: int) -> float:
        """Return g of a round with `n_actions` actions."""
        rate = sqrt(n_actions * log(len(self.experts)) / ((e - 1.0) * self.horizon))
        return min(1.0, self.uniform_factor * rate)

    def _distribution(self, actions: Actions) -> ActionDistribution:
        advice, g = self._advice(actions), self.mixing(actions.n_actions)
        probabilities = (1.0 - g) * (self.weights @ advice) + g / actions.n_actions
        return ActionDistribution(probabilities / probabilities.sum(), memo={"advice": advice})

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        choice = super()._drawn_choice(actions, distribution)
        return choice._replace(memo={"advice": choice.memo["advice"][:, choice.row].copy()})

    def _update(self, decision: Decision, reward: float) -> None:
        self._log_weights = self._log_weights + self._step(decision, self._rewards.unit(reward))

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._log_weights = self._log_weights + self._step(decision, self._rewards.unit_change(now - was))

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._log_weights = self._log_weights - self._step(decision, self._rewards.unit(reward))

    def _step(self, decision: Decision, reward: float) -> Vector:
        """Return the increment of the log-weights for a reward."""
        advice = memo_shares(decision, "advice", len(self.experts))  # ξⁱ_a
        n_actions = max(decision.n_actions, 1)
        rate = self.learning_factor * self.mixing(n_actions) / n_actions
        return rate * reward / known_propensity(decision) * advice

    def _state(self) -> Parameters:
        return {"log_weights": self._log_weights}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._log_weights = saved_log_weights(state, len(self._log_weights))


class ConfidentWeights:
    """EXP4.P log-weights of M experts for T rounds: action probabilities and updates.

    With N actions in the round:

        p_min = min(1/N, uniform_factor · sqrt(ln M / (N T)))
        p     = (1 − N p_min) Σ wᵢ ξⁱ / Σ wᵢ + p_min
        vᵢ    = Σ_j ξⁱ_j / p_j
        wᵢ   ← wᵢ · exp( learning_factor · (p_min / 2) · ( ξⁱ_a r / p_a + exploration · vᵢ sqrt(ln(M/δ) / (N T)) ) )
    """

    def __init__(
        self,
        n_experts: int,
        *,
        horizon: int,
        failure_probability: float,
        exploration: float,
        uniform_factor: float,
        learning_factor: float,
    ) -> None:
        self.log_weights: Vector = np.zeros(n_experts)
        self._horizon, self._factor, self._speed = horizon, uniform_factor, learning_factor
        self._exploration = exploration
        self._log_experts = log(n_experts)
        self._log_ratio = log(n_experts / failure_probability)

    @property
    def shares(self) -> Vector:
        """Return the weight of each expert in the mixture, normalized to sum 1."""
        return shares(self.log_weights)

    def floor(self, n_actions: int) -> float:
        """Return p_min: the lower bound of an action's probability."""
        return min(1.0 / n_actions, self._factor * sqrt(self._log_experts / (n_actions * self._horizon)))

    def probabilities(self, advice: Matrix) -> ActionDistribution:
        """Return the action probabilities, given one row of advice per expert."""
        n_actions = advice.shape[1]
        floor = self.floor(n_actions)
        mixed = (1.0 - n_actions * floor) * (self.shares @ advice) + floor
        probabilities = mixed / mixed.sum()
        return ActionDistribution(probabilities, memo={"advice": advice, "spread": advice @ (1.0 / probabilities)})

    @staticmethod
    def remembered(choice: Selection) -> Selection:
        """Add to the choice the values that learning needs: ξⁱ_a of the action that was drawn, and vᵢ."""
        advice, spread = choice.memo["advice"], choice.memo["spread"]
        return choice._replace(memo={"advice": advice[:, choice.row].copy(), "spread": spread})

    def update(self, decision: Decision, reward: float) -> None:
        """Learn a reward in [0, 1]."""
        self.log_weights = self.log_weights + self._step(decision, reward)

    def remove(self, decision: Decision, reward: float) -> None:
        """Unlearn a reward in [0, 1]."""
        self.log_weights = self.log_weights - self._step(decision, reward)

    def correct(self, decision: Decision, change: float) -> None:
        """Add `change` to a learned reward."""
        self.log_weights = self.log_weights + self._earned(decision, change)

    def _step(self, decision: Decision, reward: float) -> Vector:
        """Return the increment of the log-weights for a reward."""
        confidence = self._exploration * sqrt(self._log_ratio / (max(decision.n_actions, 1) * self._horizon))
        spread = memo_array(decision, "spread", len(self.log_weights))
        return self._earned(decision, reward) + self._pace(decision) * confidence * spread

    def _earned(self, decision: Decision, reward: float) -> Vector:
        """Return the part of the increment that is proportional to the reward."""
        advice = memo_shares(decision, "advice", len(self.log_weights))
        return self._pace(decision) * reward / known_propensity(decision) * advice

    def _pace(self, decision: Decision) -> float:
        return self._speed * self.floor(max(decision.n_actions, 1)) / 2.0


class EXP4P(ExpertPolicy):
    """EXP4.P: EXP4 with a confidence term in the weights of experts with uncertain estimates.

    With M experts, the advice ξⁱ of expert i for the N actions of the round, and T = horizon:

        p_min = min(1/N, uniform_factor · sqrt(ln M / (N T)))
        p     = (1 − N p_min) Σ wᵢ ξⁱ / Σ wᵢ + p_min    the action is drawn from p
        vᵢ    = Σ_j ξⁱ_j / p_j
        wᵢ   ← wᵢ · exp( learning_factor · (p_min / 2) · ( ξⁱ_a r / p_a + exploration · vᵢ sqrt(ln(M/δ) / (N T)) ) )

    With the factors of the proof ("theory"), the regret against the best single expert is at most 6 sqrt(N T ln(M/δ))
    with probability at least 1 − δ, even for adversarial contexts and rewards. This requires an expert that advises
    uniformly: if there is none, one is appended (`experts` contains it, and M counts it). It also requires ln(M/δ) ≤ N
    T: a horizon below ln(M/δ) is rejected, so that rounds may have any number of actions. N is that of the round (the
    proof assumes one N). Beyond the horizon, the rates stay the same.

    A round costs one evaluation of every expert and O(M N), independent of the number of rounds. A decision's memo
    holds 2M numbers. Rewards may be delayed, amended and unlearned: log-weights are sums over decisions.

    Parameters
    ----------
    experts
        The experts: `constant_experts`, `linear_experts`, … or user-defined ones.
    horizon
        T: approximate number of rounds.
    failure_probability
        δ: the probability with which the regret bound may fail.
    exploration
        Factor of the confidence term. "theory" is the 1 of the proof, with which that term hides the differences of
        rewards in the first thousands of rounds (docs/defaults.md).
    uniform_factor
        Factor of p_min, which is both the lower bound of every probability and twice the learning rate.
    learning_factor
        Factor of the learning rate alone. All three factors are 1 in the proof ("theory"), which is slow on problems
        that are not adversarial: with 220 stumps, four actions and 4000 rounds, the regret against the best expert was
        0.18 per round with 1 and 0.11 with 3 (uniformly random: 0.28; exploration 1). Any other value voids the
        guarantee.
    reward_range
        Lowest and highest reward.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import constant_experts
    >>> policy = EXP4P(constant_experts(3), horizon=1000, failure_probability=0.05, uniform_factor="theory", seed=0)
    >>> len(policy.experts), round(policy.floor(3), 4)
    (4, 0.0215)

    References
    ----------
    Beygelzimer, Langford, Li, Reyzin and Schapire (2011), contextual bandit algorithms with supervised
    learning guarantees, Exp4.P.
    """

    experts: Parameter[Sequence[Expert], tuple[Expert, ...]] = parameter(
        replace(EXPERTS, check=lambda experts: SharedExperts.checked(with_uniform(experts))), kw_only=False
    )
    horizon: int = parameter(HORIZON)
    failure_probability: float = parameter(check_probability, default=0.05)
    exploration: Parameter[float | Literal["theory"], float] = parameter(EXPLORATION_FACTOR, default=0.1, theory=1.0)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.3, theory=1.0)
    learning_factor: Parameter[float | Literal["theory"], float] = parameter(LEARNING_FACTOR, default=30.0, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        long_enough(self.horizon, len(self.experts), self.failure_probability)
        self._weights = ConfidentWeights(
            len(self.experts),
            horizon=self.horizon,
            failure_probability=self.failure_probability,
            exploration=self.exploration,
            uniform_factor=self.uniform_factor,
            learning_factor=self.learning_factor,
        )

    @property
    def weights(self) -> Vector:
        """Weight of each expert in the mixture, normalized to sum 1."""
        return self._weights.shares

    def floor(self, n_actions: int) -> float:
        """Return p_min: the lower bound of the probability of each of `n_actions` actions."""
        return self._weights.floor(n_actions)

    def _distribution(self, actions: Actions) -> ActionDistribution:
        return self._weights.probabilities(self._advice(actions))

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        return self._weights.remembered(super()._drawn_choice(actions, distribution))

    def _update(self, decision: Decision, reward: float) -> None:
        self._weights.update(decision, self._rewards.unit(reward))

    def _note_model(self) -> None:
        self._journal.note(setattr, self._weights, "log_weights", self._weights.log_weights)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._weights.remove(decision, self._rewards.unit(reward))

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._weights.correct(decision, self._rewards.unit_change(now - was))

    def _state(self) -> Parameters:
        return {"log_weights": self._weights.log_weights}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._weights.log_weights = saved_log_weights(state, len(self._weights.log_weights))


def long_enough(horizon: int, n_experts: int, failure_probability: float) -> int:
    """Return the horizon; raise InvalidParameter if it is below ln(M/δ)."""
    rounds, least = check_int(horizon, "The horizon"), log(n_experts / failure_probability)
    if rounds < least:
        raise InvalidParameter(
            f"EXP4.P needs a horizon of at least ln(M/δ) = {least:.3g} for {n_experts} experts and a failure "
            f"probability of {failure_probability}, got {horizon!r}. Play {ceil(least)} rounds or more."
        )
    return rounds
