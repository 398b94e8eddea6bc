"""Logged decisions as a world."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from math import nan

import numpy as np

from kernelbandits.checks import a_range
from kernelbandits.environments.action_rows import n_points
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.environments.items import digest_of_anything
from kernelbandits.environments.log import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import kind_of
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Parameters, Points, Vector

__all__ = ["Logged", "LoggedWorld"]


@dataclass(frozen=True, eq=False)
class Logged:
    """A log as a world: its rounds in order, each paying the logged reward for the logged action and nan for others.

    nan says that nobody knows what the action would have paid: `simulate` records such rounds and learns nothing from
    them. Every run is the same, and ends with the log. Where the logging rule chose uniformly at random, the mean of
    the rewards that are known estimates what the policy earns (Li et al. 2011).

    Parameters
    ----------
    log
        The decisions; all of them have rewards.
    reward_range
        Smallest and largest reward that could have been paid, where that is known.

    Examples
    --------
    >>> log = Log([np.eye(2), np.eye(2)], actions=[0, 1], propensities=[0.5, 0.5], rewards=[1.0, 0.25])
    >>> world = Logged(log).start(np.random.default_rng())
    >>> shown = world.show()
    >>> world.pay(0), world.pay(1)
    (1.0, nan)
    """

    log: Log
    _: KW_ONLY
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.log, Log):
            raise InvalidParameter(f"This world is made of a Log, got {type(self.log).__name__}.")
        if self.reward_range is None:
            return
        low, high = a_range(self.reward_range)
        object.__setattr__(self, "reward_range", (low, high))
        if not np.all((low <= self.log.rewards) & (self.log.rewards <= high)):
            raise InvalidParameter(
                f"All rewards of the log have to lie in the reward range {self.reward_range!r}, got rewards from "
                f"{float(self.log.rewards.min())} to {float(self.log.rewards.max())}. None says that the "
                "range is not known."
            )

    def start(self, rng: np.random.Generator) -> LoggedWorld:
        """Begin at the first round; there is no chance in it."""
        return LoggedWorld(self.log)

    def describe(self) -> Parameters:
        """Class and parameters as plain values, the log as a digest of all it holds."""
        limits = None if self.reward_range is None else list(self.reward_range)
        return {
            "class": type(self).__name__,
            "log": {"n_rounds": len(self.log), "sha256": _digest(self.log)},
            "reward_range": limits,
        }


class LoggedWorld:
    """One pass over a log."""

    def __init__(self, log: Log) -> None:
        self._drawn = DrawnRounds(_rounds(log))

    def show(self) -> Round:
        """Show the next round of the log; StopIteration at its end."""
        return self._drawn.show()

    def pay(self, action: int) -> float:
        """Logged reward of the round last shown for the logged action; nan for any other."""
        return self._drawn.pay(action)


def _rounds(log: Log) -> Iterator[tuple[Round, Vector]]:
    for t, contexts in enumerate(log.rounds):
        rewards = np.full(n_points(contexts), nan)
        rewards[log.actions[t]] = log.rewards[t]
        yield Round(contexts, ids=log.ids_of(t)), rewards


def _digest(log: Log) -> str:
    """A few characters, equal for equal logs. Contexts that have no plain form are told by their repr."""
    digest = hashlib.sha256()
    for column in (log.actions.astype(np.int64), log.propensities, log.rewards):
        digest.update(column.tobytes())
    known: dict[int, tuple[Points, str]] = {}  # what is shown again and again is read once, and held meanwhile
    for t, contexts in enumerate(log.rounds):
        for part in _parts(contexts):
            if id(part) not in known:
                known[id(part)] = part, _digest_of_points(part)
            digest.update(known[id(part)][1].encode())
        digest.update(repr(log.ids_of(t)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _parts(contexts: Points) -> list[Points]:
    """What the actions of a round are made of: of a part of a catalogue, the catalogue, its rows and the context."""
    if not isinstance(contexts, CatalogueView):
        return [contexts]
    context = [] if contexts.context is None else [[contexts.context]]
    return [contexts.catalogue, contexts.rows.tolist(), *context]


def _digest_of_points(points: Points) -> str:
    if isinstance(points, Catalogue):
        return digest_of_anything(points.kind, points.points(points.kind))
    return digest_of_anything(kind_of(points), points)
