import numpy as np
import pytest
from numpy.testing import assert_allclose

from definitions import log_det_gain, ridge
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.posterior import ExactPosterior, Pending, PrimalPosterior
from kernelbandits.posterior.base import References

RNG = np.random.default_rng(0)
OBSERVED, PENDING, QUERIES = RNG.uniform(size=(15, 2)), RNG.uniform(size=(4, 2)), RNG.uniform(size=(6, 2))
KERNEL, GAMMA = Gaussian(length_scale=0.5), 0.2


def observed():
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)
    posterior.observe(OBSERVED, RNG.normal(size=15))
    return posterior


def test_the_log_determinant_counts_observed_and_pending():
    posterior = observed()

    pending = Pending(posterior, PENDING)

    both = log_det_gain(KERNEL, np.vstack([OBSERVED, PENDING]), GAMMA)
    assert_allclose(posterior.log_det_gain + pending.log_det_gain, both, rtol=1e-12)


def test_the_inflation_is_that_of_the_observed_widths():
    posterior = observed()

    pending = Pending(posterior, PENDING)

    assert_allclose(pending.inflation, np.sqrt(1.0 + (posterior.predict(PENDING).width ** 2).sum()), rtol=1e-12)


def test_the_inflated_width_is_never_below_the_observed_one():
    """Oracle 17: width_observed² ≤ (1 + Σ width_observed²) · width_with_pending²."""
    posterior = observed()
    pending = Pending(posterior, PENDING)

    narrow = posterior.predict(QUERIES, pending=PENDING).width

    assert (posterior.predict(QUERIES).width <= pending.inflation * narrow * (1 + 1e-9)).all()


def test_pending_points_alone_shrink_the_prior():
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)

    prediction = posterior.predict(QUERIES, pending=PENDING)

    _, width = ridge(KERNEL, PENDING, np.zeros(4), QUERIES, GAMMA)
    assert_allclose(prediction.mean, 0.0)
    assert_allclose(prediction.width, width, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("scale", [2.0**32, 2.0**64, 1e100])
def test_rounding_of_huge_contexts_does_not_stop_what_is_pending(scale):
    rng = np.random.default_rng(0)
    posterior = PrimalPosterior(Linear(), regularization=0.5)
    posterior.observe(rng.normal(size=(4, 3)), np.ones(4))

    waiting = Pending(posterior, scale * np.arange(12.0).reshape(4, 3))

    assert np.isfinite(waiting.inflation)
    assert np.isfinite(waiting.log_det_gain)


def test_contexts_whose_similarities_overflow_cannot_be_pending():
    posterior = PrimalPosterior(Linear(), regularization=0.5)
    posterior.observe(np.eye(3), np.ones(3))

    with pytest.raises(InvalidContexts, match="overflow"):
        Pending(posterior, np.full((4, 3), 1e200))


@pytest.mark.parametrize("n_queries", [6, 450_000])  # the latter in chunks
def test_widths_are_those_of_observed_and_pending_points(n_queries):
    rng = np.random.default_rng(1)
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)
    rewards, counts = rng.normal(size=15), rng.integers(1, 4, size=15)
    posterior.observe(OBSERVED, rewards, times=counts)
    times = np.array([1.0, 3.0, 1.0, 2.0])

    queries = rng.uniform(size=(n_queries, 2))

    prediction = Pending(posterior, PENDING, times).estimate(queries)

    found = slice(None, None, max(1, n_queries // 50))
    seen = np.vstack([np.repeat(OBSERVED, counts, axis=0), np.repeat(PENDING, times.astype(int), axis=0)])
    _, width = ridge(KERNEL, seen, np.zeros(len(seen)), queries[found], GAMMA)
    mean, _ = ridge(KERNEL, np.repeat(OBSERVED, counts, axis=0), np.repeat(rewards, counts), queries[found], GAMMA)
    assert_allclose(prediction.width[found], width, rtol=1e-9)
    assert_allclose(prediction.mean[found], mean, rtol=1e-9, atol=1e-12)


def test_stored_references_answer_as_the_posterior_does():
    posterior = observed()
    stored, direct = posterior._references(PENDING), References(posterior, PENDING)
    assert type(stored) is not References

    prediction, covariance = stored.estimate(QUERIES)

    expected, _ = direct.estimate(QUERIES)
    assert_allclose(prediction.mean, expected.mean, rtol=1e-12)
    assert_allclose(prediction.width, expected.width, rtol=1e-12)
    for found in (covariance, stored.covariance_with(QUERIES)):
        assert_allclose(found, direct.covariance_with(QUERIES), rtol=1e-9, atol=1e-12)
    assert_allclose(stored.covariance(), direct.covariance(), rtol=1e-9, atol=1e-12)


def test_more_references_than_are_stored_are_queried_one_by_one():
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)
    posterior.observe(RNG.uniform(size=(2_100, 2)), np.zeros(2_100))

    assert type(posterior._references(RNG.uniform(size=(2_000, 2)))) is References
