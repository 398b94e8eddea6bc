"""Compiled kernel of the Nyström posterior: triangular systems with few right-hand sides."""

from __future__ import annotations

from typing import Final

from kernelbandits._compile import MATRIX, SUMS_IN_ANY_ORDER, Loop, Loops
from kernelbandits.types import Matrix

__all__ = ["substitution_loops"]


def substitute_loop(lower: Matrix, rows: Matrix) -> None:
    """Replace every row b by L⁻¹ b; each row of L is read once."""
    n_rows = len(rows)
    for i in range(len(lower)):
        for n in range(n_rows):
            value = 0.0
            for j in range(i):
                value += lower[i, j] * rows[n, j]
            rows[n, i] = (rows[n, i] - value) / lower[i, i]


substitution_loops: Final = Loops(
    substitute=Loop(
        loop=substitute_loop,
        signature=f"void(Array(float64, 2, 'C', readonly=True), {MATRIX})",
        fast=SUMS_IN_ANY_ORDER,
    )
)
"""Kernel group shared by all posteriors of the process."""
