"""Dual weights that may be some rounds old, and bounds on the change of the means since."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.exact import Whitening
from kernelbandits.selection.screening_loops import screening_loops
from kernelbandits.types import Vector

__all__ = ["DualWeights"]

OLDEST: Final = 64
"""Observations after which the weights are recomputed in any case: the cost of the bound grows with their square."""

STALE: Final = 1.1
"""Bound factor F of old weights, in units of β, from which new weights are cheaper than the additional candidates."""

EPSILON: Final = float(np.finfo(np.float64).eps)


class DualWeights:
    """Dual weights α = D^½ L⁻ᵀ z of the first s points, mean_s(x) = Σ α_j k(x, z_j), and bounds for later points.

    Computing α reads the whole factor, so it is not done every round. With the factor's rows B of the points after s,
    w = L⁻¹ D^½ k(x) and v_s = k(x, x) − Σ_{i < s} w_i²,

        mean_t − mean_s = Σ_B w_i z_i,    v_s − v_t = Σ_B w_i²,    H = Σ_B z_i²

    so by Cauchy–Schwarz mean_t + β √v_t ≤ mean_s + √v_s · √(β² + H). Also, w_B = L_BB⁻¹ c for the posterior
    covariances c of x with B, hence mean_t − mean_s = cᵀb with b = L_BB⁻ᵀ z_B, which is at most √v_s · D with

        D² = bᵀ (L_BB L_BBᵀ − γI) b = H − γ‖b‖².
    """

    def __init__(self) -> None:
        self.size = 0
        """s: the number of slots that the weights cover."""
        self.weights: Vector = np.zeros(0)
        self.shares: Vector = np.zeros(0)
        """n/(n k(z, z) + γ): share · k(x, z)² is the part of k(x, x) that one point alone explains."""
        self.total = 0.0
        """Σ |α|."""
        self.rounding = 0.0
        """Bound on the effect of rounding in α on a mean, divided by sqrt(k(x, x))."""
        self.drift = 0.0
        """D: a mean has changed by at most this times √v_s."""
        self.reach = 0.0
        """F: no score exceeds mean_s + F √v_s."""
        self._factor: GrowingCholesky | None = None
        self._era = 0

    def follow(
        self, posterior: ExactPosterior, whitening: Whitening, table: NDArray[np.int64], exploration: float
    ) -> None:
        """Synchronize with the current factor; recompute the weights if their bound has become too loose."""
        regularization = posterior.regularization
        self._spread = posterior.trace / regularization
        beta = exploration / sqrt(regularization)  # score = mean + β √v, with v in units of the kernel
        if whitening.factor is not self._factor or posterior.era != self._era:
            self._renew(whitening, table, posterior.record.counts, regularization)
        elif whitening.factor.size > self.size:
            self._measure(whitening, table, regularization, beta)
            if self.reach <= STALE * beta and whitening.factor.size <= self.size + OLDEST:
                return
            self._renew(whitening, table, posterior.record.counts, regularization)
        self._era = posterior.era
        self.drift, self.reach = 0.0, beta

    def _measure(self, whitening: Whitening, table: NDArray[np.int64], regularization: float, beta: float) -> None:
        new = whitening.targets[self.size :]
        innovation = float(new @ new)  # H
        squared = screening_loops.trailing(table, self.size, new)
        # The difference cancels when D is small; a bound on its rounding error is added: a substitution with |B| rows
        # has an error of |B| ε cond(L_BB), and cond² ≤ |B| + tr K / γ.
        loss = 1e-12 + 4.0 * len(new) * EPSILON * sqrt(len(new) + self._spread)
        self.drift = sqrt(max(0.0, innovation - regularization * squared) + loss * innovation)
        self.reach = min(beta + self.drift, sqrt(beta * beta + innovation) * (1.0 + 1e-12))

    def _renew(self, whitening: Whitening, table: NDArray[np.int64], counts: Vector, regularization: float) -> None:
        factor, targets, diagonal = whitening
        size = factor.size
        solved = targets.copy()
        screening_loops.back(table, solved)
        # (L + E)ᵀ u = z with |E| ≤ s ε |L|, so wᵀz has an error of at most s ε ‖w‖ ‖L‖ ‖u‖, and ‖L‖² ≤ tr M; the same
        # again for the substitution that gives w.
        trace = float(counts @ diagonal) + size * regularization
        self.rounding = 2.0 * EPSILON * (size + 16) * sqrt(trace * float(solved @ solved))
        self.weights = np.sqrt(counts) * solved
        self.shares = counts / (counts * diagonal + regularization)
        self.total = float(np.abs(self.weights).sum())
        self.size, self._factor = size, factor
