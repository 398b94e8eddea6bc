"""Low-rank posterior: the exact posterior at the size of its numerical rank."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import log, sqrt
from typing import Final

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits._transactions import Journal
from kernelbandits.errors import NotSupported
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._basis import Coordinates
from kernelbandits.posterior._chunks import blocks, summed_similarity
from kernelbandits.posterior.base import Sections, check_no_overflow
from kernelbandits.posterior.cholesky import cholesky, solve_lower, solve_lower_transposed
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.observations import EMPTY_SHARE, Batch
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Indices, Matrix, Points, Vector
from kernelbandits.validation import check_positive

__all__ = ["LowRankPosterior", "RidgeRoot"]


class RidgeRoot:
    """T with TᵀT = C⁻¹ for C = γI + Σ n φφᵀ, and the weights θ = C⁻¹ Σ sφ of points φ with counts n and sums s.

    Another observation of φ takes a product with T on either side and one rank-one update (Potter's square root
    filter): with y = sqrt(n)·Tφ,

        T ← (I − b yyᵀ) T,   b = (1 − 1/sqrt(1 + yᵀy)) / yᵀy,

    3r² multiplications compared with r³/3 for a new factor. ‖Tφ‖² = φᵀC⁻¹φ is a sum of squares and cannot be negative.
    The matrices contain all points, one column per point: (rank, n_points).
    """

    def __init__(self, coordinates: Matrix, counts: Vector, sums: Vector, *, regularization: float) -> None:
        self.regularization = regularization
        scaled = coordinates * counts
        precision = scaled @ coordinates.T
        self.trace = float(np.trace(precision))
        """Σ n ‖φ‖²."""
        precision[np.diag_indices_from(precision)] += regularization
        lower = cholesky(precision)
        self.log_det_gain = _log_det(lower) - len(lower) * log(regularization)
        """Ln det(C/γ)."""
        self.root: Matrix = np.eye(len(lower))
        solve_lower(lower, self.root)
        self.n_changes = 0
        """Number of updates since T was computed; each adds rounding errors."""
        self.retarget(coordinates, sums)

    def retarget(self, coordinates: Matrix, sums: Vector) -> None:
        """Recompute the weights for other reward sums of the same points."""
        self.weights: Vector = (self.root @ (coordinates @ sums)) @ self.root

    def add(self, column: Vector, count: float, total: float) -> None:
        """Add `count` observations of one point with reward sum `total`."""
        from scipy.linalg.blas import dger

        y = self.root @ column
        explained = count * float(y @ y)
        gain = y @ self.root  # C⁻¹φ
        self.weights += gain * ((total - count * float(column @ self.weights)) / (1.0 + explained))
        # count·b, with yᵀy = explained, in a form that does not cancel if little is explained
        grown = sqrt(1.0 + explained)
        dger(-count / (grown * (1.0 + grown)), gain, y, a=self.root.T, overwrite_a=1)
        self.log_det_gain += 2.0 * log(grown)
        self.trace += count * float(column @ column)
        self.n_changes += 1

    def widen(self, coordinates: Matrix, counts: Vector, sums: Vector) -> None:
        """Extend C by new coordinates of the points, and T by those of their Schur complement."""
        size = len(self.root)
        old, new = coordinates[:size], coordinates[size:]
        scaled = new * counts
        whitened = self.root @ (old @ scaled.T)
        left = scaled @ new.T
        self.trace += float(np.trace(left))
        left -= whitened.T @ whitened
        left[np.diag_indices_from(left)] += self.regularization
        corner = cholesky(left)
        rows = np.hstack([-(whitened.T @ self.root), np.eye(len(new))])
        solve_lower(corner, rows)
        root = np.zeros((len(coordinates), len(coordinates)))
        root[:size, :size] = self.root
        root[size:] = rows
        self.root = root
        self.log_det_gain += _log_det(corner) - len(new) * log(self.regularization)
        self.retarget(coordinates, sums)


def _log_det(lower: Matrix) -> float:
    return 2.0 * float(np.log(np.diagonal(lower)).sum())


TOLERANCE: Final = 1e-13
"""Fraction of k(x, x) that may be left outside the basis. Similarities of Gaussian kernels have errors of up to about
1e-13 themselves; a smaller tolerance would treat these as new directions."""

BLOCK: Final = 256
"""Points added at once: enough for matrix-matrix speed, few enough to select pivots from their own Gram matrix."""

FEWEST: Final = 64
SHARE: Final = 0.6
"""Query points that were not observed may enlarge the basis to this fraction of the size, or to 64 points."""

CHANGES_PER_POINT: Final = 0.5
FEWEST_CHANGES: Final = 256
"""After half as many rank-one updates as there are points (and at least 256), recomputing the root costs no more than
they did, and removes their rounding errors."""

NOISE: Final = 10.0
"""Multiple of the tolerance: residuals up to it are accepted if the basis has no capacity left. Residuals above it,
despite capacity, are noise of the similarities."""

ROUNDS: Final = 4
"""Rebuilds of the basis before the similarities are treated as noisy: a rebuild can leave another point slightly
outside, but only a few times."""

EARLY: Final = 0.25
FULL_RANK: Final = 0.95
"""If the first quarter of the points has nearly full rank (this fraction), the attempt to compress is abandoned, so
that an unsuccessful attempt is cheap."""

LOOSER: Final = 1e-12
"""Second tolerance, tried if the similarities are too noisy for the usual one."""

LARGEST_ERROR: Final = 5e-10
"""Largest tolerance · sqrt(t) · κ/γ for which compressed means are accurate to about 1e-10 times the scale of the
rewards. Measured with 400 points of Gaussian kernels on a line and in a plane, tolerance 1e-13: errors of at most 3e-11
at γ = 0.01 and 7e-9 at 1e-4."""


class LowRankPosterior(RecordedPosterior):
    """Exact posterior in r coordinates, r the numerical rank of the points: O(r²) per point and query.

    A `Basis` of r points gives coordinates φ with k(x, z) = φ(x)ᵀφ(z) up to a fraction ε of the largest k(x, x), κ: the
    `tolerance`, or at worst ten times that. With C = γI + Σ n φφᵀ over the distinct points, their counts n and reward
    sums s:

        mean = φᵀ C⁻¹ Σ sφ,   width² = φᵀ C⁻¹ φ + ρ/γ,   ρ = k(x, x) − ‖φ‖².

    Every observed or queried point lies in the span of the basis: one that does not is added to it first, and all
    coordinates are extended. Omitting residuals ρ of the observed points would cost sqrt(ε) at a point outside, far
    more than rounding. So the true Gram matrix K of the t observations is replaced by K − E, and the similarities k to
    a point by k − e, with 0 ≤ E, |E_ij| ≤ εκ and |e_i| ≤ εκ. From A⁻¹ − (A − E)⁻¹ = −A⁻¹E(A − E)⁻¹ and
    ‖A⁻¹k‖ ≤ ½ sqrt(κ/γ), with u = ½ sqrt(tκ/γ) and α the dual weights of the observations:

        |error of mean|       ≤ εκ sqrt(t) ‖α‖ (1 + u)
        |error of γ·width²|   ≤ εκ (1 + u)²

    up to the rounding errors that every form has. Typical errors are a thousand times smaller. The exact form is used
    for query points outside that would enlarge the basis beyond 0.6 of the size, and for all points if the similarities
    have more noise than the tolerance.

    Possibly indefinite kernels are rejected: their residuals are not squares.

    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = LowRankPosterior(Gaussian(length_scale=0.5), regularization=0.1)
    >>> points = np.linspace(0.0, 1.0, 1000)[:, None]
    >>> posterior.observe(points, points[:, 0] ** 2)
    >>> posterior.rank < 20
    True
    >>> posterior.predict([[0.5]]).mean.round(3)
    array([0.246])
    """

    def __init__(self, kernel: Kernel, *, regularization: float, tolerance: float = TOLERANCE) -> None:
        super().__init__(kernel, regularization=regularization)
        if not kernel.is_certified:
            raise NotSupported(
                f"{type(kernel).__name__} might be no kernel, and only what is surely positive semi-definite can be "
                "compressed. Use posterior='exact'."
            )
        self._tolerance = check_positive(tolerance, "The tolerance")
        self._whole: ExactPosterior | None = None
        self.needs_exact_fallback = False
        """Whether a query had to use the exact form."""
        self._start()

    def _start(self) -> None:
        self._slots = Coordinates(self.kernel, tolerance=self._tolerance)
        self._basis = self._slots.basis
        self._ridge: RidgeRoot | None = None  # None if it must be recomputed
        self._late: list[tuple[Indices, Vector, Vector]] = []  # slots, counts and sums not yet added to `_ridge`
        self._has_other_sums = False
        self._queried: dict[Hashable, Vector] = {}  # φ of the last query points, by key
        self._learned: dict[int, Vector] = {}  # φ of slots that were query points before
        self._is_noisy = False  # similarities have more noise than the tolerance allows

    @classmethod
    def over(cls, exact: ExactPosterior, queried: Sequence[Points], *, most: float) -> LowRankPosterior | None:
        """The same posterior compressed, with the same record; None if errors were visible or the rank exceeds `most`.

        Errors are visible if the regularization is very small relative to the similarities. `queried` are typical query
        points: they must lie in the basis, too.
        """
        for tolerance in (TOLERANCE, LOOSER):
            if not exact.kernel.is_certified or 2.0 * _error(exact, tolerance) > LARGEST_ERROR:
                return None
            compressed = cls(exact.kernel, regularization=exact.regularization, tolerance=tolerance)
            if compressed._adopt(exact, queried, most):
                return compressed
            if not compressed._is_noisy:
                return None
        return None

    def _adopt(self, exact: ExactPosterior, queried: Sequence[Points], most: float) -> bool:
        """Adopt the observations of the exact form; return whether all points fit, at a rank of at most `most`."""
        self._whole = exact  # available in case it is needed for a query
        self.record, self._largest_similarity = exact.record, exact._largest_similarity
        slots, n_slots = self._slots, exact.record.n_slots
        while slots.n_slots < n_slots:
            self._write(self._next_block())
            early = FULL_RANK * slots.n_slots if slots.n_slots <= EARLY * n_slots + BLOCK else most
            if slots.rank > min(most, early) or self._is_noisy:
                return False
        if queried:
            points = self.kernel.kind.stack(*queried)
            self._span(points, self.kernel.diagonal(points))
        return slots.rank <= most and not self.needs_exact_fallback

    @property
    def error_is_visible(self) -> bool:
        """Whether the compression error may be visible, for this many observations at so small a regularization."""
        return _error(self, self._tolerance) > LARGEST_ERROR

    @property
    def rank(self) -> int:
        """Number of points in the basis."""
        return self._slots.rank

    @property
    def whole(self) -> ExactPosterior:
        """Exact form over the same record, with which it synchronizes itself."""
        if self._whole is None or self._whole.record is not self.record:
            self._whole = ExactPosterior(self.kernel, regularization=self.regularization)
            self._whole.record = self.record
            self._whole._join(self._journal)
        self._whole._largest_similarity = self._largest_similarity
        return self._whole

    def _join(self, journal: Journal) -> None:
        super()._join(journal)
        if self._whole is not None:
            self._whole._join(journal)

    # -- synchronization -----------------------------------------------------------------------------------------------

    def _apply(self, batch: Batch) -> None:
        """Record a new batch; apply it immediately only if it may be rejected or the kernel is not validated yet."""
        is_old = batch.slots < self._slots.n_slots  # the others are added with their totals in the record
        if is_old.any():
            self._late.append((batch.slots[is_old], batch.slot_counts[is_old], batch.slot_sums[is_old]))
            if len(self._late) > max(1, self.rank):
                self._recompute()
        if len(batch.keys) == 1 and batch.keys[0] in self._queried:
            self._learned[self.record.n_slots - 1] = self._queried[batch.keys[0]]
        if not (self._slots.n_slots and self._is_well_posed):
            self._current()

    def _recompute(self) -> None:
        self._ridge, self._late, self._has_other_sums = None, [], False

    def _catch_up(self) -> None:
        """Synchronize the coordinates and the regression with the record."""
        if not self._late and self._slots.n_slots == self.record.n_slots:
            self._learned = {}
            return
        self._journal.note(self._start)  # changed in place: invalid after an interrupt
        late, self._late = self._late, []
        for slots, counts, sums in late:
            self._add(self._slots.columns[:, slots], counts, sums)
        while self._slots.n_slots < self.record.n_slots:
            column = self._learned.get(self._slots.n_slots)
            self._write(self._next_block() if column is None else column[:, None])
        self._learned = {}
        self._journal.drop(self._start)

    def _next_block(self) -> Matrix:
        """Coordinates of the next slots; those outside have been added to the basis."""
        kind = self.kernel.kind
        first = self._slots.n_slots
        new = kind.take(self.record.points, np.arange(first, min(self.record.n_slots, first + BLOCK)))
        prior = self.kernel.diagonal(new)
        coordinates = self._basis.coordinates(new)
        outside, residual = self._basis.outside(coordinates, prior)
        check_no_overflow(residual)
        if len(outside):
            self._admit(kind.take(new, outside))
            coordinates = self._basis.coordinates(new)
            _, residual = self._basis.outside(coordinates, prior)
            self._is_noisy |= self._is_off(residual, prior)
        return coordinates

    def _write(self, columns: Matrix) -> None:
        """Append coordinates of the next slots, and their observations."""
        first = self._slots.n_slots
        self._slots.append(columns)
        last = self._slots.n_slots
        self._add(columns, self.record.counts[first:last], self.record.sums[first:last])

    def _add(self, columns: Matrix, counts: Vector, sums: Vector) -> None:
        """Add observations of points with these coordinates; immediately if they are few."""
        ridge = self._ridge
        if ridge is None:
            return
        if len(counts) > max(1, self.rank / 8) or ridge.n_changes > max(
            FEWEST_CHANGES, CHANGES_PER_POINT * self._slots.n_slots
        ):
            self._ridge = None
            return
        for place in range(len(counts)):
            ridge.add(np.ascontiguousarray(columns[:, place]), float(counts[place]), float(sums[place]))

    def _admit(self, points: Points) -> None:
        """Add points to the basis, and extend everything that depends on it."""
        self._journal.note(self._start)
        stays = self._slots.validate_learnable(points, self.record.points)
        self._queried, self._learned = {}, {}
        if not stays:
            self._ridge = None
        elif self._ridge is not None:
            n_slots = self._slots.n_slots
            try:
                self._ridge.widen(self._slots.columns, self.record.counts[:n_slots], self.record.sums[:n_slots])
            except np.linalg.LinAlgError:  # rounding; recomputing from all points is more accurate
                self._ridge = None
        self._journal.drop(self._start)

    def _current(self) -> RidgeRoot:
        """Regression over all observations of the record."""
        self._catch_up()
        if self._ridge is None:
            counts, sums = self.record.counts, self.record.sums
            with self._clear_errors():
                self._ridge = RidgeRoot(self._slots.columns, counts, sums, regularization=self.regularization)
        elif self._has_other_sums:
            self._journal.note(self._start)
            self._ridge.retarget(self._slots.columns, self.record.sums)
            self._journal.drop(self._start)
        self._has_other_sums = False
        return self._ridge

    def _observations_removed(self) -> None:
        """Recompute the sums over what remains. The basis is a coordinate system and may retain removed points."""
        self._recompute()
        if self.record.size >= (1.0 - EMPTY_SHARE) * self.record.n_slots:
            return
        self._catch_up()
        live = np.flatnonzero(self.record.counts)
        self._slots.retain(live)
        self.record = self.record.compacted()
        if self.rank > self._most():
            self._start()

    def _undone(self, n_slots: int) -> None:
        self._whole = None
        self._start()

    def _rewards_changed(self) -> None:
        self._has_other_sums = True

    # -- predicting ----------------------------------------------------------------------------------------------

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        prior = self.kernel.diagonal(points)
        if not self.size:
            return np.zeros(len(prior)), prior / self.regularization
        mean, squared = np.empty(len(prior)), np.empty(len(prior))
        with limit_blas_threads(float(self.rank) ** 2 * len(prior)):
            self._catch_up()
            for block, part in blocks(self.kernel.kind, points, self.rank):
                mean[block], squared[block] = self._predict_part(part, prior[block])
        return mean, squared

    def _predict_part(self, points: Points, prior: Vector) -> tuple[Vector, Vector]:
        coordinates, residual = self._span(points, prior)
        if coordinates is None:
            return self.whole._predict(points)
        ridge = self._current()
        if len(prior) <= FEWEST:
            self._queried = dict(zip(self.kernel.kind.keys(points), coordinates.T, strict=True))
        whitened = ridge.root @ coordinates
        squared = np.einsum("rn,rn->n", whitened, whitened)
        squared += np.maximum(residual, 0.0) / self.regularization
        return ridge.weights @ coordinates, np.maximum(squared, prior / (self.regularization + ridge.trace))

    def _is_off(self, residual: Vector, prior: Vector) -> bool:
        return bool((np.abs(residual) > NOISE * self._tolerance * prior).any())

    def _most(self) -> float:
        """Size to which query points may enlarge the basis."""
        return max(FEWEST, SHARE * self.size)

    def _span(self, points: Points, prior: Vector) -> tuple[Matrix | None, Vector]:
        """Coordinates and residuals, after points outside were added; None if the exact form is required."""
        coordinates = self._basis.coordinates(points)
        outside, residual = self._basis.outside(coordinates, prior)
        check_no_overflow(residual)
        tries = ROUNDS + len(outside) // BLOCK
        while len(outside) and self.rank < self._most():
            if not tries:
                self._is_noisy = True
                break
            self._admit(self.kernel.kind.take(points, outside[:BLOCK]))
            coordinates = self._basis.coordinates(points)
            outside, residual = self._basis.outside(coordinates, prior)
            tries -= 1
        if self._is_noisy or self._is_off(residual, prior):
            self.needs_exact_fallback = True
            return None, residual
        return coordinates, residual

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        others = points if others is None else self.kernel.kind.check(others)
        prior = self.kernel.gram(points, others)
        if not self.size:
            return prior / self.regularization
        self._catch_up()
        both = self.kernel.kind.stack(points, others)
        coordinates, _ = self._span(both, self.kernel.diagonal(both))
        if coordinates is None:
            return self.whole.covariance(points, others)
        root, n_points = self._current().root, self.kernel.kind.count(points)
        with limit_blas_threads(float(coordinates.size) * max(coordinates.shape)):
            left = prior - coordinates[:, :n_points].T @ coordinates[:, n_points:]
            whitened = root @ coordinates
            return left / self.regularization + whitened[:, :n_points].T @ whitened[:, n_points:]

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """See `Posterior`: the sum is one vector of coordinates, plus the part outside their span."""
        kind = self.kernel.kind
        points, weights, others = self._checked_sum(points, weights, others)
        prior = summed_similarity(self.kernel, points, weights, others)
        if not self.size:
            return prior / self.regularization
        self._catch_up()
        both = kind.stack(points, others)
        coordinates, _ = self._span(both, self.kernel.diagonal(both))
        if coordinates is None:
            return self.whole.covariance_of_sum(points, weights, others)
        root, theirs = self._current().root, coordinates[:, len(weights) :]
        summed = coordinates[:, : len(weights)] @ weights
        return (prior - summed @ theirs) / self.regularization + (root @ summed) @ (root @ theirs)

    def _sections(self, others: Points) -> Sections:
        ridge, prior = self._current(), self.kernel.diagonal(others)
        coordinates, _ = self._span(others, prior)
        if coordinates is None:
            return self.whole._sections(others)
        ridge = self._current()  # the basis may have grown
        solved = self.regularization * (ridge.root.T @ (ridge.root @ coordinates))
        weights = np.column_stack([ridge.weights, coordinates - solved])
        solve_lower_transposed(self._basis.lower, weights)
        return Sections(self._basis.points, weights[:, 0], weights[:, 1:])

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """See `Posterior`; γα = s − n f, with f the fit at the observed points."""
        ridge = self._current()
        live = np.flatnonzero(self.record.counts)
        fit = (ridge.weights @ self._slots.columns)[live]
        points, counts, sums = self.record.stored()
        return points, (sums - counts * fit) / self.regularization, counts, sums

    @property
    def log_det_gain(self) -> float:
        return self._current().log_det_gain if self.size else 0.0

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function: the length of its weights."""
        return float(np.linalg.norm(self._current().weights)) if self.size else 0.0


def _error(posterior: RecordedPosterior, tolerance: float) -> float:
    """Tolerance · sqrt(t) · κ/γ."""
    return tolerance * sqrt(posterior.n_observations) * posterior._largest_similarity / posterior.regularization
