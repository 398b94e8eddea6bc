"""Primal posterior: ridge regression in a finite feature space."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy import ndarray  # a local name: `_best` and `_observe_one` run in every round
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits._threads import limit_blas_threads
from kernelbandits._transactions import handles_transaction
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Kernel, Linear
from kernelbandits.posterior._chunks import blocks, summed_similarity
from kernelbandits.posterior._primal_loops import MODEL_ROWS, Played, Search, feature_loops, model_rows
from kernelbandits.posterior.base import SMALLEST_REGULARIZATION, Capabilities, check_no_overflow, checked_times
from kernelbandits.posterior.cholesky import cholesky
from kernelbandits.posterior.observations import EMPTY_SHARE, Batch
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import EMPTY, Indices, Matrix, Points, Selection, Vector, new_cost, new_selection
from kernelbandits.validation import check_int

__all__ = ["Minorant", "PrimalPosterior", "minorant_of"]

MARGIN: Final = 1e-6
"""Fraction by which the matrix stays below what the eigenvalues allow, far above their rounding errors."""

LENGTH: Final = 8.0 * float(np.finfo(float).eps)
"""Multiple of D, as a fraction of flat · ‖φ‖²: bounds the loss because ‖q‖ is not exactly 1 and the difference is
rounded, which along q is small compared with its terms."""


class Minorant(NamedTuple):
    """M = μI + κqqᵀ ≤ C with ‖q‖ = 1, so that width² = φᵀC⁻¹φ ≤ φᵀM⁻¹φ = flat · ‖φ‖² − peak · (qᵀφ)².

    It stays below C as C grows by further observations.
    """

    direction: Vector
    flat: float
    """1/μ, slightly increased"""
    peak: float
    """1/μ − 1/(μ + κ)"""


def minorant_of(precision: Matrix, regularization: float) -> Minorant:
    """Largest M of this form up to a margin: μ from the smallest eigenvalue of C, κ and q from the largest.

    Features often share a direction, such as a constant column, that is known well long before the others: κ removes it
    from the bound. Eigenvalues have an error of about D ε λ_max, which is subtracted from the smallest. M ≤ C is
    verified by a Cholesky factor of the difference, up to the same error; if it does not exist, γI ≤ C is used.
    """
    values, vectors = np.linalg.eigh(precision)
    rounding = 8.0 * len(values) * float(np.finfo(float).eps * values[-1])
    floor = max(regularization, float(values[0]) - rounding) * (1.0 - MARGIN)
    direction = np.ascontiguousarray(vectors[:, -1])
    rise = max(0.0, (float(values[-1]) - floor) * (1.0 - MARGIN))
    try:
        np.linalg.cholesky(precision - floor * np.eye(len(precision)) - rise * np.outer(direction, direction))
    except np.linalg.LinAlgError:
        return Minorant(direction, 1.0 / (regularization * (1.0 - MARGIN)), 0.0)
    peak = 1.0 / floor - 1.0 / (floor + rise)
    return Minorant(direction, (1.0 + LENGTH * len(values)) / floor, peak)


TURNS_PER_FACTOR: Final = 1024
"""Rank-one updates after which the factor is recomputed from the sums, but at least four per feature. An update is
backward stable, so their rounding errors add up to 1e-13 of the largest eigenvalue at worst."""

GROWTH: Final = 1.25
"""Growth factor of the number of observations after which the bound on widths is recomputed."""

LISTED_TIES: Final = 64

PLAYED_NUMBERS: Final = 4_000_000
"""Largest number of features that are computed at once for rounds known beforehand: 32 MB."""

LARGEST: Final = 1e100
"""Largest features and rewards of the fast path; beyond it the general code is used, which detects overflow before any
change."""


class PrimalPosterior(RecordedPosterior):
    """Ridge regression on explicit features: O(D²) per query for any number of observations.

    With Φ the features of the observations and C = ΦᵀΦ + γI = UᵀU:

        mean = φᵀ C⁻¹ Φᵀy,   width² = φᵀ C⁻¹ φ = ‖U⁻ᵀφ‖².

    This is the form of LinUCB, equal to the exact posterior of the same kernel. A single observation updates U by rank
    one, O(D²).

    Parameters
    ----------
    kernel
        A kernel with finitely many features.
    regularization
        γ > 0.
    keep
        Number of distinct points stored, so that observations can be amended, removed and explained; None: all. Of more
        points, the oldest are merged: only their part of C and Φᵀy is stored. Predictions do not change.

    >>> from kernelbandits.kernels import Linear
    >>> posterior = PrimalPosterior(Linear(), regularization=0.5)
    >>> posterior.observe([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])
    >>> posterior.predict([[1.0, 1.0]]).mean.round(4)
    array([1.1111])
    """

    capabilities = Capabilities(has_record=True, finds_best=True, is_exact=True)

    def __init__(self, kernel: Kernel, *, regularization: float, keep: int | None = None) -> None:
        super().__init__(kernel, regularization=regularization)
        self.keep = None if keep is None else check_int(keep, "The number of points to keep")
        self._merged: tuple[Matrix, Vector] | None = None  # ΦᵀΦ and Φᵀy of merged observations
        self._model: Matrix | None = None  # C, U, Φᵀy and C⁻¹Φᵀy, see `model_rows`; None before any observation
        self._has_factor = self._has_weights = False  # whether U and C⁻¹Φᵀy in it are current
        self._known: Points = None  # one of the observed points, for checking that others are compatible
        self._n_plain = 0  # number of columns if validated rows are their own features, which needs no check of them
        self._turns_left = 0  # rank-one updates until U is recomputed from C
        self._minorant: Minorant | None = None
        self._minorant_until = 0  # number of observations up to which it is used
        self._room: Matrix = np.zeros((3, 0))  # bounds of the rows of a round, and scratch
        self._tied: Indices = np.zeros(LISTED_TIES, dtype=np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Adopt unpickled arrays; copy those that are read-only, as in a file mapped into memory."""
        for name, value in state.items():
            is_read_only = isinstance(value, np.ndarray) and not value.flags.writeable
            vars(self)[name] = value.copy() if is_read_only else value

    # -- synchronization -----------------------------------------------------------------------------------------------

    def _observe_one(self, point: Points, reward: float) -> None:
        """Update by rank one if the factor exists and nothing can overflow; the record groups the point later."""
        largest = self._largest_similarity
        is_moderate = -LARGEST < reward < LARGEST and self.regularization >= SMALLEST_REGULARIZATION * largest
        if self._is_stale or not self._has_weights or not is_moderate:
            super()._observe_one(point, reward)
            return
        model = self._model
        if type(point) is ndarray and point.shape[1] == self._n_plain:
            row = point[0]  # inlined `_features`
        else:
            row = self._features(point)[0]
        if not feature_loops.is_compiled:
            feature_loops.record_work(row.size**2)
            super()._observe_one(point, reward)
            return
        self._journal.notes.append((self._roll_back, (self.record, 0, largest)))
        if not feature_loops.observe(row, reward, largest, model):
            similarity = float(np.vdot(row, row))
            if not similarity < LARGEST:
                super()._observe_one(point, reward)
                return
            self._warn_if_ill_conditioned(similarity)
            self._largest_similarity = similarity
            feature_loops.observe(row, reward, LARGEST, model)
        self.record.queue_one(point, reward)
        self._turns_left -= 1
        if self._turns_left <= 0:
            self._has_factor = self._has_weights = False

    def _apply(self, batch: Batch) -> None:
        if batch.keys:
            self._add(batch.points, batch.counts, batch.sums)
        if len(batch.slots):
            known = self.kernel.kind.take(self.record.points, batch.slots)
            self._add(known, batch.slot_counts, batch.slot_sums)
        if not self._is_well_posed:
            self._factor()  # now, while the observation can still be rejected

    def _add(self, points: Points, counts: Vector, sums: Vector) -> None:
        features = self._features(points)
        model, size = self._model, features.shape[1]
        if model is None:
            self._known = self.kernel.kind.take(points, np.zeros(1, dtype=np.intp))
            self._n_plain = size if type(self.kernel) is Linear and type(self._known) is ndarray else 0
            precision, moments = self.regularization * np.eye(size), np.zeros(size)
        else:
            precision, _, moments, *_ = model_rows(model)
        scaled = features * np.sqrt(counts)[:, None]
        with limit_blas_threads(float(features.size) * features.shape[1]):
            precision = precision + scaled.T @ scaled
            moments = moments + sums @ features
        check_no_overflow(precision)
        self._set_sums(precision, moments)

    def _set_sums(self, precision: Matrix, moments: Vector) -> None:
        """Start a new model from C and Φᵀy."""
        size = len(moments)
        model = np.zeros((2 * size + MODEL_ROWS, size))
        model[:size], model[2 * size] = precision, moments
        self._has_factor = self._has_weights = False
        self._model = model

    def _observations_removed(self) -> None:
        """Recompute from what remains: subtracting would leave rounding errors of removed observations behind."""
        self.record = self.record.compacted()
        self._sum_up()

    def _sum_up(self) -> None:
        """Compute all sums from the record and the merged observations."""
        self._model = self._minorant = None
        self._has_factor = self._has_weights = False
        if self._merged is not None:
            squares, moments = self._merged
            self._set_sums(self.regularization * np.eye(len(moments)) + squares, moments)
        if self.record.size:
            self._add(*self.record.stored())

    def _merge_oldest(self, keep: int) -> None:
        """Merge the points that were seen first into sums, until half of the capacity is free."""
        n_oldest = self.record.size - keep // 2
        points, counts, sums = self.record.oldest(n_oldest)
        features = self._features(points)
        scaled = features * np.sqrt(counts)[:, None]
        squares, moments = scaled.T @ scaled, sums @ features
        if self._merged is not None:
            squares, moments = squares + self._merged[0], moments + self._merged[1]
        self._note()
        self._journal.note(vars(self).update, {"_merged": self._merged, "n_merged": self.n_merged})
        self.record = self.record.compacted(without=n_oldest)
        self._merged, self.n_merged = (squares, moments), self.n_merged + round(float(counts.sum()))

    def _discounted(self, rate: float) -> None:
        """C ← rate·C + (1 − rate)·γI; the remaining weight of dropped points is discounted further in it."""
        if self._merged is not None:
            self._journal.note(setattr, self, "_merged", self._merged)
            self._merged = rate * self._merged[0], rate * self._merged[1]
        if self._model is not None:
            precision, _, moments, *_ = model_rows(self._model)
            precision = rate * precision
            precision[np.diag_indices_from(precision)] += (1.0 - rate) * self.regularization
            self._set_sums(precision, rate * moments)
        self._minorant = None
        if self.record.size < (1.0 - EMPTY_SHARE) * self.record.n_slots:
            self.record = self.record.compacted()

    def _undone(self, n_slots: int) -> None:
        """Mark the sums as stale: single observations cannot be undone in them, so they are recomputed when needed."""
        self._is_stale = True

    def _synchronize(self) -> None:
        if self._is_stale:
            self._sum_up()
            self._is_stale = False

    def _rewards_changed(self) -> None:
        points, _, sums = self.record.stored()
        moments = sums @ self._features(points) + (0.0 if self._merged is None else self._merged[1])
        if self._model is not None:
            model_rows(self._model)[2][:] = moments
            self._has_weights = False

    # -- predicting ------------------------------------------------------------------------------------------------

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        features = self._features(points)
        if self._model is None:
            return np.zeros(len(features)), self.kernel.diagonal(points) / self.regularization
        with limit_blas_threads(float(features.size) * features.shape[1]):
            whitened = self._whiten(features)
            return features @ self._mean_weights(), np.einsum("dn,dn->n", whitened, whitened)

    def _best(self, points: Points, exploration: float) -> Selection | None:
        """See `Posterior`: an exact width only if a bound on it can still be the best.

        None before any observation, on overflow, and if more rows are tied than can be listed.
        """
        if self._is_stale:
            self._synchronize()
        model = self._model
        if model is None or exploration < 0.0:
            return None
        if type(points) is ndarray and points.shape[1] == self._n_plain and points.flags.c_contiguous:
            features = points  # inlined `_features`
        else:
            features = self._features(points)
        n_points = len(features)
        if n_points > self._room.shape[1]:
            self._room = np.empty((3, 2 * n_points))
        if not feature_loops.is_compiled:
            feature_loops.record_work(features.size)
            return None
        bound, n_observations = self._minorant, self.record.n_observations + self.n_merged
        if not self._has_weights or bound is None or n_observations > self._minorant_until:
            model, bound = self._complete_model()
        n_tied, mean, width, n_widths = feature_loops.best(
            features, model, bound.flat, bound.peak, LARGEST, exploration, self._room, self._tied
        )
        if not 0 < n_tied <= LISTED_TIES:
            return None
        tied = None if n_tied == 1 else self._tied[:n_tied].copy()
        name, n_bounds = ("exhaustive", 0) if n_widths == n_points else ("screened", n_points)
        cost = new_cost((name, n_points, n_points, n_widths, n_bounds))
        row = self._tied.item(0)
        return new_selection((row, mean, width, mean + exploration * width, 1.0, None, EMPTY, cost, tied, 0.0))

    @property
    @handles_transaction
    def supports_batch_play(self) -> bool:
        return self._model is not None and feature_loops.is_compiled

    def _play(self, rounds: NDArray[np.float64], rewards: Matrix, exploration: float) -> tuple[Indices, Vector, Vector]:
        rows, means, widths = np.zeros(len(rounds), dtype=np.intp), np.zeros(len(rounds)), np.zeros(len(rounds))
        n_points, done = rounds.shape[1], 0
        self._synchronize()
        self._journal.note(self._roll_back, self.record, 0, self._largest_similarity)
        is_moderate = rewards.max(initial=0.0) < LARGEST and rewards.min(initial=0.0) > -LARGEST
        if self.supports_batch_play and exploration >= 0.0 and is_moderate:
            points = rounds.reshape(-1, rounds.shape[2])
            if not isinstance(self.kernel, Linear):  # other features may hide numbers from the compiled checks
                points = self.kernel.kind.check(points)
            assert self._model is not None
            size = self._model.shape[1]
            at_once = max(1, PLAYED_NUMBERS // (n_points * size))
            most = min(LARGEST, self.regularization / SMALLEST_REGULARIZATION) if self._is_well_posed else -1.0
            while done < len(rounds):
                model, bound = self._complete_model()
                turns = min(self._minorant_until - self.n_observations + 1, self._turns_left)
                part = slice(done, min(len(rounds), done + turns, done + at_once))
                features = self._features(points[part.start * n_points : part.stop * n_points])
                features = features.reshape(-1, n_points, size)
                search = Search(bound.flat, bound.peak, most, exploration, np.empty((3, n_points)), self._tied)
                played = Played(rows[part], means[part], widths[part])
                n_played = feature_loops.play(features, rewards[part], model, tuple(search), tuple(played))
                self._note_turns(rounds[part][:n_played], rewards[part], rows[part][:n_played])
                done += n_played
                if done < part.stop:
                    break
        return rows[:done], means[:done], widths[:done]

    def _note_turns(self, rounds: NDArray[np.float64], rewards: Matrix, rows: Indices) -> None:
        """Record the rounds that were played."""
        turns = np.arange(len(rounds))
        if len(turns):
            points = rounds[turns, rows]
            self._largest_similarity = max(self._largest_similarity, float(self.kernel.diagonal(points).max()))
            self.record.queue(points, rewards[turns, rows].tolist())
            self._turns_left -= len(turns)
            if self._turns_left <= 0:
                self._has_factor = self._has_weights = False

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        others = points if others is None else self.kernel.kind.check(others)
        self._synchronize()
        if self._model is None:
            return self.kernel.gram(points, others) / self.regularization
        left, right = self._features(points), self._features(others)
        with limit_blas_threads(float(right.size) * max(left.shape)), np.errstate(over="ignore", invalid="ignore"):
            covariance = self._whiten(left).T @ self._whiten(right)
        check_no_overflow(covariance)
        return covariance

    def gradient(self, points: Points, others: Points, weights: Matrix) -> Matrix:
        """See `Posterior`: the gradient of features, with weights C⁻¹ (Φᵀy + Σ w φ)."""
        self._synchronize()
        if self._model is None:
            return super().gradient(points, others, weights)
        points, others, weights = self._checked_weights(points, others, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            summed = self._mean_weights() + self._solve(self._features(others).T @ weights.T).T
            gradient = self.kernel.feature_gradient(points, summed)
        check_no_overflow(gradient)
        return gradient

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """See `Posterior`: the sum is one vector of features, v, and φᵀC⁻¹v is its covariance with a point."""
        kind = self.kernel.kind
        points, weights, others = self._checked_sum(points, weights, others)
        self._synchronize()
        if self._model is None:
            return summed_similarity(self.kernel, points, weights, others) / self.regularization
        n_features = self._model.shape[1]
        summed = sum(weights[block] @ self._features(part) for block, part in blocks(kind, points, n_features))
        solved = self._solve(np.asarray(summed))
        return np.concatenate([self._features(part) @ solved for _, part in blocks(kind, others, n_features)])

    @property
    def log_det_gain(self) -> float:
        self._synchronize()
        if self._model is None:
            return 0.0
        diagonal = np.diagonal(self._factor())
        return float(2.0 * np.log(diagonal).sum() - len(diagonal) * np.log(self.regularization))

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function: the norm of its weights."""
        self._synchronize()
        return float(np.linalg.norm(self._mean_weights())) if self.size else 0.0

    def state(self) -> dict[str, NDArray[Any]]:
        if self._merged is None:
            return super().state()
        squares, moments = self._merged
        count = np.array([self.n_merged], dtype=np.int64)
        largest = {"merged.largest": np.array([self._largest_similarity])}
        return {
            **super().state(),
            "merged.squares": squares,
            "merged.moments": moments,
            "merged.count": count,
            **largest,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if "merged.count" in state:
            count = int(saved_array(state, "merged.count", "i", (1,), least=1, most=2**53)[0])
            largest = float(saved_array(state, "merged.largest", "f", (1,), least=0.0)[0])
            moments = saved_array(state, "merged.moments", "f", (None,)).copy()
            squares = saved_array(state, "merged.squares", "f", (len(moments), len(moments))).copy()
            names = ("n_merged", "_merged", "_largest_similarity")
            self._journal.note(vars(self).update, {name: getattr(self, name) for name in names})
            self.n_merged, self._merged, self._largest_similarity = count, (squares, moments), largest
            state = {name: array for name, array in state.items() if not name.startswith("merged.")}
        super().restore(state)
        if self._merged is not None:
            with self._clear_errors():
                self._sum_up()
                self._factor()  # now, while the file can still be rejected

    def _features(self, points: Points) -> Matrix:
        if self._model is None:
            return self.kernel.features(points)
        if type(points) is ndarray and points.shape[1] == self._n_plain and points.flags.c_contiguous:
            return points
        if type(points) is not type(self._known):
            self.kernel.kind.validate_comparable(self._known, points)
        features = np.ascontiguousarray(self.kernel.features(points))  # as required by the compiled kernels
        if features.shape[1] != self._model.shape[1]:
            raise InvalidContexts(
                f"These contexts have {features.shape[1]} features; those learned before have {self._model.shape[1]}. "
                "Describe every action with the same columns."
            )
        return features

    def _whiten(self, features: Matrix) -> Matrix:
        from scipy.linalg.blas import dtrsm

        whitened = np.array(features.T, order="C")
        dtrsm(1.0, self._factor().T, whitened.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        return whitened

    def _factor(self) -> Matrix:
        assert self._model is not None
        if not self._has_factor:
            # `size` would group the buffered observations; there are never fewer observations than points.
            if self.keep is not None and self.record.n_observations > self.keep < self.record.size:
                self._merge_oldest(self.keep)
            precision, upper, *_ = model_rows(self._model)
            with self._clear_errors(), limit_blas_threads(float(len(precision)) ** 3):
                upper[:] = cholesky(precision).T
            self._turns_left = max(TURNS_PER_FACTOR, 4 * len(upper))
            self._has_factor = True
        return model_rows(self._model)[1]

    def _mean_weights(self) -> Vector:
        assert self._model is not None
        _, _, moments, weights, *_ = model_rows(self._model)
        if not self._has_weights:
            weights[:] = self._solve(moments)
            self._has_weights = True
        return weights

    def _complete_model(self) -> tuple[Matrix, Minorant]:
        """Bring the model up to date for the compiled kernels; return it, and the bound on widths."""
        bound = self._width_bound()
        self._factor()
        self._mean_weights()
        assert self._model is not None
        model_rows(self._model)[4][:] = bound.direction
        return self._model, bound

    def _solve(self, right: Vector) -> Vector:
        """C⁻¹ times a vector, or a matrix of columns."""
        from scipy.linalg import cho_solve

        factor = self._factor()
        with limit_blas_threads(float(factor.size)):
            solved: Vector = cho_solve((factor, False), right, check_finite=False)
        return solved

    def _draw_weights(
        self, n_draws: int, rng: np.random.Generator, spread: float, pending: Points | None, times: ArrayLike
    ) -> Matrix | None:
        """See `Posterior`: w ~ N(C⁻¹Φᵀy, v² γ C⁻¹), as C⁻¹Φᵀy + v sqrt(γ) U⁻¹ e with e standard normal."""
        from scipy.linalg import solve_triangular

        self._synchronize()
        if self._model is None:
            return None
        upper = self._factor()
        with limit_blas_threads(float(upper.size) * n_draws):
            if pending is not None:
                known = self._features(self.kernel.kind.check(pending))
                scaled = known * np.sqrt(checked_times(times, len(known)))[:, None]
                upper = cholesky(model_rows(self._model)[0] + scaled.T @ scaled).T
            deviations = solve_triangular(upper, rng.standard_normal((len(upper), n_draws)), check_finite=False)
        drawn: Matrix = self._mean_weights()[:, None] + spread * sqrt(self.regularization) * deviations
        return drawn

    def _width_bound(self) -> Minorant:
        if self._minorant is None or (self.record.n_observations + self.n_merged) > self._minorant_until:
            assert self._model is not None
            precision, *_ = model_rows(self._model)
            with limit_blas_threads(float(len(precision)) ** 3):
                self._minorant = minorant_of(precision, self.regularization)
            self._minorant_until = int(GROWTH * (self.record.n_observations + self.n_merged)) + 8
        return self._minorant
