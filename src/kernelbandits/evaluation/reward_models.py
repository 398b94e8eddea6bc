"""Reward models for off-policy estimators, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import DistinctRounds, WeightedActions, gathered, parts, sizes_of, stacked
from kernelbandits.evaluation.targets import Target
from kernelbandits.posterior import Posterior
from kernelbandits.posterior._chunks import blocks
from kernelbandits.types import Indices, Points, Vector
from kernelbandits.validation import check_array, pluralize

__all__ = [
    "FittedModel",
    "GaussianRewards",
    "KernelRewards",
    "ModelValues",
    "ModelWithErrors",
    "RewardModel",
    "learn_log",
    "model_error",
    "model_values",
    "residual_variance",
]


class FittedModel(Protocol):
    """Interface of fitted reward models."""

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Return the expected reward of every action of each of these sets of actions."""


class RewardModel(Protocol):
    """Interface of reward models that can be fitted to a log; `DirectMethod` is one, and users can define others."""

    def fit(self, log: Log) -> FittedModel:
        """Fit the model to the logged actions and their rewards."""


@runtime_checkable
class ModelOfSome(FittedModel, Protocol):
    """Model that can predict single actions, so that actions of negligible probability need not be evaluated."""

    def predict_at(self, actions: WeightedActions) -> Vector:
        """Return the expected reward of each of these actions, regardless of its weight."""


class ModelValues(NamedTuple):
    """Predictions of a model for each round of a log."""

    of_policy: Vector
    """Σ_a π(a|x) r̂(x, a): the expected reward of the policy."""

    of_logged: Vector
    """r̂(x, a) of the logged action."""

    models: list[FittedModel]
    """One model per fold, fitted to the other folds; to the whole log if there is one fold."""

    fold_of: Indices
    """Fold of each round."""


def model_values(model: RewardModel, log: Log, target: Target, folds: int) -> ModelValues:
    """Return the predictions for every round from models of the other folds; of the whole log if there is one fold.

    Round t belongs to fold t mod `folds`.
    """
    if len(log) < folds:
        raise InvalidParameter(f"Every fold needs a round: there are {folds} folds and {pluralize(len(log), 'round')}.")
    of_policy, of_logged, models = np.empty(len(log)), np.empty(len(log)), []
    fold_of = np.arange(len(log)) % folds
    for fold in range(folds):
        own = np.flatnonzero(fold_of == fold)
        models.append(model.fit(log if folds == 1 else log[fold_of != fold]))
        which = target.rounds.which[own]
        taken = target.taken(np.unique(which))
        logged = WeightedActions(target.rounds.contexts, which, log.actions[own], np.ones(len(own)))
        means = _predicted(models[-1], taken + logged, target)
        expected = np.bincount(taken.which, taken.weights * means[: len(taken)], minlength=len(target.rounds))
        of_policy[own], of_logged[own] = expected[which], means[len(taken) :]
    return ModelValues(of_policy, of_logged, models, fold_of)


def _predicted(fitted: FittedModel, actions: WeightedActions, target: Target) -> Vector:
    """Return the predictions for some actions, from whole sets if the model supports no other query."""
    if isinstance(fitted, ModelOfSome):
        return fitted.predict_at(actions)
    places, which = np.unique(actions.which, return_inverse=True)
    means = _checked_means(fitted.predict([actions.rounds[place] for place in places]), target, places)
    return np.array([means[place][action] for place, action in zip(which, actions.actions, strict=True)])


def _checked_means(means: Sequence[Vector], target: Target, places: Indices) -> list[Vector]:
    """Return the predictions; raise InvalidParameter unless there is a finite number for each action of each set."""
    if len(means) != len(places):
        raise InvalidParameter(
            f"A model must predict every round, got {len(means)} predictions for {len(places)} rounds."
        )
    rows = [check_array(row, "Rewards that a model predicts") for row in means]
    for row, place in zip(rows, places, strict=True):
        if row.shape != target.probabilities[place].shape or not np.isfinite(row).all():
            raise InvalidParameter(
                f"A model predicts one finite reward for each of the {len(target.probabilities[place])} actions of a "
                f"round, got {row!r:.80}."
            )
    return rows


WIDTHS: Final = 2_000
"""Number of points whose widths are averaged to estimate the degrees of freedom of a fit."""


