import numpy as np
import pytest

from kernelbandits.kernels import Gaussian, Linear, Polynomial, QuadratureFourier, RandomFourier
from kernelbandits.posterior import AutoPosterior, ExactPosterior, PrimalPosterior
from kernelbandits.posterior.sampling import draw_paths, feature_map, has_feature_map


def history(n_observations=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(12, 2))[rng.integers(12, size=n_observations)], rng.normal(size=n_observations)


def observed(make, kernel, regularization=0.3):
    posterior = make(kernel, regularization=regularization)
    posterior.observe(*history())
    return posterior


QUADRATURE = QuadratureFourier(Gaussian(length_scale=2.0), extent=[4.0, 4.0], accuracy=0.5)

CASES = [
    (ExactPosterior, 2.0 * Gaussian(length_scale=0.7)),
    (AutoPosterior, Gaussian(length_scale=0.7)),
    (PrimalPosterior, Linear() + 0.5),
    (AutoPosterior, Polynomial(degree=2)),
]


@pytest.mark.parametrize(("make", "kernel"), CASES)
def test_weights_are_those_of_the_definition(make, kernel):
    posterior = observed(make, kernel)
    points, _, counts, _ = posterior.support()
    values = np.random.default_rng(1).normal(size=(len(counts), 4))

    weights = posterior.weights_for(values)

    system = kernel.gram(points) + 0.3 * np.diag(1.0 / counts)
    np.testing.assert_allclose(weights, np.linalg.solve(system, values), rtol=1e-6, atol=1e-8)


def test_weights_leave_out_what_was_taken_back():
    posterior = observed(ExactPosterior, Gaussian(length_scale=0.7))
    contexts, rewards = history()
    gone = (contexts == contexts[0]).all(axis=1)
    posterior.remove(contexts[gone], rewards[gone])
    _, expected, counts, sums = posterior.support()

    weights = posterior.weights_for((sums / counts)[:, None])

    np.testing.assert_allclose(weights[:, 0], expected, rtol=1e-7)


@pytest.mark.parametrize("spread", [1.0, 0.3])
@pytest.mark.parametrize(("make", "kernel"), [*CASES[:2], (ExactPosterior, Linear() + 0.5)])
def test_the_correction_is_exact_given_the_prior_draw(make, kernel, spread):
    posterior, queries = observed(make, kernel), np.random.default_rng(2).normal(size=(9, 2))
    prior = feature_map(kernel, queries, 50, np.random.default_rng(3))

    paths = draw_paths(posterior, 3, prior=prior, rng=np.random.default_rng(4), spread=spread)

    # The definition over distinct points with mean rewards, with the numbers that the generator gives in this order.
    points, _, counts, sums = posterior.support()
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((prior.n_features, 3))
    noise = np.sqrt(0.3 / counts)[:, None] * rng.standard_normal((len(counts), 3))
    surprise = (sums / counts)[:, None] - spread * (prior.features(points) @ weights + noise)
    system = kernel.gram(points) + 0.3 * np.diag(1.0 / counts)
    expected = spread * prior.features(queries) @ weights
    expected += kernel.gram(queries, points) @ np.linalg.solve(system, surprise)
    np.testing.assert_allclose(paths.at(queries), expected.T, rtol=1e-6, atol=1e-7)


def moments_in_standard_errors(paths_at, mean, covariance):
    n_draws = len(paths_at)
    standard = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)) + covariance**2) / np.sqrt(n_draws)
    off_mean = np.abs(paths_at.mean(axis=0) - mean) / np.sqrt(np.diagonal(covariance) / n_draws)
    return max(off_mean.max(), (np.abs(np.cov(paths_at.T) - covariance) / standard).max())


@pytest.mark.parametrize("pending", [None, [[0.1, 0.2], [0.1, 0.2], [5.0, 5.0]]])
def test_draws_by_exact_features_have_the_posterior_moments(pending):
    """A kernel with features of its own has no approximation; pending points narrow it and do not move it."""
    kernel = Linear() + 0.5
    posterior, queries = observed(AutoPosterior, kernel), np.array([[0.1, 0.2], [1.0, -1.0]])
    prior = feature_map(kernel, queries, 50, np.random.default_rng(3))
    whole = posterior.copy()
    if pending is not None:
        whole.observe(pending, np.zeros(3))
    covariance = 0.7**2 * 0.3 * whole.covariance(queries)

    draws = draw_paths(posterior, 100_000, prior=prior, rng=np.random.default_rng(6), spread=0.7, pending=pending).at(
        queries
    )

    assert moments_in_standard_errors(draws, posterior.predict(queries).mean, covariance) < 5.0
    assert moments_in_standard_errors(draws, posterior.predict(queries).mean, 1.1 * covariance) > 5.0


@pytest.mark.parametrize(
    "kernel", [QUADRATURE, RandomFourier(Gaussian(length_scale=2.0), n_columns=2, n_frequencies=2)]
)
@pytest.mark.parametrize("keep", [None, 2])
def test_draws_in_feature_space_have_the_posterior_moments_also_of_merged_points(kernel, keep):
    posterior, queries = PrimalPosterior(kernel, regularization=0.3, keep=keep), np.array([[0.1, 0.2], [1.0, -1.0]])
    posterior.observe(*history())
    posterior.predict(queries)
    whole = posterior.copy()
    whole.observe([[0.5, 0.5]], [0.0], times=3)
    covariance = 0.7**2 * 0.3 * whole.covariance(queries)
    prior = feature_map(kernel, queries, 50, np.random.default_rng(3))

    draws = draw_paths(
        posterior, 100_000, prior=prior, rng=np.random.default_rng(6), spread=0.7, pending=[[0.5, 0.5]], times=[3]
    ).at(queries)

    assert (posterior.n_merged > 0) == (keep is not None)
    assert moments_in_standard_errors(draws, posterior.predict(queries).mean, covariance) < 5.0
    assert moments_in_standard_errors(draws, posterior.predict(queries).mean, 1.1 * covariance) > 5.0


def test_before_any_observation_the_prior_is_drawn():
    kernel, queries = Gaussian(length_scale=0.7), np.zeros((1, 2))
    posterior = ExactPosterior(kernel, regularization=0.3)
    prior = feature_map(kernel, queries, 50, np.random.default_rng(3))

    draws = draw_paths(posterior, 10_000, prior=prior, rng=np.random.default_rng(4)).at(queries)

    assert abs(draws.std() - 1.0) < 0.05


def test_only_kernels_with_features_have_a_map():
    rows = np.zeros((1, 2))

    assert has_feature_map(Gaussian(length_scale=1.0), rows)
    assert has_feature_map(Linear(), rows)
    assert not has_feature_map(Gaussian(length_scale=1.0) + Linear(), rows)


def test_a_point_that_is_pending_twice_is_as_good_as_two_points():
    kernel, queries = Gaussian(length_scale=0.7), np.array([[0.1, 0.2], [1.0, -1.0]])
    posterior = observed(ExactPosterior, kernel)
    prior = feature_map(kernel, queries, 20, np.random.default_rng(3))
    once, twice = [0.1, 0.2], [5.0, 5.0]

    listed, counted = (
        draw_paths(posterior, 4, prior=prior, rng=np.random.default_rng(6), pending=pending, times=times).at(queries)
        for pending, times in (([once, twice, twice], 1), ([once, twice], [1, 2]))
    )

    np.testing.assert_allclose(counted, listed, rtol=1e-12)
