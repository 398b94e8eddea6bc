"""Logs of decisions, and logged decisions as an environment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._text import html_table, listed_briefly
from kernelbandits.environments.base import DrawnRounds, Round, n_points, row_of, single_action
from kernelbandits.environments.catalog import digest_of_anything
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import kind_of
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.selection.box import BOXES
from kernelbandits.types import Indices, ItemId, Matrix, Parameters, Points, Vector
from kernelbandits.validation import (
    as_iterable,
    check_array,
    check_int,
    check_list,
    check_range,
    check_size,
    check_vector,
    pluralize,
    short_repr,
)

__all__ = ["Log", "Logged", "LoggedWorld", "click_rewards", "single_actions"]

ROUNDED_SUM: Final = 0.01
"""How far probabilities of a round may be from the sum 1: as far as numbers of two or three digits get."""

NO_LOG_OF_BOXES: Final = (
    "A log holds actions that can be listed, with their probabilities, and a point of a box has none. A policy can "
    "learn such decisions all the same: policy.warm_start(contexts, rewards)."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Log:
    """Logged decisions: the actions of each round, the logged action, its propensity and its reward.

    The sets of actions may differ between rounds, in content and size. A round holds all actions that could have been
    shown: with only the one that was, nothing can be said about another policy, and estimators reject a log whose
    rounds all have one action.

    In a log of slates, `actions`, `propensities` and `rewards` are matrices with one row per round and one column per
    place, the top place first; all slates have the same length k.

    Parameters
    ----------
    rounds
        The actions of every round, in any form that `Policy.choose` accepts.
    actions
        Row of the logged action in each round; of a slate, the row of the action at each place.
    propensities
        Probability of the logged action under the logging policy: above 0, at most 1. In a slate, of each place given
        the places above it, as in `slate[place].propensity`.
    rewards
        Reward of the logged action; of a slate, at each place (`click_rewards` makes them from clicks).
    ids
        Ids of the actions of every round, if any.
    place_propensities
        Probability that the logging policy shows the action at its place, whatever is above it. Only slates have it,
        and only estimators with behavior="independent" need it; `Policy.place_probabilities` computes it.
    probabilities
        Probability of every action of each round under the logging policy, if known; their sum is 1. Only
        `MarginalizedIPS` needs it; `Policy.probabilities` computes it. Not for slates.

    Examples
    --------
    >>> log = Log([np.eye(2), np.eye(3)], actions=[0, 2], propensities=[0.5, 0.25], rewards=[1.0, 0.0])
    >>> len(log), log.n_actions.tolist()
    (2, [2, 3])
    >>> log[1:].rewards
    array([0.])
    >>> log
    Log(2 rounds, 2 to 3 actions, propensities 0.25 to 0.5, rewards 0 to 1 with mean 0.5)
    """

    rounds: Sequence[Points]
    actions: Indices
    propensities: Vector
    rewards: Vector
    ids: Sequence[Sequence[ItemId]] | None = None
    place_propensities: Matrix | None = field(default=None, kw_only=True)
    probabilities: Sequence[Vector] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", _whole_numbers(self.actions))
        for name in ("propensities", "rewards", "place_propensities"):
            object.__setattr__(self, name, self._column(name))
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
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", check_list(self.probabilities, "The probabilities of a log"))
            lengths["probabilities"] = len(self.probabilities)
        if len(set(lengths.values())) > 1:
            raise InvalidParameter(f"Every column of a log must have one entry per round, got {lengths}.")
        self._check_entries()

    def _column(self, name: str) -> Vector | Matrix | None:
        """Return a column of numbers in the form of the actions."""
        values, title = getattr(self, name), f"The {name.replace('_', ' ')} of a log"
        if name == "place_propensities":
            if values is None:
                return None
            if self.k is None:
                raise InvalidParameter(
                    f"{title} belong to slates, and its actions are one row of numbers. Leave them out."
                )
        if self.k is None:
            if name == "propensities" and np.isnan(check_array(values, title)).any():
                raise InvalidParameter(f"{title} must be finite probabilities, got nan. {NO_LOG_OF_BOXES}")
            return check_vector(values, title)
        numbers = check_array(values, title)
        if numbers.shape != self.actions.shape or not np.isfinite(numbers).all():
            raise InvalidParameter(
                f"{title} must be one finite number for each place of its slates, shape {self.actions.shape}, got "
                f"{short_repr(values)}, shape {numbers.shape}."
            )
        return numbers

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        if not len(self):
            return f"{type(self).__name__}(0 rounds)"
        counts, facts = self.n_actions, self._facts()
        parts = [
            pluralize(len(self), "round"),
            f"{facts['actions']} {'action' if counts.max() == 1 else 'actions'}",
            *([] if self.k is None else [f"slates of {self.k}"]),
            *(f"{name} {facts[name]}" for name in ("propensities", "rewards")),
            *([] if self.ids is None else ["ids"]),
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__} of {pluralize(len(self), 'round')}", self._facts().items())

    def _facts(self) -> dict[str, str]:
        """Return what a log holds, as text; nothing for a log without rounds."""
        if not len(self):
            return {}
        return {
            "actions": _span(self.n_actions),
            **({} if self.k is None else {"slates of": str(self.k)}),
            "propensities": _span(self.propensities),
            "rewards": f"{_span(self.rewards)} with mean {self.rewards.mean():.4g}",
            **({} if self.ids is None else {"ids of actions": listed_briefly(self.ids_of(0) or (), self.n_actions[0])}),
        }

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
        ids, at_place, probabilities = self.ids, self.place_propensities, self.probabilities
        return Log(
            [self.rounds[row] for row in rows],
            self.actions[rows],
            self.propensities[rows],
            self.rewards[rows],
            None if ids is None else [ids[row] for row in rows],
            place_propensities=None if at_place is None else at_place[rows],
            probabilities=None if probabilities is None else [probabilities[row] for row in rows],
        )

    @property
    def k(self) -> int | None:
        """Length of the slates; None if every round shows one action."""
        return self.actions.shape[1] if self.actions.ndim == 2 else None

    @property
    def n_actions(self) -> Indices:
        """Number of actions of each round."""
        return np.array([_count(contexts, t) for t, contexts in enumerate(self.rounds)], dtype=np.intp)

    def ids_of(self, t: int) -> Sequence[ItemId] | None:
        """Return the ids of the actions of one round, for `Policy.choose(log.rounds[t], ids=log.ids_of(t))`."""
        return None if self.ids is None else self.ids[t]

    def at_place(self, place: int) -> Log:
        """Return the logged actions of one place of the slates, from 0, as a log of single actions."""
        if self.k is None or not 0 <= check_int(place, "A place", least=0) < self.k:
            raise InvalidParameter(f"A place of this log is a number from 0 below its k = {self.k}, got {place!r}.")
        return Log(
            self.rounds, self.actions[:, place], self.propensities[:, place], self.rewards[:, place], self.ids
        )  # fmt: skip

    def observations(self) -> Iterator[tuple[Points, ItemId, float]]:
        """Yield every logged action, as a set of one action, with its id (its row, if there are no ids) and its reward.

        The actions of a slate follow each other, the top place first.
        """
        for t, contexts in enumerate(self.rounds):
            names = self.ids_of(t)
            for action, reward in zip(np.atleast_1d(self.actions[t]), np.atleast_1d(self.rewards[t]), strict=True):
                one = single_action(contexts, row_of(contexts, int(action)))
                yield one, int(action) if names is None else names[action], float(reward)

    def _check_entries(self) -> None:
        for name in ("propensities", "place_propensities"):
            shares = getattr(self, name)
            for t, *_ in [] if shares is None else np.argwhere(~((shares > 0.0) & (shares <= 1.0)))[:1]:
                raise InvalidParameter(
                    f"Propensities must be above 0 and at most 1, got {shares[t].tolist()!r} in round {t}. Log the "
                    "probability that the rule gave to the action it showed."
                )
        counts = self.n_actions
        if self.k is not None:
            self._check_slates(counts)
        for t, n_actions in enumerate(counts):
            names = self.ids_of(t)
            if names is not None and len(names) != n_actions:
                raise InvalidParameter(
                    f"Every action of a round must have an id, or none: round {t} has "
                    f"{pluralize(int(n_actions), 'action')}, and {pluralize(len(names), 'name')}."
                )
        shown = self.actions if self.k is None else self.actions.T
        for t in np.unique(np.argwhere((shown < 0) | (shown >= counts))[:, -1])[:1]:
            raise InvalidParameter(
                f"Round {t} has actions 0 to {counts[t] - 1}, got {self.actions[t]}. An action is a row of its round."
            )
        if self.probabilities is not None:
            self._check_probabilities(self.probabilities, counts)

    def _check_probabilities(self, probabilities: Sequence[Vector], counts: Indices) -> None:
        if self.k is not None:
            raise InvalidParameter("The probabilities of a log are those of single actions, and it has slates.")
        checked = [check_array(shares, "The probabilities of a log") for shares in probabilities]
        for t, shares in enumerate(checked):
            is_right = shares.shape == (counts[t],) and bool(((shares >= 0.0) & (shares <= 1.0)).all())
            if not is_right or not shares[self.actions[t]] > 0.0 or abs(float(shares.sum()) - 1.0) > ROUNDED_SUM:
                raise InvalidParameter(
                    f"The probabilities of a round must be one number between 0 and 1 for each of its {counts[t]} "
                    f"actions, above 0 for the logged one, with the sum 1, got {short_repr(probabilities[t])} in round "
                    f"{t}."
                )
        object.__setattr__(self, "probabilities", checked)

    def _check_slates(self, counts: Indices) -> None:
        if not self.k:
            raise InvalidParameter("The slates of a log must have at least one place, got none.")
        ordered = np.sort(self.actions, axis=1)
        for t in np.flatnonzero((np.diff(ordered, axis=1) == 0).any(axis=1))[:1]:
            raise InvalidParameter(f"A slate shows each action once, got the rows {self.actions[t]} in round {t}.")


def _span(values: Indices | Vector | Matrix) -> str:
    """Return the smallest and the largest value as text."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def single_actions(log: Log, user: str) -> Log:
    """Return the log; raise NotSupported if it is one of slates, which this user of logs does not take."""
    if log.k is not None:
        raise NotSupported(
            f"{user} takes a log of single actions, and this one shows slates of {log.k}. One place of them: "
            "log.at_place(0)."
        )
    return log


