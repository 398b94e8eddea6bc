"""Points that were played and whose rewards are awaited: they shrink widths and leave means alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelbandits.posterior.blocks import blocks
from kernelbandits.posterior.cholesky import cholesky, solve_lower
from kernelbandits.types import Points, Vector

if TYPE_CHECKING:
    from kernelbandits.posterior.base import Posterior

__all__ = ["Pending"]


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
        reduced = np.empty(len(squared_width))
        n_known = self._posterior.size + len(self._factor)
        for block, part in blocks(self._posterior.kernel.kind, points, n_known):
            whitened = np.ascontiguousarray(self._posterior.covariance(self._points, part))
            solve_lower(self._factor, whitened)
            reduced[block] = squared_width[block] - np.einsum("pn,pn->n", whitened, whitened)
        return np.maximum(reduced, 0.0)
