"""Compiled kernels of the primal posterior: rank-one update, best action, and alternating rounds of both."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._compile import MATRIX, SUMS_IN_ANY_ORDER, VECTOR, Loop, Loops, part
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Vector

__all__ = ["MODEL_ROWS", "feature_loops", "model_rows"]

MODEL_ROWS: Final = 4
"""Rows of a model beside C and U: see `model_rows`."""


@part(SUMS_IN_ANY_ORDER)
def model_rows(model: Matrix) -> tuple[Matrix, Matrix, Vector, Vector, Vector, Vector]:
    """Views of a model of shape (2 D + 4, D): C, U, the moments Φᵀy, C⁻¹Φᵀy, the direction q, and a row of scratch.

    One array instead of six makes a call of a kernel cheaper: each argument costs about 40 ns.
    """
    size = model.shape[1]
    return (
        model[:size], model[size : 2 * size], model[2 * size], model[2 * size + 1], model[2 * size + 2],
        model[2 * size + 3],
    )  # fmt: skip


@part(SUMS_IN_ANY_ORDER)
def solve_upper(upper: Matrix, moments: Vector, weights: Vector) -> None:
    """Solve UᵀU · weights = moments."""
    size = len(moments)
    for k in range(size):
        weights[k] = moments[k]
    for k in range(size):
        value = weights[k] / upper[k, k]
        weights[k] = value
        for j in range(k + 1, size):
            weights[j] -= value * upper[k, j]
    for k in range(size - 1, -1, -1):
        value = weights[k]
        for j in range(k + 1, size):
            value -= upper[k, j] * weights[j]
        weights[k] = value / upper[k, k]


@part(SUMS_IN_ANY_ORDER)
def observe_loop(row: Vector, reward: float, most: float, model: Matrix) -> bool:
    """Add φφᵀ to C, and update its factor U by plane rotations (C = UᵀU), the moments, and weights = C⁻¹ · moments.

    Returns False, without any change, if ‖φ‖² exceeds `most` or is NaN.
    """
    precision, upper, moments, weights, _, spare = model_rows(model)
    size = len(row)
    square = 0.0
    for j in range(size):
        square += row[j] * row[j]
    if not square <= most:
        return False
    for j in range(size):
        spare[j] = row[j]
        moments[j] += reward * row[j]
        for i in range(size):
            precision[j, i] += row[j] * row[i]
    for k in range(size):
        old, new = upper[k, k], spare[k]
        length = sqrt(old * old + new * new)
        cosine, sine = old / length, new / length
        upper[k, k] = length
        for j in range(k + 1, size):
            above = upper[k, j]
            upper[k, j] = cosine * above + sine * spare[j]
            spare[j] = cosine * spare[j] - sine * above
    solve_upper(upper, moments, weights)
    return True


@part(SUMS_IN_ANY_ORDER)
def estimate_row(features: Matrix, i: int, weights: Vector, upper: Matrix, spare: Vector) -> tuple[float, float]:
    """Mean and width ‖U⁻ᵀφ‖ of one row."""
    size = len(weights)
    mean, square = 0.0, 0.0
    for j in range(size):
        spare[j] = features[i, j]
        mean += features[i, j] * weights[j]
    for k in range(size):
        value = spare[k] / upper[k, k]
        square += value * value
        for j in range(k + 1, size):
            spare[j] -= value * upper[k, j]
    return mean, sqrt(square)


@part(SUMS_IN_ANY_ORDER)
def bound_rows(
    features: Matrix,
    weights: Vector,
    direction: Vector,
    flat: float,
    peak: float,
    most: float,
    exploration: float,
    room: Matrix,
) -> int:
    """Upper bound on mean + exploration · width for every row, in room[0], and the row with the highest bound.

    Returns −1 if a row has a squared length above `most`, or if a bound overflows. The other two rows of `room` are
    scratch: products first and bounds afterwards, so that the compiler can use vector instructions for the roots.
    """
    n_rows, size = features.shape
    bounds, squares, products = room[0], room[1], room[2]
    length = 0.0
    for j in range(size):
        length += weights[j] * weights[j]
    slack = 1e-12 * sqrt(length)  # far above the rounding error of a mean, which is below size · 1e-16 · ‖φ‖ ‖weights‖
    loss = 1e-15 * (size + 4)
    for i in range(n_rows):
        mean, square, along = 0.0, 0.0, 0.0
        for j in range(size):
            x = features[i, j]
            mean += x * weights[j]
            square += x * x
            along += x * direction[j]
        bounds[i], squares[i], products[i] = mean, square, along
    for i in range(n_rows):
        square, along = squares[i], products[i]
        # The difference cancels if φ is close to q: a bound on its rounding error is added.
        wide = max(flat * square - peak * along * along, 0.0) + loss * flat * square
        bounds[i] += exploration * sqrt(wide) + slack * sqrt(square)
    leader, highest, longest, total = 0, -inf, 0.0, 0.0
    for i in range(n_rows):
        total += bounds[i]
        longest = max(longest, squares[i])
        if bounds[i] > highest:
            leader, highest = i, bounds[i]
    return leader if longest <= most and isfinite(total) else -1


@part(SUMS_IN_ANY_ORDER)
def best_loop(
    features: Matrix,
    model: Matrix,
    flat: float,
    peak: float,
    most: float,
    exploration: float,
    room: Matrix,
    tied: Indices,
) -> tuple[int, float, float, int]:
    """Rows tied for the best mean + exploration · width: their number, mean and width of the first, widths computed.

    Computes for all rows the mean, and from a matrix below C (`Minorant`) width² ≤ flat · ‖φ‖² − peak · (qᵀφ)²; the
    exact width only if that bound can still be the best. `tied` lists as many tied rows, lowest first, as fit. The
    number is 0 if a row is longer than `most` allows or a number overflows.
    """
    _, upper, _, weights, direction, spare = model_rows(model)
    leader = bound_rows(features, weights, direction, flat, peak, most, exploration, room)
    if leader < 0:
        return 0, 0.0, 0.0, 0
    n_rows, bounds = len(features), room[0]
    best, worst, n_widths = -inf, -inf, 0
    best_row, best_mean, best_width = 0, 0.0, 0.0
    for turn in range(-1, n_rows):  # the row with the highest bound first, so that few others need a width
        i = leader if turn < 0 else turn
        if bounds[i] < worst or turn == leader:
            continue
        n_widths += 1
        mean, width = estimate_row(features, i, weights, upper, spare)
        bounds[i] = mean + exploration * width
        if bounds[i] > best:
            best = bounds[i]
            best_row, best_mean, best_width = i, mean, width
            worst = best - TIE_TOLERANCE * max(1.0, abs(best))
    n_tied = 0
    for i in range(n_rows):
        if bounds[i] >= worst:
            if n_tied < len(tied):
                tied[n_tied] = i
            n_tied += 1
    if n_tied == 0:
        return 0, 0.0, 0.0, n_widths
    if tied[0] != best_row:
        best_mean, best_width = estimate_row(features, tied[0], weights, upper, spare)
    return n_tied, best_mean, best_width, n_widths


class Search(NamedTuple):
    """Arguments of `best_loop` that stay the same from round to round; a kernel takes them as a plain tuple."""

    flat: float
    peak: float
    most: float
    exploration: float
    room: Matrix
    tied: Indices


class Played(NamedTuple):
    """Results of `play_loop`, one entry per round; a kernel takes them as a plain tuple."""

    rows: Indices
    means: Vector
    widths: Vector


def play_loop(
    rounds: NDArray[np.float64],
    rewards: Matrix,
    model: Matrix,
    given_search: tuple[Any, ...],
    given_played: tuple[Any, ...],
) -> int:
    """Play rounds: choose the lowest best row, update with its reward; return the number of rounds played.

    Stops early at a round with a row that is too long.
    """
    flat, peak, most, exploration, room, tied = Search(*given_search)
    rows, means, widths = Played(*given_played)
    for t in range(len(rounds)):
        n_tied, mean, width, _ = best_loop(rounds[t], model, flat, peak, most, exploration, room, tied)
        if n_tied == 0:
            return t
        row = tied[0]
        rows[t], means[t], widths[t] = row, mean, width
        observe_loop(rounds[t, row], rewards[t, row], inf, model)
    return len(rounds)


ROW, ROWS = "Array(float64, 1, 'C', readonly=True)", "Array(float64, 2, 'C', readonly=True)"
ROUNDS, PLACES = "Array(float64, 3, 'C', readonly=True)", "int64[::1]"
SEARCH = f"float64, float64, float64, float64, {MATRIX}, {PLACES}"

feature_loops: Final = Loops(
    observe=Loop(
        loop=observe_loop,
        signature=f"boolean({ROW}, float64, float64, {MATRIX})",
        fast=SUMS_IN_ANY_ORDER,
    ),
    best=Loop(
        loop=best_loop,
        signature=f"Tuple((int64, float64, float64, int64))({ROWS}, {MATRIX}, {SEARCH})",
        fast=SUMS_IN_ANY_ORDER,
    ),
    play=Loop(
        loop=play_loop,
        signature=f"int64({ROUNDS}, {ROWS}, {MATRIX}, Tuple(({SEARCH})), Tuple(({PLACES}, {VECTOR}, {VECTOR})))",
        fast=SUMS_IN_ANY_ORDER,
    ),
)
"""Kernel group shared by all posteriors of the process."""
