"""Stationary kernels, and the distance induced by a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Final

import numpy as np

from kernelbandits._arrays import at_most, exp
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels._distances import (
    Metric,
    Scale,
    as_rows,
    dense,
    dense_pair,
    distances,
    row_pair,
    squared_distances,
)
from kernelbandits.kernels.base import Kernel, no_gradient
from kernelbandits.kernels.rows import Rows
from kernelbandits.types import Matrix, Points, Seed, Vector
from kernelbandits.validation import as_generator, check_float, check_int, check_list, check_positive, short_repr

__all__ = [
    "Gaussian",
    "Laplacian",
    "Matern",
    "RationalQuadratic",
    "Stationary",
    "declares",
    "feature_distances",
    "median_length_scale",
]

LengthScale = float | Sequence[float]


@dataclass(frozen=True, kw_only=True, repr=False)
class Stationary(Kernel):
    """Base class of kernels with k(x, x) = 1 that divide differences by a length scale."""

    length_scale: LengthScale

    @property
    def radial_profile(self) -> int | None:
        """Number of its profile in the compiled kernels (`_profile` of selection/_screening_loops.py), if any."""
        return None

    def sample_frequencies(self, n_frequencies: int, n_columns: int, rng: np.random.Generator) -> Matrix:
        """Sample its spectral density: one row per frequency."""
        raise NotSupported(f"The spectral density of {type(self).__name__} is not implemented.")

    def _slope(self, squared: Matrix) -> Matrix:
        """∂k/∂s at the squared distances s = ‖(x − z) / ℓ‖²."""
        raise NotSupported(f"The derivative of {type(self).__name__} is not implemented.")

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        if not declares(self, "_slope"):  # a subclass with a `gram` of its own
            raise no_gradient(self)
        first, second = dense_pair(first, second)
        slopes = self._slope(self._squared_distances(first, second))
        slopes *= weights
        origin = second[:1]  # differences of rows far from zero would cancel
        apart = (first - origin) * slopes.sum(axis=1)[:, None] - slopes @ (second - origin)
        gradient: Matrix = 2.0 * apart / self._scales(first.shape[1]) ** 2
        return gradient

    def log_parameters(self) -> Vector:
        return np.log(np.atleast_1d(np.asarray(self.length_scale, dtype=np.float64)))

    def with_log_parameters(self, values: Vector) -> Stationary:
        scales = np.exp(values).tolist()
        return replace(self, length_scale=scales[0] if isinstance(self.length_scale, float) else tuple(scales))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        squared = self._squared_distances(points, None)
        inner = -2.0 * weights * self._slope(squared)
        if isinstance(self.length_scale, float):
            return np.array([np.vdot(inner, squared)])
        rows = dense(as_rows(points))
        rows = (rows - rows.mean(axis=0)) / self._scale(rows)
        return np.asarray(2.0 * (inner.sum(axis=1) @ rows**2 - np.einsum("nd,nd->d", rows, inner @ rows)))

    def __post_init__(self) -> None:
        if isinstance(self.length_scale, list | tuple) or getattr(self.length_scale, "ndim", 0) == 1:
            scales = check_list(self.length_scale, "Length scales")  # type: ignore[arg-type]
            checked: LengthScale = tuple(check_positive(scale, "Every length scale") for scale in scales)
            if not checked:
                raise InvalidParameter("The length scale must be one number, or one per column, got none.")
        else:
            checked = check_positive(self.length_scale, "The length scale")  # type: ignore[arg-type]
        object.__setattr__(self, "length_scale", checked)

    def diagonal(self, points: Points) -> Vector:
        return np.ones(as_rows(points).shape[0])

    def _squared_distances(self, first: Points, second: Points | None) -> Matrix:
        """‖(x − z) / ℓ‖² of every pair."""
        first, second = row_pair(first, second)
        return squared_distances(first, second, length_scale=self._scale(first))

    def _distances(self, first: Points, second: Points | None, metric: Metric) -> Matrix:
        """‖(x − z) / ℓ‖ of every pair."""
        first, second = row_pair(first, second)
        return distances(first, second, metric=metric, length_scale=self._scale(first))

    def _scale(self, rows: Points) -> Scale:
        """One length scale, or an array of one per column."""
        if isinstance(self.length_scale, float):
            return self.length_scale
        if len(self.length_scale) != rows.shape[1]:
            raise InvalidContexts(
                f"There are {len(self.length_scale)} length scales for {rows.shape[1]} columns. Give one number, "
                "or one per column."
            )
        return np.asarray(self.length_scale)

    def _scales(self, n_columns: int) -> Matrix:
        """All length scales as one row."""
        scales = np.atleast_2d(np.asarray(self.length_scale, dtype=np.float64))
        if scales.size not in (1, n_columns):
            raise InvalidContexts(
                f"There are {scales.size} length scales for {n_columns} columns. Give one number, or one per column."
            )
        return scales


@dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(Stationary):
    """Gaussian (RBF) kernel: k(x, z) = exp(−‖x − z‖² / 2ℓ²).

    `length_scale` is one number, or one per column.

    >>> Gaussian(length_scale=2.0).gram([[0.0]], [[0.0], [2.0]]).round(4)
    array([[1.    , 0.6065]])
    """

    is_rotation_invariant = True
    takes_any_array = True

    @property
    def radial_profile(self) -> int:
        return 0

    def sample_frequencies(self, n_frequencies: int, n_columns: int, rng: np.random.Generator) -> Matrix:
        return rng.standard_normal((n_frequencies, n_columns)) / self._scales(n_columns)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        exponents = self._squared_distances(first, second)
        exponents *= -0.5
        return exp(exponents)

    def _slope(self, squared: Matrix) -> Matrix:
        return -0.5 * np.exp(-0.5 * squared)


@dataclass(frozen=True, kw_only=True, repr=False)
class RationalQuadratic(Stationary):
    """Mixture of Gaussian kernels of many length scales: k(x, z) = (1 + ‖x − z‖² / 2αℓ²)^(−α), α = `mixture`."""

    is_rotation_invariant = True
    takes_any_array = True
    mixture: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mixture", check_positive(self.mixture, "The mixture"))

    def sample_frequencies(self, n_frequencies: int, n_columns: int, rng: np.random.Generator) -> Matrix:
        """Normal frequencies of a random scale: the squared inverse length scale is a gamma variable of mean 1."""
        stretch = np.sqrt(rng.gamma(self.mixture, 1.0 / self.mixture, size=(n_frequencies, 1)))
        return stretch * rng.standard_normal((n_frequencies, n_columns)) / self._scales(n_columns)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        squared = self._squared_distances(first, second)
        result: Matrix = (1.0 + squared / (2.0 * self.mixture)) ** -self.mixture
        return result

    def _slope(self, squared: Matrix) -> Matrix:
        slope: Matrix = -0.5 * (1.0 + squared / (2.0 * self.mixture)) ** (-self.mixture - 1.0)
        return slope


@dataclass(frozen=True, kw_only=True, repr=False)
class Laplacian(Stationary):
    """k(x, z) = exp(−‖x − z‖₁ / ℓ), the 1-norm; for the 2-norm use Matern(smoothness=0.5)."""

    takes_any_array = True

    def sample_frequencies(self, n_frequencies: int, n_columns: int, rng: np.random.Generator) -> Matrix:
        return rng.standard_cauchy((n_frequencies, n_columns)) / self._scales(n_columns)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return exp(-self._distances(first, second, "cityblock"))

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        if not declares(self, "gradient"):
            raise no_gradient(self)
        first, second = dense_pair(first, second)
        weighted = weights * self.gram(first, second)
        columns = [
            np.einsum("ij,ij->i", weighted, np.sign(x[:, None] - z)) for x, z in zip(first.T, second.T, strict=True)
        ]
        gradient: Matrix = -np.column_stack(columns) / self._scales(first.shape[1])
        return gradient

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        apart = self._distances(points, None, "cityblock")
        inner = weights * np.exp(-apart)
        if isinstance(self.length_scale, float):
            return np.array([np.vdot(inner, apart)])
        rows = dense(as_rows(points))
        columns = (rows / self._scale(rows)).T
        return np.array([np.vdot(inner, np.abs(np.subtract.outer(column, column))) for column in columns])


MATERN: Final[dict[float, Callable[[Matrix], Matrix]]] = {
    0.5: lambda r: exp(-r),
    1.5: lambda r: (1.0 + sqrt(3.0) * r) * exp(-sqrt(3.0) * r),
    2.5: lambda r: (1.0 + sqrt(5.0) * r + 5.0 / 3.0 * r**2) * exp(-sqrt(5.0) * r),
}


MATERN_SLOPES: Final[dict[float, Callable[[Matrix], Matrix]]] = {
    0.5: lambda r: np.divide(-0.5 * np.exp(-r), r, out=np.zeros_like(r), where=r > 0.0),  # a kink at r = 0
    1.5: lambda r: -1.5 * np.exp(-sqrt(3.0) * r),
    2.5: lambda r: -5.0 / 6.0 * (1.0 + sqrt(5.0) * r) * np.exp(-sqrt(5.0) * r),
}
"""Derivatives of these by r², as functions of r."""


VANISHING: Final = 1e3
"""Distance in length scales from which every Matérn kernel is 0.0 in double precision."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Matern(Stationary):
    """Matérn kernel, less smooth than the Gaussian: smoothness 1/2 (exp(−‖x − z‖₂ / ℓ)), 3/2 or 5/2."""

    is_rotation_invariant = True
    takes_any_array = True
    smoothness: float

    @property
    def radial_profile(self) -> int:
        return round(self.smoothness + 0.5)

    def sample_frequencies(self, n_frequencies: int, n_columns: int, rng: np.random.Generator) -> Matrix:
        """Multivariate Student t frequencies: all columns of a frequency share one chi-square variable."""
        freedom = 2.0 * self.smoothness
        stretch = np.sqrt(freedom / rng.chisquare(freedom, size=(n_frequencies, 1)))
        return stretch * rng.standard_normal((n_frequencies, n_columns)) / self._scales(n_columns)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.smoothness
        try:
            object.__setattr__(self, "smoothness", check_float(given, "The smoothness"))
        except InvalidParameter:
            object.__setattr__(self, "smoothness", nan)
        if self.smoothness not in MATERN:
            raise InvalidParameter(
                f"The smoothness must be 0.5, 1.5 or 2.5, got {short_repr(given)}. The Gaussian is smoother."
            )

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return MATERN[self.smoothness](at_most(self._distances(first, second, "euclidean"), VANISHING))

    def _slope(self, squared: Matrix) -> Matrix:
        return MATERN_SLOPES[self.smoothness](np.minimum(np.sqrt(squared), VANISHING))


