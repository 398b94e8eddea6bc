"""Kernel parameters by gradient search: criteria against their definitions, and what is found."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, InvalidReward, NotSupported
from kernelbandits.kernels import Gaussian, Linear, Matern, PairProduct, Spectrum
from kernelbandits.posterior import ExactPosterior, Refit, optimize_kernel
from kernelbandits.posterior.parameter_search import PRIOR_SCALE, ParameterSearch, as_refit, as_vector, at_vector

KERNEL = Gaussian(length_scale=[0.7, 1.0, 2.0]) + 0.3 * Linear() + 0.1
GAMMA = 0.3


def sample(n=14, seed=0):
    """Points with numbers and sums of rewards."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=n).astype(float)
    return rng.normal(size=(n, 3)), counts, rng.normal(size=n) * counts


def search_of(criterion, most=100):
    return ParameterSearch(KERNEL, as_vector(KERNEL, GAMMA), *sample(), criterion=criterion, most=most)


def moved(seed=5):
    start = as_vector(KERNEL, GAMMA)
    return start + 0.4 * np.random.default_rng(seed).normal(size=len(start))


def log_likelihood(values):
    """ln N(ȳ; 0, s² A) at the best s², found on a fine grid."""
    kernel, gamma = at_vector(KERNEL, values)
    points, counts, sums = sample()
    matrix, means = kernel.gram(points) + gamma * np.diag(1.0 / counts), sums / counts
    scales = np.exp(np.linspace(-8.0, 8.0, 20_001))
    spread = multivariate_normal(np.zeros(len(means)), matrix)
    quadratic = -2.0 * spread.logpdf(means) + 2.0 * spread.logpdf(np.zeros(len(means)))
    at_scales = spread.logpdf(np.zeros(len(means))) - 0.5 * len(means) * np.log(scales) - 0.5 * quadratic / scales
    return at_scales.max()


def log_left_out(values):
    """Sum of the log densities of every point's mean under a posterior that learned all other points."""
    kernel, gamma = at_vector(KERNEL, values)
    points, counts, sums = sample()
    errors, variances = [], []
    for place in range(len(points)):
        others = np.delete(np.arange(len(points)), place)
        posterior = ExactPosterior(kernel, regularization=gamma)
        posterior.observe(points[others], (sums / counts)[others], times=counts[others].astype(int))
        prediction = posterior.predict(points[[place]])
        errors.append((sums / counts)[place] - prediction.mean[0])
        variances.append(gamma * prediction.width[0] ** 2 + gamma / counts[place])
    errors, variances = np.array(errors), np.array(variances)
    scale = np.mean(errors**2 / variances)
    return norm.logpdf(errors, scale=np.sqrt(scale * variances)).sum()


@pytest.mark.parametrize(
    ("criterion", "definition"), [("marginal_likelihood", log_likelihood), ("leave_one_out", log_left_out)]
)
class TestCriterion:
    def test_it_is_its_definition_with_the_penalty(self, criterion, definition):
        search, start = search_of(criterion), as_vector(KERNEL, GAMMA)
        values = moved()
        penalty = ((values - start) ** 2).sum() / (2.0 * PRIOR_SCALE**2)
        difference = search.loss(start)[0] - search.loss(values)[0]  # constants of the criteria cancel
        assert difference == pytest.approx(definition(values) - definition(start) - penalty, abs=1e-5)
        assert abs(difference) > 0.05

    def test_its_gradient_is_that_of_differences(self, criterion, definition):
        search, values = search_of(criterion), moved(6)
        steps = 1e-6 * np.eye(len(values))
        expected = [(search.loss(values + one)[0] - search.loss(values - one)[0]) / 2e-6 for one in steps]
        assert_allclose(search.loss_and_gradient(values)[1], expected, atol=1e-6)

    def test_a_scale_that_is_wrong_by_ten_is_found(self, criterion, definition):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(80, 1))
        y = np.sin(12.0 * x[:, 0]) + 0.1 * rng.normal(size=80)
        for wrong in (0.02, 0.2, 2.0):
            fit = optimize_kernel(Gaussian(length_scale=wrong), x, y, criterion=criterion)
            assert 0.1 < fit.kernel.length_scale < 0.4
            assert fit.regularization < 0.2
            assert fit.criterion == criterion
            assert fit.value == fit.tried[-1]["value"] > fit.tried[0]["value"] + 1.0

    def test_columns_without_effect_get_longer_scales(self, criterion, definition):
        rng = np.random.default_rng(1)
        x = rng.uniform(size=(100, 3))
        y = np.sin(8.0 * x[:, 1]) + 0.1 * rng.normal(size=100)
        fit = optimize_kernel(Matern(smoothness=2.5, length_scale=[0.5] * 3), x, y, criterion=criterion)
        without, with_effect, other = fit.kernel.length_scale
        assert min(without, other) > 3.0 * with_effect

    def test_weights_go_to_the_kernel_that_fits(self, criterion, definition):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(60, 2))
        y = x @ [1.0, -2.0] + 0.05 * rng.normal(size=60)
        fit = optimize_kernel(0.9 * Gaussian(length_scale=0.1) + 0.1 * Linear(), x, y, criterion=criterion)
        weights = [part.factor for part in fit.kernel.parts]
        assert sum(weights) == pytest.approx(1.0)
        assert weights[1] > 0.8

    def test_units_of_rewards_do_not_matter(self, criterion, definition):
        x = np.random.default_rng(3).uniform(size=(30, 1))
        y = np.cos(9.0 * x[:, 0])
        fits = [
            optimize_kernel(Gaussian(length_scale=1.0), x, unit * y, criterion=criterion) for unit in (1, 1e-6, 1e6)
        ]
        assert fits[0].kernel != Gaussian(length_scale=1.0)
        assert [fit.kernel for fit in fits[1:]] == [fits[0].kernel] * 2

    def test_repeats_are_counts(self, criterion, definition):
        rng = np.random.default_rng(4)
        x, times = rng.uniform(size=(25, 2)), rng.integers(1, 4, size=25)
        y = np.sin(9.0 * x[:, 0])
        counted = optimize_kernel(Gaussian(length_scale=3.0), x, y, times=times, criterion=criterion)
        order = rng.permutation(np.repeat(np.arange(25), times))
        order = np.concatenate([np.arange(25), np.repeat(np.arange(25), times - 1)])
        repeated = optimize_kernel(Gaussian(length_scale=3.0), x[order], y[order], criterion=criterion)
        assert counted.kernel == repeated.kernel != Gaussian(length_scale=3.0)

    def test_what_cannot_be_improved_stays(self, criterion, definition):
        kernel = Gaussian(length_scale=0.4)
        x = [[0.0], [0.2], [1.0]]
        for rewards in (np.zeros(3), [0.5, 0.3, 0.2]):
            fit = optimize_kernel(kernel, x, rewards, regularization=0.5, criterion=criterion)
            assert fit.kernel is kernel
            assert fit.regularization == 0.5
            assert len(fit.tried) == 1


