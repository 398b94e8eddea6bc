"""Compiled kernels of screening: candidate elimination and forward substitution.

Numba's on-disk cache is invalidated when this file changes. After a change in `compiled.py` alone, empty `__pycache__`.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from kernelbandits.selection.compiled import IN_ANY_ORDER, compiled, matrix_at, part
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["back_loop", "contest_loop", "dot", "rank_loop", "substitute_back_loop", "substitute_loop", "trailing_loop"]


@part(IN_ANY_ORDER)
def _subtract_for_two(
    l0: Vector, l1: Vector, l2: Vector, l3: Vector, u: Vector, v: Vector, at_u: Vector, at_v: Vector
) -> None:
    """Update four rows of L and two right-hand sides at a time: eight products per six values read."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    for c in range(len(u)):
        x, y = u[c], v[c]
        s0 += l0[c] * x
        s1 += l1[c] * x
        s2 += l2[c] * x
        s3 += l3[c] * x
        t0 += l0[c] * y
        t1 += l1[c] * y
        t2 += l2[c] * y
        t3 += l3[c] * y
    at_u[0] -= s0
    at_u[1] -= s1
    at_u[2] -= s2
    at_u[3] -= s3
    at_v[0] -= t0
    at_v[1] -= t1
    at_v[2] -= t2
    at_v[3] -= t3


@part(IN_ANY_ORDER)
def _subtract_for_one(l0: Vector, l1: Vector, l2: Vector, l3: Vector, u: Vector, at_u: Vector) -> None:
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for c in range(len(u)):
        x = u[c]
        s0 += l0[c] * x
        s1 += l1[c] * x
        s2 += l2[c] * x
        s3 += l3[c] * x
    at_u[0] -= s0
    at_u[1] -= s1
    at_u[2] -= s2
    at_u[3] -= s3


@part()
def _solve_four(l0: Vector, l1: Vector, l2: Vector, l3: Vector, place: int, x: Vector) -> None:
    """Solve for the four unknowns on the diagonal 4 × 4 triangle of these corner rows."""
    x[0] /= l0[place]
    x[1] = (x[1] - l1[place] * x[0]) / l1[place + 1]
    x[2] = (x[2] - l2[place] * x[0] - l2[place + 1] * x[1]) / l2[place + 2]
    x[3] = (x[3] - l3[place] * x[0] - l3[place + 1] * x[1] - l3[place + 2] * x[2]) / l3[place + 3]


@part(IN_ANY_ORDER)
def dot(first: Vector, second: Vector) -> float:
    """Inner product, summed in any order."""
    total = 0.0
    for c in range(len(first)):
        total += first[c] * second[c]
    return total


@part()
def substitute_loop(left: Matrix, corner: Matrix, start: int, first: int, last: int, rights: Matrix) -> None:
    """Solve rights[:, start + first : start + last] in place; one right-hand side per row.

    All entries before that range must be solved already. `left` holds a panel's columns before `start`, `corner` those
    from `start` on; `first` and `last` are rows of both.
    """
    n_rights = len(rights)
    end_of_fours = first + (last - first) // 4 * 4
    for row in range(first, end_of_fours, 4):
        here = start + row
        for begin in range(0, start, 1024):  # four pieces of L stay in cache for all right-hand sides
            end = min(begin + 1024, start)
            l0, l1 = left[row, begin:end], left[row + 1, begin:end]
            l2, l3 = left[row + 2, begin:end], left[row + 3, begin:end]
            for r in range(0, n_rights - 1, 2):
                at_u, at_v = rights[r, here : here + 4], rights[r + 1, here : here + 4]
                _subtract_for_two(l0, l1, l2, l3, rights[r, begin:end], rights[r + 1, begin:end], at_u, at_v)
            if n_rights % 2:
                _subtract_for_one(l0, l1, l2, l3, rights[-1, begin:end], rights[-1, here : here + 4])
        c0, c1, c2, c3 = corner[row], corner[row + 1], corner[row + 2], corner[row + 3]
        for r in range(n_rights):
            _subtract_for_one(c0, c1, c2, c3, rights[r, start:here], rights[r, here : here + 4])
            _solve_four(c0, c1, c2, c3, row, rights[r, here : here + 4])
    for row in range(end_of_fours, last):
        here = start + row
        for r in range(n_rights):
            known = dot(left[row], rights[r, :start]) + dot(corner[row, :row], rights[r, start:here])
            rights[r, here] = (rights[r, here] - known) / corner[row, row]


@part()
def _subtract_four(
    l0: Vector, l1: Vector, l2: Vector, l3: Vector, x0: float, x1: float, x2: float, x3: float, right: Vector
) -> None:
    for c in range(len(right)):
        right[c] -= (l0[c] * x0 + l1[c] * x1) + (l2[c] * x2 + l3[c] * x3)


