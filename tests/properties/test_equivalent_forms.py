"""The estimator has many forms; all of them give the same numbers (oracles 2 to 5, 8 and 9)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from definitions import JointPosterior, RowCache, log_det_gain, ridge
from kernelbandits.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, RandomFourier
from kernelbandits.posterior import AutoPosterior, ExactPosterior, LowRankPosterior, PrimalPosterior
from reference import InverseKernelUCB

KERNELS = [
    Gaussian(length_scale=0.4),
    Matern(smoothness=0.5, length_scale=0.8),
    Laplacian(length_scale=[0.5, 2.0]),
    Linear(),
    0.2 * Polynomial(degree=2, offset=0.7),
    Linear() + Gaussian(length_scale=0.3) * 0.5,
    RandomFourier(Gaussian(length_scale=0.5), n_columns=2, n_frequencies=7, orthogonal=True),
]
POSTERIORS = [ExactPosterior, AutoPosterior, PrimalPosterior, LowRankPosterior]


def forms(kernel):
    return [
        form for form in POSTERIORS if form is not PrimalPosterior or kernel.n_features(np.zeros((1, 2))) is not None
    ]


CASES = [(kernel, form) for kernel in KERNELS for form in forms(kernel)]


@settings(max_examples=25)
@given(
    case=st.sampled_from(CASES),
    gamma=st.sampled_from([1e-3, 0.04, 0.7, 25.0]),
    pulls=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    seed=st.integers(0, 10**6),
)
def test_inverse_cholesky_joint_and_row_cache_agree(case, gamma, pulls, seed):
    """Oracle 3, with repeats in the history."""
    kernel, form = case
    rng = np.random.default_rng(seed)
    actions, rewards = rng.uniform(-1, 1, size=(10, 2)), rng.normal(size=len(pulls))
    posterior = form(kernel, regularization=gamma)
    inverse = InverseKernelUCB(kernel.gram, gamma)
    joint, rows = JointPosterior(kernel.gram(actions), gamma), RowCache(kernel.gram(actions), gamma)

    for action, reward in zip(pulls, rewards, strict=True):
        posterior.observe(actions[[action]], [reward])
        inverse.observe(actions[action], reward)
        joint.pull(action, reward)
        rows.pull(action, reward)

    prediction = posterior.predict(actions)
    inverse_mean, inverse_width = inverse.predict(actions)
    scale = np.abs(prediction.mean).max()
    for mean, width in [(inverse_mean, inverse_width), (joint.mean, joint.width), (rows.mean, rows.width)]:
        assert_allclose(prediction.mean, mean, atol=1e-7 * scale / min(1.0, gamma * 10))
        assert_allclose(prediction.width**2, width**2, rtol=1e-7 / min(1.0, gamma * 10), atol=1e-13 / gamma)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 4.0])
@pytest.mark.parametrize("form", [ExactPosterior, AutoPosterior])
def test_means_and_deviations_are_those_of_scikit_learn(form, gamma):
    """Oracle 2: kernel ridge regression, and a Gaussian process with noise variance γ."""
    rng = np.random.default_rng(0)
    points, rewards, queries = rng.uniform(size=(60, 2)), rng.normal(size=60), rng.uniform(size=(15, 2))
    posterior = form(Gaussian(length_scale=0.4), regularization=gamma)
    posterior.observe(points, rewards)

    prediction = posterior.predict(queries)

    process = GaussianProcessRegressor(RBF(0.4), alpha=gamma, optimizer=None).fit(points, rewards)
    mean, deviation = process.predict(queries, return_std=True)
    ridge_mean = KernelRidge(alpha=gamma, kernel="rbf", gamma=1 / (2 * 0.4**2)).fit(points, rewards).predict(queries)
    assert_allclose(prediction.mean, mean, rtol=1e-8, atol=1e-8 * np.abs(mean).max())
    assert_allclose(np.sqrt(gamma) * prediction.width, deviation, rtol=1e-7)
    assert_allclose(prediction.mean, ridge_mean, rtol=1e-8, atol=1e-8 * np.abs(mean).max())


@settings(max_examples=40)
@given(
    case=st.sampled_from(CASES),
    gamma=st.sampled_from([0.01, 0.5, 30.0]),
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
)
def test_counts_are_the_full_history(case, gamma, counts, seed):
    """Oracle 4, with the log-determinant."""
    kernel, form = case
    rng = np.random.default_rng(seed)
    points, rewards = rng.uniform(-1, 1, size=(len(counts), 2)), rng.normal(size=len(counts))
    posterior = form(kernel, regularization=gamma)

    posterior.observe(points, rewards, times=counts)

    history, queries = np.repeat(points, counts, axis=0), rng.uniform(-1, 1, size=(5, 2))
    mean, width = ridge(kernel, history, np.repeat(rewards, counts), queries, gamma)
    prediction = posterior.predict(queries)
    assert_allclose(prediction.mean, mean, rtol=1e-7, atol=1e-7 * np.abs(mean).max())
    assert_allclose(prediction.width, width, rtol=1e-6)
    assert_allclose(posterior.log_det_gain, log_det_gain(kernel, history, gamma), rtol=1e-8)
    assert posterior.n_observations == sum(counts)


@pytest.mark.parametrize("times", [1, 2, 17, 10_000])
@pytest.mark.parametrize("gamma", [1e-3, 0.3, 5.0])
def test_one_context_pulled_n_times_has_width_w_over_one_plus_n_w(times, gamma):
    """Oracle 4, second half: the floor of the width is exact here."""
    posterior = ExactPosterior(Gaussian(length_scale=1.0), regularization=gamma)
    before = posterior.predict([[0.3]]).width[0] ** 2

    posterior.observe([[0.3]], [1.0], times=times)

    assert posterior.predict([[0.3]]).width[0] ** 2 == pytest.approx(before / (1 + times * before), rel=1e-8)


@pytest.mark.parametrize("factor", [1e-4, 0.25, 3.0, 4.0, 1e5])
@pytest.mark.parametrize("form", POSTERIORS)
def test_kernel_and_regularization_scale_together(form, factor):
    """Oracle 5: (k/c, γ/c) gives the same mean and width; bit for bit when c is a power of four."""
    rng = np.random.default_rng(1)
    kernel, points, rewards = Polynomial(degree=2), rng.uniform(size=(20, 2)), rng.normal(size=20)
    plain = form(kernel, regularization=0.1)
    scaled = form(kernel * factor, regularization=0.1 * factor)

    for posterior in (plain, scaled):
        posterior.observe(points, rewards)

    left, right = plain.predict(points), scaled.predict(points)
    if factor in (0.25, 4.0):
        assert np.array_equal(left.mean, right.mean)
        assert np.array_equal(left.width, right.width)
    assert_allclose(left.mean, right.mean, rtol=1e-9)
    assert_allclose(left.width, right.width, rtol=1e-9)


@pytest.mark.parametrize("gamma", [1e-3, 0.2, 8.0])
@pytest.mark.parametrize(("kernel", "form"), CASES)
def test_the_gain_adds_up_online_and_final_widths_to_the_statistical_dimension(kernel, form, gamma):
    """Oracle 8."""
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, size=(40, 2))
    points[30:] = points[:10]
    posterior, online = form(kernel, regularization=gamma), 0.0

    for point in points:
        online += np.log1p(posterior.predict(point[None]).width[0] ** 2)
        posterior.observe(point[None], [0.0])

    gram = kernel.gram(points)
    dimension = np.trace(np.linalg.solve(gram + gamma * np.eye(40), gram))
    assert_allclose(online, log_det_gain(kernel, points, gamma), rtol=1e-8)
    assert_allclose(posterior.log_det_gain, online, rtol=1e-8)
    assert_allclose((posterior.predict(points).width ** 2).sum(), dimension, rtol=1e-7)
