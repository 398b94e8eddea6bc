"""Logs and traces as tables of pandas, polars and Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.adapters.frame_columns import Column, FrameKind, frame_of
from kernelbandits.checks import an_instance
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidContexts
from kernelbandits.evaluation import Trace
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Pairs, Points

__all__ = ["log_to_frame", "trace_to_frame"]


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
    counts = an_instance(log, Log, "The log", "Log(rounds, actions, propensities, rewards) makes one.").n_actions
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
    an_instance(trace, Trace, "The trace", "simulate(world, policy, horizon=100) gives one.")
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
        if isinstance(points, Catalogue | CatalogueView):
            raise InvalidContexts("A table holds rows of numbers, strings or ids, got a catalogue. Log its items.")
    rounds = [points.actions if isinstance(points, Pairs) else points for points in log.rounds]
    if all(isinstance(point, str | int | np.integer) for points in rounds for point in points):
        return {"point": [point for points in rounds for point in points]}
    rows = _stacked([_dense(points) for points in rounds])
    return {f"feature_{column}": rows[:, column] for column in range(rows.shape[1])}


def _dense(points: Points) -> NDArray[np.float64]:
    rows = points.toarray() if hasattr(points, "tocsr") else np.atleast_2d(np.asarray(points))
    if rows.ndim != 2 or rows.dtype.kind not in "buif":
        raise InvalidContexts(f"A table holds rows of numbers, strings or ids, got {type(points).__name__}.")
    return rows.astype(np.float64)


def _stacked(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len({part.shape[1] for part in parts}) > 1:
        raise InvalidContexts("All rows of a table have to be equally long. Split the log, or fill the columns.")
    return np.concatenate(parts)
