"""Compiled kernels of screening: similarities of rows under stationary kernels, and candidate elimination.

Similarities are computed on blocks of observations that fit into the L1 cache. Every inner loop vectorizes: it is
elementwise or a sum in any order. `exp` is implemented here, because one library call per entry would prevent
vectorization: x = n·ln 2 + r, a polynomial for exp(r), and n added to the exponent bits. The scan uses single
precision, which halves its time; `similarities.Distances` bounds its errors. Rows for exact results use double
precision. Parts for both precisions take their numbers from the arrays: `squared.dtype.type(0.5)`.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._compile import (
    FUSED,
    IN_ANY_ORDER,
    MATRIX,
    VECTOR,
    Loop,
    Loops,
    exchange_cell,
    load_cell,
    matrix_at,
    part,
)
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Vector

__all__ = ["BoundTerms", "CandidateBatch", "screening_loops"]

# -- similarities ----------------------------------------------------------------------------------------------------

BLOCK: Final = 512
"""Observations per block: ten columns of them take 20 kB in single precision."""

Floats = NDArray[np.float32]
Bits = NDArray[np.int32]
LongBits = NDArray[np.int64]
Numbers = NDArray[Any]
"""Floats or doubles."""

# Single precision: a polynomial for exp on [−ln 2 / 2, ln 2 / 2], relative error 3e-9 before rounding.
P1, P2, P3 = np.float32(1.0000000379432987), np.float32(0.5000000047401582), np.float32(0.16666414507170133)
P4, P5, P6 = np.float32(0.041666351638002974), np.float32(0.008375210200854223), np.float32(0.00139412131250564)
ONE, ZERO = np.float32(1.0), np.float32(0.0)
LOG2E, MAGIC = np.float32(1.4426950408889634), np.float32(1.5 * 2.0**23)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LOWEST = np.float32(-86.0)

# Double precision: the series of exp, truncated where terms are below 1e-17.
S2, S3, S4, S5, S6, S7 = (1.0 / factorial(n) for n in range(2, 8))
S8, S9, S10, S11, S12, S13 = (1.0 / factorial(n) for n in range(8, 14))
LONG_LOG2E, LONG_MAGIC = 1.4426950408889634, 1.5 * 2.0**52
LONG_LN2_HIGH, LONG_LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LONG_LOWEST = -700.0


@part(FUSED)
def _add_four(squared: Numbers, z0: Numbers, z1: Numbers, z2: Numbers, z3: Numbers, x: Numbers) -> None:
    """Add (x − z)² over four columns."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    for j in range(len(squared)):
        d0, d1, d2, d3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
        squared[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)


@part(FUSED)
def _add_one(squared: Numbers, z: Numbers, x: Any) -> None:
    for j in range(len(squared)):
        d = x - z[j]
        squared[j] += d * d


@part(FUSED)
def _profile(squared: Numbers, exponent: Numbers, factor: Numbers, profile: int) -> None:
    """Write the exponent of k, and from profile 2 on its polynomial `factor`; `squared` is overwritten."""
    number = squared.dtype.type
    half, one, five_thirds = number(0.5), number(1.0), number(5.0 / 3.0)
    root3, root5 = number(3.0**0.5), number(5.0**0.5)
    if profile == 0:
        for j in range(len(squared)):
            exponent[j] = -half * squared[j]
        return
    for j in range(len(squared)):
        squared[j] = np.sqrt(squared[j])
    if profile == 1:
        for j in range(len(squared)):
            exponent[j] = -squared[j]
    elif profile == 2:
        for j in range(len(squared)):
            r = root3 * squared[j]
            exponent[j] = -r
            factor[j] = one + r
    else:
        for j in range(len(squared)):
            r = root5 * squared[j]
            exponent[j] = -r
            factor[j] = one + r + five_thirds * squared[j] * squared[j]


@part(FUSED)
def _exp_parts(exponent: Floats, whole: Floats, result: Floats) -> None:
    """Compute exp(r) for x = n ln 2 + r; n is stored in the lowest bits of `whole`."""
    for j in range(len(exponent)):
        x = max(exponent[j], LOWEST)
        t = x * LOG2E + MAGIC
        n = t - MAGIC
        r = (x - n * LN2_HIGH) - n * LN2_LOW
        result[j] = (((((P6 * r + P5) * r + P4) * r + P3) * r + P2) * r + P1) * r + ONE
        whole[j] = t


