"""Epoch-Greedy, over experts and over kernel ridge regression."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from math import cbrt, ceil, floor, log, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import saved_array
from kernelbandits.policies.base import HORIZON, N_ACTIONS, UNIFORM_FACTOR
from kernelbandits.policies.experts.base import Expert, Panel, known_propensity, memo_shares
from kernelbandits.policies.experts.expert_policy import ExpertPolicy
from kernelbandits.policies.posterior_policy import KernelPolicy
from kernelbandits.policies.randomized import ActionDistribution, RandomizedPolicy
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Parameters, Points, Selection, Vector
from kernelbandits.validation import LARGEST, check_positive

__all__ = ["EXPLORING", "EpochGreedy", "Epochs", "KernelEpochGreedy"]

EXPLORING: Final = 1
"""Stage of decisions in uniform rounds, from which these policies learn."""


NEVER: Final = 2**60
"""Epoch number that is never reached."""


class Epochs:
    """Schedule of the uniform rounds, for a class of complexity C = N ln M.

    Without a horizon, epoch l = 1, 2, … consists of one uniform round and max(1, ⌊sqrt(l / C) / factor⌋) greedy rounds.
    With a horizon T, the first ⌈factor · T^(2/3) C^(1/3)⌉ rounds are uniform.

    >>> schedule = Epochs(0.2, horizon=None, factor=1.0)
    >>> [t for t in range(1, 14) if schedule.explores(t)]
    [1, 4, 8, 12]
    """

    def __init__(self, complexity: float, *, horizon: int | None, factor: float) -> None:
        self._complexity, self._factor = complexity, factor
        self.n_first: int | None = None
        """Number of initial uniform rounds, if the horizon is known."""
        if horizon is not None:
            self.n_first = min(horizon, ceil(factor * cbrt(horizon**2 * complexity)))
        self._run = (1, 1)
        """First round and number of the first of the equally long epochs around the latest round."""

    def greedy_rounds(self, epoch: int) -> int:
        """Return the number of rounds of an epoch after its first."""
        return max(1, floor(sqrt(epoch / self._complexity) / self._factor))

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is uniform."""
        if self.n_first is not None:
            return round_index <= self.n_first
        if round_index < self._run[0]:
            self._run = (1, 1)
        while True:
            start, epoch = self._run
            n_rounds, later = 1 + self.greedy_rounds(epoch), self._longer_epoch(epoch)
            if round_index < start + (later - epoch) * n_rounds:
                return (round_index - start) % n_rounds == 0
            self._run = (start + (later - epoch) * n_rounds, later)

    def _longer_epoch(self, epoch: int) -> int:
        """Return the first later epoch that has more rounds, or one that is never reached."""
        n_greedy, above = self.greedy_rounds(epoch), 2 * epoch
        while self.greedy_rounds(above) <= n_greedy and above < NEVER:
            above *= 2
        return epoch + bisect_right(range(epoch, above), n_greedy, key=self.greedy_rounds)


