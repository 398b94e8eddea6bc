import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.posterior._basis import Basis

KERNEL = Gaussian(length_scale=0.3)
POINTS = np.random.default_rng(0).uniform(size=(300, 1))


def weights(basis, points):
    return np.linalg.solve(basis.lower.T, basis.coordinates(points))


def test_coordinates_reproduce_the_similarities_of_all_that_was_included():
    basis = Basis(KERNEL, tolerance=1e-13)

    basis.include(POINTS)

    coordinates = basis.coordinates(POINTS)
    assert basis.size < 30
    assert_allclose(coordinates.T @ coordinates, KERNEL.gram(POINTS), atol=2e-13)
    assert_allclose(basis.lower @ basis.lower.T, KERNEL.gram(basis.points), atol=1e-14)
    assert not len(basis.outside(coordinates, KERNEL.diagonal(POINTS))[0])


def test_points_in_order_of_arrival_keep_moderate_weights():
    """Appending whatever lies outside would let them grow into the millions."""
    basis = Basis(KERNEL, tolerance=1e-13)
    n_chosen_again = 0

    for point in np.vstack([POINTS * 0.5, POINTS, POINTS * 2.0 - 0.5]):
        point = point[None]
        if len(basis.outside(basis.coordinates(point), np.ones(1))[0]):
            n_chosen_again += basis.size > 0 and basis.include(point) == 0
            if basis.size == 0:
                basis.include(point)

    assert n_chosen_again > 0
    assert np.abs(weights(basis, POINTS)).sum(axis=0).max() < 1000.0
    coordinates = basis.coordinates(POINTS)
    assert_allclose(coordinates.T @ coordinates, KERNEL.gram(POINTS), atol=5e-12)


def test_more_coordinates_continue_those_known():
    basis = Basis(KERNEL, tolerance=1e-10)
    basis.append(POINTS[:4])
    known = basis.coordinates(POINTS)

    first = basis.append(POINTS[4:9] + 1.0)

    assert first == len(known)
    rows = np.vstack([known, basis.more_coordinates(known, POINTS)])
    assert_allclose(rows, basis.coordinates(POINTS), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_tolerance_is_a_share_of_the_points_own_similarity(scale):
    basis = Basis(Linear(), tolerance=1e-13)
    rows = scale * np.random.default_rng(1).normal(size=(50, 3))
    rows[7] = 0.0

    basis.include(rows)

    assert basis.size == 3
    assert not len(basis.outside(basis.coordinates(rows), Linear().diagonal(rows))[0])


def test_nothing_is_appended_where_nothing_is_outside():
    basis = Basis(Linear(), tolerance=1e-13)
    basis.include(np.eye(3))

    assert basis.append(np.ones((2, 3))) == 3
    assert basis.size == 3
