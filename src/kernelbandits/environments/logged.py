"""Logs of decisions, and logged decisions as an environment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments.base import DrawnRounds, Round, n_points
from kernelbandits.environments.catalog import digest_of_anything
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import kind_of
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Indices, ItemId, Parameters, Points, Vector
from kernelbandits.validation import as_iterable, check_range, check_vector, pluralize, short_repr

__all__ = ["Log", "Logged", "LoggedWorld"]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Logged decisions: the actions of each round, the action shown, its propensity and its reward.

    The sets of actions may differ between rounds, in content and size.

    Parameters
    ----------
    rounds
        The actions of every round, in any form that `Policy.choose` accepts.
    actions
        Row of the action shown in each round.
    propensities
        Probability of the action shown under the logging policy: above 0, at most 1.
    rewards
        Reward of the action shown.
    ids
        Ids of the actions of every round, if any.

    Examples
    --------
    >>> log = Log([np.eye(2), np.eye(3)], actions=[0, 2], propensities=[0.5, 0.25], rewards=[1.0, 0.0])
    >>> len(log), log.n_actions.tolist()
    (2, [2, 3])
    >>> log[1:].rewards
    array([0.])
    """

    rounds: Sequence[Points]
    actions: Indices
    propensities: Vector
    rewards: Vector
    ids: Sequence[Sequence[ItemId]] | None = None

    def __post_init__(self) -> None:
        for name, title in (("propensities", "The propensities of a log"), ("rewards", "The rewards of a log")):
            object.__setattr__(self, name, check_vector(getattr(self, name), title))
        object.__setattr__(self, "actions", _whole_numbers(self.actions))
        object.__setattr__(self, "rounds", as_iterable(self.rounds))
        object.__setattr__(self, "ids", as_iterable(self.ids))
        if not _is_list(self.rounds):
            raise InvalidParameter(
                f"The rounds of a log are a sequence of sets of actions, got {type(self.rounds).__name__}. "
                "Make a list of them."
            )
        lengths = {"rounds": len(self.rounds), "actions": len(self.actions)}
        lengths |= {"propensities": len(self.propensities), "rewards": len(self.rewards)}
        if self.ids is not None:
            lengths["ids"] = _n_lists(self.ids)
        if len(set(lengths.values())) > 1:
            raise InvalidParameter(f"Every column of a log must have one entry per round, got {lengths}.")
        self._check_entries()

    def __len__(self) -> int:
        return len(self.rounds)

    def __getitem__(self, part: slice | Sequence[int] | Indices | NDArray[np.bool_]) -> Log:
        """Return some of the rounds, given by a slice, indices, or a boolean mask."""
        try:
            rows = np.arange(len(self))[part]
        except (IndexError, TypeError, ValueError) as error:
            raise InvalidParameter(f"A part of a log is some of its {len(self)} rounds: {error}.") from error
        if rows.ndim != 1:
            raise InvalidParameter(
                f"A part of a log must be a slice or an array of round indices, got {short_repr(part)}."
            )
        ids = self.ids
        return Log(
            [self.rounds[row] for row in rows],
            self.actions[rows],
            self.propensities[rows],
            self.rewards[rows],
            None if ids is None else [ids[row] for row in rows],
        )

    @property
    def n_actions(self) -> Indices:
        """Number of actions of each round."""
        return np.array([_count(contexts, t) for t, contexts in enumerate(self.rounds)], dtype=np.intp)

    def ids_of(self, t: int) -> Sequence[ItemId] | None:
        """Return the ids of the actions of one round, for `Policy.choose(log.rounds[t], ids=log.ids_of(t))`."""
        return None if self.ids is None else self.ids[t]

    def _check_entries(self) -> None:
        for t in np.flatnonzero(~((self.propensities > 0.0) & (self.propensities <= 1.0)))[:1]:
            raise InvalidParameter(
                f"Propensities must be above 0 and at most 1, got {float(self.propensities[t])!r} in round "
                f"{t}. Log the probability that the rule gave to the action it showed."
            )
        counts = self.n_actions
        for t, n_actions in enumerate(counts):
            names = self.ids_of(t)
            if names is not None and len(names) != n_actions:
                raise InvalidParameter(
                    f"Every action of a round must have an id, or none: round {t} has "
                    f"{pluralize(int(n_actions), 'action')}, and {pluralize(len(names), 'name')}."
                )
        for t in np.flatnonzero((self.actions < 0) | (self.actions >= counts))[:1]:
            raise InvalidParameter(
                f"Round {t} has actions 0 to {counts[t] - 1}, got {self.actions[t]}. An action is a row of its round."
            )


def _count(contexts: Points, t: int) -> int:
    try:
        return n_points(contexts)
    except (InvalidContexts, TypeError, IndexError) as error:
        raise InvalidParameter(
            f"A round must be a collection of actions, one entry per action, got {type(contexts).__name__} in round "
            f"{t}: {short_repr(contexts)}."
        ) from error


