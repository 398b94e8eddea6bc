"""Dual weights that may be some rounds old, and how far the means can have moved since."""

from __future__ import annotations

from math import inf, sqrt
from typing import Final

import numpy as np

from kernelbandits.posterior.cholesky import GrowingCholesky, solve_lower_transposed
from kernelbandits.posterior.threads import few_threads
from kernelbandits.types import Vector

__all__ = ["DualWeights"]

OLDEST: Final = 64
"""Observations after which the weights are computed anew in any case: the bound below costs the cube of their number."""


class DualWeights:
    """α = D^½ L⁻ᵀ z of the first s points, mean_s(x) = Σ α_j k(x, z_j), and bounds for what came after.

    A new α reads the whole factor, so it is not computed every round. With the factor's rows B of the points after s,
    w = L⁻¹ D^½ k(x) and v_s = k(x, x) − Σ_{i < s} w_i²,

        mean_t − mean_s = Σ_B w_i z_i,    v_s − v_t = Σ_B w_i²,    H = Σ_B z_i²

    so by Cauchy and Schwarz mean_t + β √v_t ≤ mean_s + √v_s · √(β² + H). Also, w_B = L_BB⁻¹ c for the posterior
    covariances c of x with B, hence mean_t − mean_s = cᵀb with b = L_BB⁻ᵀ z_B, which is at most √v_s · D with

        D² = bᵀ (L_BB L_BBᵀ − γI) b = H − γ‖b‖².
    """

    def __init__(self) -> None:
        self.size = 0
        """s: the weights are those of the first so many slots."""
        self.weights: Vector = np.zeros(0)
        self.shares: Vector = np.zeros(0)
        """n/(n k(z, z) + γ): share · k(x, z)² is what one point alone explains of k(x, x)."""
        self.total = 0.0
        """Σ |α|."""
        self.rounding = 0.0
        """What rounding in α can change in a mean, divided by sqrt(k(x, x))."""
        self.drift = 0.0
        """D: a mean has moved by at most this times √v_s."""
        self.reach = 0.0
        """F: no score is above mean_s + F √v_s."""
        self._factor: GrowingCholesky | None = None
        self._targets: Vector = np.zeros(0)
        self._counts: Vector = np.zeros(0)

    def follow(
        self,
        factor: GrowingCholesky,
        targets: Vector,
        counts: Vector,
        diagonal: Vector,
        regularisation: float,
        exploration: float,
        tolerance: float,
    ) -> None:
        """Be of use for the factor as it is; anew where the reach would be more than `tolerance` times β.

        β is exploration/√γ: with v in units of the kernel, score = mean + β √v.
        """
        beta = exploration / sqrt(regularisation)
        if self._is_beginning_of(factor, targets, counts):
            self._measure(factor, targets, regularisation, beta)
        else:
            self.reach = inf
        if not self.reach <= tolerance * beta:
            self._renew(factor, targets, counts, diagonal, regularisation)
            self.drift, self.reach = 0.0, beta

    def _is_beginning_of(self, factor: GrowingCholesky, targets: Vector, counts: Vector) -> bool:
        """Whether nothing but new points has come since."""
        s = self.size
        return (
            factor is self._factor
            and s <= factor.size <= s + OLDEST
            and np.array_equal(counts[:s], self._counts)
            and np.array_equal(targets[:s], self._targets)
        )

    def _measure(self, factor: GrowingCholesky, targets: Vector, regularisation: float, beta: float) -> None:
        if factor.size == self.size:
            self.drift, self.reach = 0.0, beta
            return
        new = targets[self.size :]
        innovation = float(new @ new)  # H
        solved = new[:, None].copy()
        solve_lower_transposed(factor.trailing(self.size), solved)
        # The difference cancels when D is small; what rounding can take from it is added.
        squared = max(0.0, innovation - regularisation * float(np.vdot(solved, solved))) + 1e-12 * innovation
        self.drift = sqrt(squared)
        self.reach = min(beta + self.drift, sqrt(beta * beta + innovation) * (1.0 + 1e-12))

    def _renew(
        self, factor: GrowingCholesky, targets: Vector, counts: Vector, diagonal: Vector, regularisation: float
    ) -> None:
        size = factor.size
        with few_threads(float(size) ** 2):
            solved = factor.solve_transposed(targets[:, None].copy())[:, 0]
        # (L + E)ᵀ u = z with |E| ≤ s ε |L|, so w'u is off by at most s ε ‖w‖ ‖L‖ ‖u‖, and ‖L‖² ≤ tr M.
        trace = float(counts @ diagonal) + size * regularisation
        self.rounding = np.finfo(float).eps * (size + 16) * sqrt(trace * float(solved @ solved))
        self.weights = np.sqrt(counts) * solved
        self.shares = counts / (counts * diagonal + regularisation)
        self.total = float(np.abs(self.weights).sum())
        self.size, self._factor = size, factor
        self._targets, self._counts = targets.copy(), counts.copy()
