"""Models of the reward that estimators lean on, and what they say of the rounds of a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np

from kernelbandits.checks import an_array, counted
from kernelbandits.environments import Log
from kernelbandits.environments.action_rows import n_points
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.distinct_rounds import DistinctRounds, points_of
from kernelbandits.evaluation.weights import Target
from kernelbandits.kernels import PointKind
from kernelbandits.posterior import Posterior
from kernelbandits.posterior.blocks import blocks
from kernelbandits.types import Indices, Points, Vector

__all__ = ["FittedModel", "KernelRewards", "ModelValues", "RewardModel", "learn_log", "model_values"]

POINTS_AT_ONCE: Final = 65_536
"""Actions of different rounds that are stacked together: some tens of megabytes of rows."""


class FittedModel(Protocol):
    """Rewards as a model sees them."""

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Expected reward of every action of each of these sets of actions."""


class RewardModel(Protocol):
    """A way to learn rewards from a log; `DirectMethod` is one, and your own can be another."""

    def fit(self, log: Log) -> FittedModel:
        """Learn from what was shown and paid."""


class ModelValues(NamedTuple):
    """What a model says of each round of a log."""

    of_policy: Vector
    """Σ_a π(a|x) r̂(x, a): the reward that the policy could expect."""

    of_shown: Vector
    """r̂(x, a) of the action shown."""


class KernelRewards:
    """Means of a posterior: the ridge estimate in the feature space of its kernel."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Expected reward of every action of each of these sets of actions, a few rounds at a time."""
        sizes, means = _sizes(rounds), []
        for part in _parts(sizes):
            ends = np.cumsum(sizes[part])[:-1]
            means += np.split(self._means(_stacked(self.posterior.kernel.kind, rounds[part])), ends)
        return means

    def _means(self, points: Points) -> Vector:
        """Means alone: widths would take as long as the number of points squared, and nobody asks for them."""
        posterior, kernel = self.posterior, self.posterior.kernel
        n_features = kernel.n_features(points)
        if n_features is not None and n_features <= posterior.size:
            return posterior.predict(points).mean
        known, weights, _, _ = posterior.support()
        means = [kernel.gram(part, known) @ weights for _, part in blocks(kernel.kind, points, posterior.size)]
        return np.concatenate(means)


def learn_log(posterior: Posterior, log: Log) -> None:
    """Let a posterior observe every action shown with its reward, in the order of the log, in one call."""
    kind, rounds = posterior.kernel.kind, DistinctRounds(log)
    sizes = _sizes(rounds.contexts)
    starts = np.cumsum(sizes) - sizes  # of each set, had all been stacked
    shown, owners = [], []
    for part in _parts(sizes):
        own = np.flatnonzero((rounds.which >= part.start) & (rounds.which < part.stop))
        rows = starts[rounds.which[own]] + log.actions[own] - starts[part.start]
        shown.append(kind.take(_stacked(kind, rounds.contexts[part]), rows))
        owners.append(own)
    in_order = np.argsort(np.concatenate(owners))
    posterior.observe(kind.take(kind.stack(*shown), in_order), log.rewards)


def model_values(model: RewardModel, log: Log, target: Target, folds: int) -> ModelValues:
    """What a model says of every round, learnt from the other folds only; from the whole log where there is one fold.

    Round t belongs to fold t mod `folds`.
    """
    if len(log) < folds:
        raise InvalidParameter(f"Every fold needs a round: there are {folds} folds and {counted(len(log), 'round')}.")
    of_policy, of_shown = np.empty(len(log)), np.empty(len(log))
    fold_of = np.arange(len(log)) % folds
    for fold in range(folds):
        own = np.flatnonzero(fold_of == fold)
        fitted = model.fit(log if folds == 1 else log[fold_of != fold])
        places, which = np.unique(target.rounds.which[own], return_inverse=True)
        means = _checked_means(fitted.predict([target.rounds.contexts[place] for place in places]), target, places)
        expected = [float(target.probabilities[place] @ row) for place, row in zip(places, means, strict=True)]
        of_policy[own] = np.array(expected)[which]
        of_shown[own] = [means[place][action] for place, action in zip(which, log.actions[own], strict=True)]
    return ModelValues(of_policy, of_shown)


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


def _sizes(rounds: Sequence[Points]) -> Indices:
    return np.array([n_points(contexts) for contexts in rounds], dtype=np.intp)


def _parts(sizes: Indices) -> Iterator[slice]:
    """Rounds in a row that have about so many points together."""
    block_of = np.cumsum(sizes) // POINTS_AT_ONCE
    ends = [*(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(sizes)]
    for first, last in pairwise([0, *ends]):
        yield slice(first, last)


def _stacked(kind: PointKind, rounds: Sequence[Points]) -> Points:
    return kind.stack(*(points_of(kind, contexts) for contexts in rounds))
