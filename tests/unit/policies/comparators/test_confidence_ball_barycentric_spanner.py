import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.comparators.confidence_ball import barycentric_spanner
from kernelbandits.policies.comparators.spanning import spanning_rows


def largest_coefficient(points, rows):
    """By definition: every point solved for as a combination of the chosen ones."""
    coefficients, *_ = np.linalg.lstsq(points[rows].T, points.T, rcond=None)
    np.testing.assert_allclose(points[rows].T @ coefficients, points.T, atol=1e-8 * np.abs(points).max())
    return np.abs(coefficients).max()


def skewed(seed, n_points, n_features):
    """Heavy tails: a few long points, many short ones."""
    rng = np.random.default_rng(seed)
    return rng.standard_t(1.5, size=(n_points, n_features))


@pytest.mark.parametrize("factor", [1.05, 2.0, 10.0])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (40, 3), (300, 8), (5, 9)])
@pytest.mark.parametrize("seed", range(3))
def test_every_point_is_a_combination_with_small_coefficients(factor, shape, seed):
    points = skewed(seed, *shape)

    rows = barycentric_spanner(points, factor=factor)

    assert len(set(rows.tolist())) == len(rows) == min(shape)
    assert largest_coefficient(points, rows) <= factor * (1 + 1e-8)


def test_points_in_a_part_of_the_space_have_the_spanner_of_that_part():
    points = skewed(0, 50, 3) @ np.random.default_rng(1).normal(size=(3, 7))

    rows = barycentric_spanner(points)

    assert len(rows) == 3
    assert largest_coefficient(points, rows) <= 2 + 1e-8


def misleading(n_features, sine):
    """Kahan's triangle, whose rows greedy volume takes all, and a row that is a combination with huge coefficients."""
    cosine = np.sqrt(1 - sine**2)
    above = np.triu(np.ones((n_features, n_features)), 1)
    triangle = np.diag(sine ** np.arange(n_features)) @ (np.eye(n_features) - cosine * above)
    sides = np.diagonal(triangle)
    just_shorter = 0.97 * np.sqrt(sides**2 - np.append(sides[1:], 0.0) ** 2)
    return np.vstack([triangle.T, just_shorter])


@pytest.mark.parametrize(("n_features", "sine", "coefficient"), [(5, 0.8, 4.0), (8, 0.9, 7.0), (12, 0.8, 100.0)])
def test_swaps_correct_what_greedy_volume_gets_wrong(n_features, sine, coefficient):
    """Negative control included: without swaps the promise is broken, and the check notices."""
    points = misleading(n_features, sine)

    rows = barycentric_spanner(points)

    assert largest_coefficient(points, rows) <= 2 + 1e-8
    assert largest_coefficient(points, spanning_rows(points)) > coefficient


def test_a_place_may_change_hands_more_than_once():
    points = np.random.default_rng(28).normal(size=(200, 10))
    points /= np.linalg.norm(points, axis=1)[:, None]

    rows = barycentric_spanner(points, factor=1.05)

    assert largest_coefficient(points, rows) <= 1.05 + 1e-8


def test_duplicates_and_zeros_do_no_harm():
    points = np.vstack([np.zeros((2, 3)), np.eye(3), np.eye(3)])

    assert sorted(barycentric_spanner(points).tolist()) == [2, 3, 4]


@pytest.mark.parametrize("factor", [1.0, 0.5, np.nan])
def test_a_factor_that_may_never_be_reached_is_rejected(factor):
    with pytest.raises(InvalidParameter, match="factor of a barycentric spanner"):
        barycentric_spanner(np.eye(2), factor=factor)
