"""Reward models for off-policy estimators, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import sqrt
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import DistinctRounds, WeightedActions, gathered, parts, sizes_of, stacked
from kernelbandits.evaluation.off_policy import MODEL_TRUSTED, MODEL_UNKNOWN, Target, mean_with_error
from kernelbandits.posterior import Posterior
from kernelbandits.posterior._chunks import blocks
from kernelbandits.types import Indices, Points, Vector
from kernelbandits.validation import an_array, counted

__all__ = [
    "FittedModel",
    "GaussianRewards",
    "KernelRewards",
    "ModelValues",
    "ModelWithErrors",
    "RewardModel",
    "error_with_model",
    "learn_log",
    "model_values",
    "model_variance",
    "residual_variance",
]


class FittedModel(Protocol):
    """Rewards as a model sees them."""

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Expected reward of every action of each of these sets of actions."""


class RewardModel(Protocol):
    """A way to learn rewards from a log; `DirectMethod` is one, and your own can be another."""

    def fit(self, log: Log) -> FittedModel:
        """Learn from what was shown and paid."""


@runtime_checkable
class ModelOfSome(FittedModel, Protocol):
    """A model that need not be asked about whole sets, which spares those that a policy would hardly ever take."""

    def predict_at(self, actions: WeightedActions) -> Vector:
        """Expected reward of each of these actions, whatever its weight."""


class ModelValues(NamedTuple):
    """What a model says of each round of a log."""

    of_policy: Vector
    """Σ_a π(a|x) r̂(x, a): the reward that the policy could expect."""

    of_shown: Vector
    """r̂(x, a) of the action shown."""

    models: list[FittedModel]
    """One a fold, which has learnt from the other folds; from the whole log where there is one fold."""

    fold_of: Indices
    """Fold of each round."""


def model_values(model: RewardModel, log: Log, target: Target, folds: int) -> ModelValues:
    """What a model says of every round, learnt from the other folds only; from the whole log where there is one fold.

    Round t belongs to fold t mod `folds`.
    """
    if len(log) < folds:
        raise InvalidParameter(f"Every fold needs a round: there are {folds} folds and {counted(len(log), 'round')}.")
    of_policy, of_shown, models = np.empty(len(log)), np.empty(len(log)), []
    fold_of = np.arange(len(log)) % folds
    for fold in range(folds):
        own = np.flatnonzero(fold_of == fold)
        models.append(model.fit(log if folds == 1 else log[fold_of != fold]))
        which = target.rounds.which[own]
        taken = target.taken(np.unique(which))
        shown = WeightedActions(target.rounds.contexts, which, log.actions[own], np.ones(len(own)))
        means = _predicted(models[-1], taken + shown, target)
        expected = np.bincount(taken.which, taken.weights * means[: len(taken)], minlength=len(target.rounds))
        of_policy[own], of_shown[own] = expected[which], means[len(taken) :]
    return ModelValues(of_policy, of_shown, models, fold_of)


def _predicted(fitted: FittedModel, actions: WeightedActions, target: Target) -> Vector:
    """What a model says of some actions, from whole sets where it knows no other way."""
    if isinstance(fitted, ModelOfSome):
        return fitted.predict_at(actions)
    places, which = np.unique(actions.which, return_inverse=True)
    means = _checked_means(fitted.predict([actions.rounds[place] for place in places]), target, places)
    return np.array([means[place][action] for place, action in zip(which, actions.actions, strict=True)])


def _checked_means(means: Sequence[Vector], target: Target, places: Indices) -> list[Vector]:
    """What a model says, a finite number for each action of each set, or InvalidParameter."""
    if len(means) != len(places):
        raise InvalidParameter(
            f"A model answers for every round: it was asked for {len(places)}, and told {len(means)}."
        )
    rows = [an_array(row, "Rewards that a model predicts") for row in means]
    for row, place in zip(rows, places, strict=True):
        if row.shape != target.probabilities[place].shape or not np.isfinite(row).all():
            raise InvalidParameter(
                f"A model predicts one finite reward for each of the {len(target.probabilities[place])} actions of a "
                f"round, got {row!r:.80}."
            )
    return rows