class KernelRewards:
    """Reward model given by the means of a posterior: the ridge estimate in the feature space of its kernel."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Return the expected reward of every action of each of these sets of actions, in blocks of rounds."""
        sizes, means = sizes_of(rounds), []
        for part in parts(sizes):
            ends = np.cumsum(sizes[part])[:-1]
            means += np.split(_means_of(self.posterior, stacked(self.posterior.kernel.kind, rounds[part])), ends)
        return means

    def predict_at(self, actions: WeightedActions) -> Vector:
        """Return the expected reward of each of these actions."""
        kind = self.posterior.kernel.kind
        return _means_of(self.posterior, gathered(kind, actions.rounds, actions.which, actions.actions))


class GaussianRewards(KernelRewards):
    """Means of a posterior with error covariances under a Gaussian-process prior.

    The process has the covariance (σ²/γ) k and the rewards have noise of variance σ². Its posterior mean is the ridge
    estimate for any σ, and its posterior covariance is σ² times `Posterior.covariance`.

    Parameters
    ----------
    posterior
        Fitted posterior.
    logged
        The points that it was fitted to, one per reward.
    rewards
        Reward of each of them.
    noise_variance
        σ²; None estimates it from the residuals.
    """

    def __init__(self, posterior: Posterior, logged: Points, rewards: Vector, noise_variance: float | None) -> None:
        super().__init__(posterior)
        self._logged, self._rewards, self._given = logged, rewards, noise_variance

    @cached_property
    def noise_variance(self) -> float:
        """σ², as given or estimated from the residuals."""
        return residual_variance(self.posterior, self._logged, self._rewards) if self._given is None else self._given

    def error_covariance(self, summed: WeightedActions, others: WeightedActions) -> Vector:
        """Return the error covariance of a weighted sum of rewards with each other action, divided by σ²."""
        kind = self.posterior.kernel.kind
        points, theirs = (gathered(kind, one.rounds, one.which, one.actions) for one in (summed, others))
        return self.posterior.covariance_of_sum(points, summed.weights, theirs)


def _means_of(posterior: Posterior, points: Points) -> Vector:
    """Return means only: widths would cost the square of the number of points, and are not needed here."""
    kernel = posterior.kernel
    n_features = kernel.n_features(points)
    if n_features is not None and n_features <= posterior.size:
        return posterior.predict(points).mean
    known, weights, _, _ = posterior.support()
    means = [kernel.gram(part, known) @ weights for _, part in blocks(kernel.kind, points, posterior.size)]
    return np.concatenate(means)


def residual_variance(posterior: Posterior, points: Points, rewards: Vector) -> float:
    """Estimate the noise variance from the residuals: Σ (r − r̂)² / (n − Σ width²), sums over the observations.

    Σ width² = tr K(K + γI)⁻¹ is the number of degrees of freedom of the fit; for more than 2,000 observations it is
    estimated from 2,000, evenly spaced. If the fit leaves less than one residual degree of freedom, the residuals are
    uninformative, and the size of the rewards is used: Σ r (r − r̂) / n = γ rᵀ(K + γI)⁻¹r / n. Both are unbiased if the
    rewards are drawn from the process that the posterior assumes, and too high if the regularization oversmooths.

    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.posterior import ExactPosterior
    >>> posterior = ExactPosterior(Delta(), regularization=1.0)
    >>> posterior.observe(["a", "a", "a"], [0.0, 1.0, 2.0])
    >>> round(residual_variance(posterior, ["a", "a", "a"], np.array([0.0, 1.0, 2.0])), 4)  # 2.1875 / (3 − 3/4)
    0.9722
    """
    n_rewards = len(rewards)
    some = np.linspace(0, n_rewards - 1, min(n_rewards, WIDTHS)).round().astype(np.intp)
    widths = posterior.predict(posterior.kernel.kind.take(posterior.kernel.kind.check(points), some)).width
    left = n_rewards * (1.0 - float(np.mean(widths**2)))
    residuals = rewards - _means_of(posterior, points)
    if left < 1.0:
        return max(0.0, float(rewards @ residuals)) / n_rewards
    return float(residuals @ residuals) / left


def learn_log(posterior: Posterior, log: Log) -> Points:
    """Let a posterior observe all logged rewards in one call, in the order of the log; return the points."""
    rounds = DistinctRounds.of_log(log)
    logged = gathered(posterior.kernel.kind, rounds.contexts, rounds.which, log.actions)
    posterior.observe(logged, log.rewards)
    return logged


