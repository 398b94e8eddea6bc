"""Target policies of off-policy estimators: probabilities and importance weights in the rounds of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.environments.base import row_of
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import (
    DistinctRounds,
    WeightedActions,
    check_log,
    check_log_to_judge,
    check_policy,
)
from kernelbandits.policies.base import Policy
from kernelbandits.types import Indices, Matrix, Vector
from kernelbandits.validation import is_one_of, short_repr

__all__ = ["Behavior", "Place", "Target", "checked_behavior", "places_of"]

Behavior: TypeAlias = Literal["standard", "cascade", "independent"]
"""Assumption on the reward at a place: it depends on the slate, on the actions down to the place, or on its action."""

BEHAVIORS: Final = ("standard", "cascade", "independent")


def checked_behavior(behavior: Behavior) -> Behavior:
    """Return the behavior, or raise InvalidParameter."""
    if not is_one_of(behavior, BEHAVIORS):
        raise InvalidParameter(
            f"The behavior must be 'standard', 'cascade' or 'independent', got {short_repr(behavior)}: the reward at a "
            "place depends on the whole slate, on the actions down to the place, or on its action alone."
        )
    return behavior


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Probabilities of a target policy in the rounds of a log; the policy is queried and does not learn.

    The weight of a round is π(a|x) / p: the policy's probability of the logged action, divided by the logging policy's.

    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[0.25, 0.75], rewards=[1.0, 0.0])
    >>> Target.of(log, UniformRandom()).weights.round(3)
    array([2.   , 0.667])
    """

    rounds: DistinctRounds
    probabilities: list[Vector]
    """Probabilities of all actions, for each distinct set of actions."""

    weights: Vector
    """Importance weight of each round of the log."""

    @classmethod
    def of(cls, log: Log, policy: Policy) -> Target:
        """Query the policy once for every distinct set of actions."""
        check_policy(policy, "probabilities_many")
        rounds = DistinctRounds.of_log(check_log(check_log_to_judge(log)))
        probabilities = rounds.probabilities(policy)
        logged = [probabilities[place][action] for place, action in zip(rounds.which, log.actions, strict=True)]
        return cls(rounds, probabilities, np.array(logged) / log.propensities)

    def taken(self, places: Indices) -> WeightedActions:
        """Return the actions with positive probability in these sets, weighted by their probabilities."""
        rows = [np.flatnonzero(self.probabilities[place]) for place in places]
        weights = [self.probabilities[place][row] for place, row in zip(places, rows, strict=True)]
        which = np.repeat(places, [len(row) for row in rows])
        return WeightedActions(self.rounds.contexts, which, np.concatenate(rows), np.concatenate(weights))

    @property
    def n_matched(self) -> int:
        """Number of rounds whose action has positive probability under the policy."""
        return int(np.count_nonzero(self.weights))


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One place of the slates of a log with the target there, as for a log of single actions."""

    log: Log
    target: Target


def places_of(log: Log, policy: Policy, behavior: Behavior, *, has_model: bool) -> list[Place]:
    """Return the places of the slates of a log; a log of single actions is one place.

    The weights of place l are products over the places above and l for "cascade", over all places for "standard", and
    the ratio of the probabilities of the action at place l, whatever is above it, for "independent". `has_model` also
    computes the policy's probabilities of all actions at each place, over which a model averages.
    """
    if check_log_to_judge(log).k is None:
        return [Place(log, Target.of(log, policy))]
    check_policy(policy, "slate_probabilities", "place_probabilities")
    rounds, k = DistinctRounds.of_log(log), log.actions.shape[1]
    at_places: list[Matrix] = []
    if has_model or behavior == "independent":
        at_places = rounds.place_probabilities(policy, k)
    if behavior == "independent":
        weights = _independent_weights(log, rounds, at_places)
    else:
        weights = np.asarray(np.cumprod(_given_places(log, rounds, policy) / log.propensities, axis=1))
        if behavior == "standard":
            weights = np.repeat(weights[:, -1:], k, axis=1)
    return [
        Place(log.at_place(place), Target(rounds, [each[place] for each in at_places], weights[:, place]))
        for place in range(k)
    ]


def _given_places(log: Log, rounds: DistinctRounds, policy: Policy) -> Matrix:
    """Return the policy's probability of each place of the logged slates, given the places above it."""
    given, known = np.empty(log.actions.shape), dict[tuple[int, ...], Vector]()
    for t, (place, actions) in enumerate(zip(rounds.which.tolist(), log.actions.tolist(), strict=True)):
        key = (place, *actions)
        if key not in known:
            rows = [row_of(rounds.contexts[place], action) for action in actions]
            known[key] = policy.slate_probabilities(rounds.contexts[place], rows, ids=rounds.ids[place])
        given[t] = known[key]
    return given


def _independent_weights(log: Log, rounds: DistinctRounds, at_places: list[Matrix]) -> Matrix:
    if log.place_propensities is None:
        raise InvalidParameter(
            "behavior='independent' divides by the probability of the logged action at its place, whatever was above "
            "it, and the log has no place_propensities. Log them: collect_log(…, place_propensities=True), or "
            "policy.place_probabilities(contexts, k) of the logging policy. behavior='cascade' does not need them."
        )
    places = np.arange(log.actions.shape[1])
    probabilities = [at_places[own][places, actions] for own, actions in zip(rounds.which, log.actions, strict=True)]
    return np.asarray(np.array(probabilities) / log.place_propensities)
