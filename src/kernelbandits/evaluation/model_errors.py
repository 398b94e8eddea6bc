"""What a model of the rewards adds to the error of an estimate that leans on it."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments import Log
from kernelbandits.evaluation.diagnosis import MODEL_TRUSTED, MODEL_UNKNOWN
from kernelbandits.evaluation.estimate import mean_with_error
from kernelbandits.evaluation.reward_models import FittedModel, ModelValues
from kernelbandits.evaluation.weighted_actions import WeightedActions
from kernelbandits.evaluation.weights import Target
from kernelbandits.types import Vector

__all__ = ["ModelWithErrors", "error_with_model", "model_variance"]

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
