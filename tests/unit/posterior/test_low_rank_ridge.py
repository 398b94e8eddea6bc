import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.posterior.low_rank import RidgeRoot

RNG = np.random.default_rng(0)
COORDINATES, COUNTS, SUMS = RNG.normal(size=(6, 20)), RNG.integers(0, 4, size=20).astype(float), RNG.normal(size=20)


def assert_is_ridge(ridge, coordinates, counts, sums):
    precision = (coordinates * counts) @ coordinates.T + ridge.regularization * np.eye(len(coordinates))
    assert_allclose(ridge.root.T @ ridge.root, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    assert_allclose(ridge.weights, np.linalg.solve(precision, coordinates @ sums), rtol=1e-9, atol=1e-11)
    gain = np.linalg.slogdet(precision / ridge.regularization)[1]
    assert_allclose(ridge.log_det_gain, gain, rtol=1e-11)
    assert_allclose(ridge.trace, np.trace(precision) - len(precision) * ridge.regularization)


@pytest.mark.parametrize("regularization", [1e-3, 0.7, 30.0])
def test_it_is_made_changed_and_widened_as_by_definition(regularization):
    ridge = RidgeRoot(COORDINATES[:4, :15], COUNTS[:15], SUMS[:15], regularization=regularization)
    assert_is_ridge(ridge, COORDINATES[:4, :15], COUNTS[:15], SUMS[:15])

    for place in range(15, 20):
        ridge.add(COORDINATES[:4, place].copy(), COUNTS[place] + 1.0, SUMS[place])
    counts = COUNTS + (np.arange(20) >= 15)
    assert_is_ridge(ridge, COORDINATES[:4], counts, SUMS)
    assert ridge.n_changes == 5

    ridge.widen(COORDINATES, counts, SUMS)
    assert_is_ridge(ridge, COORDINATES, counts, SUMS)

    ridge.retarget(COORDINATES, SUMS[::-1])
    assert_is_ridge(ridge, COORDINATES, counts, SUMS[::-1])


def test_a_point_without_length_changes_nothing():
    ridge = RidgeRoot(COORDINATES, COUNTS, SUMS, regularization=0.5)

    ridge.add(np.zeros(6), 1.0, 1.0)

    assert_is_ridge(ridge, COORDINATES, COUNTS, SUMS)


def test_ten_thousand_changes_keep_their_digits():
    ridge = RidgeRoot(COORDINATES, COUNTS, SUMS, regularization=1e-3)
    columns, rewards = RNG.normal(size=(6, 10_000)), RNG.normal(size=10_000)

    for place in range(10_000):
        ridge.add(columns[:, place].copy(), 1.0, rewards[place])

    everything = np.hstack([COORDINATES, columns])
    assert_is_ridge(ridge, everything, np.append(COUNTS, np.ones(10_000)), np.append(SUMS, rewards))