class EpochGreedy(ExpertPolicy):
    """Epoch-Greedy: occasional uniform rounds, and in between the expert with the best estimated value in these rounds.

        value of expert i = Σ over uniform rounds of r ξⁱ_a / p_a,   p_a = 1/N

    which is unbiased for any advice. Epoch l = 1, 2, … consists of one uniform round and then s_l = max(1,
    ⌊sqrt(l / (N ln M)) / uniform_factor⌋) greedy rounds. If the horizon T is known, the first
    ⌈uniform_factor · T^(2/3) (N ln M)^(1/3)⌉ rounds are uniform and all others greedy. If rounds are i.i.d., the
    expected regret against the best of M experts is of order T^(2/3) (N ln M)^(1/3); relative to the best action, the
    policy is no better than its experts. The policy does not learn from greedy rounds (`stage` is 1 in uniform rounds
    and None in greedy ones).

    Half of the rounds are uniform until l reaches 4 N ln M, which for N = 5 and M = 100 is epoch 93; a factor below 1
    shortens this phase. Which rounds are uniform depends on `round_index`: delayed rewards count once they are expected
    (`expect`). Rounds may have any number of actions; N in the schedule is `n_actions`.

    A greedy round costs the advice of one expert, a uniform round that of all, and M numbers of memo; otherwise, cost
    does not grow with the number of rounds. Rewards may be delayed, amended and unlearned: values are sums.

    Parameters
    ----------
    experts
        The experts; ties between them go to the first.
    n_actions
        N: number of actions per round, for the schedule.
    horizon
        T, if known; None: epochs.
    uniform_factor
        Factor of the amount of exploration. "theory" is 1, the published schedule.
    reward_range
        Lowest and highest reward.
    seed
        Seed of the draws.

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

    n_actions: int = parameter(N_ACTIONS)
    horizon: int | None = parameter(HORIZON, default=None)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.3, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        # A single expert leaves nothing to learn; the schedule is defined for at least two.
        complexity = self.n_actions * log(max(len(self.experts), 2))
        self._schedule = Epochs(complexity, horizon=self.horizon, factor=self.uniform_factor)
        self._values: Vector = np.zeros(len(self.experts))
        self._leaders: tuple[int, Panel] | None = None

    @property
    def values(self) -> Vector:
        """Estimated total reward of each expert in the uniform rounds: sums of rewards scaled to [0, 1]."""
        return self._values.copy()

    @property
    def leader(self) -> Expert:
        """Expert that greedy rounds currently follow."""
        return self._leading().experts[0]

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is uniform."""
        return self._schedule.explores(round_index)

    def _leading(self) -> Panel:
        """Return the leader as a panel of one expert, rebuilt only when the leader changes."""
        place = int(tied_for_best(self._values)[0])
        if self._leaders is None or self._leaders[0] != place:
            self._leaders = place, Panel([self.experts[place]])
        return self._leaders[1]

    def _distribution(self, actions: Actions) -> ActionDistribution:
        if self.explores(self.round_index):
            return ActionDistribution(
                np.full(actions.n_actions, 1.0 / actions.n_actions), memo={"advice": self._advice(actions)}
            )
        advice = self._leading().advice(actions)[0]
        return ActionDistribution(advice / advice.sum())

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        choice = super()._drawn_choice(actions, distribution)
        if "advice" not in choice.memo:
            return choice
        return choice._replace(stage=EXPLORING, memo={"advice": choice.memo["advice"][:, choice.row].copy()})

    def _update(self, decision: Decision, reward: float) -> None:
        self._values = self._values + self._step(decision, self._rewards.unit(reward))

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._values = self._values + self._step(decision, self._rewards.unit_change(now - was))

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._values = self._values - self._step(decision, self._rewards.unit(reward))

    def _step(self, decision: Decision, reward: float) -> Vector:
        """Return the increment of the values for a reward; zero after a greedy round."""
        if decision.stage != EXPLORING:
            return np.zeros(len(self.experts))
        return reward / known_propensity(decision) * memo_shares(decision, "advice", len(self.experts))

    def _state(self) -> Parameters:
        return {"values": self._values}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._values = saved_array(state, "values", "f", self._values.shape, least=-LARGEST, most=LARGEST)


