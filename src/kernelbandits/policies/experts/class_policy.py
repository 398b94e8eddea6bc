"""What policies share that compete with the best of an enumerated class of deterministic policies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits.checks import LARGEST, a_count, a_probability, a_size
from kernelbandits.errors import DecisionError, InvalidContexts
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.experts.advice import Expert, picks_of
from kernelbandits.policies.experts.expert_policy import ExpertPolicy
from kernelbandits.policies.experts.notes import known_propensity
from kernelbandits.policies.experts.picks import SPREAD, PickTable, odds_from, shares_of
from kernelbandits.policies.randomised_policy import Odds
from kernelbandits.restoring import saved_array
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Decision, Indices, Parameters, Seed, Vector

__all__ = ["ClassMixture", "ClassPolicy", "is_power_of_two"]


MOST_ACTIONS: Final = 100_000
"""Of a round: each distinct round takes 8 bytes for each of them."""


class ClassMixture(NamedTuple):
    """How the next action is drawn: from policies of these weights, mixed with every action alike."""

    weights: Vector
    """Probability of each policy of the class."""

    mixing: float
    """Least probability of each action."""


class ClassPolicy(ExpertPolicy):
    """Draws a policy of the class, or now and then any action, and estimates from each reward all policies at once.

    With weights P(π) and the mixing m, the probability of an action of a round of n is

        W'(x, a) = (1 − n m) Σ_π P(π) 1[π(x) = a] + m,

    and the value of a policy is estimated without bias by the mean of r 1[π(x) = a] / W'(x, a) over the rounds learnt,
    each with the probability that its own action was drawn with. Rewards are scaled from `reward_range` to [0, 1].

    A policy whose action is not eligible takes the eligible ones alike. A round may have fewer than `n_actions` actions
    to choose among, not more. Rewards cannot be amended: weights depend on what was known when they were computed.

    A subclass says what the weights are: `_mixture`; and what it does after each round: `_after_round`.
    """

    def __init__(
        self,
        experts: Sequence[Expert],
        *,
        n_actions: int,
        failure_probability: float,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: Seed = None,
    ) -> None:
        super().__init__(experts, reward_range=reward_range, seed=seed)
        self._n_actions = a_count(n_actions, "The number of actions", most=MOST_ACTIONS)
        self._failure_probability = a_probability(failure_probability)
        a_size("Probabilities of actions", self.n_policies, self.n_actions)
        self._table = PickTable(self.n_policies, self.n_actions, self._journal)
        self._sums = np.zeros(self.n_policies)  # Σ r 1[π(x) = a] / W'(x, a), r scaled to [0, 1]

    @property
    def n_actions(self) -> int:
        """The most actions that a round can have."""
        return self._n_actions

    @property
    def failure_probability(self) -> float:
        """With what probability the promise of the algorithm may fail."""
        return self._failure_probability

    @abstractmethod
    def _mixture(self) -> ClassMixture:
        """What the next action is drawn from: a function of what was learnt."""

    @abstractmethod
    def _after_round(self) -> None:
        """One more round is in the table and in the sums; this may not fail."""

    @property
    def n_policies(self) -> int:
        """Policies of the class."""
        return len(self.experts)

    @property
    def weights(self) -> Vector:
        """Probability with which each policy is drawn in the next round."""
        return self._mixture().weights.copy()

    @property
    def mixing(self) -> float:
        """Least probability of each action of the next round."""
        return self._mixture().mixing

    @property
    def values(self) -> Vector:
        """Estimated mean reward of each policy, without bias; nan before the first reward."""
        if not self._table.n_rounds:
            return np.full(self.n_policies, nan)
        return np.array([self._rewards.from_unit(value) for value in self._estimates().tolist()])

    @property
    def best_policy(self) -> int:
        """Place, among the experts, of the policy of highest estimated value."""
        return int(tied_for_best(self._estimates())[0])

    def _estimates(self) -> Vector:
        """Estimated value of each policy, rewards scaled to [0, 1]."""
        return self._sums / max(1, self._table.n_rounds)

    def _regrets(self) -> Vector:
        """By how much each policy's estimated value falls short of the best."""
        estimates = self._estimates()
        regrets: Vector = estimates.max() - estimates
        return regrets

    def _class_parameters(self) -> Parameters:
        """What `_parameters` says of all that is here."""
        return {
            **self._expert_parameters(),
            "n_actions": self.n_actions,
            "failure_probability": self.failure_probability,
            "reward_range": self.reward_range,
        }

    def _odds(self, actions: Actions) -> Odds:
        if actions.n_actions > self.n_actions:
            raise InvalidContexts(
                f"A round can have at most n_actions = {self.n_actions} actions here, got {actions.n_actions}. Make "
                f"the policy for the largest round: {type(self).__name__}(…, n_actions={actions.n_actions})."
            )
        picks, rows = self._picks(actions), np.arange(actions.n_actions) if actions.rows is None else actions.rows
        weights, mixing = self._mixture()
        return Odds(odds_from(shares_of(picks, weights, rows), mixing), memo={"picks": picks})

    def _picks(self, actions: Actions) -> Indices:
        """The row that each policy takes, or SPREAD where that is not eligible."""
        picks = picks_of(self._panel.advice_on(actions.whole, actions.n_rows))
        return picks if actions.rows is None else np.where(np.isin(picks, actions.rows), picks, SPREAD)

    def _validate_decision(self, decision: Decision) -> None:
        self._picks_in(decision)

    def _take_in(self, decision: Decision, reward: float) -> None:
        picks, propensity = self._picks_in(decision), known_propensity(decision)
        takes = np.where(picks == SPREAD, 1.0 / decision.n_actions, picks == decision.action)  # π(a | x)
        self._sums = self._sums + self._rewards.unit(reward) * takes / propensity
        self._table.add(picks, decision.n_actions)
        self._after_round()

    def _picks_in(self, decision: Decision) -> Indices:
        """What each policy picked in the round of a decision, or DecisionError where it does not say so."""
        picks = np.asarray(decision.memo.get("picks", ()))
        if picks.shape != (self.n_policies,) or picks.dtype.kind not in "iu" or picks.min() < SPREAD:
            raise DecisionError(
                f"A decision for {type(self).__name__} has in memo['picks'] the row that each of the {self.n_policies} "
                f"policies picked, got {picks!r:.80}. Learn from decisions as `choose` gives them."
            )
        n_picked = len(np.unique(picks[picks != SPREAD]))
        if not 1 <= max(1, n_picked) <= decision.n_actions <= self.n_actions:
            raise DecisionError(
                f"A decision for {type(self).__name__} has the number of eligible actions (at most {self.n_actions}, "
                f"and no fewer than were picked), got n_actions={decision.n_actions}. Learn from decisions as `choose` "
                "gives them."
            )
        return picks

    def _state(self) -> Parameters:
        return {"table": self._table.state(), "sums": self._sums.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._table.restore(state["table"])
        self._sums = saved_array(state, "sums", "f", self._sums.shape, least=-LARGEST, most=LARGEST).copy()


def is_power_of_two(n_rounds: int) -> bool:
    """Whether weights that are found at rounds 2^j are to be found anew."""
    return n_rounds & (n_rounds - 1) == 0
