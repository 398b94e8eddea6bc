"""Decisions that were made and paid for, by whatever rule: what evaluation on logs starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_vector, counted, shown
from kernelbandits.environments.action_rows import n_points
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.types import Indices, ItemId, Points, Vector

__all__ = ["Log"]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Logged decisions: the actions of each round, the one shown, its probability, its reward.

    The sets of actions may differ from round to round, in what they hold and in size.

    Parameters
    ----------
    rounds
        The actions of every round: what `Policy.choose` takes.
    actions
        Row of the round's actions that was shown.
    propensities
        Probability with which the logging rule showed it: above 0, at most 1.
    rewards
        What it paid.
    ids
        Names of the actions of every round, where they have some.

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
            object.__setattr__(self, name, a_vector(getattr(self, name), title))
        object.__setattr__(self, "actions", _whole_numbers(self.actions))
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
            raise InvalidParameter(f"A log has one entry a round in every column, got {lengths}.")
        self._refuse_what_no_rule_could_have_done()

    def __len__(self) -> int:
        return len(self.rounds)

    def __getitem__(self, part: slice | Sequence[int] | Indices | NDArray[np.bool_]) -> Log:
        """Some of the rounds: a slice, their numbers, or a truth value a round."""
        try:
            rows = np.arange(len(self))[part]
        except (IndexError, TypeError, ValueError) as error:
            raise InvalidParameter(f"A part of a log is some of its {len(self)} rounds: {error}.") from error
        if rows.ndim != 1:
            raise InvalidParameter(f"A part of a log is a slice or a row of round numbers, got {shown(part)}.")
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
        """Actions of each round."""
        return np.array([_count(contexts, t) for t, contexts in enumerate(self.rounds)], dtype=np.intp)

    def ids_of(self, t: int) -> Sequence[ItemId] | None:
        """Names of the actions of one round, for `Policy.choose(log.rounds[t], ids=log.ids_of(t))`."""
        return None if self.ids is None else self.ids[t]

    def _refuse_what_no_rule_could_have_done(self) -> None:
        for t in np.flatnonzero(~((self.propensities > 0.0) & (self.propensities <= 1.0)))[:1]:
            raise InvalidParameter(
                f"What was shown had a probability above 0 and at most 1, got {float(self.propensities[t])!r} in round "
                f"{t}. Log the probability that the rule gave to the action it showed."
            )
        counts = self.n_actions
        for t, n_actions in enumerate(counts):
            names = self.ids_of(t)
            if names is not None and len(names) != n_actions:
                raise InvalidParameter(
                    f"Every action of a round has a name or none has: round {t} has "
                    f"{counted(int(n_actions), 'action')}, and {counted(len(names), 'name')}."
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
            f"A round is a collection of actions, one entry an action, got {type(contexts).__name__} in round {t}: "
            f"{shown(contexts)}."
        ) from error


def _n_lists(ids: Any) -> int:
    """How many rounds have names; InvalidParameter where these are not lists."""
    lists = list(ids) if _is_list(ids) else [ids]
    for t, names in enumerate(lists):
        if not _is_list(names):
            raise InvalidParameter(
                f"The ids of a log are a list of names for every round, got {shown(names)} in round {t}."
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