def _n_lists(ids: Any) -> int:
    """Return the number of rounds with ids; raise InvalidParameter if they are not lists."""
    lists = list(ids) if _is_list(ids) else [ids]
    for t, names in enumerate(lists):
        if not _is_list(names):
            raise InvalidParameter(
                f"The ids of a log are a list of names for every round, got {short_repr(names)} in round {t}."
            )
    return len(lists)


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    is_sized = hasattr(type(value), "__len__") and hasattr(type(value), "__iter__")
    return is_sized and not isinstance(value, str | bytes | Mapping | set | frozenset) and not hasattr(value, "tocsr")


def _whole_numbers(values: Any) -> Indices:
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"The actions of a log are one row of whole numbers: {error}.") from error
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidParameter("Some actions of the log are masked. Leave out rounds whose action is not known.")
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise InvalidParameter(
            f"The actions of a log are one row of whole numbers, got shape {numbers.shape}, dtype {numbers.dtype}."
        )
    return numbers.astype(np.intp)


@dataclass(frozen=True, eq=False)
class Logged:
    """Log as an environment: its rounds in order, with the logged reward for the logged action and nan for others.

    nan means that the reward of the action is unknown: `simulate` records such rounds and does not learn from them.
    Every run is the same, and ends with the log. If the logging policy chose uniformly at random, the mean of the known
    rewards estimates the value of the policy (Li et al. 2011).

    Parameters
    ----------
    log
        The decisions; all of them have rewards.
    reward_range
        Smallest and largest possible reward, if known.

    Examples
    --------
    >>> log = Log([np.eye(2), np.eye(2)], actions=[0, 1], propensities=[0.5, 0.5], rewards=[1.0, 0.25])
    >>> world = Logged(log).start(np.random.default_rng())
    >>> shown = world.observe()
    >>> world.reward(0), world.reward(1)
    (1.0, nan)
    """

    log: Log
    _: KW_ONLY
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.log, Log):
            raise InvalidParameter(f"This environment must be built from a Log, got {type(self.log).__name__}.")
        if self.reward_range is None:
            return
        low, high = check_range(self.reward_range)
        object.__setattr__(self, "reward_range", (low, high))
        if not np.all((low <= self.log.rewards) & (self.log.rewards <= high)):
            raise InvalidParameter(
                f"All rewards of the log must lie in the reward range {self.reward_range!r}, got rewards from "
                f"{float(self.log.rewards.min())} to {float(self.log.rewards.max())}. None means that the "
                "range is not known."
            )

    def start(self, rng: np.random.Generator) -> LoggedWorld:
        """Start at the first round; a run is deterministic."""
        return LoggedWorld(self.log)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values, the log as a digest of its content."""
        limits = None if self.reward_range is None else list(self.reward_range)
        return {
            "class": type(self).__name__,
            "log": {"n_rounds": len(self.log), "sha256": _digest(self.log)},
            "reward_range": limits,
        }


class LoggedWorld:
    """One run of `Logged`: a single pass over the log."""

    def __init__(self, log: Log) -> None:
        self._drawn = DrawnRounds(_rounds(log))

    def observe(self) -> Round:
        """Return the next round of the log; raise StopIteration at its end."""
        return self._drawn.observe()

    def reward(self, action: int) -> float:
        """Return the logged reward of the last round shown for the logged action; nan for any other."""
        return self._drawn.reward(action)


def _rounds(log: Log) -> Iterator[tuple[Round, Vector]]:
    for t, contexts in enumerate(log.rounds):
        rewards = np.full(n_points(contexts), nan)
        rewards[log.actions[t]] = log.rewards[t]
        yield Round(contexts, ids=log.ids_of(t)), rewards


def _digest(log: Log) -> str:
    """Return a short digest, equal for equal logs. Contexts without a plain form are represented by their repr."""
    digest = hashlib.sha256()
    for column in (log.actions.astype(np.int64), log.propensities, log.rewards):
        digest.update(column.tobytes())
    known: dict[int, tuple[Points, str]] = {}  # repeated objects are digested once, and referenced meanwhile
    for t, contexts in enumerate(log.rounds):
        for part in _parts(contexts):
            if id(part) not in known:
                known[id(part)] = part, _digest_of_points(part)
            digest.update(known[id(part)][1].encode())
        digest.update(repr(log.ids_of(t)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _parts(contexts: Points) -> list[Points]:
    """Return the components of a round's actions: for a restricted catalog, the catalog, its rows and the context."""
    if not isinstance(contexts, CatalogView):
        return [contexts]
    context = [] if contexts.context is None else [[contexts.context]]
    return [contexts.catalog, contexts.rows.tolist(), *context]


def _digest_of_points(points: Points) -> str:
    if isinstance(points, Catalog):
        return digest_of_anything(points.kind, points.points(points.kind))
    return digest_of_anything(kind_of(points), points)
