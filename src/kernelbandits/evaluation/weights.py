"""How much each logged round says about a policy: importance weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import positive
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.arguments import a_log, a_policy
from kernelbandits.evaluation.distinct_rounds import DistinctRounds
from kernelbandits.evaluation.weighted_actions import WeightedActions
from kernelbandits.policies.base import Policy
from kernelbandits.types import Indices, Vector

__all__ = ["Target", "checked_clip", "clipped", "effective_sample_size"]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What a policy would do in the rounds of a log; it is asked, and learns nothing.

    The weight of a round is π(a|x) / p: the policy's probability of the action shown over the logging rule's.

    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[0.25, 0.75], rewards=[1.0, 0.0])
    >>> Target.of(log, UniformRandom()).weights.round(3)
    array([2.   , 0.667])
    """

    rounds: DistinctRounds
    probabilities: list[Vector]
    """Of every action, for each different set of actions."""

    weights: Vector
    """Importance weight of each round of the log."""

    @classmethod
    def of(cls, log: Log, policy: Policy) -> Target:
        """Ask the policy about every different set of actions once."""
        a_policy(policy, "probabilities_many")
        if not len(a_log(log)):
            raise InvalidParameter("A log without rounds says nothing about a policy. Give one with at least one.")
        rounds = DistinctRounds.of_log(log)
        probabilities = rounds.probabilities(policy)
        shown = [probabilities[place][action] for place, action in zip(rounds.which, log.actions, strict=True)]
        return cls(rounds, probabilities, np.array(shown) / log.propensities)

    def taken(self, places: Indices) -> WeightedActions:
        """The actions that the policy may take in each of these different sets, weighted by its probabilities."""
        rows = [np.flatnonzero(self.probabilities[place]) for place in places]
        weights = [self.probabilities[place][row] for place, row in zip(places, rows, strict=True)]
        which = np.repeat(places, [len(row) for row in rows])
        return WeightedActions(self.rounds.contexts, which, np.concatenate(rows), np.concatenate(weights))

    @property
    def n_matched(self) -> int:
        """Rounds whose action the policy might have taken."""
        return int(np.count_nonzero(self.weights))


def effective_sample_size(weights: Vector) -> float:
    """Rounds of equal weight that would say as much: (Σw)² / Σw²; 0 where all weights are.

    >>> effective_sample_size(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def clipped(weights: Vector, clip: float | None) -> Vector:
    """Weights, none above `clip`: less variance, and a value that is too low where rewards are positive."""
    return weights if clip is None else np.minimum(weights, clip)


def checked_clip(clip: float | None) -> float | None:
    """The largest weight as a float, None where there is none, or InvalidParameter."""
    return None if clip is None else positive(clip, "The largest weight", "None clips no weight.")
