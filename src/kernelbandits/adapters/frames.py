"""Adapters for data frames: logs and traces in pandas, polars, Arrow and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits._optional import import_optional
from kernelbandits._sparse import sound
from kernelbandits.environments import Log
from kernelbandits.environments.tabular import is_absent
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.evaluation import Trace
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Indices, Pairs, Points
from kernelbandits.validation import check_instance, check_list, is_one_of, short_repr
from kernelbandits.validation import short_repr as shown_value

__all__ = [
    "Column",
    "FrameKind",
    "column_of",
    "frame_of",
    "log_from_frame",
    "log_to_frame",
    "materialized",
    "numbers_of",
    "trace_to_frame",
    "truths_of",
]

FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]
Column: TypeAlias = NDArray[Any]


def materialized(frame: Any) -> Any:
    """Something with named columns: lazy frames, readers and relations are carried out."""
    for method in ("to_arrow_table", "fetch_arrow_table", "collect", "read_all"):
        if hasattr(type(frame), method):  # of the class: pandas gives columns as attributes
            return getattr(frame, method)()
    return frame


def column_of(table: Any, name: str) -> Column:
    """A column as an array."""
    names = _names(table)
    if not is_one_of(name, names):
        raise InvalidParameter(
            f"The table has no column {short_repr(name)}; it has {', '.join(map(repr, names)) or 'none'}."
        )
    if names.count(name) > 1:
        raise InvalidParameter(f"The table has {names.count(name)} columns called {name!r}. Rename all but one.")
    column = table[name]
    if hasattr(column, "to_pylist") and not hasattr(column, "chunks"):
        return np.asarray(column.to_numpy(zero_copy_only=False))  # a record batch of Arrow would refuse to copy
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _names(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow; pandas and polars
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    raise InvalidParameter(
        f"A table of pandas, polars, Arrow or DuckDB, or a mapping of columns is needed, got {type(table).__name__}."
    )


def numbers_of(table: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers; what is missing is NaN."""
    column = column_of(table, name)
    if column.dtype.kind == "O":
        members = [_number_or_nan(value) for value in column.tolist()]
        column = np.array(members, dtype=None if all(isinstance(member, float) for member in members) else object)
    if column.dtype.kind not in "buif":
        raise InvalidParameter(f"The column {name!r} has to hold numbers, got {column.dtype}.")
    return column.astype(np.float64)


def _number_or_nan(value: Any) -> Any:
    """A number for what is one, such as a decimal; NaN for what is missing, and anything else as it is."""
    if is_absent(value):
        return np.nan
    try:
        return value if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return value


def truths_of(table: Any, name: str) -> NDArray[np.bool_]:
    """A column of truth values."""
    numbers = numbers_of(table, name)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise InvalidParameter(f"The column {name!r} has to hold truth values, true for the row that was shown.")
    return np.asarray(numbers == 1.0)


def frame_of(columns: Mapping[str, Any], kind: FrameKind) -> Any:
    """A table of that kind with these columns."""
    if not is_one_of(kind, ("pandas", "polars", "arrow")):
        raise InvalidParameter(f"The kind of a table is 'pandas', 'polars' or 'arrow', got {short_repr(kind)}.")
    if kind == "pandas":
        return import_optional("pandas", "A pandas frame", extra="adapters").DataFrame(dict(columns))
    if kind == "arrow":
        make = import_optional("pyarrow", "An Arrow table", extra="adapters").table
    else:
        make = import_optional("polars", "A polars frame", extra="adapters").DataFrame
    try:
        return make(dict(columns))
    except (TypeError, ValueError) as error:
        raise InvalidContexts(
            f"Columns of such a table are of one type each, and strings and numbers are mixed here: {error} "
            "kind='pandas' takes them as they are."
        ) from error


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
    context = check_list(context, "The columns of the context")
    for name, column in (("action", action), ("chosen", chosen)):
        if column is not None and not isinstance(column, str):
            raise InvalidParameter(f"`{name}` is the name of a column, or None, got {shown_value(column)}.")
    table = materialized(frame)
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
    return [features] if isinstance(features, str) else check_list(features, "Features")


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


