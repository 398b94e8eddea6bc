"""Models of the reward that estimators lean on, and what they say of the rounds of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kernelbandits.checks import an_array, counted
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.weighted_actions import WeightedActions
from kernelbandits.evaluation.weights import Target
from kernelbandits.types import Indices, Points, Vector

__all__ = ["FittedModel", "ModelValues", "RewardModel", "model_values"]


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
