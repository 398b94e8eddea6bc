"""Ridge regression on the coordinates of points in the span of a dictionary: the algebra of the Nyström posterior."""

from __future__ import annotations

from math import inf, isfinite, log, nan, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits.errors import NotPositiveSemidefinite
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._projection_loops import projection_loops
from kernelbandits.posterior.base import check_no_overflow
from kernelbandits.posterior.cholesky import GrowingCholesky, solve_lower
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["SMALLEST_RESIDUAL", "Located", "Projection", "checked_residual"]

SMALLEST_RESIDUAL: Final = 1e-10
"""Fraction of k(x, x) below which a residual is rounding: a point with a smaller one is no atom."""

INDEFINITE: Final = 1e-5
"""Fraction of k(x, x) that may be missing: nearly dependent atoms explain up to 2e-6 too much."""

FEW_POINTS: Final = 24
"""Largest number of points for which compiled substitutions are faster than BLAS: with 1,000 atoms, 10 points take
0.6 ms instead of 0.9 and 20 points 1.0 instead of 1.3; 32 take as long either way."""

FEWEST_BUFFERED: Final = 64
BUFFERED_SHARE: Final = 4
"""Rank-one changes collected before the factor of G is computed again: at least 64, and a quarter of the dictionary.
Below, a new factor costs more than the changes; above, the changes cost more than the factor."""


