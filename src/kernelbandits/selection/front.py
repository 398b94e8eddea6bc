"""The actions that can win soon, kept exactly, while one number bounds all others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import inf, sqrt
from typing import Final

import numpy as np

from kernelbandits.selection.columns import REACH, SPREAD, UPDATES, ColumnLog
from kernelbandits.selection.loops import loops
from kernelbandits.selection.shapes import part_of
from kernelbandits.selection.ties import worst_tied
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["Front"]

GRID: Final = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.25, 4.0])
"""Shares of the expected reach at which the bound on the rest is computed. It is convex in F, being the highest of many
lines, so that in between the chord bounds it."""

ALLOWANCE: Final = 1e-9
"""Relative allowance for rounding in the reach: a small, well-conditioned system is solved for it."""

FRONT_SLACK: Final = 1e-9
"""Share of a score by which the bound on the rest has to lie below the best: far above its rounding error."""


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

    A pull with gain g = (s − n μ(x))/d, d = n v(x) + γ, raises D by at most sqrt(v(x)) |g| (the same inequality at the
    time of the pull, where variances are smaller than at s) and H by at most g² d/n (the innovation; rewards of one
    point that scatter about their mean lower it). These sums, which the log keeps, are looked at first; D and H are
    computed where they do not suffice.
    """

    def __init__(
        self,
        base: ColumnLog,
        n_items: int,
        size: int,
        beta: float,
        reach: float,
        gram: Callable[[int, Indices], Vector],
        memory: Matrix | None = None,
    ) -> None:
        self._base, self._gram = base, gram
        mean = base.mean[:n_items].copy()
        roots = np.sqrt(np.maximum(base.variance[:n_items], 0.0))
        bounds = roots * sqrt(beta * beta + reach)
        bounds += mean
        self.rows: Indices = np.sort(np.argpartition(bounds, n_items - size)[n_items - size :])
        self.log = part_of(base, self.rows, self.places_of(base.places), memory)
        self.points: Points = None  # of the rows, for similarities
        roots[self.rows], mean[self.rows] = 0.0, -inf
        factors, highest = np.sqrt(beta * beta + reach * GRID), np.empty(len(GRID))
        loops.rest(mean, roots, factors, highest)
        self._factors: list[float] = factors.tolist()
        self._highest: list[float] = highest.tolist()
        self._start_mean = self.log.mean.copy()
        self._members: list[int] = []  # slots observed since s, in the order of P
        self._covariance: Matrix = np.zeros((16, 16))

    @property
    def n_pulls(self) -> int:
        """Pulls since s."""
        return int(self.log.state[UPDATES])

    @property
    def reach(self) -> float:
        """A bound on H, so far as it has been looked at."""
        return self.log.state.item(REACH)

    def place(self, position: int) -> int:
        """Where an action stands in the front; −1 where it does not."""
        place = int(np.searchsorted(self.rows, position))
        return place if place < len(self.rows) and self.rows[place] == position else -1

    def places_of(self, positions: Indices) -> Indices:
        """Likewise for many."""
        places = np.minimum(np.searchsorted(self.rows, positions), len(self.rows) - 1)
        return np.where(self.rows[places] == positions, places, -1)

    def holds_best(self, beta: float, best: float) -> bool:
        """Whether no score of the rest comes near this one, the best of the front."""
        bar = worst_tied(best) - FRONT_SLACK * max(1.0, abs(best))
        return self.rest(self.factor_by_sums(beta)) < bar or self.rest(self.factor(beta)) < bar

    def rest(self, factor: float) -> float:
        """Bound on max μ_s + sqrt(v_s) · factor over all other actions."""
        place = bisect_right(self._factors, factor)
        if place == len(self._factors):
            return inf
        if place == 0:
            return self._highest[0]
        low, high = self._factors[place - 1], self._factors[place]
        share = (factor - low) / (high - low)
        return (1.0 - share) * self._highest[place - 1] + share * self._highest[place]

    def factor_by_sums(self, beta: float) -> float:
        """A bound on F, at no cost."""
        state = self.log.state
        return min(beta + state.item(SPREAD), sqrt(beta * beta + state.item(REACH)))

    def factor(self, beta: float) -> float:
        """F, from D and H: no score of the rest exceeds max μ_s + sqrt(v_s) · F."""
        log, base, n_slots = self.log, self._base, self._base.n_slots
        more = log.taken[0, :n_slots] - base.taken[0, :n_slots]
        for slot in np.flatnonzero(more).tolist():
            if slot not in self._members:
                self._join(slot)
        members = self._members
        size = len(members)
        if not size:
            return beta
        counts = more[members]
        covariance = self._covariance[:size, :size]
        gap = (log.taken[1, members] - base.taken[1, members]) / counts - self._start_mean[log.slots[0, members]]
        system = covariance.copy()
        system[np.diag_indices(size)] += log.regularisation / counts
        weights = np.linalg.solve(system, gap)
        reach = max(0.0, float(gap @ weights)) * (1.0 + ALLOWANCE) + ALLOWANCE**2
        spread = sqrt(max(0.0, float(weights @ covariance @ weights)) * (1.0 + ALLOWANCE) + ALLOWANCE * reach)
        log.state[REACH], log.state[SPREAD] = reach, spread
        return min(beta + spread, sqrt(beta * beta + reach))

    def _join(self, slot: int) -> None:
        """Another point in B, with its covariances at s."""
        size, log = len(self._members), self.log
        self._members.append(slot)
        if size == len(self._covariance):
            self._covariance = np.pad(self._covariance, (0, size))
        known = self._base.slots.item(1, slot)
        places = log.slots[0, self._members]
        similarities = self._gram(slot, np.array(self._members)) if known < 0 else None
        row = log.covariances_at(int(places[-1]), places, known, similarities)
        self._covariance[size, : size + 1] = self._covariance[: size + 1, size] = row
