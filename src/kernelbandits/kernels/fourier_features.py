"""Fourier features: kernels with finitely many features that approximate a stationary kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, lgamma, log, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels._distances import as_rows
from kernelbandits.kernels.base import Kernel, check_kernel
from kernelbandits.kernels.composite import Scaled
from kernelbandits.kernels.stationary import Gaussian, Stationary, declares
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import (
    check_bool,
    check_float,
    check_int,
    check_list,
    check_positive,
    check_probability,
    check_seed,
    check_size,
    short_repr,
)

__all__ = ["QuadratureFourier", "RandomFourier", "Waves", "check_even_count", "draw_waves", "has_random_features"]

MOST_FEATURES: Final = 1_000_000
"""Largest number of random features: every point of a query takes 8 bytes per feature."""

LARGEST_PHASE: Final = 1e300
"""Largest phase w·x, far below overflow."""

FINEST: Final = 60
"""Binary logarithm of the finest grid of the bound on random features; finer ones do not lower it."""

MOST_NODES: Final = 1_000
"""Largest number of quadrature nodes of a column."""

MOST_WAVES: Final = 10_000
"""Largest number of frequencies of a quadrature: a primal posterior on them takes 6.4 GB."""

MOST_PRODUCTS: Final = 2_000_000
"""Largest number of products of nodes, before those of negligible weight are left out."""

NEGLIGIBLE: Final = 1e-15
"""Sum of the quadrature weights that are left out, as a fraction of k(x, x)."""

FINEST_ACCURACY: Final = 1e-13
"""Smallest accuracy of a quadrature, ten times the rounding error of nodes, weights and features."""


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Features φ(x) = (a₁ cos w₁·x, …, a_n cos w_n·x, a₁ sin w₁·x, …, a_n sin w_n·x) of a stationary kernel.

    φ(x)·φ(z) = Σ aᵢ² cos wᵢ·(x − z), and φ(x)·φ(x) = Σ aᵢ² at every point.
    """

    frequencies: Matrix
    """One row per frequency w, one entry per column of the points."""

    amplitudes: Vector
    """a."""

    @property
    def n_features(self) -> int:
        """Length of a row φ."""
        return 2 * len(self.frequencies)

    @property
    def variance(self) -> float:
        """φ(x)·φ(x)."""
        return float(self.amplitudes @ self.amplitudes)

    def check(self, points: Points) -> Points:
        """The points as rows; raises InvalidContexts for another number of columns and for phases that overflow."""
        rows, n_columns = as_rows(points), self.frequencies.shape[1]
        if rows.shape[1] != n_columns:
            raise InvalidContexts(f"These features are for {n_columns} columns, and the points have {rows.shape[1]}.")
        largest = float(abs(rows).max()) if rows.shape[0] else 0.0
        if not largest <= LARGEST_PHASE / max(1.0, float(np.abs(self.frequencies).sum(axis=1).max())):
            raise InvalidContexts("The Fourier features of these contexts overflow. Check the scale of the contexts.")
        return rows

    def features(self, points: Points) -> Matrix:
        """Rows φ, one per point."""
        phases = np.asarray(self.check(points) @ self.frequencies.T)
        n_waves = phases.shape[1]
        features = np.empty((len(phases), 2 * n_waves))
        np.cos(phases, out=features[:, :n_waves])
        np.sin(phases, out=features[:, n_waves:])
        features[:, :n_waves] *= self.amplitudes
        features[:, n_waves:] *= self.amplitudes
        return features

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        """See `Kernel.feature_gradient`."""
        phases = np.asarray(self.check(points) @ self.frequencies.T)
        n_waves = phases.shape[1]
        slopes = weights[:, n_waves:] * np.cos(phases) - weights[:, :n_waves] * np.sin(phases)
        gradient: Matrix = (slopes * self.amplitudes) @ self.frequencies
        return gradient


