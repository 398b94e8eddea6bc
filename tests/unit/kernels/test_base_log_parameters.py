"""Parameters of kernels that can be learned, and gradients by them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.kernels import (
    Blocks,
    Columns,
    Constant,
    Delta,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    PairProduct,
    PairSum,
    RationalQuadratic,
    Scaled,
    Spectrum,
    Sum,
)
from kernelbandits.types import Pairs

ROWS = np.random.default_rng(0).normal(size=(9, 3)) + 4.0
OTHERS = np.random.default_rng(1).normal(size=(9, 2))
LABELS = list("abbcacbba")


def pairs(kernel, first, second):
    """Many pairs, each with its own context."""
    return kernel.kind.stack(*(kernel.kind.as_collection(Pairs(*pair)) for pair in zip(first, second, strict=True)))


def differences(kernel, points, weights, step=1e-5):
    """The gradient by its definition."""
    values = kernel.log_parameters()
    found = []
    for one in step * np.eye(len(values)):
        ends = [np.vdot(weights, kernel.with_log_parameters(values + sign * one).gram(points)) for sign in (1, -1)]
        found.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(found)


def symmetric(n, seed=2):
    weights = np.random.default_rng(seed).normal(size=(n, n))
    return weights + weights.T


KERNELS = [
    Gaussian(length_scale=0.7),
    Gaussian(length_scale=[0.7, 1.0, 2.0]),
    Matern(smoothness=0.5, length_scale=[1.3, 0.6, 2.0]),
    Matern(smoothness=1.5, length_scale=0.8),
    Matern(smoothness=2.5, length_scale=[1.3, 0.6, 2.0]),
    Laplacian(length_scale=1.4),
    Laplacian(length_scale=[0.7, 1.0, 2.0]),
    RationalQuadratic(length_scale=[0.7, 1.0, 2.0], mixture=0.6),
    Gaussian(length_scale=0.7) + 0.3 * Matern(smoothness=0.5, length_scale=1.3) + 0.5,
    2.0 * (Gaussian(length_scale=0.7) * Laplacian(length_scale=2.0)),
    Normalized(Linear() * (Gaussian(length_scale=2.0) + 0.2 * Linear())),
    Columns(Gaussian(length_scale=[0.4, 2.0]), [0, 2]) + Columns(Linear(), [1]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_gradient_is_that_of_differences(kernel):
    weights = symmetric(len(ROWS))
    expected = differences(kernel, ROWS, weights)
    assert len(expected)
    assert_allclose(kernel.parameter_gradient(ROWS, weights), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[1], KERNELS[5]], ids=repr)
def test_sparse_rows_have_the_gradient_of_dense_ones(kernel):
    weights = symmetric(len(ROWS))
    assert_allclose(
        kernel.parameter_gradient(csr_array(ROWS), weights), kernel.parameter_gradient(ROWS, weights), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("kernel", "second"),
    [
        (PairProduct(Gaussian(length_scale=1.2), Matern(smoothness=1.5, length_scale=[0.5, 2.0])), OTHERS),
        (PairProduct(Gaussian(length_scale=1.2), Delta()), LABELS),
        (PairSum(Gaussian(length_scale=1.2), 0.3 * Gaussian(length_scale=0.5)), OTHERS),
        (Blocks(Gaussian(length_scale=1.2) + 0.1 * Linear()), LABELS),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_shared", [False, True])
def test_the_gradient_over_pairs_is_that_of_differences(kernel, second, is_shared):
    points = kernel.kind.check(Pairs(ROWS[0], second)) if is_shared else pairs(kernel, ROWS, second)
    weights = symmetric(len(ROWS))
    assert_allclose(
        kernel.parameter_gradient(points, weights), differences(kernel, points, weights), rtol=1e-6, atol=1e-6
    )


def test_far_from_the_origin_the_gradient_is_as_accurate():
    kernel, weights = Gaussian(length_scale=[0.7, 1.0, 2.0]), symmetric(len(ROWS))
    assert_allclose(
        kernel.parameter_gradient(ROWS + 1e6, weights), kernel.parameter_gradient(ROWS, weights), rtol=1e-6, atol=1e-6
    )


def test_equal_rows_have_a_finite_gradient():
    rows = np.vstack([ROWS, ROWS[:2]])
    kernel = Matern(smoothness=0.5, length_scale=[0.7, 1.0, 2.0])
    weights = symmetric(len(rows))
    assert_allclose(kernel.parameter_gradient(rows, weights), differences(kernel, rows, weights), rtol=1e-5, atol=1e-6)


def test_length_scales_keep_their_form():
    assert Gaussian(length_scale=2.0).with_log_parameters(np.log([3.0])).length_scale == pytest.approx(3.0)
    per_column = Laplacian(length_scale=[2.0, 4.0]).with_log_parameters(np.log([3.0, 5.0]))
    assert per_column.length_scale == pytest.approx((3.0, 5.0))
    kept = Matern(smoothness=2.5, length_scale=1.0).with_log_parameters(np.log([0.5]))
    assert kept.smoothness == 2.5


def test_weights_of_a_sum_stay_a_convex_combination_of_their_total():
    kernel = Gaussian(length_scale=1.0) + 3.0 * Linear() + 2.0 * Constant(0.5)
    assert_allclose(np.exp(kernel.log_parameters()[:3]), [1.0, 3.0, 2.0])
    moved = kernel.with_log_parameters(np.add(kernel.log_parameters(), [1.0, -2.0, 0.5, 0.3]))
    weights = [part.factor for part in moved.parts]
    assert sum(weights) == pytest.approx(6.0)
    assert_allclose(
        weights,
        6.0 * np.array([1.0, 3.0, 2.0]) * np.exp([1.0, -2.0, 0.5]) / np.dot([1.0, 3.0, 2.0], np.exp([1.0, -2.0, 0.5])),
    )
    assert all(isinstance(part, Scaled) for part in moved.parts)
    assert moved.parts[2].kernel.value == 0.5


def test_a_factor_of_the_whole_kernel_is_not_learned():
    assert len((2.0 * Gaussian(length_scale=1.0)).log_parameters()) == 1
    assert (2.0 * Gaussian(length_scale=1.0)).with_log_parameters(np.zeros(1)).factor == 2.0


def test_kernels_without_parameters_stay_as_they_are():
    for kernel in (Linear(), Spectrum(n=2), Delta()):
        assert kernel.log_parameters().size == 0
        assert kernel.with_log_parameters(np.zeros(0)) is kernel
    assert len(Sum((Linear(), Linear())).log_parameters()) == 2