@part(FUSED)
def _add_exponent(result: Bits, whole: Bits) -> None:
    """Multiply by 2^n by adding n to the exponent bits."""
    for j in range(len(result)):
        result[j] += whole[j] << 23


@part(FUSED)
def _multiply(similarity: Numbers, factor: Numbers) -> None:
    for j in range(len(similarity)):
        similarity[j] *= factor[j]


@part(IN_ANY_ORDER)
def _weighted_sum(similarity: Floats, weights: Vector) -> float:
    """Σ weight · similarity, in double precision."""
    total = 0.0
    for j in range(len(similarity)):
        total += weights[j] * np.float64(similarity[j])
    return total


@part(FUSED)
def _explained(similarity: Floats, shares: Floats, result: Floats) -> None:
    for j in range(len(similarity)):
        result[j] = similarity[j] * similarity[j] * shares[j]


@part(FUSED)
def _largest(bits: Bits) -> np.int32:
    """Largest of nonnegative numbers by their bit patterns, which sort equally; integer comparisons vectorize."""
    largest = np.int32(0)
    for j in range(len(bits)):
        largest = max(largest, bits[j])
    return largest


def scan_loop(
    points: Floats,
    columns: Floats,
    n_known: int,
    weights: Vector,
    shares: Floats,
    profile: int,
    mean: Vector,
    nearest: Vector,
    start: int,
    stop: int,
) -> None:
    """For the points [start, stop): mean = Σ weight_j k_j and nearest = max share_j k_j², over all observations j."""
    n_columns = points.shape[1]
    buffers = np.empty((4, 512), dtype=np.float32)
    mean[start:stop] = 0.0
    nearest[start:stop] = 0.0
    for begin in range(0, n_known, 512):
        end = min(begin + 512, n_known)
        n = end - begin
        weight, share = weights[begin:end], shares[begin:end]
        squared, exponent, factor, similarity = buffers[0, :n], buffers[1, :n], buffers[2, :n], buffers[3, :n]
        for a in range(start, stop):
            x = points[a]
            squared[:] = ZERO
            i = 0
            while i + 4 <= n_columns:
                z0, z1 = columns[i, begin:end], columns[i + 1, begin:end]
                z2, z3 = columns[i + 2, begin:end], columns[i + 3, begin:end]
                _add_four(squared, z0, z1, z2, z3, x[i : i + 4])
                i += 4
            while i < n_columns:
                _add_one(squared, columns[i, begin:end], x[i])
                i += 1
            _profile(squared, exponent, factor, profile)
            _exp_parts(exponent, squared, similarity)
            _add_exponent(similarity.view(np.int32), squared.view(np.int32))
            if profile > 1:
                _multiply(similarity, factor)
            mean[a] += _weighted_sum(similarity, weight)
            _explained(similarity, share, squared)
            exponent.view(np.int32)[0] = _largest(squared.view(np.int32))
            nearest[a] = max(nearest[a], np.float64(exponent[0]))


@part(FUSED)
def _long_exp_parts(exponent: Vector, whole: Vector, result: Vector) -> None:
    for j in range(len(exponent)):
        x = max(exponent[j], LONG_LOWEST)
        t = x * LONG_LOG2E + LONG_MAGIC
        n = t - LONG_MAGIC
        r = (x - n * LONG_LN2_HIGH) - n * LONG_LN2_LOW
        p = ((((S13 * r + S12) * r + S11) * r + S10) * r + S9) * r + S8
        p = ((((((p * r + S7) * r + S6) * r + S5) * r + S4) * r + S3) * r + S2) * r + 1.0
        result[j] = p * r + 1.0
        whole[j] = t


@part(FUSED)
def _long_add_exponent(result: LongBits, whole: LongBits) -> None:
    for j in range(len(result)):
        result[j] += whole[j] << 52


