"""`kernel_report`: every number against its definition, and remarks about kernels that do not fit."""

import numpy as np
import pytest
from scipy.stats import norm

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, InvalidReward, NotPositiveSemidefinite
from kernelbandits.evaluation import kernel_report
from kernelbandits.kernels import Gaussian, Linear, PairProduct, Precomputed, Spectrum
from kernelbandits.posterior import ExactPosterior
from kernelbandits.theory import effective_dimension

KERNEL, GAMMA = 2.0 * Gaussian(length_scale=0.3) + 0.2, 0.4


def sample(n=25, seed=0):
    rng = np.random.default_rng(seed)
    x, times = rng.uniform(size=(n, 2)), rng.integers(1, 4, size=n)
    x[7] = x[3]  # a repeated point, in two rows
    return x, np.sin(6.0 * x[:, 0]) + 0.2 * rng.normal(size=n), times


def left_out(kernel=KERNEL, gamma=GAMMA):
    """Errors and variances of a posterior that learned all other rows."""
    x, y, times = sample()
    errors, variances = [], []
    for place in range(len(x)):
        others = np.delete(np.arange(len(x)), place)
        posterior = ExactPosterior(kernel, regularization=gamma)
        posterior.observe(x[others], y[others], times=times[others])
        prediction = posterior.predict(x[[place]])
        errors.append(y[place] - prediction.mean[0])
        variances.append(gamma * prediction.width[0] ** 2 + gamma / times[place])
    return np.array(errors), np.array(variances)


class TestNumbers:
    def test_errors_are_those_of_a_posterior_that_learned_all_others(self):
        x, y, times = sample()
        report = kernel_report(KERNEL, x, y, times=times, regularization=GAMMA)
        errors, variances = left_out()
        by_mean = [y[place] - np.delete(y, place).mean() for place in range(len(y))]
        assert report.error == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
        assert report.explained == pytest.approx(1.0 - np.sum(errors**2) / np.sum(np.square(by_mean)), rel=1e-9)
        z = np.abs(errors) / np.sqrt(variances * np.mean(errors**2 / variances))
        assert report.within_half == np.mean(z <= norm.ppf(0.75))
        assert report.within_nine_tenths == np.mean(z <= norm.ppf(0.95))
        assert 0.0 < report.explained < 1.0

    def test_other_scales_are_compared_by_log_density(self):
        x, y, times = sample()
        report = kernel_report(KERNEL, x, y, times=times, regularization=GAMMA)

        def density(kernel):
            errors, variances = left_out(kernel)
            return norm.logpdf(errors, scale=np.sqrt(variances * np.mean(errors**2 / variances))).sum()

        assert list(report.scales) == [0.25, 0.5, 2.0, 4.0]
        for factor, gain in report.scales.items():
            other = 2.0 * Gaussian(length_scale=0.3 * factor) + 0.2
            assert gain == pytest.approx(density(other) - density(KERNEL), abs=1e-6)

    def test_similarities_and_dimension(self):
        x, y, times = sample()
        report = kernel_report(KERNEL, x, y, times=times, regularization=GAMMA)
        gram = KERNEL.gram(x)
        relative = gram / 2.2
        pairs = relative[np.triu_indices(len(x), 1)]
        assert report.median_similarity == pytest.approx(np.median(pairs))
        nearest = (relative - 2.0 * np.eye(len(x))).max(axis=1)
        assert report.nearest_similarity == pytest.approx(np.median(nearest))
        expected = effective_dimension(gram, counts=times, regularization=GAMMA, horizon=int(times.sum()))
        assert report.effective_dimension == expected

    def test_neighbors_that_disagree_are_named(self):
        x = np.linspace(0.0, 1.0, 30)[:, None]
        y = np.zeros(30)
        y[13] = 1.0
        report = kernel_report(Gaussian(length_scale=0.2), x, y, regularization=0.1)
        worst = report.disagreements[0]
        assert 13 in (worst.first, worst.second)
        assert sorted(worst.rewards) == [0.0, 1.0]
        assert worst.similarity == pytest.approx(np.exp(-0.5 * (1 / 29 / 0.2) ** 2))
        assert worst.deviations > 2.0
        assert "neighbors 12 and 13" in str(report) or "neighbors 13 and 14" in str(report)
        assert not kernel_report(Gaussian(length_scale=0.2), x, x[:, 0], regularization=0.1).disagreements

    def test_a_sample_keeps_the_places_of_all_points(self):
        x = np.linspace(0.0, 1.0, 400)[:, None]
        y = np.zeros(400)
        y[::7] = 1.0
        report = kernel_report(Gaussian(length_scale=0.01), x, y, regularization=0.1, sample=50, seed=3)
        assert report.n_points == 50
        assert all(y[pair.first] == pair.rewards[0] for pair in report.disagreements)
        assert str(report) == str(
            kernel_report(Gaussian(length_scale=0.01), x, y, regularization=0.1, sample=50, seed=3)
        )


