import numpy as np

from kernelbandits.posterior.sampling import draw_jointly


def test_draws_have_the_mean_and_the_covariance():
    root = np.array([[2.0, 0.0], [1.0, 0.5], [-1.0, 3.0]])

    draws = draw_jointly(np.array([1.0, -2.0, 300.0]), root @ root.T, 100_000, np.random.default_rng(0))

    np.testing.assert_allclose(draws.mean(axis=0), [1.0, -2.0, 300.0], atol=5 * 3.2 / np.sqrt(1e5))
    np.testing.assert_allclose(np.cov(draws.T), root @ root.T, atol=5 * 15 / np.sqrt(1e5))


def test_a_covariance_that_rounding_made_indefinite_is_drawn_from():
    covariance = np.full((3, 3), 1e-12) - np.diag([0.0, 0.0, 1e-15])

    draws = draw_jointly(np.zeros(3), covariance, 1_000, np.random.default_rng(0))

    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.std(axis=0), 1e-6, rtol=0.2)


def test_certainty_draws_the_mean():
    draws = draw_jointly(np.array([1.0, 2.0]), np.zeros((2, 2)), 3, np.random.default_rng(0))

    assert draws.tolist() == [[1.0, 2.0]] * 3
