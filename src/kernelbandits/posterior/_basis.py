"""Basis of the low-rank posterior, by pivoted Cholesky, and coordinates in it."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.cholesky import solve_lower, solve_lower_transposed
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["Basis", "Coordinates"]

PIVOT: Final = 0.5
"""Share of the tolerance down to which points are chosen: one that lies outside by a hair is surely taken."""

GROWTH: Final = 100.0
"""Sum of the interpolation weights, discounted as `_is_steady` says, up to which a point may be appended; above it the
basis is chosen anew. Weights beyond it multiply the rounding errors of the similarities."""


class Basis:
    """Points B with K_BB = L Lᵀ, chosen so that every point shown to it is a combination of them to rounding.

    A point has the coordinates φ(x) = L⁻¹ k_B(x), and k(x, z) = φ(x)ᵀφ(z) up to the residuals:

        |k(x, z) − φ(x)ᵀφ(z)| ≤ sqrt(ρ(x) ρ(z)),   ρ(x) = k(x, x) − ‖φ(x)‖².

    A point lies outside while |ρ(x)| > tolerance · k(x, x); `include` takes it in. Which points are taken matters: with
    weights W(x) = L⁻ᵀφ(x), by which the basis interpolates x, a rounding error e of the similarities becomes W(x)ᵀe in
    φ(x)ᵀφ(z). Points in order of arrival have weights in the millions; chosen by the largest residual first (a Cholesky
    factorization with pivots) these stay near 1. So a point is appended only where that leaves the weights moderate,
    and otherwise the basis is chosen anew among its own points and the new ones.
    """

    def __init__(self, kernel: Kernel, *, tolerance: float) -> None:
        self.kernel = kernel
        self.tolerance = tolerance
        self.points: Points = None
        self.lower: Matrix = np.empty((0, 0))
        self._lengths: Vector = np.empty(0)  # sqrt k(b, b)

    @property
    def size(self) -> int:
        """Points in it: the numerical rank of what was shown."""
        return len(self.lower)

    def coordinates(self, points: Points) -> Matrix:
        """φ of every point, one column each."""
        if not self.size:
            return np.empty((0, self.kernel.kind.count(points)))
        similarity = np.ascontiguousarray(self.kernel.gram(points, self.points).T)
        solve_lower(self.lower, similarity)
        return similarity

    def more_coordinates(self, known: Matrix, points: Points) -> Matrix:
        """Rows of φ that are missing below the `known` ones, after points were appended."""
        first, last = len(known), self.size
        new = self.kernel.kind.take(self.points, np.arange(first, last))
        rows = np.ascontiguousarray(self.kernel.gram(new, points) - self.lower[first:, :first] @ known)
        solve_lower(np.ascontiguousarray(self.lower[first:, first:]), rows)
        return rows

    def outside(self, coordinates: Matrix, prior: Vector) -> tuple[Indices, Vector]:
        """Which points lie outside, and the residuals ρ of all; `prior` is k(x, x).

        A residual far below zero is the rounding error of a point with large weights, which lies outside too.
        """
        residual = prior - np.einsum("rn,rn->n", coordinates, coordinates)
        return np.flatnonzero(np.abs(residual) > self.tolerance * prior), residual

    def include(self, points: Points) -> int:
        """Take in points that lie outside; gives the first row of φ that is not what it was, 0 after choosing anew."""
        lengths = np.sqrt(self.kernel.diagonal(points))
        if self._is_steady(self.coordinates(points), lengths):
            return self.append(points)
        candidates = self.kernel.kind.stack(self.points, points)
        self.points, self.lower, self._lengths = None, np.empty((0, 0)), np.empty(0)
        return self.append(candidates)

    def append(self, points: Points) -> int:
        """Take in points after those it has, the largest residual first; gives the number of rows before."""
        kind, size = self.kernel.kind, self.size
        lengths = np.sqrt(self.kernel.diagonal(points))
        coordinates = self.coordinates(points)
        chosen, corner = self._pivoted(self.kernel.gram(points) - coordinates.T @ coordinates, lengths)
        if not len(chosen):
            return size
        new = kind.take(points, chosen)
        self.points = kind.stack(self.points, new) if size else new
        lower = np.zeros((size + len(chosen), size + len(chosen)))
        lower[:size, :size] = self.lower
        lower[size:, :size] = coordinates[:, chosen].T
        lower[size:, size:] = corner
        self.lower = lower
        self._lengths = np.append(self._lengths, lengths[chosen])
        return size

    def _is_steady(self, coordinates: Matrix, lengths: Vector) -> bool:
        """Whether the points can be appended: Σ|W(x)| sqrt(tolerance / ρ(x)), in units of k(x, x), is at most 100.

        A known point's weights change by W(x) φ'/sqrt(ρ(x)), where its new coordinate φ' is at most sqrt(tolerance).
        """
        if not self.size:
            return True
        residual = lengths**2 - np.einsum("rn,rn->n", coordinates, coordinates)
        weights = coordinates.copy()
        solve_lower_transposed(self.lower, weights)
        total = self._lengths @ np.abs(weights)
        return bool((total * np.sqrt(self.tolerance) <= GROWTH * np.sqrt(np.maximum(residual, 0.0))).all())

    def _pivoted(self, left: Matrix, lengths: Vector) -> tuple[Indices, Matrix]:
        """Points by the largest share of k(x, x) left, until what is left is below the tolerance, and their factor."""
        from scipy.linalg.lapack import dpstrf

        scale = np.where(lengths > 0.0, lengths, 1.0)
        factor, order, rank, _ = dpstrf((left / scale / scale[:, None]).T, tol=PIVOT * self.tolerance, lower=1)
        chosen = order[:rank].astype(np.intp) - 1
        return chosen, np.tril(factor[:rank, :rank]) * lengths[chosen][:, None]


class Coordinates:
    """φ of the points in slots, one column each, that follows its basis: (rank, n_slots).

    Keeping all columns costs memory of 8·rank·n_slots bytes. It is what makes a larger basis exact: coordinates that
    earlier points have along a new one are small, and not nothing.
    """

    def __init__(self, kernel: Kernel, *, tolerance: float) -> None:
        self.basis = Basis(kernel, tolerance=tolerance)
        self.n_slots = 0
        self._store: Matrix = np.empty((0, 0))  # with room to spare in both directions

    @property
    def rank(self) -> int:
        """Points in the basis."""
        return self.basis.size

    @property
    def columns(self) -> Matrix:
        """φ of all slots."""
        return self._store[: self.rank, : self.n_slots]

    def append(self, columns: Matrix) -> None:
        """φ of the next slots."""
        first, last = self.n_slots, self.n_slots + columns.shape[1]
        self._make_room(last)
        self._store[: self.rank, first:last] = columns
        self.n_slots = last

    def keep(self, slots: Indices) -> None:
        """Forget all slots but these."""
        self._store, self.n_slots = self._store[:, slots], len(slots)

    def admit(self, points: Points, past: Points) -> bool:
        """Take points into the basis; `past` are those of the slots.

        Gives whether the rows of φ are what they were, apart from new ones below.
        """
        kind, first = self.basis.kernel.kind, self.basis.include(points)
        if not self.n_slots:
            return False
        past = kind.take(past, np.arange(self.n_slots))
        stays = first > 0
        if not stays:
            first = self._express_anew(past)
        self._make_room(self.n_slots)
        if first < self.rank:
            for block, part in blocks(kind, past, self.rank):
                self._store[first : self.rank, block] = self.basis.more_coordinates(self._store[:first, block], part)
        return stays

    def _express_anew(self, past: Points) -> int:
        """All rows of φ; then the basis takes in what has been left outside, being neither in the old nor the new one.

        Gives the number of rows before that.
        """
        kind, first = self.basis.kernel.kind, self.rank
        self._make_room(self.n_slots)
        for block, part in blocks(kind, past, first):
            self._store[:first, block] = self.basis.coordinates(part)
        outside, _ = self.basis.outside(self.columns, self.basis.kernel.diagonal(past))
        if len(outside):
            self.basis.append(kind.take(past, outside))
        return first

    def _make_room(self, n_columns: int) -> None:
        rows, columns = self._store.shape
        if self.rank <= rows and n_columns <= columns:
            return
        n_rows = rows if self.rank <= rows else self.rank + self.rank // 4
        larger = np.empty((n_rows, columns if n_columns <= columns else max(n_columns, 2 * columns)))
        larger[:rows, :columns] = self._store
        self._store = larger
