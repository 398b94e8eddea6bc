"""Posterior samples: joint samples at points, and sample paths."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._threads import limit_blas_threads
from kernelbandits.kernels import Kernel
from kernelbandits.kernels.fourier_features import draw_waves, has_random_features
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.base import Posterior
from kernelbandits.posterior.cholesky import cholesky
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["JITTER", "FeatureMap", "Paths", "draw_jointly", "draw_paths", "feature_map", "has_feature_map"]

JITTER: Final = 1e-10
"""Fraction of the trace that is added to the diagonal of a covariance, so that linearly dependent points have a factor,
too: far below the sampling error of any number of draws, far above rounding."""


def draw_jointly(mean: Vector, covariance: Matrix, n_draws: int, rng: np.random.Generator) -> Matrix:
    """Draw from N(mean, covariance + JITTER · trace · I): one row per draw, one column per point.

    >>> draw_jointly(np.array([1.0, 2.0]), np.zeros((2, 2)), 1, np.random.default_rng(0))
    array([[1., 2.]])
    """
    normal = rng.standard_normal((n_draws, len(mean)))
    jitter = JITTER * float(np.trace(covariance))
    with limit_blas_threads(float(covariance.size) * (len(mean) + n_draws)):
        while jitter > 0.0:
            try:
                return np.asarray(mean + normal @ cholesky(covariance + jitter * np.eye(len(mean))).T)
            except np.linalg.LinAlgError:  # a variance this small relative to k(x, x) is rounding
                jitter *= 10.0
    return np.tile(mean, (n_draws, 1))


class FeatureMap(Protocol):
    """Feature map: rows φ with φ φᵀ = gram, exactly or approximately."""

    @property
    def n_features(self) -> int:
        """Length of a row φ."""

    def features(self, points: Points) -> Matrix:
        """Rows φ, one per point."""

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        """See `Kernel.feature_gradient`."""


@dataclass(frozen=True, slots=True, eq=False)
class _OwnFeatures:
    """Feature map of a kernel with finitely many features."""

    kernel: Kernel
    n_features: int

    def features(self, points: Points) -> Matrix:
        return self.kernel.features(points)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return self.kernel.feature_gradient(points, weights)


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Sample paths g(x) = φ(x)·w + Σ α k(x, z), one column of w and of each α per path."""

    kernel: Kernel
    prior: FeatureMap
    """φ."""

    prior_weights: Matrix
    """w."""

    parts: tuple[tuple[Points, Matrix], ...]
    """Points z and their weights α."""

    def at(self, points: Points) -> Matrix:
        """Values of the paths: one row per path, one column per point."""
        kind = self.kernel.kind
        values = np.empty((self.prior_weights.shape[1], kind.count(points)))
        n_known = len(self.prior_weights) + sum(len(weights) for _, weights in self.parts)
        with limit_blas_threads(float(values.size) * n_known):
            for block, some in blocks(kind, points, n_known):
                values[:, block] = self.prior_weights.T @ self.prior.features(some).T
                for known, weights in self.parts:
                    values[:, block] += weights.T @ self.kernel.gram(known, some)
        return values

    def gradient(self, points: Points) -> Matrix:
        """Gradients of the first path: one row per point. See `Kernel.gradient`."""
        n_points = self.kernel.kind.count(points)

        def for_each(weights: Matrix) -> Matrix:
            return np.broadcast_to(weights[:, 0], (n_points, len(weights)))

        gradient = self.prior.feature_gradient(points, for_each(self.prior_weights))
        for known, weights in self.parts:
            gradient = gradient + self.kernel.gradient(points, known, for_each(weights))
        return gradient


def draw_paths(
    posterior: Posterior,
    n_draws: int,
    *,
    prior: FeatureMap,
    rng: np.random.Generator,
    spread: float = 1.0,
    pending: Points | None = None,
    times: ArrayLike = 1,
) -> Paths:
    """Draw functions from the posterior: in feature space, or a prior draw, corrected by the data (Wilson et al. 2020).

    With g₀ = φ·w a draw from the prior and e a draw of the noise, e ~ N(0, γ) for each observation,

        g(x) = v g₀(x) + k(x)ᵀ A⁻¹ (y − v (g₀(X) + e))

    has the posterior's mean, and v² times its covariance as far as φ φᵀ equals the kernel: with random features, in
    expectation over these. Given g₀ and e the correction is exact. A point observed n times is one observation of its
    mean reward, with noise γ/n. Cost: O(m² + m D) per draw for m distinct points and D features, O(m + D) per point.

    A posterior in the finite feature space of φ draws the weights themselves, w ~ N(C⁻¹Φᵀy, v² γ C⁻¹) and g = φ·w, at
    O(D²) per draw and O(D) per point, for any number of observations.

    Parameters
    ----------
    posterior
        Posterior with the observations.
    n_draws
        Number of functions to draw.
    prior
        φ, as returned by `feature_map`.
    rng
        Draws D × n_draws standard normal numbers for w; without a feature space, then m × n_draws for e / sqrt(γ/n).
    spread
        v.
    pending
        Points whose rewards are pending: they count in the covariance as if they had been observed, not in the mean.
    times
        Number of times each of these is pending.
    """
    kernel = posterior.kernel
    if isinstance(prior, _OwnFeatures):
        drawn = posterior._draw_weights(n_draws, rng, spread, pending, times)
        if drawn is not None:
            return Paths(kernel, prior, drawn, ())
    prior_weights = spread * rng.standard_normal((prior.n_features, n_draws))
    whole, parts = posterior, list[tuple[Points, Matrix]]()
    if posterior.size:
        points, weights, _, _ = posterior.support()
        parts.append((points, np.repeat(weights[:, None], n_draws, axis=1)))  # A⁻¹y
    if pending is not None:
        whole = posterior.copy()
        whole.observe(pending, np.zeros(kernel.kind.count(pending)), times=times)
    if whole.size:
        points, _, counts, _ = whole.support()
        noise = spread * sqrt(posterior.regularization) / np.sqrt(counts)[:, None]
        surprise = prior.features(points) @ prior_weights
        surprise += noise * rng.standard_normal((len(counts), n_draws))
        correction = -whole.weights_for(surprise)
        if whole is posterior:
            parts = [(points, parts[0][1] + correction)]
        else:
            parts.append((points, correction))
    return Paths(kernel, prior, prior_weights, tuple(parts))


def feature_map(kernel: Kernel, points: Points, n_features: int, rng: np.random.Generator) -> FeatureMap:
    """Features of the kernel if it has them, else `n_features` random ones; raises NotSupported without either."""
    own = kernel.n_features(points)
    if own is not None:
        return _OwnFeatures(kernel, own)
    return draw_waves(kernel, points.shape[1] if has_random_features(kernel) else 1, n_features // 2, rng)


def has_feature_map(kernel: Kernel, points: Points) -> bool:
    """Whether `feature_map` supports this kernel."""
    return has_random_features(kernel) or kernel.n_features(points) is not None