class TestRemarks:
    def test_a_kernel_that_fits_has_none(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(150, 1))
        y = np.sin(12.0 * x[:, 0]) + 0.2 * rng.normal(size=150)
        report = kernel_report(Gaussian(length_scale=0.15), x, y, regularization=0.05)
        assert not report.remarks
        assert report.explained > 0.8

    @pytest.mark.parametrize(
        ("length_scale", "words"), [(30.0, "shorten the length scale"), (1e-4, "lengthen the length scale")]
    )
    def test_length_scales_far_off_are_noticed(self, length_scale, words):
        x = np.random.default_rng(0).uniform(size=(80, 1))
        report = kernel_report(Gaussian(length_scale=length_scale), x, np.sin(12.0 * x[:, 0]), regularization=0.05)
        assert any(words in remark for remark in report.remarks)

    def test_a_better_scale_is_named(self):
        x = np.random.default_rng(0).uniform(size=(80, 1))
        report = kernel_report(Gaussian(length_scale=0.6), x, np.sin(20.0 * x[:, 0]), regularization=0.05)
        assert any("0.25 times as long fit better" in remark for remark in report.remarks)

    def test_similarities_without_a_meaning_are_noticed(self):
        x, y = np.linspace(0.0, 1.0, 60)[:, None], np.tile([-1.0, 1.0], 30)
        report = kernel_report(Gaussian(length_scale=0.05), x, y)
        assert any("no more about a reward than the mean" in remark for remark in report.remarks)


class TestForms:
    def test_it_is_short_in_print_and_in_notebooks(self):
        x, y, _ = sample()
        report = kernel_report(KERNEL, x, y, regularization=GAMMA)
        text = str(report)
        assert text.splitlines()[0].split() == ["points", "25"]
        assert len(text.splitlines()) < 20
        assert "<table" in report._repr_html_()
        assert "effective dimension" in report._repr_html_()
        assert repr(report).startswith("KernelReport(Sum:")

    def test_strings_tables_and_pairs_work_too(self):
        words = ["aab", "abb", "bba", "abab", "bbbb", "aaaa"]
        shares = [word.count("a") / len(word) for word in words]
        assert kernel_report(Spectrum(n=1), words, shares, regularization=0.1).explained > 0.5
        table = Precomputed(Gaussian(length_scale=1.0).gram(np.arange(6.0)[:, None]))
        report = kernel_report(table, [0, 1, 2, 3, 4, 5], shares)
        assert report.scales == {}
        policy = kb.KernelUCB(PairProduct(Gaussian(length_scale=1.0), Linear()))
        for t in range(5):
            policy.learn(policy.choose(kb.Pairs([0.1 * t], [[1.0], [2.0]])), 0.1 * t)
        points, _, counts, sums = policy.posterior.support()
        assert kernel_report(policy.kernel, points, sums / counts, times=counts.astype(int)).n_points == 5

    def test_rewards_that_are_all_equal(self):
        x, _, _ = sample()
        for value in (0.0, 0.7):
            report = kernel_report(KERNEL, x, np.full(len(x), value))
            assert np.isfinite(report.error)
            assert report.explained == 0.0
            assert report.remarks == (
                "All rewards are equal, so there is nothing that a kernel could explain. Give a larger sample.",
            )
        means = np.array([0.1 * 3 / 3, 0.3 / 3, 0.1] * 10)[: len(x)]  # equal but for rounding
        assert kernel_report(KERNEL, x[: len(means)], means).explained == 0.0


class TestRefusals:
    def test_too_few_points(self):
        with pytest.raises(InvalidParameter, match="at least three points, got 2"):
            kernel_report(KERNEL, np.zeros((2, 1)), [0.0, 1.0])

    def test_rewards_that_do_not_fit(self):
        with pytest.raises(InvalidReward, match="one reward per context"):
            kernel_report(KERNEL, np.zeros((4, 1)), [0.0, 1.0])

    def test_similarities_that_are_no_kernel(self):
        table = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
        with pytest.raises(NotPositiveSemidefinite, match="repair"):
            kernel_report(table, [0, 1, 2], [0.0, 1.0, 0.5], regularization=0.1)
