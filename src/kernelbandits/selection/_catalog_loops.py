"""Kernels over all actions, written to be compiled: plain loops over blocks of actions.

A kernel processes a part of the actions, [start, stop), without the interpreter: see `loops` and `_threads`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._compile import MATRIX, VECTOR, Loop, Loops, part
from kernelbandits.types import TIE_SLACK, TIE_TOLERANCE, Indices, Matrix, Vector

__all__ = [
    "BLOCK",
    "Pull",
    "best_loop",
    "changes_loop",
    "loops",
    "make_loops",
    "pull_loop",
    "rest_loop",
    "round_loop",
    "screen_loop",
]

BLOCK: Final = 1024
"""Actions per block: a block of column, means and variances (24 kB) fits into the L1 cache."""

PER_FLAG: Final = 128
"""Actions per candidate flag, a divisor of `BLOCK`: the search reads the flagged ones twice, one by one."""

Flags = NDArray[np.uint8]


class Pull(NamedTuple):
    """One pull; a kernel takes it as a plain tuple.

    c = factor · rows[base] − Σ_{first ≤ j < last} weights[j] · rows[j]
    mean += gain · c,   variance −= shrink · c²
    """

    base: int
    factor: float
    first: int
    last: int
    target: int
    """Row to which the column is written; −1 for none."""

    gain: float
    shrink: float


@part()
def pull_loop(
    given_pull: tuple[Any, ...],
    rows: Matrix,
    weights: Vector,
    items: Matrix,
    start: int,
    stop: int,
    squared: float,
    threshold: float,
    flags: Flags,
) -> None:
    """Apply one pull to the actions [start, stop): compute the column, update by it, and mark candidates.

    Means and variances are the first two rows of `items`. flags[b] is set if any action of [128 b, 128 b + 128) has
    mean + sqrt(squared · variance) ≥ threshold, tested without a square root: mean ≥ threshold or
    (threshold − mean)² ≤ squared · variance.
    """
    base, factor, first, last, target, gain, shrink = Pull(*given_pull)
    column = np.empty(BLOCK)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        n = end - begin
        source = rows[base, begin:end]
        for a in range(n):
            column[a] = factor * source[a]
        j = first
        while j + 4 <= last:
            w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
            r0, r1 = rows[j, begin:end], rows[j + 1, begin:end]
            r2, r3 = rows[j + 2, begin:end], rows[j + 3, begin:end]
            for a in range(n):
                column[a] -= (w0 * r0[a] + w1 * r1[a]) + (w2 * r2[a] + w3 * r3[a])
            j += 4
        while j < last:
            w0, r0 = weights[j], rows[j, begin:end]
            for a in range(n):
                column[a] -= w0 * r0[a]
            j += 1
        if target >= 0:
            stored = rows[target, begin:end]
            for a in range(n):
                stored[a] = column[a]
        for low in range(0, n, PER_FLAG):
            high = min(low + PER_FLAG, n)
            changes, m, v = column[low:high], items[0, begin + low : begin + high], items[1, begin + low : begin + high]
            count = 0
            for a in range(high - low):
                c = changes[a]
                now = m[a] + gain * c
                left = v[a] - shrink * (c * c)
                m[a] = now
                v[a] = left
                gap = threshold - now
                if gap <= 0.0:
                    gap = 0.0
                count += gap * gap <= squared * max(left, 0.0)
            flags[(begin + low) // PER_FLAG] = count > 0


@part()
def screen_loop(items: Matrix, start: int, stop: int, squared: float, threshold: float, flags: Flags) -> None:
    """Mark candidates, as in `pull_loop`, if nothing has changed."""
    for begin in range(start, stop, PER_FLAG):
        end = min(begin + PER_FLAG, stop)
        m, v = items[0, begin:end], items[1, begin:end]
        count = 0
        for a in range(end - begin):
            gap = threshold - m[a]
            if gap <= 0.0:
                gap = 0.0
            count += gap * gap <= squared * max(v[a], 0.0)
        flags[begin // PER_FLAG] = count > 0


@part()
def best_loop(items: Matrix, exploration: float, stop: int, flags: Flags, tied: Indices) -> tuple[float, int]:
    """Best score of the flagged actions, the number of actions tied with it, and those actions, lowest first.

    If more than len(tied) actions are tied, they are counted but not listed. A square root is applied only of actions
    near the best so far: the allowance of 1e-9 in the squares is far above their rounding error.
    """
    mean, variance = items[0], items[1]
    squared = exploration * exploration * (1.0 + 1e-9)
    is_plain = exploration < 0.0
    best = -np.inf
    for place in range(len(flags)):
        if flags[place]:
            for a in range(place * PER_FLAG, min(place * PER_FLAG + PER_FLAG, stop)):
                gap = best - mean[a]
                if is_plain or gap <= 0.0 or gap * gap <= squared * variance[a]:
                    score = mean[a] + exploration * sqrt(max(variance[a], 0.0))
                    if score > best:
                        best = score
    worst = best - TIE_TOLERANCE * max(1.0, abs(best))
    n_tied = 0
    for place in range(len(flags)):
        if flags[place]:
            for a in range(place * PER_FLAG, min(place * PER_FLAG + PER_FLAG, stop)):
                gap = worst - mean[a]
                if (is_plain or gap <= 0.0 or gap * gap <= squared * variance[a]) and mean[a] + exploration * sqrt(
                    max(variance[a], 0.0)
                ) >= worst:
                    if n_tied < len(tied):
                        tied[n_tied] = a
                    n_tied += 1
    return best, n_tied


def changes_loop(counts: Vector, sums: Vector, applied: Matrix, found: Indices) -> int:
    """Number of slots whose count or sum differs from the applied one; the slots are written to `found`."""
    n_found = 0
    for slot in range(len(counts)):
        if counts[slot] != applied[0, slot] or sums[slot] != applied[1, slot]:
            found[n_found] = slot
            n_found += 1
    return n_found


def rest_loop(mean: Vector, roots: Vector, factors: Vector, highest: Vector) -> None:
    """highest[f] = max over actions of mean + roots · factors[f]."""
    highest[:] = -np.inf
    for begin in range(0, len(mean), BLOCK):
        end = min(begin + BLOCK, len(mean))
        m, r = mean[begin:end], roots[begin:end]
        for f in range(len(factors)):
            factor, top = factors[f], -np.inf
            for a in range(end - begin):
                bound = m[a] + r[a] * factor
                top = bound if bound > top else top
            if top > highest[f]:
                highest[f] = top


class LogArrays(NamedTuple):
    """Arrays of a `ColumnLog`, which explains them; a kernel takes them as a plain tuple."""

    applied: Matrix
    slots: Indices
    marks: Indices
    runs: Matrix
    rows: Matrix
    items: Matrix
    flags: Flags
    tied: Indices
    state: Vector


class RoundLimits(NamedTuple):
    """Sizes of a `ColumnLog` and limits of one round; a kernel takes them as a plain tuple."""

    n_slots: int
    n_runs: int
    size: int
    n_items: int
    frozen_runs: int
    most_read: int
    """Largest number of columns to read."""

    is_filled: bool
    """Whether rows[n_runs] holds the similarities of a new slot."""


DRIFT, MEAN_DRIFT, UPDATES, READ, BEST, SLOT, LEADER, RUNS, INNOVATION, LARGEST, N_STATE = range(11)
"""Indices into a log's `state`: the largest difference between the two values that the log has for v(x) of a repeated
x; Σ sqrt(v(x)) |gain| over the pulls, see `ActiveSet`; the number of pulls; a running mean of the columns read per
pull; the best score; the slot pulled last; the last best action, −1 for none; the number of runs; Σ gain² d/n over the
pulls, see `ActiveSet`; the largest magnitude of a reward sum applied since the last rebuild."""

COUNT, TOTAL, INITIAL_VARIANCE, PIVOT, WEIGHT, MEAN_COEFFICIENT, SCRATCH, N_RUN = range(8)
"""Rows of `runs`: observations and rewards of a run; v(x) at its start; d; n/d; m in μ = Σ_j m_j c_j; scratch for
column products. The first two are also the rows of `applied`."""

POSITION, LAST_RUN = range(2)
"""Rows of `slots`: action index of each slot's point, −1 for none; last run of each slot, −1 for none."""