def log_to_frame(log: Log, kind: FrameKind = "pandas") -> Any:
    """A log as a table in long form, a row an action.

    Columns: `round` (from 0), `action` (its id, or its row in the round), `chosen`, `reward` and `propensity` (NaN
    where the action was not shown), and the points: `feature_0`, `feature_1`, … for rows, `point` for strings and ids;
    before them `context_0`, … for `Pairs`. Sparse rows become dense.

    Parameters
    ----------
    log
        Rounds of rows, strings, ids, or `Pairs` of a context row and these; all of one kind.
    kind
        "pandas", "polars" or "arrow".

    Examples
    --------
    >>> log = Log([["a", "b"], ["c"]], actions=[1, 0], propensities=[0.5, 1.0], rewards=[2.0, 3.0])
    >>> log_to_frame(log)[["round", "chosen", "reward", "point"]].to_dict("list")
    {'round': [0, 0, 1], 'chosen': [False, True, True], 'reward': [nan, 2.0, 3.0], 'point': ['a', 'b', 'c']}
    """
    counts = check_instance(log, Log, "The log", "Log(rounds, actions, propensities, rewards) makes one.").n_actions
    rounds = np.repeat(np.arange(len(log), dtype=np.int64), counts)
    rows = np.concatenate([np.arange(n, dtype=np.int64) for n in counts]) if len(log) else np.zeros(0, dtype=np.int64)
    chosen = rows == log.actions[rounds] if len(log) else np.zeros(0, dtype=bool)
    columns: dict[str, Any] = {
        "round": rounds,
        "action": rows if log.ids is None else [name for names in log.ids for name in names],
        "chosen": chosen,
        "reward": np.where(chosen, log.rewards[rounds], np.nan),
        "propensity": np.where(chosen, log.propensities[rounds], np.nan),
    }
    return frame_of({**columns, **_context_columns(log, rounds), **_point_columns(log)}, kind)


def trace_to_frame(trace: Trace, kind: FrameKind = "pandas") -> Any:
    """A trace as a table, a row a round: `round`, from 1, and the columns of the trace.

    Parameters
    ----------
    trace
        What `simulate` gave.
    kind
        "pandas", "polars" or "arrow".
    """
    check_instance(trace, Trace, "The trace", "simulate(world, policy, horizon=100) gives one.")
    return frame_of({"round": np.arange(1, len(trace) + 1), **trace.to_columns()}, kind)


def _context_columns(log: Log, rounds: NDArray[np.int64]) -> dict[str, Column]:
    with_context = [points for points in log.rounds if isinstance(points, Pairs)]
    if not with_context:
        return {}
    if len(with_context) < len(log):
        raise InvalidContexts("Either all rounds of a table have a shared context or none has one.")
    contexts = _stacked([_dense(points.context) for points in with_context])
    return {f"context_{column}": contexts[rounds, column] for column in range(contexts.shape[1])}


def _point_columns(log: Log) -> dict[str, Any]:
    for points in log.rounds:
        if isinstance(points, Catalog | CatalogView):
            raise InvalidContexts("A table holds rows of numbers, strings or ids, got a catalog. Log its items.")
    rounds = [points.actions if isinstance(points, Pairs) else points for points in log.rounds]
    if all(isinstance(point, str | int | np.integer) for points in rounds for point in points):
        return {"point": [point for points in rounds for point in points]}
    rows = _stacked([_dense(points) for points in rounds])
    return {f"feature_{column}": rows[:, column] for column in range(rows.shape[1])}


def _dense(points: Points) -> NDArray[np.float64]:
    rows = sound(points).toarray() if hasattr(points, "tocsr") else np.atleast_2d(np.asarray(points))
    if rows.ndim != 2 or rows.dtype.kind not in "buif":
        raise InvalidContexts(f"A table holds rows of numbers, strings or ids, got {type(points).__name__}.")
    return rows.astype(np.float64)


def _stacked(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len({part.shape[1] for part in parts}) > 1:
        raise InvalidContexts("All rows of a table have to be equally long. Split the log, or fill the columns.")
    return np.concatenate(parts)
