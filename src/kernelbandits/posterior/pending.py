"""Points that were played and whose rewards are awaited: they shrink widths and leave means alone."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from kernelbandits._threads import few_threads
from kernelbandits.errors import InvalidContexts
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.cholesky import cholesky, solve_lower
from kernelbandits.types import Matrix, Points, Prediction, Vector

if TYPE_CHECKING:
    from kernelbandits.posterior.base import Posterior

__all__ = ["Pending", "Placed"]


class Pending:
    """The effect of points without rewards on widths and on the log-determinant.

    With S the settled data, P the distinct pending points, N = diag(n) how often each is pending and c the posterior
    covariance given S (divided by γ), a Schur complement gives the widths over S and P together:

        width²(x) = width²_S(x) − c(x, P) N^½ (N^½ c(P, P) N^½ + I)⁻¹ N^½ c(P, x)

    No reward is invented for P. A confidence statement about the mean then needs its exploration multiplied by
    `inflation` = sqrt(1 + Σ_P n · width²_S), because the mean does not know P yet. Memory and time are those of the
    distinct points, however often they are pending.
    """

    def __init__(self, posterior: Posterior, points: Points, counts: Vector | None = None) -> None:
        self._posterior = posterior
        self._points = posterior.kernel.kind.check(points)
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = posterior.covariance(self._points)
        if not np.isfinite(covariance).all():
            raise InvalidContexts("The similarities of these contexts overflow. Check their scale.")
        self._roots: Vector = np.ones(len(covariance)) if counts is None else np.sqrt(counts)
        scaled = covariance * self._roots * self._roots[:, None]
        self.inflation = float(np.sqrt(1.0 + np.maximum(np.diagonal(scaled), 0.0).sum()))
        with few_threads(float(len(scaled)) ** 3):
            self._factor = _factor_beside_identity(scaled)
        self.log_det_gain = 2.0 * float(np.log(np.diagonal(self._factor)).sum())
        """ln det(I + N^½ c(P, P) N^½): what the pending points add to the posterior's own."""

    def _whitened(self, points: Points) -> Matrix:
        """One column per point: the squared length is what the pending points explain of width²."""
        whitened = np.ascontiguousarray(self._roots[:, None] * self._posterior.covariance(self._points, points))
        with few_threads(float(len(self._factor)) * whitened.size):
            solve_lower(self._factor, whitened)
        return whitened

    def covariance(self, points: Points, others: Points) -> Matrix:
        """Posterior covariance divided by γ once the pending points count too."""
        settled = self._posterior.covariance(points, others)
        left, right = self._whitened(points), self._whitened(others)
        with few_threads(float(left.size) * right.shape[1]):
            return settled - left.T @ right

    def narrowed(self, points: Points, prediction: Prediction) -> Prediction:
        """What is predicted at the points from settled data, with widths in which the pending ones count too."""
        squared_width = prediction.width**2
        reduced = np.empty(len(squared_width))
        n_known = self._posterior.size + len(self._factor)
        for block, part in blocks(self._posterior.kernel.kind, points, n_known):
            whitened = self._whitened(part)
            reduced[block] = squared_width[block] - np.einsum("pn,pn->n", whitened, whitened)
        return Prediction(prediction.mean, np.sqrt(np.maximum(reduced, 0.0)))


def _factor_beside_identity(covariance: Matrix) -> Matrix:
    """Cholesky factor of C + I; where rounding has made C indefinite, of the nearest C that is not."""
    identity = np.eye(len(covariance))
    try:
        return cholesky(covariance + identity)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
        rounding = 4.0 * len(values) * np.finfo(np.float64).eps * np.abs(values).max()
        return cholesky((vectors * np.maximum(values, rounding)) @ vectors.T + identity)


class Placed:
    """Widths of a round's points as one after another of them is awaited: a rank-one change each.

    With c the covariance of all points and x given what is settled, pending and placed before,

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
        """As in `Pending`, of what is awaited and placed."""

    @property
    def inflation(self) -> float:
        """As in `Pending`."""
        return sqrt(self._inflation_squared)

    def place(self, row: int) -> None:
        """Await one more."""
        point = self._posterior.kernel.kind.take(self._points, np.array([row]))
        column = (self._waiting or self._posterior).covariance(point, self._points)[0]
        for earlier, scale in zip(self._columns, self._scales, strict=True):
            column = column - earlier * (earlier[row] / scale)
        scale = 1.0 + float(self.squares[row])
        self._columns.append(column)
        self._scales.append(scale)
        self.squares = np.maximum(self.squares - column**2 / scale, 0.0)
        self.log_det_gain += log(scale)
        self._inflation_squared += float(self._settled_squares[row])
