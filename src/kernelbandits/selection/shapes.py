"""A log of more actions, or of some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kernelbandits.selection.columns import DRIFT, LEADER, REACH, SPREAD, UPDATES, ColumnLog
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["columns_for", "insert", "part_of"]

PART_ROOM: Final = 64
"""Runs that a part has room for beyond those it begins with."""

ENTRIES_AT_ONCE: Final = 16_384
"""Entries gathered at a time: they stay in cache until they are where they belong."""

LEAST_SPARE: Final = 64
"""Actions that there is room for after the first insertion; a 64th of all where that is more, so that many insertions
copy the columns now and then."""


def insert(log: ColumnLog, place: int, prior: Vector, to_points: Callable[[Indices], Matrix]) -> None:
    """New actions from `place` on; `to_points(slots)` gives their similarities to points of the record.

    The log tells their columns, too: one entry of each after the other.
    """
    n_new, n_runs, size = len(prior), log.n_runs, log.size
    columns = columns_for(log, np.zeros((0, n_new)), to_points)
    if size + n_new > log.rows.shape[1]:
        width = size + n_new + max(LEAST_SPARE, size // 64, n_new)
        rows, items = np.empty((len(log.rows), width)), np.zeros((3, width))
        rows[:n_runs, :size], items[:, :size] = log.rows[:n_runs, :size], log.items[:, :size]
        log.rows, log.items = rows, items
    known = np.vstack([log.lifts[:n_runs] @ columns, prior - log.weights[:n_runs] @ columns**2, prior])
    for table, values in ((log.rows[:n_runs], columns), (log.items, known)):
        table[:, place + n_new : size + n_new] = table[:, place:size].copy()
        table[:, place : place + n_new] = values
    log.size += n_new
    log.run_positions[:n_runs] += n_new * (log.run_positions[:n_runs] >= place)
    log.slots[0] += n_new * (log.slots[0] >= place)
    log.state[LEADER] = -1.0
    log.name_items()


def columns_for(log: ColumnLog, known: Matrix, to_points: Callable[[Indices], Matrix]) -> Matrix:
    """Entries of all columns for other actions, where those of the first runs are known; (runs, actions)."""
    n_known, n_runs = len(known), log.n_runs
    columns = np.empty((n_runs, known.shape[1]))
    columns[:n_known] = known
    if n_known == n_runs:
        return columns
    before = log.before[n_known:n_runs]
    is_first = before < 0
    if is_first.any():
        columns[n_known:][is_first] = to_points(log.run_slots[n_known:n_runs][is_first])
    weights = log.rows[:n_runs, log.run_positions[n_known:n_runs]].T * log.weights[:n_runs]  # (runs asked for, runs)
    weights[np.arange(n_runs) <= before[:, None]] = 0.0
    explained = weights[:, :n_known] @ known
    for place, run in enumerate(range(n_known, n_runs)):
        if before[place] >= 0:
            columns[run] = log.regularisation / log.scales[before[place]] * columns[before[place]]
        columns[run] -= explained[place]
        columns[run] -= weights[place, n_known:run] @ columns[n_known:run]
    return columns


def part_of(log: ColumnLog, positions: Indices, places: Indices, width: int, memory: Matrix | None = None) -> ColumnLog:
    """The same for some of the actions, as a log of their own; `memory` of an earlier part is used if it fits.

    There is room for `width` of them. `places` tells where the point of each slot stands among them, −1 for nowhere.
    The part is sealed: what is known now stays as it is.
    """
    part = ColumnLog.__new__(ColumnLog)
    part.__dict__.update(log.__dict__)
    part.size, part.items = len(positions), np.zeros((3, width))
    np.take(log.items, positions, axis=1, out=part.items[:, : part.size])
    part.slots, part.taken, part.state, part.tied = (
        log.slots.copy(),
        log.taken.copy(),
        log.state.copy(),
        log.tied.copy(),
    )
    part.slots[0, : log.n_slots] = places
    part.state[[DRIFT, SPREAD, REACH, UPDATES]], part.state[LEADER] = 0.0, -1.0
    part.sealed = log.n_runs
    if memory is None or memory.shape[1] != width or len(memory) < log.n_runs + PART_ROOM:
        memory = np.empty((2 * log.n_runs + 4 * PART_ROOM, width))
    step = max(1, ENTRIES_AT_ONCE // part.size)
    for begin in range(0, log.n_runs, step):
        some = slice(begin, min(log.n_runs, begin + step))
        memory[some, : part.size] = np.take(log.rows[some], positions, axis=1)
    part.make_room(memory)
    part.name_items()
    return part
