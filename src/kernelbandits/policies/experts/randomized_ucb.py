"""RandomizedUCB (Dudík et al. 2011) by cutting planes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, log, sqrt
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kernelbandits._parameters import Parameter, one_of, parameter
from kernelbandits._saved_state import saved_count, saved_number, saved_shares
from kernelbandits.policies.base import UNIFORM_FACTOR
from kernelbandits.policies.experts.class_policy import (
    ClassMixture,
    ClassPolicy,
    PickTable,
    is_power_of_two,
)
from kernelbandits.policies.experts.policy_elimination import balanced_weights
from kernelbandits.types import Matrix, Parameters, Vector
from kernelbandits.validation import check_int, check_positive

__all__ = ["Breach", "RandomizedUCB", "Solution", "VarianceProgram", "least_regret", "upper_hull"]


class Breach(NamedTuple):
    """Mixture Q of policies with the largest constraint violation, or the smallest slack."""

    excess: float
    """Σ Q(π) V_π minus the limit: the constraint holds for all mixtures if this is not positive."""

    mixture: Vector
    """Q, with one or two policies."""


@dataclass(frozen=True, eq=False)
class VarianceProgram:
    """Minimize Σ P(π) Δ_π such that Σ Q(π) V_π(P) ≤ max(floor, curvature · (Σ Q(π) Δ_π)²) for all mixtures Q.

    V_π(P) = mean_x 1 / W'(x, π(x)) is convex in P, so the program is convex too.
    """

    table: PickTable
    regrets: Vector
    """Δ, the estimated regret of each policy."""

    mixing: float
    floor: float
    curvature: float

    def regret(self, weights: Vector) -> float:
        """Σ P(π) Δ_π."""
        return float(weights @ self.regrets)

    def limit(self, regret: float) -> float:
        """Return the largest allowed variance of a mixture with this regret."""
        return max(self.floor, self.curvature * regret**2)

    def breach(self, variances: Vector) -> Breach:
        """Return the worst mixture, exactly.

        (Σ Q Δ, Σ Q V) ranges over the convex hull of the points (Δ_π, V_π), so only its upper boundary matters. There,
        the excess is concave, and largest at a vertex, at the kink of the limit, or where the boundary is parallel to
        it.
        """
        corners = upper_hull(self.regrets, variances)
        kink = sqrt(self.floor / self.curvature) if self.curvature > 0.0 else inf
        excess, first, second, share = max(
            (float(variances[corner]) - self.limit(float(self.regrets[corner])), corner, corner, 0.0)
            for corner in corners
        )
        for left, right in pairwise(corners):
            start, length = self.regrets[left], self.regrets[right] - self.regrets[left]
            slope = (variances[right] - variances[left]) / length
            for regret in {kink, max(kink, slope / (2.0 * self.curvature)) if self.curvature > 0.0 else kink}:
                if start < regret < start + length:
                    here = float(variances[left] + slope * (regret - start)) - self.limit(regret)
                    if here > excess:
                        excess, first, second, share = here, left, right, float((regret - start) / length)
        mixture = np.zeros(len(variances))
        mixture[first] += 1.0 - share
        mixture[second] += share
        return Breach(excess, mixture)


def upper_hull(across: Vector, up: Vector) -> list[int]:
    """Return the vertices of the upper boundary of the convex hull of points in the plane, from left to right.

    >>> upper_hull(np.array([0.0, 1.0, 2.0, 1.0]), np.array([0.0, 3.0, 0.0, 1.0]))
    [0, 1, 2]
    """
    corners: list[int] = []
    for point in np.lexsort((-up, across)).tolist():  # from left to right; among equal abscissas the highest first
        if corners and across[corners[-1]] == across[point]:
            continue
        while len(corners) >= 2 and not _is_above(corners[-1], corners[-2], point, across, up):
            corners.pop()
        corners.append(point)
    return corners


def _is_above(middle: int, left: int, right: int, across: Vector, up: Vector) -> bool:
    """Whether a point lies above the line through two others."""
    rise, run = up[right] - up[left], across[right] - across[left]
    return bool((up[middle] - up[left]) * run > rise * (across[middle] - across[left]))


N_HALVINGS: Final = 14
"""Number of bisection steps from the inner point toward an optimum of a linear program, to find the boundary."""


class Solution(NamedTuple):
    """Feasible weights, with their regret and a lower bound."""

    weights: Vector
    regret: float
    """Their estimated regret, Σ P(π) Δ_π."""

    bound: float
    """Lower bound of the regret of all feasible weights."""

    n_steps: int
    """Number of linear programs solved."""


def least_regret(program: VarianceProgram, inner: Vector, *, tolerance: float, most_steps: int) -> Solution:
    """Find weights whose estimated regret is within `tolerance` of the minimum, by cutting planes.

    Every step minimizes the regret under the current cuts, which gives a lower bound; moves from the inner point toward
    the minimizer as far as the constraint allows, which gives feasible weights; and adds two cuts, the tangents of the
    constraint of the worst mixture at the minimizer and at the boundary point. The returned weights are feasible even
    if the search stops at `most_steps`.

    Parameters
    ----------
    program
        The program to solve.
    inner
        Strictly feasible weights.
    tolerance
        Largest allowed distance of the regret from the minimum.
    most_steps
        Largest number of linear programs.
    """
    cuts = _Cuts(program)
    inside = _Point(inner, program.table.shares(inner))
    best, bound, n_steps = inside, 0.0, 0
    while program.regret(best.weights) - bound > tolerance and n_steps < most_steps:
        n_steps += 1
        weights = cuts.minimizer()
        if weights is None:  # the cuts exceed the precision of the linear solver
            break
        outside = _Point(weights, program.table.shares(weights))
        bound = max(bound, program.regret(weights))
        breach = cuts.add(outside)
        reached = outside if breach.excess <= 0.0 else _walk(inside, outside, cuts)
        if program.regret(reached.weights) < program.regret(best.weights):
            best = reached
    regret = program.regret(best.weights)
    return Solution(best.weights, regret, min(bound, regret), n_steps)


class _Point(NamedTuple):
    """Weights and the resulting action probabilities, which are linear in the weights."""

    weights: Vector
    shares: Matrix

    def towards(self, other: _Point, fraction: float) -> _Point:
        """Return the point at this fraction of the way to another."""
        return _Point(
            (1.0 - fraction) * self.weights + fraction * other.weights,
            (1.0 - fraction) * self.shares + fraction * other.shares,
        )


class _Cuts:
    """Half-spaces normal · P ≤ offset that contain all feasible weights."""

    def __init__(self, program: VarianceProgram) -> None:
        self._program = program
        self._normals: list[Vector] = []
        self._offsets: list[float] = []

    def breach(self, point: _Point) -> Breach:
        """Return the worst mixture at a point."""
        return self._program.breach(self._program.table.variances(self._distribution(point)))

    def add(self, point: _Point) -> Breach:
        """Add the cut of the worst mixture at a point: excess + gradient · (P − point) ≤ 0."""
        program, probabilities = self._program, self._distribution(point)
        breach = program.breach(program.table.variances(probabilities))
        remaining = program.table.remaining(program.mixing)[:, None]
        gradient = -program.table.mean_at_picks(remaining * program.table.shares(breach.mixture) / probabilities**2)
        scale = float(np.abs(gradient).max())
        self._normals.append(gradient / scale)
        self._offsets.append(float(gradient @ point.weights - breach.excess) / scale)
        return breach

    def minimizer(self) -> Vector | None:
        """Return the weights with the smallest regret that satisfy all cuts; None if the solver fails."""
        from scipy.optimize import linprog  # import SciPy only if needed

        regrets = self._program.regrets
        found = linprog(
            regrets,
            A_ub=np.array(self._normals) if self._normals else None,
            b_ub=np.array(self._offsets) if self._offsets else None,
            A_eq=np.ones((1, len(regrets))),
            b_eq=[1.0],
            bounds=(0.0, None),
            method="highs",
        )
        if found.status != 0:
            return None
        weights: Vector = np.maximum(np.asarray(found.x, dtype=np.float64), 0.0)
        weights /= weights.sum()
        return weights

    def _distribution(self, point: _Point) -> Matrix:
        table, mixing = self._program.table, self._program.mixing
        probabilities: Matrix = table.remaining(mixing)[:, None] * point.shares + mixing
        return probabilities


def _walk(inside: _Point, outside: _Point, cuts: _Cuts) -> _Point:
    """Return the last feasible point on the segment, and cut off what lies just beyond."""
    reached, left = 0.0, 1.0
    for _ in range(N_HALVINGS):
        middle = 0.5 * (reached + left)
        if cuts.breach(inside.towards(outside, middle)).excess <= 0.0:
            reached = middle
        else:
            left = middle
    cuts.add(inside.towards(outside, left))
    return inside.towards(outside, reached)


class RandomizedUCB(ClassPolicy):
    """RandomizedUCB: mixture of policies with minimal estimated regret, under variance constraints on all estimates.

    With N actions, M policies, C_t = 2 ln(M t / δ) and m_t = min(1 / 2N, uniform_factor · sqrt(C_t / (2 N t))), round
    t draws from W'(x, a) = (1 − N m_t) Σ_π P(π) 1[π(x) = a] + m_t for the weights P that

        minimize Σ_π P(π) Δ(π)  such that for every mixture Q of policies
        Σ_π Q(π) mean_x 1 / W'(x, π(x)) ≤ max(4N, (t − 1) Δ(Q)² / (c C_{t−1})),

    with estimated regrets Δ, Δ(Q) = Σ_π Q(π) Δ(π), and c = `regret_factor` (180 in the proof). Policies with a large
    estimated regret may have a large variance. The mean over contexts is taken over the learned rounds, and t − 1
    counts these.

    The class is enumerated, and the program is solved by cutting planes to within `tolerance` of the minimal regret.
    The weights are always feasible when they are computed, even if the search stops at `most_steps`.

    This is practical for small classes. With 3 actions and 50 policies, a solve took 6 linear programs and 0.1 s after
    1024 rounds, 30 and 1 s after 4096; with 5 actions and 500 policies 50 and 5 to 10 s. Each step costs O(U M) for U
    distinct rounds (see `PickTable`). Solving in every one of 1000 rounds took 100 s with 20 policies; for 4000 rounds
    it would take half an hour. So by default the program is solved when 1, 2, 4, 8, … rounds are learned, and weights
    and mixing stay constant in between; `schedule="every"` is the published algorithm, for short runs.

    The c of the proof allows learning: 4N is a loose bound, so few policies besides the best are needed. With 3
    actions, 50 linear scorers and the m of the proof the mean reward of 4000 rounds was 0.65 in three runs, and 0.69 in
    the last 500, where the best policy had 0.75 and the average one 0.52; a smaller `regret_factor` changed nothing.
    With many actions that m is 1 / 2N for thousands of rounds, so `uniform_factor` has a practical default
    (docs/defaults.md).

    Contexts are i.i.d.; rewards lie in `reward_range`.

    Parameters
    ----------
    experts
        The class: experts that put all probability on one action.
    n_actions
        N, the largest number of actions of a round.
    failure_probability
        δ, the probability with which the regret bound may fail.
    regret_factor
        c above: smaller values rely more on the estimated regrets. "theory" is the 180 of the proof.
    uniform_factor
        Factor of m_t. "theory" is the 1 of the proof.
    schedule
        When to solve: "doubling", or "every" round.
    tolerance
        Largest allowed distance of the estimated regret from the minimum, with rewards scaled to [0, 1].
    most_steps
        Largest number of linear programs per solve.
    reward_range
        Range of rewards, which are scaled to [0, 1].
    seed
        Seed of the draws.

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

    regret_factor: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The regret factor", hint="The proof has 180; less learns faster."),
        default=180.0,
        theory=180.0,
    )
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.1, theory=1.0)
    schedule: Literal["doubling", "every"] = parameter(
        one_of("doubling", "every", message="Weights are found at 'doubling' rounds or at 'every' one"),
        default="doubling",
    )
    tolerance: float = parameter(partial(check_positive, name="The tolerance"), default=1e-3)
    most_steps: int = parameter(partial(check_int, name="The number of steps"), default=200)

    def _setup(self) -> None:
        super()._setup()
        self._found = ClassMixture(np.full(self.n_policies, 1.0 / self.n_policies), 0.5 / self.n_actions)
        self._gap, self._n_steps = 0.0, 0

    @property
    def gap(self) -> float:
        """Upper bound on the distance of the last solve from the minimal estimated regret."""
        return self._gap

    @property
    def n_steps(self) -> int:
        """Total number of linear programs solved."""
        return self._n_steps

    def program(self) -> VarianceProgram:
        """Return the program of the next round, given the learned data."""
        n_learned = self._table.n_rounds
        t = n_learned + 1
        rate = sqrt(self._confidence(t) / (2 * self.n_actions * t))
        mixing = min(0.5 / self.n_actions, self.uniform_factor * rate)  # m_t
        curvature = n_learned / (self.regret_factor * self._confidence(max(1, n_learned)))
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

    def _state(self) -> Parameters:
        solution = {"weights": self._found.weights.copy(), "mixing": self._found.mixing, "gap": self._gap}
        return {**super()._state(), **solution, "n_steps": self._n_steps}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        weights = saved_shares(state, "weights", self.n_policies)
        self._found = ClassMixture(weights.copy(), self._saved_mixing(state, "mixing"))
        self._gap, self._n_steps = saved_number(state, "gap"), saved_count(state, "n_steps")
