"""The different sets of actions of many rounds, each looked at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.kernels import PointKind
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Indices, ItemId, Points, Vector

__all__ = ["DistinctRounds", "points_of"]


class DistinctRounds:
    """Sets of actions that were shown, each once: rounds that hold the very same object are the same set.

    Parameters
    ----------
    shown
        Actions and their names, or None, of every round; held by the caller, so that no identity is used again.

    Examples
    --------
    >>> items = ["a", "b"]
    >>> DistinctRounds([(items, None), (["c"], None), (items, None)]).which
    array([0, 1, 0])
    """

    def __init__(self, shown: Sequence[tuple[Points, Sequence[ItemId] | None]]) -> None:
        places: dict[tuple[int, int], int] = {}
        self.contexts: list[Points] = []
        """One set of actions each."""
        self.ids: list[Sequence[ItemId] | None] = []
        """Names of the actions of each, where they have some."""
        self.which: Indices = np.empty(len(shown), dtype=np.intp)
        """Which of them each round has shown."""
        for t, (contexts, ids) in enumerate(shown):
            place = places.setdefault((id(contexts), id(ids)), len(places))
            if place == len(self.contexts):
                self.contexts.append(contexts)
                self.ids.append(ids)
            self.which[t] = place

    @classmethod
    def of_log(cls, log: Log) -> DistinctRounds:
        """The sets of actions of a log."""
        return cls([(log.rounds[t], log.ids_of(t)) for t in range(len(log))])

    def __len__(self) -> int:
        return len(self.contexts)

    def probabilities(self, policy: Policy) -> list[Vector]:
        """Those of every action of each set; of a catalogue's part, of the items it shows."""
        found = policy.probabilities_many(self.contexts, ids=self.ids)
        return [
            own[contexts.rows] if isinstance(contexts, CatalogueView) else own
            for contexts, own in zip(self.contexts, found, strict=True)
        ]


def points_of(kind: PointKind, contexts: Points) -> Points:
    """The actions of a round in the canonical form of a kernel's kind."""
    if isinstance(contexts, Catalogue | CatalogueView):
        return contexts.points(kind)
    return kind.check(contexts)
