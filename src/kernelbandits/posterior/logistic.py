"""Logistic posterior: binary rewards with a Bernoulli likelihood, by Laplace's approximation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._threads import limit_blas_threads
from kernelbandits.errors import DamagedFile, InvalidReward, NotSupported, NumericalError
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.base import Capabilities, Sections, check_no_overflow, checked_rewards
from kernelbandits.posterior.cholesky import cholesky, solve_lower, solve_lower_transposed
from kernelbandits.posterior.observations import Batch
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Matrix, Points, Vector
from kernelbandits.validation import check_confidence

__all__ = ["LogisticPosterior", "Probabilities"]

STEPS: Final = 100
"""Largest number of Newton steps; five are usual, and two after one more reward."""

CONVERGED: Final = 1e-10
"""Largest change of a log-odds at which the fit ends."""

SLACK: Final = 1e-9
"""Rounding error of a sum of rewards beyond 0 and the number of rewards."""

ROUNDING: Final = 1e-12
"""Least share of the prior variance that a posterior variance is taken for: what is smaller is rounding."""


class Probabilities(NamedTuple):
    """Probabilities of a reward of 1, with their intervals."""

    mean: Vector
    """Expected probability."""
    low: Vector
    high: Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Mode of the posterior over the observed points, and what predictions need of it."""

    points: Points
    values: Vector
    """Log-odds f at the points."""
    residuals: Vector
    """a = s − n σ(f), so that the mean function is Σ a k / γ."""
    roots: Vector
    """Roots of the weights W = n σ(f) (1 − σ(f))."""
    lower: Matrix
    """L with L Lᵀ = I + W^½ K W^½ / γ."""


