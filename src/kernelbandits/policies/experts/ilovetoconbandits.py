"""ILOVETOCONBANDITS (Agarwal et al. 2014) by coordinate descent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil, log, sqrt
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import saved_count, saved_shares
from kernelbandits.policies.experts.class_policy import ClassMixture, ClassPolicy, PickTable, is_power_of_two
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Parameters, Vector
from kernelbandits.validation import check_positive

__all__ = ["ILOVETOCONBANDITS", "Descent", "sparse_weights"]

ROUNDING: Final = 1e-12
"""Relative tolerance of a constraint: without it, rounding would undo and repeat the last step forever."""


class Descent(NamedTuple):
    """Result of the coordinate descent."""

    weights: Vector
    """Q(π): non-negative, with sum at most 1."""

    n_steps: int
    """Number of steps that increased the weight of a policy."""


def sparse_weights(table: PickTable, penalties: Vector, mixing: float, start: Vector) -> Descent:
    """Find weights Q with Σ Q(π) (2N + b_π) ≤ 2N and V_π ≤ 2N + b_π for every policy, by coordinate descent.

    b are the penalties, V_π = mean_x 1 / W'(x, π(x)) with W' = (1 − N m) Σ_π Q(π) 1[π(x) = a] + m, for any total mass
    of Q. If the first constraint is violated, Q is scaled down to meet it with equality. Then the weight of the policy
    that violates the second constraint most is increased by

        (V_π + D_π) / (2 (1 − N m) S_π),    D_π = V_π − (2N + b_π),   S_π = mean_x 1 / W'(x, π(x))².

    This is repeated until no constraint is violated. Each step decreases a potential, so from Q = 0 there are at most 4
    ln(1 / N m) / m steps; twice as many are allowed, as Q may start elsewhere.

    Reference: Agarwal et al. (2014), the coordinate descent of ILOVETOCONBANDITS.
    """
    double = 2.0 * table.n_actions
    limits = double + penalties
    most_steps = 1 + ceil(8.0 * log(1.0 / (table.n_actions * mixing)) / mixing)
    remaining = table.remaining(mixing)[:, None]  # 1 − n m
    weights, step = _shrunk(start, limits, double), 0
    while step < most_steps:
        probabilities = table.probabilities(weights, mixing)
        variances = table.variances(probabilities)
        excess = variances - limits
        worst = tied_for_best(excess)[:1]
        if excess[worst[0]] <= ROUNDING * double:
            break
        slope = table.mean_at_picks(remaining / probabilities**2, power=2, policies=worst)[0]
        weights[worst] += (variances[worst] + excess[worst]) / (2.0 * slope)
        weights = _shrunk(weights, limits, double)
        step += 1
    return Descent(weights, step)


def _shrunk(weights: Vector, limits: Vector, most: float) -> Vector:
    """Return a copy, scaled down to Σ Q(π) (2N + b_π) = 2N if the sum is larger."""
    total = float(weights @ limits)
    return weights * (most / total) if total > most * (1.0 + ROUNDING) else np.array(weights)


class ILOVETOCONBANDITS(ClassPolicy):
    """Sparse weights on good policies and on those needed to estimate the others; the remaining mass on the best.

    There are N actions and M policies. After t = 1, 2, 4, 8, … learned rounds, weights Q are computed with

        Σ_π Q(π) (2N + b_π) ≤ 2N,
        mean_x 1 / W'(x, π(x)) ≤ 2N + b_π for every π,
        W'(x, a) = (1 − N m) Σ_π Q(π) 1[π(x) = a] + m,
        m = min(1 / 2N, uniform_factor · sqrt(ln(16 t² M / δ) / (N t))),    b_π = Reg(π) / (c m),

    where Reg(π) is the estimated regret of a policy and c = `regret_factor`, by a coordinate descent that starts from
    the last Q. Until the next solve, actions are drawn from W' with the remaining mass 1 − Σ Q added to the policy that
    was best at the solve.

    Contexts are i.i.d.; rewards lie in `reward_range`. t counts learned rounds: rewards may be delayed.

    The c = 100 and the m of the proof make learning slow, so both have a factor with a practical default
    (docs/defaults.md). With 3 actions, 50 linear scorers, δ = 0.05 and the m of the proof, the mean reward of 4000
    rounds in three runs was 0.58 with c = 100, 0.62 with 2 and 0.64 with 0.1, where the best policy had 0.75 and the
    average one 0.52. Much of the remaining gap was due to the mixing: that m is still 0.06 after 2048 rounds.

    A solve costs O(U M) per step for U distinct learned rounds (see `PickTable`); such a run took 2 to 5 steps in
    total. The rounds between cost M expert calls, independent of t.

    Parameters
    ----------
    experts
        The class: experts that put all probability on one action.
    n_actions
        N, the largest number of actions of a round.
    failure_probability
        δ, the probability with which the regret bound may fail.
    regret_factor
        c above: smaller values rely more on the estimated regrets. "theory" is the 100 of the proof.
    uniform_factor
        Factor of m. "theory" is the 1 of the proof.
    reward_range
        Range of rewards, which are scaled to [0, 1].
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import ConstantExpert
    >>> policy = ILOVETOCONBANDITS(
    ...     [ConstantExpert(0), ConstantExpert(1)], n_actions=2, failure_probability=0.1, regret_factor=1.0, seed=0
    ... )
    >>> for _ in range(600):
    ...     decision = policy.choose(["left", "right"])
    ...     policy.learn(decision, reward=1.0 if decision.item == 1 else 0.2)
    >>> policy.best_policy
    1
    >>> bool(policy.probabilities(["left", "right"])[1] > 0.7)
    True

    References
    ----------
    Agarwal et al. (2014), ILOVETOCONBANDITS ("importance-weighted low-variance epoch-timed oracleized contextual
    bandits"), with the class enumerated in place of an oracle for the best policy.
    """

    regret_factor: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The regret factor", hint="The proof has 100; less learns faster."),
        default=1.0,
        theory=100.0,
    )

    def _setup(self) -> None:
        super()._setup()
        self._sparse = np.zeros(self.n_policies)  # Q
        self._favorite = 0  # the best policy when Q was found
        self._least = 0.5 / self.n_actions  # m
        self._n_steps = 0

    @property
    def n_steps(self) -> int:
        """Total number of steps of all solves."""
        return self._n_steps

    def _mixture(self) -> ClassMixture:
        weights = self._sparse.copy()
        weights[self._favorite] += max(0.0, 1.0 - weights.sum())
        return ClassMixture(weights, self._least)

    def _after_round(self) -> None:
        if is_power_of_two(self._table.n_rounds):
            self._solve()

    def _solve(self) -> None:
        t, n_actions = self._table.n_rounds, self.n_actions
        confidence = log(16 * t**2 * self.n_policies / self.failure_probability)
        self._least = min(0.5 / n_actions, self.uniform_factor * sqrt(confidence / (n_actions * t)))
        penalties = self._regrets() / (self.regret_factor * self._least)  # b_π
        descent = sparse_weights(self._table, penalties, self._least, self._sparse)
        self._sparse, self._favorite = descent.weights, self.best_policy
        self._n_steps += descent.n_steps

    def _state(self) -> Parameters:
        solution = {"sparse": self._sparse.copy(), "favorite": self._favorite, "least": self._least}
        return {**super()._state(), **solution, "n_steps": self._n_steps}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sparse = saved_shares(state, "sparse", self.n_policies, is_whole=False).copy()
        self._favorite = saved_count(state, "favorite", most=self.n_policies - 1)
        self._least = self._saved_mixing(state, "least")
        self._n_steps = saved_count(state, "n_steps")
