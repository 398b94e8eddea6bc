"""Adapters for data frames: logs and traces in pandas, polars, Arrow and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._frames import FrameKind, frame_of
from kernelbandits._sparse import sound
from kernelbandits.environments import Log
from kernelbandits.environments.tabular import Table
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.evaluation import PropensityModel, Trace
from kernelbandits.evaluation.propensities import warn_if_estimated
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Indices, Pairs, Points
from kernelbandits.validation import check_instance, check_list, short_repr

__all__ = ["FrameKind", "log_from_frame", "log_to_frame", "trace_to_frame"]


def log_from_frame(
    frame: Any,
    *,
    action: str | None,
    reward: str,
    propensity: str | PropensityModel,
    features: str | Sequence[str] | None = None,
    round: str | None = None,
    context: Sequence[str] = (),
    chosen: str | None = None,
    place: str | None = None,
    place_propensity: str | None = None,
    candidates: Any = None,
    items: Any = None,
) -> Log:
    """Read a log from a table in long form, one row per action of each round, or with one row per impression.

    In long form the rows of a round need not be adjacent. Rounds are in the order of their first rows, actions in the
    order of their rows. In each round exactly one action was chosen: the one whose reward is not missing, or the one
    marked in the column `chosen`. Reward and propensity of the other rows are ignored.

    With `candidates` every row of the table is a round, and holds the action that was chosen; `candidates` says which
    actions could have been chosen. A table with one row per impression cannot be read without them, since every round
    would have one action, and nothing could be said about other policies.

    Parameters
    ----------
    frame
        A pandas or polars data frame, an Arrow table or reader, a DuckDB relation, or a dictionary of columns.
    action
        Column with the id of the action, unique within a round; None for actions without ids in a table in long form.
    reward, propensity
        Columns with the reward, and the probability with which the action was chosen; missing (null or NaN) in the
        other rows. Where no probability was logged, a `PropensityModel` estimates it.
    features
        Columns that describe an action: rows of numbers, or strings if it is one column of strings. A single name,
        `features="text"`, uses the values of that column as points: strings, or whole numbers as ids. With `candidates`
        they are columns of the candidates or items; None uses the ids of the actions as points.
    round
        Column with the label of the round; None if every row is a separate round.
    context
        Columns that describe the round, equal in all its rows: rounds become `Pairs`.
    chosen
        Column of booleans that marks the row of the chosen action.
    place
        Column with the place of the action in the slate, from 0, for logs of slates: missing in rows of actions that
        were not shown; the propensity is that of the place given the places above it.
    place_propensity
        Column with the probability of the action at its place, whatever is above it, if it was logged.
    candidates
        A table with the columns `action` and `features`, whose rows are the actions of every round, or, if it has the
        column `round`, those of their round. Or the name of a column of the log that has a list of ids in each row.
    items
        Table with the columns `action` and `features`, for candidates that are given by their ids alone.

    Examples
    --------
    >>> table = {"t": [7, 7, 8, 8], "item": ["a", "b", "a", "c"], "paid": [np.nan, 1.0, 0.5, np.nan],
    ...          "p": [np.nan, 0.25, 0.5, np.nan], "x": [0.1, 0.2, 0.3, 0.4]}
    >>> log = log_from_frame(table, round="t", action="item", reward="paid", propensity="p", features=["x"])
    >>> log.actions.tolist(), log.rewards.tolist(), log.ids
    ([1, 0], [1.0, 0.5], [['a', 'b'], ['a', 'c']])
    >>> clicks = {"item": ["b", "a"], "clicked": [1, 0], "p": [0.6, 0.2]}
    >>> items = {"item": ["a", "b", "c"], "price": [0.2, 0.5, 0.9]}
    >>> log = log_from_frame(clicks, action="item", reward="clicked", propensity="p", features=["price"],
    ...                      candidates=items)
    >>> log.actions.tolist(), log.n_actions.tolist()
    ([1, 0], [3, 3])
    """
    if isinstance(context, str):
        raise InvalidParameter(f"The context must be a list of columns, got {context!r}. One column: [{context!r}].")
    context = check_list(context, "The columns of the context")
    for name, column in (
        ("action", action),
        ("chosen", chosen),
        ("round", round),
        ("place", place),
        ("place_propensity", place_propensity),
    ):
        if column is not None and not isinstance(column, str):
            raise InvalidParameter(f"`{name}` must be the name of a column, or None, got {short_repr(column)}.")
    if place is None and place_propensity is not None:
        raise InvalidParameter("`place_propensity` belongs to slates, so it needs the column of their places: place=….")
    if place is not None and chosen is not None:
        raise InvalidParameter("The column of places marks the actions that were shown, so `chosen` is left out.")
    if isinstance(propensity, PropensityModel):
        columns = _Columns(round, action, reward, None, place, place_propensity, context)
        log = _read(Table(frame), columns, features, chosen, candidates, items)
        return propensity.estimate(log.rounds, log.actions, log.rewards, log.ids)
    columns = _Columns(round, action, reward, propensity, place, place_propensity, context)
    return _read(Table(frame), columns, features, chosen, candidates, items)


def _read(
    table: Table,
    columns: _Columns,
    features: str | Sequence[str] | None,
    chosen: str | None,
    candidates: Any,
    items: Any,
) -> Log:
    if candidates is not None:
        if columns.action is None or chosen is not None:
            raise InvalidParameter(
                "Beside candidates, `action` is the column with the id of the chosen action, and `chosen` is left out."
            )
        return _log_of_impressions(table, columns, features, candidates, items)
    if items is not None:
        raise InvalidParameter("`items` describes the ids of candidates, which are missing: candidates=….")
    if columns.round is None:
        raise InvalidParameter(
            "A table in long form needs the column of its rounds: round=…. For a table with one row per impression say "
            "which actions could have been chosen: candidates=…."
        )
    if features is None:
        raise InvalidParameter("At least one column must describe the actions: features=….")
    return _log_of_long_form(table, columns, features, chosen)


class _Columns(NamedTuple):
    """Names of the columns of a log."""

    round: str | None
    action: str | None
    reward: str
    propensity: str | None
    """None if it is estimated afterwards."""
    place: str | None
    place_propensity: str | None
    context: Sequence[str]


def _log_of_long_form(table: Table, columns: _Columns, features: str | Sequence[str], chosen: str | None) -> Log:
    assert columns.round is not None
    rounds = _rows_by_round(table.column(columns.round), columns.round)
    if rounds and max(len(rows) for rows in rounds.values()) == 1:
        raise InvalidParameter(
            "Every round of the table has one row, so one action, and nothing could be said about other policies. Say "
            "which actions could have been chosen: candidates=… takes a table of them, or a column of lists of ids."
        )
    rewards = table.numbers(columns.reward)
    if columns.place is not None:
        logged = _slates(table.numbers(columns.place), columns.place, rounds)
    else:
        is_chosen = ~np.isnan(rewards) if chosen is None else _booleans(table, chosen)
        marked = columns.reward if chosen is None else chosen
        logged = np.array([_chosen(rows, is_chosen, label, marked) for label, rows in rounds.items()], dtype=np.intp)
    points = _points(table, features)
    logged_rows = np.array([rows[own] for rows, own in zip(rounds.values(), logged, strict=True)], dtype=np.intp)
    contexts = _context_rows(table, columns.context, rounds) if columns.context else None
    return Log(
        [
            _take(points, rows) if contexts is None else Pairs(contexts[t], _take(points, rows))
            for t, rows in enumerate(rounds.values())
        ],
        logged,
        _propensities(table, columns, logged_rows, rounds),
        _known(rewards[logged_rows], columns.reward, rounds),
        None if columns.action is None else _ids(table.column(columns.action), rounds),
        place_propensities=_place_propensities(table, columns, logged_rows, rounds),
    )


def _propensities(table: Table, columns: _Columns, rows: Indices, rounds: Mapping[Any, Indices]) -> NDArray[np.float64]:
    if columns.propensity is None:
        return np.ones(rows.shape)
    return _known(table.numbers(columns.propensity)[rows], columns.propensity, rounds)


def _place_propensities(
    table: Table, columns: _Columns, rows: Indices, rounds: Mapping[Any, Indices]
) -> NDArray[np.float64] | None:
    if columns.place_propensity is None:
        return None
    return _known(table.numbers(columns.place_propensity)[rows], columns.place_propensity, rounds)


def _log_of_impressions(
    table: Table, columns: _Columns, features: str | Sequence[str] | None, candidates: Any, items: Any
) -> Log:
    """Return the log of a table with one row per logged action, and the candidates of each round."""
    assert columns.action is not None
    n_rows = len(table.column(columns.action))
    if columns.round is None:
        rounds: dict[Any, Indices] = {t: np.array([t], dtype=np.intp) for t in range(n_rows)}
    else:
        rounds = _rows_by_round(table.column(columns.round), columns.round)
    if columns.place is not None:
        order = _slates(table.numbers(columns.place), columns.place, rounds)
        rounds = {label: rows[own] for (label, rows), own in zip(rounds.items(), order, strict=True)}
    for label, rows in rounds.items():
        if columns.place is None and len(rows) > 1:
            raise InvalidParameter(
                f"Beside candidates every row is a separate round, and round {label!r} has {len(rows)} rows. For "
                "slates name the column of places: place=…."
            )
    sets = _candidate_sets(table, columns, rounds, features, candidates, items)
    chosen = table.column(columns.action)
    logged = np.array(
        [
            [_place_in(own.rows, chosen[row], label) for row in rows.tolist()]
            for (label, rows), own in zip(rounds.items(), sets, strict=True)
        ],
        dtype=np.intp,
    ).reshape(len(rounds), -1)
    shape = logged.shape if columns.place is not None else (len(rounds),)
    row_of = np.array(list(rounds.values()), dtype=np.intp).reshape(shape)
    contexts = _context_rows(table, columns.context, rounds) if columns.context else None
    return Log(
        [own.points if contexts is None else Pairs(contexts[t], own.points) for t, own in enumerate(sets)],
        logged.reshape(shape),
        _propensities(table, columns, row_of, rounds),
        _known(table.numbers(columns.reward)[row_of], columns.reward, rounds),
        [own.ids for own in sets],
        place_propensities=_place_propensities(table, columns, row_of, rounds),
    )


class _Candidates:
    """Candidates of a round; equal sets are one object, so that policies are queried once for all rounds of it."""

    def __init__(self, ids: list[Any], points: Points) -> None:
        self.ids, self.points = ids, points
        self.rows = {name: row for row, name in enumerate(ids)}


def _candidate_sets(
    table: Table,
    columns: _Columns,
    rounds: Mapping[Any, Indices],
    features: str | Sequence[str] | None,
    candidates: Any,
    items: Any,
) -> list[_Candidates]:
    assert columns.action is not None
    if isinstance(candidates, str):
        return _described(_ids_in_lists(table.column(candidates), candidates, rounds), columns.action, features, items)
    offered = Table(candidates)
    names = offered.column(columns.action)
    if columns.round is None or columns.round not in offered.names:
        is_same = True
        places = {"every": np.arange(len(names), dtype=np.intp)}
    else:
        is_same = False
        places = _rows_by_round(offered.column(columns.round), columns.round)
        for label in rounds:
            if label not in places:
                raise InvalidParameter(
                    f"Every round must have candidates, and round {label!r} has none in their table."
                )
        places = {label: places[label] for label in rounds}
    ids = _ids(names, places)
    if items is not None:
        sets = _described(dict(zip(places, ids, strict=True)), columns.action, features, items)
    else:
        as_points = np.array([*names.tolist(), None], dtype=object)[:-1]
        points = as_points if features is None else _points(offered, features)
        sets = [_Candidates(own, _take(points, rows)) for own, rows in zip(ids, places.values(), strict=True)]
    return sets * len(rounds) if is_same else sets


def _ids_in_lists(lists: NDArray[Any], column: str, rounds: Mapping[Any, Indices]) -> dict[Any, Any]:
    """Return the ids of the candidates of every round, which are lists in a column of the log."""
    found = {}
    for label, rows in rounds.items():
        listed = check_list(lists[rows[0]], f"An entry of the column {column!r} of candidates")
        names = np.fromiter((_python(name) for name in listed), dtype=object, count=len(listed))
        (found[label],) = _ids(names, {label: np.arange(len(names), dtype=np.intp)})
    return found


def _described(
    ids_of: Mapping[Any, Any], action: str, features: str | Sequence[str] | None, items: Any
) -> list[_Candidates]:
    """Return candidates that are known by their ids, with their points in a table of items."""
    known: dict[Any, int] = {}
    points: NDArray[Any] | None = None
    if items is not None and features is not None:
        described = Table(items)
        names = described.column(action)
        (listed,) = _ids(names, {"items": np.arange(len(names), dtype=np.intp)})
        known, points = {name: row for row, name in enumerate(listed)}, _points(described, features)
    elif items is not None or features is not None:
        raise InvalidParameter(
            "Candidates that are ids have both `items` and `features`, or neither: ids are then the points."
        )
    shared: dict[tuple[Any, ...], _Candidates] = {}
    found = []
    for ids in ids_of.values():
        if tuple(ids) not in shared:
            missing = next((name for name in ids if points is not None and name not in known), None)
            if missing is not None:
                raise InvalidParameter(f"Every candidate must be in `items`, and {missing!r} is not.")
            own = ids if points is None else _take(points, np.array([known[name] for name in ids], dtype=np.intp))
            shared[tuple(ids)] = _Candidates(ids, own)
        found.append(shared[tuple(ids)])
    return found


def _python(entry: Any) -> Any:
    return entry.item() if isinstance(entry, np.generic) else entry


def _place_in(rows: Mapping[Any, int], name: Any, label: Any) -> int:
    name = _python(name)
    if name not in rows:
        raise InvalidParameter(
            f"The chosen action must be one of the candidates, and {name!r} of round {label!r} is not."
        )
    return rows[name]


def _slates(places: NDArray[np.float64], column: str, rounds: Mapping[Any, Indices]) -> Indices:
    """Return the places within a round of the rows of its slate, in the order of the slate."""
    slates = []
    for label, rows in rounds.items():
        own = places[rows]
        shown = np.flatnonzero(~np.isnan(own))
        order = shown[np.argsort(own[shown], kind="stable")]
        if not len(order) or not np.array_equal(own[order], np.arange(len(order))):
            raise InvalidParameter(
                f"The column {column!r} must hold the places 0, 1, … of the slate, each once, got "
                f"{np.sort(own[shown]).tolist()} in round {label!r}."
            )
        slates.append(order)
    if len({len(order) for order in slates}) > 1:
        raise InvalidParameter("All slates of a log have the same length. Split the table by their lengths.")
    return np.array(slates, dtype=np.intp).reshape(len(slates), -1)


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
    for t, *_ in np.argwhere(np.isnan(values))[:1]:
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
    before them `context_0`, … for `Pairs`. Sparse rows become dense. A log of slates has the column `place`, too: the
    place of the action in the slate, NaN where it was not shown.

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
    check_instance(log, Log, "The log", "Build one: Log(rounds, actions, propensities, rewards).")
    warn_if_estimated(log)
    counts = log.n_actions
    rounds = np.repeat(np.arange(len(log), dtype=np.int64), counts)
    rows = np.concatenate([np.arange(n, dtype=np.int64) for n in counts]) if len(log) else np.zeros(0, dtype=np.int64)
    logged = np.full((len(rounds), 4), np.nan)  # place, reward, propensity, propensity of the place
    shown = (np.cumsum(counts) - counts)[:, None] + log.actions.reshape(len(log), log.k or 1)
    logged[shown, 0] = np.arange(shown.shape[1])
    logged[shown, 1] = log.rewards.reshape(shown.shape)
    logged[shown, 2] = log.propensities.reshape(shown.shape)
    columns: dict[str, Any] = {
        "round": rounds,
        "action": rows if log.ids is None else [name for names in log.ids for name in names],
        "chosen": ~np.isnan(logged[:, 0]),
        **({} if log.k is None else {"place": logged[:, 0]}),
        "reward": logged[:, 1],
        "propensity": logged[:, 2],
    }
    if log.place_propensities is not None:
        logged[shown, 3] = log.place_propensities
        columns["place_propensity"] = logged[:, 3]
    return frame_of({**columns, **_context_columns(log, rounds), **_point_columns(log)}, kind)


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
    return frame_of({"round": np.arange(1, len(trace) + 1), **trace.to_columns()}, kind)


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
