"""Batch updates of a column log by matrix-matrix products."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits._threads import for_each_part, limit_blas_threads
from kernelbandits.posterior.base import too_small
from kernelbandits.selection._catalog_loops import BLOCK, DRIFT, LARGEST, UPDATES
from kernelbandits.selection.column_log import ColumnLog, Similarities
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["SMALL_PRODUCT", "mixed", "pull_many", "rebuild", "shorten"]

TAILS: Final = (32, 64, 128)
"""Lengths of the tail of a log that may be merged; tested whenever the log has grown by the first of them."""

COLUMNS_AT_ONCE: Final = 2048
"""Actions per part of a product, so that the result of a part stays in cache."""

SMALL_PRODUCT: Final = 1e8
"""Work passed to `limit_blas_threads`: threads of the library share a product, so each uses one BLAS thread."""


def pull_many(
    log: ColumnLog, slots: Indices, counts: Vector, totals: Vector, similarities: Similarities, filled: int = 0
) -> None:
    """Apply pulls of several distinct slots, whose counts and sums have grown to these values, by matrix products.

    The columns before any of these pulls are combinations of the log's columns and of new similarities. Applying the
    pulls one by one combines them further, with coefficients found by elimination among the few points. So all new
    columns are one product, [−T C, T] times the stored columns and the similarities. Of the new slots, the `filled`
    lowest already have their similarities in the rows behind the runs.
    """
    with limit_blas_threads(SMALL_PRODUCT):
        _pull_many(log, slots, counts, totals, similarities, filled)


def _pull_many(
    log: ColumnLog, slots: Indices, counts: Vector, totals: Vector, similarities: Similarities, filled: int
) -> None:
    order = np.argsort(np.where(log.slots[1, slots] < 0, slots, -1), kind="stable")  # known slots first, order kept
    slots, counts, totals = slots[order], counts[order], totals[order]
    old, size = log.n_runs, len(slots)
    log.reserve(size, filled)
    positions, known = log.slots[0, slots], log.slots[1, slots]
    times, gained = counts - log.applied[0, slots], totals - log.applied[1, slots]
    rows, gamma, n_known, n_actions = log.rows, log.regularization, int((known >= 0).sum()), log.size
    first, last = int(known.min()) + 1, old + size - n_known
    if filled < size - n_known:
        similarities(slots[n_known + filled :], rows[old + filled : last, :n_actions])
    # Rows of `mixture` are the required columns, its columns are the rows of the log from run `lead` on.
    lead = max(first - 1, 0)
    mixture = np.zeros((size, last - lead))
    mixture[:, first - lead : old - lead] = -(rows[first:old, positions].T * log.weights[first:old])
    for place in range(n_known):
        mixture[place, : known[place] - lead + 1] = 0.0
        mixture[place, known[place] - lead] = gamma / log.pivots[known[place]]
    mixture[np.arange(n_known, size), np.arange(old, last) - lead] = 1.0
    reduced = mixture @ rows[lead:last, positions]  # the columns at the points
    starts, means = log.variance[positions], log.mean[positions]
    scales, gains = np.empty(size), np.empty(size)
    for place in range(size):
        if place:
            weights = times[:place] / scales[:place] * reduced[:place, place]
            reduced[place] -= weights @ reduced[:place]
            mixture[place] -= weights @ mixture[:place]
        start = starts[place]
        scales[place] = log.checked_scale(times[place] * start + gamma, int(positions[place]))
        gains[place] = (gained[place] - times[place] * means[place]) / scales[place]
        means += gains[place] * reduced[place]
        starts[place + 1 :] -= times[place] / scales[place] * reduced[place, place + 1 :] ** 2
    _mix(log, lead, mixture, old, gains, times / scales)
    left = starts * gamma / scales
    for place in range(size):  # subtract what the later pulls explain
        later = slice(place + 1, size)
        left[place] -= (times[later] / scales[later]) @ reduced[later, place] ** 2
    log.variance[positions] = left
    run = slice(old, old + size)
    log.run_slots[run], log.run_positions[run], log.before[run] = slots, positions, known
    log.runs[:6, run] = times, gained, starts, scales, times / scales, gains
    log.slots[1, slots] = np.arange(old, old + size)
    log.applied[0, slots], log.applied[1, slots] = counts, totals
    log.n_runs, log.n_points = old + size, log.n_points + size - n_known
    log.state[UPDATES] += size
    log.state[LARGEST] = max(log.state.item(LARGEST), float(np.abs(totals).max(initial=0.0)))


def _mix(log: ColumnLog, first: int, mixture: Matrix, target: int, gains: Vector, shrinks: Vector) -> None:
    """Write columns that are combinations of the columns from run `first` on, and apply their updates."""
    mean, variance, n_columns = log.mean, log.variance, len(mixture)
    read, stored = log.rows[first : first + mixture.shape[1]], log.rows[target : target + n_columns]

    def mix(start: int, stop: int) -> None:
        for begin in range(start, stop, COLUMNS_AT_ONCE):
            part = slice(begin, min(stop, begin + COLUMNS_AT_ONCE))
            columns = mixture @ read[:, part]
            stored[:, part] = columns
            mean[part] += gains @ columns
            columns *= columns
            variance[part] -= shrinks @ columns

    # Parts start at the same places for any number of threads, so the products are identical.
    for_each_part(mix, log.size, align=COLUMNS_AT_ONCE, n_bytes=8 * (mixture.shape[1] + n_columns) * log.size)


def mixed(log: ColumnLog, loads: Vector, n_actions: int) -> Vector:
    """Σ_j loads_j rows_j for the first n_actions actions."""
    rows, mixture = log.rows[: len(loads)], np.empty(n_actions)

    def mix(start: int, stop: int) -> None:
        for begin in range(start, stop, COLUMNS_AT_ONCE):
            part = slice(begin, min(stop, begin + COLUMNS_AT_ONCE))
            np.matmul(loads, rows[:, part], out=mixture[part])

    for_each_part(mix, n_actions, align=COLUMNS_AT_ONCE, n_bytes=8 * len(loads) * n_actions)
    return mixture


def shorten(log: ColumnLog) -> None:
    """Merge the tail of the log into one run per point if few points alternate in it.

    The longest eligible tail is merged: half of its runs must belong to points with a later run.
    """
    slots = log.run_slots[: log.n_runs]
    for length in reversed(TAILS):
        first = log.n_runs - length
        if first >= log.frozen_runs and 2 * len(np.unique(slots[first:])) <= length:
            with limit_blas_threads(SMALL_PRODUCT):
                _merge(log, first)
            break
    log.next_look = log.n_runs + TAILS[0]


def _merge(log: ColumnLog, first: int) -> None:
    """Merge the runs from `first` on into one run per point; means and variances are unchanged.

    With P the covariance before those runs, and i the first of them that belongs to x, P(·, x) = c_i + Σ_{first ≤ j <
    i} (n_j/d_j) c_j(x) c_j. So the new columns are combinations of the old ones, found by elimination among the few
    points, and formed in one product.
    """
    runs = np.arange(first, log.n_runs)
    slots, weights = log.run_slots[runs], log.weights[runs]
    order = sorted(set(slots.tolist()), key=log.last_run.__getitem__)  # most recent pull last
    begins = [int(np.argmax(slots == slot)) for slot in order]
    positions, before = log.run_positions[runs][begins], log.before[runs][begins]
    counts = np.array([log.counts[runs][slots == slot].sum() for slot in order])
    totals = np.array([log.totals[runs][slots == slot].sum() for slot in order])
    at_points = log.rows[first : log.n_runs, positions]  # (runs, points)
    mean = log.mean[positions] - log.mean_coefficients[runs] @ at_points

    size = len(order)
    mixture = np.zeros((size, len(runs)))
    scales, starts, lifts = np.empty(size), np.empty(size), np.empty(size)
    reduced = np.empty((size, size))  # the new columns at the points
    for place, begin in enumerate(begins):
        mixture[place, :begin] = weights[:begin] * at_points[:begin, place]
        mixture[place, begin] = 1.0
        known = counts[:place] / scales[:place] * reduced[:place, place]
        mixture[place] -= known @ mixture[:place]
        reduced[place] = mixture[place] @ at_points
        starts[place] = max(reduced[place, place], 0.0)
        scales[place] = counts[place] * starts[place] + log.regularization
        lifts[place] = (totals[place] - counts[place] * mean[place]) / scales[place]
        mean += lifts[place] * reduced[place]
    last, log.most_runs = first + size, max(log.most_runs, log.n_runs)
    for begin in range(0, log.size, COLUMNS_AT_ONCE):
        part = slice(begin, min(log.size, begin + COLUMNS_AT_ONCE))
        log.rows[first:last, part] = mixture @ log.rows[first : log.n_runs, part]
    log.n_runs = last
    log.marks[:, first:last] = order, positions, before
    log.runs[:6, first:last] = counts, totals, starts, scales, counts / scales, lifts
    log.slots[1, order] = np.arange(first, last)


def rebuild(log: ColumnLog, slots: Indices, counts: Vector, totals: Vector, similarities: Similarities) -> None:
    """Rebuild the log from distinct slots, in this order: one run per point, without accumulated rounding errors.

    With D the counts and L Lᵀ = γI + D^½ K D^½, all columns are one triangular solve.
    """
    with limit_blas_threads(float(len(slots)) ** 2 * log.size):
        _rebuild(log, slots, counts, totals, similarities)


def _rebuild(log: ColumnLog, slots: Indices, counts: Vector, totals: Vector, similarities: Similarities) -> None:
    from scipy.linalg import cholesky
    from scipy.linalg.blas import dtrsm

    n_pulls, log.most_runs = len(slots), max(log.most_runs, log.n_runs)
    log.n_runs, log.n_points, log.frozen_runs, log.next_look = 0, n_pulls, 0, n_pulls + TAILS[0]
    log.state[DRIFT] = log.state[UPDATES] = 0.0
    log.state[LARGEST] = np.abs(totals).max(initial=0.0)
    log.slots[1] = -1
    log.applied[:] = 0.0
    log.mean[:] = 0.0
    log.variance[:] = log.prior
    if not n_pulls:
        return
    width = log.rows.shape[1]
    if len(log.rows) < n_pulls:
        del log.rows  # free the old columns first: the new ones may be as large
        log.make_room(np.empty((n_pulls + n_pulls // 2, width)))
        log.most_runs = 0
    positions, rows, roots = log.slots[0, slots], log.rows[:n_pulls], np.sqrt(counts)
    rows[:, log.size :] = 0.0
    step = max(1, 8_000_000 // log.size)
    for begin in range(0, n_pulls, step):
        similarities(slots[begin : begin + step], rows[begin : begin + step, : log.size])
    gram = rows[:, positions] * roots[:, None] * roots
    gram[np.diag_indices(n_pulls)] = log.prior[positions] * counts + log.regularization
    try:
        factor = np.asarray(cholesky(gram, lower=True, check_finite=False), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise too_small(log.regularization, log.prior[positions], counts) from error  # engines require PSD kernels
    rows *= roots[:, None]
    # In C order the rows are the transpose of what BLAS sees, so L X = B is Xᵀ Lᵀ = Bᵀ, solved in place.
    solved = dtrsm(1.0, factor, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    if not np.shares_memory(solved, rows):
        rows[:] = solved.T
    pivots = np.diagonal(factor).copy()
    targets = dtrsm(1.0, factor, (totals / roots)[:, None], lower=1)[:, 0]
    log.mean += targets @ rows[:, : log.size]
    for begin in range(0, log.size, BLOCK):
        part = rows[:, begin : min(log.size, begin + BLOCK)]
        log.variance[begin : begin + BLOCK] -= np.einsum("ma,ma->a", part, part)
    rows *= (pivots / roots)[:, None]
    scales = pivots**2
    starts = np.maximum(scales - log.regularization, 0.0) / counts
    log.n_runs = n_pulls
    log.marks[:, :n_pulls] = slots, positions, np.full(n_pulls, -1)
    log.runs[:6, :n_pulls] = counts, totals, starts, scales, counts / scales, targets * roots / pivots
    log.slots[1, slots] = np.arange(n_pulls)
    log.applied[0, slots], log.applied[1, slots] = counts, totals
