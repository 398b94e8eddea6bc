"""Pending points: chosen points without rewards reduce widths and do not change means."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits.errors import InvalidContexts
from kernelbandits.posterior._chunks import ENTRIES_AT_ONCE, blocks
from kernelbandits.posterior.cholesky import cholesky, solve_lower, solve_lower_transposed
from kernelbandits.types import Matrix, Points, Prediction, Vector

if TYPE_CHECKING:
    from kernelbandits.posterior.base import Posterior

__all__ = ["Pending", "Placed"]


LEAST: Final = 1e-300
"""Smallest information that a point is taken to have: its inverse is finite."""


class Pending:
    """Effect of points without rewards on widths and on the log-determinant.

    With S the observed data, P the distinct pending points, N = diag(n) the number of times each is pending (times its
    `information`, which is 1 for rewards with Gaussian noise) and c the
    posterior covariance given S (divided by γ), a Schur complement gives the widths over S and P together:

        width²(x) = width²_S(x) − c(x, P) N^½ (N^½ c(P, P) N^½ + I)⁻¹ N^½ c(P, x)

    No reward is imputed for P. A confidence statement about the mean then needs its exploration multiplied by
    `inflation` = sqrt(1 + Σ_P n · width²_S), because the mean does not include P yet. Memory and time depend on the
    number of distinct points, not on how often they are pending.
    """

    def __init__(self, posterior: Posterior, points: Points, counts: Vector | None = None) -> None:
        self._posterior = posterior
        self._points = posterior.kernel.kind.check(points)
        self._references = posterior._references(self._points)
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = self._references.covariance()
        if not np.isfinite(covariance).all():
            raise InvalidContexts("The similarities of these contexts overflow. Check their scale.")
        self._roots: Vector = np.sqrt((1.0 if counts is None else counts) * posterior.information(self._points))
        scaled = covariance * self._roots * self._roots[:, None]
        self.inflation = float(np.sqrt(1.0 + np.maximum(np.diagonal(scaled), 0.0).sum()))
        with limit_blas_threads(float(len(scaled)) ** 3):
            self._factor = _factor_beside_identity(scaled)
        self.log_det_gain = 2.0 * float(np.log(np.diagonal(self._factor)).sum())
        """ln det(I + N^½ c(P, P) N^½): the contribution of the pending points to the posterior's own."""

    def _whitened(self, points: Points) -> Matrix:
        """One column per point: its squared length is the part of width² that the pending points explain."""
        return self._solved(self._references.covariance_with(points))

    def _solved(self, covariance: Matrix) -> Matrix:
        """The same, from the covariance of the pending points with the others."""
        whitened = np.ascontiguousarray(self._roots[:, None] * covariance)
        with limit_blas_threads(float(len(self._factor)) * whitened.size):
            solve_lower(self._factor, whitened)
        return whitened

    def explained(self, points: Points) -> tuple[Points, Matrix]:
        """Pending points p, and weights u with width²(x) = width²_S(x) − Σ u_p c(x, p): one row per point x.

        Half the gradient of width² is that of c(x, z) − Σ u_p c(x, p) at z = x, with u fixed.
        """
        weights = self._whitened(points)
        solve_lower_transposed(self._factor, weights)
        return self._points, np.asarray((self._roots[:, None] * weights).T)

    def covariance(self, points: Points, others: Points) -> Matrix:
        """Posterior covariance divided by γ, including the pending points."""
        observed = self._posterior.covariance(points, others)
        left, right = self._whitened(points), self._whitened(others)
        with limit_blas_threads(float(left.size) * right.shape[1]):
            return observed - left.T @ right

    def estimate(self, points: Points) -> Prediction:
        """Means from observed data, and widths from observed and pending data."""
        if self._posterior.kernel.kind.count(points) * self._n_known > ENTRIES_AT_ONCE:
            return self.narrowed(points, self._posterior._estimate(points))
        prediction, covariance = self._references.estimate(points)
        whitened = self._solved(covariance)
        reduced = prediction.width**2 - np.einsum("pn,pn->n", whitened, whitened)
        return replace(prediction, width=np.sqrt(np.maximum(reduced, 0.0)))

    def narrowed(self, points: Points, prediction: Prediction) -> Prediction:
        """Prediction from observed data, with widths reduced by the pending points."""
        reduced = prediction.width**2
        for block, part in blocks(self._posterior.kernel.kind, points, self._n_known):
            whitened = self._whitened(part)
            reduced[block] -= np.einsum("pn,pn->n", whitened, whitened)
        return replace(prediction, width=np.sqrt(np.maximum(reduced, 0.0)))

    @property
    def _n_known(self) -> int:
        return self._posterior.size + len(self._factor)


def _factor_beside_identity(covariance: Matrix) -> Matrix:
    """Cholesky factor of C + I; if rounding has made C indefinite, of the nearest PSD C."""
    identity = np.eye(len(covariance))
    try:
        return cholesky(covariance + identity)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
        rounding = 4.0 * len(values) * np.finfo(np.float64).eps * np.abs(values).max()
        return cholesky((vectors * np.maximum(values, rounding)) @ vectors.T + identity)


class Placed:
    """Widths of a round's points as they become pending one after another: one rank-one update each.

    With c the covariance of all points and x given all observed, pending and previously placed points,

        width² −= c² / (1 + width²(x)).
    """

    def __init__(self, posterior: Posterior, points: Points, prediction: Prediction, waiting: Pending | None) -> None:
        self._posterior, self._points, self._waiting = posterior, points, waiting
        self._settled_squares = posterior._estimate(points).width ** 2 if waiting else prediction.width**2
        self.squares: Vector = prediction.width**2
        self._columns: list[Vector] = []
        self._scales: list[float] = []
        self._inflation_squared = waiting.inflation**2 if waiting else 1.0
        self.log_det_gain = waiting.log_det_gain if waiting else 0.0
        """As in `Pending`, for the pending and placed points."""

    @property
    def inflation(self) -> float:
        """See `Pending`."""
        return sqrt(self._inflation_squared)

    def place(self, row: int) -> None:
        """Add one point to the pending ones."""
        point = self._posterior.kernel.kind.take(self._points, np.array([row]))
        column = (self._waiting or self._posterior).covariance(point, self._points)[0]
        for earlier, scale in zip(self._columns, self._scales, strict=True):
            column = column - earlier * (earlier[row] / scale)
        information = max(float(self._posterior.information(point)[0]), LEAST)
        scale = 1.0 / information + float(self.squares[row])
        self._columns.append(column)
        self._scales.append(scale)
        self.squares = np.maximum(self.squares - column**2 / scale, 0.0)
        self.log_det_gain += log(information * scale)
        self._inflation_squared += information * float(self._settled_squares[row])