WIDTHS: Final = 2_000
"""Points whose widths are averaged to count the degrees of freedom that a fit has used."""


class KernelRewards:
    """Means of a posterior: the ridge estimate in the feature space of its kernel."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Expected reward of every action of each of these sets of actions, a few rounds at a time."""
        sizes, means = sizes_of(rounds), []
        for part in parts(sizes):
            ends = np.cumsum(sizes[part])[:-1]
            means += np.split(_means_of(self.posterior, stacked(self.posterior.kernel.kind, rounds[part])), ends)
        return means

    def predict_at(self, actions: WeightedActions) -> Vector:
        """Expected reward of each of these actions."""
        kind = self.posterior.kernel.kind
        return _means_of(self.posterior, gathered(kind, actions.rounds, actions.which, actions.actions))


class GaussianRewards(KernelRewards):
    """Means of a posterior and their errors, had the rewards been drawn from a Gaussian process.

    The process has the covariance (σ²/γ) k and the rewards noise of variance σ². Its posterior has the ridge estimate
    as its mean, whatever σ is, and σ² times `Posterior.covariance` as its covariance.

    Parameters
    ----------
    posterior
        After learning.
    shown
        The points that it has learnt from, a reward each.
    rewards
        What was paid for each of them.
    noise_variance
        σ²; None estimates it from the residuals.
    """

    def __init__(self, posterior: Posterior, shown: Points, rewards: Vector, noise_variance: float | None) -> None:
        super().__init__(posterior)
        self._shown, self._rewards, self._given = shown, rewards, noise_variance

    @cached_property
    def noise_variance(self) -> float:
        """σ², as given or from the residuals."""
        return residual_variance(self.posterior, self._shown, self._rewards) if self._given is None else self._given

    def error_covariance(self, summed: WeightedActions, others: WeightedActions) -> Vector:
        """Covariance of the error of a weighted sum of rewards with that at each other action, divided by σ²."""
        kind = self.posterior.kernel.kind
        points, theirs = (gathered(kind, one.rounds, one.which, one.actions) for one in (summed, others))
        return self.posterior.covariance_of_sum(points, summed.weights, theirs)


def _means_of(posterior: Posterior, points: Points) -> Vector:
    """Means alone: widths would take as long as the number of points squared, and nobody asks for them."""
    kernel = posterior.kernel
    n_features = kernel.n_features(points)
    if n_features is not None and n_features <= posterior.size:
        return posterior.predict(points).mean
    known, weights, _, _ = posterior.support()
    means = [kernel.gram(part, known) @ weights for _, part in blocks(kernel.kind, points, posterior.size)]
    return np.concatenate(means)


