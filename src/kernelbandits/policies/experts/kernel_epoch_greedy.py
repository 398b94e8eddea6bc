"""Explore a little, then play what kernel ridge regression likes best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_count, positive
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.experts.epochs import EXPLORING, Epochs
from kernelbandits.policies.posterior_policy import PosteriorPolicy
from kernelbandits.policies.randomised_policy import Odds, RandomisedPolicy
from kernelbandits.posterior import PosteriorFactory, describe_posterior, posterior_factory
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.selection import tied_for_best
from kernelbandits.theory.widths import Constant
from kernelbandits.types import Decision, Parameters, Points, Seed, Vector

__all__ = ["KernelEpochGreedy"]


class KernelEpochGreedy(PosteriorPolicy, RandomisedPolicy):
    """Epoch-Greedy with a regression in place of a list of experts: kernel ridge on the uniform rounds.

    Uniform rounds come as in `EpochGreedy`, with `complexity` where that has ln M: epoch l is one of them and then
    max(1, ⌊sqrt(l / (N · complexity)) / factor⌋) greedy ones, or all come first where the horizon is known. A greedy
    round plays the action of highest estimated reward, kᵀ(K + γI)⁻¹ y over the uniform rounds; of tied ones the lowest
    row. Greedy rounds teach nothing, so that what is learnt is a fair sample of all actions (`stage` is 1 in uniform
    rounds and None in greedy ones). The rate T^(2/3) is that of Epoch-Greedy where the regression finds the best
    policy; there is no constant to quote.

    With m distinct actions from uniform rounds a greedy round costs O(N m) and a uniform one O(m²) when it is learnt:
    m grows with the uniform rounds, about T^(2/3). Rewards may be late, amended and unlearnt.

    Parameters
    ----------
    kernel
        Similarity of actions.
    n_actions
        N: actions of a round, for the schedule.
    regularisation
        γ > 0.
    complexity
        What ln M is to a list of M policies; 5 stands for 150 of them. More explores more.
    horizon
        T, where it is known; None: epochs.
    exploration_factor
        How much more is explored than the schedule says: 1 is the schedule.
    posterior
        "auto" (the cheaper exact form), "exact" or "primal".
    reward_range
        Rewards outside it are refused; None takes any finite number.
    seed
        Of the draws.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelEpochGreedy(Gaussian(length_scale=0.3), n_actions=5, regularisation=0.1, seed=0)
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

    def __init__(
        self,
        kernel: KernelLike,
        *,
        n_actions: int,
        regularisation: float = 1.0,
        complexity: float = 5.0,
        horizon: int | None = None,
        exploration_factor: float = 1.0,
        posterior: str | PosteriorFactory = "auto",
        reward_range: tuple[float, float] | None = None,
        seed: Seed = None,
    ) -> None:
        self.kernel: Kernel = as_kernel(kernel)
        self._form = posterior_factory(posterior)
        super().__init__(
            make_posterior(self._form, self.kernel, regularisation),
            Constant(0.0),  # actions are judged by their means
            reward_range=reward_range,
            seed=seed,
        )
        self._n_actions = a_count(n_actions, "The number of actions")
        self._complexity = positive(complexity, "The complexity")
        self._horizon = None if horizon is None else a_count(horizon, "The horizon")
        self._exploration_factor = positive(exploration_factor, "The exploration factor")
        self._schedule = Epochs(self.n_actions * self.complexity, horizon=self.horizon, factor=self.exploration_factor)
        self._support: tuple[Points, Vector] | None = None  # points and dual weights; None when to be asked for anew

    @property
    def n_actions(self) -> int:
        """N of the schedule."""
        return self._n_actions

    @property
    def complexity(self) -> float:
        """What ln M is to a list of M policies."""
        return self._complexity

    @property
    def horizon(self) -> int | None:
        """T, where it is known."""
        return self._horizon

    @property
    def exploration_factor(self) -> float:
        """How much more is explored than the schedule says."""
        return self._exploration_factor

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is played uniformly."""
        return self._schedule.explores(round_index)

    def estimate(self, contexts: Points) -> Vector:
        """Estimated reward of each action."""
        return self._means(self.kernel.kind.check(contexts))

    def _means(self, points: Points) -> Vector:
        """Means alone, which cost O(m) each; widths would cost O(m²)."""
        if not self.posterior.n_observations:
            return np.zeros(self.kernel.kind.count(points))
        if self._support is None:
            seen, weights, _, _ = self.posterior.support()
            self._support = seen, weights
        seen, weights = self._support
        means: Vector = self.kernel.gram(points, seen) @ weights
        return means

    def _parameters(self) -> Parameters:
        return {
            "kernel": self.kernel.describe(),
            "n_actions": self.n_actions,
            "regularisation": self.posterior.regularisation,
            "complexity": self.complexity,
            "horizon": self.horizon,
            "exploration_factor": self.exploration_factor,
            "posterior": describe_posterior(self._form),
            "reward_range": self.reward_range,
        }

    def _odds(self, actions: Actions) -> Odds:
        means = self._means(actions.points)
        if self.explores(self.round_index):
            return Odds(np.full(actions.n_actions, 1.0 / actions.n_actions), score=means)
        probabilities = np.zeros(actions.n_actions)
        probabilities[tied_for_best(means)[0]] = 1.0
        return Odds(probabilities, score=means)

    def _drawn_choice(self, actions: Actions, odds: Odds) -> Choice:
        choice = super()._drawn_choice(actions, odds)
        return choice._replace(mean=choice.score, stage=EXPLORING if self.explores(self.round_index) else None)

    # -- learning: from uniform rounds only ------------------------------------------------------------------------

    def _note_model(self) -> None:
        super()._note_model()
        self._journal.note(setattr, self, "_support", None)

    def _take_in(self, decision: Decision, reward: float) -> None:
        if decision.stage == EXPLORING:
            super()._take_in(decision, reward)
            self._support = None

    def _take_in_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        places = [place for place, decision in enumerate(decisions) if decision.stage == EXPLORING]
        if places:
            super()._take_in_many([decisions[place] for place in places], rewards[places])
            self._support = None

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if decision.stage == EXPLORING:
            super()._correct(decision, was, now, number)
            self._support = None

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        if decision.stage == EXPLORING:
            super()._take_back(decision, reward, number)
            self._support = None

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        explored = [decision for decision in decisions if decision.stage == EXPLORING]
        numbers = iter(super()._numbers_of(explored))
        return [next(numbers) if decision.stage == EXPLORING else None for decision in decisions]

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        super()._start_from(points, rewards, times)
        self._support = None

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._support = None
