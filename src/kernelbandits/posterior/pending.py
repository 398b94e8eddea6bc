"""Points that were played and whose rewards are awaited: they shrink widths and leave means alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits.posterior.cholesky import cholesky, solve_lower
from kernelbandits.types import Points, Vector

if TYPE_CHECKING:
    from kernelbandits.posterior.base import Posterior

__all__ = ["Pending"]

ENTRIES_AT_ONCE: Final = 8_000_000
"""Similarities held at a time: 64 MB."""


class Pending:
    """The effect of points without rewards on widths and on the log-determinant.

    With S the settled data, P the pending points and c the posterior covariance given S (divided by γ), a Schur
    complement gives the widths over S and P together:

        width²(x) = width²_S(x) − c(x, P) (c(P, P) + I)⁻¹ c(P, x)

    No reward is invented for P. A confidence statement about the mean then needs its exploration multiplied by
    `inflation` = sqrt(1 + Σ_P width²_S), because the mean does not know P yet.
    """

    def __init__(self, posterior: Posterior, points: Points) -> None:
        self._posterior = posterior
        self._points = posterior.kernel.kind.check(points)
        covariance = posterior.covariance(self._points)
        self._factor = cholesky(covariance + np.eye(len(covariance)))
        self.inflation = float(np.sqrt(1.0 + np.trace(covariance)))
        self.log_det_gain = 2.0 * float(np.log(np.diagonal(self._factor)).sum())
        """ln det(I + c(P, P)): what the pending points add to the posterior's own."""

    def reduce(self, points: Points, squared_width: Vector) -> Vector:
        """Squared widths at the points once the pending ones count too."""
        kind, n_points = self._posterior.kernel.kind, len(squared_width)
        step = max(1, ENTRIES_AT_ONCE // (self._posterior.size + len(self._factor)))
        reduced = np.empty(n_points)
        for start in range(0, n_points, step):
            rows = np.arange(start, min(n_points, start + step))
            part = points if len(rows) == n_points else kind.take(points, rows)
            whitened = np.ascontiguousarray(self._posterior.covariance(self._points, part))
            solve_lower(self._factor, whitened)
            reduced[rows] = squared_width[rows] - np.einsum("pn,pn->n", whitened, whitened)
        return np.maximum(reduced, 0.0)
