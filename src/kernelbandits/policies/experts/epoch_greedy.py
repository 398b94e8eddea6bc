"""Explore a little, then follow whoever would have done best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from kernelbandits.checks import a_count, positive
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.experts.advice import Expert
from kernelbandits.policies.experts.epochs import EXPLORING, Epochs
from kernelbandits.policies.experts.expert_policy import ExpertPolicy
from kernelbandits.policies.experts.notes import known_propensity, noted_shares
from kernelbandits.policies.experts.panel import Panel
from kernelbandits.policies.randomised_policy import Odds
from kernelbandits.restoring import saved_array
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Decision, Parameters, Seed, Vector

__all__ = ["EpochGreedy"]


class EpochGreedy(ExpertPolicy):
    """Plays uniformly now and then, and follows in between the expert of best value in these rounds.

        value of expert i = Σ over uniform rounds of r ξⁱ_a / p_a,   p_a = 1/N

    which is unbiased whatever the expert advises. Epoch l = 1, 2, … is one uniform round and then
    s_l = max(1, ⌊sqrt(l / (N ln M)) / factor⌋) greedy ones; where the horizon T is known, the first
    ⌈factor · T^(2/3) (N ln M)^(1/3)⌉ rounds are uniform and all others greedy. Expected regret against the best of M
    experts is of order T^(2/3) (N ln M)^(1/3) where rounds are drawn independently from one law; against the best
    action it is no better than the experts are. Greedy rounds teach nothing (`stage` is 1 in uniform rounds and None in
    greedy ones).

    Half of the rounds are uniform until l reaches 4 N ln M, which for N = 5 and M = 100 is epoch 93; a factor below 1
    shortens that. Which rounds are uniform follows `round_index`: rewards that are late count when they are expected
    (`expect`). Rounds may have any number of actions; N in the schedule is `n_actions`.

    A greedy round costs the advice of one expert, a uniform round that of all, and M numbers of memo; nothing else
    grows with the number of rounds. Rewards may be late, amended and unlearnt: values are sums.

    Parameters
    ----------
    experts
        Whose advice is followed; ties between them go to the first.
    n_actions
        N: actions of a round, for the schedule.
    horizon
        T, where it is known; None: epochs.
    exploration_factor
        How much more is explored than the schedule says: 1 is the schedule.
    reward_range
        Lowest and highest reward.
    seed
        Of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import constant_experts
    >>> policy = EpochGreedy(constant_experts(2), n_actions=2, seed=0)
    >>> for _ in range(40):
    ...     decision = policy.choose([[0.0], [1.0]])
    ...     policy.learn(decision, float(decision.action))
    >>> policy.leader
    ConstantExpert(action=1)

    References
    ----------
    Langford and Zhang (2008), the Epoch-Greedy algorithm for contextual multi-armed bandits.
    """

    def __init__(
        self,
        experts: Sequence[Expert],
        *,
        n_actions: int,
        horizon: int | None = None,
        exploration_factor: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: Seed = None,
    ) -> None:
        super().__init__(experts, reward_range=reward_range, seed=seed)
        self._n_actions = a_count(n_actions, "The number of actions")
        self._horizon = None if horizon is None else a_count(horizon, "The horizon")
        self._exploration_factor = positive(exploration_factor, "The exploration factor")
        # A single expert leaves nothing to find out; two are the least that the schedule is made for.
        complexity = self.n_actions * log(max(len(self.experts), 2))
        self._schedule = Epochs(complexity, horizon=self.horizon, factor=self.exploration_factor)
        self._values: Vector = np.zeros(len(self.experts))
        self._leaders: tuple[int, Panel] | None = None

    @property
    def n_actions(self) -> int:
        """N of the schedule."""
        return self._n_actions

    @property
    def horizon(self) -> int | None:
        """T, where it is known."""
        return self._horizon

    @property
    def exploration_factor(self) -> float:
        """How much more is explored than the schedule says."""
        return self._exploration_factor

    @property
    def values(self) -> Vector:
        """What each expert would have earned in the uniform rounds, by estimate: sums of rewards brought to [0, 1]."""
        return self._values.copy()

    @property
    def leader(self) -> Expert:
        """The expert that greedy rounds follow now."""
        return self._leading().experts[0]

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is played uniformly."""
        return self._schedule.explores(round_index)

    def _leading(self) -> Panel:
        """The leader as a panel of one, which is made again only when another expert takes the lead."""
        place = int(tied_for_best(self._values)[0])
        if self._leaders is None or self._leaders[0] != place:
            self._leaders = place, Panel([self.experts[place]])
        return self._leaders[1]

    def _parameters(self) -> Parameters:
        return {
            **self._expert_parameters(),
            "n_actions": self.n_actions,
            "horizon": self.horizon,
            "exploration_factor": self.exploration_factor,
            "reward_range": self.reward_range,
        }

    def _odds(self, actions: Actions) -> Odds:
        if self.explores(self.round_index):
            return Odds(np.full(actions.n_actions, 1.0 / actions.n_actions), memo={"advice": self._advice(actions)})
        advice = self._leading().advice(actions)[0]
        return Odds(advice / advice.sum())

    def _drawn_choice(self, actions: Actions, odds: Odds) -> Choice:
        choice = super()._drawn_choice(actions, odds)
        if "advice" not in choice.memo:
            return choice
        return choice._replace(stage=EXPLORING, memo={"advice": choice.memo["advice"][:, choice.action].copy()})

    def _take_in(self, decision: Decision, reward: float) -> None:
        self._values = self._values + self._step(decision, self._rewards.unit(reward))

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._values = self._values + self._step(decision, self._rewards.unit_change(now - was))

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        self._values = self._values - self._step(decision, self._rewards.unit(reward))

    def _step(self, decision: Decision, reward: float) -> Vector:
        """What a reward adds to the values; nothing after a greedy round."""
        if decision.stage != EXPLORING:
            return np.zeros(len(self.experts))
        return reward / known_propensity(decision) * noted_shares(decision, "advice", len(self.experts))

    def _state(self) -> Parameters:
        return {"values": self._values}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._values = saved_array(state, "values", "f", self._values.shape)
