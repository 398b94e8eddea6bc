"""The different sets of actions of a log, each looked at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.kernels import PointKind
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Indices, ItemId, Points, Vector

__all__ = ["DistinctRounds", "points_of", "probabilities_in"]


class DistinctRounds:
    """Sets of actions that a log shows, each once: rounds that hold the very same object are the same set.

    >>> items = ["a", "b"]
    >>> log = Log([items, ["c"], items], actions=[0, 0, 1], propensities=[0.5, 1.0, 0.5], rewards=[0.0, 1.0, 1.0])
    >>> DistinctRounds(log).which
    array([0, 1, 0])
    """

    def __init__(self, log: Log) -> None:
        places: dict[tuple[int, int], int] = {}
        self.contexts: list[Points] = []
        """One set of actions each."""
        self.ids: list[Sequence[ItemId] | None] = []
        """Names of the actions of each, where they have some."""
        held = [(log.rounds[t], log.ids_of(t)) for t in range(len(log))]  # held, so that no identity is used again
        self.which: Indices = np.empty(len(log), dtype=np.intp)
        """Which of them each round of the log has shown."""
        for t, (contexts, ids) in enumerate(held):
            place = places.setdefault((id(contexts), id(ids)), len(places))
            if place == len(self.contexts):
                self.contexts.append(contexts)
                self.ids.append(ids)
            self.which[t] = place

    def __len__(self) -> int:
        return len(self.contexts)


def probabilities_in(policy: Policy, rounds: Sequence[Points], ids: Sequence[Sequence[ItemId] | None]) -> list[Vector]:
    """Probability of every action of each round; of a catalogue's part, those of the items it shows."""
    found = policy.probabilities_many(rounds, ids=ids)
    return [
        own[contexts.rows] if isinstance(contexts, CatalogueView) else own
        for contexts, own in zip(rounds, found, strict=True)
    ]


def points_of(kind: PointKind, contexts: Points) -> Points:
    """The actions of a round in the canonical form of a kernel's kind."""
    if isinstance(contexts, Catalogue | CatalogueView):
        return contexts.points(kind)
    return kind.check(contexts)
