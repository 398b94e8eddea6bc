"""The exact posterior of any kernel: a Cholesky factor that grows with the distinct points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kernelbandits.errors import KernelBanditError, NotPositiveSemidefinite, NumericalError
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.base import SMALLEST_REGULARISATION, RecordedPosterior, refuse_overflow
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.observations import Batch
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["ExactPosterior"]

SLACK: Final = 1e-8
"""Share of k(x, x) by which a similarity may fall short of being positive semi-definite before it is refused."""

ENTRIES_AT_ONCE: Final = 8_000_000
"""Similarities held at a time while predicting: 64 MB."""

REPEATS_PER_REBUILD: Final = 100
"""A rank-one change passes about five times over the factor, a rebuild does size/3 flops an entry at matrix-matrix
speed plus the kernel: more repeats than size/100 (and than 8) at once are cheaper as a rebuild."""

EMPTY_SHARE: Final = 0.25
"""Share of empty slots at which the factor is rebuilt without them."""


class ExactPosterior(RecordedPosterior):
    """Growing Cholesky factor over distinct points: O(size²) a point and a query, any kernel, similarities suffice.

    For distinct points with counts n, D = diag(n), reward sums s and γ = regularisation it factors

        M = γI + D^½ K D^½ = L Lᵀ

    whose smallest eigenvalue is at least γ, and with v = L⁻¹ D^½ k(x), z = L⁻¹ D^(-½) s reads off

        mean = vᵀz,   width² = (k(x, x) − vᵀv) / γ.

    The same numbers as for the full history with repeats (Valko et al. 2013, KernelUCB), at the size of what is
    distinct. Memory is 4·size² bytes.

    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = ExactPosterior(Gaussian(length_scale=0.5), regularisation=0.1)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[1.0]]).mean.round(3)
    array([0.762])
    >>> posterior.size, posterior.n_observations
    (2, 3)
    """

    def __init__(self, kernel: Kernel, *, regularisation: float) -> None:
        super().__init__(kernel, regularisation=regularisation)
        self._factor = GrowingCholesky()
        self._whitened_targets: Vector | None = np.zeros(0)  # z; None when it has to be computed anew
        self._trace = 0.0  # of K over all observations

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        if len(batch.slots) > max(8, self._factor.size / REPEATS_PER_REBUILD):
            self._learn_by_rebuild(batch)
            return
        if batch.keys:
            self._append(batch)
        for slot, more in zip(batch.slots, batch.slot_counts, strict=True):
            self._recount(int(slot), self._observations.counts[slot], self._observations.counts[slot] + more)
        if len(batch.slots):
            self._whitened_targets = None

    def _append(self, batch: Batch) -> None:
        size = self._factor.size
        try:
            trace = self._extend(self._factor, batch.points, batch.counts)
        except KernelBanditError:
            self._factor.truncate(size)
            raise
        self._trace += trace
        if self._whitened_targets is not None:
            targets = np.concatenate([self._whitened_targets, batch.sums / np.sqrt(batch.counts)])
            self._whitened_targets = self._factor.solve(targets[:, None], solved=size)[:, 0]

    def _extend(self, factor: GrowingCholesky, points: Points, counts: Vector) -> float:
        """Rows for new points behind those of the record; gives the trace they add."""
        kind, diagonal = self.kernel.kind, self.kernel.diagonal(points)
        known = factor.size
        done, n_points = 0, len(counts)
        trace = self._trace
        while done < n_points:
            block = np.arange(done, min(n_points, done + factor.room()))
            new = kind.take(points, block)
            similarities = []
            if known:
                similarities.append(
                    np.sqrt(self._observations.counts)[:, None] * self.kernel.gram(self._observations.points, new)
                )
            if done:
                earlier = kind.take(points, np.arange(done))
                similarities.append(np.sqrt(counts[:done])[:, None] * self.kernel.gram(earlier, new))
            roots = np.sqrt(counts[block])
            cross = np.concatenate([*similarities, np.empty((0, len(block)))]) * roots
            within = self.kernel.gram(new) * roots[:, None] * roots
            within[np.diag_indices_from(within)] = diagonal[block] * counts[block] + self.regularisation
            refuse_overflow(cross, within)
            trace += float(diagonal[block] @ counts[block])
            self._append_checked(factor, cross, within, float((diagonal[block] * counts[block]).max()), trace)
            done += len(block)
        return trace - self._trace

    def _append_checked(
        self, factor: GrowingCholesky, cross: Matrix, within: Matrix, largest: float, trace: float
    ) -> None:
        """Append, and refuse similarities that no kernel has: with a kernel every pivot is at least γ."""
        since = factor.size
        slack = largest * (SLACK + 4.0 * np.finfo(float).eps * trace / self.regularisation)
        try:
            factor.append(cross, within)
        except NotPositiveSemidefinite as error:
            if self.regularisation < SMALLEST_REGULARISATION * largest:
                raise NumericalError(
                    f"The regularisation {self.regularisation:.3g} is too small beside similarities of {largest:.3g}: "
                    "rounding errors are larger than it. Nothing was changed. Take at least 1e-8 times that."
                ) from error
            raise _not_a_kernel("falls below zero") from error
        short = self.regularisation - factor.smallest_pivot(since=since)
        if not short <= slack:
            raise _not_a_kernel(f"falls {short:.3g} below its floor, more than rounding explains ({slack:.3g})")

    def _recount(self, slot: int, old: float, new: float) -> None:
        """Another count for one point: M changes in one row and column.

        With S = diag(1, …, sqrt(new/old), …, 1) the new M is S (M + γ(old/new − 1) e eᵀ) S.
        """
        change = self.regularisation * (old / new - 1.0)
        vector = np.zeros(self._factor.size)
        vector[slot] = np.sqrt(abs(change))
        self._factor.rank_one(vector, start=slot, sign=np.sign(change))
        self._factor.scale_row(slot, float(np.sqrt(new / old)))
        self._trace += (new - old) * self._self_similarity(slot)

    def _learn_by_rebuild(self, batch: Batch) -> None:
        counts = self._observations.counts.copy()
        counts[batch.slots] += batch.slot_counts
        points = self._observations.points
        if batch.keys:
            points = self.kernel.kind.stack(points, batch.points)
            counts = np.concatenate([counts, batch.counts])
        self._factor, self._trace = self._factored(points, counts)
        self._whitened_targets = None

    def _factored(self, points: Points, counts: Vector) -> tuple[GrowingCholesky, float]:
        """A factor for these points from nothing, and the trace of K; slots with count zero stay without effect."""
        fresh = ExactPosterior(self.kernel, regularisation=self.regularisation)
        factor = GrowingCholesky()
        return factor, fresh._extend(factor, points, counts)

    def _forget(self, slots: Indices) -> None:
        observations = self._observations
        for slot, times in zip(*np.unique(slots, return_counts=True), strict=True):
            left = observations.counts[slot]
            if left:
                self._recount(int(slot), left + times, left)
            else:
                self._trace -= float(times) * self._self_similarity(int(slot))
                self._factor.isolate(int(slot), self.regularisation)
        self._whitened_targets = None
        if observations.size < (1.0 - EMPTY_SHARE) * observations.n_slots:
            self._observations = observations.compacted()
            self._factor, self._trace = GrowingCholesky(), 0.0
            if self.size:
                self._factor, self._trace = self._factored(self._observations.points, self._observations.counts)

    def _retarget(self) -> None:
        self._whitened_targets = None

    def _self_similarity(self, slot: int) -> float:
        point = self.kernel.kind.take(self._observations.points, np.array([slot]))
        return float(self.kernel.diagonal(point)[0])

    # -- predicting ----------------------------------------------------------------------------------------------

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        prior = self.kernel.diagonal(points)
        if not self.size:
            return np.zeros(len(prior)), prior / self.regularisation
        mean, explained = np.empty(len(prior)), np.empty(len(prior))
        for block, part in self._blocks(points):
            whitened = self._whiten(part)
            mean[block] = whitened.T @ self._targets()
            explained[block] = np.einsum("mn,mn->n", whitened, whitened)
        return mean, self._squared_width(prior, explained)

    def _squared_width(self, prior: Vector, explained: Vector) -> Vector:
        """(k(x, x) − explained)/γ, never below its exact floor k(x, x)/(γ + tr K) for rounding to push it under."""
        left = prior - explained
        slack = prior * (SLACK + 4.0 * np.finfo(float).eps * self._trace / self.regularisation)
        short = np.flatnonzero(left < -slack)
        if short.size:
            raise _not_a_kernel(f"falls to {left[short[0]]:.3g} at action {short[0]}")
        floor = prior / (self.regularisation + self._trace)
        return np.maximum(left / self.regularisation, floor)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        if others is None:
            prior = self.kernel.gram(points)
            if self.size:
                whitened = self._whiten(points)
                prior = prior - whitened.T @ whitened
            return prior / self.regularisation
        others = self.kernel.kind.check(others)
        prior = self.kernel.gram(points, others)
        if self.size:
            prior = prior - self._whiten(points).T @ self._whiten(others)
        return prior / self.regularisation

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """As described in `Posterior`: α = D^½ L⁻ᵀ z."""
        points, counts, sums = self._observations.kept()
        weights = self._factor.solve_transposed(self._targets()[:, None].copy())[:, 0]
        weights *= np.sqrt(self._observations.counts)
        return points, weights[self._observations.counts > 0], counts, sums

    @property
    def log_det_gain(self) -> float:
        return self._factor.log_determinant() - self._factor.size * float(np.log(self.regularisation))

    def _blocks(self, points: Points) -> Iterator[tuple[slice, Points]]:
        n_points, step = self.kernel.kind.count(points), max(1, ENTRIES_AT_ONCE // self._factor.size)
        if n_points <= step:
            yield slice(0, n_points), points
            return
        for first in range(0, n_points, step):
            rows = np.arange(first, min(n_points, first + step))
            yield slice(first, first + len(rows)), self.kernel.kind.take(points, rows)

    def _whiten(self, points: Points) -> Matrix:
        """L⁻¹ D^½ k: one column a point; the squared length of a column is what the data explain of k(x, x)."""
        similarity = self.kernel.gram(self._observations.points, points)  # (n_slots, n_points)
        scaled = np.ascontiguousarray(np.sqrt(self._observations.counts)[:, None] * similarity)
        return self._factor.solve(scaled)

    def _targets(self) -> Vector:
        if self._whitened_targets is None:
            counts = self._observations.counts
            roots = np.sqrt(np.maximum(counts, 1.0))  # an empty slot has the sum 0
            self._whitened_targets = self._factor.solve((self._observations.sums / roots)[:, None])[:, 0]
        return self._whitened_targets


def _not_a_kernel(how: str) -> NotPositiveSemidefinite:
    return NotPositiveSemidefinite(
        "These similarities are not positive semi-definite: what is left of k(x, x) after explaining it by the data "
        f"{how}. Nothing was changed. Repair them first: kb.kernels.repair(table, method='clip')."
    )