class LogisticPosterior(RecordedPosterior):
    """Binary rewards: a Gaussian process over log-odds with a Bernoulli likelihood, by Laplace's approximation.

    A reward is 1 with probability σ(f(x)), σ(f) = 1 / (1 + exp(−f)), and f has the prior covariance k / γ. The mode of
    its posterior maximizes Σ ln P(r | f) − γ‖f‖²/2 (kernel logistic regression); with the weights W = n σ(f)(1 − σ(f))
    there, for n observations of each distinct point,

        mean = f,   width² = (k(x, x) − kᵀ(K + γW⁻¹)⁻¹k) / γ.

    Mean and width are those of the log-odds: the action with the highest mean + exploration · width has the highest
    upper bound of its probability. `probabilities` returns these. Temperatures of `Softmax`, weights of gaps and prices
    of `Paced` are then in log-odds, too. The width depends on the rewards: one more says
    little where it was almost sure, and a probability can be near 0 without its interval reaching below.

    A fit costs O(m³) per Newton step for m distinct points, once after each change; it starts at the fit before.
    Rewards may be any number from 0 to 1, such as shares. No confidence statement of an exploration schedule is proved
    for it: tune a number. `KernelThompson(…, posterior="logistic", draws="joint", exploration=1.0)` draws from it.

    Reference: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 3.4.

    Parameters
    ----------
    kernel
        Any kernel.
    regularization
        γ: the log-odds of a point have the prior variance k(x, x) / γ. With k(x, x) = 1 and γ = 1 most probabilities
        lie between 0.1 and 0.9. `kernel + constant` learns the overall rate.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = LogisticPosterior(Gaussian(length_scale=0.5), regularization=0.5)
    >>> posterior.observe([[0.0], [1.0]], [1.0, 0.0], times=[9, 9])
    >>> posterior.probabilities([[0.0], [0.5], [1.0]]).mean.round(2)
    array([0.85, 0.5 , 0.15])
    """

    capabilities = Capabilities(predicts_log_odds=True)

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        super().__init__(kernel, regularization=regularization)
        self._fit: _Fit | None = None  # None before any observation, and after a change
        self._last: Vector = np.zeros(0)  # residuals of the fit before, by distinct point: the start of the next

    # -- synchronization -----------------------------------------------------------------------------------------------

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        _reject_outside(checked_rewards(rewards, self.kernel.kind.count(points)))
        super().observe(points, rewards, times=times)

    def _observe_one(self, point: Points, reward: float) -> None:
        _reject_outside(np.array([reward]))
        super()._observe_one(point, reward)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        points = self.kernel.kind.check(points)
        _reject_outside(checked_rewards(now, self.kernel.kind.count(points)))
        super().amend(points, was=was, now=now)

    def _apply(self, batch: Batch) -> None:
        for sums, counts in ((batch.sums, batch.counts), (batch.slot_sums, batch.slot_counts)):
            if len(sums) and not ((sums >= -SLACK).all() and (sums <= counts + SLACK).all()):
                raise InvalidReward(
                    "Rewards of a logistic posterior must lie between 0 and 1, and sums of others were given. Scale "
                    "the rewards, and let a new policy learn them."
                )
        self._changed()

    def _changed(self) -> None:
        self._fit = None
        if not self._is_certified:
            self._fitted()  # now, while the observation can still be rejected

    def _observations_removed(self) -> None:
        self._last = np.zeros(0)
        self._changed()

    def _rewards_changed(self) -> None:
        self._changed()

    def _undone(self, n_slots: int) -> None:
        self._fit, self._last = None, np.zeros(0)

    def _fitted(self) -> _Fit | None:
        """Return the mode of the posterior, by Newton's method; None before any observation.

        A step solves f = K(K + γW⁻¹)⁻¹z for z = f + (s − nσ(f))/W, as a = b − W^½B⁻¹W^½Kb/γ with b = Wf + s − nσ(f),
        B = I + W^½KW^½/γ and f = Ka/γ: B is well conditioned for any W. Steps that do not raise the density are halved.
        """
        if self._fit is not None or not self.record.size:
            return self._fit
        points, counts, sums = self.record.stored()
        prior = self.kernel.gram(points) / self.regularization
        check_no_overflow(prior)
        start = np.zeros(len(counts))
        if len(self._last) <= len(start):
            start[: len(self._last)] = self._last
        with limit_blas_threads(float(len(start)) ** 3), self._clear_errors():
            residuals = _mode(prior, counts, sums, start)
            values = prior @ residuals
            roots = np.sqrt(_weights(counts, values))
            lower = cholesky(_balanced(prior, roots))
        self._last = residuals
        self._fit = _Fit(points, values, residuals, roots, lower)
        return self._fit

    # -- predicting ----------------------------------------------------------------------------------------------------

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        fit, prior = self._fitted(), self.kernel.diagonal(points) / self.regularization
        if fit is None:
            return np.zeros(len(prior)), prior
        similarity = self.kernel.gram(fit.points, points) / self.regularization
        with limit_blas_threads(float(fit.lower.size) * len(prior)):
            whitened = self._whitened(fit, similarity)
        squared = prior - np.einsum("mn,mn->n", whitened, whitened)
        return fit.residuals @ similarity, np.maximum(squared, ROUNDING * prior)

    def _whitened(self, fit: _Fit, similarity: Matrix) -> Matrix:
        whitened = np.ascontiguousarray(fit.roots[:, None] * similarity)
        solve_lower(fit.lower, whitened)
        return whitened

    def probabilities(self, points: Points, *, confidence: float = 0.95) -> Probabilities:
        """Return the probability of a reward of 1 at each point, with its interval.

        The interval is σ(mean ± z · width), with z from the normal distribution: exact for the approximate posterior.
        The expected probability is σ(mean / sqrt(1 + π width²/8)) (MacKay 1992), which is right to about 0.01.
        """
        prediction = self.predict(points)
        mean, width = prediction.mean, prediction.width
        reach = NormalDist().inv_cdf((1.0 + check_confidence(confidence)) / 2.0) * width
        expected = _sigmoid(mean / np.sqrt(1.0 + np.pi / 8.0 * width**2))
        return Probabilities(expected, _sigmoid(mean - reach), _sigmoid(mean + reach))

    def information(self, points: Points) -> Vector:
        """See `Posterior`: σ(f)(1 − σ(f)), the curvature of the likelihood of one more reward."""
        mean, _ = self._predict(self.kernel.kind.check(points))
        return _weights(np.ones(len(mean)), mean)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        others = points if others is None else self.kernel.kind.check(others)
        prior, fit = self.kernel.gram(points, others) / self.regularization, self._fitted()
        if fit is None:
            return prior
        left, right = (
            self._whitened(fit, self.kernel.gram(fit.points, some) / self.regularization) for some in (points, others)
        )
        with limit_blas_threads(float(left.size) * right.shape[1]):
            covariance = prior - left.T @ right
        check_no_overflow(covariance)
        return covariance

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """See `Posterior`; α = a / γ."""
        points, counts, sums = self.record.stored()
        fit = self._fitted()
        assert fit is not None
        return points, fit.residuals / self.regularization, counts, sums

    def _sections(self, others: Points) -> Sections:
        fit = self._fitted()
        assert fit is not None
        whitened = self._whitened(fit, self.kernel.gram(fit.points, others) / self.regularization)
        solve_lower_transposed(fit.lower, whitened)
        return Sections(fit.points, fit.residuals / self.regularization, fit.roots[:, None] * whitened)

    def weights_for(self, values: Matrix) -> Matrix:
        raise NotSupported(
            "Draws by features need Gaussian noise, and binary rewards have none. Take draws='joint' in KernelThompson."
        )

    @property
    def log_det_gain(self) -> float:
        fit = self._fitted()
        return 0.0 if fit is None else 2.0 * float(np.log(np.diagonal(fit.lower)).sum())

    @property
    def norm(self) -> float:
        """RKHS norm of the log-odds: sqrt(aᵀf / γ)."""
        fit = self._fitted()
        return 0.0 if fit is None else sqrt(max(0.0, float(fit.residuals @ fit.values) / self.regularization))

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        try:
            super().restore(state)
        except InvalidReward as error:
            raise DamagedFile(f"The sums of rewards in the file are not those of binary rewards: {error}") from error


