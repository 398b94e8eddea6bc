"""A class of policies by the program that Dudík et al. stated first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from kernelbandits.checks import a_count, is_one_of, positive, shown
from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.experts.advice import Expert
from kernelbandits.policies.experts.balancing import balanced_weights
from kernelbandits.policies.experts.class_policy import ClassMixture, ClassPolicy, is_power_of_two
from kernelbandits.policies.experts.cutting_planes import least_regret
from kernelbandits.policies.experts.variance_program import VarianceProgram
from kernelbandits.restoring import saved_array, saved_count, saved_number
from kernelbandits.types import Parameters, Seed

__all__ = ["RandomizedUCB"]


class RandomizedUCB(ClassPolicy):
    """The mixture of policies of least estimated regret that still estimates each policy as well as it deserves.

    With N actions, M policies, C_t = 2 ln(M t / δ) and m_t = min(1 / 2N, sqrt(C_t / (2 N t))), round t draws from
    W'(x, a) = (1 − N m_t) Σ_π P(π) 1[π(x) = a] + m_t for the weights P that

        minimise Σ_π P(π) Δ(π)  such that for every mixture Q of policies
        Σ_π Q(π) mean_x 1 / W'(x, π(x)) ≤ max(4N, (t − 1) Δ(Q)² / (c C_{t−1})),

    Δ being estimated regrets, Δ(Q) = Σ_π Q(π) Δ(π), and c = `regret_factor` 180 in the proof. Policies that look bad
    may be estimated badly. The mean over contexts is taken over the rounds learnt, and t − 1 counts these.

    The class is enumerated, and the program solved by cutting planes to within `tolerance` of the least regret; the
    weights always meet the constraint when they are computed, also where `most_steps` ends the search.

    That is practical for small classes. With 3 actions and 50 policies, a solve took 6 linear programs and 0.1 s after
    1024 rounds, 30 and 1 s after 4096; with 5 actions and 500 policies 50 and 5 to 10 s. Each step costs O(U M) for U
    distinct rounds (see `PickTable`). Solving in every one of 1000 rounds took 100 s with 20 policies, and in 4000 it
    would take half an hour. So by default the program is solved when 1, 2, 4, 8, … rounds are learnt, and weights and
    mixing are kept until the next time; `schedule="every"` is the algorithm as it was stated, for short runs.

    The proof's constants leave room to learn: 4N is generous, so that few policies besides the best are needed. With 3
    actions and 50 linear scorers the mean reward of 4000 rounds was 0.65 in three runs, and 0.69 in the last 500, where
    the best policy had 0.75 and the average one 0.52; a smaller `regret_factor` changed nothing.

    Contexts are drawn independently from one law, rewards lie in `reward_range`.

    Parameters
    ----------
    experts
        The class: experts that put all probability on one action.
    n_actions
        N, the most actions that a round can have.
    failure_probability
        δ, the probability with which the bound on the regret may fail.
    regret_factor
        c above: smaller trusts the estimates of regret more.
    schedule
        When to solve: "doubling", or "every" round.
    tolerance
        How far the estimated regret may be from the least, rewards being scaled to [0, 1].
    most_steps
        Linear programs per solve at most.
    reward_range
        Rewards are scaled from it to [0, 1].
    seed
        For the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import ConstantExpert
    >>> policy = RandomizedUCB([ConstantExpert(0), ConstantExpert(1)], n_actions=2, failure_probability=0.1, seed=0)
    >>> for _ in range(600):
    ...     decision = policy.choose(["left", "right"])
    ...     policy.learn(decision, reward=1.0 if decision.item == 1 else 0.2)
    >>> bool(policy.probabilities(["left", "right"])[1] > 0.7)
    True

    References
    ----------
    Dudík et al. (2011), RandomizedUCB.
    """

    def __init__(
        self,
        experts: Sequence[Expert],
        *,
        n_actions: int,
        failure_probability: float = 0.05,
        regret_factor: float = 180.0,
        schedule: Literal["doubling", "every"] = "doubling",
        tolerance: float = 1e-3,
        most_steps: int = 200,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: Seed = None,
    ) -> None:
        super().__init__(
            experts, n_actions=n_actions, failure_probability=failure_probability, reward_range=reward_range, seed=seed
        )
        self._regret_factor = positive(regret_factor, "The regret factor", "The proof has 180; less learns faster.")
        if not is_one_of(schedule, ("doubling", "every")):
            raise InvalidParameter(
                f"Weights are found at 'doubling' rounds or at 'every' one, got schedule={shown(schedule)}."
            )
        self._schedule: Literal["doubling", "every"] = schedule
        self._tolerance = positive(tolerance, "The tolerance")
        self._most_steps = a_count(most_steps, "The number of steps")
        self._found = ClassMixture(np.full(self.n_policies, 1.0 / self.n_policies), 0.5 / self.n_actions)
        self._gap, self._n_steps = 0.0, 0

    @property
    def regret_factor(self) -> float:
        """What divides the squared regrets."""
        return self._regret_factor

    @property
    def schedule(self) -> Literal["doubling", "every"]:
        """When the program is solved."""
        return self._schedule

    @property
    def tolerance(self) -> float:
        """How far the estimated regret may be from the least."""
        return self._tolerance

    @property
    def most_steps(self) -> int:
        """Linear programs per solve at most."""
        return self._most_steps

    @property
    def gap(self) -> float:
        """By how much the last solve may have missed the least estimated regret."""
        return self._gap

    @property
    def n_steps(self) -> int:
        """Linear programs solved, all together."""
        return self._n_steps

    def program(self) -> VarianceProgram:
        """The program of the next round, by what is learnt now."""
        n_learnt = self._table.n_rounds
        t = n_learnt + 1
        mixing = min(0.5 / self.n_actions, sqrt(self._confidence(t) / (2 * self.n_actions * t)))  # m_t
        curvature = n_learnt / (self.regret_factor * self._confidence(max(1, n_learnt)))
        return VarianceProgram(self._table, self._regrets(), mixing, 4.0 * self.n_actions, curvature)

    def _mixture(self) -> ClassMixture:
        return self._found

    def _after_round(self) -> None:
        if self.schedule == "every" or is_power_of_two(self._table.n_rounds):
            program = self.program()
            inner = balanced_weights(self._table, np.arange(self.n_policies), program.mixing).weights
            solution = least_regret(program, inner, tolerance=self.tolerance, most_steps=self.most_steps)
            self._found = ClassMixture(solution.weights, program.mixing)
            self._gap = solution.regret - solution.bound
            self._n_steps += solution.n_steps

    def _confidence(self, t: int) -> float:
        """C_t."""
        return 2.0 * log(self.n_policies * t / self.failure_probability)

    def _parameters(self) -> Parameters:
        return {
            **self._class_parameters(),
            "regret_factor": self.regret_factor,
            "schedule": self.schedule,
            "tolerance": self.tolerance,
            "most_steps": self.most_steps,
        }

    def _state(self) -> Parameters:
        solution = {"weights": self._found.weights.copy(), "mixing": self._found.mixing, "gap": self._gap}
        return {**super()._state(), **solution, "n_steps": self._n_steps}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        weights = saved_array(state, "weights", "f", (self.n_policies,), least=0.0)
        self._found = ClassMixture(weights.copy(), saved_number(state, "mixing", least=0.0, most=1.0))
        self._gap, self._n_steps = saved_number(state, "gap"), saved_count(state, "n_steps")
