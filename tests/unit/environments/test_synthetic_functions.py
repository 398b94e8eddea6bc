import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.environments import RKHSFunction
from kernelbandits.kernels import Gaussian, Linear, Polynomial


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.4), Linear(), Polynomial(degree=2, offset=0.5)])
def test_values_and_norm_are_the_definition(kernel, rng):
    centers, points, coefficients = rng.random((6, 2)), rng.random((4, 2)), rng.standard_normal(6)

    function = RKHSFunction(kernel, centers, coefficients)

    slow = [sum(c * kernel.gram([x], [z])[0, 0] for c, x in zip(coefficients, centers, strict=True)) for z in points]
    squared = sum(
        c * d * kernel.gram([x], [z])[0, 0]
        for c, x in zip(coefficients, centers, strict=True)
        for d, z in zip(coefficients, centers, strict=True)
    )
    assert_allclose(function(points), slow)
    assert_allclose(function.norm, np.sqrt(squared))


def test_the_norm_is_that_of_the_weights_for_explicit_features(rng):
    centers, coefficients = rng.random((6, 3)), rng.standard_normal(6)

    function = RKHSFunction(Linear(), centers, coefficients)

    assert_allclose(function.norm, np.linalg.norm(centers.T @ coefficients))


def test_scaling_scales_values_and_norm(rng):
    function = RKHSFunction(Gaussian(length_scale=0.4), rng.random((6, 2)), rng.standard_normal(6))
    points = rng.random((4, 2))

    higher = function.times(2.5)

    assert_allclose(higher(points), 2.5 * function(points))
    assert_allclose(higher.norm, 2.5 * function.norm)


def test_the_norm_of_an_almost_vanishing_function_is_a_number():
    centers = np.array([[0.3], [0.3 + 1e-9]])

    assert RKHSFunction(Gaussian(length_scale=1.0), centers, np.array([1.0, -1.0])).norm < 1e-6