ACTIONS_AT_MOST: Final = 10_000
"""Largest number of sampled actions per fold: their pairwise similarities take seconds."""


@runtime_checkable
class ModelWithErrors(FittedModel, Protocol):
    """Fitted model that is linear in its rewards and provides error covariances."""

    @property
    def noise_variance(self) -> float:
        """Variance σ² of a reward around its expectation."""

    def error_covariance(self, summed: WeightedActions, others: WeightedActions) -> Vector:
        """Return the error covariance of a weighted sum of rewards with each other action, divided by σ²."""


def model_error(
    values: ModelValues, log: Log, target: Target, weights: Vector, *, most_actions: int = ACTIONS_AT_MOST
) -> tuple[float, float] | None:
    """Return variance of the value's error given the rounds, and its covariance with the mean of the logged rewards.

    The error is that of (1/n) Σ_t [Σ_a π(a|x_t) r̂(x_t, a) + w_t (r_t − r̂(x_t, a_t))] around the policy's expected
    reward in the rounds of the log; None if a model provides no errors.

    The value is linear in the rewards, Σ_t c_t r_t. With ν = (1/n) Σ_t Σ_a π(a|x_t) δ(x_t, a) − Σ_t c_t δ(x_t, a_t) its
    error is Σ c ε − ν(f): the noise, and the part of the reward function that the weights do not recover. If f is a
    Gaussian process with covariance (σ²/γ) k,

        variance = σ² (Σ c_t² + ‖ν‖² / γ),   ‖ν‖² = Σ_ij ν_i ν_j k(z_i, z_j),

    and the noise of the mean reward, Σ ε / n, has the covariance σ² Σ c_t / n with it.

    Let h_f(z) be the covariance of the error of fold f's part of the value with that at z, divided by σ², both by the
    model of the other folds. Then c_t = w_t/n + Σ_f h_f(x_t, a_t) over the models fitted to round t, and
    ‖ν‖²/γ = ν(Σ_f h_f), so folds whose models share rewards, and one function, are not treated as independent. For one
    fold without corrections the result is the posterior variance of the mean, σ² Σ_ij w_i w_j Cov(z_i, z_j).

    In a fold with more than `most_actions` actions that the policy may take, as many are drawn by weight. The result is
    then too high on average: the fewer the actions, the less their errors cancel.
    """
    models = [model for model in values.models if isinstance(model, ModelWithErrors)]
    if len(models) < len(values.models):
        return None
    n_folds = len(models)
    evaluated = [_evaluated(target, values.fold_of == fold, most_actions) for fold in range(n_folds)]
    logged = WeightedActions(target.rounds.contexts, target.rounds.which, log.actions, weights / len(log))
    everything = sum(evaluated[1:], evaluated[0]) + logged
    n_evaluated = len(everything) - len(logged)
    of_sum, coefficients = np.zeros(len(everything)), logged.weights.copy()
    for fold, model in enumerate(models):
        is_own = values.fold_of == fold
        corrected = logged.at(np.flatnonzero(is_own & (weights != 0.0)))
        covariance = model.error_covariance(evaluated[fold] + corrected.scaled(-1.0), everything)
        of_sum += covariance
        has_learned = np.full(len(log), True) if n_folds == 1 else ~is_own
        coefficients[has_learned] += covariance[n_evaluated:][has_learned]
    left = everything.weights[:n_evaluated] @ of_sum[:n_evaluated] - coefficients @ of_sum[n_evaluated:]
    noise_variance = float(np.mean([model.noise_variance for model in models]))
    variance = noise_variance * max(0.0, float(coefficients @ coefficients + left))
    return variance, noise_variance * float(coefficients.mean())


def _evaluated(target: Target, is_own: NDArray[np.bool_], most_actions: int) -> WeightedActions:
    """Return the actions of the policy in some rounds of the log, each set once: Σ weight = rounds / all rounds."""
    places, times = np.unique(target.rounds.which[is_own], return_counts=True)
    taken = target.taken(places)
    share = np.bincount(places, times / len(is_own), minlength=len(target.rounds))
    return replace(taken, weights=share[taken.which] * taken.weights).thinned(most_actions)
