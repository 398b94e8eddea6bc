"""The exact posterior of a kernel with finitely many features: a Cholesky factor in feature space."""

from __future__ import annotations

import numpy as np

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.base import RecordedPosterior, refuse_overflow
from kernelbandits.posterior.cholesky import cholesky, solve_lower, solve_lower_transposed
from kernelbandits.posterior.observations import Batch
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["PrimalPosterior"]


class PrimalPosterior(RecordedPosterior):
    """Ridge regression on explicit features: O(D²) a query whatever was observed, for kernels that have features.

    With Φ the features of the observations and C = ΦᵀΦ + γI = L Lᵀ:

        mean = φᵀ C⁻¹ Φᵀy,   width² = φᵀ C⁻¹ φ = ‖L⁻¹φ‖².

    LinUCB's form. Equal to the exact posterior of the same kernel.

    >>> from kernelbandits.kernels import Linear
    >>> posterior = PrimalPosterior(Linear(), regularisation=0.5)
    >>> posterior.observe([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])
    >>> posterior.predict([[1.0, 1.0]]).mean.round(4)
    array([1.1111])
    """

    def __init__(self, kernel: Kernel, *, regularisation: float) -> None:
        super().__init__(kernel, regularisation=regularisation)
        self._precision: Matrix | None = None  # C
        self._moments: Vector = np.zeros(0)  # Φᵀy
        self._factor: Matrix | None = None  # L; None when C has changed
        self._weights: Vector | None = None  # C⁻¹Φᵀy; None when C or the rewards have changed

    def _follow(self, batch: Batch) -> None:
        if batch.keys:
            self._add(batch.points, batch.counts, batch.sums)
        if len(batch.slots):
            known = self.kernel.kind.take(self.record.points, batch.slots)
            self._add(known, batch.slot_counts, batch.slot_sums)
        if not self._is_well_posed:
            self._lower()  # now, while the observation can still be refused

    def _add(self, points: Points, counts: Vector, sums: Vector) -> None:
        features = self._features(points)
        precision = self._precision
        if precision is None:
            precision = self.regularisation * np.eye(features.shape[1])
            self._moments = np.zeros(features.shape[1])
        scaled = features * np.sqrt(counts)[:, None]
        precision = precision + scaled.T @ scaled
        refuse_overflow(precision)
        self._precision = precision
        self._moments = self._moments + sums @ features
        self._factor = self._weights = None

    def _forget(self) -> None:
        """Sum anew over what is left: subtracting would leave the rounding errors of what was removed behind."""
        self.record = self.record.compacted()
        self._precision = self._factor = self._weights = None
        if self.size:
            self._add(*self.record.kept())

    def _recover(self) -> None:
        self._forget()

    def _retarget(self) -> None:
        points, _, sums = self.record.kept()
        self._moments = sums @ self._features(points)
        self._weights = None

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        features = self._features(points)
        if self._precision is None:
            return np.zeros(len(features)), self.kernel.diagonal(points) / self.regularisation
        whitened = self._whiten(features)
        return features @ self._mean_weights(), np.einsum("dn,dn->n", whitened, whitened)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        others = points if others is None else self.kernel.kind.check(others)
        if self._precision is None:
            return self.kernel.gram(points, others) / self.regularisation
        return self._whiten(self._features(points)).T @ self._whiten(self._features(others))

    @property
    def log_det_gain(self) -> float:
        if self._precision is None:
            return 0.0
        diagonal = np.diagonal(self._lower())
        return float(2.0 * np.log(diagonal).sum() - len(diagonal) * np.log(self.regularisation))

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function: the length of its weights."""
        return float(np.linalg.norm(self._mean_weights())) if self.size else 0.0

    def _features(self, points: Points) -> Matrix:
        features = self.kernel.features(points)
        if self._precision is not None and features.shape[1] != len(self._precision):
            raise InvalidContexts(
                f"These contexts have {features.shape[1]} features; those learnt before have {len(self._precision)}. "
                "Describe every action with the same columns."
            )
        return features

    def _whiten(self, features: Matrix) -> Matrix:
        whitened = np.array(features.T, order="C")
        solve_lower(self._lower(), whitened)
        return whitened

    def _lower(self) -> Matrix:
        if self._factor is None:
            assert self._precision is not None
            self._factor = cholesky(self._precision)
        return self._factor

    def _mean_weights(self) -> Vector:
        if self._weights is None:
            weights = self._moments[:, None].copy()
            solve_lower(self._lower(), weights)
            solve_lower_transposed(self._lower(), weights)
            self._weights = weights[:, 0]
        return self._weights
