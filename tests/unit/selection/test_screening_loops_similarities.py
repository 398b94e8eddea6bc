import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian, Matern
from kernelbandits.selection import _screening_loops as loops
from kernelbandits.selection._screening_loops import screening_loops

KERNELS = [Gaussian(length_scale=1.0), *(Matern(smoothness=nu, length_scale=1.0) for nu in (0.5, 1.5, 2.5))]


screening_loops.ensure()
FORMS = {
    "rows": (screening_loops.rows, loops.rows_loop),
    "scan": (screening_loops.scan, loops.scan_loop),
}
"""Compiled, and the same in Python."""


def make_problem(rng, n_actions, n_known, n_columns):
    points, known = rng.normal(size=(n_actions, n_columns)), rng.normal(size=(n_known, n_columns))
    columns = np.full((n_columns, n_known + 5), np.nan)  # room to spare holds no numbers
    columns[:, :n_known] = known.T
    return points, known, columns


@pytest.mark.parametrize("profile", range(4))
@pytest.mark.parametrize(("n_known", "n_columns"), [(1, 1), (13, 4), (700, 7), (loops.BLOCK, 10), (1500, 3)])
@pytest.mark.parametrize("form", FORMS["rows"])
def test_rows_are_those_of_the_kernel(form, profile, n_known, n_columns):
    rng = np.random.default_rng(n_known)
    points, known, columns = make_problem(rng, 4, n_known, n_columns)
    points[1] = known[0]
    roots, result = np.sqrt(rng.integers(1, 5, size=n_known)), np.empty((4, n_known))

    form(points, columns, n_known, roots, profile, result)

    assert_allclose(result, KERNELS[profile].gram(points, known) * roots, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("profile", range(4))
@pytest.mark.parametrize(("n_known", "n_columns"), [(1, 1), (13, 4), (700, 7), (loops.BLOCK, 10), (1500, 3)])
@pytest.mark.parametrize("form", FORMS["scan"])
def test_a_scan_sums_over_the_kernel(form, profile, n_known, n_columns):
    rng = np.random.default_rng(n_known)
    points, known, columns = make_problem(rng, 6, n_known, n_columns)
    weights, shares = rng.normal(size=n_known), rng.uniform(size=n_known)
    mean, nearest = np.full(6, np.nan), np.full(6, np.nan)

    narrow = points.astype(np.float32), columns.astype(np.float32)
    for start, stop in [(0, 2), (2, 6)]:
        form(*narrow, n_known, weights, shares.astype(np.float32), profile, mean, nearest, start, stop)

    similarity = KERNELS[profile].gram(points, known)
    assert_allclose(mean, similarity @ weights, rtol=0, atol=2e-6 * np.abs(weights).sum())
    assert_allclose(nearest, (similarity**2 * shares).max(axis=1), rtol=0, atol=4e-6)


def test_exp_is_exact_to_the_last_digits():
    distances = np.sqrt(2.0 * np.concatenate([np.linspace(0.0, 2.0, 20_001), np.linspace(2.0, 690.0, 50_001)]))
    result = np.empty((1, len(distances)))

    screening_loops.rows(np.zeros((1, 1)), distances[None], len(distances), np.ones(len(distances)), 0, result)

    exact = np.exp(-0.5 * distances.astype(np.longdouble) ** 2)
    relative = np.abs((result[0] - exact) / exact)
    assert relative[:20_001].max() < 1e-15
    assert (relative / np.maximum(1.0, 0.5 * distances**2)).max() < 1e-15  # the square alone is rounded


def test_what_is_far_away_counts_nothing():
    result = np.empty((1, 2))

    screening_loops.rows(np.zeros((1, 1)), np.array([[100.0, 1e150]]), 2, np.ones(2), 0, result)

    assert (result < 1e-300).all()
    assert (result >= 0.0).all()