def rows_loop(points: Matrix, columns: Matrix, n_known: int, roots: Vector, profile: int, result: Matrix) -> None:
    """result[a, j] = roots[j] · k(x_a, z_j), in full double precision."""
    n_columns = points.shape[1]
    buffers = np.empty((3, 512))
    for a in range(len(points)):
        x = points[a]
        for begin in range(0, n_known, 512):
            end = min(begin + 512, n_known)
            n = end - begin
            squared, exponent, factor = buffers[0, :n], buffers[1, :n], buffers[2, :n]
            row = result[a, begin:end]
            squared[:] = 0.0
            i = 0
            while i + 4 <= n_columns:
                z0, z1 = columns[i, begin:end], columns[i + 1, begin:end]
                z2, z3 = columns[i + 2, begin:end], columns[i + 3, begin:end]
                _add_four(squared, z0, z1, z2, z3, x[i : i + 4])
                i += 4
            while i < n_columns:
                _add_one(squared, columns[i, begin:end], x[i])
                i += 1
            _profile(squared, exponent, factor, profile)
            _long_exp_parts(exponent, squared, row)
            _long_add_exponent(row.view(np.int64), squared.view(np.int64))
            if profile > 1:
                _multiply(row, factor)
            _multiply(row, roots[begin:end])


# -- candidate elimination ---------------------------------------------------------------------------------------------


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


@part(FUSED)
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


@part(FUSED, is_inlined=True)
def _subtract_columns(
    rows: Matrix, row: int, since: int, until: int, offset: int, rights: Matrix, results: Matrix, place: int
) -> None:
    """Subtract the terms of columns [since, until) of four rows of L from results[:, place : place + 4].

    Column 0 belongs to entry `offset` of the right-hand sides.
    """
    n_rights = len(rights)
    for begin in range(since, until, 1024):  # four pieces of L stay in cache for all right-hand sides
        end = min(begin + 1024, until)
        l0, l1 = rows[row, begin:end], rows[row + 1, begin:end]
        l2, l3 = rows[row + 2, begin:end], rows[row + 3, begin:end]
        first, last = offset + begin, offset + end
        for r in range(0, n_rights - 1, 2):
            at_u, at_v = results[r, place : place + 4], results[r + 1, place : place + 4]
            _subtract_for_two(l0, l1, l2, l3, rights[r, first:last], rights[r + 1, first:last], at_u, at_v)
        if n_rights % 2:
            _subtract_for_one(l0, l1, l2, l3, rights[-1, first:last], results[n_rights - 1, place : place + 4])


@part(FUSED)
def substitute_loop(
    left: Matrix, corner: Matrix, start: int, first: int, last: int, since: int, rights: Matrix
) -> None:
    """Solve rights[:, start + first : start + last] in place; one right-hand side per row.

    All entries before that range must be solved already, and for each complete group of four rows the terms of those
    before `since` are subtracted already. `left` holds a panel's columns before `start`, `corner` those from `start`
    on; `first` and `last` are rows of both.
    """
    n_rights = len(rights)
    end_of_fours = first + (last - first) // 4 * 4
    skipped = max(0, since - start)
    for row in range(first, end_of_fours, 4):
        here = start + row
        _subtract_columns(left, row, since, start, 0, rights, rights, here)
        c0, c1, c2, c3 = corner[row], corner[row + 1], corner[row + 2], corner[row + 3]
        k0, k1, k2, k3 = c0[skipped:], c1[skipped:], c2[skipped:], c3[skipped:]
        for r in range(n_rights):
            _subtract_for_one(k0, k1, k2, k3, rights[r, start + skipped : here], rights[r, here : here + 4])
            _solve_four(c0, c1, c2, c3, row, rights[r, here : here + 4])
    for row in range(end_of_fours, last):
        here = start + row
        for r in range(n_rights):
            known_terms = dot(left[row], rights[r, :start]) + dot(corner[row, :row], rights[r, start:here])
            rights[r, here] = (rights[r, here] - known_terms) / corner[row, row]


@part(FUSED)
def _subtract_four(
    l0: Vector, l1: Vector, l2: Vector, l3: Vector, x0: float, x1: float, x2: float, x3: float, right: Vector
) -> None:
    for c in range(len(right)):
        right[c] -= (l0[c] * x0 + l1[c] * x1) + (l2[c] * x2 + l3[c] * x3)


@part(FUSED)
def _solve_back(corner: Matrix, start: int, n_rows: int, right: Vector) -> None:
    """Solve a panel's unknowns of L⁻ᵀ b; all entries after the panel must be solved and subtracted already."""
    for row in range(n_rows - 1, -1, -1):
        x = right[start + row] / corner[row, row]
        right[start + row] = x
        for c in range(row):
            right[start + c] -= corner[row, c] * x