def _reject_outside(rewards: Vector) -> None:
    if not ((rewards >= 0.0) & (rewards <= 1.0)).all():  # also catches NaN
        wrong = rewards[~((rewards >= 0.0) & (rewards <= 1.0))][0]
        raise InvalidReward(
            f"A reward of a logistic posterior must lie between 0 and 1, got {float(wrong)!r}. Scale the rewards, or "
            "take posterior='auto', which fits any number."
        )


def _sigmoid(values: Vector) -> Vector:
    """1 / (1 + exp(−f)), without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -values)))


def _weights(counts: Vector, values: Vector) -> Vector:
    """W = n σ(f)(1 − σ(f))."""
    return np.asarray(counts * np.exp(-np.logaddexp(0.0, -values) - np.logaddexp(0.0, values)))


def _balanced(prior: Matrix, roots: Vector) -> Matrix:
    balanced = roots[:, None] * prior * roots
    balanced[np.diag_indices_from(balanced)] += 1.0
    return balanced


def _mode(prior: Matrix, counts: Vector, sums: Vector, start: Vector) -> Vector:
    """Return a = s − nσ(f) at the mode f = prior · a; differences of nearly equal numbers are avoided."""
    failures = counts - sums

    def density(residuals: Vector, values: Vector) -> float:
        of_rewards = sums @ np.logaddexp(0.0, -values) + failures @ np.logaddexp(0.0, values)
        return float(-of_rewards - 0.5 * residuals @ values)

    residuals, values = start, prior @ start
    reached = density(residuals, values)
    if reached < density(np.zeros_like(start), np.zeros_like(start)):  # a start that is worse than none
        residuals, values = np.zeros_like(start), np.zeros_like(start)
        reached = density(residuals, values)
    for _ in range(STEPS):
        weights = _weights(counts, values)
        roots = np.sqrt(weights)
        target = weights * values + (sums * _sigmoid(-values) - failures * _sigmoid(values))
        solved = (roots * (prior @ target))[:, None]
        lower = cholesky(_balanced(prior, roots))
        solve_lower(lower, solved)
        solve_lower_transposed(lower, solved)
        step = target - roots * solved[:, 0] - residuals
        of_values, length = prior @ step, 1.0
        while True:
            trial, moved = residuals + length * step, values + length * of_values
            found = density(trial, moved)
            if found >= reached - 1e-12 * (1.0 + abs(reached)) or length < 1e-6:
                break
            length *= 0.5
        residuals, values, reached = trial, moved, found
        if np.abs(of_values).max(initial=0.0) <= CONVERGED * (1.0 + np.abs(values).max(initial=0.0)):
            return residuals
    raise NumericalError(f"The log-odds did not converge in {STEPS} steps. Take a larger regularization.")
