"""Compiled kernels of the Nyström posterior: triangular systems with few right-hand sides, means and widths."""

from __future__ import annotations

from typing import Final

from kernelbandits._compile import MATRIX, SUMS_IN_ANY_ORDER, Loop, Loops
from kernelbandits.types import Matrix, Vector

__all__ = ["projection_loops"]


def substitute_loop(lower: Matrix, rows: Matrix) -> None:
    """Replace every row b by L⁻¹ b, four entries at a time; L may be the corner of a larger matrix and is read once."""
    n_rows, size = rows.shape
    last = size - size % 4
    for i in range(0, last, 4):
        for n in range(n_rows):
            first = second = third = fourth = 0.0
            for j in range(i):
                value = rows[n, j]
                first += lower[i, j] * value
                second += lower[i + 1, j] * value
                third += lower[i + 2, j] * value
                fourth += lower[i + 3, j] * value
            for row, known in ((i, first), (i + 1, second), (i + 2, third), (i + 3, fourth)):
                value = rows[n, row] - known
                for j in range(i, row):
                    value -= lower[row, j] * rows[n, j]
                rows[n, row] = value / lower[row, row]
    for i in range(last, size):
        for n in range(n_rows):
            value = rows[n, i]
            for j in range(i):
                value -= lower[i, j] * rows[n, j]
            rows[n, i] = value / lower[i, i]


def describe_loop(changes: Matrix, target: Vector, whitened: Matrix, changed: Matrix, found: Matrix) -> None:
    """Write c = U v of every row v, and vᵀw and ‖v‖² − ‖c‖², at least 0, into the rows of `found`."""
    n_rows, size = whitened.shape
    for n in range(n_rows):
        mean = 0.0
        explained = 0.0
        for j in range(size):
            mean += target[j] * whitened[n, j]
            explained += whitened[n, j] * whitened[n, j]
        for p in range(changed.shape[1]):
            value = 0.0
            for j in range(size):
                value += changes[p, j] * whitened[n, j]
            changed[n, p] = value
            explained -= value * value
        found[0, n] = mean
        found[1, n] = max(explained, 0.0)


READ_ONLY: Final = "Array(float64, 2, 'C', readonly=True)"

projection_loops: Final = Loops(
    substitute=Loop(
        loop=substitute_loop,
        signature=f"void({READ_ONLY}, {MATRIX})",
        fast=SUMS_IN_ANY_ORDER,
    ),
    describe=Loop(
        loop=describe_loop,
        signature=f"void({READ_ONLY}, Array(float64, 1, 'C', readonly=True), {MATRIX}, {MATRIX}, {MATRIX})",
        fast=SUMS_IN_ANY_ORDER,
    ),
)
"""Kernel group shared by all posteriors of the process."""