@part(FUSED)
def _subtract_back(left: Matrix, start: int, n_rows: int, first: int, last: int, right: Vector) -> None:
    """Subtract the terms of a panel's unknowns from the entries [first, last) of b before it."""
    before = right[first:last]
    n_fours = n_rows // 4 * 4
    for row in range(0, n_fours, 4):
        x0, x1 = right[start + row], right[start + row + 1]
        x2, x3 = right[start + row + 2], right[start + row + 3]
        l0, l1 = left[row, first:last], left[row + 1, first:last]
        l2, l3 = left[row + 2, first:last], left[row + 3, first:last]
        _subtract_four(l0, l1, l2, l3, x0, x1, x2, x3, before)
    for row in range(n_fours, n_rows):
        for c in range(first, last):
            right[c] -= left[row, c] * right[start + row]


class BoundTerms(NamedTuple):
    """Terms of the upper bounds and scores that are the same for all actions of a round.

    A kernel takes them as a plain tuple in this order: Numba would inspect a named one in every call.
    """

    innovation_bound: float
    mean_drift: float
    """See `screening.DualWeights`."""

    floor: float
    """Fraction of k(x, x) that is a lower bound on v(x): γ/(γ + tr K)."""

    slack: float
    """Fraction of k(x, x) that bounds the rounding error of v(x)."""

    allowance: float
    """Bound on the effect of inexact similarities on a mean."""

    rounding: float
    """See `screening.DualWeights`."""

    safety: float
    """Fraction of max(1, |score|) by which every upper bound is raised: far above the rounding error of a score."""

    regularization: float
    exploration: float


class CandidateBatch(NamedTuple):
    """Candidates that are solved with the factor together; a kernel takes them as a plain tuple."""

    columns: Matrix
    """D^½ k of each candidate, finally w = L⁻¹ D^½ k; one row per candidate."""

    state: Matrix
    """One row per candidate, with the columns below."""

    order: Indices
    """Place in the batch of each row: candidates are swapped."""


class Team(NamedTuple):
    """State that all threads of one elimination share; a kernel takes it as a plain tuple. Empty: no threads, no parts.

    The rows of the factor are solved in steps of 64, by the leading thread. What other threads take from it are parts:
    sums over four rows of a step and the columns that were solved `LAG` steps before. A part is a function of these
    alone, so it does not matter which thread computes it, nor whether two do: the leading thread repeats a part that
    another one does not finish, because its processor does something else.
    """

    cells: NDArray[np.int64]
    """Counters, with the places below."""

    done: NDArray[np.int64]
    """Per part, 1 if its sums are written."""

    stretches: NDArray[np.int64]
    """Per stretch of rows that are solved for the same candidates, its description with the columns below."""

    sums: Matrix
    """Negative sums, per candidate of a stretch, at the places of its rows."""


TAKEN, AVAILABLE, N_STRETCHES, N_PARTS, N_CELLS = range(0, 80, 16)
"""Cells of `Team.cells`, 128 bytes apart: parts taken so far and parts that may be taken (-1 at the end), which all
threads read; and numbers of stretches and of parts so far, which only the leading thread uses."""

FIRST_PART, END_PART, FIRST_ROW, END_ROW, FIRST_PLACE, END_PLACE, N_STRETCH = range(7)
"""Columns of `Team.stretches`: numbers of its parts, rows of the factor, and places in the batch."""

STEP: Final = 64
"""Rows of a step."""

PARTS: Final = 16
"""Parts of a complete step: four rows each."""

LAG: Final = 1
"""Steps by which the columns of a part are behind: at most this many are in work while one is being closed."""

STRETCHES: Final = 2
"""Largest number of stretches of an elimination: the first rows, and all others for the incumbents."""

FEW: Final = 3
"""Candidates up to which reading the factor takes longer than computing with it: eliminating one saves little."""

PATIENCE: Final = 300_000
"""Polls, of about half a nanosecond each, after which the leading thread repeats a part that it waits for."""

IDLE: Final = 4_000_000
"""Polls after which a helper leaves that finds nothing to do: the leading thread does not run now."""

UPPER, EXPLAINED, PRIOR, OLD_MEAN, MEAN, WIDTH, N_STATE = range(7)
"""Columns of `CandidateBatch.state`: upper bound of the score, Σ w² so far, k(x, x), old mean, mean and width."""

