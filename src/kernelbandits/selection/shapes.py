"""A log of more actions, or of some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kernelbandits.selection.columns import DRIFT, LEADER, REACH, SPREAD, UPDATES, ColumnLog
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["insert", "part_of"]

PART_ROOM: Final = 64
"""Runs that a part has room for beyond those it begins with."""

LEAST_SPARE: Final = 64
"""Actions that there is room for after the first insertion; a 64th of all where that is more, so that many insertions
copy the columns now and then."""


def insert(log: ColumnLog, place: int, prior: Vector, to_points: Callable[[Indices], Matrix]) -> None:
    """New actions from `place` on; `to_points(slots)` gives their similarities to points of the record.

    The log tells their columns, too: one entry of each after the other.
    """
    n_new, n_runs, size = len(prior), log.n_runs, log.size
    columns = np.empty((n_runs, n_new))
    first_runs = np.flatnonzero(log.before[:n_runs] < 0)
    if n_runs:
        columns[first_runs] = to_points(log.run_slots[first_runs])
    for run in range(n_runs):
        before = int(log.before[run])
        if before >= 0:
            columns[run] = log.regularisation / log.scales[before] * columns[before]
        if before + 1 < run:
            weights = log.weights[before + 1 : run] * log.rows[before + 1 : run, log.run_positions[run]]
            columns[run] -= weights @ columns[before + 1 : run]
    if size + n_new > log.rows.shape[1]:
        width = size + n_new + max(LEAST_SPARE, size // 64, n_new)
        rows, items = np.empty((len(log.rows), width)), np.zeros((3, width))
        rows[:n_runs, :size], items[:, :size] = log.rows[:n_runs, :size], log.items[:, :size]
        log.rows, log.items = rows, items
    for table, values in (
        (log.rows[:n_runs], columns),
        (log.items, np.vstack([log.lifts[:n_runs] @ columns, prior - log.weights[:n_runs] @ columns**2, prior])),
    ):
        table[:, place + n_new : size + n_new] = table[:, place:size].copy()
        table[:, place : place + n_new] = values
    log.size += n_new
    log.run_positions[:n_runs] += n_new * (log.run_positions[:n_runs] >= place)
    log.slots[0] += n_new * (log.slots[0] >= place)
    log.state[LEADER] = -1.0
    log.name_items()


def part_of(log: ColumnLog, positions: Indices, places: Indices, memory: Matrix | None = None) -> ColumnLog:
    """The same for some of the actions, as a log of their own; `memory` of an earlier part is used if it fits.

    `places` tells where the point of each slot stands among them, −1 for nowhere. The part is sealed: what is known now
    stays as it is.
    """
    part = ColumnLog.__new__(ColumnLog)
    part.__dict__.update(log.__dict__)
    part.size, part.items = len(positions), np.take(log.items, positions, axis=1)
    part.slots, part.taken, part.state, part.tied = (
        log.slots.copy(),
        log.taken.copy(),
        log.state.copy(),
        log.tied.copy(),
    )
    part.slots[0, : log.n_slots] = places
    part.state[[DRIFT, SPREAD, REACH, UPDATES]], part.state[LEADER] = 0.0, -1.0
    part.sealed = log.n_runs
    if memory is None or memory.shape[1] != part.size or len(memory) < log.n_runs + PART_ROOM:
        memory = np.empty((2 * log.n_runs + 4 * PART_ROOM, part.size))
    # Clipping changes nothing, as all positions are valid, and spares NumPy a second buffer.
    np.take(log.rows[: log.n_runs], positions, axis=1, out=memory[: log.n_runs], mode="clip")
    part.make_room(memory)
    part.name_items()
    return part