def draw_waves(
    kernel: Kernel, n_columns: int, n_waves: int, rng: np.random.Generator, *, orthogonal: bool = False
) -> Waves:
    """Draw the waves of `RandomFourier`; raises NotSupported for a kernel without a spectral density."""
    plain, variance = _unscaled(kernel)
    if not has_random_features(kernel):
        raise NotSupported(
            "Random Fourier features need a kernel with a spectral density that can be drawn from (Gaussian, Matern, "
            f"RationalQuadratic, Laplacian, or one of these times a number), got {short_repr(kernel)}. Take the parts "
            "of a sum one by one. Other kernels have none: use posterior='exact', and draws='joint' in KernelThompson."
        )
    assert isinstance(plain, Stationary)
    frequencies = plain.sample_frequencies(n_waves, n_columns, rng)
    if orthogonal:
        if not plain.is_rotation_invariant:
            raise NotSupported(
                f"Orthogonal features need a kernel of the distance of rows (Gaussian, Matern, RationalQuadratic), got "
                f"{short_repr(kernel)}. Take orthogonal=False."
            )
        scales = plain._scales(n_columns)
        lengths = np.linalg.norm(frequencies * scales, axis=1)
        frequencies = lengths[:, None] * _orthogonal_rows(n_waves, n_columns, rng) / scales
    return Waves(frequencies, np.full(n_waves, sqrt(variance / n_waves)))