LEFT, CORNER, START, N_ROWS, CORNER_WIDTH, N_PANEL = range(6)
"""Columns of the table of panels: addresses of `left` and `corner`, start, number of rows, width of the corner."""


@part(FUSED)
def _deviation(prior: float, explained: float, terms: BoundTerms) -> float:
    """Upper bound on √v_s."""
    return sqrt(max(prior - explained, prior * terms.floor) + prior * terms.slack)


@part(FUSED)
def _upper(mean: float, prior: float, explained: float, terms: BoundTerms) -> float:
    """Upper bound on the score."""
    score: float = (
        mean
        + terms.innovation_bound * _deviation(prior, explained, terms)
        + terms.allowance
        + terms.rounding * sqrt(prior)
    )
    score += terms.safety * max(1.0, abs(score))
    return score


@part(FUSED)
def threshold_of(score: float, terms: BoundTerms) -> float:
    """Threshold that an upper bound must reach to be tied with this score or better."""
    return score - (TIE_TOLERANCE + terms.safety) * max(1.0, abs(score))


def rank_loop(
    mean: Vector,
    explained: Vector,
    prior: Vector,
    given: tuple[float, ...],
    upper: Vector,
    highest: Indices,
) -> tuple[float, int]:
    """Compute all upper bounds and rank them; return the threshold and the number of candidates that reach it.

    `highest` receives the rows of the highest bounds, in order. The threshold follows from the highest lower bound. It
    is NaN if any bound is not finite.
    """
    terms = BoundTerms(*given)
    best = -np.inf
    for a in range(len(mean)):
        upper[a] = _upper(mean[a], prior[a], explained[a], terms)
        if not abs(upper[a]) < np.inf:
            return np.nan, 0
        moved = terms.mean_drift * _deviation(prior[a], explained[a], terms)
        lowest = mean[a] - moved - terms.allowance - terms.rounding * sqrt(prior[a])
        best = max(best, lowest - terms.safety * max(1.0, abs(lowest)))
    threshold = threshold_of(best, terms)
    n_candidates, n_highest = 0, 0
    for a in range(len(mean)):
        n_candidates += upper[a] >= threshold
        if n_highest == len(highest) and upper[a] <= upper[highest[n_highest - 1]]:
            continue
        n_highest = min(n_highest + 1, len(highest))
        place = n_highest - 1
        while place > 0 and upper[a] > upper[highest[place - 1]]:
            highest[place] = highest[place - 1]
            place -= 1
        highest[place] = a
    return threshold, n_candidates


@part(FUSED)
def _swap(batch: CandidateBatch, first: int, second: int) -> None:
    if first == second:
        return
    order, state = batch.order, batch.state
    order[first], order[second] = order[second], order[first]
    for i in range(state.shape[1]):
        state[first, i], state[second, i] = state[second, i], state[first, i]
    one, other = batch.columns[first], batch.columns[second]
    for j in range(len(one)):
        one[j], other[j] = other[j], one[j]


@part(FUSED)
def _prune(batch: CandidateBatch, first: int, stop: int, threshold: float) -> int:
    """Move candidates below the threshold behind the others; return the new end."""
    place = first
    while place < stop:
        if batch.state[place, UPPER] < threshold:
            stop -= 1
            _swap(batch, place, stop)
        else:
            place += 1
    return stop


@part(FUSED)
def _update(
    batch: CandidateBatch, first: int, stop: int, begin: int, end: int, is_bound: bool, terms: BoundTerms
) -> None:
    """Add the squares of entries [begin, end) of the solutions to the explained variance, and update the bounds."""
    state = batch.state
    for place in range(first, stop):
        solved = batch.columns[place, begin:end]
        state[place, EXPLAINED] += dot(solved, solved)
        if is_bound:
            bound = _upper(state[place, OLD_MEAN], state[place, PRIOR], state[place, EXPLAINED], terms)
            state[place, UPPER] = min(state[place, UPPER], bound)


