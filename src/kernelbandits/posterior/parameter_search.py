"""Kernel parameters and regularization by gradient search, on distinct points with counts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from math import log
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import repr_of_fields
from kernelbandits._threads import limit_blas_threads
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.posterior.base import (
    check_no_overflow,
    checked_regularization,
    checked_rewards,
    checked_times,
    least_regularization,
)
from kernelbandits.posterior.model_selection import KernelFit
from kernelbandits.types import Indices, Matrix, Parameters, Points, Vector
from kernelbandits.validation import check_int, is_number, is_one_of, short_repr

__all__ = [
    "ParameterSearch",
    "Refit",
    "as_refit",
    "as_vector",
    "at_vector",
    "check_searchable",
    "optimize_kernel",
    "refit_from",
]

SearchCriterion = Literal["marginal_likelihood", "leave_one_out"]

FIRST: Final = 20
"""Number of rewards before the first search of `Refit()`; the number doubles from search to search."""

PRIOR_SCALE: Final = log(10.0)
"""Standard deviation of the logarithm of a parameter around its given value: a factor of 10 costs half a unit of log
likelihood, so a few informative rewards outweigh it, and a parameter about which they say nothing stays as given."""

FARTHEST: Final = log(1e3)
"""Largest change of the logarithm of a parameter."""

LEAST_GAIN: Final = 1.0
"""Gain of the criterion below which parameters stay as they are: a smaller one is within its noise."""

DIGITS: Final = 3
"""Decimal places of the logarithms of parameters, a tenth of a percent: rounding errors of a search end here."""

MOST_COARSE: Final = 60
"""Largest number of points on which the starts of a search are compared."""

MOST_STEPS: Final = 30
"""Largest number of steps of a search."""

SHIFTS: Final = tuple(step * log(10.0) for step in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0))
"""Changes of all parameters of the kernel at once, of which the best is a start of a search."""

NOISE_SHIFTS: Final = tuple(step * log(10.0) for step in (-2.0, -1.0, 0.0, 1.0))
"""Changes of the logarithm of the regularization at a start."""

SMALLEST: Final = 1e-300
"""Smallest scale of rewards, which are divided by the largest of them before."""

IMPOSSIBLE: Final = 1e25
"""Loss of parameters whose matrix cannot be factored; finite, as the search requires."""


@dataclass(frozen=True, kw_only=True)
class Refit:
    """When and how a policy learns the parameters of its kernel and its regularization from its rewards.

    >>> Refit().next_after(45), Refit(every=100).next_after(230)
    (80, 300)
    """

    __repr__ = repr_of_fields

    every: int | None = None
    """Number of rewards from one search to the next; None: searches after 20, 40, 80, … rewards, so that all of them
    together cost a fraction of the run."""

    criterion: SearchCriterion = "leave_one_out"
    """As in `optimize_kernel`."""

    most: int = 200
    """As in `optimize_kernel`."""

    def __post_init__(self) -> None:
        if self.every is not None:
            object.__setattr__(self, "every", check_int(self.every, "The number of rewards between two searches"))
        object.__setattr__(self, "most", check_int(self.most, "The number of points of a search", least=2))
        _check_criterion(self.criterion)

    def next_after(self, n_rewards: int) -> int:
        """Return the number of rewards at which the next search is due, after this many."""
        if self.every is not None:
            return self.every * (n_rewards // self.every + 1)
        due = FIRST
        while due <= n_rewards:
            due *= 2
        return due

    def describe(self) -> Parameters:
        """Return the parameters as plain values."""
        return asdict(self)


def as_refit(value: Any) -> Refit:
    """Convert "auto" and a number of rewards to a `Refit`.

    >>> as_refit(50)
    Refit(every=50, criterion='leave_one_out', most=200)
    """
    if isinstance(value, Refit):
        return value
    if is_one_of(value, ("auto",)):
        return Refit()
    if is_number(value):
        return Refit(every=value)
    raise InvalidParameter(
        f"`refit` is 'auto', a number of rewards between two searches, a posterior.Refit or None, got "
        f"{short_repr(value)}."
    )


def refit_from(description: Mapping[str, Any]) -> Refit:
    """Inverse of `Refit.describe`."""
    return Refit(**description)


def optimize_kernel(
    kernel: KernelLike,
    points: Points,
    rewards: ArrayLike,
    *,
    times: ArrayLike = 1,
    regularization: float = 1.0,
    criterion: SearchCriterion = "leave_one_out",
    most: int = 200,
) -> KernelFit:
    """Search for better length scales, weights of sums, and regularization, beginning at the given ones.

    Every distinct point has the mean ȳ of its n rewards, and the model is ȳ ~ N(0, s² A) with A = K + γ D⁻¹ and D the
    diagonal matrix of the numbers n. The scale s² is the most likely one, so rewards in other units give the same
    parameters:

        marginal_likelihood:  −(m/2) ln s² − ½ ln det A,               s² = ȳᵀA⁻¹ȳ / m
        leave_one_out:        −(m/2) ln s² + ½ Σ ln (A⁻¹)ᵢᵢ,           s² = Σ (A⁻¹ȳ)ᵢ² / (A⁻¹)ᵢᵢ / m

    The second is the log probability of every point's mean given all other points. To either, −(change of ln θ)² / (2
    (ln 10)²) is added for every parameter θ, so that those about which the rewards say nothing stay as they are. One
    length scale per column is learned where the kernel has several. Weights of the parts of a sum keep their total:
    they are a convex combination. A factor of the whole kernel is not learned, since only its ratio to γ matters.

    `fit_kernel` compares given candidates instead, of any kind. A confidence width stays valid only if the policy does
    not learn from these rewards afterwards.

    Parameters
    ----------
    kernel
        Kernel with the parameters to begin with, of this library.
    points, rewards, times
        Observations, as in `Posterior.observe`.
    regularization
        γ to begin with.
    criterion
        "leave_one_out", which depends less on the noise being Gaussian, or "marginal_likelihood".
    most
        Largest number of distinct points used: of more, evenly spaced ones in the order given.

    >>> from kernelbandits.kernels import Gaussian
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> fit = optimize_kernel(Gaussian(length_scale=5.0), x, np.sin(20 * x[:, 0]))
    >>> bool(0.05 < fit.kernel.length_scale < 0.2)
    True
    """
    kernel = as_kernel(kernel)
    check_searchable(kernel)
    _check_criterion(criterion)
    most = check_int(most, "The number of points of a search", least=2)
    gamma = checked_regularization(regularization)
    points = kernel.kind.check(points)
    n_points = kernel.kind.count(points)
    distinct, counts, sums = _tallied(
        kernel, points, checked_rewards(rewards, n_points), checked_times(times, n_points)
    )
    start = as_vector(kernel, gamma)
    search = ParameterSearch(kernel, start, distinct, counts, sums, criterion=criterion, most=most)
    better = search.better_than(start)
    tried = [(kernel, gamma, -search.loss(start)[0])]
    if better is not None:
        tried.append((*at_vector(kernel, better), -search.loss(better)[0]))
    return KernelFit(
        kernel=tried[-1][0],
        regularization=tried[-1][1],
        criterion=criterion,
        value=tried[-1][2],
        tried=tuple(
            {"kernel": kernel.describe(), "regularization": gamma, "value": value} for kernel, gamma, value in tried
        ),
    )


def check_searchable(kernel: Kernel) -> None:
    """Raise NotSupported for a kernel whose parameters cannot be learned."""
    if not kernel.is_certified:
        raise NotSupported(
            f"Parameters are learned of kernels that are formulas of this library, got {short_repr(kernel)}: of a "
            "function or a table nothing is known but similarities. Compare candidates on a sample: "
            "kb.posterior.fit_kernel(…)."
        )


def as_vector(kernel: Kernel, regularization: float) -> Vector:
    """Return the parameters that can be learned, as logarithms: those of the kernel, then ln γ."""
    return np.append(kernel.log_parameters(), log(regularization))


def at_vector(kernel: Kernel, values: Vector) -> tuple[Kernel, float]:
    """Return the kernel with these parameters, and γ: inverse of `as_vector`."""
    return kernel.with_log_parameters(values[:-1]), float(np.exp(values[-1]))


class ParameterSearch:
    """Search for the parameters of a kernel and its regularization, as vectors of `as_vector`.

    Given are distinct points with the numbers and the sums of their rewards, at least one.
    """

    def __init__(
        self,
        kernel: Kernel,
        start: Vector,
        points: Points,
        counts: Vector,
        sums: Vector,
        *,
        criterion: SearchCriterion,
        most: int,
    ) -> None:
        rows = _evenly(len(counts), most)
        self._kernel, self._start, self._criterion = kernel, start, criterion
        self._points = kernel.kind.take(points, rows)
        self._counts, self._means = counts[rows], sums[rows] / counts[rows]
        largest = float(np.abs(self._means).max())
        self._means = self._means / largest if largest > 0.0 else self._means
        self._bounds = np.column_stack([start - FARTHEST, start + FARTHEST])
        diagonal = kernel.diagonal(self._points)
        if diagonal.max() > 0.0:
            least = log(least_regularization(diagonal, self._counts))
            self._bounds[-1, 0] = min(max(self._bounds[-1, 0], least), start[-1])

    def better_than(self, current: Vector) -> Vector | None:
        """Return parameters that explain the rewards better; None if there are none by a gain worth a change."""
        from scipy.optimize import minimize  # import SciPy only when needed

        if not self._means.any():  # any parameters explain rewards that are all zero
            return None
        search: Any = {"jac": True, "method": "L-BFGS-B", "bounds": self._bounds, "options": {"maxiter": MOST_STEPS}}
        with limit_blas_threads(float(len(self._means)) ** 3):
            ends = [minimize(self.loss_and_gradient, start, **search) for start in (current, self._best_start())]
            values = np.round(min(ends, key=lambda end: float(end.fun)).x, DIGITS)
            gain = self.loss(current)[0] - self.loss(values)[0]
        return values if gain > LEAST_GAIN else None

    def _best_start(self) -> Vector:
        """Return the best of several multiples of the given parameters."""
        coarse = ParameterSearch(
            self._kernel, self._start, self._points, self._counts, self._counts * self._means,
            criterion=self._criterion, most=MOST_COARSE,
        )  # fmt: skip
        if not coarse._means.any():
            return self._start
        shifts = [np.append(np.full(len(self._start) - 1, shift), noise) for shift in SHIFTS for noise in NOISE_SHIFTS]
        starts = [np.clip(self._start + shift, *self._bounds.T) for shift in shifts]
        return min(starts, key=lambda values: coarse.loss(values)[0])

    def loss(self, values: Vector) -> tuple[float, Any]:
        """Return minus the criterion, and what its gradient needs."""
        (kernel, gamma), n_points = at_vector(self._kernel, values), len(self._means)
        matrix = kernel.gram(self._points)
        check_no_overflow(matrix)
        matrix = matrix + np.diag(gamma / self._counts)
        try:
            inverse, log_det = _inverse(matrix)
        except np.linalg.LinAlgError:
            return IMPOSSIBLE, None
        weights = inverse @ self._means
        penalty = 0.5 * float(((values - self._start) ** 2).sum()) / PRIOR_SCALE**2
        if self._criterion == "marginal_likelihood":
            scale = max(float(self._means @ weights) / n_points, SMALLEST)
            value = -0.5 * n_points * log(scale) - 0.5 * log_det
        else:
            precision = np.diagonal(inverse)
            scale = max(float((weights**2 / precision).mean()), SMALLEST)
            value = -0.5 * n_points * log(scale) + 0.5 * float(np.log(precision).sum())
        return penalty - value, (kernel, gamma, inverse, weights, scale)

    def loss_and_gradient(self, values: Vector) -> tuple[float, Vector]:
        """Return minus the criterion and its gradient."""
        loss, parts = self.loss(values)
        if parts is None:
            return loss, np.zeros(len(values))
        kernel, gamma, inverse, weights, scale = parts
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self._criterion == "marginal_likelihood":
                slope = 0.5 * (np.outer(weights, weights) / scale - inverse)
            else:
                slope = _slope_left_out(inverse, weights, scale)
            by_noise = gamma * float((np.diagonal(slope) / self._counts).sum())
            gradient = np.append(kernel.parameter_gradient(self._points, slope), by_noise)
        if not np.isfinite(gradient).all():  # parameters so extreme that squares overflow: the search ends here
            return loss, np.zeros(len(values))
        return loss, (values - self._start) / PRIOR_SCALE**2 - gradient


def _inverse(matrix: Matrix) -> tuple[Matrix, float]:
    """Return inverse and ln det of a positive definite matrix; raise LinAlgError for any other."""
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(matrix, lower=True)
    if failed:
        raise np.linalg.LinAlgError
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    inverse, _ = dpotri(factor, lower=True)
    lower = np.tril(inverse)
    return lower + np.tril(inverse, -1).T, log_det


def _slope_left_out(inverse: Matrix, weights: Vector, scale: float) -> Matrix:
    """Return the derivative of the leave-one-out criterion by the entries of A; `inverse` is A⁻¹, `weights` A⁻¹ȳ.

    With B = A⁻¹ and α = Bȳ, an increase H of A changes B by −BHB and α by −BHα.
    """
    precision = np.diagonal(inverse)
    by_precision = 0.5 / precision + 0.5 * weights**2 / (scale * precision**2)
    by_weights = inverse @ (-weights / (scale * precision))
    cross = np.outer(weights, by_weights)
    slope: Matrix = -(inverse * by_precision) @ inverse - 0.5 * (cross + cross.T)
    return slope


def _evenly(n_points: int, most: int) -> Indices:
    """Return the places of all points, or of this many evenly spaced ones."""
    if n_points <= most:
        return np.arange(n_points)
    return np.linspace(0.0, n_points - 1.0, most).astype(np.intp)


def _tallied(kernel: Kernel, points: Points, rewards: Vector, times: Vector) -> tuple[Points, Vector, Vector]:
    """Return the distinct points, in the order given, with their numbers of rewards and their sums."""
    slots: dict[Hashable, int] = {}
    places = np.array([slots.setdefault(key, len(slots)) for key in kernel.kind.keys(points)])
    _, firsts = np.unique(places, return_index=True)
    counts, sums = np.zeros(len(slots)), np.zeros(len(slots))
    np.add.at(counts, places, times)
    np.add.at(sums, places, times * rewards)
    return kernel.kind.take(points, firsts), counts, sums


def _check_criterion(criterion: object) -> None:
    if not is_one_of(criterion, ("marginal_likelihood", "leave_one_out")):
        raise InvalidParameter(
            f"The criterion of a search is 'marginal_likelihood' or 'leave_one_out', got {short_repr(criterion)}."
        )
