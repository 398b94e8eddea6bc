"""Column log: means and variances of many actions, updated by columns of the posterior covariance."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from kernelbandits._threads import for_each_part, limit_blas_threads, threads_for
from kernelbandits.posterior.base import too_small
from kernelbandits.selection._catalog_loops import (
    BLOCK,
    DRIFT,
    INNOVATION,
    LARGEST,
    LEADER,
    MEAN_DRIFT,
    N_RUN,
    N_STATE,
    PER_FLAG,
    READ,
    RUNS,
    SLOT,
    UPDATES,
    WEIGHT,
    Flags,
    Pull,
    loops,
)
from kernelbandits.selection.ties import lowered
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["DRIFT_LIMIT", "FALL", "ColumnLog", "Screen", "columns_for", "insert", "keep", "part_of"]

FIRST_ROWS: Final = 2112
"""Columns that a new log has capacity for, unless they would exceed `FIRST_BYTES`. Capacity costs nothing until it is
used, since the operating system allocates memory at the first write; moving columns to a larger buffer is expensive."""

FIRST_BYTES: Final = 3_000_000_000

FEW_ROWS: Final = 32
SMALL_BYTES: Final = 16_000_000
"""Initial capacity in columns of a log for which `FIRST_ROWS` columns would be smaller than this: a policy may have
thousands of small catalogs, and moving few bytes costs nothing."""

LISTED_TIES: Final = 64
"""Tied actions that a compiled kernel lists; more are found by NumPy, as in a first round where all are tied."""

ENTRIES_PER_CALL: Final = 500_000
"""Array entries that a round may touch in one compiled call; for more, the number of threads is chosen first."""

NO_LIMIT: Final = 1 << 40

NEEDS_SIMILARITIES: Final = -2
"""Result of a round whose changed slot is new."""


FALL: Final = 100.0
"""Largest ratio of the largest applied reward sum to the largest current one (or to 1) before means are recomputed from
the sums: updates retain rounding errors of the size of the sums once applied. `round_loop` has the same constant."""

DRIFT_LIMIT: Final = 1e-11
"""Fraction of the largest k(x, x) by which the two values of v(x) in a log may differ before it is rebuilt."""


class Screen(NamedTuple):
    """Threshold test of a pass: flags actions with a score mean + sqrt(squared · variance) of at least `bar`."""

    squared: float = 0.0
    bar: float = np.inf


NO_SCREEN: Final = Screen()

Similarities = Callable[[Indices, Matrix], None]
"""Callback that writes k(·, x) of the points in these slots with all actions of a log, one row per point."""


class ColumnLog:
    """Mean μ and variance v (so that width² = v/γ) of n actions, and the columns that produced them.

    Observing x n more times with reward sum s moves every action a by its posterior covariance c(a) with x:

        v(a) −= n c(a)² / (n v(x) + γ),    μ(a) += c(a) (s − n μ(x)) / (n v(x) + γ).

    Successive observations of one point form one pull block, called a *run*. For each run the log stores the column c
    at its start, its count n and d = n v(x) + γ. So the posterior covariance is the kernel less Σ_j (n_j/d_j) c_j c_jᵀ,
    and a column is

        new point:            c = k(·, x)      − Σ_{all runs j}      (n_j/d_j) c_j(x) c_j
        seen before, run i:   c = (γ/d_i) c_i  − Σ_{runs j after i}  (n_j/d_j) c_j(x) c_j

    because within a run a column shrinks by γ/d. Pulling the most recent point again costs only the pass over μ and v,
    a point pulled q runs ago reads q columns, a new point reads all. A Cholesky factor of γI + D^½ K D^½ (D the counts)
    is such a log with one run per point, c_j = l_jj n_j^(-½) · (row j of L⁻¹ D^½ k) and d_j = l_jj²: `rebuild` computes
    it from the counts, without accumulated rounding errors. In exact arithmetic all of this is the posterior of Valko
    et al. (2013), KernelUCB, in any order of the observations.

    Points are identified by their slot, the index of a distinct point in a record. The log maps each slot to an action
    and stores the count and sum of each slot that were applied. It holds (runs + 3) · n doubles.
    """

    def __init__(self, prior: Vector, regularization: float) -> None:
        self.regularization = regularization
        self.size = len(prior)
        self.items: Matrix = np.vstack([np.zeros(self.size), prior, prior])
        self.n_runs = self.n_slots = self.n_points = 0
        self.most_runs = 0
        """Largest number of runs so far: the part of the buffer that was written."""
        self.next_look = 0
        self.frozen_runs = 0
        """Number of runs that are frozen: they are not continued, so the state they define can still be read."""
        self.applied: Matrix = np.zeros((2, 64))
        """Applied counts and sums of the slots."""
        self.slots: Indices = np.full((2, 64), -1, dtype=np.int64)
        """Action index of each slot's point, −1 for none; last run of each slot, −1 for none."""
        self.tied: Indices = np.zeros(LISTED_TIES, dtype=np.int64)
        self.state: Vector = np.zeros(N_STATE)
        self.state[LEADER] = -1.0
        self.marks: Indices = np.zeros((3, 0), dtype=np.int64)
        self.runs: Matrix = np.zeros((N_RUN, 0))
        self.flags: Flags = np.zeros(0, dtype=np.uint8)
        n_rows = max(16, min(FIRST_ROWS, FIRST_BYTES // (8 * self.size)))
        if 8 * FIRST_ROWS * self.size <= SMALL_BYTES:
            n_rows = FEW_ROWS
        self.make_room(np.empty((n_rows, self.size)))
        self.name_items()

    def make_room(self, rows: Matrix) -> None:
        """Set the buffer of the columns and allocate the arrays per run with the same capacity."""
        capacity, used = len(rows), self.n_runs
        self.rows = rows
        marks, runs = np.zeros((3, capacity), dtype=np.int64), np.zeros((N_RUN, capacity))
        marks[:, :used], runs[:, :used] = self.marks[:, :used], self.runs[:, :used]
        self.marks, self.runs = marks, runs
        self._gather()
        self.run_slots, self.run_positions, self.before = (
            marks  # per run; `before` is the previous run of the same point, −1 for none
        )
        self.counts, self.totals, self.initial_variances, self.pivots = runs[:WEIGHT]
        self.weights, self.mean_coefficients, self.coefficients = runs[WEIGHT:]

    def name_items(self) -> None:
        """Rebind the views of `items` after its array was replaced."""
        self.mean, self.variance, self.prior = self.items[:, : self.size]
        self.flags = np.ones(-(-self.size // PER_FLAG), dtype=np.uint8)
        self._gather()

    def _gather(self) -> None:
        """Collect the arrays in the order of `LogArrays`, for kernels, after one of them was replaced."""
        self._arrays = (
            self.applied, self.slots, self.marks, self.runs, self.rows, self.items, self.flags, self.tied, self.state,
        )  # fmt: skip
        self._most_read = ENTRIES_PER_CALL // self.size - 6

    @property
    def n_bytes(self) -> int:
        """Memory in use; rows of a large buffer that were never written are not counted."""
        columns = self.rows.nbytes
        if columns > SMALL_BYTES:
            columns = 8 * max(self.n_runs, self.most_runs) * self.rows.shape[1]
        arrays = (self.items, self.applied, self.slots, self.marks, self.runs, self.tied, self.flags)
        return columns + sum(array.nbytes for array in arrays)

    @property
    def places(self) -> Indices:
        """Action index of the point of each slot."""
        return self.slots[0, : self.n_slots]

    @property
    def last_run(self) -> Indices:
        """Last run of each slot."""
        return self.slots[1, : self.n_slots]

    def meet(self, places: Indices) -> None:
        """Add slots whose points have these action indices."""
        known, n_slots = self.n_slots, self.n_slots + len(places)
        if n_slots > self.applied.shape[1]:
            more = max(n_slots, 2 * known) - self.applied.shape[1]
            self.applied = np.pad(self.applied, ((0, 0), (0, more)))
            self.slots = np.pad(self.slots, ((0, 0), (0, more)), constant_values=-1)
            self._gather()
        self.n_slots = n_slots
        self.slots[0, known:n_slots] = places

    def reserve(self, more: int, filled: int = 0) -> None:
        """Ensure capacity for `more` runs; `filled` rows behind the runs are preserved."""
        needed = self.n_runs + more
        if needed > len(self.rows):
            larger = np.empty((max(needed, 2 * len(self.rows)), self.rows.shape[1]))
            used = self.n_runs + filled
            larger[:used] = self.rows[:used]
            self.make_room(larger)
            self.most_runs = used

    # -- one pull --------------------------------------------------------------------------------------------------

    def round(self, counts: Vector, sums: Vector, similarities: Similarities, beta: float, n_items: int) -> int:
        """Apply the one changed slot, and find the best of the first n_items actions by μ + β sqrt(v).

        `counts` and `sums` are those of the log's slots, and may be longer. Returns the number of tied actions, listed
        in `tied`; −1 if nothing was done because it takes more than one
        compiled call.
        """
        if self.n_runs == len(self.rows):
            self.reserve(1)
        arrays, sizes = self._arrays, (self.n_slots, self.n_runs, self.size, n_items, self.frozen_runs)
        n_read, n_tied, gamma = self._most_read, -1, self.regularization
        if n_read >= 0:
            n_tied = loops.round(arrays, counts, sums, (*sizes, n_read, False), beta, gamma)
        if n_tied == -1 and threads_for(8 * (self.n_runs + 6) * self.size, -(-self.size // BLOCK)) == 1:
            n_read = NO_LIMIT
            n_tied = loops.round(arrays, counts, sums, (*sizes, n_read, False), beta, gamma)
        if n_tied == NEEDS_SIMILARITIES:
            row = self.rows[self.n_runs : self.n_runs + 1, : self.size]
            similarities(np.array([self.state.item(SLOT)], dtype=np.int64), row)
            n_tied = loops.round(arrays, counts, sums, (*sizes, n_read, True), beta, gamma)
            self.n_points += n_tied != -1
        if n_tied != -1:
            self.n_runs = int(self.state.item(RUNS))
        return int(n_tied)

    def pull(
        self, slot: int, count: float, total: float, similarities: Similarities, screen: Screen = NO_SCREEN
    ) -> None:
        """Apply a pull: the count and reward sum of a slot have grown to these; a new slot calls `similarities`."""
        position, known, gamma = self.slots.item(0, slot), self.slots.item(1, slot), self.regularization
        times, gained = count - self.applied.item(0, slot), total - self.applied.item(1, slot)
        run = self.n_runs
        is_same = known == run - 1 and known >= self.frozen_runs
        if is_same:
            factor = gamma / self.pivots.item(known)
            start = self.initial_variances.item(known) * factor
        else:
            self.reserve(1)
            factor = 1.0 if known < 0 else gamma / self.pivots.item(known)
            start = self.variance.item(position)
        scale = self.checked_scale(times * start + gamma, position)
        gain = (gained - times * self.mean.item(position)) / scale
        if is_same:
            self._pass(Pull(known, factor, known, known, -1, gain, times / scale), screen)
            count_now = self.counts.item(known) + times
            whole = count_now * self.initial_variances.item(known) + gamma
            self.counts[known], self.pivots[known], self.weights[known] = count_now, whole, count_now / whole
            self.mean_coefficients[known] += factor * gain
            self.totals[known] += gained
        else:
            if known < 0:
                self.n_points += 1
                similarities(np.array([slot]), self.rows[run : run + 1, : self.size])
            later = slice(known + 1, run)
            np.multiply(self.weights[later], self.rows[later, position], self.coefficients[later])
            base = run if known < 0 else known
            self._pass(Pull(base, factor, known + 1, run, run, gain, times / scale), screen)
            if known >= 0:
                self.state[DRIFT] = max(self.state.item(DRIFT), abs(self.rows.item(run, position) - start))
            self.run_slots[run], self.run_positions[run], self.before[run] = slot, position, known
            self.runs[:6, run] = times, gained, start, scale, times / scale, gain
            self.slots[1, slot], self.n_runs = run, run + 1
        self.variance[position] = start * gamma / scale  # exact remainder, where a difference would cancel
        self.flags[position // PER_FLAG] = 1
        self.applied[:, slot] = count, total
        self.state[LARGEST] = max(self.state.item(LARGEST), abs(total))
        self.state[MEAN_DRIFT] += sqrt(max(start, 0.0)) * abs(gain)
        self.state[INNOVATION] += gain * gain * scale / times
        self.state[UPDATES] += 1.0
        self.state[READ] += 0.05 * (run - 1 - known - self.state.item(READ))

    def score_after(self, slot: int, count: float, total: float, beta: float) -> float:
        """Score of the point of a slot after such a pull, computed in advance.

        v(x) becomes v γ/(n v + γ), and μ(x) moves by v (s − n μ)/(n v + γ).
        """
        position = self.slots.item(0, slot)
        mean, variance = self.mean.item(position), self.variance.item(position)
        times, gained = count - self.applied.item(0, slot), total - self.applied.item(1, slot)
        scale = times * variance + self.regularization
        mean += variance * (gained - times * mean) / scale
        return float(mean + beta * sqrt(max(variance * self.regularization / scale, 0.0)))

    def _pass(self, pull: Pull, screen: Screen) -> None:
        """Run `pull_loop` over all actions, in several threads if that pays off."""
        rows, coefficients, items, flags, given = self.rows, self.coefficients, self.items, self.flags, tuple(pull)
        for_each_part(
            lambda start, stop: loops.pull(given, rows, coefficients, items, start, stop, *screen, flags),
            self.size, align=BLOCK, n_bytes=8 * (pull.last - pull.first + 6) * self.size,
        )  # fmt: skip

    def screen(self, beta: float, score: float) -> None:
        """Flag the actions that may be tied with this score or better."""
        items, flags, squared, bar = self.items, self.flags, beta * beta, lowered(score)
        for_each_part(
            lambda start, stop: loops.screen(items, start, stop, squared, bar, flags),
            self.size, align=BLOCK, n_bytes=16 * self.size,
        )  # fmt: skip

    def checked_scale(self, scale: float, position: int) -> float:
        """Validate a scale; raise NumericalError if rounding left nothing of it, which a PSD kernel allows."""
        if not scale > 0.0:
            counts = np.append(self.applied[0, : self.n_slots], 1.0)
            raise too_small(self.regularization, self.prior[np.append(self.places, position)], counts)
        return scale

    def has_fallen(self, sums: Vector) -> bool:
        """Whether the record's reward sums are much smaller than sums once applied, so that means have lost digits."""
        return self.state.item(LARGEST) > FALL * max(1.0, float(np.abs(sums).max(initial=0.0)))

    # -- other queries and updates ----------------------------------------------------------------------------------

    def change_sum(self, slot: int, total: float) -> None:
        """Change the reward sum of a slot: μ += c · change/γ; variances do not depend on rewards."""
        run, last, position = self.slots.item(1, slot), self.n_runs, self.slots.item(0, slot)
        change = total - self.applied.item(1, slot)
        step = change / self.regularization
        lifts = np.zeros(last - run)
        lifts[0] = step * self.regularization / self.pivots[run]
        lifts[1:] = -step * self.weights[run + 1 : last] * self.rows[run + 1 : last, position]
        with limit_blas_threads(float(len(lifts)) * self.size):
            self.mean += lifts @ self.rows[run:last, : self.size]
        self.mean_coefficients[run:last] += lifts
        self.totals[run] += change
        self.applied[1, slot] = total
        self.state[LARGEST] = max(self.state.item(LARGEST), abs(total))

    def sealed_covariances(self, positions: Indices, first: int, known: Indices) -> Matrix:
        """Posterior covariances, by the frozen runs, of the actions positions[first:] with all of positions.

        `known` are the last frozen runs of those actions; for −1 (no such run) the similarities are not included.
        """
        end = self.frozen_runs
        columns = self.rows[:end, positions]
        weights = columns[:, first:].T * self.weights[:end]
        weights[np.arange(end) <= known[:, None]] = 0.0
        with limit_blas_threads(float(weights.size) * len(positions)):
            covariances: Matrix = -(weights @ columns)
        old = known >= 0
        covariances[old] += (self.regularization / self.pivots[known[old]])[:, None] * columns[known[old]]
        return covariances


PART_ROOM: Final = 64
"""Capacity of a part in runs beyond its initial ones."""

ENTRIES_AT_ONCE: Final = 16_384
"""Entries gathered at a time, so that they stay in cache until they are written."""

LEAST_SPARE: Final = 64
"""Spare capacity in actions after the first insertion; a 64th of all if that is more, so that many insertions copy the
columns only occasionally."""


def insert(log: ColumnLog, place: int, prior: Vector, to_points: Callable[[Indices], Matrix]) -> None:
    """Insert new actions at `place`; `to_points(slots)` returns their similarities to points of the record.

    Their columns are computed from the log, one entry after the other.
    """
    n_new, n_runs, size = len(prior), log.n_runs, log.size
    columns = columns_for(log, np.zeros((0, n_new)), to_points)
    if size + n_new > log.rows.shape[1]:
        width = size + n_new + max(LEAST_SPARE, size // 64, n_new)
        rows, items = np.empty((len(log.rows), width)), np.zeros((3, width))
        rows[:n_runs, :size], items[:, :size] = log.rows[:n_runs, :size], log.items[:, :size]
        log.rows, log.items = rows, items
    known = np.vstack([log.mean_coefficients[:n_runs] @ columns, prior - log.weights[:n_runs] @ columns**2, prior])
    for table, values in ((log.rows[:n_runs], columns), (log.items, known)):
        table[:, place + n_new : size + n_new] = table[:, place:size].copy()
        table[:, place : place + n_new] = values
    log.size += n_new
    log.run_positions[:n_runs] += n_new * (log.run_positions[:n_runs] >= place)
    log.slots[0] += n_new * (log.slots[0] >= place)
    log.state[LEADER] = -1.0
    log.name_items()


def keep(log: ColumnLog, order: Indices) -> None:
    """Keep these actions only, in this order. The points of all slots must be among them."""
    size, n_runs = len(order), log.n_runs
    place_of = np.full(log.size, -1)
    place_of[order] = np.arange(size)
    if 2 * size < log.rows.shape[1]:
        rows = np.empty((len(log.rows), size + max(LEAST_SPARE, size // 64)))
        for run in range(n_runs):
            rows[run, :size] = log.rows[run, order]
        log.rows = rows
    else:
        for run in range(n_runs):
            log.rows[run, :size] = log.rows[run, order]
    items = np.zeros((3, log.rows.shape[1]))
    items[:, :size] = log.items[:, order]
    log.items, log.size = items, size
    log.run_positions[:n_runs] = place_of[log.run_positions[:n_runs]]
    log.slots[0, : log.n_slots] = place_of[log.places]
    log.state[LEADER] = -1.0
    log.name_items()


def columns_for(log: ColumnLog, known: Matrix, to_points: Callable[[Indices], Matrix]) -> Matrix:
    """Entries of all columns for other actions, given those of the first runs; shape (runs, actions)."""
    n_known, n_runs = len(known), log.n_runs
    columns = np.empty((n_runs, known.shape[1]))
    columns[:n_known] = known
    if n_known == n_runs:
        return columns
    before = log.before[n_known:n_runs]
    is_first = before < 0
    if is_first.any():
        columns[n_known:][is_first] = to_points(log.run_slots[n_known:n_runs][is_first])
    weights = log.rows[:n_runs, log.run_positions[n_known:n_runs]].T * log.weights[:n_runs]  # (requested runs, runs)
    weights[np.arange(n_runs) <= before[:, None]] = 0.0
    explained = weights[:, :n_known] @ known
    for place, run in enumerate(range(n_known, n_runs)):
        if before[place] >= 0:
            columns[run] = log.regularization / log.pivots[before[place]] * columns[before[place]]
        columns[run] -= explained[place]
        columns[run] -= weights[place, n_known:run] @ columns[n_known:run]
    return columns


def part_of(log: ColumnLog, positions: Indices, places: Indices, width: int, memory: Matrix | None = None) -> ColumnLog:
    """Log of a subset of the actions; `memory` of an earlier part is reused if it fits.

    It has capacity for `width` actions. `places` maps each slot to an index in the part, −1 for none. The initial runs
    of the part are frozen.
    """
    part = ColumnLog.__new__(ColumnLog)
    part.__dict__.update(log.__dict__)
    part.size, part.items = len(positions), np.zeros((3, width))
    np.take(log.items, positions, axis=1, out=part.items[:, : part.size])
    part.slots, part.applied, part.state, part.tied = (
        log.slots.copy(),
        log.applied.copy(),
        log.state.copy(),
        log.tied.copy(),
    )
    part.slots[0, : log.n_slots] = places
    part.state[[DRIFT, MEAN_DRIFT, INNOVATION, UPDATES]], part.state[LEADER] = 0.0, -1.0
    part.frozen_runs = log.n_runs
    if memory is None or memory.shape[1] != width or len(memory) < log.n_runs + PART_ROOM:
        memory = np.empty((2 * log.n_runs + 4 * PART_ROOM, width))
    step = max(1, ENTRIES_AT_ONCE // part.size)
    for begin in range(0, log.n_runs, step):
        some = slice(begin, min(log.n_runs, begin + step))
        memory[some, : part.size] = np.take(log.rows[some], positions, axis=1)
    part.make_room(memory)
    part.name_items()
    return part