def declares(kernel: Kernel, name: str) -> bool:
    """Whether the class that defines `gram` of this kernel also defines `name`: a subclass may compute something else.

    >>> declares(Gaussian(length_scale=1.0), "radial_profile"), declares(Laplacian(length_scale=1.0), "radial_profile")
    (True, False)
    """
    owner = next(base for base in type(kernel).__mro__ if "gram" in vars(base))
    return name in vars(owner)


def median_length_scale(points: Points, *, sample: int = 1_000, seed: Seed = None) -> float:
    """Median distance between the rows of a sample: a common default for a length scale.

    Only positive distances are used, so that repeated rows do not count.

    >>> median_length_scale([[0.0], [1.0], [3.0]])
    2.0
    """
    rows = Rows().check(points)
    sample = check_int(sample, "The sample", least=2)
    if rows.shape[0] > sample:
        chosen = as_generator(seed).choice(rows.shape[0], size=sample, replace=False)
        rows = rows[np.sort(chosen)]
    apart = distances(rows, rows)[np.triu_indices(rows.shape[0], k=1)]
    apart = apart[apart > 0]
    if not apart.size:
        raise InvalidContexts("A median distance needs at least two different rows. Give a larger sample.")
    return float(np.median(apart))


def feature_distances(kernel: Kernel, first: Points, second: Points) -> Matrix:
    """‖φ(x) − φ(z)‖ = sqrt(k(x, x) + k(z, z) − 2 k(x, z)) of every pair, from similarities alone.

    A function of norm B changes by at most B times this from x to z. Distances below 1e-8 sqrt(k(x, x)) are rounding.

    >>> from kernelbandits.kernels import Linear
    >>> feature_distances(Linear(), [[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[5., 1.]])
    """
    squared = kernel.diagonal(first)[:, None] + kernel.diagonal(second)[None, :] - 2.0 * kernel.gram(first, second)
    return np.sqrt(np.maximum(squared, 0.0))
