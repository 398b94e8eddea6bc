"""Weighted sums over the actions of many rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kernelbandits.types import Indices, Points, Vector

__all__ = ["WeightedActions"]

THINNING_SEED: Final = 0
"""The same actions stand for all whenever the same question is asked."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightedActions:
    """Actions of some rounds, each with a weight: Σ weight · reward is what a policy earns, or a model gets wrong.

    >>> sets = [["a", "b"], ["c"]]
    >>> both = WeightedActions(sets, np.array([0, 1]), np.array([1, 0]), np.array([0.25, 0.75]))
    >>> (both + both.scaled(-2.0)).weights
    array([ 0.25,  0.75, -0.5 , -1.5 ])
    """

    rounds: Sequence[Points]
    """Sets of actions."""

    which: Indices
    """Place of each action's set among the rounds."""

    actions: Indices
    """Its row there."""

    weights: Vector

    def __len__(self) -> int:
        return len(self.weights)

    def __add__(self, other: WeightedActions) -> WeightedActions:
        """All of both, which are of the same rounds."""
        return WeightedActions(
            self.rounds,
            np.concatenate([self.which, other.which]),
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.weights, other.weights]),
        )

    def at(self, places: Indices) -> WeightedActions:
        """Those at some places, which may be repeated."""
        return WeightedActions(self.rounds, self.which[places], self.actions[places], self.weights[places])

    def scaled(self, factor: float) -> WeightedActions:
        """The same with other weights."""
        return replace(self, weights=factor * self.weights)

    def thinned(self, most: int) -> WeightedActions:
        """At most so many of them with the same sum of weights, which are not negative.

        Where there are more, the cumulated weight is cut into as many equal parts, and an action drawn by its weight
        stands for each: every share is right on average. Even steps would meet the same row of every round where sets
        are of one size, and never the others.

        >>> many = WeightedActions([["a", "b"]] * 4, np.arange(4), np.zeros(4, dtype=int), np.array([1.0, 1, 1, 3]))
        >>> many.thinned(2).which, many.thinned(2).weights
        (array([1, 3]), array([3., 3.]))
        """
        if len(self) <= most:
            return self
        ends = np.cumsum(self.weights)
        steps = (np.arange(most) + np.random.default_rng(THINNING_SEED).random(most)) * (ends[-1] / most)
        places = np.minimum(np.searchsorted(ends, steps, side="right"), len(self) - 1)
        return replace(self.at(places), weights=np.full(most, ends[-1] / most))
