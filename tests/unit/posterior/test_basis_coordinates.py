import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior._basis import Coordinates

KERNEL = Gaussian(length_scale=0.3)


def taken_in(points, sizes):
    """Points in parts, each taken into the basis before its columns are appended."""
    coordinates, first, stayed = Coordinates(KERNEL, tolerance=1e-13), 0, []
    for size in sizes:
        part = points[first : first + size]
        stayed.append(coordinates.validate_learnable(part, points))
        coordinates.append(coordinates.basis.coordinates(part))
        first += size
    return coordinates, stayed


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_columns_reproduce_all_similarities_however_the_basis_came_about(spread):
    """Parts that lie apart only add rows; points between others make the basis choose again."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(120, 1)) + spread * 3.0 * np.repeat(np.arange(4), 30)[:, None]

    coordinates, stayed = taken_in(points, [30, 30, 30, 30])

    assert coordinates.columns.shape == (coordinates.rank, 120)
    assert_allclose(coordinates.columns.T @ coordinates.columns, KERNEL.gram(points), atol=1e-12)
    assert stayed[0] is False
    assert stayed[1:] == [True] * 3 if spread else not all(stayed[1:])


def test_kept_slots_keep_their_columns():
    points = np.random.default_rng(1).uniform(size=(40, 1))
    coordinates, _ = taken_in(points, [40])
    slots = np.array([3, 8, 21])

    coordinates.retain(slots)

    assert coordinates.n_slots == 3
    assert_allclose(coordinates.columns.T @ coordinates.columns, KERNEL.gram(points[slots]), atol=1e-12)
