"""Exact posterior for any kernel: a Cholesky factor that grows with the distinct points."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits._transactions import inside_transaction
from kernelbandits.errors import KernelBanditError, NotPositiveSemidefinite, NumericalError
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._chunks import blocks, summed_similarity
from kernelbandits.posterior.base import (
    ROUNDING,
    SLACK,
    SMALLEST_REGULARIZATION,
    Capabilities,
    References,
    check_no_overflow,
    least_regularization,
    too_small,
)
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.observations import EMPTY_SHARE, Batch
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector

__all__ = ["ExactPosterior", "Whitening"]

REPEATS_PER_REBUILD: Final = 100
"""Constant of the choice between updates and a rebuild. A rank-one update passes about five times over the factor, a
rebuild does size/3 flops per entry at matrix-matrix speed plus the kernel: more repeats than size/100 (and than 8) at
once are cheaper as a rebuild. After 2·size updates (and 64) a rebuild costs less than they did, and removes their
rounding errors."""

LARGEST_GROWTH: Final = 1e4
"""Largest growth factor of a count by a rank-one update: the update loses as many digits as the growth has, and an
empty slot cannot be refilled by it."""

PANELS_AT_ONCE: Final = 4
"""Panels that the factor grows by at once: the speed of LAPACK, at a temporary 8 kB per row of the factor."""

MOST_EXAMINED: Final = 1_000
"""Points whose similarities are examined when an observation is rejected: a second of work."""


MOST_REFERENCES: Final = 1 << 22
"""Whitened similarities that are stored for repeated queries of a covariance: 32 MB."""


class _Expected(NamedTuple):
    """Point that may be observed next, and the state of the record in which its column is L⁻¹ D^½ k(x)."""

    key: Hashable
    column: Vector
    prior: float
    """k(x, x)."""

    version: int
    """Version of the record, with which the factor was synchronized."""


class Whitening(NamedTuple):
    """Factor and targets that map similarities to means and widths, and what follows from the data alone; read-only.

    It is made once per version of the record, so a query computes only what depends on its points.
    """

    factor: GrowingCholesky
    """L."""

    targets: Vector
    """z."""

    diagonal: Vector
    """k(x, x) of every slot."""

    counts: Vector
    """n: observations of every slot."""

    roots: Vector
    """D^½: square roots of the counts."""

    trace: float
    """tr K over all observations."""

    points: Points
    """Points of all slots."""

    is_well_posed: bool
    """See `Posterior`."""

    factor_version: int
    """See `ExactPosterior.factor_version`."""

    version: int
    """Version of the record."""


class ExactPosterior(RecordedPosterior):
    """Growing Cholesky factor over distinct points: O(size²) per point and query, any kernel, similarities suffice.

    For distinct points with counts n, D = diag(n), reward sums s and γ = regularization it factors

        M = γI + D^½ K D^½ = L Lᵀ

    whose smallest eigenvalue is at least γ, and with v = L⁻¹ D^½ k(x), z = L⁻¹ D^(-½) s computes

        mean = vᵀz,   width² = (k(x, x) − vᵀv) / γ.

    These are the values of the full history with repeats (Valko et al. 2013, KernelUCB), at the cost of the distinct
    points. Memory is 4·size² bytes.

    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = ExactPosterior(Gaussian(length_scale=0.5), regularization=0.1)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[1.0]]).mean.round(3)
    array([0.762])
    >>> posterior.size, posterior.n_observations
    (2, 3)
    """

    capabilities = Capabilities(has_record=True, has_factor=True, is_exact=True)

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        super().__init__(kernel, regularization=regularization)
        self.factor_version = 0
        """Increases whenever existing rows of L or entries of z change; appending does not count."""
        self._forget_factor()

    def _forget_factor(self) -> None:
        self._factor = GrowingCholesky()
        self._factored: Vector = np.zeros(0)  # counts of the slots in the factor
        self._targeted: Vector = np.zeros(0)  # reward sums of the slots in z
        self._diagonal: Vector = np.zeros(0)  # k(x, x) of these slots
        self._whitened_targets: Vector | None = np.zeros(0)  # z; None if it must be recomputed
        self._n_recounts = 0  # since the factor was built; each adds rounding errors
        self._version = -1  # version of the record that this belongs to
        self._expected: _Expected | None = None
        self._whitening: Whitening | None = None
        self._had_factor = False  # no factor now, but there was one for such points
        self.factor_version += 1

    # -- synchronization -----------------------------------------------------------------------------------------------

    def _observe_one(self, point: Points, reward: float) -> None:
        """Append the row passed to `expect` if this is its point, count a known point, or as in `RecordedPosterior`."""
        expected, record, largest = self._expected, self.record, self._largest_similarity
        key, slot = record.locate(point)
        is_well_posed = self._is_certified and self.regularization >= SMALLEST_REGULARIZATION * largest
        if slot >= 0 and is_well_posed and self._factor.size:
            record.add_one(point, key, slot, reward)  # the factor is synchronized when it is needed
        elif (
            slot < 0
            and expected is not None
            and expected.version == record.version
            and expected.prior <= largest
            and expected.key == key
        ):
            self._journal.notes.append((self._roll_back, (record, self._factor.size, largest)))
            record.add_one(point, key, slot, reward)
            self._append_expected(expected, 1.0, reward)
        else:
            self._observe_located(point, reward, key, slot)

    def _apply(self, batch: Batch) -> None:
        """Synchronize immediately if the batch may be rejected, or if no such points have been seen by the kernel."""
        expected = self._expected
        if (
            expected is not None
            and batch.keys == [expected.key]
            and not len(batch.slots)
            and expected.version == self.record.version - 1
            and self.is_well_posed
        ):
            self._append_expected(expected, batch.counts.item(0), batch.sums.item(0))
        elif not self._may_wait:
            self._catch_up()

    @property
    def _may_wait(self) -> bool:
        return (self._factor.size > 0 or self._had_factor) and self.is_well_posed

    def _observations_removed(self) -> None:
        if not self.is_well_posed:
            self._catch_up()
        if self.record.size < (1.0 - EMPTY_SHARE) * self.record.n_slots:
            self.record = self.record.compacted()
            self._forget_factor()

    def _discounted(self, rate: float) -> None:
        """Drop the factor, since all counts have changed; it is rebuilt without empty slots."""
        if self.record.size < self.record.n_slots:
            had_factor = self._may_wait and self.record.size > 0
            self.record = self.record.compacted()
            self._forget_factor()
            self._had_factor = had_factor

    def _undone(self, n_slots: int) -> None:
        """Drop the rows of removed slots; counts and sums are compared when the factor is next needed."""
        size = min(n_slots, self._factor.size, len(self._factored), len(self._targeted), len(self._diagonal))
        self._factor.truncate(size)
        self._factored, self._targeted = self._factored[:size], self._targeted[:size]
        self._diagonal, self._whitened_targets = self._diagonal[:size], None
        self._version, self._expected, self._whitening = -1, None, None
        self.factor_version += 1

    def _rewards_changed(self) -> None:
        self._whitened_targets = None

    def _catch_up(self) -> None:
        """Synchronize the factor with the counts of the record, by updates or a rebuild, whichever is cheaper."""
        if self._version == self.record.version:
            return
        self._expected = None
        self._journal.note(self._forget_factor)  # it is changed in place: an interrupted update makes it invalid
        self._apply_counts(self.record.n_slots)
        self._journal.drop(self._forget_factor)

    def _apply_counts(self, n_slots: int) -> None:
        counts, size = self.record.counts, self._factor.size
        if not np.array_equal(self.record.sums[:size], self._targeted):
            self._whitened_targets = None
        changed = np.flatnonzero(counts[:size] != self._factored)
        is_rough = bool((counts[changed] > LARGEST_GROWTH * self._factored[changed]).any())
        if is_rough or len(changed) > max(8, size / REPEATS_PER_REBUILD) or self._n_recounts > max(64, 2 * size):
            self._rebuild()
        else:
            if n_slots > size:
                self._append_new_slots()
            self._recount_all(changed)
        self._factored, self._targeted = counts.copy(), self.record.sums.copy()
        self._version = self.record.version

    def _rebuild(self) -> None:
        fresh = ExactPosterior(self.kernel, regularization=self.regularization)
        fresh.record, fresh._largest_similarity = self.record, self._largest_similarity
        fresh._append_new_slots()
        self._factor, self._diagonal, self._whitened_targets = fresh._factor, fresh._diagonal, None
        self._n_recounts = 0

    def _append_new_slots(self) -> None:
        """Append rows for the slots that the factor does not have yet."""
        n_new = self.record.n_slots - self._factor.size
        with limit_blas_threads(float(self.record.n_slots) ** 2 * n_new):
            self._append_all_slots()

    def _append_all_slots(self) -> None:
        size = self._factor.size
        new = self.kernel.kind.take(self.record.points, np.arange(size, self.record.n_slots))
        diagonal = np.concatenate([self._diagonal, self.kernel.diagonal(new)])
        rows_at_once = PANELS_AT_ONCE * self._factor.rows_per_panel
        try:
            while (done := self._factor.size) < self.record.n_slots:
                try:
                    self._append_block(diagonal, max(rows_at_once, self._factor.room()))
                except (NotPositiveSemidefinite, NumericalError, np.linalg.LinAlgError):
                    if not rows_at_once:
                        raise
                    # By single panels, which treat a small pivot as rounding or reject it.
                    self._factor.truncate(done)
                    rows_at_once = 0
        except Exception:  # rejected, or the kernel raised: earlier rows are unchanged and stay valid
            self._factor.truncate(size)
            self._journal.drop(self._forget_factor)
            raise
        self._diagonal = diagonal
        if self._whitened_targets is not None:
            counts, sums = self.record.counts[size:], self.record.sums[size:]
            targets = np.concatenate([self._whitened_targets, _targets_of(counts, sums)])
            self._whitened_targets = self._factor.solve(targets[:, None], solved=size)[:, 0]

    def _append_expected(self, expected: _Expected, count: float, total: float) -> None:
        """Append the row passed to `expect` without reading L: exactly that point was observed, with these totals."""
        size, record = self._factor.size, self.record
        row, targets = expected.column, self._whitened_targets
        assert targets is not None
        if count != 1.0:
            row = sqrt(count) * row
        left = expected.prior * count + self.regularization - float(row @ row)
        pivot = sqrt(max(left, self.regularization))  # a smaller value is rounding
        longer = np.empty((4, size + 1))
        longer[0, :size], longer[1, :size] = self._factored, self._targeted
        longer[2, :size], longer[3, :size] = self._diagonal, targets
        longer[:, size] = count, total, expected.prior, (total / sqrt(count) - float(row @ targets)) / pivot
        self._factor.append_solved(row, pivot)
        self._factored, self._targeted, self._diagonal, self._whitened_targets = longer
        self._version, self._expected = record.version, None
        self._make_whitening(self._whitened_targets)

    def _append_block(self, diagonal: Vector, n_rows: int) -> None:
        first, kind, counts = self._factor.size, self.kernel.kind, self.record.counts
        last = min(self.record.n_slots, first + n_rows)
        new = kind.take(self.record.points, np.arange(first, last))
        roots = np.sqrt(counts[first:last])
        cross = np.empty((0, last - first))
        if first:
            # A slot that is already in the factor has its old count there; _recount comes later.
            old_roots = np.sqrt(np.concatenate([self._factored, counts[len(self._factored) : first]]))
            old = (
                self.record.points if first == self.record.n_slots else kind.take(self.record.points, np.arange(first))
            )
            cross = np.ascontiguousarray(old_roots[:, None] * self.kernel.gram(old, new) * roots)
        within = self.kernel.gram(new) * roots[:, None] * roots
        within[np.diag_indices_from(within)] = diagonal[first:last] * counts[first:last] + self.regularization
        check_no_overflow(cross, within)
        # The limit of the strictest panel, if there are several.
        n_per_panel = self._factor.rows_per_panel
        starts = np.arange(-(first % n_per_panel), last - first, n_per_panel).clip(0)
        largest = float(np.maximum.reduceat(diagonal[first:last] * counts[first:last], starts).min())
        end = min(last, first + self._factor.room())
        trace = float(diagonal[:end] @ counts[:end])
        self._append_checked(cross, within, largest, trace, has_floor=end == last)

    def _append_checked(self, cross: Matrix, within: Matrix, largest: float, trace: float, *, has_floor: bool) -> None:
        """Append rows, and reject indefinite similarities: for a PSD kernel every pivot is at least γ."""
        since, is_well_posed = self._factor.size, self.is_well_posed
        try:  # for a certified kernel, a pivot below γ is rounding
            self._factor.append(cross, within, floor=self.regularization if is_well_posed and has_floor else None)
        except np.linalg.LinAlgError as error:
            if is_well_posed and not has_floor:  # tried again by single panels, which have a floor
                raise
            raise self._shortfall("falls below zero") from error
        if is_well_posed:
            return
        # Rounding of k(x, x), and of γ itself, which dominates if contexts are tiny.
        slack = largest * (SLACK + ROUNDING * trace / self.regularization) + ROUNDING * self.regularization
        short = self.regularization - self._factor.smallest_pivot(since=since)
        if not short <= slack:
            raise self._shortfall(f"falls {short:.3g} below its floor, more than rounding explains ({slack:.3g})")

    def _shortfall(self, how: str, also: Points | None = None) -> KernelBanditError:
        """Error if too little is left of k(x, x): rounding at this regularization, or indefinite similarities.

        The eigenvalues of the similarities, which do not depend on the regularization, distinguish the two.
        """
        kind, n_slots = self.kernel.kind, self.record.n_slots
        known = kind.take(self.record.points, np.arange(max(0, n_slots - MOST_EXAMINED), n_slots))
        gram = self.kernel.gram(known if also is None else kind.stack(known, also))
        largest = float(np.diagonal(gram).max())
        diagonal = np.append(self.kernel.diagonal(self.record.points), largest)
        counts = np.append(self.record.counts, 0.0)
        if self.regularization < least_regularization(diagonal, counts) and (
            self._is_certified or np.linalg.eigvalsh(gram)[0] >= -SLACK * largest
        ):
            return too_small(self.regularization, diagonal, counts)
        return _not_a_kernel(how)

    def _recount_all(self, slots: Indices) -> None:
        try:
            for slot in slots:
                self._recount(int(slot), self._factored[slot], self.record.counts[slot])
        except np.linalg.LinAlgError as error:
            if not self.is_well_posed:
                raise self._shortfall("falls below zero") from error
            self._rebuild()  # it treats a pivot below γ as rounding
            return
        if len(slots):
            self._whitened_targets = None  # z also depends on the counts
            self._n_recounts += len(slots)

    def _recount(self, slot: int, old: float, new: float) -> None:
        """Change the count of one point: M changes in one row and column.

        With S = diag(1, …, sqrt(new/old), …, 1) the new M is S (M + γ(old/new − 1) e eᵀ) S.
        """
        if new == 0.0:
            self._factor.isolate(slot, self.regularization)
            return
        change = self.regularization * (old / new - 1.0)
        vector = np.zeros(self._factor.size)
        vector[slot] = np.sqrt(abs(change))
        self._factor.rank_one(vector, start=slot, sign=np.sign(change))
        self._factor.scale_row(slot, float(np.sqrt(new / old)))

    @property
    @inside_transaction
    def trace(self) -> float:
        """Trace of K over all observations in the factor."""
        return float(self._diagonal @ self._factored)

    # -- predicting ----------------------------------------------------------------------------------------------

    def _predict(self, points: Points, seen: Callable[[slice, Matrix], None] | None = None) -> tuple[Vector, Vector]:
        """Mean and width² of points; `seen` is called with each block of whitened similarities."""
        prior = self.kernel.diagonal(points)
        if (prior < 0.0).any():
            raise _not_a_kernel(f"is {prior.min():.3g} before there are any")
        if not self.size:
            return np.zeros(len(prior)), prior / self.regularization
        mean, explained = np.empty(len(prior)), np.empty(len(prior))
        with limit_blas_threads(self._work_of(points)):
            for block, part in blocks(self.kernel.kind, points, self._factor.size):
                whitened = self._whiten(part)
                mean[block] = whitened.T @ self._targets()
                explained[block] = np.einsum("mn,mn->n", whitened, whitened)
                if seen is not None:
                    seen(block, whitened)
        return mean, self.squared_width(prior, explained, points)

    @inside_transaction
    def squared_width(self, prior: Vector, explained: Vector, points: Points | None = None) -> Vector:
        """(k(x, x) − explained)/γ, at least its exact lower bound k(x, x)/(γ + tr K) despite rounding.

        `points` are used in the error message of a rejection, if given.
        """
        left = prior - explained
        slack = prior * (SLACK + ROUNDING * self.trace / self.regularization)
        short = np.flatnonzero(left < -slack)
        if short.size:
            refused = None if points is None else self.kernel.kind.take(points, short[:1])
            raise self._shortfall(f"falls to {left[short[0]]:.3g} at action {short[0]}", refused)
        floor = prior / (self.regularization + self.trace)
        return np.maximum(left / self.regularization, floor)

    # -- for solving in steps -----------------------------------------------------------------------------------------

    @inside_transaction
    def whitening(self) -> Whitening | None:
        """Factor and targets, synchronized with the record; None before any observation."""
        whitening, version = self._whitening, self.record.version
        if whitening is not None and whitening.version == version:
            return whitening
        if self._version != version:
            self._catch_up()
        return self._make_whitening(self._targets()) if self._factor.size else None

    def _make_whitening(self, targets: Vector) -> Whitening:
        counts, diagonal, gamma = self._factored, self._diagonal, self.regularization
        is_well_posed = self._is_certified and gamma >= SMALLEST_REGULARIZATION * self._largest_similarity
        self._whitening = whitening = Whitening(
            self._factor, targets, diagonal, counts, np.sqrt(counts), float(diagonal @ counts), self.record.points,
            is_well_posed, self.factor_version, self._version,
        )  # fmt: skip
        return whitening

    @inside_transaction
    def expect(self, point: Points, column: Vector, prior: float) -> None:
        """Store L⁻¹ D^½ k(x) and k(x, x) of a point: if it is observed next, L grows by this row without being read."""
        self._expected = _Expected(self.kernel.kind.keys(point)[0], column, prior, self._version)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        if others is None:
            with limit_blas_threads(self._work_of(points)):
                prior = self.kernel.gram(points)
                if self.size:
                    whitened = self._whiten(points)
                    prior = prior - whitened.T @ whitened
                return prior / self.regularization
        others = self.kernel.kind.check(others)
        if self.kernel.kind.count(points) > self.kernel.kind.count(others):
            return self.covariance(others, points).T
        with limit_blas_threads(self._work_of(others)):
            prior = self.kernel.gram(points, others)
            if self.size:
                # A⁻¹ is applied to the smaller set; the other one costs only a product with its similarities.
                weights = np.sqrt(self.record.counts)[:, None] * self._factor.solve_transposed(self._whiten(points))
                for block, part in blocks(self.kernel.kind, others, self._factor.size):
                    prior[:, block] -= weights.T @ self.kernel.gram(self.record.points, part)
            return prior / self.regularization

    def _knows(self, point: Points) -> bool:
        return self.record.locate(point)[1] >= 0

    def _references(self, points: Points) -> References:
        n_points = self.kernel.kind.count(points)
        is_small = self.size > 0 and self.record.n_slots * n_points <= MOST_REFERENCES
        return _WhitenedReferences(self, points) if is_small else super()._references(points)

    def _work_of(self, points: Points) -> float:
        """Multiplications of a query of these points, with a synchronized factor."""
        self._catch_up()
        return float(self.record.n_slots) ** 2 * self.kernel.kind.count(points)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """See `Posterior`: one system is solved for the whole sum, A⁻¹ Σ w k(x)."""
        kernel = self.kernel
        points, weights, others = self._checked_sum(points, weights, others)
        left = summed_similarity(kernel, points, weights, others)
        if self.size:
            known = self.record.stored()[0]
            explained = self.weights_for(summed_similarity(kernel, points, weights, known)[:, None])[:, 0]
            left -= summed_similarity(kernel, known, explained, others)
        return left / self.regularization

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """See `Posterior`: α = D^½ L⁻ᵀ z."""
        self._catch_up()
        points, counts, sums = self.record.stored()
        weights = self._factor.solve_transposed(self._targets()[:, None].copy())[:, 0]
        weights *= np.sqrt(self.record.counts)
        return points, weights[self.record.counts > 0], counts, sums

    def weights_for(self, values: Matrix) -> Matrix:
        """See `Posterior`: D^½ M⁻¹ D^½ values."""
        self._catch_up()
        live = self.record.counts > 0
        roots = np.sqrt(self.record.counts)[:, None]
        right = np.zeros((len(roots), values.shape[1]))
        right[live] = roots[live] * values
        return (roots * self._factor.solve_transposed(self._factor.solve(right)))[live]

    @property
    def log_det_gain(self) -> float:
        self._catch_up()
        return self._factor.log_determinant() - self._factor.size * float(np.log(self.regularization))

    def _whiten(self, points: Points) -> Matrix:
        """L⁻¹ D^½ k, one column per point; the squared length of a column is the explained part of k(x, x)."""
        self._catch_up()
        similarity = self.kernel.gram(self.record.points, points)  # (n_slots, n_points)
        scaled = np.ascontiguousarray(np.sqrt(self.record.counts)[:, None] * similarity)
        return self._factor.solve(scaled)

    def _targets(self) -> Vector:
        if self._whitened_targets is None:
            targets = _targets_of(self.record.counts, self.record.sums)
            self.factor_version += 1
            self._whitened_targets = self._factor.solve(targets[:, None])[:, 0]
        return self._whitened_targets


class _WhitenedReferences(References):
    """References whose whitened similarities w = L⁻¹ D^½ k are stored: c(x, z) = (k(x, z) − w(x)ᵀ w(z)) / γ."""

    def __init__(self, posterior: ExactPosterior, points: Points) -> None:
        super().__init__(posterior, points)
        self._exact, self._kernel = posterior, posterior.kernel
        with limit_blas_threads(posterior._work_of(points)), np.errstate(over="ignore", invalid="ignore"):
            self._whitened = posterior._whiten(points)

    def covariance(self) -> Matrix:
        return self._less(self._kernel.gram(self._points), self._whitened)

    def covariance_with(self, others: Points) -> Matrix:
        with limit_blas_threads(self._exact._work_of(others)):
            return self._less(self._kernel.gram(self._points, others), self._exact._whiten(others))

    def estimate(self, others: Points) -> tuple[Prediction, Matrix]:
        found = self._kernel.gram(self._points, others)

        def keep(block: slice, whitened: Matrix) -> None:
            found[:, block] -= self._whitened.T @ whitened

        prediction = self._exact._checked(others, lambda points: self._exact._predict(points, keep))
        return prediction, found / self._exact.regularization

    def _less(self, prior: Matrix, whitened: Matrix) -> Matrix:
        with limit_blas_threads(float(whitened.size) * self._whitened.shape[1]):
            return (prior - self._whitened.T @ whitened) / self._exact.regularization


def _targets_of(counts: Vector, sums: Vector) -> Vector:
    """D^(-½) s; an empty slot has the sum 0."""
    return sums / np.sqrt(np.where(counts > 0.0, counts, 1.0))


def _not_a_kernel(how: str) -> NotPositiveSemidefinite:
    return NotPositiveSemidefinite(
        "These similarities are not positive semi-definite: what is left of k(x, x) after explaining it by the data "
        f"{how}. Nothing was changed. Repair them first: kb.kernels.repair(table, method='clip')."
    )
