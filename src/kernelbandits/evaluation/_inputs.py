"""Inputs of evaluation: argument checks, distinct rounds, and stacked actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.environments.base import Environment, n_points
from kernelbandits.environments.logged import single_actions
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.trace import Trace
from kernelbandits.kernels import PointKind
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Indices, ItemId, Matrix, Points, Vector
from kernelbandits.validation import check_has_methods, check_instance

__all__ = [
    "DistinctRounds",
    "WeightedActions",
    "check_any_log",
    "check_environment",
    "check_log",
    "check_log_to_judge",
    "check_policy",
    "check_trace",
    "gathered",
    "parts",
    "points_of",
    "sizes_of",
    "stacked",
]


def check_environment(value: Environment) -> Environment:
    """Return the environment; raise InvalidParameter if it cannot be started and described."""
    swapped = " This is a policy: pass the environment first, the policy second." if hasattr(value, "choose") else ""
    return check_has_methods(
        value, "The environment", "start", "describe", hint=f"Clustered(n_actions=3) is one.{swapped}"
    )


def check_policy(value: Policy, *methods: str, name: str = "The policy") -> Policy:
    """Return the policy; raise InvalidParameter if a method is missing (default: `choose`, `learn` and `describe`)."""
    swapped = " This is an environment: pass it first, the policy second." if hasattr(value, "start") else ""
    needed = methods or ("choose", "learn", "describe")
    return check_has_methods(value, name, *needed, hint=f"KernelUCB(kernel) is one.{swapped}")


def check_any_log(value: Log) -> Log:
    """Return the log, or raise InvalidParameter."""
    return check_instance(
        value, Log, "The log", "Log(rounds, actions, propensities, rewards) and collect_log make one."
    )


def check_log(value: Log) -> Log:
    """Return the log of single actions, or raise InvalidParameter or NotSupported."""
    return single_actions(check_any_log(value), "This function")


def check_log_to_judge(value: Log) -> Log:
    """Return the log; raise InvalidParameter if it is empty, or if no round has a second action."""
    log = check_any_log(value)
    if not len(log):
        raise InvalidParameter("The log must have at least one round, got none.")
    if log.n_actions.max() == 1:
        raise InvalidParameter(
            "Every round of the log has one action, which every policy would have chosen, so nothing can be said about "
            "another policy. A round must hold all actions that could have been shown, not only the one that was: "
            "Log(rounds=…), or log_from_frame(…, candidates=…) for a table with one row per impression."
        )
    return log


def check_trace(value: Trace) -> Trace:
    """Return the trace, or raise InvalidParameter."""
    return check_instance(value, Trace, "The trace", "simulate(world, policy, horizon=100) gives one.")


class DistinctRounds:
    """Distinct sets of actions of many rounds; sets are compared by object identity.

    Parameters
    ----------
    rounds
        Actions and their ids, or None, of every round. The caller holds references, so that no identity is reused.

    Examples
    --------
    >>> items = ["a", "b"]
    >>> DistinctRounds([(items, None), (["c"], None), (items, None)]).which
    array([0, 1, 0])
    """

    def __init__(self, rounds: Sequence[tuple[Points, Sequence[ItemId] | None]]) -> None:
        places: dict[tuple[int, int], int] = {}
        self.contexts: list[Points] = []
        """The distinct sets of actions."""
        self.ids: list[Sequence[ItemId] | None] = []
        """Ids of the actions of each set, or None."""
        self.which: Indices = np.empty(len(rounds), dtype=np.intp)
        """Index of the set of each round."""
        for t, (contexts, ids) in enumerate(rounds):
            place = places.setdefault((id(contexts), id(ids)), len(places))
            if place == len(self.contexts):
                self.contexts.append(contexts)
                self.ids.append(ids)
            self.which[t] = place

    @classmethod
    def of_log(cls, log: Log) -> DistinctRounds:
        """Return the distinct sets of actions of a log."""
        return cls([(log.rounds[t], log.ids_of(t)) for t in range(len(log))])

    def __len__(self) -> int:
        return len(self.contexts)

    def probabilities(self, policy: Policy) -> list[Vector]:
        """Return the probabilities of all actions of each set; for a restricted catalog, of its eligible items."""
        found = policy.probabilities_many(self.contexts, ids=self.ids)
        return [
            own[contexts.rows] if isinstance(contexts, CatalogView) else own
            for contexts, own in zip(self.contexts, found, strict=True)
        ]

    def place_probabilities(self, policy: Policy, k: int) -> list[Matrix]:
        """Return the probabilities of all actions of each set at each of k places."""
        found = (
            policy.place_probabilities(contexts, k, ids=ids)
            for contexts, ids in zip(self.contexts, self.ids, strict=True)
        )
        return [
            own[:, contexts.rows] if isinstance(contexts, CatalogView) else own
            for contexts, own in zip(self.contexts, found, strict=True)
        ]


def points_of(kind: PointKind, contexts: Points) -> Points:
    """Return the actions of a round in the canonical form of a kernel's point type."""
    if isinstance(contexts, Catalog | CatalogView):
        return contexts.points(kind)
    return kind.check(contexts)


