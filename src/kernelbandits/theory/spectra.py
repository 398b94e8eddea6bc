"""Effective dimensions and information gains from the eigenvalues of the Gram matrix.

All four quantities are sums over the eigenvalues μ₁ ≥ μ₂ ≥ … ≥ 0 of the Gram matrix K of the learned points
(without regularization):

    effective dimension     d̃     = min{ j ≥ 1 : j γ ln T ≥ μ_{j+1} + μ_{j+2} + … }
    statistical dimension   d_eff = Σ μᵢ / (μᵢ + γ)
    log-determinant gain    L     = Σ ln(1 + μᵢ / γ)
    information gain        I     = ½ Σ ln(1 + μᵢ / σ²)

Relations that hold for every Gram matrix and every γ > 0, with l_T = max{ln(1 + T/(d̃γ)), ln T}; the upper bounds with
l_T need at most T points of k(x, x) ≤ 1, the first line T ≥ 3:

    d̃ − 1 ≤ d_eff ≤ d̃ (1 + ln T)
    d_eff ≤ L ≤ d_eff (1 + ln(1 + μ₁/γ))
    (d̃ − 1) ln(1 + ln T) ≤ L ≤ 2 d̃ l_T
    I ≥ ½ (d̃ − 1) ln(1 + (γ/σ²) ln T)
    d̃ ≤ max(1, rank K)

**Large Gram matrices.** A few leading eigenvalues and the trace (the sum of the diagonal) give an upper bound on each
quantity. Let m₁ ≥ … ≥ m_k be the given numbers, mᵢ ≤ μᵢ for each i. That covers exact eigenvalues, and equally the
under-estimates of the Lanczos and Nyström methods: both are eigenvalues of K compressed to a subspace, which cannot
exceed those of K. Let τ be the trace and n the number of eigenvalues (`size`).

- *Effective dimension.* The tail after j ≤ k is τ − (μ₁ + … + μ_j) ≤ τ − (m₁ + … + m_j). Beyond k, the j − k largest of
  n − k numbers make up at least the fraction (j − k)/(n − k) of their sum, so the tail is at most (n − j)/(n − k) of
  the one after k. If the inequality holds for a larger tail, it holds for the true one.
- *The sums.* Both terms, ln(1 + u/γ) and u/(u + γ), are concave in u. Among all spectra with n entries, sum τ and the
  i-th at least mᵢ, such a sum is maximized by water-filling of the remaining mass: the i-th is max(mᵢ, w), with one
  level w. For exact eigenvalues w is the mean of the remaining ones (at most μ_k, so no given one is raised), and the
  bound is Σ_{i≤k} ln(1 + μᵢ/γ) + (n − k) ln(1 + rest/((n − k) γ)).
  That formula alone does *not* hold for under-estimates: with μ = (1, 1, 1) and m = (0) it would give 2 ln(1 + 1.5/γ),
  less than 3 ln(1 + 1/γ).
- *Without `size`* the number of eigenvalues is unbounded; w tends to 0, and the remaining mass contributes rest/γ.

For the whole spectrum, or the Gram matrix, every result is exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite
from kernelbandits.kernels import Kernel
from kernelbandits.types import Matrix, Points, Vector
from kernelbandits.validation import check_array, check_int, check_nonnegative, check_positive, check_vector

__all__ = [
    "PIVOT_TOLERANCE",
    "certified_dimension",
    "effective_dimension",
    "effective_dimension_bound",
    "information_gain",
    "leading_spectrum",
    "log_det_gain",
    "statistical_dimension",
]

SEMIDEFINITE_SLACK: Final = 1e-8
"""Multiple of the largest k(x, x) up to which negative eigenvalues count as rounding: kernels computed in double
precision have smaller errors, and the posteriors reject a similarity at the same value."""

SYMMETRY_SLACK: Final = 1e-8
"""Largest difference of mirrored entries, relative to the largest entry, that counts as rounding."""

TRACE_SLACK: Final = 1e-9
"""Largest relative excess of given eigenvalues over a given trace: both are rounded sums."""

DENSE_SIZE: Final = 200
"""Size up to which a dense solver is as fast as Lanczos; it also finds repeated eigenvalues reliably."""

START_SEED: Final = 0
"""Seed of the Lanczos start vector, so that equal matrices give equal spectra."""


def effective_dimension(
    gram: ArrayLike | None = None,
    *,
    regularization: float,
    horizon: int,
    spectrum: ArrayLike | None = None,
    trace: float | None = None,
    size: int | None = None,
    counts: ArrayLike | None = None,
) -> int:
    """Number of directions that contain most of the data: d̃ = min{ j ≥ 1 : j γ ln T ≥ μ_{j+1} + μ_{j+2} + … }.

    Pass the Gram matrix for the exact value, or leading eigenvalues and the trace for an upper bound (never more than
    `size` if that is given). Assumes only a positive semi-definite `gram`; the bounds that use d̃ also require k(x, x)
    ≤ 1, and the Gram matrix of all T points.

    Parameters
    ----------
    gram
        Similarities of the learned points, shape (n, n), without regularization.
    regularization
        γ > 0.
    horizon
        T ≥ 2, the number of rounds.
    spectrum
        Eigenvalues instead of `gram`, any order; with `trace`, only the leading ones, or under-estimates of them.
    trace
        Sum of all eigenvalues, which is the sum of `gram`'s diagonal. Without it `spectrum` is the whole spectrum.
    size
        Number of eigenvalues whose sum is `trace`; tightens the bound.
    counts
        Number of times each point was learned, shape (n,): the spectrum is then that of D^½ K D^½, D = diag(counts),
        which has the non-zero eigenvalues of the Gram matrix with all repeats.

    >>> effective_dimension(np.diag([30.0, 5.0, 1.0]), regularization=0.5, horizon=10)
    2
    >>> effective_dimension(spectrum=[30.0], trace=36.0, size=3, regularization=0.5, horizon=10)  # an upper bound
    3

    Reference: Valko et al. (2013), the definition before Theorem 1, with erratum E11.
    """
    regularization = check_positive(regularization, "The regularization")
    horizon = check_int(horizon, "The horizon", least=2, hint="With a single round ln T is zero.")
    known = _known(gram, spectrum=spectrum, trace=trace, size=size, counts=counts)
    step = regularization * log(horizon)

    # Tails after j = 1 … k, summed from the small end to avoid cancellation.
    tails = (
        known.residual_trace + np.append(np.cumsum(known.leading[:0:-1])[::-1], 0.0)
        if known.leading.size
        else np.empty(0)
    )
    places = np.arange(1, tails.size + 1)
    passed = np.flatnonzero(places * step >= tails)
    if passed.size:
        return int(places[passed[0]])
    return known.first_beyond(step)


def effective_dimension_bound(*, scale: float, decay: float, regularization: float, horizon: int) -> float:
    """Bound on the effective dimension of a polynomially decreasing spectrum: d̃ ≤ 1 + (C / ((α − 1) γ ln T))^(1/α).

    Assumes μᵢ ≤ C i^(−α) for all i, with C = `scale` and α = `decay` > 1. The tail after j is then at most
    C j^(1−α) / (α − 1), which j γ ln T reaches at j = (C / ((α − 1) γ ln T))^(1/α). C usually grows with T: a trace of
    at most T gives C ≤ T. The α − 1 is missing in the paper (erratum E19).

    >>> round(effective_dimension_bound(scale=50.0, decay=1.2, regularization=1.0, horizon=10_000), 1)
    16.7

    Reference: Valko et al. (2013), Remark 1.
    """
    scale, decay = check_nonnegative(scale, "The scale of the spectrum"), check_positive(decay, "The decay")
    regularization = check_positive(regularization, "The regularization")
    horizon = check_int(horizon, "The horizon", least=2, hint="With a single round ln T is zero.")
    if decay <= 1.0:
        raise InvalidParameter(
            f"The decay must be greater than 1, got {decay}. A spectrum that decreases more slowly has no finite sum."
        )
    return float(1.0 + (scale / ((decay - 1.0) * regularization * log(horizon))) ** (1.0 / decay))


def statistical_dimension(
    gram: ArrayLike | None = None,
    *,
    regularization: float,
    spectrum: ArrayLike | None = None,
    trace: float | None = None,
    size: int | None = None,
    counts: ArrayLike | None = None,
) -> float:
    """Degrees of freedom of the ridge fit: d_eff = tr K (K + γI)⁻¹ = Σ μᵢ/(μᵢ + γ).

    It equals the sum of the final squared widths at the learned points. Arguments as in `effective_dimension`;
    leading eigenvalues with a trace give an upper bound.

    >>> statistical_dimension(np.diag([3.0, 1.0]), regularization=1.0)
    1.25
    """
    regularization = check_positive(regularization, "The regularization")
    known = _known(gram, spectrum=spectrum, trace=trace, size=size, counts=counts)
    return known.largest_sum(lambda mu: mu / (mu + regularization), slope=1.0 / regularization)


def log_det_gain(
    gram: ArrayLike | None = None,
    *,
    regularization: float,
    spectrum: ArrayLike | None = None,
    trace: float | None = None,
    size: int | None = None,
    counts: ArrayLike | None = None,
) -> float:
    """Log-determinant gain of the data: L = ln det(I + K/γ) = Σ ln(1 + μᵢ/γ).

    It equals the sum over the observations of ln(1 + width²), each width taken at the point just before it is learned.
    Arguments as in `effective_dimension`; leading eigenvalues with a trace give an upper bound.

    >>> round(log_det_gain(np.diag([3.0, 1.0]), regularization=0.5), 6) == round(log(7.0 * 3.0), 6)
    True
    """
    regularization = check_positive(regularization, "The regularization")
    known = _known(gram, spectrum=spectrum, trace=trace, size=size, counts=counts)
    return known.largest_sum(lambda mu: np.log1p(mu / regularization), slope=1.0 / regularization)


def information_gain(
    gram: ArrayLike | None = None,
    *,
    noise_variance: float,
    spectrum: ArrayLike | None = None,
    trace: float | None = None,
    size: int | None = None,
    counts: ArrayLike | None = None,
) -> float:
    """Mutual information of f and the rewards: I(y; f) = ½ ln det(I + K/σ²), in nats.

    Assumes f ~ GP(0, k) and Gaussian noise of variance σ². With σ² = γ it is half of `log_det_gain`. The paper prints
    it without the ½ (erratum E21). Other arguments as in `effective_dimension`.

    >>> information_gain(np.eye(2), noise_variance=1.0) == log(2.0)
    True
    """
    noise_variance = check_positive(noise_variance, "The noise variance")
    gain = log_det_gain(gram, regularization=noise_variance, spectrum=spectrum, trace=trace, size=size, counts=counts)
    return gain / 2.0


def leading_spectrum(gram: ArrayLike, n: int, *, counts: ArrayLike | None = None) -> Vector:
    """The n largest eigenvalues of a Gram matrix, largest first, without computing all of them.

    Large matrices are handled by the Lanczos method from a fixed start vector, so that equal matrices give equal
    results up to rounding. The results are under-estimates (up to rounding), as the upper bounds of this module
    require. The matrix is checked for symmetry; semi-definiteness is checked only by the computed eigenvalues. `counts`
    as in `effective_dimension`.

    >>> leading_spectrum(np.diag([1.0, 4.0, 9.0]), 2)
    array([9., 4.])
    """
    weighted = _weighted(_square(gram), counts)
    size = weighted.shape[0]
    n = check_int(n, "The number of eigenvalues")
    if n > size:
        raise InvalidParameter(f"At most {size} eigenvalues of a matrix of {size} rows can be requested, got {n}.")
    largest = float(np.max(np.diagonal(weighted)))
    values = _lanczos(weighted, n) if size > DENSE_SIZE and n < size // 4 else None
    if values is None:
        from scipy.linalg import eigh

        values = np.asarray(eigh(weighted, eigvals_only=True, subset_by_index=(size - n, size - 1)), np.float64)
    return _without_rounding(np.flip(np.sort(values)), largest, size)


@dataclass(frozen=True)
class _Known:
    """Partial knowledge of a spectrum: its leading values, and the mass and number of the others."""

    leading: Vector
    """Decreasing, nonnegative; each at most the true eigenvalue of the same index."""

    residual_trace: float
    """Trace minus the sum of `leading`; zero for a whole spectrum."""

    n_rest: float
    """Number of eigenvalues that share `residual_trace`; infinite if unknown."""

    def first_beyond(self, step: float) -> int:
        """Smallest j > k with j · step ≥ (bound on the tail after j), k the number of leading values."""
        k = self.leading.size
        if self.n_rest == inf:
            return max(k + 1, ceil(self.residual_trace / step))
        # Even distribution: rest (n − j)/(n − k) with n = k + n_rest, a falling line that meets a rising one.
        n = k + int(self.n_rest)
        crossing = self.residual_trace * n / (step * self.n_rest + self.residual_trace)
        return min(n, max(k + 1, ceil(crossing)))

    def largest_sum(self, term: Callable[[Vector], Vector], *, slope: float) -> float:
        """Largest Σ term(μᵢ) of such a spectrum, `term` concave with term(0) = 0 and the given slope there."""
        if self.residual_trace == 0.0:
            return float(np.sum(term(self.leading)))
        if self.n_rest == inf:
            return float(np.sum(term(self.leading)) + slope * self.residual_trace)
        level, n_raised = self._water_level()
        untouched = self.leading[: self.leading.size - n_raised]
        return float(np.sum(term(untouched)) + (self.n_rest + n_raised) * term(np.array([level]))[0])

    def _water_level(self) -> tuple[float, int]:
        """Level w with Σ max(mᵢ, w) = trace, and the number of leading values below it."""
        level, mass, n_raised = self.residual_trace / self.n_rest, self.residual_trace, 0
        for value in self.leading[::-1]:
            if value >= level:
                break
            n_raised += 1
            mass += float(value)
            level = mass / (self.n_rest + n_raised)
        return level, n_raised


def _known(
    gram: ArrayLike | None,
    *,
    spectrum: ArrayLike | None,
    trace: float | None,
    size: int | None,
    counts: ArrayLike | None,
) -> _Known:
    if (gram is None) == (spectrum is None):
        raise InvalidParameter("Give either the Gram matrix or its spectrum, and not both.")
    if gram is not None:
        if trace is not None or size is not None:
            raise InvalidParameter("A Gram matrix brings its own trace and size; give those with a spectrum only.")
        weighted = _weighted(_square(gram), counts)
        values = np.flip(np.linalg.eigvalsh(weighted)).astype(np.float64, copy=False)
        return _Known(_without_rounding(values, float(np.max(np.diagonal(weighted))), weighted.shape[0]), 0.0, 0)
    if counts is not None:
        raise InvalidParameter("Counts weigh the rows of a Gram matrix; a spectrum has them already.")
    return _known_from_spectrum(np.asarray(spectrum), trace, size)


def _known_from_spectrum(spectrum: ArrayLike, trace: float | None, size: int | None) -> _Known:
    leading = np.flip(np.sort(check_vector(spectrum, "The eigenvalues")))
    leading = _without_rounding(leading, float(leading[0]) if leading.size else 0.0, leading.size)
    if trace is None:
        if size is not None:
            raise InvalidParameter("`size` is the number of eigenvalues of the trace. Pass `trace` as well.")
        if not leading.size:
            raise InvalidParameter("The spectrum is empty. Give at least one eigenvalue, or the trace.")
        return _Known(leading, 0.0, 0)
    trace, total = check_nonnegative(trace, "The trace"), float(np.sum(leading))
    if trace < total * (1.0 - TRACE_SLACK):
        raise InvalidParameter(
            f"The trace is the sum of all eigenvalues, but {trace=} is less than the {total} of those given. It is the "
            "sum of the Gram matrix's diagonal."
        )
    n_rest = inf if size is None else check_int(size, "The size", least=max(1, leading.size)) - leading.size
    residual = max(trace - total, 0.0)
    if n_rest == 0:
        if residual > TRACE_SLACK * trace:  # under-estimates of every eigenvalue: the last one gets the missing mass
            return _Known(leading[:-1], residual + float(leading[-1]), 1)
        residual = 0.0
    return _Known(leading, residual, n_rest)


def _square(gram: ArrayLike) -> Matrix:
    matrix = check_array(gram, "The entries of a Gram matrix")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InvalidParameter(f"A Gram matrix is square and not empty, got shape {matrix.shape}.")
    if not np.all(np.isfinite(matrix)):
        raise InvalidParameter("A Gram matrix holds finite numbers, and this one has NaN or infinite entries.")
    uneven = float(np.max(np.abs(matrix - matrix.T)))
    if uneven > SYMMETRY_SLACK * float(np.max(np.abs(matrix))):
        raise InvalidParameter(
            f"A Gram matrix is symmetric, but mirrored entries of this one differ by {uneven:.3g}. Average it with its "
            "transpose if both halves mean the same similarity."
        )
    return matrix


def _weighted(gram: Matrix, counts: ArrayLike | None) -> Matrix:
    """D^½ K D^½: has the spectrum of the Gram matrix with repeats, without expanding them."""
    if counts is None:
        return gram
    repeats = check_vector(counts, "The counts")
    if repeats.shape != (gram.shape[0],) or np.any(repeats < 0.0):
        raise InvalidParameter(
            f"There must be one count, zero or above, for each of the {gram.shape[0]} points, got {repeats}."
        )
    roots = np.sqrt(repeats)
    return roots[:, None] * gram * roots


def _lanczos(matrix: Matrix, n: int) -> Vector | None:
    """Leading eigenvalues by Lanczos, or None if it does not converge (a zero matrix, clustered eigenvalues)."""
    from scipy.sparse.linalg import ArpackError, eigsh

    generator = np.random.default_rng(START_SEED)
    start: Vector = generator.standard_normal(matrix.shape[:1])
    try:
        return np.asarray(eigsh(matrix, k=n, which="LA", v0=start, return_eigenvectors=False))
    except ArpackError:
        return None


def _without_rounding(values: Vector, largest: float, size: int) -> Vector:
    """Decreasing eigenvalues with tiny negative ones set to zero; truly negative ones are rejected."""
    if not values.size:
        return values
    slack = SEMIDEFINITE_SLACK * max(largest, 0.0) + size * np.finfo(float).eps * float(np.max(np.abs(values)))
    if values[-1] < -slack:
        raise NotPositiveSemidefinite(
            f"The smallest eigenvalue is {values[-1]:.3g}, so this is not the Gram matrix of a kernel. "
            "kernelbandits.kernels.repair makes the nearest one."
        )
    return np.maximum(values, 0.0)


TRACE_TOLERANCE: Final = 1e-6
"""Fraction of γ ln T below which the residual trace can hardly change d̃."""

PIVOT_TOLERANCE: Final = 1e-13
"""Fraction of the largest similarity below which the residual of a point is rounding."""


def certified_dimension(
    kernel: Kernel, points: Points, counts: Vector, *, regularization: float, horizon: int, most: int
) -> int | None:
    """d̃ of `theory.effective_dimension`, including counts, or None if `most` directions do not determine it.

    A pivoted Cholesky factorization A ≈ L Lᵀ of A = D^½ K D^½ adds one column at a time, always of the point with the
    largest residual. Eigenvalues of LᵀL never exceed those of A, and their sum is smaller by the trace of A − L Lᵀ. So
    tails μ_{j+1} + μ_{j+2} + … of A lie between those of LᵀL and the same plus that trace: two bounds on d̃, which is
    known if they agree. With n points and r directions this costs O(n r²), and the Gram matrix is never stored.

    Parameters
    ----------
    kernel
        Similarity of the points.
    points, counts
        Distinct points in the canonical form of the kernel's kind, and the number of times each was chosen.
    regularization, horizon
        γ and T.
    most
        Largest number of directions.

    Examples
    --------
    >>> from kernelbandits.kernels import Linear
    >>> points = np.linspace(-1.0, 1.0, 50)[:, None]  # on a line: one direction
    >>> certified_dimension(Linear(), points, np.ones(50), regularization=0.1, horizon=50, most=5)
    1
    """
    step = regularization * log(horizon)
    factor, residual_trace = _factor(kernel, points, counts, enough=TRACE_TOLERANCE * step, most=most)
    spectrum = np.maximum(np.linalg.eigvalsh(factor.T @ factor), 0.0) if factor.size else np.zeros(1)
    least = effective_dimension(spectrum=spectrum, regularization=regularization, horizon=horizon)
    trace = float(spectrum.sum()) + residual_trace
    greatest = effective_dimension(spectrum=spectrum, trace=trace, regularization=regularization, horizon=horizon)
    return least if least == greatest else None


def _factor(kernel: Kernel, points: Points, counts: Vector, *, enough: float, most: int) -> tuple[Matrix, float]:
    """Columns L and the trace of D^½ K D^½ − L Lᵀ, once that is small enough, or there are `most` columns."""
    roots = np.sqrt(counts)
    left = counts * kernel.diagonal(points)  # residual diagonal per point
    rounding = PIVOT_TOLERANCE * float(left.max())
    columns = np.empty((len(counts), min(most, len(counts))), order="F")
    rank = 0
    while rank < columns.shape[1] and left.sum() > enough and left.max() > rounding:
        pivot = int(np.argmax(left))
        similarity = kernel.gram(points, kernel.kind.take(points, np.array([pivot])))[:, 0]
        column = columns[:, rank]
        column[:] = roots * similarity * roots[pivot] - columns[:, :rank] @ columns[pivot, :rank]
        column /= sqrt(float(left[pivot]))
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        rank += 1
    return columns[:, :rank], float(left.sum())