def _orthogonal_rows(n_rows: int, n_columns: int, rng: np.random.Generator) -> Matrix:
    """Uniformly distributed unit rows, orthogonal to each other in blocks of `n_columns`."""
    n_blocks = -(-n_rows // n_columns)
    rotations, triangles = np.linalg.qr(rng.standard_normal((n_blocks, n_columns, n_columns)))
    signs = np.where(np.diagonal(triangles, axis1=1, axis2=2) < 0.0, -1.0, 1.0)  # makes the factor unique: Haar measure
    rows: Matrix = (rotations * signs[:, None, :]).reshape(-1, n_columns)
    return rows[:n_rows]


def has_random_features(kernel: Kernel) -> bool:
    """Whether `draw_waves` supports such a kernel."""
    plain, _ = _unscaled(kernel)
    return isinstance(plain, Stationary) and declares(plain, "sample_frequencies")


def _unscaled(kernel: Kernel) -> tuple[Kernel, float]:
    """The kernel without its factors, and their product, which is k(x, x)."""
    if not isinstance(kernel, Scaled):
        return kernel, 1.0
    plain, factor = _unscaled(kernel.kernel)
    return plain, kernel.factor * factor


def check_even_count(n_features: int) -> int:
    """Validate an even number of random features; raise InvalidParameter otherwise."""
    number = check_int(n_features, "The number of features", most=MOST_FEATURES)
    if number % 2:
        raise InvalidParameter(
            f"Random features come in pairs of a cosine and a sine, so their number must be even, got {number}."
        )
    return number


class _Fourier(Kernel):
    """Base class of kernels Σ aᵢ² cos wᵢ·(x − z), with the features of `waves`."""

    kernel: Kernel
    waves: Waves

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        left = self.features(first)
        return left @ (left if second is None else self.features(second)).T

    def diagonal(self, points: Points) -> Vector:
        return np.full(self.waves.check(points).shape[0], self.waves.variance)

    def n_features(self, points: Points) -> int:
        return self.waves.n_features

    def features(self, points: Points) -> Matrix:
        return self.waves.features(points)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return self.waves.feature_gradient(points, weights)


def _per_column(extent: float | Sequence[float], n_columns: int) -> Vector:
    """One extent per column, from these or from one number."""
    extents = _checked_extents(extent)
    if len(extents) not in (1, n_columns) or (_is_list(extent) and len(extents) != n_columns):
        raise InvalidParameter(
            f"The extent is one number, or one for each of the {n_columns} columns, got {short_repr(extent)}."
        )
    return np.broadcast_to(np.array(extents), (n_columns,))


def _is_list(extent: float | Sequence[float]) -> bool:
    """Whether there is one extent per column; asking NumPy would fail for ragged lists."""
    return isinstance(extent, list | tuple) or getattr(extent, "ndim", 0) == 1


def _checked_extents(extent: float | Sequence[float]) -> tuple[float, ...]:
    values: list[Any] = check_list(extent, "The extent") if _is_list(extent) else [extent]  # type: ignore[arg-type]
    extents = tuple(check_positive(value, "Every extent") for value in values)
    if not extents:
        raise InvalidParameter("The extent is one number per column, the largest difference of two points; got none.")
    return extents


@dataclass(frozen=True, repr=False)
class RandomFourier(_Fourier):
    """Random Fourier features of a stationary kernel (Rahimi and Recht 2007), plain or orthogonal.

    For n frequencies w drawn from the spectral density of the kernel, two features each,

        φ(x) = sqrt(k(x, x) / n) · (cos w₁·x, …, cos w_n·x, sin w₁·x, …, sin w_n·x).

    By Bochner's theorem the expectation of φ(x)·φ(z) is k(x, z); its standard error is at most k(x, x) / sqrt(2n), and
    0 for x = z. The spectral density is normal for `Gaussian`, Student's t with 2ν degrees of freedom for `Matern` of
    smoothness ν, a gamma mixture of normals for `RationalQuadratic`, and Cauchy in every column for `Laplacian`.

    A policy with this kernel computes in feature space, O(n²) per action, for any number of rounds. It is exact for the
    approximation, whose functions have 2n parameters: once the observations determine them all, widths are too small
    where the kernel itself would still be uncertain. Take more features than the effective dimension of the data, or
    `QuadratureFourier` in few dimensions.

    Parameters
    ----------
    kernel
        `Gaussian`, `Matern`, `RationalQuadratic` or `Laplacian`, or one of these times a number; one length scale, or
        one per column.
    n_columns
        Number of columns of the points.
    n_frequencies
        n, half the number of features.
    orthogonal
        Draw the directions of n_columns frequencies at a time orthogonal to each other (Yu et al. 2016): the same
        expectation, and a smaller error for points within a few length scales. Not for `Laplacian`.
    seed
        Seed of the frequencies, a whole number. A saved kernel holds the frequencies themselves.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> kernel, points = Gaussian(length_scale=0.5), [[0.1, 0.4], [0.3, 0.2]]
    >>> approximation = RandomFourier(kernel, n_columns=2, n_frequencies=1_000)
    >>> np.abs(approximation.gram(points) - kernel.gram(points)).max() < 0.05
    np.True_
    """

    kernel: Kernel
    n_columns: int = field(kw_only=True)
    n_frequencies: int = field(default=500, kw_only=True)
    orthogonal: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        n_columns = check_int(self.n_columns, "The number of columns")
        n_frequencies = check_int(self.n_frequencies, "The number of frequencies", most=MOST_FEATURES // 2)
        check_size("Random frequencies", n_frequencies, n_columns)
        orthogonal, seed = check_bool(self.orthogonal, "`orthogonal`"), check_seed(self.seed)
        if orthogonal:
            check_size("A rotation", n_columns, n_columns)
        waves = draw_waves(self.kernel, n_columns, n_frequencies, np.random.default_rng(seed), orthogonal=orthogonal)
        vars(self).update(
            n_columns=n_columns, n_frequencies=n_frequencies, orthogonal=orthogonal, seed=seed, waves=waves
        )

    def error_bound(self, extent: float | Sequence[float], *, failure_probability: float = 0.05) -> float:
        """Bound on |φ(x)·φ(z) − k(x, z)| for all x, z whose columns differ by at most `extent`, with high probability.

        On a grid of m cells per column, Hoeffding's inequality bounds the error at all cell centers τ at once; within
        a cell the features change by at most Σ_j h_j mean |w_j| and the kernel by sqrt(2 − 2 k(h)), h = extent / m:

            k(x, x) · (sqrt(2 ln(2 mᵈ / δ_m) Σ c²) + Σ_j h_j mean |w_j| + sqrt(2 − 2 k(h))),

        with the best m, the parts δ_m of the failure probability, and k scaled to k(0) = 1. The c are the shares of
        independent frequencies, 1/n each; of orthogonal ones only blocks of d are independent, so that their bound is
        larger although their error is smaller.
        """
        extents = _per_column(extent, self.n_columns)
        failure = check_probability(failure_probability)
        plain, variance = _unscaled(self.kernel)
        block = self.n_columns if self.orthogonal else 1
        n_blocks, rest = divmod(self.n_frequencies, block)
        squares = (n_blocks * block**2 + rest**2) / self.n_frequencies**2
        speed = float(extents @ np.abs(self.waves.frequencies).mean(axis=0))
        bounds = [2.0]
        for halvings in range(1, FINEST):
            log_cells = self.n_columns * halvings * log(2.0)
            log_shares = log(halvings * (halvings + 1.0)) - log(failure)
            corner, origin = extents[None] / 2.0**halvings, np.zeros((1, self.n_columns))
            with np.errstate(over="ignore"):
                similarity = float(plain.gram(corner, origin)[0, 0])
            change = speed / 2.0**halvings + sqrt(max(0.0, 2.0 - 2.0 * similarity))
            bounds.append(sqrt(2.0 * (log_cells + log(2.0) + log_shares) * squares) + change)
        return variance * min(bounds)

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        parameters, arrays = super().pack()
        return parameters, {**arrays, "frequencies": self.waves.frequencies}

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> Kernel:
        kernel = cls(**{name: value for name, value in parameters.items() if name != "class"})
        frequencies = saved_array(arrays, "frequencies", "f", kernel.waves.frequencies.shape)
        vars(kernel).update(waves=Waves(frequencies, kernel.waves.amplitudes))
        return kernel


@dataclass(frozen=True, repr=False)
class QuadratureFourier(_Fourier):
    """Quadrature Fourier features of the Gaussian kernel, accurate to rounding in few columns (Mutný and Krause 2018).

    Gauss–Hermite nodes h and weights p of each column in place of random frequencies: w = sqrt(2) h / ℓ, and features
    sqrt(p) cos w·x and sqrt(p) sin w·x over the product of the columns' nodes. With n nodes for a column whose
    points differ by τ, the error is at most

        n! / (2n)! · (τ/ℓ)²ⁿ,

    and errors of columns add up. The numbers of nodes are the smallest for which the sum is at most `accuracy`. Of
    nodes ±h, one is enough, and products of negligible weight are left out.

    The number of features is about the product of the numbers of nodes: for up to three columns, or for sums over
    columns, `Columns(QuadratureFourier(…), [0]) + Columns(QuadratureFourier(…), [1])`.

    Parameters
    ----------
    kernel
        `Gaussian`, or a number times it; one length scale, or one per column.
    extent
        Largest difference between two points, one number per column. Beyond it the error grows, as `error_bound` tells.
    accuracy
        Largest error of a similarity, as a fraction of k(x, x), between 1e-13 and 1.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> kernel, points = Gaussian(length_scale=0.3), np.linspace(0, 1, 50)[:, None]
    >>> approximation = QuadratureFourier(kernel, extent=[1.0])
    >>> approximation.n_nodes, approximation.n_features(points)
    ((24,), 22)
    >>> np.abs(approximation.gram(points) - kernel.gram(points)).max() < 1e-12
    np.True_
    """

    kernel: Kernel
    extent: Sequence[float] = field(kw_only=True)
    accuracy: float = field(default=1e-12, kw_only=True)
    n_nodes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Number of quadrature nodes of each column."""

    def __post_init__(self) -> None:
        plain, variance = _unscaled(check_kernel(self.kernel))
        if type(plain) is not Gaussian:
            raise NotSupported(
                f"Quadrature features are those of Gaussian, or of a number times it, got {short_repr(self.kernel)}. "
                "RandomFourier supports Matern and others; for any other kernel use posterior='exact'."
            )
        extent = _checked_extents(self.extent)
        accuracy = check_float(self.accuracy, "The accuracy")
        if not FINEST_ACCURACY <= accuracy < 1.0:
            raise InvalidParameter(
                f"The accuracy must lie between {FINEST_ACCURACY:g} and 1, got {short_repr(self.accuracy)}. It is the "
                "largest error of a similarity; rounding errors are about a tenth of the least."
            )
        reach = np.array(extent) / plain._scales(len(extent))[0]
        n_nodes = tuple(_needed_nodes(scaled, accuracy / len(extent)) for scaled in reach.tolist())
        frequencies, weights = _product_rule(n_nodes)
        waves = Waves(frequencies / plain._scales(len(extent)), np.sqrt(variance * weights))
        vars(self).update(extent=extent, accuracy=accuracy, n_nodes=n_nodes, waves=waves)

    @property
    def n_columns(self) -> int:
        """Number of columns of the points."""
        return len(self.extent)

    def error_bound(self, extent: float | Sequence[float] | None = None) -> float:
        """Bound on |φ(x)·φ(z) − k(x, z)| for all x, z whose columns differ by at most `extent`; None: the extent given.

        Rounding adds about 1e-14 k(x, x).
        """
        plain, variance = _unscaled(self.kernel)
        assert isinstance(plain, Gaussian)
        extents = np.array(self.extent) if extent is None else _per_column(extent, self.n_columns)
        reach = (extents / plain._scales(self.n_columns)[0]).tolist()
        errors = [exp(_log_error(n, scaled)) for n, scaled in zip(self.n_nodes, reach, strict=True)]
        return variance * min(2.0, sum(errors) + NEGLIGIBLE)


def _log_error(n_nodes: int, reach: float) -> float:
    """Logarithm of the remainder of Gauss–Hermite quadrature of cos at τ/ℓ; at most that of 2."""
    return min(log(2.0), lgamma(n_nodes + 1) - lgamma(2 * n_nodes + 1) + 2 * n_nodes * log(reach))


def _needed_nodes(reach: float, accuracy: float) -> int:
    """Smallest number of nodes with this accuracy for points that differ by `reach` length scales."""
    for n_nodes in range(1, MOST_NODES + 1):
        if _log_error(n_nodes, reach) <= log(accuracy):
            return n_nodes
    raise InvalidParameter(
        f"A column that extends over {reach:.3g} length scales needs more than {MOST_NODES} nodes. Take a longer "
        "length scale, or RandomFourier."
    )


def _product_rule(n_nodes: tuple[int, ...]) -> tuple[Matrix, Vector]:
    """Frequencies of length scale 1 and weights, of sum 1: the half of a product of Gauss–Hermite rules."""
    from scipy.special import roots_hermite

    if prod(n_nodes) > MOST_PRODUCTS:
        raise _too_many(n_nodes)
    frequencies, weights = np.zeros((1, 0)), np.ones(1)
    for number in n_nodes:
        nodes, shares = roots_hermite(number)
        shares = shares / shares.sum()
        wide = np.repeat(frequencies, number, axis=0)
        frequencies = np.column_stack([wide, np.tile(sqrt(2.0) * nodes, len(frequencies))])
        weights = np.outer(weights, shares).ravel()
    n_half = (len(weights) + 1) // 2  # nodes are symmetric and in order: the second half is minus the first
    frequencies, weights = (
        frequencies[:n_half],
        np.where(np.arange(n_half) < len(weights) // 2, 2.0, 1.0) * weights[:n_half],
    )
    order = np.argsort(weights)[::-1]
    n_kept = len(order) - int(np.searchsorted(np.cumsum(weights[order[::-1]]), NEGLIGIBLE))
    if n_kept > MOST_WAVES:
        raise _too_many(n_nodes)
    return frequencies[order[:n_kept]], weights[order[:n_kept]]


def _too_many(n_nodes: tuple[int, ...]) -> InvalidParameter:
    sizes = " × ".join(map(str, n_nodes))
    return InvalidParameter(
        f"Quadrature features for these columns need {sizes} nodes, too many for a posterior. Take a larger accuracy, "
        "a sum of kernels over fewer columns each, or RandomFourier."
    )