def test_kernels_without_length_scales_learn_the_regularization():
    words = ["aab", "abb", "bba", "abab", "bbbb", "aaaa", "ba", "abba"] * 4
    rewards = [word.count("a") / len(word) for word in words]
    fit = optimize_kernel(Spectrum(n=1), words, rewards, regularization=10.0)
    assert fit.kernel == Spectrum(n=1)
    assert fit.regularization < 1.0


def test_no_more_points_are_used_than_asked_for():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(300, 1))
    y = np.sin(12.0 * x[:, 0])
    chosen = np.linspace(0, 299, 40).astype(int)
    few = optimize_kernel(Gaussian(length_scale=2.0), x, y, most=40)
    assert few.kernel == optimize_kernel(Gaussian(length_scale=2.0), x[chosen], y[chosen]).kernel
    assert few.kernel != optimize_kernel(Gaussian(length_scale=2.0), x, y).kernel


def test_it_takes_pairs():
    rng = np.random.default_rng(0)
    kernel = PairProduct(Gaussian(length_scale=2.0), Gaussian(length_scale=2.0))
    posterior = ExactPosterior(kernel, regularization=0.1)
    for _ in range(40):
        context, action = rng.uniform(size=1), rng.uniform(size=(1, 1))
        posterior.observe(kb.Pairs(context, action), np.sin(15.0 * context) * action[0] + 0.1 * rng.normal())
    points, _, counts, sums = posterior.support()
    fit = optimize_kernel(kernel, points, sums / counts, times=counts.astype(int), regularization=0.1)
    assert fit.kernel.context.length_scale < 0.5


@pytest.mark.parametrize("criterion", ["leave_one_out", "marginal_likelihood"])
def test_a_search_from_an_extreme_regularization_ends_without_a_warning(criterion):
    points, rewards = np.linspace(0.0, 1.0, 6)[:, None], np.linspace(0.0, 1.0, 6)

    found = optimize_kernel(Gaussian(length_scale=0.5), points, rewards, regularization=1e149, criterion=criterion)

    assert np.isfinite(found.regularization)


class TestRefusals:
    @pytest.mark.parametrize(
        "kernel", [lambda x, z: x @ z.T, np.eye(3), Gaussian(length_scale=1.0) * kb.kernels.FromCallable(np.dot)]
    )
    def test_kernels_of_which_only_similarities_are_known(self, kernel):
        with pytest.raises(NotSupported, match=r"formulas of this library.*fit_kernel"):
            optimize_kernel(kernel, np.zeros((2, 1)), [0.0, 1.0])

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"criterion": "cross_validation"},
                InvalidParameter,
                "'marginal_likelihood' or 'leave_one_out', got 'cross",
            ),
            ({"regularization": 0.0}, InvalidParameter, "positive and finite"),
            ({"most": 1}, InvalidParameter, "number of points of a search"),
            ({"times": 0.5}, Exception, "times"),
        ],
    )
    def test_parameters(self, arguments, error, message):
        with pytest.raises(error, match=message):
            optimize_kernel(Gaussian(length_scale=1.0), np.zeros((2, 1)), [0.0, 1.0], **arguments)

    def test_rewards_that_do_not_fit(self):
        with pytest.raises(InvalidReward, match="one reward per context"):
            optimize_kernel(Gaussian(length_scale=1.0), np.zeros((2, 1)), [0.0, 1.0, 2.0])


class TestRefit:
    def test_auto_doubles(self):
        due = [Refit().next_after(n) for n in (0, 19, 20, 39, 40, 1_000)]
        assert due == [20, 20, 40, 40, 80, 1_280]

    def test_a_number_is_every_so_many_rewards(self):
        assert as_refit(50) == Refit(every=50)
        assert [Refit(every=50).next_after(n) for n in (0, 49, 50, 130)] == [50, 50, 100, 150]

    def test_it_describes_itself(self):
        rule = Refit(every=30, criterion="leave_one_out", most=90)
        assert Refit(**rule.describe()) == rule

    @pytest.mark.parametrize("value", ["never", 0, -3, 2.5, True, object(), Refit])
    def test_anything_else_is_refused(self, value):
        with pytest.raises(InvalidParameter):
            as_refit(value)