@part()
def substitute_back_loop(left: Matrix, corner: Matrix, start: int, n_rows: int, right: Vector) -> None:
    """One panel step of L⁻ᵀ b: solve the panel's unknowns, then subtract their terms from the earlier entries of b.

    All entries after the panel must be solved already.
    """
    for row in range(n_rows - 1, -1, -1):
        x = right[start + row] / corner[row, row]
        right[start + row] = x
        for c in range(row):
            right[start + c] -= corner[row, c] * x
    before = right[:start]
    n_fours = n_rows // 4 * 4
    for row in range(0, n_fours, 4):
        x0, x1 = right[start + row], right[start + row + 1]
        x2, x3 = right[start + row + 2], right[start + row + 3]
        _subtract_four(left[row], left[row + 1], left[row + 2], left[row + 3], x0, x1, x2, x3, before)
    for row in range(n_fours, n_rows):
        for c in range(start):
            before[c] -= left[row, c] * right[start + row]


V, M, WHOLE, TABLE = "float64[::1]", "float64[:, ::1]", "int64[::1]", "int64[:, ::1]"

# Indices into `terms` and into a row of `state`; `screening.Terms` and `screening.Group` define them, tests compare.
REACH, DRIFT, FLOOR, SLACK, ALLOWANCE, ROUNDING, SAFETY, REGULARIZATION, EXPLORATION = range(9)
UPPER, EXPLAINED, PRIOR, OLD_MEAN, MEAN, WIDTH = range(6)


@part()
def _deviation(prior: float, explained: float, terms: Vector) -> float:
    """Upper bound on √v_s."""
    return sqrt(max(prior - explained, prior * terms[FLOOR]) + prior * terms[SLACK])


@part()
def _upper(mean: float, prior: float, explained: float, terms: Vector) -> float:
    """Upper bound on the score."""
    score: float = (
        mean + terms[REACH] * _deviation(prior, explained, terms) + terms[ALLOWANCE] + terms[ROUNDING] * sqrt(prior)
    )
    score += terms[SAFETY] * max(1.0, abs(score))
    return score


@part()
def _bar(score: float, terms: Vector) -> float:
    """Threshold that an upper bound must reach to be tied with this score or better."""
    bar: float = score - (1e-10 + terms[SAFETY]) * max(1.0, abs(score))  # TIE_TOLERANCE; a test compares
    return bar


@compiled(f"Tuple((float64, int64))({V}, {V}, {V}, {V}, {V}, {WHOLE})")
def rank_loop(
    mean: Vector, explained: Vector, prior: Vector, terms: Vector, upper: Vector, leading: Indices
) -> tuple[float, int]:
    """Compute all upper bounds and rank the highest; return the threshold and the number of candidates that reach it.

    `leading` receives the rows of the highest bounds, in order. The threshold follows from the highest lower bound. It
    is NaN if any bound is not finite.
    """
    best = -np.inf
    for a in range(len(mean)):
        upper[a] = _upper(mean[a], prior[a], explained[a], terms)
        if not abs(upper[a]) < np.inf:
            return np.nan, 0
        moved = terms[DRIFT] * _deviation(prior[a], explained[a], terms)
        lowest = mean[a] - moved - terms[ALLOWANCE] - terms[ROUNDING] * sqrt(prior[a])
        best = max(best, lowest - terms[SAFETY] * max(1.0, abs(lowest)))
    bar = _bar(best, terms)
    n_able, n_leading = 0, 0
    for a in range(len(mean)):
        n_able += upper[a] >= bar
        if n_leading == len(leading) and upper[a] <= upper[leading[n_leading - 1]]:
            continue
        n_leading = min(n_leading + 1, len(leading))
        place = n_leading - 1
        while place > 0 and upper[a] > upper[leading[place - 1]]:
            leading[place] = leading[place - 1]
            place -= 1
        leading[place] = a
    return bar, n_able


@part()
def _swap(columns: Matrix, state: Matrix, order: Indices, first: int, second: int) -> None:
    if first == second:
        return
    order[first], order[second] = order[second], order[first]
    for i in range(state.shape[1]):
        state[first, i], state[second, i] = state[second, i], state[first, i]
    one, other = columns[first], columns[second]
    for j in range(len(one)):
        one[j], other[j] = other[j], one[j]


@part()
def _prune(columns: Matrix, state: Matrix, order: Indices, first: int, stop: int, bar: float) -> int:
    """Move candidates below the threshold behind the others; return the new end."""
    place = first
    while place < stop:
        if state[place, UPPER] < bar:
            stop -= 1
            _swap(columns, state, order, place, stop)
        else:
            place += 1
    return stop


@part()
def _update(
    columns: Matrix, state: Matrix, first: int, stop: int, begin: int, end: int, is_bound: bool, terms: Vector
) -> None:
    """Add the squares of entries [begin, end) of the solutions to the explained variance, and update the bounds."""
    for place in range(first, stop):
        solved = columns[place, begin:end]
        state[place, EXPLAINED] += dot(solved, solved)
        if is_bound:
            bound = _upper(state[place, OLD_MEAN], state[place, PRIOR], state[place, EXPLAINED], terms)
            state[place, UPPER] = min(state[place, UPPER], bound)