RUN_SLOT, RUN_POSITION, BEFORE = range(3)
"""Rows of `marks`: slot and action index of a run's point; the previous run of the same point, −1 for none."""

MEAN, VARIANCE = range(2)
"""Rows of `items`; the third is k(x, x)."""


UNSUPPORTED: Final = -2


@part()
def changed_slot(counts: Vector, sums: Vector, applied: Matrix, n_slots: int, largest: float) -> int:
    """The one slot whose count or sum differs from the applied one; −1 if there is none.

    `UNSUPPORTED` if there are several, or if all sums have decreased from far above.
    """
    n_changed, n_large = 0, 0
    for i in range(min(n_slots, len(counts))):
        n_changed += (counts[i] != applied[COUNT, i]) | (sums[i] != applied[TOTAL, i])
        n_large += 100.0 * abs(sums[i]) >= largest  # FALL; a test compares
    if n_changed > 1 or (n_large == 0 and largest > 100.0):
        return UNSUPPORTED
    if n_changed == 0:
        return -1
    slot = 0
    while counts[slot] == applied[COUNT, slot] and sums[slot] == applied[TOTAL, slot]:
        slot += 1
    return slot


def round_loop(  # noqa: C901 – one call instead of several is the purpose
    given_arrays: tuple[Any, ...],
    counts: Vector,
    sums: Vector,
    given_limits: tuple[Any, ...],
    beta: float,
    gamma: float,
) -> int:
    """Perform a whole round in one call: find the one changed slot, apply its pull, and find the best.

    Returns the number of actions tied for the best; −1 if nothing was done because the case is not supported (several
    changes, a count that decreased, sums that decreased from far above, an unknown action, too many columns to read);
    −2 if the changed slot is new and rows[n_runs] must be filled with its similarities first. The formulas are those
    of `ColumnLog.pull`.
    """
    arrays, limits = LogArrays(*given_arrays), RoundLimits(*given_limits)
    applied, slots, marks, runs = arrays.applied, arrays.slots, arrays.marks, arrays.runs
    rows, items, flags, tied, state = arrays.rows, arrays.items, arrays.flags, arrays.tied, arrays.state
    n_runs, size, n_items, frozen_runs = limits.n_runs, limits.size, limits.n_items, limits.frozen_runs
    slot, is_same = changed_slot(counts, sums, applied, limits.n_slots, state[LARGEST]), True
    if slot == UNSUPPORTED:
        return -1
    squared = beta * beta
    if slot < 0:
        leader, threshold = int(state[LEADER]), -np.inf
        if leader >= 0:
            score = items[MEAN, leader] + beta * sqrt(max(items[VARIANCE, leader], 0.0))
            threshold = score - (TIE_TOLERANCE + TIE_SLACK) * max(1.0, abs(score))
        screen_loop(items, 0, size, squared, threshold, flags)
    else:
        times, total = counts[slot] - applied[COUNT, slot], sums[slot] - applied[TOTAL, slot]
        position, known = slots[POSITION, slot], slots[LAST_RUN, slot]
        if times <= 0.0 or position < 0:
            return -1
        is_same = known == n_runs - 1 and known >= frozen_runs
        if not is_same and (n_runs >= len(rows) or n_runs - known > limits.most_read):
            return -1
        state[SLOT] = slot
        if known < 0 and not limits.is_filled:
            return -2
        if is_same:
            factor = gamma / runs[PIVOT, known]
            begun = runs[INITIAL_VARIANCE, known] * factor
        else:
            factor = 1.0 if known < 0 else gamma / runs[PIVOT, known]
            begun = items[VARIANCE, position]
        before = items[MEAN, position]
        scale = times * begun + gamma
        if not scale > 0.0:
            return -1
        gain = (total - times * before) / scale
        left = begun * gamma / scale
        threshold = -np.inf
        if position < n_items:
            score = before + begun * gain + beta * sqrt(max(left, 0.0))
            threshold = score - (TIE_TOLERANCE + TIE_SLACK) * max(1.0, abs(score))
        if is_same:
            pull = Pull(known, factor, known, known, -1, gain, times / scale)
            pull_loop(pull, rows, runs[SCRATCH], items, 0, size, squared, threshold, flags)
            count = runs[COUNT, known] + times
            whole = count * runs[INITIAL_VARIANCE, known] + gamma
            runs[COUNT, known], runs[PIVOT, known], runs[WEIGHT, known] = count, whole, count / whole
            runs[MEAN_COEFFICIENT, known] += factor * gain
            runs[TOTAL, known] += total
        else:
            for j in range(known + 1, n_runs):
                runs[SCRATCH, j] = runs[WEIGHT, j] * rows[j, position]
            pull = Pull(n_runs if known < 0 else known, factor, known + 1, n_runs, n_runs, gain, times / scale)
            pull_loop(pull, rows, runs[SCRATCH], items, 0, size, squared, threshold, flags)
            if known >= 0:
                state[DRIFT] = max(state[DRIFT], abs(rows[n_runs, position] - begun))
            marks[RUN_SLOT, n_runs], marks[RUN_POSITION, n_runs], marks[BEFORE, n_runs] = slot, position, known
            runs[COUNT, n_runs], runs[TOTAL, n_runs] = times, total
            runs[INITIAL_VARIANCE, n_runs], runs[PIVOT, n_runs] = begun, scale
            runs[WEIGHT, n_runs], runs[MEAN_COEFFICIENT, n_runs] = times / scale, gain
            slots[LAST_RUN, slot] = n_runs
        items[VARIANCE, position] = left
        flags[position // PER_FLAG] = 1  # its own variance is known more accurately than by the pass
        applied[COUNT, slot], applied[TOTAL, slot] = counts[slot], sums[slot]
        state[MEAN_DRIFT] += sqrt(max(begun, 0.0)) * abs(gain)
        state[INNOVATION] += gain * gain * scale / times
        state[UPDATES] += 1.0
        state[READ] += 0.05 * (n_runs - 1 - known - state[READ])
        state[LARGEST] = max(state[LARGEST], abs(sums[slot]))
    state[RUNS] = n_runs if is_same else n_runs + 1
    best, n_tied = best_loop(items, beta, n_items, flags, tied)
    state[BEST] = best
    if n_tied > 0:
        state[LEADER] = tied[0]
    return n_tied


FLAGS, PLACES, TABLE = "uint8[::1]", "int64[::1]", "int64[:, ::1]"
PART = f"{MATRIX}, int64, int64"


def make_loops() -> Loops:
    """A new group. No sum is reordered, so threads change nothing; a maximum may be."""
    return Loops(
        pull=Loop(
            loop=pull_loop,
            signature="void(Tuple((int64, float64, int64, int64, int64, float64, float64)), "
            f"{MATRIX}, {VECTOR}, {PART}, float64, float64, {FLAGS})",
        ),
        screen=Loop(loop=screen_loop, signature=f"void({PART}, float64, float64, {FLAGS})"),
        best=Loop(
            loop=best_loop,
            signature=f"Tuple((float64, int64))({MATRIX}, float64, int64, {FLAGS}, {PLACES})",
        ),
        changes=Loop(
            loop=changes_loop,
            signature=f"int64({VECTOR}, {VECTOR}, {MATRIX}, {PLACES})",
        ),
        rest=Loop(
            loop=rest_loop,
            signature=f"void({VECTOR}, {VECTOR}, {VECTOR}, {VECTOR})",
            fast=frozenset({"reassoc", "nnan"}),
        ),
        # A whole round in one call.
        round=Loop(
            loop=round_loop,
            signature=f"int64(Tuple(({MATRIX}, {TABLE}, {TABLE}, {MATRIX}, {MATRIX}, {MATRIX}, {FLAGS}, {PLACES}, "
            f"{VECTOR})), {VECTOR}, {VECTOR}, Tuple(({', '.join(['int64'] * 6)}, boolean)), float64, float64)",
        ),
    )


loops: Final = make_loops()
"""Shared by all engines of the process."""
