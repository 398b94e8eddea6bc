"""Kernels over all actions, written to be compiled: plain loops over blocks of actions.

A kernel processes a part of the actions, [start, stop), without the interpreter: see `loops` and `_threads`.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._compile import MATRIX, VECTOR, Loop, Loops, part
from kernelbandits.types import Indices, Matrix, Vector

__all__ = [
    "BLOCK",
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

Flags = NDArray[np.uint8]


@part()
def pull_loop(
    rows: Matrix,
    base: int,
    factor: float,
    first: int,
    last: int,
    weights: Vector,
    target: int,
    gain: float,
    shrink: float,
    items: Matrix,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: Flags,
) -> None:
    """Apply one pull to the actions [start, stop): compute the column, update by it, and mark candidate blocks.

        c = factor · rows[base] − Σ_{first ≤ j < last} weights[j] · rows[j]
        mean += gain · c,   variance −= shrink · c²

    Means and variances are the first two rows of `items`. The column is written to rows[target], unless target is −1.
    hits[b] is set if any action of block b has mean + sqrt(squared · variance) ≥ bar, tested without a square root:
    mean ≥ bar or (bar − mean)² ≤ squared · variance.
    """
    column = np.empty(1024)
    for begin in range(start, stop, 1024):
        end = min(begin + 1024, stop)
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
            kept = rows[target, begin:end]
            for a in range(n):
                kept[a] = column[a]
        m, v = items[0, begin:end], items[1, begin:end]
        count = 0
        for a in range(n):
            c = column[a]
            now = m[a] + gain * c
            left = v[a] - shrink * (c * c)
            m[a] = now
            v[a] = left
            gap = bar - now
            if gap <= 0.0:
                gap = 0.0
            count += gap * gap <= squared * max(left, 0.0)
        hits[begin // 1024] = count > 0


@part()
def screen_loop(items: Matrix, start: int, stop: int, squared: float, bar: float, hits: Flags) -> None:
    """Mark candidate blocks, as in `pull_loop`, if nothing has changed."""
    for begin in range(start, stop, 1024):
        end = min(begin + 1024, stop)
        m, v = items[0, begin:end], items[1, begin:end]
        count = 0
        for a in range(end - begin):
            gap = bar - m[a]
            if gap <= 0.0:
                gap = 0.0
            count += gap * gap <= squared * max(v[a], 0.0)
        hits[begin // 1024] = count > 0


@part()
def best_loop(items: Matrix, exploration: float, stop: int, hits: Flags, tied: Indices) -> tuple[float, int]:
    """Best score of the marked blocks, the number of actions tied with it, and those actions, lowest first.

    If more than len(tied) actions are tied, they are counted but not listed. A square root is taken only of actions
    near the best so far: the allowance of 1e-9 in the squares is far above their rounding error.
    """
    mean, variance = items[0], items[1]
    squared = exploration * exploration * (1.0 + 1e-9)
    is_plain = exploration < 0.0
    best = -np.inf
    for block in range(len(hits)):
        if hits[block]:
            for a in range(block * 1024, min(block * 1024 + 1024, stop)):
                gap = best - mean[a]
                if is_plain or gap <= 0.0 or gap * gap <= squared * variance[a]:
                    score = mean[a] + exploration * sqrt(max(variance[a], 0.0))
                    if score > best:
                        best = score
    worst = best - 1e-10 * max(1.0, abs(best))  # TIE_TOLERANCE; a test compares
    n_tied = 0
    for block in range(len(hits)):
        if hits[block]:
            for a in range(block * 1024, min(block * 1024 + 1024, stop)):
                gap = worst - mean[a]
                if (is_plain or gap <= 0.0 or gap * gap <= squared * variance[a]) and mean[a] + exploration * sqrt(
                    max(variance[a], 0.0)
                ) >= worst:
                    if n_tied < len(tied):
                        tied[n_tied] = a
                    n_tied += 1
    return best, n_tied


def changes_loop(counts: Vector, sums: Vector, taken: Matrix, found: Indices) -> int:
    """Number of slots whose count or sum differs from the applied one; the slots are written to `found`."""
    n_found = 0
    for slot in range(len(counts)):
        if counts[slot] != taken[0, slot] or sums[slot] != taken[1, slot]:
            found[n_found] = slot
            n_found += 1
    return n_found


def rest_loop(mean: Vector, roots: Vector, factors: Vector, highest: Vector) -> None:
    """highest[f] = max over actions of mean + roots · factors[f]."""
    highest[:] = -np.inf
    for begin in range(0, len(mean), 1024):
        end = min(begin + 1024, len(mean))
        m, r = mean[begin:end], roots[begin:end]
        for f in range(len(factors)):
            factor, top = factors[f], -np.inf
            for a in range(end - begin):
                bound = m[a] + r[a] * factor
                top = bound if bound > top else top
            if top > highest[f]:
                highest[f] = top


def round_loop(  # noqa: C901 – one call instead of several is the purpose
    counts: Vector,
    sums: Vector,
    taken: Matrix,
    slots: Indices,
    marks: Indices,
    runs: Matrix,
    rows: Matrix,
    items: Matrix,
    hits: Flags,
    tied: Indices,
    state: Vector,
    n_runs: int,
    size: int,
    n_items: int,
    sealed: int,
    room: int,
    is_filled: bool,
    beta: float,
    gamma: float,
) -> int:
    """Perform a whole round in one call: find the one changed slot, apply its pull, and find the best.

    Returns the number of actions tied for the best; −1 if nothing was done because the case is not supported (several
    changes, a count that decreased, sums that decreased from far above, an unknown action, more than `room` columns to
    read); −2 if the changed slot is new and rows[n_runs] has to be filled with its similarities first. The arrays are
    those of a `ColumnLog`, which documents the indices into `state`; the formulas are those of its `pull`.
    """
    slot, is_same, largest = -1, True, 0.0
    for i in range(len(counts)):
        largest = max(largest, abs(sums[i]))
        if counts[i] != taken[0, i] or sums[i] != taken[1, i]:
            if slot >= 0:
                return -1
            slot = i
    if state[9] > 100.0 * max(1.0, largest):  # FALL; a test compares
        return -1
    squared = beta * beta
    if slot < 0:
        leader, bar = int(state[6]), -np.inf
        if leader >= 0:
            score = items[0, leader] + beta * sqrt(max(items[1, leader], 0.0))
            bar = score - (1e-10 + 1e-12) * max(1.0, abs(score))
        screen_loop(items, 0, size, squared, bar, hits)
    else:
        times, total = counts[slot] - taken[0, slot], sums[slot] - taken[1, slot]
        position, known = slots[0, slot], slots[1, slot]
        if times <= 0.0 or position < 0:
            return -1
        is_same = known == n_runs - 1 and known >= sealed
        if not is_same and (n_runs >= len(rows) or n_runs - known > room):
            return -1
        state[5] = slot
        if known < 0 and not is_filled:
            return -2
        if is_same:
            factor = gamma / runs[3, known]
            begun = runs[2, known] * factor
        else:
            factor = 1.0 if known < 0 else gamma / runs[3, known]
            begun = items[1, position]
        before = items[0, position]
        scale = times * begun + gamma
        if not scale > 0.0:
            return -1
        gain = (total - times * before) / scale
        left = begun * gamma / scale
        bar = -np.inf
        if position < n_items:
            score = before + begun * gain + beta * sqrt(max(left, 0.0))
            bar = score - (1e-10 + 1e-12) * max(1.0, abs(score))
        if is_same:
            pull_loop(
                rows, known, factor, known, known, runs[6], -1, gain, times / scale, items, 0, size, squared, bar, hits
            )
            count = runs[0, known] + times
            whole = count * runs[2, known] + gamma
            runs[0, known], runs[3, known], runs[4, known] = count, whole, count / whole
            runs[5, known] += factor * gain
            runs[1, known] += total
        else:
            for j in range(known + 1, n_runs):
                runs[6, j] = runs[4, j] * rows[j, position]
            pull_loop(
                rows, n_runs if known < 0 else known, factor, known + 1, n_runs, runs[6], n_runs, gain, times / scale,
                items, 0, size, squared, bar, hits,
            )  # fmt: skip
            if known >= 0:
                state[0] = max(state[0], abs(rows[n_runs, position] - begun))
            marks[0, n_runs], marks[1, n_runs], marks[2, n_runs] = slot, position, known
            runs[0, n_runs], runs[1, n_runs], runs[2, n_runs], runs[3, n_runs] = times, total, begun, scale
            runs[4, n_runs], runs[5, n_runs] = times / scale, gain
            slots[1, slot] = n_runs
        items[1, position] = left
        hits[position // 1024] = 1  # its own variance is known more accurately than by the pass
        taken[0, slot], taken[1, slot] = counts[slot], sums[slot]
        state[1] += sqrt(max(begun, 0.0)) * abs(gain)
        state[8] += gain * gain * scale / times
        state[2] += 1.0
        state[3] += 0.05 * (n_runs - 1 - known - state[3])
        state[9] = max(state[9], largest)
    state[7] = n_runs if is_same else n_runs + 1
    best, n_tied = best_loop(items, beta, n_items, hits, tied)
    state[4] = best
    if n_tied > 0:
        state[6] = tied[0]
    return n_tied


FLAGS, PLACES, TABLE = "uint8[::1]", "int64[::1]", "int64[:, ::1]"
PART = f"{MATRIX}, int64, int64"


def make_loops() -> Loops:
    """A group of its own. No sum is reordered, so threads change nothing; a maximum may be."""
    return Loops(
        pull=Loop(
            loop=pull_loop,
            signature=f"void({MATRIX}, int64, float64, int64, int64, {VECTOR}, int64, float64, float64, {PART}, "
            f"float64, float64, {FLAGS})",
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
            signature=f"int64({VECTOR}, {VECTOR}, {MATRIX}, {TABLE}, {TABLE}, {MATRIX}, {MATRIX}, {MATRIX}, {FLAGS}, "
            f"{PLACES}, {VECTOR}, int64, int64, int64, int64, int64, boolean, float64, float64)",
        ),
    )


loops: Final = make_loops()
"""Shared by all engines of the process."""
