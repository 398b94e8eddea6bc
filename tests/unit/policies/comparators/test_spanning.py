import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidContexts
from kernelbandits.policies.comparators.spanning import coordinates_of, spanning_rows


def furthest_first(points):
    """Greedy volume by its definition: the row that makes the Gram determinant with those chosen largest."""
    chosen = []
    while True:
        volumes = [
            0.0 if row in chosen else np.linalg.det(points[[*chosen, row]] @ points[[*chosen, row]].T)
            for row in range(len(points))
        ]
        if len(chosen) == points.shape[1] or max(volumes) < 1e-12:
            return chosen
        chosen.append(int(np.argmax(volumes)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (9, 1), (3, 5), (30, 4)])
def test_spanning_rows_are_those_of_greatest_volume_step_by_step(seed, shape):
    points = np.random.default_rng(seed).normal(size=shape)

    assert spanning_rows(points).tolist() == furthest_first(points)


def test_duplicates_zeros_and_combinations_are_left_out():
    points = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])

    assert spanning_rows(points).tolist() == [1, 3]


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_the_unit_of_the_features_does_not_matter(scale):
    points = np.random.default_rng(0).normal(size=(12, 3))

    rows = spanning_rows(scale * points)

    assert rows.tolist() == spanning_rows(points).tolist()
    assert_allclose(coordinates_of(scale * points, rows), coordinates_of(points, rows), rtol=1e-9, atol=1e-9)


def test_near_dependence_is_seen_down_to_the_tolerance():
    points = np.array([[1.0, 0.0], [1.0, 1e-6], [1.0, 1e-13]])

    assert spanning_rows(points).tolist() == [0, 1]
    assert spanning_rows(points[[0, 2]]).tolist() == [0]
    assert spanning_rows(np.array([[1.0, 0.0], [1.0, 4.5e-10], [1.0, 5e-10]])).tolist() == [0, 2]


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_coordinates_give_every_point_back(rank):
    rng = np.random.default_rng(rank)
    points = rng.normal(size=(25, rank)) @ rng.normal(size=(rank, 4))

    rows = spanning_rows(points)
    coordinates = coordinates_of(points, rows)

    assert len(rows) == rank
    assert_allclose(coordinates @ points[rows], points, atol=1e-9)
    assert_allclose(coordinates[rows], np.eye(rank))


def test_actions_that_are_all_zero_are_rejected():
    with pytest.raises(InvalidContexts, match="All 3 actions are zero"):
        spanning_rows(np.zeros((3, 2)))
