"""A few of many items in each round, drawn anew: choose the one that pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_count, a_vector, not_negative
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.environments.items import Items, described_numbers
from kernelbandits.errors import InvalidParameter
from kernelbandits.selection import Catalogue
from kernelbandits.types import ItemId, Parameters, Points, Vector

__all__ = ["Candidates"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Each round shows `n_actions` of the items, all sets equally likely; a reward is the item's value.

    Items may be known by nothing but their similarity: strings, say, such as the links of news feeds of which only some
    are on the wanted topic. What was learnt of the items seen has to serve for those that were not.

    Parameters
    ----------
    items
        Rows, sparse rows, strings, ids, sets: whatever the kernels of the policies take.
    values
        Expected reward of each item, 0 or 1 or any number.
    n_actions
        Items that a round shows, each at most once.
    ids
        Names of the items, each once; their numbers from 0 unless given.
    noise_scale
        Standard deviation of Gaussian noise, drawn for each item of a round.

    Examples
    --------
    >>> words = ["goal", "match", "goals", "vote", "votes", "election"]
    >>> world = Candidates(words, [1, 1, 1, 0, 0, 0], n_actions=2).start(np.random.default_rng(0))
    >>> shown = world.show()
    >>> shown.contexts, shown.ids, [world.pay(0), world.pay(1)]
    (['election', 'votes'], [5, 4], [0.0, 0.0])
    """

    items: Points
    values: ArrayLike
    _: KW_ONLY
    n_actions: int
    ids: Sequence[ItemId] | None = None
    noise_scale: float = 0.0
    _items: Items = field(init=False, repr=False)

    def __post_init__(self) -> None:
        items = Items.of(self.items)
        values = a_vector(self.values, "The values of items")
        if len(values) != len(items):
            raise InvalidParameter(f"There has to be one value an item: {len(items)} items, {len(values)} values.")
        n_actions = a_count(self.n_actions, "The number of actions")
        if n_actions > len(items):
            raise InvalidParameter(
                f"A round shows an item at most once, so {n_actions} actions need as many items, got {len(items)}."
            )
        values.setflags(write=False)
        own = {"items": items.points, "_items": items, "values": values, "n_actions": n_actions}
        own["ids"] = None if self.ids is None else Catalogue(np.empty((len(items), 0)), ids=self.ids).ids  # checks them
        own["noise_scale"] = not_negative(self.noise_scale, "The noise scale")
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest value without noise; Gaussian noise knows no bounds."""
        values: Vector = np.asarray(self.values)
        return None if self.noise_scale > 0.0 else (float(values.min()), float(values.max()))

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Begin a run; candidates and noise have a generator each."""
        candidate_rng, noise_rng = rng.spawn(2)
        return DrawnRounds(self._rounds(candidate_rng, noise_rng))

    def describe(self) -> Parameters:
        """Class and parameters as plain values, the data as digests."""
        return {
            "class": type(self).__name__,
            "items": self._items.describe(),
            "ids": None if self.ids is None else Items.of(self.ids).describe(),
            "values": described_numbers(np.asarray(self.values)),
            "n_actions": self.n_actions,
            "noise_scale": self.noise_scale,
        }

    def _rounds(
        self, candidate_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        values: Vector = np.asarray(self.values)
        while True:
            rows = candidate_rng.choice(len(values), size=self.n_actions, replace=False)
            ids = rows.tolist() if self.ids is None else [self.ids[row] for row in rows]
            noise = self.noise_scale * noise_rng.standard_normal(self.n_actions)
            yield Round(self._items.take(rows), ids=ids, expected=values[rows]), values[rows] + noise
