import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from definitions import ridge
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported, NumericalError
from kernelbandits.kernels import Gaussian, Linear, Polynomial, RandomFourier
from kernelbandits.kernels.fourier_features import Waves
from kernelbandits.posterior import PrimalPosterior


@pytest.mark.parametrize("regularization", [0.1, 1.0, 7.0])
def test_width_is_the_ridge_norm(regularization):
    rng = np.random.default_rng(0)
    contexts, queries = rng.normal(size=(30, 4)), rng.normal(size=(6, 4))
    posterior = PrimalPosterior(Linear(), regularization=regularization)

    posterior.observe(contexts, rng.normal(size=30))

    precision = contexts.T @ contexts + regularization * np.eye(4)
    squared = np.einsum("nd,dn->n", queries, np.linalg.solve(precision, queries.T))
    assert_allclose(posterior.predict(queries).width, np.sqrt(squared), rtol=1e-10)


def test_a_removed_giant_leaves_no_trace():
    """Subtracting the moments of a context of size 1e7 would leave errors of size 1e-2."""
    rng = np.random.default_rng(1)
    small, rewards, giant = rng.normal(size=(10, 3)), rng.normal(size=10), np.array([[1e7, -1e7, 3e6]])
    posterior = PrimalPosterior(Linear(), regularization=1e7)
    posterior.observe(np.vstack([small, giant]), np.append(rewards, 5.0))

    posterior.remove(giant, [5.0])

    mean, width = ridge(Linear(), small, rewards, small, 1e7)
    assert_allclose(posterior.predict(small).mean, mean, rtol=1e-9)
    assert_allclose(posterior.predict(small).width, width, rtol=1e-12)


def test_a_kernel_without_features_is_rejected():
    posterior = PrimalPosterior(Gaussian(length_scale=1.0), regularization=1.0)

    with pytest.raises(NotSupported, match="Gaussian has no finite feature map"):
        posterior.observe([[1.0]], [1.0])


def test_contexts_of_another_length_are_rejected_and_nothing_changes():
    posterior = PrimalPosterior(Linear(), regularization=1.0)
    posterior.observe([[1.0, 2.0]], [1.0])

    with pytest.raises(InvalidContexts, match="those learned before have 2"):
        posterior.observe([[1.0]], [1.0])
    with pytest.raises(InvalidContexts, match="those learned before have 2"):
        posterior.predict([[1.0]])

    assert posterior.n_observations == 1


def test_features_that_overflow_are_rejected_and_nothing_changes():
    posterior = PrimalPosterior(Polynomial(degree=3), regularization=1.0)
    posterior.observe([[1.0]], [1.0])

    with pytest.raises(InvalidContexts, match="overflow"):
        posterior.observe([[1e90]], [1.0])

    assert posterior.n_observations == 1
    assert np.isfinite(posterior.predict([[2.0]]).mean).all()


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("keep", [None, 10])
def test_a_regularization_that_is_lost_in_rounding_error_names_the_smallest_that_works(keep):
    points = np.array([[i, j] for i in range(8) for j in range(8)], dtype=float)

    def observe(regularization):
        posterior = PrimalPosterior(Polynomial(degree=2), regularization=regularization, keep=keep)
        for row in range(64):
            posterior.observe(points[[row]], [1.0])
            posterior.predict(points)

    with pytest.raises(NumericalError, match=r"1e-15 is too small .* Take a regularization of at least") as rejected:
        observe(1e-15)
    observe(float(re.search(r"at least (\S+)\.$", str(rejected.value))[1]))


def test_a_covariance_that_overflows_is_rejected():
    posterior = PrimalPosterior(Linear(), regularization=0.5)
    posterior.observe(np.eye(3), np.ones(3))

    with pytest.raises(InvalidContexts, match="overflow"):
        posterior.covariance(np.full((4, 3), 1e200))


@pytest.mark.parametrize("times", [1e308, 2**54, [1, 1, 1e200]])
def test_a_point_counts_a_number_of_times_that_a_float_holds(times):
    posterior = PrimalPosterior(Linear(), regularization=0.5)

    with pytest.raises(InvalidParameter, match="`times` must be at most 9,007,199,254,740,992"):
        posterior.observe(np.eye(3), np.ones(3), times=times)


def with_loops(n_features=2, **given):
    """A posterior with some observations, which uses its compiled loops."""
    rng = np.random.default_rng(0)
    posterior = PrimalPosterior(Linear(), regularization=0.3, **given)
    posterior.observe(rng.normal(size=(9, n_features)), rng.normal(size=9))
    assert posterior.supports_batch_play
    return posterior


@pytest.mark.parametrize(
    ("exploration", "largest"), [(-0.5, 1.0), (0.5, 1e150), (0.5, -1e150)], ids=["negative", "large", "large negative"]
)
def test_the_compiled_loop_plays_no_round_that_it_is_not_made_for(exploration, largest):
    posterior, rewards = with_loops(), np.ones((3, 4))
    rewards[2, 3] = largest
    rounds = np.random.default_rng(1).normal(size=(3, 4, 2))

    assert len(posterior._play(rounds, rewards, exploration)[0]) == 0
    assert posterior.n_observations == 9
    assert len(with_loops()._play(rounds, np.ones((3, 4)), 0.5)[0]) == 3  # control


def test_rounds_are_played_in_parts_of_a_limited_size(monkeypatch):
    """Features of 4,000,000 numbers are held in memory at a time: 80 rounds of 1,000 actions with 50 features."""
    rng = np.random.default_rng(1)
    rounds, rewards = rng.normal(size=(120, 1000, 3)), rng.normal(size=(120, 1000))
    kernel, sizes = RandomFourier(Gaussian(length_scale=1.0), n_columns=3, n_frequencies=25), []
    posterior, other = (PrimalPosterior(kernel, regularization=0.3) for _ in range(2))
    for each in (posterior, other):
        each.observe(rounds[0], rewards[0])
    halves = [other._play(rounds[half], rewards[half], 0.5) for half in (slice(60), slice(60, 120))]
    compute = Waves.features
    monkeypatch.setattr(Waves, "features", lambda waves, points: sizes.append(len(points)) or compute(waves, points))

    found = posterior._play(rounds, rewards, 0.5)

    assert len(found[0]) == 120
    assert max(sizes) == 80 * 1000
    for array, expected in zip(found, zip(*halves, strict=True), strict=True):
        np.testing.assert_allclose(array, np.concatenate(expected), rtol=1e-9)


@pytest.mark.parametrize("largest", [1e80, 1e160])
def test_the_compiled_loop_names_no_best_action_where_squares_are_too_large(largest):
    posterior, points = with_loops(), np.array([[1.0, 2.0], [largest, 0.0]])

    assert posterior._best(points, 0.5) is None
    assert posterior._best(points[:1], 0.5).row == 0  # control
