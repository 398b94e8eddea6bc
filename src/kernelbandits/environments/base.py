"""Environment interface: a world shows contexts and pays rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import Protocol, runtime_checkable

import numpy as np

from kernelbandits.errors import DecisionError, InvalidContexts
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import ItemId, Pairs, Parameters, Points, Vector
from kernelbandits.validation import an_array

__all__ = [
    "DrawnRounds",
    "Environment",
    "ForeseeableWorld",
    "LateWorld",
    "Round",
    "WarmWorld",
    "World",
    "n_points",
    "place_of",
    "row_of",
]


def n_points(contexts: Points) -> int:
    """How many actions a round has, whatever they are: rows, strings, pairs, a catalog.

    >>> n_points(Pairs([0.5], ["left", "right"])), n_points(np.eye(3))
    (2, 3)
    """
    if isinstance(contexts, Catalog | CatalogView):
        return len(contexts)
    points = contexts.actions if isinstance(contexts, Pairs) else contexts
    if not hasattr(points, "shape") and not hasattr(points, "__len__"):
        raise InvalidContexts(f"A round is a list or an array of actions, got {type(points).__name__}.")
    return int(points.shape[0]) if hasattr(points, "shape") else len(points)


def row_of(contexts: Points, place: int) -> int:
    """The row by which a decision names an action of a round: of a part of a catalog, its row in the whole.

    >>> row_of(Catalog(["a", "b", "c"]).only([0, 2]), 1), row_of(["a", "c"], 1)
    (2, 1)
    """
    return int(contexts.rows[place]) if isinstance(contexts, CatalogView) else place


def place_of(contexts: Points, row: int) -> int:
    """The place among the actions of a round that a decision names by this row; DecisionError where there is none.

    >>> place_of(Catalog(["a", "b", "c"]).only([0, 2]), 2)
    1
    """
    named = index(row)
    if isinstance(contexts, CatalogView):
        rows = contexts.rows
        place = int(np.searchsorted(rows, named))
        if place < len(rows) and rows[place] == named:
            return place
        shown = f"the rows {rows[:8].tolist()}{' and others' if len(rows) > 8 else ''} of its catalog as actions"
    else:
        if 0 <= named < n_points(contexts):
            return named
        shown = f"actions 0 to {n_points(contexts) - 1}"
    raise DecisionError(
        f"The round last shown has {shown}, got action {row!r}. Pay for a row of the contexts that were shown."
    )


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a world shows in one round."""

    contexts: Points
    """One point an action: rows, strings, ids, whatever the kernels of the policies understand."""

    ids: Sequence[ItemId] | None = None
    """Names of the actions, where they keep them from round to round."""

    expected: Vector | None = None
    """Expected reward of each action shown, only where it is known, and never shown to a policy."""

    def __post_init__(self) -> None:
        if self.expected is None or (type(self.expected) is np.ndarray and self.expected.dtype == np.float64):
            return
        object.__setattr__(self, "expected", an_array(self.expected, "Expected rewards"))


class World(Protocol):
    """One run of an environment.

    The luck of a round is drawn when it is shown, for every action and whatever the policy will choose, so that all
    policies meet the same luck.
    """

    def show(self) -> Round:
        """Show the next round; StopIteration when there is none."""

    def pay(self, action: int) -> float:
        """Reward of that action in the round last shown, nan where it is not known; asking twice changes nothing.

        An action is named as in `Decision.action`: by its row, of a part of a catalog by its row in the whole.
        """


@runtime_checkable
class LateWorld(World, Protocol):
    """A world whose rewards are told some rounds after the choice."""

    def delay(self) -> int:
        """In how many rounds the reward of the round last shown is told; 0 for at once."""


@runtime_checkable
class ForeseeableWorld(World, Protocol):
    """A world whose rewards do not depend on what was chosen before, so that many rounds can be played at once."""

    def foresee(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """The next rounds, fewer where the world ends, each with what every action pays; they count as shown."""


@runtime_checkable
class WarmWorld(World, Protocol):
    """A world of which something is known before its first round."""

    def warm_up(self) -> tuple[Points, Vector]:
        """Points that were tried before, and what they paid; they count in no round."""


class Environment(Protocol):
    """A world's description: frozen, and good for any number of runs."""

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Smallest and largest reward that can be paid; None where any finite number can."""

    def start(self, rng: np.random.Generator) -> World:
        """Begin a fresh run; all its chance comes from `rng`, so equal generators give equal runs."""

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""


class DrawnRounds:
    """A world made of a stream of rounds, each with the rewards that its actions would pay.

    The easiest way to write a world of your own: give an iterator of (round, rewards), most simply a generator. There
    is one reward for each action of the round, in their order.

    >>> world = DrawnRounds(iter([(Round(np.eye(2)), np.array([0.0, 1.0]))]))
    >>> world.show().contexts.shape
    (2, 2)
    >>> world.pay(1)
    1.0
    """

    def __init__(self, rounds: Iterator[tuple[Round, Vector]]) -> None:
        self._rounds = rounds
        self._latest: tuple[Round, Vector] | None = None

    def show(self) -> Round:
        """Show the next round; StopIteration when there is none."""
        self._latest = next(self._rounds)
        return self._latest[0]

    def foresee(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """The next rounds with what every action pays, as if each had been shown."""
        drawn = list(islice(self._rounds, n_rounds))
        if drawn:
            self._latest = drawn[-1]
        return drawn

    def pay(self, action: int) -> float:
        """Reward of that action in the round last shown; of a part of a catalog, named by its row in the whole."""
        if self._latest is None:
            raise DecisionError("No round has been shown yet, so there is nothing to pay for. Call show() first.")
        shown, rewards = self._latest
        place = place_of(shown.contexts, action)
        if place >= len(rewards):
            raise DecisionError(f"The round last shown tells {len(rewards)} rewards, and action {action!r} has none.")
        return float(rewards[place])
