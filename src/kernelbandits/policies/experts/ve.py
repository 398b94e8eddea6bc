"""VE (Beygelzimer et al. 2011): EXP4.P over the distinct members of a VC class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil, e, log, sqrt
from typing import Any, Final, Literal

import numpy as np

from kernelbandits._parameters import Parameter, ValueType, described, parameter
from kernelbandits._saved_state import saved_array, saved_value
from kernelbandits.errors import DamagedFile, DecisionError, InvalidParameter
from kernelbandits.policies.base import EXPLORATION_FACTOR, HORIZON, LEARNING_FACTOR, UNIFORM_FACTOR
from kernelbandits.policies.experts.base import Expert, Panel, memo_array, saved_log_weights
from kernelbandits.policies.experts.exp4 import ConfidentWeights
from kernelbandits.policies.experts.expert_policy import UnitRewardPolicy
from kernelbandits.policies.experts.library import FiniteClass, PolicyClass, with_uniform
from kernelbandits.policies.experts.serialization import packed_class, unpacked_class
from kernelbandits.policies.randomized import ActionDistribution
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Parameters, Selection, Vector
from kernelbandits.validation import check_int, check_probability

__all__ = ["VE"]

UNIFORM, WEIGHTED = 1, 2


def _as_class(policies: PolicyClass | Sequence[Expert]) -> PolicyClass:
    return policies if isinstance(policies, PolicyClass) else FiniteClass(policies)


POLICIES: Final = ValueType(_as_class, described, packed_class, unpacked_class)


class VE(UnitRewardPolicy):
    """VE: uniform exploration to find the distinct policies of a class, then EXP4.P over one policy per labeling.

        τ = sqrt(T (2d ln(eT/d) + ln(2/δ)))     rounds of uniform exploration (rounded up)
        retain one policy per distinct labeling of these rounds, and the uniform expert
        run EXP4.P on them for the remaining T − τ rounds

    For i.i.d. contexts and a class of VC dimension d, the regret against the best policy of the class is of order
    sqrt(T (d ln(T/d) + ln(1/δ))) with probability 1 − δ, for any number of policies. At most (eτ/d)^d policies are
    retained. δ is split equally between the two phases.

    τ is large: 647 of 10 000 rounds for d = 2 and δ = 0.05. The number of retained policies is then also large, and
    each starts with the same weight. `uniform_rounds` sets another τ, without the guarantee. A uniform round is learned
    when its reward arrives, whatever its value: the first τ that arrive end the phase, and later ones change nothing.
    `stage` of a decision is 1 in the first phase, 2 in the second.

    A round costs one evaluation of every retained policy, thousands for stumps on several columns, independent of the
    number of rounds after τ. Rewards cannot be amended: the set of policies depends on the order of arrival.

    Parameters
    ----------
    policies
        A `StumpClass`, or a sequence of experts that each put probability 1 on one action.
    horizon
        T, above τ.
    vc_dimension
        d of the class: 2 for stumps on one column, the number of columns for linear scorers; the logarithm to base 2 of
        the number of policies is an upper bound.
    failure_probability
        δ.
    uniform_rounds
        τ; None: that of the proof.
    exploration
        Factor of the confidence term, as in EXP4.P. "theory" is 1.
    uniform_factor
        Factor of p_min, as in EXP4.P. "theory" is 1.
    learning_factor
        Factor of the learning rate, as in EXP4.P. "theory" is 1.
    reward_range
        Lowest and highest reward.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import StumpClass
    >>> VE(StumpClass(1), horizon=10_000, vc_dimension=2, failure_probability=0.05).uniform_rounds
    647
    >>> policy = VE(StumpClass(1), horizon=400, vc_dimension=2, uniform_rounds=20, learning_factor=4.0, seed=0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(400):
    ...     x = rng.uniform()
    ...     decision = policy.choose([[x], [x]])  # row 1 is right above a half
    ...     policy.learn(decision, 1.0 if decision.action == (x > 0.5) else 0.0)
    >>> len(policy.experts)  # of infinitely many stumps, and one who advises uniformly
    41
    >>> best = policy.experts[policy.weights.argmax()]
    >>> round(best.threshold, 2), best.below, best.above
    (0.54, 0, 1)

    References
    ----------
    Beygelzimer, Langford, Li, Reyzin and Schapire (2011), contextual bandit algorithms with supervised
    learning guarantees, VE.
    """

    policies: Parameter[PolicyClass | Sequence[Expert], PolicyClass] = parameter(POLICIES, kw_only=False)
    horizon: int = parameter(HORIZON)
    vc_dimension: int = parameter(partial(check_int, name="The VC dimension"))
    failure_probability: float = parameter(check_probability, default=0.05)
    uniform_rounds: Parameter[int | None, int] = parameter(
        partial(check_int, name="The number of uniform rounds"), default=None
    )
    exploration: Parameter[float | Literal["theory"], float] = parameter(EXPLORATION_FACTOR, default=0.1, theory=1.0)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.3, theory=1.0)
    learning_factor: Parameter[float | Literal["theory"], float] = parameter(LEARNING_FACTOR, default=30.0, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        if self.uniform_rounds is None:
            self._resolve(uniform_rounds=self._needed_rounds())
        # EXP4.P needs ln(M/δ) rounds, and M is at most (eτ/d)^d.
        seen = max(self.uniform_rounds, self.vc_dimension)
        least = self.vc_dimension * log(e * seen / self.vc_dimension) + log(2.0 / self.failure_probability)
        if self.horizon - self.uniform_rounds < least:
            raise InvalidParameter(
                f"VE plays uniformly for {self.uniform_rounds} rounds and then needs at least {ceil(least)} to use "
                f"what was seen; the horizon is {self.horizon}. Take a longer one, or set uniform_rounds."
            )
        self._summaries: list[Vector] = []
        self._panel: Panel | None = None
        self._weights: ConfidentWeights | None = None

    def _needed_rounds(self) -> int:
        d, rounds = self.vc_dimension, self.horizon
        if d > rounds:
            raise InvalidParameter(f"The VC dimension must be below the horizon, got {d} and {rounds}.")
        return ceil(sqrt(rounds * (2.0 * d * log(e * rounds / d) + log(2.0 / self.failure_probability))))

    @property
    def experts(self) -> tuple[Expert, ...]:
        """Retained policies and the uniform expert; empty before τ rounds are learned."""
        return () if self._panel is None else self._panel.experts

    @property
    def weights(self) -> Vector:
        """Weight of each expert in the mixture, normalized to sum 1."""
        return np.zeros(0) if self._weights is None else self._weights.shares

    def _distribution(self, actions: Actions) -> ActionDistribution:
        if self._panel is None or self._weights is None:
            summary = self.policies.summarize_round(actions.whole, actions.n_rows)
            return ActionDistribution(np.full(actions.n_actions, 1.0 / actions.n_actions), memo={"look": summary})
        return self._weights.probabilities(self._panel.advice(actions))

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        choice = super()._drawn_choice(actions, distribution)
        if "look" in choice.memo:
            return choice._replace(stage=UNIFORM)
        return ConfidentWeights.remembered(choice)._replace(stage=WEIGHTED)

    def _note_model(self) -> None:
        self._note_references()
        if self._weights is not None:
            self._journal.note(setattr, self._weights, "log_weights", self._weights.log_weights)

    def _update(self, decision: Decision, reward: float) -> None:
        if decision.stage == UNIFORM:
            self._add_summary(decision)
            return
        if self._panel is None or self._weights is None:
            raise DecisionError(
                f"Decision {decision.id!r} followed policies that are not known yet: learn the {self.uniform_rounds} "
                f"uniform rounds first; {len(self._summaries)} are learned."
            )
        self._weights.update(decision, self._rewards.unit(reward))

    def _add_summary(self, decision: Decision) -> None:
        if self._panel is not None:
            return
        size = len(self._summaries[0]) if self._summaries else np.size(decision.memo.get("look", ()))
        summary = memo_array(decision, "look", size)
        summaries = self._summaries
        if len(summaries) + 1 == self.uniform_rounds:
            self._gather([*summaries, summary])
        self._journal.note(summaries.__delitem__, slice(len(summaries), None))
        summaries.append(summary)

    def _gather(self, summaries: list[Vector]) -> None:
        """Retain one policy per labeling, each with the same weight."""
        experts = with_uniform(list(self.policies.distinct(np.array(summaries))))
        failure, rounds = self.failure_probability / 2.0, self.horizon - self.uniform_rounds
        weights = ConfidentWeights(
            len(experts),
            horizon=rounds,
            failure_probability=failure,
            exploration=self.exploration,
            uniform_factor=self.uniform_factor,
            learning_factor=self.learning_factor,
        )
        self._panel, self._weights = Panel(experts), weights

    def _state(self) -> Parameters:
        return {
            "looks": np.array(self._summaries),
            "log_weights": None if self._weights is None else self._weights.log_weights,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        summaries = saved_value(state, "looks")
        shape = (0,) if np.shape(summaries) == (0,) else (None, None)
        self._summaries = list(saved_array(state, "looks", "f", shape))
        if (saved_value(state, "log_weights") is None) != (len(self._summaries) < self.uniform_rounds):
            raise DamagedFile("The file has to hold weights after the uniform rounds, and only then.")
        if state["log_weights"] is not None:
            self._gather(self._summaries)
            if self._weights is not None:
                self._weights.log_weights = saved_log_weights(state, len(self._weights.log_weights))
