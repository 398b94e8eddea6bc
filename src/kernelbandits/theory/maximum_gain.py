"""Maximum information gain γ_T = max I(y_A; f) over the choices A of T points: rates, and bounds with all constants.

Bounds of Gaussian-process bandits are stated in γ_T, because the information gain of the points that a policy chooses
never exceeds it. It depends on the kernel, on the noise variance σ² and on the points to choose from:

    `maximum_information_gain`   finitely many points: a lower and an upper bound, by greedy selection
    `finite_dimension_gain`      any points of a kernel with D features: an upper bound
    `information_gain_rate`      any points of a bounded domain: how γ_T grows with T, without constants
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, log, log1p

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian, Kernel, Linear, Matern, Polynomial, Scaled
from kernelbandits.kernels.base import check_kernel
from kernelbandits.theory.spectra import information_gain
from kernelbandits.types import Indices
from kernelbandits.validation import LARGEST, MOST_ROUNDS, check_int, check_positive

__all__ = ["MaximumGain", "finite_dimension_gain", "information_gain_rate", "maximum_information_gain"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MaximumGain:
    """Bounds on the maximum information gain of T points: lower ≤ γ_T ≤ upper, in nats."""

    lower: float
    """Information gain of the points that greedy selection chooses."""

    upper: float
    """At most lower / (1 − 1/e), and usually much closer."""

    chosen: Indices
    """Rows of the Gram matrix in the order in which they were chosen, shape (T,)."""


def maximum_information_gain(gram: ArrayLike, *, horizon: int, noise_variance: float) -> MaximumGain:
    """Bounds on γ_T for a finite set of points, each of which may be chosen any number of times.

        γ_T = max ½ ln det(I + K_A/σ²)  over all sequences A of T rows of `gram`

    Greedy selection always adds the point of the largest posterior variance v, which increases the gain most, by
    ½ ln(1 + v/σ²). The gain is monotone and submodular, so that the T points found have at least (1 − 1/e) γ_T
    (Nemhauser, Wolsey and Fisher, 1978). The upper bound is the smallest, for t < T, of (gain of the first t points) +
    T · (increase by the next one): T more points increase the gain by at most T times the largest single increase. By
    their proof it is never above lower/(1 − 1/e). O(n³ + T n²) for n points.

    Parameters
    ----------
    gram
        Similarities of the points, shape (n, n), positive semi-definite.
    horizon
        T, the number of points to choose.
    noise_variance
        σ² > 0.

    Examples
    --------
    >>> found = maximum_information_gain(np.diag([1.0, 3.0]), horizon=2, noise_variance=1.0)
    >>> found.chosen, round(found.lower, 3)
    (array([1, 0]), 1.04)

    Reference: Srinivas et al. (2010), section 4, for greedy selection of Gaussian-process observations.
    """
    horizon, noise = (
        check_int(horizon, "The horizon", most=MOST_ROUNDS),
        check_positive(noise_variance, "The noise variance"),
    )
    information_gain(gram, noise_variance=noise)  # validates the matrix
    covariance = np.array(gram, dtype=np.float64)
    chosen, total, upper = np.empty(horizon, dtype=np.intp), 0.0, np.inf
    for place in range(horizon):
        best = int(np.argmax(np.diagonal(covariance)))
        variance = max(float(covariance[best, best]), 0.0)
        increase = log1p(variance / noise) / 2.0
        upper = min(upper, total + horizon * increase)
        chosen[place], total = best, total + increase
        column = covariance[:, best].copy()
        covariance -= np.outer(column, column / (variance + noise))
    return MaximumGain(lower=total, upper=max(total, upper), chosen=chosen)


def finite_dimension_gain(
    *, horizon: int, n_dimensions: int, noise_variance: float, largest_similarity: float = 1.0
) -> float:
    """Bound on γ_T for a kernel with D features: γ_T ≤ ½ D ln(1 + T k_max/(D σ²)).

    Assumes k(x, x) ≤ k_max = `largest_similarity`; D is the number of columns for the linear kernel. Proof: at most D
    eigenvalues are positive and their sum is at most T k_max; ln(1 + u) is concave, so equal ones maximize the sum.

    >>> round(finite_dimension_gain(horizon=1_000, n_dimensions=5, noise_variance=0.25), 1)
    16.7
    """
    n = check_int(n_dimensions, "The number of dimensions")
    mass = check_int(horizon, "The horizon") * check_positive(largest_similarity, "The largest similarity")
    return n / 2.0 * log1p(mass / n / check_positive(noise_variance, "The noise variance"))


def information_gain_rate(kernel: Kernel, *, horizon: int, n_features: int) -> float:
    """Growth of γ_T with T on a bounded domain of d = `n_features` columns, without constants.

        Linear                 d ln T
        Polynomial, degree p   D ln T, D the number of monomials
        Gaussian               (ln T)^(d+1)
        Matérn, ν > ½          T^(d/(2ν+d)) (ln T)^(2ν/(2ν+d))

    Only quotients of rates for several T have a meaning: γ_T is at most a constant times the rate, and the constant
    depends on the domain, on σ² and on the length scales. A scaled kernel has the rate of the kernel.

    The first three are quoted from Srinivas et al. (2010), Theorem 5 (D ln T from the finite dimension, as in
    `finite_dimension_gain`); the last one from Vakili, Khezeli and Picheny (2021), who improve
    T^(d(d+1)/(2ν+d(d+1))) ln T of the former.

    >>> from kernelbandits.kernels import Gaussian
    >>> kernel = Gaussian(length_scale=0.3)
    >>> ten, thousand = (information_gain_rate(kernel, horizon=T, n_features=1) for T in (10, 1_000))
    >>> round(thousand / ten, 1)
    9.0
    """
    horizon = check_int(horizon, "The horizon", least=2, hint="With a single round ln T is zero.")
    d = check_int(n_features, "The number of features")
    kernel = check_kernel(kernel)
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    logarithm = log(horizon)
    if isinstance(kernel, Linear):
        return d * logarithm
    if isinstance(kernel, Polynomial):
        n_variables = d + (kernel.offset > 0)
        return min(comb(n_variables + kernel.degree - 1, kernel.degree), LARGEST) * logarithm
    if isinstance(kernel, Gaussian):
        with np.errstate(over="ignore"):
            return float(np.power(logarithm, d + 1.0))
    if isinstance(kernel, Matern) and kernel.smoothness > 0.5:
        share = d / (2.0 * kernel.smoothness + d)
        return exp(share * logarithm + (1.0 - share) * log(logarithm))
    raise InvalidParameter(
        "Rates are known for Linear, Polynomial, Gaussian and Matern kernels of smoothness above 0.5, got "
        f"{type(kernel).__name__}. `maximum_information_gain` bounds the gain of any kernel on a finite set of points."
    )
