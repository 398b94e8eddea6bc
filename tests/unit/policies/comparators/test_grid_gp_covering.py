from itertools import combinations

import numpy as np
import pytest

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.policies.comparators.grid_gp import spread_rows


def left(points, rows):
    """The largest distance of any point to those rows."""
    return np.linalg.norm(points[:, None] - points[list(rows)], axis=2).min(axis=1).max()


def test_each_row_is_the_farthest_from_those_before():
    points = np.random.default_rng(0).normal(size=(40, 3))

    rows = spread_rows(Linear(), points, 12)

    assert rows[0] == 0
    for place in range(1, 12):
        apart = np.linalg.norm(points[:, None] - points[rows[:place]], axis=2).min(axis=1)
        assert rows[place] == int(np.argmax(apart))


@pytest.mark.parametrize("n_points", [1, 2, 3])
def test_what_is_left_is_at_most_twice_the_least_possible(n_points):
    points = np.random.default_rng(1).uniform(size=(12, 2))
    least = min(left(points, rows) for rows in combinations(range(12), n_points))

    assert left(points, spread_rows(Linear(), points, n_points)) <= 2.0 * least


def test_the_first_rows_can_leave_far_more():
    """Negative control of the test above."""
    points = np.vstack([np.random.default_rng(2).uniform(size=(10, 2)), [[9.0, 9.0]]])

    assert left(points, range(3)) > 2.0 * left(points, spread_rows(Linear(), points, 3))


def test_duplicates_are_taken_once():
    points = np.array([[0.3], [1e8], [0.3], [1e8], [0.3]])

    assert spread_rows(Linear(), points, 5).tolist() == [0, 1]
    assert spread_rows(Spectrum(n=1), ["a", "a", "b"], 9).tolist() == [0, 2]


def test_one_point_is_enough():
    assert spread_rows(Gaussian(length_scale=1.0), np.zeros((1, 2)), 4).tolist() == [0]


def test_similarities_that_overflow_are_rejected():
    with pytest.raises(InvalidContexts, match="overflow"):
        spread_rows(Linear(), np.array([[1e200], [0.0]]), 2)
