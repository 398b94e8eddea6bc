"""Gradients of kernels with respect to a point: which kernels have them, and that they are those of differences."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits import Pairs
from kernelbandits.errors import InvalidContexts, NotSupported
from kernelbandits.kernels import (
    Columns,
    Constant,
    Cosine,
    Delta,
    FromCallable,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    PairProduct,
    PairSum,
    Polynomial,
    Precomputed,
    QuadratureFourier,
    RandomFourier,
    RationalQuadratic,
    Rows,
    Spectrum,
)
from kernelbandits.kernels.pairs import PairRows

RNG = np.random.default_rng(7)
KNOWN = np.vstack([RNG.normal(size=(6, 3)), np.zeros(3), 30.0 * RNG.normal(size=3)])
POINTS = RNG.normal(size=(4, 3))

DIFFERENTIABLE = {
    "gaussian": Gaussian(length_scale=0.7),
    "gaussian by column": Gaussian(length_scale=[0.5, 2.0, 9.0]),
    "laplacian by column": Laplacian(length_scale=[0.5, 2.0, 9.0]),
    "matern 1/2": Matern(smoothness=0.5, length_scale=3.0),
    "matern 3/2": Matern(smoothness=1.5, length_scale=0.4),
    "matern 5/2 by column": Matern(smoothness=2.5, length_scale=[0.5, 2.0, 9.0]),
    "rational quadratic": RationalQuadratic(length_scale=0.6, mixture=2.5),
    "linear": Linear(),
    "polynomial": Polynomial(degree=3, offset=0.7),
    "homogeneous polynomial": Polynomial(degree=2, offset=0.0),
    "degree 1": Polynomial(degree=1, offset=0.5),
    "cosine": Cosine(),
    "random fourier": RandomFourier(Matern(smoothness=1.5, length_scale=2.0), n_columns=3, n_frequencies=9),
    "quadrature fourier": QuadratureFourier(Gaussian(length_scale=2.0), extent=(2.0, 3.0, 0.5), accuracy=0.01),
    "columns, one of them twice": Columns(Polynomial(degree=2), [2, 0, 2]),
    "sum": Linear() + 0.3 * Polynomial(degree=2) + 0.5,
    "product": Cosine() * Polynomial(degree=2, offset=0.5) * Linear(),
    "normalized": Normalized(Polynomial(degree=2, offset=0.3)),
    "deep": 2.0 * (Gaussian(length_scale=1.0) + 0.5) * Normalized(Linear() + Columns(Linear(), [1]) + 0.1) + 3,
}


def differences(function, points, step=1e-6):
    """Central differences of a function of each point."""
    return np.column_stack(
        [
            (function(points + step * unit) - function(points - step * unit)) / (2.0 * step)
            for unit in np.eye(points.shape[1])
        ]
    )


@pytest.mark.parametrize("kernel", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_gradient_is_that_of_differences(kernel):
    weights = RNG.normal(size=(len(POINTS), len(KNOWN)))

    gradient = kernel.gradient(POINTS, KNOWN, weights)

    slopes = differences(lambda rows: (weights * kernel.gram(rows, KNOWN)).sum(axis=1), POINTS)
    assert np.abs(slopes).max() > 0.0
    assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("kernel", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_gradient_of_features_is_that_of_differences(kernel):
    n_features = kernel.n_features(POINTS)
    if n_features is None:
        with pytest.raises(NotSupported, match="can be differentiated"):
            kernel.feature_gradient(POINTS, np.ones((len(POINTS), 1)))
        return
    weights = RNG.normal(size=(len(POINTS), n_features))

    gradient = kernel.feature_gradient(POINTS, weights)

    slopes = differences(lambda rows: (weights * kernel.features(rows)).sum(axis=1), POINTS)
    assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


def test_a_constant_has_the_gradient_zero():
    assert np.array_equal(Constant(2.0).gradient(POINTS, KNOWN, np.ones((4, 8))), np.zeros((4, 3)))


PAIRS = {
    "product": PairProduct(Gaussian(length_scale=2.0), Matern(smoothness=2.5, length_scale=0.8)),
    "product of strings and rows": PairProduct(Spectrum(n=1), Gaussian(length_scale=0.8)),
    "product with features": PairProduct(Polynomial(degree=2, offset=0.5), Linear()),
    "sum with features": PairSum(Linear(), Polynomial(degree=2)),
    "composed": 2 * PairProduct(Linear(), Linear()) + Normalized(PairSum(Linear(), Gaussian(length_scale=1.0))) + 1,
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_gradient_of_pairs_is_with_respect_to_the_action(name, is_shared):
    kernel = PAIRS[name]
    contexts = ["ab", "ba", "bb", "aa"] if "strings" in name else RNG.normal(size=(4, 2))
    given = contexts[:1] if is_shared else contexts
    others = PairRows(contexts, RNG.normal(size=(4, 3)), is_shared=False)
    weights = RNG.normal(size=(4, 4))

    def value(rows):
        return (weights * kernel.gram(PairRows(given, rows, is_shared=is_shared), others)).sum(axis=1)

    gradient = kernel.gradient(PairRows(given, POINTS, is_shared=is_shared), others, weights)

    assert_allclose(gradient, differences(value, POINTS), rtol=1e-5, atol=1e-6)
    if kernel.n_features(others) is not None:
        own = RNG.normal(size=(4, kernel.n_features(others)))
        points = PairRows(given, POINTS, is_shared=is_shared)
        slopes = differences(
            lambda rows: (own * kernel.features(PairRows(given, rows, is_shared=is_shared))).sum(axis=1), POINTS
        )
        assert_allclose(kernel.feature_gradient(points, own), slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothness", [1.5, 2.5])
def test_far_from_zero_a_gradient_is_as_accurate_as_near_it(smoothness):
    kernel, weights = Matern(smoothness=smoothness, length_scale=0.5), RNG.normal(size=(4, 8))

    near, far = (kernel.gradient(POINTS + by, KNOWN + by, weights) for by in (0.0, 2.0**20))

    assert_allclose(far, near, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", [Laplacian(length_scale=1.0), Matern(smoothness=0.5, length_scale=1.0)])
def test_at_a_kink_the_gradient_is_finite_and_that_of_the_other_points(kernel):
    gradient = kernel.gradient(POINTS[:1], POINTS, np.ones((1, 4)))

    assert_allclose(gradient, kernel.gradient(POINTS[:1], POINTS[1:], np.ones((1, 3))), atol=1e-12)


@dataclass(frozen=True, kw_only=True, repr=False)
class Squared(Gaussian):
    """A subclass with a `gram` of its own: the inherited gradient would be wrong."""

    def gram(self, first, second=None):
        return super().gram(first, second) ** 2


@dataclass(frozen=True, kw_only=True, repr=False)
class SquaredLaplacian(Laplacian):
    def gram(self, first, second=None):
        return super().gram(first, second) ** 2


REFUSED = {
    "strings": (Spectrum(n=2), ["ab", "ba"]),
    "a table": (Precomputed(np.eye(3)), [0, 1]),
    "a function": (FromCallable(lambda first, second: first @ second.T), POINTS),
    "a step": (Delta(kind=Rows()), POINTS),
    "part of a sum": (Linear() + Delta(kind=Rows()), POINTS),
    "a subclass": (Squared(length_scale=1.0), POINTS),
    "another subclass": (SquaredLaplacian(length_scale=1.0), POINTS),
    "actions of pairs": (PairProduct(Linear(), Spectrum(n=2)), Pairs([1.0], ["ab", "ba"])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_without_gradients_says_so_and_what_to_do(name):
    kernel, points = REFUSED[name]
    points = kernel.kind.check(points)
    n_points = kernel.kind.count(points)

    with pytest.raises(NotSupported, match=r"can be differentiated, got .*kb\.Catalog"):
        kernel.gradient(points, points, np.ones((n_points, n_points)))


def test_sparse_rows_have_no_gradient():
    with pytest.raises(InvalidContexts, match="toarray"):
        Gaussian(length_scale=1.0).gradient(csr_array(POINTS), csr_array(KNOWN), np.ones((4, 8)))
