"""Logs from tables of pandas, polars, Arrow and DuckDB, a row an action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.adapters.frame_columns import Column, column_of, materialised, numbers_of, truths_of
from kernelbandits.checks import a_list
from kernelbandits.checks import shown as shown_value
from kernelbandits.environments import Log
from kernelbandits.environments.missing import is_absent
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.types import Indices, Pairs, Points

__all__ = ["log_from_frame"]


def log_from_frame(
    frame: Any,
    *,
    round: str,
    action: str | None,
    reward: str,
    propensity: str,
    features: str | Sequence[str],
    context: Sequence[str] = (),
    chosen: str | None = None,
) -> Log:
    """A log from a table in long form: a row for every action of every round.

    Rows of a round need not stand together; rounds come in the order in which they first appear, actions in the order
    of their rows. Exactly one row of a round was shown: the one whose reward is not missing, or that a column of truth
    values marks. Reward and propensity of the other rows are not looked at.

    Parameters
    ----------
    frame
        A pandas or polars frame, an Arrow table or reader, a DuckDB relation, or a mapping of names to columns.
    round
        Column that says which round a row belongs to.
    action
        Column that names the action: ids of the log, each once a round; None for actions without names.
    reward, propensity
        Columns of what was paid, and with which probability the action was shown; null or NaN where it was not.
    features
        Columns that describe an action: rows of numbers, or strings where there is one column and it holds strings. A
        name alone, `features="text"`, takes the values of that column as points: strings, or whole numbers as ids.
    context
        Columns that describe the round, the same in all its rows: rounds become `Pairs`.
    chosen
        Column of truth values that marks the row shown.

    Examples
    --------
    >>> table = {"t": [7, 7, 8, 8], "item": ["a", "b", "a", "c"], "paid": [np.nan, 1.0, 0.5, np.nan],
    ...          "p": [np.nan, 0.25, 0.5, np.nan], "x": [0.1, 0.2, 0.3, 0.4]}
    >>> log = log_from_frame(table, round="t", action="item", reward="paid", propensity="p", features=["x"])
    >>> log.actions.tolist(), log.rewards.tolist(), log.ids
    ([1, 0], [1.0, 0.5], [['a', 'b'], ['a', 'c']])
    """
    if isinstance(context, str):
        raise InvalidParameter(f"The context is a list of columns, got {context!r}. One column: [{context!r}].")
    context = a_list(context, "The columns of the context")
    for name, column in (("action", action), ("chosen", chosen)):
        if column is not None and not isinstance(column, str):
            raise InvalidParameter(f"`{name}` is the name of a column, or None, got {shown_value(column)}.")
    table = materialised(frame)
    rounds = _rows_of_rounds(column_of(table, round), round)
    _refuse_uneven(table, [round, reward, propensity, *_listed(features), *context, *filter(None, (action, chosen))])
    rewards = numbers_of(table, reward)
    is_shown = ~np.isnan(rewards) if chosen is None else truths_of(table, chosen)
    shown = [_shown(rows, is_shown, label, reward if chosen is None else chosen) for label, rows in rounds.items()]
    points = _points(table, features)
    places = np.array([rows[place] for rows, place in zip(rounds.values(), shown, strict=True)], dtype=np.intp)
    contexts = _context_rows(table, context, rounds) if context else None
    return Log(
        [
            _take(points, rows) if contexts is None else Pairs(contexts[t], _take(points, rows))
            for t, rows in enumerate(rounds.values())
        ],
        np.array(shown, dtype=np.intp),
        _known(numbers_of(table, propensity)[places], propensity, rounds),
        _known(rewards[places], reward, rounds),
        None if action is None else _ids(column_of(table, action), rounds),
    )


def _refuse_uneven(table: Any, names: Sequence[str]) -> None:
    lengths = {name: len(column_of(table, name)) for name in names} if isinstance(table, Mapping) else {}
    if len(set(lengths.values())) > 1:
        raise InvalidParameter(f"The columns of a table are of one length, got {lengths}.")


def _listed(features: str | Sequence[str]) -> list[str]:
    return [features] if isinstance(features, str) else a_list(features, "Features")


def _rows_of_rounds(labels: Column, name: str) -> dict[Any, Indices]:
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        if is_absent(label):
            raise InvalidParameter(f"The column {name!r} has to say which round a row belongs to; row {row} does not.")
        rows.setdefault(label, []).append(row)
    return {label: np.array(places, dtype=np.intp) for label, places in rows.items()}


def _shown(rows: Indices, is_shown: NDArray[np.bool_], label: Any, column: str) -> int:
    places = np.flatnonzero(is_shown[rows])
    if len(places) != 1:
        raise InvalidParameter(
            f"Exactly one action of a round was shown, and by the column {column!r} round {label!r} shows "
            f"{len(places)}. Leave rewards missing where there was none, or mark the row shown: chosen=..."
        )
    return int(places[0])


def _known(values: NDArray[np.float64], column: str, rounds: Mapping[Any, Indices]) -> NDArray[np.float64]:
    for t in np.flatnonzero(np.isnan(values))[:1]:
        raise InvalidParameter(
            f"The row that was shown needs its {column!r}, and it is missing in round {list(rounds)[t]!r}."
        )
    return values


def _ids(names: Column, rounds: Mapping[Any, Indices]) -> list[list[Any]]:
    ids = [names[rows].tolist() for rows in rounds.values()]
    for label, listed in zip(rounds, ids, strict=True):
        for name in listed:
            if isinstance(name, bool) or not isinstance(name, str | int):
                raise InvalidParameter(
                    f"An action goes by a string or a whole number, and in round {label!r} one goes by {name!r}. Fill "
                    "gaps and turn the column into one of these, or leave names out: action=None."
                )
        if len(set(listed)) < len(listed):
            twice = next(name for name in listed if listed.count(name) > 1)
            raise InvalidParameter(f"An action stands once in a round, and {twice!r} is in round {label!r} twice.")
    return ids


def _points(table: Any, features: str | Sequence[str]) -> Column:
    """A row of numbers, a string or an id for every row of the table; no number of a row may be missing."""
    names = _listed(features)
    if not names:
        raise InvalidParameter("Actions need at least one column that describes them, got no features.")
    if len(names) == 1:
        column = column_of(table, names[0])
        members = column.tolist()
        if members and all(isinstance(member, str) for member in members):
            return np.array(members, dtype=object)
        if isinstance(features, str):
            if column.dtype.kind not in "iu":
                raise InvalidContexts(
                    f"Points that are the values of one column are strings or whole numbers, and {features!r} holds "
                    f"others ({column.dtype}). For rows of numbers: features=[{features!r}]."
                )
            return np.array(members, dtype=object)
    rows = np.column_stack([numbers_of(table, name) for name in names])
    for row in np.flatnonzero(np.isnan(rows).any(axis=1))[:1]:
        raise InvalidContexts(
            f"Every action is described in full, and row {row} of the table lacks one of {names!r}. Fill gaps first."
        )
    return rows


def _take(points: Column, rows: Indices) -> Points:
    return points[rows].tolist() if points.dtype.kind == "O" else points[rows]


def _context_rows(table: Any, names: Sequence[str], rounds: Mapping[Any, Indices]) -> NDArray[np.float64]:
    columns = np.column_stack([numbers_of(table, name) for name in names])
    for label, rows in rounds.items():
        if np.isnan(columns[rows]).any():
            raise InvalidContexts(f"The context of every round is known, and in round {label!r} a part is missing.")
        if not (columns[rows] == columns[rows[0]]).all():
            raise InvalidContexts(
                f"The context is the same in all rows of a round, and in round {label!r} it is not. Columns that "
                "differ from action to action are features."
            )
    return columns[[rows[0] for rows in rounds.values()]]
