"""Cholesky factor in row panels: grows, is updated by rank one and drops rows without a full copy."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits.types import Matrix, Vector

__all__ = ["GrowingCholesky", "Panel", "cholesky", "solve_lower", "solve_lower_transposed"]

PANEL: Final = 256
"""Rows per panel: wide enough for matrix-matrix speed, small enough that the triangular corner stays in cache."""

FIRST_CAPACITY: Final = 16
"""Initial capacity of a panel in rows, so that small problems take little memory."""


class Panel:
    """Rows [start, start + n_rows) of a lower triangular matrix: all columns before `start`, and the corner.

    The two arrays have spare capacity in rows; the corner's stride is its width.
    """

    __slots__ = ("corner", "left", "most_rows", "n_rows", "start")

    def __init__(self, start: int, most_rows: int, capacity: int) -> None:
        self.start, self.most_rows = start, most_rows
        self.n_rows = 0
        self.left: Matrix = np.empty((capacity, start))
        self.corner: Matrix = np.zeros((capacity, capacity))

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.n_rows)

    def append(self, left: Matrix, corner: Matrix) -> None:
        """Append rows: their columns before the panel, and their columns within it, including the new rows."""
        old, new = self.n_rows, self.n_rows + len(left)
        if new > len(self.left):
            capacity = min(self.most_rows, max(new, 2 * len(self.left)))
            larger_left, larger_corner = np.empty((capacity, self.start)), np.zeros((capacity, capacity))
            larger_left[:old] = self.left[:old]
            larger_corner[:old, :old] = self.corner[:old, :old]
            self.left, self.corner = larger_left, larger_corner
        self.left[old:new] = left
        self.corner[old:new, :new] = corner
        self.n_rows = new

    def triangle(self, first: int = 0) -> Matrix:
        """Filled part of the corner from row and column `first` on."""
        return self.corner[first : self.n_rows, first : self.n_rows]


class GrowingCholesky:
    """Factor L with L Lᵀ = A, for a positive definite A that grows, is updated by rank one, or loses a row's effect.

    Rows are stored in panels. A panel holds only the columns up to its own diagonal, so memory is about half of the
    square, and growing never moves earlier panels.
    """

    def __init__(self, *, rows_per_panel: int = PANEL, first_capacity: int = FIRST_CAPACITY) -> None:
        self.rows_per_panel, self._first_capacity = rows_per_panel, first_capacity
        self.panels: list[Panel] = []
        """Rows of L, for solving in steps; only this class changes them."""
        self.size = 0

    def solve(self, right: Matrix, *, solved: int = 0, until: int | None = None) -> Matrix:
        """Replace B by L⁻¹ B in place; B must be C-contiguous, and its first `solved` rows are solved already.

        If `until` is given, only rows before it are solved; the others are unchanged.
        """
        last = self.size if until is None else until
        with limit_blas_threads(float(last) ** 2 * right.shape[1]):
            self._solve(right, solved, last)
        return right

    def _solve(self, right: Matrix, solved: int, last: int) -> None:
        for panel in self.panels[solved // self.rows_per_panel :]:
            first, n_rows = max(0, solved - panel.start), min(panel.n_rows, last - panel.start)
            if first >= n_rows:
                continue
            block = right[panel.start + first : panel.start + n_rows]
            if panel.start:
                block -= panel.left[first:n_rows] @ right[: panel.start]
            if first:
                block -= panel.corner[first:n_rows, :first] @ right[panel.start : panel.start + first]
            solve_lower(panel.triangle(first)[: n_rows - first, : n_rows - first], block)

    def solve_transposed(self, right: Matrix) -> Matrix:
        """Replace B by L⁻ᵀ B in place; B must be C-contiguous."""
        with limit_blas_threads(float(self.size) ** 2 * right.shape[1]):
            for panel in reversed(self.panels):
                block = right[panel.rows]
                solve_lower_transposed(panel.triangle(), block)
                if panel.start:
                    right[: panel.start] -= panel.left[: panel.n_rows].T @ block
        return right

    def room(self) -> int:
        """Free rows in the last panel."""
        return self.rows_per_panel - self.size % self.rows_per_panel

    def append(self, cross: Matrix, within: Matrix, *, floor: float | None = None) -> None:
        """Append rows of A: `cross` (size × new) to the old ones, solved in place, and `within` (new × new).

        For a thousand rows at a time it is as fast as LAPACK's factorization. If A is not positive definite, it raises
        LinAlgError and changes nothing; the caller interprets the error. With a `floor`, a known lower bound on every
        pivot, pivots that rounding has pushed below are replaced by it, unless rounding dominates and the factor
        overflows.
        """
        with limit_blas_threads(float(self.size + len(within)) ** 2 * len(within)):
            whitened = self.solve(cross)
            left = within - whitened.T @ whitened
            try:
                corner = cholesky(left)
            except np.linalg.LinAlgError:
                if floor is None:
                    raise
                corner = _floored_cholesky(left, floor)
        self.write(whitened, corner)

    def append_solved(self, row: Vector, pivot: float) -> None:
        """Append a row of L with known entries, and its diagonal."""
        if self.size % self.rows_per_panel == 0:
            self._add_panel()
        panel = self.panels[-1]
        place, start = panel.n_rows, panel.start
        if place == len(panel.left):
            panel.append(row[None, :start], np.append(row[start:], pivot)[None])
        else:
            panel.left[place] = row[:start]
            panel.corner[place, :place] = row[start:]
            panel.corner[place, place] = pivot
            panel.n_rows = place + 1
        self.size += 1

    def write(self, whitened: Matrix, corner: Matrix) -> None:
        """Write new rows of L: their columns so far, transposed, and those among themselves."""
        n_known, n_new = whitened.shape
        while self.size < n_known + n_new:
            if self.size % self.rows_per_panel == 0:
                self._add_panel()
            panel = self.panels[-1]
            last = min(n_known + n_new, panel.start + self.rows_per_panel)
            rows, split = slice(self.size - n_known, last - n_known), min(panel.start, n_known)
            known, among = whitened[:, rows].T, corner[rows, : last - n_known]
            panel.append(
                np.hstack([known[:, :split], among[:, : panel.start - split]]),
                np.hstack([known[:, split:], among[:, panel.start - split :]]),
            )
            self.size = last

    def _add_panel(self) -> None:
        self.panels.append(Panel(self.size, self.rows_per_panel, self._first_capacity))

    def truncate(self, size: int) -> None:
        """Drop all rows from `size` on."""
        self.panels = [panel for panel in self.panels if panel.start < size]
        if self.panels:
            self.panels[-1].n_rows = size - self.panels[-1].start
        self.size = size

    def rank_one(self, vector: Vector, *, start: int, sign: float) -> None:
        """Update to the factor of A + sign · v vᵀ, with v zero before `start`; LinAlgError, without change, if invalid.

        With p = L⁻¹v the factor of I + sign·ppᵀ has the entries d_j on its diagonal and p_r b_j below it (Gill, Golub,
        Murray and Saunders 1974, method C1), so each row of the product needs only its own running sums:

            t_j = t_{j-1} + sign·p_j²,  d_j = sqrt(t_j / t_{j-1}),  b_j = sign·p_j / sqrt(t_j t_{j-1})
            L'_kj = d_j L_kj + b_j Σ_{r>j} L_kr p_r
        """
        p = vector.copy()
        if start:
            p[:start] = 0.0
        p = self.solve(p[:, None], solved=start)[start:, 0]
        t = 1.0 + sign * np.cumsum(p**2)
        if not t[-1] > 0.0:
            raise np.linalg.LinAlgError("The matrix minus v vᵀ is not positive definite.")
        before = np.concatenate([[1.0], t[:-1]])
        d, b = np.sqrt(t / before), sign * p / np.sqrt(t * before)
        for panel in self.panels[start // self.rows_per_panel :]:
            first = max(0, start - panel.start)
            here = panel.start + first - start  # index of the panel's first changed column in p, d and b
            columns = slice(here, panel.start + panel.n_rows - start)
            triangle = panel.triangle(first)
            carried = _multiply_special(triangle, p[columns], d[columns], b[columns], after=0.0)
            if start < panel.start:
                left = panel.left[: panel.n_rows, start:]
                _multiply_special(left, p[:here], d[:here], b[:here], after=carried)

    def scale_row(self, row: int, factor: float) -> None:
        """Multiply a row of L: row and column of A, except for the diagonal, which `rank_one` corrects."""
        panel = self.panels[row // self.rows_per_panel]
        place = row - panel.start
        panel.left[place] *= factor
        panel.corner[place, : place + 1] *= factor

    def isolate(self, row: int, diagonal: float) -> None:
        """Update to the factor of A with zeros in this row and column and `diagonal` on its diagonal, without effect.

        Rows below lose their link to it; what the link explained is added back as a positive rank-one update.
        """
        link = np.zeros(self.size)
        for panel in self.panels[row // self.rows_per_panel :]:
            column = (
                panel.left[: panel.n_rows, row]
                if row < panel.start
                else panel.corner[: panel.n_rows, row - panel.start]
            )
            link[panel.rows] = column
            column[:] = 0.0
        link[: row + 1] = 0.0
        panel = self.panels[row // self.rows_per_panel]
        place = row - panel.start
        panel.left[place] = 0.0
        panel.corner[place] = 0.0
        panel.corner[place, place] = sqrt(diagonal)
        if link.any():
            self.rank_one(link, start=row + 1, sign=1.0)

    def log_determinant(self) -> float:
        """Ln det A."""
        return 2.0 * sum(float(np.log(np.diagonal(panel.triangle())).sum()) for panel in self.panels)

    def smallest_pivot(self, *, since: int = 0) -> float:
        """Smallest L_jj² from row `since` on; an upper bound on A's smallest eigenvalue."""
        first, skipped = divmod(since, self.rows_per_panel)
        pivots = np.concatenate([np.diagonal(panel.triangle()) for panel in self.panels[first:]])
        return float(pivots[skipped:].min()) ** 2


