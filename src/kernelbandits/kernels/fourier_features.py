"""Random Fourier features of stationary kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels._distances import as_rows
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.composite import Scaled
from kernelbandits.kernels.stationary import Stationary, declares
from kernelbandits.types import Matrix, Parameters, Points, Seed
from kernelbandits.validation import as_generator, check_int, check_size, short_repr

__all__ = ["RandomFeatures", "an_even_count", "has_random_features", "random_features"]


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """Features φ with φ φᵀ ≈ gram, which approximate a stationary kernel by a linear one.

    For n frequencies w, two features each,

        φ(x) = sqrt(variance / n) · (cos w₁·x, …, cos w_n·x, sin w₁·x, …, sin w_n·x),

    so that φ(x)·φ(z) is the average of variance · cos w·(x − z). `random_features` draws the frequencies such that its
    expectation is k(x, z); its standard error is at most k(x, x) / sqrt(n_features), and 0 for x = z.
    """

    kernel: Kernel
    frequencies: Matrix
    """One row per frequency, one entry per column of the points."""

    variance: float
    """k(x, x)."""

    @property
    def n_features(self) -> int:
        """Length of a row φ."""
        return 2 * len(self.frequencies)

    @property
    def n_columns(self) -> int:
        """Number of columns of the points."""
        return int(self.frequencies.shape[1])

    def features(self, points: Points) -> Matrix:
        """Rows φ, one per point."""
        rows = as_rows(points)
        if rows.shape[1] != self.n_columns:
            raise InvalidContexts(
                f"These features were drawn for {self.n_columns} columns, and the points have {rows.shape[1]}."
            )
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected with a clear error below
            phases = np.asarray(rows @ self.frequencies.T)
        if not np.isfinite(phases).all():
            raise InvalidContexts("The random features of these contexts overflow. Check the scale of the contexts.")
        n_waves = phases.shape[1]
        features = np.empty((len(phases), 2 * n_waves))
        np.cos(phases, out=features[:, :n_waves])
        np.sin(phases, out=features[:, n_waves:])
        features *= sqrt(self.variance / n_waves)
        return features

    def describe(self) -> Parameters:
        """Class, kernel and sizes as plain values."""
        return {
            "class": "RandomFeatures",
            "kernel": self.kernel.describe(),
            "n_columns": self.n_columns,
            "n_features": self.n_features,
        }


def random_features(kernel: Kernel, n_columns: int, n_features: int, seed: Seed = None) -> RandomFeatures:
    """Draw random features of a stationary kernel (Rahimi and Recht 2007).

    By Bochner's theorem such a kernel is the characteristic function of a distribution of frequencies: the normal
    distribution for `Gaussian`, Student's t with 2 ν degrees of freedom for `Matern` of smoothness ν, both divided by
    the length scale; a factor (`Scaled`) scales the amplitude. Raises NotSupported for any other kernel.

    Parameters
    ----------
    kernel
        `Gaussian` or `Matern`, or one of these times a number; one length scale, or one per column.
    n_columns
        Number of columns of the points.
    n_features
        Number of features to draw, an even number: every frequency gives a cosine and a sine.
    seed
        Equal seeds give equal features.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> kernel, points = 2.0 * Gaussian(length_scale=0.5), np.array([[0.1], [0.3]])
    >>> features = random_features(kernel, n_columns=1, n_features=2_000, seed=0).features(points)
    >>> np.abs(features @ features.T - kernel.gram(points)).max() < 0.05
    np.True_
    """
    n_columns, n_features = check_int(n_columns, "The number of columns"), an_even_count(n_features)
    check_size("Random frequencies", n_features // 2, n_columns)
    plain, variance = _unscaled(kernel)
    if not (isinstance(plain, Stationary) and declares(plain, "sample_frequencies")):
        raise NotSupported(
            f"Random features are drawn for Gaussian, Matern, or one of these times a number, got {short_repr(kernel)}."
        )
    frequencies = plain.sample_frequencies(n_features // 2, n_columns, as_generator(seed))
    return RandomFeatures(kernel, frequencies, variance)


def has_random_features(kernel: Kernel) -> bool:
    """Whether `random_features` supports such a kernel."""
    plain, _ = _unscaled(kernel)
    return isinstance(plain, Stationary) and declares(plain, "sample_frequencies")


def _unscaled(kernel: Kernel) -> tuple[Kernel, float]:
    """The kernel without its factors, and their product, which is k(x, x)."""
    if not isinstance(kernel, Scaled):
        return kernel, 1.0
    plain, factor = _unscaled(kernel.kernel)
    return plain, kernel.factor * factor


MOST_FEATURES: Final = 1_000_000
"""Largest number of random features: every point of a query takes 8 bytes per feature."""


def an_even_count(n_features: int) -> int:
    """Validate an even number of random features; raise InvalidParameter otherwise."""
    number = check_int(n_features, "The number of features", most=MOST_FEATURES)
    if number % 2:
        raise InvalidParameter(
            f"Random features come in pairs of a cosine and a sine, so their number must be even, got {number}."
        )
    return number