def residual_variance(posterior: Posterior, points: Points, rewards: Vector) -> float:
    """Variance of the noise, from what the fit leaves: Σ (r − r̂)² / (n − Σ width²), sums over what was learnt.

    Σ width² = tr K(K + γI)⁻¹ is the number of parameters that the fit has used; of more than 2,000 observations it is
    estimated from as many, evenly spread. Where the fit leaves less than one of n observations, the residuals are too
    small to tell, and the size of the rewards does: Σ r (r − r̂) / n = γ rᵀ(K + γI)⁻¹r / n. Both are unbiased where the
    rewards are drawn from the process that the posterior assumes, and too high where the regularization flattens what
    is there.

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
    """Let a posterior observe every action shown with its reward, in the order of the log, in one call; gives them."""
    rounds = DistinctRounds.of_log(log)
    shown = gathered(posterior.kernel.kind, rounds.contexts, rounds.which, log.actions)
    posterior.observe(shown, log.rewards)
    return shown


ACTIONS_AT_MOST: Final = 10_000
"""Actions that stand for all that a policy takes in a fold: their similarities to each other take seconds."""


@runtime_checkable
class ModelWithErrors(FittedModel, Protocol):
    """A fitted model that is linear in the rewards it has learnt, and knows how far off it may be."""

    @property
    def noise_variance(self) -> float:
        """Variance σ² of a reward around its expectation."""

    def error_covariance(self, summed: WeightedActions, others: WeightedActions) -> Vector:
        """Covariance of the error of a weighted sum of rewards with that at each other action, divided by σ²."""


def error_with_model(without: float, said: ModelValues, log: Log, target: Target, weights: Vector) -> tuple[float, str]:
    """Standard error of (1/n) Σ_t [Σ_a π(a|x_t) r̂(x_t, a) + w_t (r_t − r̂(x_t, a_t))], and what it takes for granted.

    Its square is the variance of the rounds' expected rewards over n, as if the model were right, plus the variance of
    what the model and the rewards err for the rounds that there are. Where a model knows no errors, it is the error
    `without` them.
    """
    of_model = model_variance(said, log, target, weights)
    if of_model is None:
        return without, MODEL_UNKNOWN
    _, of_rounds = mean_with_error(said.of_policy)
    return sqrt(of_rounds**2 + of_model), MODEL_TRUSTED


def model_variance(said: ModelValues, log: Log, target: Target, weights: Vector) -> float | None:
    """Variance of the value around the policy's expected reward in the very rounds of the log.

    The value is linear in the rewards, Σ_t c_t r_t. With ν = (1/n) Σ_t Σ_a π(a|x_t) δ(x_t, a) − Σ_t c_t δ(x_t, a_t) it
    errs by Σ c ε − ν(f): the noise it was made of, and what the weights leave of the reward function. If f is a
    Gaussian process of covariance (σ²/γ) k,

        variance = σ² (Σ c_t² + ‖ν‖² / γ),   ‖ν‖² = Σ_ij ν_i ν_j k(z_i, z_j).

    Let h_f(z) be the covariance of the error of fold f's part of the value with that at z, divided by σ², both by the
    model of the other folds. Then c_t = w_t/n + Σ_f h_f(x_t, a_t) over the models that have learnt round t, and
    ‖ν‖²/γ = ν(Σ_f h_f), so that folds whose models share rewards, and one function, are not taken for independent. Of
    one fold without corrections nothing is left but the posterior variance of the mean, σ² Σ_ij w_i w_j Cov(z_i, z_j).

    In a fold of more than 10,000 actions that the policy may take as many, drawn by their weights, stand for all, which
    errs upwards on average: the fewer the actions, the less their errors cancel.
    """
    models = [model for model in said.models if isinstance(model, ModelWithErrors)]
    if len(models) < len(said.models):
        return None
    n_folds = len(models)
    asked = [_asked(target, said.fold_of == fold) for fold in range(n_folds)]
    shown = WeightedActions(target.rounds.contexts, target.rounds.which, log.actions, weights / len(log))
    everything = sum(asked[1:], asked[0]) + shown
    n_asked = len(everything) - len(shown)
    of_sum, coefficients = np.zeros(len(everything)), shown.weights.copy()
    for fold, model in enumerate(models):
        is_own = said.fold_of == fold
        corrected = shown.at(np.flatnonzero(is_own & (weights != 0.0)))
        covariance = model.error_covariance(asked[fold] + corrected.scaled(-1.0), everything)
        of_sum += covariance
        has_learnt = np.full(len(log), True) if n_folds == 1 else ~is_own
        coefficients[has_learnt] += covariance[n_asked:][has_learnt]
    left = everything.weights[:n_asked] @ of_sum[:n_asked] - coefficients @ of_sum[n_asked:]
    noise_variance = float(np.mean([model.noise_variance for model in models]))
    return noise_variance * max(0.0, float(coefficients @ coefficients + left))


def _asked(target: Target, is_own: NDArray[np.bool_]) -> WeightedActions:
    """What the policy takes in some rounds of the log, each set of actions once: Σ weight = rounds / all rounds."""
    places, times = np.unique(target.rounds.which[is_own], return_counts=True)
    taken = target.taken(places)
    share = np.bincount(places, times / len(is_own), minlength=len(target.rounds))
    return replace(taken, weights=share[taken.which] * taken.weights).thinned(ACTIONS_AT_MOST)