THINNING_SEED: Final = 0
"""Seed of `WeightedActions.thinned`, constant so that equal queries give equal results."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightedActions:
    """Weighted actions of some rounds: Σ weight · reward is the value of a policy, or the error of a model.

    >>> sets = [["a", "b"], ["c"]]
    >>> both = WeightedActions(sets, np.array([0, 1]), np.array([1, 0]), np.array([0.25, 0.75]))
    >>> (both + both.scaled(-2.0)).weights
    array([ 0.25,  0.75, -0.5 , -1.5 ])
    """

    rounds: Sequence[Points]
    """Sets of actions."""

    which: Indices
    """Index of each action's set among the rounds."""

    actions: Indices
    """Row of each action in its set."""

    weights: Vector

    def __len__(self) -> int:
        return len(self.weights)

    def __add__(self, other: WeightedActions) -> WeightedActions:
        """Concatenate two collections of the same rounds."""
        return WeightedActions(
            self.rounds,
            np.concatenate([self.which, other.which]),
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.weights, other.weights]),
        )

    def at(self, places: Indices) -> WeightedActions:
        """Return the entries at these indices, which may be repeated."""
        return WeightedActions(self.rounds, self.which[places], self.actions[places], self.weights[places])

    def scaled(self, factor: float) -> WeightedActions:
        """Return a copy with all weights multiplied by a factor."""
        return replace(self, weights=factor * self.weights)

    def thinned(self, most: int) -> WeightedActions:
        """Return at most `most` entries with the same sum of weights; weights must be non-negative.

        If there are more, the cumulative weight is split into `most` equal parts, and each part is represented by one
        action drawn by weight: every share is unbiased. Equidistant steps would select the same row of every round if
        all sets have the same size, and never the others.

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


POINTS_AT_ONCE: Final = 65_536
"""Number of actions of different rounds that are stacked together: some tens of megabytes of rows."""


def sizes_of(rounds: Sequence[Points]) -> Indices:
    """Return the number of actions of each round."""
    return np.array([n_points(contexts) for contexts in rounds], dtype=np.intp)


def parts(sizes: Indices, *, points_at_once: int = POINTS_AT_ONCE) -> Iterator[slice]:
    """Split consecutive rounds into blocks of about `points_at_once` points."""
    block_of = np.cumsum(sizes) // points_at_once
    ends = [*(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(sizes)]
    for first, last in pairwise([0, *ends]):
        yield slice(first, last)


def stacked(kind: PointKind, rounds: Sequence[Points]) -> Points:
    """Return all actions of these rounds, in order."""
    return kind.stack(*(points_of(kind, contexts) for contexts in rounds))


def gathered(
    kind: PointKind,
    rounds: Sequence[Points],
    which: Indices,
    actions: Indices,
    *,
    points_at_once: int = POINTS_AT_ONCE,
) -> Points:
    """Return the points of some actions, each given by its round and its row, in the given order."""
    used, which = np.unique(which, return_inverse=True)
    rounds = [rounds[place] for place in used]
    sizes = sizes_of(rounds)
    starts = np.cumsum(sizes) - sizes  # offset of each set, if all were stacked
    found, owners = [], []
    for part in parts(sizes, points_at_once=points_at_once):
        own = np.flatnonzero((which >= part.start) & (which < part.stop))
        rows = starts[which[own]] + actions[own] - starts[part.start]
        found.append(kind.take(stacked(kind, rounds[part]), rows))
        owners.append(own)
    return kind.take(kind.stack(*found), np.argsort(np.concatenate(owners)))
