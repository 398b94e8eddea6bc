"""Compiled kernels for similarities of rows under stationary kernels.

All kernels work on blocks of observations that fit into the L1 cache. Every inner loop vectorizes: it is elementwise or
a sum in any order. `exp` is implemented here, because one library call per entry would prevent vectorization:
x = n·ln 2 + r, a polynomial for exp(r), and n added to the exponent bits.

The scan uses single precision, which halves its time; `similarities.Distances` bounds its errors. Rows for exact
results use double precision.
"""

from __future__ import annotations

from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.selection.compiled import IN_ANY_ORDER, compiled, part
from kernelbandits.types import Matrix, Vector

__all__ = ["BLOCK", "rows_loop", "scan_loop"]

BLOCK: Final = 512
"""Observations per block: ten columns of them take 20 kB in single precision."""

Floats = NDArray[np.float32]
Bits = NDArray[np.int32]
LongBits = NDArray[np.int64]

F4, F8 = "float32[::1]", "float64[::1]"

# Single precision: a polynomial for exp on [−ln 2 / 2, ln 2 / 2], relative error 3e-9 before rounding.
P1, P2, P3 = np.float32(1.0000000379432987), np.float32(0.5000000047401582), np.float32(0.16666414507170133)
P4, P5, P6 = np.float32(0.041666351638002974), np.float32(0.008375210200854223), np.float32(0.00139412131250564)
ONE, ZERO, HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
LOG2E, MAGIC = np.float32(1.4426950408889634), np.float32(1.5 * 2.0**23)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LOWEST = np.float32(-86.0)
ROOT3, ROOT5, FIVE_THIRDS = np.float32(3.0**0.5), np.float32(5.0**0.5), np.float32(5.0 / 3.0)

# Double precision: the series of exp, truncated where terms are below 1e-17.
S2, S3, S4, S5, S6, S7 = (1.0 / factorial(n) for n in range(2, 8))
S8, S9, S10, S11, S12, S13 = (1.0 / factorial(n) for n in range(8, 14))
LONG_LOG2E, LONG_MAGIC = 1.4426950408889634, 1.5 * 2.0**52
LONG_LN2_HIGH, LONG_LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LONG_LOWEST = -700.0
LONG_ROOT3, LONG_ROOT5, LONG_FIVE_THIRDS = 3.0**0.5, 5.0**0.5, 5.0 / 3.0


@part()
def _add_four(squared: Floats, z0: Floats, z1: Floats, z2: Floats, z3: Floats, x: Floats) -> None:
    """Add (x − z)² over four columns."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    for j in range(len(squared)):
        d0, d1, d2, d3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
        squared[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)


@part()
def _add_one(squared: Floats, z: Floats, x: np.float32) -> None:
    for j in range(len(squared)):
        d = x - z[j]
        squared[j] += d * d


@part()
def _profile(squared: Floats, exponent: Floats, factor: Floats, profile: int) -> None:
    """Write the exponent of k, and from profile 2 on its polynomial `factor`; `squared` is overwritten."""
    if profile == 0:
        for j in range(len(squared)):
            exponent[j] = -HALF * squared[j]
        return
    for j in range(len(squared)):
        squared[j] = np.sqrt(squared[j])
    if profile == 1:
        for j in range(len(squared)):
            exponent[j] = -squared[j]
    elif profile == 2:
        for j in range(len(squared)):
            r = ROOT3 * squared[j]
            exponent[j] = -r
            factor[j] = ONE + r
    else:
        for j in range(len(squared)):
            r = ROOT5 * squared[j]
            exponent[j] = -r
            factor[j] = ONE + r + FIVE_THIRDS * squared[j] * squared[j]


@part()
def _exp_parts(exponent: Floats, whole: Floats, result: Floats) -> None:
    """Compute exp(r) for x = n ln 2 + r; n is stored in the lowest bits of `whole`."""
    for j in range(len(exponent)):
        x = max(exponent[j], LOWEST)
        t = x * LOG2E + MAGIC
        n = t - MAGIC
        r = (x - n * LN2_HIGH) - n * LN2_LOW
        result[j] = (((((P6 * r + P5) * r + P4) * r + P3) * r + P2) * r + P1) * r + ONE
        whole[j] = t


@part()
def _add_exponent(result: Bits, whole: Bits) -> None:
    """Multiply by 2^n by adding n to the exponent bits."""
    for j in range(len(result)):
        result[j] += whole[j] << 23


@part()
def _multiply(similarity: Floats, factor: Floats) -> None:
    for j in range(len(similarity)):
        similarity[j] *= factor[j]


@part(IN_ANY_ORDER)
def _weighted_sum(similarity: Floats, weights: Vector) -> float:
    """Σ weight · similarity, in double precision."""
    total = 0.0
    for j in range(len(similarity)):
        total += weights[j] * np.float64(similarity[j])
    return total


@part()
def _explained(similarity: Floats, shares: Floats, result: Floats) -> None:
    for j in range(len(similarity)):
        result[j] = similarity[j] * similarity[j] * shares[j]


@part()
def _largest(bits: Bits) -> np.int32:
    """Largest of nonnegative numbers by their bit patterns, which sort equally; integer comparisons vectorize."""
    largest = np.int32(0)
    for j in range(len(bits)):
        largest = max(largest, bits[j])
    return largest


@compiled(f"void(float32[:, ::1], float32[:, ::1], int64, {F8}, {F4}, int64, {F8}, {F8}, int64, int64)")
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


@part()
def _long_add_four(squared: Vector, z0: Vector, z1: Vector, z2: Vector, z3: Vector, x: Vector) -> None:
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    for j in range(len(squared)):
        d0, d1, d2, d3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
        squared[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)


@part()
def _long_add_one(squared: Vector, z: Vector, x: float) -> None:
    for j in range(len(squared)):
        d = x - z[j]
        squared[j] += d * d


@part()
def _long_profile(squared: Vector, exponent: Vector, factor: Vector, profile: int) -> None:
    if profile == 0:
        for j in range(len(squared)):
            exponent[j] = -0.5 * squared[j]
        return
    for j in range(len(squared)):
        squared[j] = np.sqrt(squared[j])
    if profile == 1:
        for j in range(len(squared)):
            exponent[j] = -squared[j]
    elif profile == 2:
        for j in range(len(squared)):
            r = LONG_ROOT3 * squared[j]
            exponent[j] = -r
            factor[j] = 1.0 + r
    else:
        for j in range(len(squared)):
            r = LONG_ROOT5 * squared[j]
            exponent[j] = -r
            factor[j] = 1.0 + r + LONG_FIVE_THIRDS * squared[j] * squared[j]


@part()
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


@part()
def _long_add_exponent(result: LongBits, whole: LongBits) -> None:
    for j in range(len(result)):
        result[j] += whole[j] << 52


@part()
def _long_multiply(similarity: Vector, factor: Vector) -> None:
    for j in range(len(similarity)):
        similarity[j] *= factor[j]


@compiled(f"void(float64[:, ::1], float64[:, ::1], int64, {F8}, int64, float64[:, ::1])")
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
                _long_add_four(squared, z0, z1, z2, z3, x[i : i + 4])
                i += 4
            while i < n_columns:
                _long_add_one(squared, columns[i, begin:end], x[i])
                i += 1
            _long_profile(squared, exponent, factor, profile)
            _long_exp_parts(exponent, squared, row)
            _long_add_exponent(row.view(np.int64), squared.view(np.int64))
            if profile > 1:
                _long_multiply(row, factor)
            _long_multiply(row, roots[begin:end])
