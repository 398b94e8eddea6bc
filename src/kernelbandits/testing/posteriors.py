"""Contract tests of posteriors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidContexts, KernelBanditError, NotSupported
from kernelbandits.posterior import Posterior
from kernelbandits.testing.kernels import differences_at, moved_rows, moving_rows
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["PosteriorContract"]


class PosteriorContract:
    """Contract of posteriors. Derive a test class from it and supply two fixtures.

    `posterior` is a new posterior, and `points` contains at least twelve different points. `tolerance` is the allowed
    relative error; increase it for an approximation and document the reason.
    """

    tolerance: float = 1e-7

    def test_before_any_observation_the_mean_is_zero_and_the_width_that_of_the_prior(
        self, posterior: Posterior, points: Points
    ) -> None:
        """Oracle 9."""
        prediction = posterior.predict(points)

        assert_allclose(prediction.mean, 0.0)
        assert_allclose(prediction.width**2, posterior.kernel.diagonal(points) / posterior.regularization)
        assert posterior.size == posterior.n_observations == 0
        assert posterior.log_det_gain == 0.0
        assert posterior.norm == 0.0

    def test_mean_and_width_are_those_of_the_definition(self, posterior: Posterior, points: Points) -> None:
        """Ridge regression, computed from the Gram matrix of the whole history."""
        rows, rewards = _history(points, posterior)

        for row, reward in zip(rows, rewards, strict=True):
            posterior.observe(_take(posterior, points, [row]), [reward])

        self._assert_equals_definition(posterior, points, rows, rewards)

    def test_many_observations_at_once_are_the_same_as_one_after_the_other(
        self, posterior: Posterior, points: Points
    ) -> None:
        """Observations in any order, in batches of any size, give the same model."""
        rows, rewards = _history(points, posterior)
        order = np.random.default_rng(5).permutation(len(rows))

        posterior.observe(_take(posterior, points, rows[order[:7]]), rewards[order[:7]])
        posterior.observe(_take(posterior, points, rows[order[7:]]), rewards[order[7:]])

        self._assert_equals_definition(posterior, points, rows, rewards)

    def test_a_reward_may_count_several_times(self, posterior: Posterior, points: Points) -> None:
        """`times` is equivalent to repeated observations."""
        posterior.observe(_take(posterior, points, [0, 1, 0]), [0.5, -1.0, 2.0], times=[3, 1, 2])

        rows, rewards = np.array([0, 0, 0, 1, 0, 0]), np.array([0.5, 0.5, 0.5, -1.0, 2.0, 2.0])
        self._assert_equals_definition(posterior, points, rows, rewards)
        assert (posterior.size, posterior.n_observations) == (2, 6)

    def test_the_declared_capabilities_are_there(self, posterior: Posterior, points: Points) -> None:
        """A record counts all observations, a factor covers all distinct points, and the best point scores highest."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        form: Any = posterior._current_form()
        assert posterior.capabilities == form.capabilities
        if form.capabilities.has_record:
            assert form.record.n_observations == len(rows)
        if form.capabilities.has_factor:
            assert form.whitening().factor.size == posterior.size
        best = posterior._best(posterior.kernel.kind.check(points), 0.5)
        if best is not None:
            assert form.capabilities.finds_best
            scores = posterior.predict(points).upper(0.5)
            assert_allclose(best.score, scores.max(), rtol=self.tolerance)
            assert_allclose(scores[best.row], best.score, rtol=self.tolerance)

    def test_an_amended_reward_changes_means_and_no_width(self, posterior: Posterior, points: Points) -> None:
        """Widths do not depend on rewards."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)
        widths = posterior.predict(points).width

        posterior.amend(_take(posterior, points, [rows[3]]), was=[rewards[3]], now=[rewards[3] + 0.75])

        rewards[3] += 0.75
        self._assert_equals_definition(posterior, points, rows, rewards)
        assert_allclose(posterior.predict(points).width, widths, rtol=1e-9)

    def test_a_removed_observation_was_never_there(self, posterior: Posterior, points: Points) -> None:
        """First one of several observations of a point, and then the last one."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        for place in (0, 5, 9):
            posterior.remove(_take(posterior, points, [rows[place]]), [rewards[place]])

        kept = np.delete(np.arange(len(rows)), [0, 5, 9])
        self._assert_equals_definition(posterior, points, rows[kept], rewards[kept])

    def test_removing_everything_leaves_the_prior(self, posterior: Posterior, points: Points) -> None:
        """Learning can then start again."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        posterior.remove(_take(posterior, points, rows), rewards)

        self.test_before_any_observation_the_mean_is_zero_and_the_width_that_of_the_prior(posterior, points)
        posterior.observe(_take(posterior, points, rows), rewards)
        self._assert_equals_definition(posterior, points, rows, rewards)

    def test_pending_points_shrink_widths_and_leave_means(self, posterior: Posterior, points: Points) -> None:
        """The mean uses observed data; the width uses observed and pending data together."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)
        pending = np.array([1, 4, 4, 11])

        prediction = posterior.predict(points, pending=_take(posterior, points, pending))

        mean, _ = _definition(posterior, points, rows, rewards)
        _, width = _definition(posterior, points, np.append(rows, pending), np.zeros(len(rows) + len(pending)))
        assert_allclose(prediction.mean, mean, rtol=self.tolerance, atol=self.tolerance * np.abs(mean).max())
        assert_allclose(prediction.width, width, rtol=self.tolerance)

    def test_gradients_agree_with_differences_where_there_are_any(self, posterior: Posterior, points: Points) -> None:
        """Those of the mean and of covariances, at points that were not observed; of width² they are twice these."""
        rows, rewards = _history(points, posterior)
        checked = posterior.kernel.kind.check(points)
        rng = np.random.default_rng(2)
        try:
            moved = moved_rows(posterior.kernel, checked, 0.1 * rng.standard_normal(moving_rows(checked).shape))
            posterior.gradient(moved, checked, np.ones((posterior.kernel.kind.count(moved),) * 2))
        except (InvalidContexts, NotSupported):  # not over dense rows, or not differentiable
            return
        posterior.observe(_take(posterior, points, rows), rewards)
        weights = rng.standard_normal((posterior.kernel.kind.count(moved),) * 2)

        gradient = posterior.gradient(moved, checked, weights)

        def value(some: Points) -> Vector:
            return np.asarray(
                posterior.predict(some).mean + (weights * posterior.covariance(some, checked)).sum(axis=1)
            )

        slopes = differences_at(posterior.kernel, moved, value)
        assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4 * float(np.abs(slopes).max()))

    def test_widths_never_grow_and_stay_between_their_bounds(self, posterior: Posterior, points: Points) -> None:
        """Oracle 13: k/(γ + tr K) ≤ width² ≤ k/γ."""
        rows, rewards = _history(points, posterior)
        diagonal = posterior.kernel.diagonal(points)
        before, trace = posterior.predict(points).width, 0.0

        for row, reward in zip(rows, rewards, strict=True):
            posterior.observe(_take(posterior, points, [row]), [reward])
            trace += diagonal[row]
            width = posterior.predict(points).width
            assert (width <= before * (1 + 1e-9)).all()
            assert (width**2 <= diagonal / posterior.regularization * (1 + 1e-9)).all()
            assert (width**2 >= diagonal / (posterior.regularization + trace) * (1 - 1e-9)).all()
            before = width

    def test_the_covariance_has_the_squared_widths_on_its_diagonal(self, posterior: Posterior, points: Points) -> None:
        """It is also symmetric, and consistent between two sets."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        covariance = posterior.covariance(points)

        scale = float(np.abs(covariance).max())
        assert_allclose(np.diag(covariance), posterior.predict(points).width ** 2, rtol=1e-6, atol=1e-9 * scale)
        assert_allclose(covariance, covariance.T, atol=1e-9 * scale)
        some = _take(posterior, points, [2, 3])
        assert_allclose(posterior.covariance(some, points), covariance[[2, 3]], atol=1e-9 * scale)

    def test_the_covariance_of_a_weighted_sum_is_the_weighted_sum_of_covariances(
        self, posterior: Posterior, points: Points
    ) -> None:
        """Before any observation and after some; weights of both signs."""
        rows, rewards = _history(points, posterior)
        some, weights = _take(posterior, points, [3, 2, 3]), np.array([0.5, -2.0, 1.5])
        for _ in range(2):
            found = posterior.covariance_of_sum(some, weights, points)

            expected = weights @ posterior.covariance(some, points)
            assert_allclose(found, expected, atol=1e-8 * float(np.abs(posterior.covariance(points)).max()))
            posterior.observe(_take(posterior, points, rows), rewards)

    def test_the_support_reproduces_the_mean_and_its_norm(self, posterior: Posterior, points: Points) -> None:
        """Mean = Σ weight · similarity; norm² = weights · K · weights."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        past, weights, counts, sums = posterior.support()

        gram = posterior.kernel.gram(past)
        mean = posterior.predict(points).mean
        assert_allclose(posterior.kernel.gram(points, past) @ weights, mean, atol=1e-6 * np.abs(mean).max())
        assert_allclose(posterior.norm, np.sqrt(weights @ gram @ weights), rtol=1e-5)
        assert counts.sum() == len(rows)
        assert_allclose(sums.sum(), rewards.sum())

    def test_a_copy_is_independent(self, posterior: Posterior, points: Points) -> None:
        """Learning in one does not affect the other."""
        posterior.observe(_take(posterior, points, [0, 1]), [1.0, 2.0])
        copied = posterior.copy()
        before = posterior.predict(points)

        copied.observe(_take(posterior, points, [2, 2, 0]), [3.0, 1.0, 4.0])

        assert_allclose(posterior.predict(points).mean, before.mean)
        assert_allclose(posterior.predict(points).width, before.width)
        assert copied.n_observations == 5

    def test_a_restored_state_gives_the_same_answers(self, posterior: Posterior, points: Points) -> None:
        """The saved arrays are sufficient."""
        fresh = posterior.copy()
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        fresh.restore(posterior.state())

        assert_allclose(fresh.predict(points).mean, posterior.predict(points).mean, rtol=1e-6, atol=1e-9)
        assert_allclose(fresh.predict(points).width, posterior.predict(points).width, rtol=1e-6)
        assert fresh.n_observations == posterior.n_observations

    def test_a_rejected_call_changes_nothing(self, posterior: Posterior, points: Points) -> None:
        """Neither the model, nor the ability to continue learning."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows[:10]), rewards[:10])
        known, unknown = _take(posterior, points, rows[:1]), _take(posterior, points, [11])

        for call in (
            lambda: posterior.observe(_take(posterior, points, [0, 9]), [1.0, np.nan]),
            lambda: posterior.observe(_take(posterior, points, [0, 9]), [1.0, 2.0], times=0),
            lambda: posterior.observe(_take(posterior, points, [9, 9]), [1.5e308, 1.5e308]),
            lambda: posterior.amend(unknown, was=[0.0], now=[1.0]),
            lambda: posterior.amend(known, was=rewards[:1], now=[np.inf]),
            lambda: posterior.remove(unknown, [1.0]),
            lambda: posterior.remove(_take(posterior, points, [rows[0]] * 11), np.ones(11)),
        ):
            _assert_rejected(call)

        self._assert_equals_definition(posterior, points, rows[:10], rewards[:10])
        posterior.observe(_take(posterior, points, rows[10:]), rewards[10:])
        self._assert_equals_definition(posterior, points, rows, rewards)

    def test_what_is_given_out_is_a_copy(self, posterior: Posterior, points: Points) -> None:
        """Modifying it does not affect the model."""
        rows, rewards = _history(points, posterior)
        posterior.observe(_take(posterior, points, rows), rewards)

        for given in (*posterior.support(), *posterior.state().values()):
            if isinstance(given, np.ndarray) and given.flags.writeable:
                given[...] = 1

        self._assert_equals_definition(posterior, points, rows, rewards)

    def _assert_equals_definition(self, posterior: Posterior, points: Points, rows: Any, rewards: Vector) -> None:
        mean, width = _definition(posterior, points, rows, rewards)
        prediction = posterior.predict(points)
        assert_allclose(prediction.mean, mean, rtol=self.tolerance, atol=self.tolerance * np.abs(mean).max())
        assert_allclose(prediction.width, width, rtol=self.tolerance)
        gram = posterior.kernel.gram(_take(posterior, points, rows))
        gain = np.linalg.slogdet(np.eye(len(rows)) + gram / posterior.regularization)[1]
        assert_allclose(posterior.log_det_gain, gain, rtol=self.tolerance)
        assert posterior.n_observations == len(rows)
        assert posterior.size == len(set(posterior.kernel.kind.keys(_take(posterior, points, rows))))


def _assert_rejected(call: Callable[[], None]) -> None:
    try:
        call()
    except KernelBanditError:
        return
    raise AssertionError("an invalid call was not rejected")


def _history(points: Points, posterior: Posterior) -> tuple[Any, Vector]:
    """Twenty rows with repeats, and continuous rewards."""
    rng = np.random.default_rng(3)
    n_points = posterior.kernel.kind.count(posterior.kernel.kind.check(points))
    return rng.integers(0, min(8, n_points), size=20), rng.normal(size=20)


def _take(posterior: Posterior, points: Points, rows: Any) -> Points:
    return posterior.kernel.kind.take(posterior.kernel.kind.check(points), np.asarray(rows, dtype=np.intp))


def _definition(posterior: Posterior, points: Points, rows: Any, rewards: Vector) -> tuple[Vector, Vector]:
    kernel, gamma = posterior.kernel, posterior.regularization
    past = _take(posterior, points, rows)
    matrix: Matrix = kernel.gram(past) + gamma * np.eye(len(rows))
    similarity = kernel.gram(past, points)
    solved = np.linalg.solve(matrix, similarity)
    squared = (kernel.diagonal(points) - np.einsum("mn,mn->n", similarity, solved)) / gamma
    return solved.T @ rewards, np.sqrt(np.maximum(squared, 0.0))