def _count(contexts: Points, t: int) -> int:
    if isinstance(contexts, BOXES):
        raise InvalidParameter(f"Round {t} is a {type(contexts).__name__}. {NO_LOG_OF_BOXES}")
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
    if numbers.ndim not in (1, 2) or (numbers.size and numbers.dtype.kind not in "iu"):
        raise InvalidParameter(
            f"The actions of a log are one row of whole numbers, or a matrix of them for slates, got shape "
            f"{numbers.shape}, dtype {numbers.dtype}."
        )
    return numbers.astype(np.intp)


def click_rewards(places: Sequence[int | None], k: int) -> Matrix:
    """Return the rewards of slates of length k from the place of the click in each, from 0; None where none was.

    >>> click_rewards([1, None, 0], k=2)
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    listed, k = check_list(places, "The places of clicks"), check_int(k, "k")
    check_size("The rewards of slates", len(listed), k)
    rewards = np.zeros((len(listed), k))
    for t, place in enumerate(listed):
        if place is not None:
            clicked = check_int(place, "The place of a click", least=0)
            if clicked >= k:
                raise InvalidParameter(f"A click is at a place from 0 below k = {k}, got {clicked} in round {t}.")
            rewards[t, clicked] = 1.0
    return rewards


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
    >>> observed = world.observe()
    >>> world.reward(0), world.reward(1)
    (1.0, nan)
    """

    log: Log
    _: KW_ONLY
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.log, Log):
            raise InvalidParameter(f"This environment must be built from a Log, got {type(self.log).__name__}.")
        single_actions(self.log, "A logged environment")
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
        """Return the logged reward of the last observed round for the logged action; nan for any other."""
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
