"""Solving the program of RandomizedUCB by a sequence of linear programs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kernelbandits.policies.experts.variance_program import Breach, VarianceProgram
from kernelbandits.types import Matrix, Vector

__all__ = ["Solution", "least_regret"]

N_HALVINGS: Final = 14
"""How often the way from the inner point to an optimum of a linear program is halved to find where it leaves."""


class Solution(NamedTuple):
    """Weights that meet the constraint, and how good they are."""

    weights: Vector
    regret: float
    """Their estimated regret, Σ P(π) Δ_π."""

    bound: float
    """No weights that meet the constraint have less."""

    n_steps: int
    """Linear programs solved."""


def least_regret(program: VarianceProgram, inner: Vector, *, tolerance: float, most_steps: int) -> Solution:
    """Weights whose estimated regret is within `tolerance` of the least, by cutting planes.

    Every step minimises the regret under the cuts so far, which gives a bound from below; walks from the inner point
    towards the minimiser as far as the constraint allows, which gives weights that meet it; and adds two cuts, the
    tangents of the constraint of the worst mixture at the minimiser and at the point where the walk ended. The weights
    returned meet the constraint also where `most_steps` cut the search short.

    Parameters
    ----------
    program
        What to solve.
    inner
        Weights that meet the constraint with room to spare.
    tolerance
        How far the regret may be from the least.
    most_steps
        Linear programs to solve at most.
    """
    cuts = _Cuts(program)
    inside = _Point(inner, program.table.shares(inner))
    best, bound, n_steps = inside, 0.0, 0
    while program.regret(best.weights) - bound > tolerance and n_steps < most_steps:
        n_steps += 1
        weights = cuts.minimiser()
        if weights is None:  # the cuts have become too fine for the linear solver
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
    """Weights, and the shares of the actions that follow: both are linear."""

    weights: Vector
    shares: Matrix

    def towards(self, other: _Point, fraction: float) -> _Point:
        """So much of the way to another point."""
        return _Point(
            (1.0 - fraction) * self.weights + fraction * other.weights,
            (1.0 - fraction) * self.shares + fraction * other.shares,
        )


class _Cuts:
    """Half-spaces normal · P ≤ offset that hold all weights which meet the constraint."""

    def __init__(self, program: VarianceProgram) -> None:
        self._program = program
        self._normals: list[Vector] = []
        self._offsets: list[float] = []

    def breach(self, point: _Point) -> Breach:
        """The worst mixture at a point."""
        return self._program.breach(self._program.table.variances(self._odds(point)))

    def add(self, point: _Point) -> Breach:
        """Cut off what the worst mixture at a point rules out: excess + gradient · (P − point) ≤ 0."""
        program, odds = self._program, self._odds(point)
        breach = program.breach(program.table.variances(odds))
        kept = program.table.kept(program.mixing)[:, None]
        gradient = -program.table.mean_at_picks(kept * program.table.shares(breach.mixture) / odds**2)
        scale = float(np.abs(gradient).max())
        self._normals.append(gradient / scale)
        self._offsets.append(float(gradient @ point.weights - breach.excess) / scale)
        return breach

    def minimiser(self) -> Vector | None:
        """The weights of least regret that no cut rules out; None where the solver finds none."""
        from scipy.optimize import linprog  # SciPy only where it is needed

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

    def _odds(self, point: _Point) -> Matrix:
        odds: Matrix = self._program.table.kept(self._program.mixing)[:, None] * point.shares + self._program.mixing
        return odds


def _walk(inside: _Point, outside: _Point, cuts: _Cuts) -> _Point:
    """The last point on the way out that meets the constraint; what lies just beyond is cut off."""
    reached, left = 0.0, 1.0
    for _ in range(N_HALVINGS):
        middle = 0.5 * (reached + left)
        if cuts.breach(inside.towards(outside, middle)).excess <= 0.0:
            reached = middle
        else:
            left = middle
    cuts.add(inside.towards(outside, left))
    return inside.towards(outside, reached)