@part(FUSED)
def _sum_part(panels: NDArray[np.int64], columns: Matrix, team: Team, number: int, task: int, own: Matrix) -> None:
    """Compute a part of a stretch; `own` is the calling thread's buffer."""
    stretch = team.stretches[number]
    first, stop, step = stretch[FIRST_PLACE], stretch[END_PLACE], (task - stretch[FIRST_PART]) // PARTS
    here = stretch[FIRST_ROW] + STEP * step + 4 * ((task - stretch[FIRST_PART]) % PARTS)
    known = stretch[FIRST_ROW] + STEP * max(0, step - LAG)
    p = here // panels[1, START] if len(panels) > 1 else 0
    start, n_rows = panels[p, START], panels[p, N_ROWS]
    left = matrix_at(panels[p, LEFT], n_rows, start)
    rights = columns[first:stop]
    own[: stop - first] = 0.0
    _subtract_columns(left, here - start, 0, min(known, start), 0, rights, own, 0)
    if known > start:
        corner = matrix_at(panels[p, CORNER], n_rows, panels[p, CORNER_WIDTH])
        _subtract_columns(corner, here - start, 0, known - start, start, rights, own, 0)
    for place in range(stop - first):
        for i in range(4):
            team.sums[place, here + i] = own[place, i]
    exchange_cell(team.done, task, 0, 1)


@part(FUSED)
def _take_part(cells: NDArray[np.int64]) -> int:
    """Number of a part that no thread has taken yet; -1 if none is available."""
    while True:
        task = load_cell(cells, TAKEN)
        if task >= load_cell(cells, AVAILABLE):
            return -1
        if exchange_cell(cells, TAKEN, task, task + 1):
            return task


@part(FUSED)
def _make_available(cells: NDArray[np.int64], n_parts: int) -> None:
    exchange_cell(cells, AVAILABLE, cells[AVAILABLE], n_parts)  # always succeeds: only the leading thread does this


@part(FUSED)
def _wait_for_parts(
    panels: NDArray[np.int64], columns: Matrix, team: Team, number: int, first: int, last: int, own: Matrix
) -> None:
    """Compute parts until [first, last) are done."""
    waited = 0
    while first < last:
        if load_cell(team.done, first) == 1:
            first += 1
            continue
        task = _take_part(team.cells)
        if task >= 0:
            _sum_part(panels, columns, team, number, task, own)
            waited = 0
        elif waited < PATIENCE:
            waited += 1
        else:
            _sum_part(panels, columns, team, number, first, own)


