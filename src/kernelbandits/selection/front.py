"""The actions that can win soon, kept exactly, while one number bounds all others."""

from __future__ import annotations

from math import inf, sqrt
from typing import Final

import numpy as np

from kernelbandits.selection.columns import ColumnLog, Pull, Similarities
from kernelbandits.selection.loops import loops
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["Front"]

GRID: Final = np.array([0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.25, 4.0])
"""Shares of the expected reach at which the bound on the rest is computed; in between the next one up is taken."""

ALLOWANCE: Final = 1e-9
"""Relative allowance for rounding in the reach: a small, well-conditioned system is solved for it."""


class Front:
    """Some actions with their exact means and variances, and a bound on the scores of all others.

    When it is made, at time s, all actions are exact. Let B be the points observed since, with counts n, mean rewards
    y, covariance P at s, δ = y − μ_s(B), S = P + γ diag(1/n), u = S⁻¹ δ. For any action a, with V(a) the covariances of
    a with B at s,

        μ_t(a) = μ_s(a) + V(a)ᵀ u,      v_t(a) = v_s(a) − V(a)ᵀ S⁻¹ V(a),

    and by Cauchy–Schwarz, in the posterior covariance at s for the first and in S⁻¹ for the second,

        |V(a)ᵀ u| ≤ sqrt(v_s(a)) · D,                        D² = uᵀ P u,
        μ_t(a) + β sqrt(v_t(a)) ≤ μ_s(a) + sqrt(v_s(a)) · sqrt(β² + H),      H = δᵀ S⁻¹ δ.

    (For the second write V = S^½ w: wᵀ(S^-½ δ) + β sqrt(v_s − wᵀw) ≤ sqrt(v_s) sqrt(H + β²).) So no score of the rest
    exceeds max_a μ_s(a) + sqrt(v_s(a)) F with F = min(β + D, sqrt(β² + H)), a function of F that is known on a grid. As
    long as it lies below the best of the front, nothing else has to be looked at.
    """

    def __init__(
        self, log: ColumnLog, n_items: int, size: int, beta: float, reach: float, memory: Matrix | None = None
    ) -> None:
        self._gamma = log.regularisation
        roots = np.sqrt(np.maximum(log.variance[:n_items], 0.0))
        bounds = roots * sqrt(beta * beta + reach) + log.mean[:n_items]
        self.rows: Indices = np.sort(np.argpartition(bounds, n_items - size)[n_items - size :])
        self.log = log.part(self.rows, memory)
        self.log.sealed = log.n_runs  # what was known at s stays as it was
        self._factors = np.sqrt(beta * beta + reach * GRID)
        self._rest = np.empty(len(GRID))
        roots[self.rows] = 0.0
        outside = log.mean[:n_items].copy()
        outside[self.rows] = -inf
        for place, factor in enumerate(self._factors):
            np.multiply(roots, factor, out=bounds)
            bounds += outside
            self._rest[place] = bounds.max()
        self.points: Points = None  # of the rows, for similarities
        self._start_mean = self.log.mean.copy()
        self._members: dict[int, int] = {}  # slots observed since s, in the order of P
        self._places: list[int] = []
        self._counts: list[float] = []
        self._totals: list[float] = []
        self._covariance: Matrix = np.zeros((16, 16))
        self.n_pulls = 0
        self.reach = 0.0
        self._tied: Indices = np.zeros(64, dtype=np.int64)

    def place(self, position: int) -> int:
        """Where an action stands in the front; −1 where it does not."""
        place = int(np.searchsorted(self.rows, position))
        return place if place < len(self.rows) and self.rows[place] == position else -1

    def pull(self, pull: Pull, similarities: Similarities) -> None:
        """Take in observations of a point; the pull's position is its place in the front."""
        member = self._members.get(pull.slot)
        self.n_pulls += 1
        if member is not None:
            self._counts[member] += pull.times
            self._totals[member] += pull.total
            self.log.pull(pull, similarities)
            return
        known = self.log.last_run.get(pull.slot, -1)
        if known >= 0:
            self._join(pull, known, None)
            self.log.pull(pull, similarities)
            return
        column = np.empty((1, self.log.size))
        similarities([pull], column)
        self._join(pull, known, column[0])
        self.log.pull(pull, lambda _, out: np.copyto(out, column))

    def _join(self, pull: Pull, known: int, column: Vector | None) -> None:
        """Another point in B, with its covariances at s."""
        size = len(self._places)
        self._members[pull.slot] = size
        self._places.append(pull.position)
        self._counts.append(pull.times)
        self._totals.append(pull.total)
        if size == len(self._covariance):
            larger = np.zeros((2 * size, 2 * size))
            larger[:size, :size] = self._covariance
            self._covariance = larger
        row = self.log.covariances_at(pull.position, np.array(self._places), known, column)
        self._covariance[size, : size + 1] = self._covariance[: size + 1, size] = row

    def factor(self, beta: float) -> float:
        """F: no score of the rest exceeds max μ_s + sqrt(v_s) · F."""
        size = len(self._places)
        if not size:
            return beta
        counts = np.array(self._counts)
        covariance = self._covariance[:size, :size]
        gap = np.array(self._totals) / counts - self._start_mean[self._places]
        system = covariance.copy()
        system[np.diag_indices(size)] += self._gamma / counts
        weights = np.linalg.solve(system, gap)
        self.reach = max(0.0, float(gap @ weights)) * (1.0 + ALLOWANCE) + ALLOWANCE**2
        spread = max(0.0, float(weights @ covariance @ weights)) * (1.0 + ALLOWANCE) + ALLOWANCE * self.reach
        return min(beta + sqrt(spread), sqrt(beta * beta + self.reach))

    def rest(self, factor: float) -> float:
        """Bound on the scores of all other actions."""
        place = int(np.searchsorted(self._factors, factor))
        return float(self._rest[place]) if place < len(self._rest) else inf

    def best(self, beta: float) -> tuple[Indices, float] | None:
        """Rows tied for the best of the front, and the score; None where they are too many to list."""
        log = self.log
        log.hits[:] = 1
        best, n_tied = loops.best(log.mean, log.variance, beta, log.size, log.hits, self._tied)
        return None if n_tied > len(self._tied) else (self.rows[self._tied[:n_tied]], float(best))
