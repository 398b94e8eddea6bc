"""Adapters for data frames: logs and traces in pandas, polars, Arrow and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits._optional import import_optional
from kernelbandits._sparse import sound
from kernelbandits.environments import Log
from kernelbandits.environments.tabular import Table
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.evaluation import Trace
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Indices, Pairs, Points
from kernelbandits.validation import check_instance, check_list, is_one_of, short_repr

__all__ = ["FrameKind", "log_from_frame", "log_to_frame", "trace_to_frame"]

FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]
CONSTRUCTORS: Final = {
    "pandas": ("pandas", "DataFrame"),
    "polars": ("polars", "DataFrame"),
    "arrow": ("pyarrow", "table"),
}
"""Package and constructor of each kind of table."""


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
    """Read a log from a table in long form: one row per action of each round.

    The rows of a round need not be adjacent. Rounds are in the order of their first rows, actions in the order of their
    rows. In each round exactly one action was chosen: the one whose reward is not missing, or the one marked in the
    column `chosen`. Reward and propensity of the other rows are ignored.

    Parameters
    ----------
    frame
        A pandas or polars data frame, an Arrow table or reader, a DuckDB relation, or a dictionary of columns.
    round
        Column with the label of the round.
    action
        Column with the id of the action, unique within a round; None for actions without ids.
    reward, propensity
        Columns with the reward, and the probability with which the action was chosen; missing (null or NaN) in the
        other rows.
    features
        Columns that describe an action: rows of numbers, or strings if it is one column of strings. A single name,
        `features="text"`, uses the values of that column as points: strings, or whole numbers as ids.
    context
        Columns that describe the round, equal in all its rows: rounds become `Pairs`.
    chosen
        Column of booleans that marks the row of the chosen action.

    Examples
    --------
    >>> table = {"t": [7, 7, 8, 8], "item": ["a", "b", "a", "c"], "paid": [np.nan, 1.0, 0.5, np.nan],
    ...          "p": [np.nan, 0.25, 0.5, np.nan], "x": [0.1, 0.2, 0.3, 0.4]}
    >>> log = log_from_frame(table, round="t", action="item", reward="paid", propensity="p", features=["x"])
    >>> log.actions.tolist(), log.rewards.tolist(), log.ids
    ([1, 0], [1.0, 0.5], [['a', 'b'], ['a', 'c']])
    """
    if isinstance(context, str):
        raise InvalidParameter(f"The context must be a list of columns, got {context!r}. One column: [{context!r}].")
    context = check_list(context, "The columns of the context")
    for name, column in (("action", action), ("chosen", chosen)):
        if column is not None and not isinstance(column, str):
            raise InvalidParameter(f"`{name}` must be the name of a column, or None, got {short_repr(column)}.")
    table = Table(frame)
    rounds = _rows_by_round(table.column(round), round)
    rewards = table.numbers(reward)
    is_chosen = ~np.isnan(rewards) if chosen is None else _booleans(table, chosen)
    actions = [_chosen(rows, is_chosen, label, reward if chosen is None else chosen) for label, rows in rounds.items()]
    points = _points(table, features)
    chosen_rows = np.array([rows[place] for rows, place in zip(rounds.values(), actions, strict=True)], dtype=np.intp)
    contexts = _context_rows(table, context, rounds) if context else None
    return Log(
        [
            _take(points, rows) if contexts is None else Pairs(contexts[t], _take(points, rows))
            for t, rows in enumerate(rounds.values())
        ],
        np.array(actions, dtype=np.intp),
        _known(table.numbers(propensity)[chosen_rows], propensity, rounds),
        _known(rewards[chosen_rows], reward, rounds),
        None if action is None else _ids(table.column(action), rounds),
    )


def _rows_by_round(labels: NDArray[Any], name: str) -> dict[Any, Indices]:
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        if label is None or label != label:  # NaN
            raise InvalidParameter(f"The column {name!r} must hold the round of each row, and row {row} has none.")
        rows.setdefault(label, []).append(row)
    return {label: np.array(places, dtype=np.intp) for label, places in rows.items()}


def _booleans(table: Table, name: str) -> NDArray[np.bool_]:
    numbers = table.numbers(name)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise InvalidParameter(f"The column {name!r} must hold booleans, true for the row of the chosen action.")
    return np.asarray(numbers == 1.0)


def _chosen(rows: Indices, is_chosen: NDArray[np.bool_], label: Any, column: str) -> int:
    places = np.flatnonzero(is_chosen[rows])
    if len(places) != 1:
        raise InvalidParameter(
            f"Exactly one action of a round must be chosen, and by the column {column!r} round {label!r} has "
            f"{len(places)}. Leave the rewards of other actions missing, or mark the chosen row: chosen=..."
        )
    return int(places[0])


def _known(values: NDArray[np.float64], column: str, rounds: Mapping[Any, Indices]) -> NDArray[np.float64]:
    for t in np.flatnonzero(np.isnan(values))[:1]:
        raise InvalidParameter(
            f"The row of the chosen action must have its {column!r}, and it is missing in round {list(rounds)[t]!r}."
        )
    return values


def _ids(names: NDArray[Any], rounds: Mapping[Any, Indices]) -> list[list[Any]]:
    ids = [names[rows].tolist() for rows in rounds.values()]
    for label, listed in zip(rounds, ids, strict=True):
        for name in listed:
            if isinstance(name, bool) or not isinstance(name, str | int):
                raise InvalidParameter(
                    f"The id of an action must be a string or a whole number, and in round {label!r} one is {name!r}. "
                    "Fill missing entries and convert the column, or omit ids: action=None."
                )
        if len(set(listed)) < len(listed):
            twice = next(name for name in listed if listed.count(name) > 1)
            raise InvalidParameter(f"The ids of a round must be unique, and {twice!r} is in round {label!r} twice.")
    return ids


def _points(table: Table, features: str | Sequence[str]) -> NDArray[Any]:
    """Return a row of numbers, a string or an id for each row of the table; raise if a number is missing."""
    names = [features] if isinstance(features, str) else check_list(features, "Features")
    if not names:
        raise InvalidParameter("At least one column must describe the actions, got no features.")
    if len(names) == 1:
        column = table.column(names[0])
        members = column.tolist()
        if members and all(isinstance(member, str) for member in members):
            return column
        if isinstance(features, str):
            if column.dtype == bool or not all(type(member) is int for member in members):
                raise InvalidContexts(
                    f"Points that are the values of one column must be strings or whole numbers, and {features!r} "
                    f"holds others. For rows of numbers: features=[{features!r}]."
                )
            return column.astype(object)
    rows = np.column_stack([table.numbers(name) for name in names])
    for row in np.flatnonzero(np.isnan(rows).any(axis=1))[:1]:
        raise InvalidContexts(
            f"The features of an action must not be missing, and row {row} of the table lacks one of {names!r}. Fill "
            "missing entries first."
        )
    return rows


def _take(points: NDArray[Any], rows: Indices) -> Points:
    return points[rows].tolist() if points.dtype.kind == "O" else points[rows]


def _context_rows(table: Table, names: Sequence[str], rounds: Mapping[Any, Indices]) -> NDArray[np.float64]:
    columns = np.column_stack([table.numbers(name) for name in names])
    for label, rows in rounds.items():
        if np.isnan(columns[rows]).any():
            raise InvalidContexts(
                f"The context of a round must not be missing, and in round {label!r} a part is. Fill missing entries "
                "first."
            )
        if not (columns[rows] == columns[rows[0]]).all():
            raise InvalidContexts(
                f"The context must be equal in all rows of a round, and in round {label!r} it is not. Columns that "
                "differ between actions are features."
            )
    return columns[[rows[0] for rows in rounds.values()]]


def log_to_frame(log: Log, kind: FrameKind = "pandas") -> Any:
    """Return a log as a table in long form, one row per action.

    Columns: `round` (from 0), `action` (its id, or its row in the round), `chosen`, `reward` and `propensity` (NaN
    where the action was not chosen), and the points: `feature_0`, `feature_1`, … for rows, `point` for strings and ids;
    before them `context_0`, … for `Pairs`. Sparse rows become dense.

    Parameters
    ----------
    log
        Rounds of rows, strings, ids, or `Pairs` of a context row and these; all of one point type.
    kind
        "pandas", "polars" or "arrow".

    Examples
    --------
    >>> log = Log([["a", "b"], ["c"]], actions=[1, 0], propensities=[0.5, 1.0], rewards=[2.0, 3.0])
    >>> log_to_frame(log)[["round", "chosen", "reward", "point"]].to_dict("list")
    {'round': [0, 0, 1], 'chosen': [False, True, True], 'reward': [nan, 2.0, 3.0], 'point': ['a', 'b', 'c']}
    """
    counts = check_instance(log, Log, "The log", "Build one: Log(rounds, actions, propensities, rewards).").n_actions
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
    return _frame_of({**columns, **_context_columns(log, rounds), **_point_columns(log)}, kind)


def trace_to_frame(trace: Trace, kind: FrameKind = "pandas") -> Any:
    """Return a trace as a table, one row per round: `round`, from 1, and the columns of the trace.

    Parameters
    ----------
    trace
        Result of `simulate`.
    kind
        "pandas", "polars" or "arrow".
    """
    check_instance(trace, Trace, "The trace", "Run a simulation: simulate(world, policy, horizon=100).")
    return _frame_of({"round": np.arange(1, len(trace) + 1), **trace.to_columns()}, kind)


def _frame_of(columns: Mapping[str, Any], kind: FrameKind) -> Any:
    """Build a table of this kind from columns."""
    if not is_one_of(kind, CONSTRUCTORS):
        raise InvalidParameter(f"The kind of a table must be 'pandas', 'polars' or 'arrow', got {short_repr(kind)}.")
    package, constructor = CONSTRUCTORS[kind]
    construct = getattr(import_optional(package, f"A table of kind {kind!r}", extra="adapters"), constructor)
    try:
        return construct(dict(columns))
    except (TypeError, ValueError) as error:
        raise InvalidContexts(
            f"A column of such a table must have one type, and strings and numbers are mixed here: "
            f"{str(error).splitlines()[0]}. kind='pandas' accepts them."
        ) from error


def _context_columns(log: Log, rounds: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    with_context = [points for points in log.rounds if isinstance(points, Pairs)]
    if not with_context:
        return {}
    if len(with_context) < len(log):
        raise InvalidContexts("All rounds of a table must have a shared context, or none, got both. Split the log.")
    contexts = _stacked([_dense(points.context) for points in with_context])
    return {f"context_{column}": contexts[rounds, column] for column in range(contexts.shape[1])}


def _point_columns(log: Log) -> dict[str, Any]:
    for points in log.rounds:
        if isinstance(points, Catalog | CatalogView):
            raise InvalidContexts("A table must hold rows of numbers, strings or ids, got a catalog. Log its items.")
    rounds = [points.actions if isinstance(points, Pairs) else points for points in log.rounds]
    if all(isinstance(point, str | int | np.integer) for points in rounds for point in points):
        return {"point": [point for points in rounds for point in points]}
    rows = _stacked([_dense(points) for points in rounds])
    return {f"feature_{column}": rows[:, column] for column in range(rows.shape[1])}


def _dense(points: Points) -> NDArray[np.float64]:
    rows = sound(points).toarray() if hasattr(points, "tocsr") else np.atleast_2d(np.asarray(points))
    if rows.ndim != 2 or rows.dtype.kind not in "buif":
        raise InvalidContexts(f"A table must hold rows of numbers, strings or ids, got {type(points).__name__}.")
    return rows.astype(np.float64)


def _stacked(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len({part.shape[1] for part in parts}) > 1:
        raise InvalidContexts("All rows of a table must be equally long. Split the log, or fill the columns.")
    return np.concatenate(parts)