@part(FUSED)
def _solve_stretch(
    panels: NDArray[np.int64], begin: int, end: int, first: int, stop: int, columns: Matrix, team: Team
) -> None:
    """Solve columns[first:stop] for the factor's rows [begin, end), together with other threads."""
    cells, number = team.cells, team.cells[N_STRETCHES]
    n_before, n_parts = cells[N_PARTS], (end - begin) // STEP * PARTS + (end - begin) % STEP // 4
    description = (n_before, n_before + n_parts, begin, end, first, stop)
    for i in range(N_STRETCH):
        team.stretches[number, i] = description[i]
    own = np.empty((stop - first, 4))
    for step in range(-(-(end - begin) // STEP)):
        _make_available(cells, n_before + min(n_parts, PARTS * (step + 1 + LAG)))
        last_part = n_before + min(n_parts, PARTS * (step + 1))
        _wait_for_parts(panels, columns, team, number, n_before + PARTS * step, last_part, own)
        here = begin + STEP * step
        last = min(here + STEP, end)
        for place in range(first, stop):
            for row in range(here, here + (last - here) // 4 * 4):
                columns[place, row] += team.sums[place - first, row]
        p = here // panels[1, START] if len(panels) > 1 else 0
        start, n_rows = panels[p, START], panels[p, N_ROWS]
        left = matrix_at(panels[p, LEFT], n_rows, start)
        corner = matrix_at(panels[p, CORNER], n_rows, panels[p, CORNER_WIDTH])
        known = begin + STEP * max(0, step - LAG)
        substitute_loop(left, corner, start, here - start, last - start, known, columns[first:stop])
    cells[N_STRETCHES], cells[N_PARTS] = number + 1, n_before + n_parts


@part(FUSED)
def _advance(
    panels: NDArray[np.int64],
    size: int,
    begin: int,
    end: int,
    first: int,
    stop: int,
    batch: CandidateBatch,
    terms: BoundTerms,
    threshold: float,
    team: Team,
) -> int:
    """Solve columns[first:stop] for the factor's rows [begin, end), eliminating candidates below the threshold.

    The bounds are updated after every 64 rows. They hold for rows before `size`; beyond it only the final result is
    valid. A team solves the remaining rows together as soon as there are few candidates.
    """
    columns = batch.columns
    for p in range(len(panels)):
        start, n_rows = panels[p, START], panels[p, N_ROWS]
        left = matrix_at(panels[p, LEFT], n_rows, start)
        corner = matrix_at(panels[p, CORNER], n_rows, panels[p, CORNER_WIDTH])
        for row in range(max(0, begin - start), min(n_rows, end - start), STEP):
            if first == stop:
                return stop
            if len(team.cells) and stop - first <= FEW:
                _solve_stretch(panels, start + row, end, first, stop, columns, team)
                _update(batch, first, stop, start + row, end, end <= size, terms)
                return stop
            last = min(row + STEP, n_rows, end - start)
            substitute_loop(left, corner, start, row, last, 0, columns[first:stop])
            _update(batch, first, stop, start + row, start + last, start + last <= size, terms)
            if start + last <= size and start + last < columns.shape[1]:
                stop = _prune(batch, first, stop, threshold)
    return stop


@part(FUSED)
def _score(batch: CandidateBatch, first: int, stop: int, targets: Vector, terms: BoundTerms, threshold: float) -> float:
    """Compute exact mean and width of fully solved columns; return the raised threshold."""
    state = batch.state
    for place in range(first, stop):
        mean, prior = dot(batch.columns[place], targets), state[place, PRIOR]
        left = max(prior - state[place, EXPLAINED], prior * terms.floor)
        width = sqrt(left / terms.regularization)
        state[place, MEAN], state[place, WIDTH] = mean, width
        threshold = max(threshold, threshold_of(mean + terms.exploration * width, terms))
    return threshold


@part(FUSED)
def _move_incumbents(batch: CandidateBatch, n_incumbents: int, stop: int) -> None:
    """Move the candidates with the highest bounds (the incumbents) to the first rows."""
    for place in range(n_incumbents):
        highest = place
        for other in range(place + 1, stop):
            if batch.state[other, UPPER] > batch.state[highest, UPPER]:
                highest = other
        _swap(batch, place, highest)


def eliminate_loop(
    panels: NDArray[np.int64],
    size: int,
    given_batch: tuple[Matrix, Matrix, Indices],
    targets: Vector,
    given_terms: tuple[float, ...],
    n_first: int,
    n_incumbents: int,
    threshold: float,
    given_team: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Matrix],
) -> tuple[float, int]:
    """Eliminate candidates; compute exact mean and width of all that reach the threshold.

    Returns the raised threshold and the number of remaining candidates, which occupy the first rows of the batch. The
    incumbents are the candidates with the highest bounds after n_first rows of the factor. They are solved completely
    before the others, which then have to reach an exact score. Other threads that have the same team may take part
    (`help_loop`); the result is the same to the bit.
    """
    batch, terms, team = CandidateBatch(*given_batch), BoundTerms(*given_terms), Team(*given_team)
    n_rows = batch.columns.shape[1]
    stop = _advance(panels, size, 0, n_first, 0, len(batch.columns), batch, terms, threshold, team)
    n_incumbents = min(n_incumbents, stop)
    _move_incumbents(batch, n_incumbents, stop)
    n_left = _advance(panels, size, n_first, n_rows, 0, n_incumbents, batch, terms, threshold, team)
    threshold = _score(batch, 0, n_left, targets, terms, threshold)
    stop = _prune(batch, n_left, stop, threshold)
    alone = Team(team.cells[:0], team.done, team.stretches, team.sums)  # which eliminates between steps
    stop = _advance(panels, size, n_first, n_rows, n_left, stop, batch, terms, threshold, alone)
    threshold = _score(batch, n_left, stop, targets, terms, threshold)
    if len(team.cells):
        _make_available(team.cells, -1)
    return threshold, stop


def help_loop(
    panels: NDArray[np.int64],
    columns: Matrix,
    given_team: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Matrix],
) -> int:
    """Compute parts of an elimination that another thread leads, until it has ended; return how many."""
    team = Team(*given_team)
    own, number, n_parts, waited = np.empty((len(columns), 4)), 0, 0, 0
    while waited < IDLE:
        task = _take_part(team.cells)
        if task >= 0:
            while task >= team.stretches[number, END_PART]:
                number += 1
            _sum_part(panels, columns, team, number, task, own)
            n_parts, waited = n_parts + 1, 0
        elif load_cell(team.cells, AVAILABLE) < 0:
            break
        else:
            waited += 1
    return n_parts


def trailing_loop(panels: NDArray[np.int64], first: int, targets: Vector) -> float:
    """‖b‖² of b = L_BB⁻ᵀ z_B, where B are the factor's rows from `first` on and z_B the targets."""
    solved = targets.copy()
    total = 0.0
    for p in range(len(panels) - 1, -1, -1):
        start, n_rows = panels[p, START], panels[p, N_ROWS]
        left = matrix_at(panels[p, LEFT], n_rows, start)
        corner = matrix_at(panels[p, CORNER], n_rows, panels[p, CORNER_WIDTH])
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


def back_loop(panels: NDArray[np.int64], right: Vector) -> None:
    """Replace b by L⁻ᵀ b in place."""
    for p in range(len(panels) - 1, -1, -1):
        solve_back_loop(panels, p, right)
        subtract_back_loop(panels, p, 0, panels[p, START], right)


@part(FUSED)
def solve_back_loop(panels: NDArray[np.int64], p: int, right: Vector) -> None:
    """`_solve_back` for panel p."""
    corner = matrix_at(panels[p, CORNER], panels[p, N_ROWS], panels[p, CORNER_WIDTH])
    _solve_back(corner, panels[p, START], panels[p, N_ROWS], right)


@part(FUSED)
def subtract_back_loop(panels: NDArray[np.int64], p: int, first: int, last: int, right: Vector) -> None:
    """`_subtract_back` for panel p."""
    left = matrix_at(panels[p, LEFT], panels[p, N_ROWS], panels[p, START])
    _subtract_back(left, panels[p, START], panels[p, N_ROWS], first, last, right)


WORK_BEFORE_COMPILE: Final = 20_000_000
"""Work before compilation, as in `_compile`, for kernels that take ten times as long to compile: about a second of
work."""

FLOATS, FLOAT_ROWS, PLACES, TABLE = "float32[::1]", "float32[:, ::1]", "int64[::1]", "int64[:, ::1]"
TEAM = f"Tuple(({PLACES}, {PLACES}, {TABLE}, {MATRIX}))"
TERMS = f"UniTuple(float64, {len(BoundTerms._fields)})"

screening_loops: Final = Loops(
    work_before_compile=WORK_BEFORE_COMPILE,
    scan=Loop(
        loop=scan_loop,
        signature=f"void({FLOAT_ROWS}, {FLOAT_ROWS}, int64, {VECTOR}, {FLOATS}, int64, {VECTOR}, {VECTOR}, int64, "
        "int64)",
        fast=FUSED,
    ),
    rows=Loop(loop=rows_loop, signature=f"void({MATRIX}, {MATRIX}, int64, {VECTOR}, int64, {MATRIX})", fast=FUSED),
    rank=Loop(
        loop=rank_loop,
        signature=f"Tuple((float64, int64))({VECTOR}, {VECTOR}, {VECTOR}, {TERMS}, {VECTOR}, {PLACES})",
        fast=FUSED,
    ),
    eliminate=Loop(
        loop=eliminate_loop,
        signature=f"Tuple((float64, int64))({TABLE}, int64, Tuple(({MATRIX}, {MATRIX}, {PLACES})), {VECTOR}, {TERMS}, "
        f"int64, int64, float64, {TEAM})",
        fast=FUSED,
    ),
    help=Loop(loop=help_loop, signature=f"int64({TABLE}, {MATRIX}, {TEAM})", fast=FUSED),
    trailing=Loop(loop=trailing_loop, signature=f"float64({TABLE}, int64, {VECTOR})", fast=FUSED),
    back=Loop(loop=back_loop, signature=f"void({TABLE}, {VECTOR})", fast=FUSED),
    solve_back=Loop(loop=solve_back_loop, signature=f"void({TABLE}, int64, {VECTOR})", fast=FUSED),
    subtract_back=Loop(loop=subtract_back_loop, signature=f"void({TABLE}, int64, int64, int64, {VECTOR})", fast=FUSED),
)
"""Kernel group shared by all policies of the process. Until it is compiled, all actions are scored."""
