"""Contract tests of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from kernelbandits.errors import CannotSave, InvalidContexts, NotSupported
from kernelbandits.kernels import Kernel, unpack_kernel
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["KernelContract", "differences_at", "moved_rows", "moving_rows"]


class KernelContract:
    """Contract of kernels: symmetry, positive semi-definiteness, consistent diagonal and features, valid point type.

    A subclass supplies two fixtures: `kernel`, and `points` for it (three or more, in the form in which a user would
    pass them; duplicates are allowed). `tolerance` is the rounding tolerance, as a fraction of the largest k(x, x).
    """

    tolerance = 1e-9

    def test_gram_has_a_finite_similarity_for_every_pair(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        n_points = kernel.kind.count(checked)

        gram = kernel.gram(checked)

        assert gram.shape == (n_points, n_points), f"gram has shape {gram.shape} for {n_points} points"
        assert gram.dtype == np.float64, f"gram has dtype {gram.dtype}"
        assert np.isfinite(gram).all(), "gram holds numbers that are not finite"

    def test_gram_is_symmetric(self, kernel: Kernel, points: Points) -> None:
        gram = kernel.gram(kernel.kind.check(points))

        assert_allclose(gram, gram.T, rtol=0.0, atol=self._allowed(kernel, points))

    def test_gram_has_no_negative_eigenvalue(self, kernel: Kernel, points: Points) -> None:
        gram = kernel.gram(kernel.kind.check(points))

        lowest = np.linalg.eigvalsh((gram + gram.T) / 2.0).min()

        allowed = self._allowed(kernel, points) * len(gram)
        assert lowest >= -allowed, f"gram has the eigenvalue {lowest:.3g}, so this is not a kernel"

    def test_diagonal_is_the_diagonal_of_gram(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)

        diagonal = kernel.diagonal(checked)

        assert diagonal.shape == (kernel.kind.count(checked),), f"diagonal has shape {diagonal.shape}"
        assert_allclose(diagonal, np.diagonal(kernel.gram(checked)), rtol=0.0, atol=self._allowed(kernel, points))

    def test_two_collections_are_compared_like_parts_of_one(self, kernel: Kernel, points: Points) -> None:
        first, second = self._halves(kernel, points)
        n_first = kernel.kind.count(first)

        whole = kernel.gram(kernel.kind.stack(first, second))

        allowed = self._allowed(kernel, points)
        assert_allclose(kernel.gram(first, second), whole[:n_first, n_first:], rtol=0.0, atol=allowed)
        assert_allclose(kernel.gram(second, first), whole[n_first:, :n_first], rtol=0.0, atol=allowed)
        assert_allclose(kernel.gram(first), whole[:n_first, :n_first], rtol=0.0, atol=allowed)
        assert_allclose(kernel.gram(second, second), whole[n_first:, n_first:], rtol=0.0, atol=allowed)

    def test_the_same_point_has_the_same_similarities(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        twice = kernel.kind.stack(checked, kernel.kind.take(checked, np.array([0])))

        gram = kernel.gram(twice)

        assert_allclose(gram[-1], gram[0], rtol=0.0, atol=self._allowed(kernel, points))

    def test_features_reproduce_gram_where_there_are_any(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        n_features = kernel.n_features(checked)
        if n_features is None:
            try:
                kernel.features(checked)
            except NotSupported:
                return
            raise AssertionError("n_features is None, and features returns some")

        features = kernel.features(checked)

        assert features.shape == (kernel.kind.count(checked), n_features), f"features have shape {features.shape}"
        assert_allclose(features @ features.T, kernel.gram(checked), rtol=0.0, atol=self._allowed(kernel, points))

    def test_gradients_agree_with_differences_where_there_are_any(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        rng = np.random.default_rng(0)
        try:  # from places where no kernel has a kink, and compared with the points themselves
            moved = moved_rows(kernel, checked, 0.01 * rng.standard_normal(moving_rows(checked).shape))
            weights = rng.standard_normal((kernel.kind.count(moved), kernel.kind.count(checked)))
            gradient = kernel.gradient(moved, checked, weights)
        except (InvalidContexts, NotSupported):  # not over dense rows, or not differentiable
            return

        slopes = differences_at(kernel, moved, lambda some: (weights * kernel.gram(some, checked)).sum(axis=1))
        size = np.abs(slopes).max(initial=0.0) + self._allowed(kernel, points)
        assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4 * size)

    def test_gradients_of_features_agree_with_differences_where_there_are_any(
        self, kernel: Kernel, points: Points
    ) -> None:
        checked = kernel.kind.check(points)
        n_features = kernel.n_features(checked)
        if n_features is None:
            return
        rng = np.random.default_rng(1)
        try:
            moved = moved_rows(kernel, checked, 0.01 * rng.standard_normal(moving_rows(checked).shape))
            weights = rng.standard_normal((kernel.kind.count(moved), n_features))
            gradient = kernel.feature_gradient(moved, weights)
        except (InvalidContexts, NotSupported):
            return

        slopes = differences_at(kernel, moved, lambda some: (weights * kernel.features(some)).sum(axis=1))
        size = np.abs(slopes).max(initial=0.0) + self._allowed(kernel, points)
        assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4 * size)

    def test_parameters_that_can_be_learned_are_read_and_replaced(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        values = kernel.log_parameters()

        same = kernel.with_log_parameters(values)

        assert same.kind == kernel.kind
        assert_allclose(same.log_parameters(), values, rtol=0.0, atol=1e-9)
        assert_allclose(same.gram(checked), kernel.gram(checked), rtol=0.0, atol=self._allowed(kernel, points))

    def test_the_gradient_by_parameters_is_that_of_differences(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        values, step = kernel.log_parameters(), 1e-5
        weights = np.random.default_rng(3).normal(size=(kernel.kind.count(checked),) * 2)
        weights += weights.T

        def total(values: Vector) -> float:
            return float(np.vdot(weights, kernel.with_log_parameters(values).gram(checked)))

        steps = step * np.eye(len(values))
        differences = [(total(values + one) - total(values - one)) / (2.0 * step) for one in steps]
        found = kernel.parameter_gradient(checked, weights)
        assert found.shape == values.shape, f"the gradient has shape {found.shape} for {len(values)} parameters"
        size = float(np.abs(weights).sum() * np.abs(kernel.gram(checked)).max())
        assert_allclose(found, differences, rtol=1e-5, atol=1e-7 * size)

    def test_comparing_points_leaves_them_as_they_were(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        before = kernel.kind.keys(checked)

        kernel.gram(checked)
        kernel.diagonal(checked)

        assert kernel.kind.keys(checked) == before

    def test_describe_gives_plain_values(self, kernel: Kernel) -> None:
        described = kernel.describe()

        assert described["class"] == type(kernel).__name__
        assert json.loads(json.dumps(described)) == described, "describe() holds more than plain values"

    def test_a_saved_kernel_is_the_same_kernel(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        try:
            parameters, arrays = kernel.pack()
            packed = kernel.kind.pack(checked)
        except CannotSave:  # a user-defined kernel is passed to `load`
            return

        loaded = unpack_kernel(json.loads(json.dumps(parameters)), arrays)

        assert not any(array.dtype.hasobject for array in arrays.values()), "a packed array holds Python objects"
        assert loaded.describe() == kernel.describe()
        assert np.array_equal(loaded.gram(loaded.kind.unpack(packed)), kernel.gram(kernel.kind.unpack(packed)))

    def test_checked_points_pass_unchanged(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)

        again = kernel.kind.check(checked)

        assert kernel.kind.count(again) == kernel.kind.count(checked)
        assert kernel.kind.keys(again) == kernel.kind.keys(checked)

    def test_points_are_taken_in_the_requested_order(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        keys = kernel.kind.keys(checked)

        taken = kernel.kind.take(checked, np.array([2, 0, 2]))

        assert kernel.kind.keys(taken) == [keys[2], keys[0], keys[2]]

    def test_one_point_can_be_taken_out_and_given_back(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)

        back = [kernel.kind.as_collection(kernel.kind.one(checked, row)) for row in range(kernel.kind.count(checked))]

        assert all(kernel.kind.count(single) == 1 for single in back)
        assert [key for single in back for key in kernel.kind.keys(single)] == kernel.kind.keys(checked)

    def test_stacked_points_come_one_after_the_other(self, kernel: Kernel, points: Points) -> None:
        first, second = self._halves(kernel, points)

        stacked = kernel.kind.stack(second, first)

        assert kernel.kind.count(stacked) == kernel.kind.count(first) + kernel.kind.count(second)
        assert kernel.kind.keys(stacked) == kernel.kind.keys(second) + kernel.kind.keys(first)

    def test_a_store_grows_and_can_be_cut_back(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        keys = kernel.kind.keys(checked)

        store: Any = None
        for row in range(len(keys)):
            store = kernel.kind.grow(store, row, kernel.kind.take(checked, np.array([row])))
        grown = kernel.kind.keys(kernel.kind.view(store, len(keys)))
        store = kernel.kind.grow(store, 1, kernel.kind.take(checked, np.array([2, 1])))  # overwrites all but the first
        cut = kernel.kind.keys(kernel.kind.view(store, 3))

        assert grown == keys
        assert cut == [keys[0], keys[2], keys[1]]

    def test_kept_points_are_compared_like_given_ones(self, kernel: Kernel, points: Points) -> None:
        first, second = self._halves(kernel, points)
        n_first = kernel.kind.count(first)

        store = kernel.kind.grow(None, 0, first)
        store = kernel.kind.grow(store, n_first, second)
        viewed = kernel.kind.view(store, n_first)

        allowed = self._allowed(kernel, points)
        assert_allclose(kernel.gram(viewed, second), kernel.gram(first, second), rtol=0.0, atol=allowed)

    def test_saved_points_are_the_same_points(self, kernel: Kernel, points: Points) -> None:
        checked = kernel.kind.check(points)
        try:
            packed = kernel.kind.pack(checked)
        except CannotSave:
            return

        loaded = kernel.kind.unpack(packed)

        assert not any(array.dtype.hasobject for array in packed.values()), "a packed array holds Python objects"
        assert kernel.kind.keys(loaded) == kernel.kind.keys(checked)

    def _allowed(self, kernel: Kernel, points: Points) -> float:
        """Return the rounding tolerance of a similarity of these points."""
        return self.tolerance * float(np.abs(kernel.diagonal(kernel.kind.check(points))).max(initial=0.0))

    @staticmethod
    def _halves(kernel: Kernel, points: Points) -> tuple[Points, Points]:
        checked = kernel.kind.check(points)
        rows: Indices = np.arange(kernel.kind.count(checked))
        middle = len(rows) // 2
        return kernel.kind.take(checked, rows[:middle]), kernel.kind.take(checked, rows[middle:])


STEP = 1e-5
"""Step of central differences, in units of the largest entry."""


def moving_rows(points: Points) -> Matrix:
    """Return the rows with respect to which gradients are: of pairs, those of the actions."""
    rows = points.actions if isinstance(points, PairRows) else points
    if type(rows) is not np.ndarray:
        raise NotSupported("These points are not dense rows.")
    return rows


def moved_rows(kernel: Kernel, points: Points, by: Matrix) -> Points:
    """Return the points with their rows shifted, by multiples of the largest entry if that exceeds 1."""
    rows = np.asarray(moving_rows(points) + by * max(1.0, float(np.abs(moving_rows(points)).max())))
    if isinstance(points, PairRows):
        return PairRows(points.contexts, rows, is_shared=points.is_shared)
    return kernel.kind.check(rows)


def differences_at(kernel: Kernel, points: Points, function: Callable[[Points], Vector]) -> Matrix:
    """Return the central differences of a function of each point."""
    slopes: Matrix = np.zeros_like(moving_rows(points))
    for column in range(len(slopes.T)):
        by = np.zeros_like(slopes)
        by[:, column] = STEP
        ahead, behind = moved_rows(kernel, points, by), moved_rows(kernel, points, -by)
        width = moving_rows(ahead)[:, column] - moving_rows(behind)[:, column]
        slopes[:, column] = (function(ahead) - function(behind)) / width
    return slopes
