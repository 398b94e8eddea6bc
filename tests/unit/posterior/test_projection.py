import numpy as np
import pytest
from numpy.testing import assert_allclose

from interrupts import interrupted_everywhere
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import NystroemPosterior, ResidualDictionary
from kernelbandits.posterior._projection import FEW_POINTS
from kernelbandits.posterior._projection_loops import describe_loop, projection_loops, substitute_loop


def lower(rng, size, capacity):
    """A lower triangle in the corner of a matrix of numbers that must not be read."""
    rows = np.full((capacity, capacity), np.nan)
    rows[:size, :size] = np.tril(rng.normal(size=(size, size)))
    rows[np.diag_indices(size)] = rng.uniform(1.0, 2.0, size=size)
    upper = np.triu_indices(size, 1)
    rows[upper] = np.nan
    return rows


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 30])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_substitution_solves_the_triangle_in_the_corner(size, n):
    rng = np.random.default_rng(size)
    triangle, right = lower(rng, size, size + 3), rng.normal(size=(n, size))

    solved = right.copy()
    substitute_loop(triangle, solved)

    assert_allclose(solved @ np.tril(triangle[:size, :size]).T, right, atol=1e-9)


def test_means_and_explained_widths_are_those_of_the_formulas():
    rng = np.random.default_rng(3)
    changes, target, whitened = rng.normal(size=(6, 9)), rng.normal(size=5), rng.normal(size=(4, 5))
    changed, found = np.empty((4, 3)), np.empty((2, 4))

    describe_loop(changes * 0.1, target, whitened, changed, found)

    used = 0.1 * changes[:3, :5]
    assert_allclose(changed, whitened @ used.T)
    assert_allclose(found[0], whitened @ target)
    assert_allclose(found[1], (whitened**2).sum(axis=1) - (changed**2).sum(axis=1))
    describe_loop(changes * 100.0, target, whitened, changed, found)
    assert (found[1] == 0.0).all()  # rounding can make it negative


def posteriors(n_points):
    """A posterior whose dictionary has grown point by point, and was queried on the way."""
    rng = np.random.default_rng(0)
    posterior = NystroemPosterior(
        Gaussian(length_scale=0.6), regularization=0.3, dictionary=ResidualDictionary(size=60, tolerance=0.01)
    )
    for point in rng.uniform(size=(n_points, 3)):
        posterior.observe(point[None], [np.sin(4.0 * point[0])])
        posterior.predict(rng.uniform(size=(2, 3)))
    return posterior


@pytest.mark.parametrize("n_points", [3, 40, 300])
def test_compiled_and_numpy_queries_agree(n_points, monkeypatch):
    projection_loops.ensure()
    compiled = posteriors(n_points)
    queries = np.random.default_rng(1).uniform(size=(FEW_POINTS, 3))
    fast = compiled.predict(queries)

    monkeypatch.setattr(projection_loops, "is_compiled", False)
    slow = posteriors(n_points)
    assert slow.certificate.n_atoms == compiled.certificate.n_atoms
    assert_allclose(fast.mean, slow.predict(queries).mean, atol=1e-10)
    assert_allclose(fast.width, slow.predict(queries).width, rtol=1e-9)
    assert_allclose(compiled._predict(queries)[0], fast.mean, atol=1e-10)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_atoms_that_are_rolled_back_are_not_read_again(is_compiled, monkeypatch):
    """The copy of the factor for queries must not keep the row of an atom that is gone."""
    if is_compiled:
        projection_loops.ensure()
    else:
        monkeypatch.setattr(projection_loops, "is_compiled", False)
    posterior = NystroemPosterior(Gaussian(length_scale=0.2), regularization=0.3)
    posterior.observe([[0.1], [0.5]], [1.0, 0.0])
    mark = posterior._projection.mark()
    point, other = np.array([[0.9]]), np.array([[0.7]])
    located = posterior._locate(other)
    posterior._projection.append_one(point, posterior._locate(point), np.zeros(2), 0.0, 0.0)
    posterior._locate(point)  # copies the factor with the new row

    posterior._projection.put_back(mark)
    posterior._projection.append_one(other, located, np.zeros(2), 0.0, 0.0)

    atoms = np.array([[0.1], [0.5], [0.7]])
    coordinates, residual = posterior._projection.coordinates(atoms, np.ones(3))
    assert_allclose(coordinates.T @ coordinates, posterior.kernel.gram(atoms), atol=1e-12)
    assert_allclose(residual, 0.0, atol=1e-12)


def test_an_interrupted_atom_leaves_no_part_of_a_row_in_the_factors():
    point, other, queries = np.full((1, 3), 0.9), np.full((1, 3), 0.1), np.random.default_rng(2).uniform(size=(5, 3))
    expected = {}
    for is_learned in (False, True):
        posterior = posteriors(12)
        if is_learned:
            posterior.observe(point, [0.3])
        n_observations = posterior.n_observations
        posterior.observe(other, [-0.2])
        expected[n_observations] = posterior.predict(queries)

    outcomes, within = set(), "posterior/cholesky.py"
    for target in interrupted_everywhere(
        lambda: posteriors(12), lambda made: made.observe(point, [0.3]), within=within
    ):
        outcomes.add(target.n_observations)
        wanted = expected[target.n_observations]
        target.observe(other, [-0.2])
        found = target.predict(queries)
        assert_allclose((found.mean, found.width), (wanted.mean, wanted.width), rtol=1e-8)

    assert min(outcomes) == min(expected)
