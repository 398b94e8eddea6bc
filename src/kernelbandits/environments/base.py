"""Environment interface: a world provides contexts and rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import Protocol, runtime_checkable

import numpy as np

from kernelbandits._text import repr_of_fields
from kernelbandits.errors import DecisionError, InvalidContexts
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import ItemId, Pairs, Parameters, Points, Vector
from kernelbandits.validation import check_array

__all__ = [
    "BatchWorld",
    "DrawnRounds",
    "Environment",
    "Round",
    "World",
    "WorldWithDelays",
    "WorldWithHistory",
    "n_points",
    "place_of",
    "row_of",
    "single_action",
]


def n_points(contexts: Points) -> int:
    """Return the number of actions of a round, for any point type: rows, strings, pairs, a catalog.

    >>> n_points(Pairs([0.5], ["left", "right"])), n_points(np.eye(3))
    (2, 3)
    """
    if isinstance(contexts, Catalog | CatalogView):
        return len(contexts)
    points = contexts.actions if isinstance(contexts, Pairs) else contexts
    if not hasattr(points, "shape") and not hasattr(points, "__len__"):
        raise InvalidContexts(f"A round must be a list or an array of actions, got {type(points).__name__}.")
    return int(points.shape[0]) if hasattr(points, "shape") else len(points)


def row_of(contexts: Points, place: int) -> int:
    """Return the row by which a decision identifies an action: for a restricted catalog, its row in the whole.

    >>> row_of(Catalog(["a", "b", "c"]).only([0, 2]), 1), row_of(["a", "c"], 1)
    (2, 1)
    """
    return int(contexts.rows[place]) if isinstance(contexts, CatalogView) else place


def place_of(contexts: Points, row: int) -> int:
    """Return the index, among the actions of a round, of the action with this row; raise DecisionError if absent.

    >>> place_of(Catalog(["a", "b", "c"]).only([0, 2]), 2)
    1
    """
    named = index(row)
    if isinstance(contexts, CatalogView):
        rows = contexts.rows
        place = int(np.searchsorted(rows, named))
        if place < len(rows) and rows[place] == named:
            return place
        available = f"the rows {rows[:8].tolist()}{' and others' if len(rows) > 8 else ''} of its catalog as actions"
    else:
        if 0 <= named < n_points(contexts):
            return named
        available = f"actions 0 to {n_points(contexts) - 1}"
    raise DecisionError(f"The action must be one of the last round, which has {available}, got action {row!r}.")


def single_action(contexts: Points, action: int) -> Points:
    """Return one action of a round, given by its row, as a set of one action; arrays are copied.

    >>> single_action(["a", "b"], 1)
    ['b']
    """
    if isinstance(contexts, CatalogView):
        return contexts.at(np.array([place_of(contexts, action)]))
    if isinstance(contexts, Catalog):
        return CatalogView(contexts, np.array([place_of(contexts, action)]))
    if isinstance(contexts, Pairs):
        return Pairs(contexts.context, single_action(contexts.actions, action))
    if hasattr(contexts, "shape"):
        return contexts[np.array([action])]
    return [contexts[action]]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Observation of one round."""

    __repr__ = repr_of_fields

    contexts: Points
    """One point per action, in any form that the kernels of the policies accept: rows, strings, ids."""

    ids: Sequence[ItemId] | None = None
    """Ids of the actions, if they persist across rounds."""

    expected: Vector | None = None
    """Expected reward of each action of the round, if known; never passed to a policy."""

    def __post_init__(self) -> None:
        if self.expected is None or (type(self.expected) is np.ndarray and self.expected.dtype == np.float64):
            return
        object.__setattr__(self, "expected", check_array(self.expected, "Expected rewards"))


class World(Protocol):
    """Interface of one run of an environment.

    The noise of a round is drawn when it is shown, for every action and independent of the choice, so that all policies
    get the same noise.
    """

    def observe(self) -> Round:
        """Return the next round; raise StopIteration if there is none."""

    def reward(self, action: int) -> float:
        """Return the reward of an action in the last observed round, nan if unknown; repeated calls change nothing.

        An action is identified as in `Decision.action`: by its row, for a restricted catalog by its row in the whole.
        """


@runtime_checkable
class WorldWithDelays(World, Protocol):
    """World with delayed rewards."""

    def delay(self) -> int:
        """Return the delay of the reward of the last observed round, in rounds; 0 for none."""


@runtime_checkable
class BatchWorld(World, Protocol):
    """World whose rewards do not depend on earlier choices, so that many rounds can be run as a batch (look-ahead)."""

    def peek_rounds(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """Return the next rounds, fewer if the world ends, with the rewards of all actions; they count as observed."""


@runtime_checkable
class WorldWithHistory(World, Protocol):
    """World with an initial history: observations before its first round."""

    def initial_history(self) -> tuple[Points, Vector]:
        """Return points and rewards of the initial history; they do not count as rounds."""


class Environment(Protocol):
    """Interface of environments: immutable descriptions that can be started any number of times."""

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Smallest and largest possible reward; None if any finite number is possible."""

    def start(self, rng: np.random.Generator) -> World:
        """Start a new run; `rng` is its only source of randomness, so equal generators give equal runs."""

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""


class DrawnRounds:
    """World defined by a stream of rounds, each with the rewards of all its actions.

    The easiest way to define your own world: pass an iterator of (round, rewards), for instance a generator. There is
    one reward per action of the round, in order.

    >>> world = DrawnRounds(iter([(Round(np.eye(2)), np.array([0.0, 1.0]))]))
    >>> world.observe().contexts.shape
    (2, 2)
    >>> world.reward(1)
    1.0
    """

    def __init__(self, rounds: Iterator[tuple[Round, Vector]]) -> None:
        self._rounds = rounds
        self._latest: tuple[Round, Vector] | None = None

    def observe(self) -> Round:
        """Return the next round; raise StopIteration if there is none."""
        self._latest = next(self._rounds)
        return self._latest[0]

    def peek_rounds(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """Return the next rounds with the rewards of all actions; they count as observed."""
        drawn = list(islice(self._rounds, n_rounds))
        if drawn:
            self._latest = drawn[-1]
        return drawn

    def reward(self, action: int) -> float:
        """Return the reward of an action in the last round; a restricted catalog uses rows of the whole."""
        if self._latest is None:
            raise DecisionError("There is no round to reward yet. Call observe() first.")
        observed, rewards = self._latest
        place = place_of(observed.contexts, action)
        if place >= len(rewards):
            raise DecisionError(f"The last round has {len(rewards)} rewards, and none for action {action!r}.")
        return float(rewards[place])