class _Triangle:
    """A growing factor as one matrix with spare capacity, for queries."""

    __slots__ = ("_corner", "_factor", "_rows", "_size")

    def __init__(self) -> None:
        self._factor: GrowingCholesky | None = None
        self._size = 0
        self._rows: Matrix = np.zeros((0, 0))
        self._corner: Matrix | None = None

    def rows(self, factor: GrowingCholesky) -> Matrix:
        """L in the corner of a larger matrix, whose other entries mean nothing; appended to as the factor grows."""
        size, rows = factor.size, self._rows
        known = self._size if factor is self._factor and self._size <= size else 0
        if factor is not self._factor or known < size:
            if size > len(rows):
                rows = np.zeros((size + size // 4, size + size // 4))
                rows[:known, :known] = self._rows[:known, :known]
            for panel in factor.panels[known // factor.rows_per_panel :]:
                first = max(0, known - panel.start)
                here = slice(panel.start + first, panel.start + panel.n_rows)
                rows[here, : panel.start] = panel.left[first : panel.n_rows]
                rows[here, panel.rows] = panel.corner[first : panel.n_rows, : panel.n_rows]
            self._rows, self._corner, self._size, self._factor = rows, None, size, factor
        return rows

    def solve(self, factor: GrowingCholesky, right: Matrix) -> Matrix:
        """L⁻¹ B by BLAS, as far as L goes, in the place of B; B must be C-contiguous."""
        rows, size = self.rows(factor), factor.size
        if size and right.shape[1]:
            corner = self._corner
            if corner is None:  # contiguous, or BLAS would copy it in every call
                self._corner = corner = rows[:size, :size].copy()
            solve_lower(corner, right[:size])
        return right

    def forget(self) -> None:
        """Read the factor again: it has lost rows, and others may take their places."""
        self._factor, self._corner = None, None

    def __reduce__(self) -> tuple[type[_Triangle], tuple[()]]:
        """Copy as an empty one."""
        return _Triangle, ()


class Located(NamedTuple):
    """Points in the coordinates of a projection, one column per point."""

    prior: Vector
    """k(x, x)."""

    coordinates: Matrix
    """z = L⁻¹ k_Z."""

    whitened: Matrix
    """v = F⁻¹ z."""

    changes: Matrix
    """c = U v."""

    residual: Vector
    """k(x, x) − ‖z‖², at least 0."""

    mean: Vector
    """Mean: vᵀw."""

    explained: Vector
    """zᵀ G⁻¹ z = ‖v‖² − ‖c‖²."""

    def column(self, place: int) -> Located:
        """One of the points."""
        part = slice(place, place + 1)
        prior, coordinates, whitened, changes, residual, mean, explained = self
        return Located(
            prior[part], coordinates[:, part], whitened[:, part], changes[:, part], residual[part], mean[part],
            explained[part],
        )  # fmt: skip


def checked_residual(kernel: Kernel, prior: Vector, residual: Vector) -> Vector:
    """Residuals of at least 0; raises NotPositiveSemidefinite if one is below by more than rounding."""
    check_no_overflow(residual)
    if not kernel.is_certified and (residual < -INDEFINITE * prior).any():
        raise NotPositiveSemidefinite(
            "These similarities are not positive semi-definite: the dictionary explains more than k(x, x). Nothing "
            "was changed. Repair them first: kb.kernels.repair(table, method='clip')."
        )
    return np.maximum(residual, 0.0, out=residual)


class Projection:
    """Ridge regression of rewards on z(x) = L⁻¹ k_Z(x), for atoms Z with K_ZZ = L Lᵀ.

    With counts n and reward sums s of the observed points,

        G = γI + Σ n z zᵀ = F (I + VVᵀ) Fᵀ,   b = Σ s z,

    where F is a Cholesky factor that is computed now and then, and V holds the observations since, in the coordinates
    v = F⁻¹z. With (I + VVᵀ)⁻¹ = I − UᵀU, one row of U per observation, and w = Fᵀ G⁻¹ b,

        zᵀ G⁻¹ z = ‖v‖² − ‖Uv‖²,   mean = vᵀw,

    so a query takes two triangular solves and a product with U, and an observation one row of U. What an observation or
    a new atom changes is appended, or replaced as a whole, so `mark` and `put_back` cost nothing.
    """

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        self.kernel = kernel
        self.regularization = regularization
        self.size = 0
        """Number of atoms."""
        self._store: Any = None
        self._lower = GrowingCholesky()  # L
        self._factor = GrowingCholesky()  # F
        self._lower_triangle, self._factor_triangle = _Triangle(), _Triangle()
        self._version = 0  # grows when a factor loses rows
        self._precision: Matrix = np.zeros((0, 0))  # G without the buffered observations, in the corner of a buffer
        self._changes: Matrix = np.zeros((0, 0))  # rows of U
        self._buffered: Matrix = np.zeros((0, 0))  # their sqrt(n) z
        self._n_buffered = 0
        self._moments: Vector = np.zeros(0)  # b
        self._target: Vector = np.zeros(0)  # w
        self.log_det_gain = 0.0
        """Ln det(G/γ)."""
        self.fit = 0.0
        """bᵀ G⁻¹ b: what the mean explains of the squared rewards, and γ‖θ‖²."""

    # -- rolling back --------------------------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """State, for `put_back`."""
        return (
            self.size, self._store, self._lower, self._factor, self._factor.size, self._precision, self._changes,
            self._buffered, self._n_buffered, self._moments, self._target, self.log_det_gain, self.fit,
        )  # fmt: skip

    def put_back(self, mark: tuple[Any, ...]) -> None:
        """Restore a former state."""
        (
            self.size, self._store, self._lower, self._factor, factor_size, self._precision, self._changes,
            self._buffered, self._n_buffered, self._moments, self._target, self.log_det_gain, self.fit,
        ) = mark  # fmt: skip
        for factor, size, triangle in (
            (self._lower, self.size, self._lower_triangle), (self._factor, factor_size, self._factor_triangle),
        ):  # fmt: skip
            factor.truncate(size)  # also at this size: an interrupted append has written a part of a row
            triangle.forget()
        self._version += 1

    # -- querying ------------------------------------------------------------------------------------------------------

    @property
    def points(self) -> Points:
        """Atoms; requires one."""
        return self.kernel.kind.view(self._store, self.size)

    @property
    def precision(self) -> Matrix:
        """Copy of G."""
        size, buffered = self.size, self._buffered[: self._n_buffered, : self.size]
        return self._precision[:size, :size] + buffered.T @ buffered

    @property
    def moments(self) -> Vector:
        """B."""
        return self._moments

    @property
    def factor(self) -> GrowingCholesky:
        """F; not changed in place, except by new atoms."""
        return self._factor

    @property
    def lower(self) -> GrowingCholesky:
        """L."""
        return self._lower

    def arrays(self) -> tuple[Matrix, Matrix, Matrix, Vector, int]:
        """L and F in the corners of matrices, U, w, and a version that changes when a factor loses rows."""
        lower, factor = self._lower_triangle.rows(self._lower), self._factor_triangle.rows(self._factor)
        return lower, factor, self._changes[: self._n_buffered, : self.size], self._target, self._version

    def locate(self, points: Points, prior: Vector) -> Located:
        """Points with these k(x, x)."""
        coordinates, residual = self.coordinates(points, prior)
        return self.at(coordinates, prior, residual)

    def coordinates(self, points: Points, prior: Vector) -> tuple[Matrix, Vector]:
        """Coordinates of points with these k(x, x), one column per point, and residuals."""
        size, n_points = self.size, len(prior)
        if not size:
            return np.zeros((0, n_points)), prior
        with limit_blas_threads(float(size) ** 2 * n_points):
            similarity = self.kernel.gram(self.points, points)
            if self._is_compiled(n_points):
                rows = np.array(similarity.T, order="C")
                projection_loops.substitute(self._lower_triangle.rows(self._lower), rows)
                coordinates, residual = rows.T, prior - np.einsum("nm,nm->n", rows, rows)
            else:
                coordinates = self._lower_triangle.solve(self._lower, np.ascontiguousarray(similarity))
                residual = prior - np.einsum("mn,mn->n", coordinates, coordinates)
        return coordinates, checked_residual(self.kernel, prior, residual)

    def at(self, coordinates: Matrix, prior: Vector, residual: Vector) -> Located:
        """Points with known coordinates, one column per point."""
        size, n_points, used = *coordinates.shape, self._n_buffered
        if self._is_compiled(n_points):
            rows = np.array(coordinates.T, order="C")
            changed, found = np.empty((n_points, used)), np.empty((2, n_points))
            projection_loops.substitute(self._factor_triangle.rows(self._factor), rows)
            projection_loops.describe(self._changes, self._target, rows, changed, found)
            return Located(prior, coordinates, rows.T, changed.T, residual, found[0], found[1])
        with limit_blas_threads(float(size) * coordinates.size):
            whitened = self._factor_triangle.solve(self._factor, np.array(coordinates, order="C"))
            changes = self._changes[:used, :size] @ whitened
        explained = np.einsum("mn,mn->n", whitened, whitened) - np.einsum("pn,pn->n", changes, changes)
        mean: Vector = self._target @ whitened
        return Located(prior, coordinates, whitened, changes, residual, mean, np.maximum(explained, 0.0))

    def _is_compiled(self, n_points: int) -> bool:
        """Whether a query of this many points is answered by compiled kernels."""
        if not 0 < n_points <= FEW_POINTS:
            return False
        if not projection_loops.is_compiled:
            projection_loops.record_work(self.size**2 * n_points)
        return projection_loops.is_compiled

    def covariance(self, left: Located, right: Located) -> Matrix:
        """zᵀ G⁻¹ z' of every pair."""
        explained: Matrix = left.whitened.T @ right.whitened - left.changes.T @ right.changes
        return explained

    @property
    def weights(self) -> Vector:
        """θ = G⁻¹ b: weights of the coordinates in the mean."""
        return self._factor.solve_transposed(self._target[:, None].copy())[:, 0]

    def distance(self, weights: Vector) -> float:
        """‖θ − weights‖ in the norm of G."""
        change, size = self.weights - weights, self.size
        with np.errstate(over="ignore", invalid="ignore"):
            buffered = self._buffered[: self._n_buffered, :size] @ change
            squared = float(change @ self._precision[:size, :size] @ change + buffered @ buffered)
        return sqrt(max(squared, 0.0)) if isfinite(squared) else inf

    @property
    def dual_weights(self) -> Vector:
        """α = L⁻ᵀ θ: mean = Σ α k(x, atom)."""
        return self._lower.solve_transposed(self.weights[:, None].copy())[:, 0]

    def dual(self, of_mean: Vector, located: Located) -> tuple[Vector, Matrix]:
        """L⁻ᵀ θ, and L⁻ᵀ (z − γ G⁻¹ z) of located points, one column per point."""
        coordinates, whitened, changes = located.coordinates, located.whitened, located.changes
        used, size = self._n_buffered, self.size
        rest = np.ascontiguousarray(whitened - self._changes[:used, :size].T @ changes)
        solved = self._factor.solve_transposed(rest)
        weights = np.column_stack([of_mean, coordinates - self.regularization * solved])
        weights = self._lower.solve_transposed(weights)
        return weights[:, 0], weights[:, 1:]

    # -- observations --------------------------------------------------------------------------------------------------

    def add(self, located: Located, count: float, total: float) -> None:
        """Add `count` observations of one located point with reward sum `total`."""
        size, used = self.size, self._n_buffered
        z, v, c = located.coordinates[:, 0], located.whitened[:, 0], located.changes[:, 0]
        mean = float(located.mean[0])
        self._make_room(used + 1, size)
        gain = v - c @ self._changes[:used, :size]  # (I + VVᵀ)⁻¹ v
        explained = count * float(located.explained[0])
        grown = sqrt(1.0 + explained)
        change, kept = self._changes[used], self._buffered[used]
        change[size:] = kept[size:] = 0.0
        np.multiply(gain, sqrt(count) / grown, out=change[:size])
        np.multiply(z, sqrt(count), out=kept[:size])
        self._n_buffered = used + 1
        surprise = (total - count * mean) / (1.0 + explained)
        self.fit += mean * total + surprise * (total / count * explained + mean)
        self._target = self._target + gain * surprise
        self._moments = self._moments + total * z
        self.log_det_gain += 2.0 * log(grown)
        if self._n_buffered >= max(FEWEST_BUFFERED, size // BUFFERED_SHARE):
            self.refactor()

    def add_many(self, coordinates: Matrix, counts: Vector, sums: Vector) -> None:
        """Add observations of many points, one column of coordinates per point."""
        scaled = coordinates * np.sqrt(counts)
        with limit_blas_threads(float(self.size) * scaled.size):
            self._replace(self.precision + scaled @ scaled.T, self._moments + coordinates @ sums)

    def subtract(self, coordinates: Matrix, counts: Vector, sums: Vector) -> bool:
        """Remove observations; whether they can have been there. If not, nothing is changed."""
        mark = self.mark()
        scaled = coordinates * np.sqrt(counts)
        try:
            self._replace(
                self.precision - scaled @ scaled.T, self._moments - coordinates @ sums, slack=SMALLEST_RESIDUAL
            )
        except np.linalg.LinAlgError:
            self.put_back(mark)
            return False
        return True

    def retarget(self, moments: Vector) -> None:
        """Adopt another b."""
        used, size = self._n_buffered, self.size
        solved = self._factor.solve(moments[:, None].copy())[:, 0]
        self._target = solved - (self._changes[:used, :size] @ solved) @ self._changes[:used, :size]
        self._moments = moments
        self.fit = _fit(solved, self._target)

    def replace(self, coordinates: Matrix, counts: Vector, sums: Vector) -> None:
        """Recompute G and b from all observations."""
        scaled = coordinates * np.sqrt(counts)
        with limit_blas_threads(float(self.size) * scaled.size):
            precision = scaled @ scaled.T
        precision[np.diag_indices_from(precision)] += self.regularization
        self._replace(precision, coordinates @ sums)

    def set_sums(self, precision: Matrix, moments: Vector) -> None:
        """Adopt G and b."""
        self._replace(precision, moments)

    def refactor(self) -> None:
        """Compute F from G."""
        self._replace(self.precision, self._moments)

    def _replace(self, precision: Matrix, moments: Vector, *, slack: float | None = None) -> None:
        """Adopt G and b; the smallest eigenvalue of G is at least γ, and a smaller pivot is rounding.

        With `slack`, raises LinAlgError, without changes, if a pivot is below γ by more than this fraction of G.
        """
        gamma, size = self.regularization, self.size
        factor = GrowingCholesky()
        if size:
            factor.append(np.empty((0, size)), precision, floor=None if slack is not None else gamma)
            if slack is not None and factor.smallest_pivot() < gamma - slack * float(np.trace(precision)):
                raise np.linalg.LinAlgError("These observations were not there.")
        self._factor, self._precision, self._n_buffered = factor, precision, 0
        self._changes = self._buffered = np.zeros((0, size))
        self._moments = moments
        self._target = factor.solve(moments[:, None].copy())[:, 0]
        self.log_det_gain = factor.log_determinant() - size * log(gamma)
        self.fit = _fit(self._target, self._target)

    # -- atoms ---------------------------------------------------------------------------------------------------------

    def select(self, points: Points, prior: Vector, least: float, most: int) -> tuple[Indices, Matrix]:
        """Points that should become atoms: largest residual first, while it exceeds `least`, at most `most` of them.

        Returns them, and the coordinates of all points in the span of these and the atoms.
        """
        from scipy.linalg.lapack import dpstrf

        known, _ = self.coordinates(points, prior)
        left = self.kernel.gram(points) - known.T @ known
        smallest = max(least, SMALLEST_RESIDUAL * float(prior.max(initial=0.0)))
        factor, order, rank, _ = dpstrf(left.T, tol=smallest, lower=1)
        rank = min(rank, most)
        chosen = order[:rank].astype(np.intp) - 1
        rows = np.empty((rank, len(prior)))
        rows[:, order - 1] = np.tril(factor)[:, :rank].T
        return chosen, np.vstack([known, rows])

    def append(self, points: Points, coordinates: Matrix) -> None:
        """Append atoms with these coordinates, the last ones triangular. G and b must be set afterwards."""
        size, n_new = self.size, coordinates.shape[1]
        if not n_new:
            return
        self._store = self.kernel.kind.grow(self._store if size else None, size, points)
        corner = np.tril(coordinates[size:].T)
        self._lower.write(np.ascontiguousarray(coordinates[:size]), corner)
        self.size = size + n_new
        self._changes = self._buffered = np.zeros((0, self.size))
        self._n_buffered = 0

    def append_one(self, point: Points, located: Located, cross: Vector, square: float, total: float) -> None:
        """Append a located point as an atom.

        With c the new coordinate of the observed points, `cross` = Σ n c z, `square` = Σ n c², `total` = Σ s c.
        """
        size, used, gamma = self.size, self._n_buffered, self.regularization
        self._store = self.kernel.kind.grow(self._store if size else None, size, point)
        self._lower.append_solved(located.coordinates[:, 0], sqrt(float(located.residual[0])))
        solved = self._factor.solve(cross[:, None].copy())[:, 0]  # F⁻¹ g
        row = solved - (self._changes[:used, :size] @ solved) @ self._changes[:used, :size]
        pivot = sqrt(max(gamma + square - float(row @ solved), gamma))
        self._factor.append_solved(row, pivot)
        added = (total - float(solved @ self._target)) / pivot
        self._target = np.append(self._target, added)
        self.fit += added * added
        self._moments = np.append(self._moments, total)
        self._make_room(used, size + 1)
        self._changes[:used, size] = self._buffered[:used, size] = 0.0
        if size + 1 > len(self._precision):
            larger = np.zeros((2 * size + 16, 2 * size + 16))
            larger[:size, :size] = self._precision[:size, :size]
            self._precision = larger
        self._precision[size, :size] = self._precision[:size, size] = cross
        self._precision[size, size] = gamma + square
        self.log_det_gain += 2.0 * log(pivot) - log(gamma)
        self.size = size + 1

    def _make_room(self, n_rows: int, n_columns: int) -> None:
        """Enlarge the buffers of recent observations."""
        rows, columns = self._changes.shape
        if n_rows <= rows and n_columns <= columns:
            return
        wanted = max(FEWEST_BUFFERED, n_columns // BUFFERED_SHARE + 1)
        rows, columns = max(rows, wanted, n_rows), max(columns, n_columns if n_columns <= columns else n_columns + 64)
        used, size = self._n_buffered, min(self.size, self._changes.shape[1])
        larger = np.zeros((2, rows, columns))
        larger[0, :used, :size] = self._changes[:used, :size]
        larger[1, :used, :size] = self._buffered[:used, :size]
        self._changes, self._buffered = larger


def _fit(first: Vector, second: Vector) -> float:
    """Inner product; nan of rewards that are too large to square, with which the certificate says nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(first @ second)
    return found if isfinite(found) else nan