class KernelEpochGreedy(KernelPolicy, RandomizedPolicy):
    """Epoch-Greedy with kernel ridge regression on the uniform rounds in place of a list of experts.

    The schedule of uniform rounds is that of `EpochGreedy`, with `complexity` in place of ln M: epoch l consists of one
    uniform round and then max(1, ⌊sqrt(l / (N · complexity)) / uniform_factor⌋) greedy ones; if the horizon is
    known, all uniform rounds come first. A greedy round selects the action with the highest estimated reward,
    kᵀ(K + γI)⁻¹ y over the uniform rounds; the lowest row among ties. The policy does not learn from greedy rounds, so
    the learned data are an unbiased sample of all actions (`stage` is 1 in uniform rounds and None in greedy ones). The
    rate T^(2/3) is that of Epoch-Greedy if the regression finds the best policy; no constant is known.

    With m distinct actions from uniform rounds, a greedy round costs O(N m), and learning from a uniform one costs
    O(m²): m grows with the uniform rounds, about T^(2/3). Rewards may be delayed, amended and unlearned.

    Parameters
    ----------
    kernel
        Similarity of actions.
    n_actions
        N: number of actions per round, for the schedule.
    regularization
        γ > 0.
    complexity
        Counterpart of ln M for a list of M policies; 5 corresponds to 150 policies. Larger values explore more.
    horizon
        T, if known; None: epochs.
    uniform_factor
        Factor of the amount of exploration. "theory" is 1, the published schedule.
    posterior
        "auto" (the cheaper exact form), "exact" or "primal".
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelEpochGreedy(Gaussian(length_scale=0.3), n_actions=5, regularization=0.1, seed=0)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(61):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> policy.choose(contexts).action
    3

    References
    ----------
    Langford and Zhang (2008), the Epoch-Greedy algorithm for contextual multi-armed bandits.
    """

    learns_from_any_action = False  # only from those of uniform rounds

    n_actions: int = parameter(N_ACTIONS)
    complexity: float = parameter(partial(check_positive, name="The complexity"), default=5.0)
    horizon: int | None = parameter(HORIZON, default=None)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.2, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        self._schedule = Epochs(self.n_actions * self.complexity, horizon=self.horizon, factor=self.uniform_factor)
        self._support: tuple[Points, Vector] | None = None  # points and dual weights; None: to be recomputed

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is uniform."""
        return self._schedule.explores(round_index)

    def estimate(self, contexts: Points) -> Vector:
        """Return the estimated reward of each action."""
        return self._means(self.kernel.kind.check(contexts))

    def _means(self, points: Points) -> Vector:
        """Return means only, which cost O(m) each; widths would cost O(m²)."""
        if not self.posterior.n_observations:
            return np.zeros(self.kernel.kind.count(points))
        if self._support is None:
            seen, weights, _, _ = self.posterior.support()
            self._support = seen, weights
        seen, weights = self._support
        means: Vector = self.posterior.kernel.gram(points, seen) @ weights
        return means

    def _distribution(self, actions: Actions) -> ActionDistribution:
        means = self._means(actions.points)
        if self.explores(self.round_index):
            return ActionDistribution(np.full(actions.n_actions, 1.0 / actions.n_actions), score=means)
        probabilities = np.zeros(actions.n_actions)
        probabilities[tied_for_best(means)[0]] = 1.0
        return ActionDistribution(probabilities, score=means)

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        choice = super()._drawn_choice(actions, distribution)
        return choice._replace(mean=choice.score, stage=EXPLORING if self.explores(self.round_index) else None)

    # -- learning: from uniform rounds only ------------------------------------------------------------------------

    def _note_model(self) -> None:
        super()._note_model()
        self._journal.note(setattr, self, "_support", None)

    def _update(self, decision: Decision, reward: float) -> None:
        if decision.stage == EXPLORING:
            super()._update(decision, reward)
            self._support = None

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        places = [place for place, decision in enumerate(decisions) if decision.stage == EXPLORING]
        if places:
            super()._update_many([decisions[place] for place in places], rewards[places])
            self._support = None

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if decision.stage == EXPLORING:
            super()._amend_reward(decision, was, now, number)
            self._support = None

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        if decision.stage == EXPLORING:
            super()._remove_reward(decision, reward, number)
            self._support = None

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        explored = [decision for decision in decisions if decision.stage == EXPLORING]
        numbers = iter(super()._numbers_of(explored))
        return [next(numbers) if decision.stage == EXPLORING else None for decision in decisions]

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        super()._warm_start(points, rewards, times)
        self._support = None

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._support = None
