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
"""Fraction of the tolerance down to which pivots are chosen, so that a point just above the tolerance is certainly
added."""

GROWTH: Final = 100.0
"""Largest sum of interpolation weights, discounted as in `_is_steady`, with which a point may be appended. Above it the
basis is rebuilt, since such weights multiply the rounding errors of the similarities."""


class Basis:
    """Points B with K_BB = L Lᵀ, chosen so that every included point is a combination of them up to rounding.

    A point has the coordinates φ(x) = L⁻¹ k_B(x), and k(x, z) = φ(x)ᵀφ(z) up to the residuals:

        |k(x, z) − φ(x)ᵀφ(z)| ≤ sqrt(ρ(x) ρ(z)),   ρ(x) = k(x, x) − ‖φ(x)‖².

    A point lies outside while |ρ(x)| > tolerance · k(x, x); `include` adds it. The choice of the points matters: with
    weights W(x) = L⁻ᵀφ(x), by which the basis interpolates x, a rounding error e of the similarities becomes W(x)ᵀe in
    φ(x)ᵀφ(z). Points in order of arrival have weights in the millions; with the largest residual first (pivoted
    Cholesky) they stay near 1. So a point is appended only if the weights stay moderate; otherwise the basis is rebuilt
    from its own points and the new ones.
    """

    def __init__(self, kernel: Kernel, *, tolerance: float) -> None:
        self.kernel = kernel
        self.tolerance = tolerance
        self.points: Points = None
        self.lower: Matrix = np.empty((0, 0))
        self._lengths: Vector = np.empty(0)  # sqrt k(b, b)

    @property
    def size(self) -> int:
        """Number of points in the basis: the numerical rank of the included points."""
        return len(self.lower)

    def coordinates(self, points: Points) -> Matrix:
        """φ of every point, one column per point."""
        if not self.size:
            return np.empty((0, self.kernel.kind.count(points)))
        similarity = np.ascontiguousarray(self.kernel.gram(points, self.points).T)
        solve_lower(self.lower, similarity)
        return similarity

    def more_coordinates(self, known: Matrix, points: Points) -> Matrix:
        """Rows of φ that are missing after the `known` ones, after points were appended."""
        first, last = len(known), self.size
        new = self.kernel.kind.take(self.points, np.arange(first, last))
        rows = np.ascontiguousarray(self.kernel.gram(new, points) - self.lower[first:, :first] @ known)
        solve_lower(np.ascontiguousarray(self.lower[first:, first:]), rows)
        return rows

    def outside(self, coordinates: Matrix, prior: Vector) -> tuple[Indices, Vector]:
        """Indices of the points that lie outside, and the residuals ρ of all; `prior` is k(x, x).

        A residual far below zero is the rounding error of a point with large weights, which also lies outside.
        """
        residual = prior - np.einsum("rn,rn->n", coordinates, coordinates)
        return np.flatnonzero(np.abs(residual) > self.tolerance * prior), residual

    def include(self, points: Points) -> int:
        """Add points that lie outside; return the first row of φ that has changed, 0 after a rebuild."""
        lengths = np.sqrt(self.kernel.diagonal(points))
        if self._is_steady(self.coordinates(points), lengths):
            return self.append(points)
        candidates = self.kernel.kind.stack(self.points, points)
        self.points, self.lower, self._lengths = None, np.empty((0, 0)), np.empty(0)
        return self.append(candidates)

    def append(self, points: Points) -> int:
        """Append points to the basis, largest residual first; return the previous number of rows."""
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
        """Select points by the largest remaining fraction of k(x, x), down to the tolerance; return them and L."""
        from scipy.linalg.lapack import dpstrf

        scale = np.where(lengths > 0.0, lengths, 1.0)
        factor, order, rank, _ = dpstrf((left / scale / scale[:, None]).T, tol=PIVOT * self.tolerance, lower=1)
        chosen = order[:rank].astype(np.intp) - 1
        return chosen, np.tril(factor[:rank, :rank]) * lengths[chosen][:, None]


class Coordinates:
    """φ of the points in slots, one column per slot, synchronized with the basis: shape (rank, n_slots).

    Storing all columns takes 8·rank·n_slots bytes. It makes an enlarged basis exact: the coordinates of earlier points
    along a new basis point are small but not zero.
    """

    def __init__(self, kernel: Kernel, *, tolerance: float) -> None:
        self.basis = Basis(kernel, tolerance=tolerance)
        self.n_slots = 0
        self._store: Matrix = np.empty((0, 0))  # with spare capacity in both dimensions

    @property
    def rank(self) -> int:
        """Number of points in the basis."""
        return self.basis.size

    @property
    def columns(self) -> Matrix:
        """φ of all slots."""
        return self._store[: self.rank, : self.n_slots]

    def append(self, columns: Matrix) -> None:
        """Append φ of the next slots."""
        first, last = self.n_slots, self.n_slots + columns.shape[1]
        self._make_room(last)
        self._store[: self.rank, first:last] = columns
        self.n_slots = last

    def retain(self, slots: Indices) -> None:
        """Drop all slots except these."""
        self._store, self.n_slots = self._store[:, slots], len(slots)

    def validate_learnable(self, points: Points, past: Points) -> bool:
        """Add points to the basis; `past` are the points of the slots.

        Returns whether the existing rows of φ are unchanged, apart from new rows after them.
        """
        kind, first = self.basis.kernel.kind, self.basis.include(points)
        if not self.n_slots:
            return False
        past = kind.take(past, np.arange(self.n_slots))
        stays = first > 0
        if not stays:
            first = self._recompute(past)
        self._make_room(self.n_slots)
        if first < self.rank:
            for block, part in blocks(kind, past, self.rank):
                self._store[first : self.rank, block] = self.basis.more_coordinates(self._store[:first, block], part)
        return stays

    def _recompute(self, past: Points) -> int:
        """Recompute all rows of φ, and add points that the rebuilt basis leaves outside.

        Returns the previous number of rows.
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