@part()
def _advance(
    table: NDArray[np.int64],
    size: int,
    begin: int,
    end: int,
    first: int,
    stop: int,
    columns: Matrix,
    state: Matrix,
    order: Indices,
    terms: Vector,
    bar: float,
) -> int:
    """Solve columns[first:stop] for the factor's rows [begin, end), eliminating candidates below the threshold.

    The bounds are updated after every 64 rows. They hold for rows before `size`; beyond it only the final result is
    valid.
    """
    for p in range(len(table)):
        start, n_rows = table[p, 2], table[p, 3]
        left, corner = matrix_at(table[p, 0], n_rows, start), matrix_at(table[p, 1], n_rows, table[p, 4])
        for row in range(max(0, begin - start), min(n_rows, end - start), 64):
            if first == stop:
                return stop
            last = min(row + 64, n_rows, end - start)
            substitute_loop(left, corner, start, row, last, columns[first:stop])
            _update(columns, state, first, stop, start + row, start + last, start + last <= size, terms)
            if start + last <= size and start + last < columns.shape[1]:
                stop = _prune(columns, state, order, first, stop, bar)
    return stop


@part()
def _score(columns: Matrix, state: Matrix, first: int, stop: int, targets: Vector, terms: Vector, bar: float) -> float:
    """Compute exact mean and width of fully solved columns; return the raised threshold."""
    for place in range(first, stop):
        mean, prior = dot(columns[place], targets), state[place, PRIOR]
        left = max(prior - state[place, EXPLAINED], prior * terms[FLOOR])
        width = sqrt(left / terms[REGULARIZATION])
        state[place, MEAN], state[place, WIDTH] = mean, width
        bar = max(bar, _bar(mean + terms[EXPLORATION] * width, terms))
    return bar


@part()
def _lead(columns: Matrix, state: Matrix, order: Indices, n_leaders: int, stop: int) -> None:
    """Move the candidates with the highest bounds (the leaders) to the first rows."""
    for place in range(n_leaders):
        highest = place
        for other in range(place + 1, stop):
            if state[other, UPPER] > state[highest, UPPER]:
                highest = other
        _swap(columns, state, order, place, highest)


@compiled(f"Tuple((float64, int64))({TABLE}, int64, {M}, {M}, {WHOLE}, {V}, {V}, int64, int64, float64)")
def contest_loop(
    table: NDArray[np.int64],
    size: int,
    columns: Matrix,
    state: Matrix,
    order: Indices,
    targets: Vector,
    terms: Vector,
    n_first: int,
    n_leaders: int,
    bar: float,
) -> tuple[float, int]:
    """Eliminate candidates; compute exact mean and width of all that reach the threshold.

    Returns the raised threshold and the number of remaining candidates, which occupy the first rows of `state`. The
    leaders are the candidates with the highest bounds after n_first rows of the factor. They are solved completely
    before the others, which then have to reach an exact score.
    """
    stop = _advance(table, size, 0, n_first, 0, len(columns), columns, state, order, terms, bar)
    n_leaders = min(n_leaders, stop)
    _lead(columns, state, order, n_leaders, stop)
    n_rows = columns.shape[1]
    n_left = _advance(table, size, n_first, n_rows, 0, n_leaders, columns, state, order, terms, bar)
    bar = _score(columns, state, 0, n_left, targets, terms, bar)
    stop = _prune(columns, state, order, n_left, stop, bar)
    stop = _advance(table, size, n_first, n_rows, n_left, stop, columns, state, order, terms, bar)
    bar = _score(columns, state, n_left, stop, targets, terms, bar)
    return bar, stop


@compiled(f"float64({TABLE}, int64, {V})")
def trailing_loop(table: NDArray[np.int64], first: int, targets: Vector) -> float:
    """‖b‖² of b = L_BB⁻ᵀ z_B, where B are the factor's rows from `first` on and z_B the targets."""
    solved = targets.copy()
    total = 0.0
    for p in range(len(table) - 1, -1, -1):
        start, n_rows = table[p, 2], table[p, 3]
        left, corner = matrix_at(table[p, 0], n_rows, start), matrix_at(table[p, 1], n_rows, table[p, 4])
        for row in range(n_rows - 1, -1, -1):
            place = start + row - first
            if place < 0:
                return total
            solved[place] /= corner[row, row]
            total += solved[place] * solved[place]
            for j in range(place):
                column = first + j
                link = left[row, column] if column < start else corner[row, column - start]
                solved[j] -= link * solved[place]
    return total


@compiled(f"void({TABLE}, {V})")
def back_loop(table: NDArray[np.int64], right: Vector) -> None:
    """Replace b by L⁻ᵀ b in place."""
    for p in range(len(table) - 1, -1, -1):
        start, n_rows = table[p, 2], table[p, 3]
        left, corner = matrix_at(table[p, 0], n_rows, start), matrix_at(table[p, 1], n_rows, table[p, 4])
        substitute_back_loop(left, corner, start, n_rows, right)