def _multiply_special(rows: Matrix, p: Vector, d: Vector, b: Vector, *, after: float | Vector) -> Vector:
    """Replace rows L by d_j L_kj + b_j (Σ_{r>j} L_kr p_r + after_k); return the full Σ_r L_kr p_r + after."""
    products = rows * p
    sums = np.cumsum(products[:, ::-1], axis=1)[:, ::-1]  # Σ_{r>=j}
    total: Vector = sums[:, 0] + after
    beyond = np.empty_like(sums)
    beyond[:, :-1] = sums[:, 1:]
    beyond[:, -1] = 0.0
    beyond += np.reshape(after, (-1, 1))
    beyond *= b
    rows *= d
    rows += beyond
    return total


@np.errstate(over="ignore", invalid="ignore")
def _floored_cholesky(matrix: Matrix, floor: float) -> Matrix:
    """Column-wise Cholesky with no pivot below the floor; LinAlgError if it overflows."""
    lower, left = np.zeros_like(matrix), matrix.copy()
    for column in range(len(matrix)):
        pivot = sqrt(max(left[column, column], floor))
        lower[column, column] = pivot
        lower[column + 1 :, column] = left[column + 1 :, column] / pivot
        below = lower[column + 1 :, column]
        left[column + 1 :, column + 1 :] -= np.outer(below, below)
    if not np.isfinite(lower).all():
        raise np.linalg.LinAlgError("Rounding errors are larger than the floor.")
    return lower


def cholesky(matrix: Matrix) -> Matrix:
    """L with L Lᵀ = matrix; LinAlgError if it does not exist."""
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def solve_lower(triangle: Matrix, right: Matrix) -> None:
    """B ← L⁻¹ B in place, for C-contiguous B, whose transpose is column-major for BLAS."""
    from scipy.linalg.blas import dtrsm

    dtrsm(1.0, triangle.T, right.T, side=1, lower=0, trans_a=0, overwrite_b=1)


def solve_lower_transposed(triangle: Matrix, right: Matrix) -> None:
    """B ← L⁻ᵀ B in place, for C-contiguous B."""
    from scipy.linalg.blas import dtrsm

    dtrsm(1.0, triangle.T, right.T, side=1, lower=0, trans_a=1, overwrite_b=1)
