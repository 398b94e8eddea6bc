import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from definitions import log_det_gain, ridge
from kernelbandits import KernelUCB
from kernelbandits.errors import (
    IllConditioned,
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
    NotPositiveSemidefinite,
    NumericalError,
)
from kernelbandits.kernels import FromCallable, Gaussian, Kernel, Linear, Matern, Precomputed, Spectrum
from kernelbandits.posterior import ExactPosterior, cholesky, exact
from kernelbandits.posterior.base import least_regularization
from kernelbandits.posterior.cholesky import GrowingCholesky


def observed(kernel, points, rewards, regularization):
    posterior = ExactPosterior(kernel, regularization=regularization)
    posterior.observe(points, rewards)
    return posterior


def assert_same_answers(posterior, kernel, points, rewards, queries, rtol=1e-7):
    mean, width = ridge(kernel, points, rewards, queries, posterior.regularization)
    prediction = posterior.predict(queries)
    assert_allclose(prediction.mean, mean, rtol=rtol, atol=rtol * np.abs(mean).max())
    assert_allclose(prediction.width, width, rtol=rtol)


def test_several_panels_and_repeats_across_them_are_exact():
    rng = np.random.default_rng(0)
    kernel, points = Gaussian(length_scale=0.3), rng.uniform(size=(600, 2))
    rows = np.concatenate([np.arange(600), [0, 255, 256, 257, 511, 512, 599, 0]])
    rewards = rng.normal(size=len(rows))
    posterior = ExactPosterior(kernel, regularization=0.05)

    posterior.observe(points[rows[:300]], rewards[:300])
    for place in range(300, 320):
        posterior.observe(points[rows[[place]]], rewards[[place]])
    posterior.observe(points[rows[320:600]], rewards[320:600])
    for place in range(600, len(rows)):
        posterior.observe(points[rows[[place]]], rewards[[place]])

    assert posterior.size == 600
    assert_same_answers(posterior, kernel, points[rows], rewards, rng.uniform(size=(9, 2)))
    assert_allclose(posterior.log_det_gain, log_det_gain(kernel, points[rows], 0.05), rtol=1e-10)


def test_many_repeats_at_once_are_exact():
    rng = np.random.default_rng(1)
    kernel, points = Matern(smoothness=2.5, length_scale=0.7), rng.uniform(size=(40, 3))
    posterior = observed(kernel, points, rng.normal(size=40), 0.3)
    before = posterior.support()[3]
    rewards = rng.normal(size=45)

    posterior.observe(np.vstack([points, rng.uniform(size=(5, 3))]), rewards)

    past, _, counts, sums = posterior.support()
    assert counts.tolist() == [2.0] * 40 + [1.0] * 5
    assert_allclose(sums, np.append(before, np.zeros(5)) + rewards)
    full = np.repeat(past, counts.astype(int), axis=0)
    assert_same_answers(posterior, kernel, full, np.repeat(sums / counts, counts.astype(int)), points)


def test_points_that_leave_and_come_back_are_exact():
    rng = np.random.default_rng(2)
    kernel, points, rewards = Gaussian(length_scale=0.4), rng.uniform(size=(30, 1)), rng.normal(size=30)
    posterior = observed(kernel, points, rewards, 0.01)

    for _ in range(3):
        for row in range(25):
            posterior.remove(points[[row]], rewards[[row]])
        assert_same_answers(posterior, kernel, points[25:], rewards[25:], points)
        posterior.observe(points[:25], rewards[:25])
        assert_same_answers(posterior, kernel, points, rewards, points)


@pytest.mark.parametrize("regularization", [1e-8, 1e-5, 1e-2])
def test_widths_are_sound_down_to_tiny_regularization(regularization):
    """500 points on a line. Errors grow like eps/γ; the figures are those that a stable method reaches."""
    rng = np.random.default_rng(3)
    points, queries = rng.uniform(size=(500, 1)), rng.uniform(size=(50, 1))
    kernel = Gaussian(length_scale=0.2)
    posterior = ExactPosterior(kernel, regularization=regularization)

    for row in range(500):
        posterior.observe(points[[row]], [0.0])

    exact = _accurate_squared_widths(points, queries, 0.2, regularization)
    error = np.abs(posterior.predict(queries).width ** 2 / exact - 1.0).max()
    assert error < 1e-12 / regularization


def _accurate_squared_widths(points, queries, length_scale, regularization):
    """The definition in extended precision: np.longdouble Cholesky, written out."""
    wide = np.longdouble
    x, q = points.astype(wide)[:, 0], queries.astype(wide)[:, 0]
    gram = np.exp(-((x[:, None] - x[None, :]) ** 2) / (2 * wide(length_scale) ** 2))
    matrix = gram + wide(regularization) * np.eye(len(x), dtype=wide)
    right = np.exp(-((x[:, None] - q[None, :]) ** 2) / (2 * wide(length_scale) ** 2))
    for column in range(len(x)):  # L in the lower triangle, forward substitution alongside
        pivot = np.sqrt(matrix[column, column])
        matrix[column:, column] /= pivot
        right[column] /= pivot
        below = matrix[column + 1 :, column]
        matrix[column + 1 :, column + 1 :] -= np.outer(below, below)
        right[column + 1 :] -= np.outer(below, right[column])
    return ((1 - (right**2).sum(axis=0)) / wide(regularization)).astype(float)


def test_too_small_a_regularization_is_reported_once():
    posterior = ExactPosterior(Gaussian(length_scale=1.0), regularization=1e-9)

    with pytest.warns(IllConditioned, match="below 1e-8 times the largest k"):
        posterior.observe([[0.0]], [1.0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior.observe([[1.0]], [1.0])
        posterior.predict([[0.5]])


def test_the_warning_comes_when_similarities_grow_into_it():
    posterior = ExactPosterior(Linear(), regularization=1e-6)
    posterior.observe([[1.0]], [1.0])

    with pytest.warns(IllConditioned, match="lose their digits"):
        posterior.observe([[1e3]], [1.0])


def test_a_single_observation_warns_and_is_rejected_as_many_are():
    """Policies learn one reward at a time, by a shorter path."""
    posterior = ExactPosterior(Linear(), regularization=1e-6)
    posterior._observe_one(np.array([[1.0]]), 1.0)

    with pytest.raises(InvalidContexts, match="overflow"):
        posterior._observe_one(np.array([[1e200]]), 1.0)
    with pytest.warns(IllConditioned, match="lose their digits"):
        posterior._observe_one(np.array([[1e3]]), 1.0)


def test_a_regularization_below_rounding_is_rejected_in_words():
    points = np.linspace(0, 1e-6, 60)[:, None]
    posterior = ExactPosterior(Gaussian(length_scale=1.0), regularization=1e-18)

    with pytest.warns(IllConditioned), pytest.raises(NumericalError, match="too small beside similarities"):
        posterior.observe(points, np.zeros(60))

    assert posterior.size == 0


def test_pivots_of_huge_counts_keep_to_their_floor():
    """Two nearly equal points seen a billion times each: rounding would push the second pivot below zero."""
    posterior = observed(Gaussian(length_scale=1.0), [[0.0]], [1.0], 1e-8)
    posterior.observe([[0.0], [1e-9], [2e-9]], [1.0, 1.0, 1.0], times=10**9)

    prediction = posterior.predict([[0.0], [0.5]])

    assert_allclose(prediction.mean[0], 1.0, rtol=1e-6)
    assert (prediction.width >= np.sqrt(1 / (1e-8 + 3e9 + 1))).all()


def test_a_sure_kernel_is_factored_only_when_it_is_needed():
    posterior = observed(Gaussian(length_scale=1.0), [[0.0]], [1.0], 0.1)

    for place in range(1, 30):
        posterior.observe([[place / 7.0]], [1.0])

    assert posterior._factor.size == 1
    assert posterior.size == posterior.n_observations == 30
    posterior.predict([[0.0]])
    assert posterior._factor.size == 30


@settings(max_examples=60)
@given(
    rows=st.lists(st.integers(0, 6), min_size=1, max_size=25),
    gamma=st.sampled_from([1e-3, 0.2, 3.0, 500.0]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 1000),
)
def test_any_history_with_repeats_is_the_definition(rows, gamma, scale, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(7, 2)) * np.array([scale, 1.0])
    kernel = Linear() * (1.0 / max(1.0, scale**2)) + Gaussian(length_scale=scale)
    history, rewards = points[rows], rng.normal(size=len(rows)) * scale

    posterior = ExactPosterior(kernel, regularization=gamma)
    for point, reward in zip(history, rewards, strict=True):
        posterior.observe(point[None], [reward])

    assert_same_answers(posterior, kernel, history, rewards, points, rtol=1e-6)


def test_an_indefinite_similarity_is_rejected_and_nothing_changes():
    table = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    posterior = ExactPosterior(Precomputed(table), regularization=0.05)
    posterior.observe([0, 1], [1.0, 0.5])
    before = posterior.predict([0, 1])

    with pytest.raises(NotPositiveSemidefinite, match=r"kb\.kernels\.repair"):
        posterior.observe([2], [1.0])
    with pytest.raises(NotPositiveSemidefinite, match="at action 1"):
        posterior.predict([0, 2])

    assert posterior.n_observations == 2
    assert_allclose(posterior.predict([0, 1]).mean, before.mean)


def test_a_batch_that_is_rejected_half_way_leaves_nothing_behind():
    table = np.eye(400)
    table[398, 399] = table[399, 398] = 1.5
    posterior = ExactPosterior(Precomputed(table), regularization=0.1)
    posterior.observe([0], [1.0])

    with pytest.raises(NotPositiveSemidefinite):
        posterior.observe(list(range(1, 400)), np.ones(399))

    assert (posterior.size, posterior.n_observations) == (1, 1)
    posterior.observe([5], [2.0])
    assert_allclose(posterior.predict([5, 0, 6]).mean, [2.0 / 1.1, 1.0 / 1.1, 0.0])


def test_similarities_that_overflow_are_rejected():
    posterior = ExactPosterior(Linear(), regularization=1.0)

    with pytest.raises(InvalidContexts, match="overflow"):
        posterior.observe([[1e200]], [1.0])
    with pytest.raises(InvalidContexts, match="overflow"):
        posterior.predict([[1e200]])

    assert posterior.size == 0


def test_a_kernel_that_answers_nan_is_rejected():
    class Broken(Kernel):
        def gram(self, first, second=None):
            return np.full((len(first), len(first if second is None else second)), np.nan)

        def diagonal(self, points):
            return np.ones(len(points))

    posterior = ExactPosterior(Broken(), regularization=1.0)
    with pytest.raises(InvalidContexts, match="not numbers"):
        posterior.observe([[1.0], [2.0]], [1.0, 2.0])

    assert posterior.size == 0


@pytest.mark.parametrize("rewards", [[np.nan], [np.inf], ["much"], [1.0, 2.0], None, [1j]])
def test_rewards_that_are_no_numbers_are_rejected(rewards):
    posterior = ExactPosterior(Linear(), regularization=1.0)

    with pytest.raises(InvalidReward, match="reward"):
        posterior.observe([[1.0]], rewards)

    assert posterior.size == 0


@pytest.mark.parametrize("times", [0, -1, 1.5, np.nan, [1, 2]])
def test_counts_that_are_no_whole_numbers_are_rejected(times):
    posterior = ExactPosterior(Linear(), regularization=1.0)

    with pytest.raises(InvalidParameter, match="`times`"):
        posterior.observe([[1.0]], [1.0], times=times)


@pytest.mark.parametrize("regularization", [0.0, -1.0, np.nan, np.inf, "small", None])
def test_the_regularization_has_to_be_positive(regularization):
    with pytest.raises(InvalidParameter, match=r"regularization must be positive.*1\.0 is a good start"):
        ExactPosterior(Linear(), regularization=regularization)


def test_what_was_never_observed_cannot_be_changed():
    posterior = observed(Linear(), [[1.0], [2.0]], [1.0, 2.0], 1.0)

    with pytest.raises(NotLearnt, match="Point 1 of this call was never observed"):
        posterior.amend([[1.0], [3.0]], was=[1.0, 1.0], now=[1.5, 1.5])
    with pytest.raises(NotLearnt, match="never observed"):
        posterior.remove([[3.0]], [1.0])
    with pytest.raises(NotLearnt, match="observed 1 times cannot be removed more often"):
        posterior.remove([[1.0], [1.0]], [0.5, 0.5])

    assert_same_answers(posterior, Linear(), np.array([[1.0], [2.0]]), [1.0, 2.0], np.array([[1.5]]))


def test_contexts_of_another_length_are_rejected():
    posterior = observed(Gaussian(length_scale=1.0), [[1.0, 2.0]], [1.0], 1.0)

    with pytest.raises(InvalidContexts, match="columns"):
        posterior.predict([[1.0]])
    with pytest.raises(InvalidContexts, match="columns"):
        posterior.observe([[1.0]], [1.0])

    assert posterior.n_observations == 1


def test_minus_zero_is_the_same_point_as_zero():
    posterior = observed(Gaussian(length_scale=1.0), [[0.0], [-0.0]], [1.0, 3.0], 1.0)

    assert (posterior.size, posterior.n_observations) == (1, 2)


def test_the_points_kept_are_copies():
    points = np.array([[1.0, 2.0]])
    posterior = observed(Linear(), points, [1.0], 1.0)

    points[:] = 99.0

    assert_allclose(posterior.support()[0], [[1.0, 2.0]])


def test_a_long_prediction_is_the_same_in_blocks():
    """8,000,000 similarities are held in memory at a time."""
    rng = np.random.default_rng(4)
    posterior = observed(Gaussian(length_scale=0.5), rng.uniform(size=(200, 2)), rng.normal(size=200), 0.1)
    queries = rng.uniform(size=(40_101, 2))
    halves = np.split(queries, [20_000])

    found, waiting = posterior.predict(queries), posterior.predict(queries, pending=queries[:4])

    expected = [posterior.predict(half) for half in halves]
    assert_allclose(found.mean, np.concatenate([half.mean for half in expected]), rtol=1e-10, atol=1e-12)
    assert_allclose(found.width, np.concatenate([half.width for half in expected]), rtol=1e-10)
    reduced = [posterior.predict(half, pending=queries[:4]).width for half in halves]
    assert_allclose(waiting.width, np.concatenate(reduced), rtol=1e-10)


class TestExpected:
    """A point whose column is known before it is observed."""

    @pytest.fixture
    def reads(self, monkeypatch):
        """Counts how often the factor is read for a new row."""
        reads = []
        append = ExactPosterior._append_block
        monkeypatch.setattr(ExactPosterior, "_append_block", lambda *given: (reads.append(1), append(*given)))
        return reads

    def expecting(self, n=9):
        rng = np.random.default_rng(0)
        rows, rewards = rng.uniform(size=(n, 2)), rng.normal(size=n)
        point = rng.uniform(size=(1, 2))
        posterior, plain = (ExactPosterior(Gaussian(length_scale=0.4), regularization=0.2) for _ in range(2))
        for one in (posterior, plain):
            one.observe(rows, rewards)
            one.predict(point)
        posterior.whitening()
        posterior.expect(point, posterior._whiten(point)[:, 0], 1.0)
        return posterior, plain, point

    def assert_same(self, posterior, plain):
        points = np.random.default_rng(1).uniform(size=(20, 2))
        ours, theirs = posterior.predict(points), plain.predict(points)
        assert_allclose(ours.mean, theirs.mean, rtol=1e-11, atol=1e-13)
        assert_allclose(ours.width, theirs.width, rtol=1e-11)

    @pytest.mark.parametrize("times", [1, 3])
    def test_the_factor_grows_without_being_read(self, reads, times):
        posterior, plain, point = self.expecting()
        reads.clear()

        posterior.observe(point, [0.7], times=times)
        whitening = posterior.whitening()

        assert not reads
        assert whitening.factor.size == 10
        plain.observe(point, [0.7], times=times)
        self.assert_same(posterior, plain)

    @pytest.mark.parametrize("change", ["other", "two", "repeat beside it", "amend", "remove", "later"])
    def test_anything_else_is_computed(self, change):
        posterior, plain, point = self.expecting()
        known = posterior.record.points[2:3].copy()
        for one in (posterior, plain):
            if change == "other":
                one.observe(point + 0.1, [0.7])
            elif change == "two":
                one.observe(np.vstack([point, point + 0.1]), [0.7, 0.1])
            elif change == "repeat beside it":
                one.observe(np.vstack([point, known]), [0.7, 0.1])
            elif change == "amend":
                one.amend(known, was=[0.0], now=[0.3])
                one.observe(point, [0.7])
            elif change == "remove":
                one.remove(known, [0.3])
                one.observe(point, [0.7])
            else:
                one.observe(point + 0.1, [0.7])
                one.observe(point, [0.7])

        self.assert_same(posterior, plain)

    def test_the_factor_has_a_new_version_when_old_rows_change(self):
        posterior, _, point = self.expecting()
        version = posterior.factor_version
        posterior.observe(point, [0.7])
        posterior.whitening()
        assert posterior.factor_version == version

        posterior.observe(point, [0.7])
        posterior.whitening()

        assert posterior.factor_version > version


@pytest.mark.parametrize("largest_growth", [None, np.inf])
def test_a_tiny_count_that_grows_keeps_its_digits(monkeypatch, largest_growth):
    if largest_growth:
        monkeypatch.setattr(exact, "LARGEST_GROWTH", largest_growth)
    kernel, points = Gaussian(length_scale=0.5), np.linspace(0.0, 1.0, 6)[:, None]
    posterior = observed(kernel, points, np.arange(6.0), 0.3)
    (key,) = kernel.kind.keys(points[2:3])
    posterior.predict(points)
    for count in (1e-4, 1e-8, 1.0):
        posterior.set_totals([key], np.array([count]), np.array([2.0 * count]))
        prediction = posterior.predict(points)

    mean, _ = ridge(kernel, points, np.arange(6.0), points, 0.3)
    error = np.abs(prediction.mean - mean).max()

    assert (error < 1e-12) == (largest_growth is None)  # by changes of rank one alone it is about 1e-8


# -- many points at once -------------------------------------------------------------------------------------------


def with_small_panels(kernel, regularization):
    """A posterior whose factor grows by up to 16 rows at once, in panels of four."""
    posterior = ExactPosterior(kernel, regularization=regularization)
    posterior._factor = GrowingCholesky(rows_per_panel=4)
    return posterior


def appended_rows(posterior, monkeypatch):
    """Sizes of the blocks that the factor grows by from now on."""
    sizes, append = [], cholesky.GrowingCholesky.append

    def noted(self, cross, within, **options):
        sizes.append(len(within))
        append(self, cross, within, **options)

    monkeypatch.setattr(cholesky.GrowingCholesky, "append", noted)
    return sizes


def test_many_points_are_factored_in_large_blocks(monkeypatch):
    points = np.random.default_rng(3).normal(size=(38, 2))
    posterior = with_small_panels(Gaussian(length_scale=1.0), 0.1)
    sizes = appended_rows(posterior, monkeypatch)

    posterior.observe(points, np.arange(38.0))
    prediction = posterior.predict(points)

    assert sizes == [16, 16, 6]
    one_by_one = ExactPosterior(Gaussian(length_scale=1.0), regularization=0.1)
    for point, reward in zip(points, np.arange(38.0), strict=True):
        one_by_one.observe([point], [reward])
        one_by_one.predict([point])
    assert_allclose(prediction.mean, one_by_one.predict(points).mean, rtol=1e-10)
    assert_allclose(prediction.width, one_by_one.predict(points).width, rtol=1e-10)


def test_a_large_block_that_rounding_spoils_is_factored_by_panels_with_the_floor(monkeypatch):
    """Pivots of nearly equal points fall below zero by rounding, and are known to be at least γ."""
    points = np.repeat(np.random.default_rng(3).normal(size=(5, 2)), 4, axis=0)
    points += 1e-9 * np.arange(20)[:, None]
    posterior = with_small_panels(Gaussian(length_scale=1.0), 0.05)
    sizes, whole = appended_rows(posterior, monkeypatch), cholesky.cholesky

    def spoilt(matrix):
        if len(matrix) > 4:
            raise np.linalg.LinAlgError("rounding")
        return whole(matrix)

    monkeypatch.setattr(cholesky, "cholesky", spoilt)

    posterior.observe(points, np.ones(20))
    posterior.predict(points)

    assert sizes == [16, 4, 4, 4, 4, 4]
    assert posterior.size == 20


def test_a_large_block_with_an_indefinite_end_is_rejected_and_nothing_changes():
    table = np.eye(20) + 0.1
    table[18, 19] = table[19, 18] = 5.0
    posterior = with_small_panels(Precomputed(table), 0.1)
    posterior.observe(np.arange(3), [1.0, 0.0, 1.0])
    before = posterior.predict(np.arange(5))

    with pytest.raises(NotPositiveSemidefinite, match="falls below zero"):
        posterior.observe(np.arange(3, 20), np.ones(17))

    assert posterior.size == 3
    assert_allclose(posterior.predict(np.arange(5)).width, before.width)


def gaussian_of(kind, points):
    """The same similarities as a kernel of the library, a function and a table, with the points that each takes."""
    kernel = Gaussian(length_scale=3.0)
    if kind == "table":
        return Precomputed(kernel.gram(points)), list(range(len(points)))
    return (kernel if kind == "library" else FromCallable(kernel.gram)), points


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("kind", ["library", "function", "table"])
def test_a_kernel_error_names_the_smallest_regularization_that_works(kind):
    kernel, points = gaussian_of(kind, np.random.default_rng(0).uniform(size=(60, 2)))

    with pytest.raises(NumericalError, match="too small beside similarities of up to 1 of 60 observations") as rejected:
        ExactPosterior(kernel, regularization=1e-15).observe(points, np.ones(60))

    posterior = ExactPosterior(kernel, regularization=named_regularization(rejected.value))
    posterior.observe(points, np.ones(60))
    assert posterior.predict(points).width.max() < 1.01


def named_regularization(error):
    """The regularization that a message recommends."""
    return float(re.search(r"Take a regularization of at least (\S+)\.$", str(error))[1])


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize(("seed", "regularization"), [(0, 1e-15), (3, 1e-15), (9, 3e-16)])
def test_a_repeat_that_rounding_makes_impossible_is_reported_too(seed, regularization):
    def play(policy):
        rng = np.random.default_rng(seed)
        for _ in range(80):
            policy.learn(policy.choose(["".join(rng.choice(list("ab"), size=6)) for _ in range(5)]), 0.5)

    with pytest.raises(NumericalError, match="too small beside similarities of up to 1 of") as rejected:
        play(KernelUCB(Spectrum(n=2), regularization=regularization))

    play(KernelUCB(Spectrum(n=2), regularization=named_regularization(rejected.value)))


def no_rank_one(*arguments, **options):
    raise np.linalg.LinAlgError("rounding")


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("change", ["observe", "remove"])
def test_a_change_of_rank_one_that_fails_is_rejected_in_words_and_nothing_changes(monkeypatch, change):
    points = np.arange(6.0)[:, None]
    posterior = ExactPosterior(Gaussian(length_scale=1.0), regularization=1e-10)
    posterior.observe(points, np.ones(6))
    before = posterior.predict(points)
    monkeypatch.setattr(cholesky.GrowingCholesky, "rank_one", no_rank_one)

    with pytest.raises(NumericalError, match="The regularization 1e-10 is too small") as rejected:
        getattr(posterior, change)(points[[2]], [1.0])

    assert named_regularization(rejected.value) > 1e-8
    assert posterior.n_observations == 6
    assert_allclose(posterior.predict(points).mean, before.mean)


def test_a_change_of_rank_one_that_fails_beside_an_ordinary_regularization_is_made_otherwise(monkeypatch):
    points = np.arange(6.0)[:, None]
    expected, posterior = (ExactPosterior(Gaussian(length_scale=1.0), regularization=0.1) for _ in range(2))
    for each in (expected, posterior):
        each.observe(points, np.ones(6))
        each.predict(points)
    expected.observe(points[[2]], [0.5])
    prediction = expected.predict(points)
    monkeypatch.setattr(cholesky.GrowingCholesky, "rank_one", no_rank_one)

    posterior.observe(points[[2]], [0.5])

    assert_allclose(posterior.predict(points).mean, prediction.mean)
    assert_allclose(posterior.predict(points).width, prediction.width)


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("regularization", [1e-10, 1e-5])
def test_many_repeats_beside_a_tiny_regularization_are_reported(regularization):
    """A factor with floored pivots overflows where rounding is all that there is: it was kept, and every answer NaN."""
    points = np.array([[i, j] for i in range(8) for j in range(8)], dtype=float)
    posterior = ExactPosterior(Linear(), regularization=regularization)
    posterior.observe(points, np.ones(64))

    def repeat(each):
        each.observe(points, np.ones(64), times=10**12)
        each.predict(points)

    with pytest.raises(NumericalError, match="too small beside similarities of up to 98 of") as rejected:
        repeat(posterior)
    repeat(ExactPosterior(Linear(), regularization=named_regularization(rejected.value)))


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
@pytest.mark.parametrize("regularization", [1e-15, 1e-12, 1e-8, 0.05])
def test_similarities_of_no_kernel_are_rejected_with_the_remedy_whatever_the_regularization(regularization):
    table = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    posterior = ExactPosterior(Precomputed(table), regularization=regularization)
    posterior.observe([0, 1], [1.0, 0.5])

    with pytest.raises(NotPositiveSemidefinite, match=r"kb\.kernels\.repair"):
        posterior.observe([2], [1.0])
    with pytest.raises(NotPositiveSemidefinite, match=r"kb\.kernels\.repair"):
        posterior.predict([2])


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.IllConditioned")
def test_tiny_contexts_beside_large_ones_are_no_reason_to_repair():
    rng = np.random.default_rng(1)
    for _ in range(300):
        large, tiny = rng.normal(size=(10, 2)), 1e-12 * rng.normal(size=(3, 2))
        posterior = ExactPosterior(FromCallable(Linear().gram), regularization=float(rng.uniform(0.05, 0.2)))
        posterior.observe(large, np.ones(10))

        posterior.observe(tiny, np.ones(3))

        assert posterior.size == 13


def test_one_reward_may_be_a_number_and_several_may_not():
    posterior, other = (ExactPosterior(Gaussian(length_scale=0.5), regularization=0.3) for _ in range(2))
    posterior.observe([[0.2, 0.4]], 0.75)
    other.observe([[0.2, 0.4]], [0.75])

    assert posterior.predict([[0.3, 0.3]]).mean == other.predict([[0.3, 0.3]]).mean
    with pytest.raises(InvalidReward, match="one reward per context: 2 contexts"):
        posterior.observe([[0.2, 0.4], [0.1, 0.1]], 0.75)


def test_masked_rewards_are_rejected_and_unmasked_ones_of_that_type_are_not():
    posterior = ExactPosterior(Gaussian(length_scale=0.5), regularization=0.3)

    with pytest.raises(InvalidReward, match="masked"):
        posterior.observe([[0.1], [0.2]], np.ma.array([1.0, 0.0], mask=[False, True]))
    posterior.observe([[0.1], [0.2]], np.ma.array([1.0, 0.0], mask=[False, False]))

    assert posterior.n_observations == 2


def test_the_smallest_regularization_grows_with_the_largest_similarity_of_any_point():
    """1e-8 of it times the largest count, or 4 ε/1e-8 of the trace; the last point is only about to be observed."""
    rounding = 4.0 * np.finfo(float).eps / 1e-8

    found = [least_regularization(np.array([1.0, new]), np.array([3.0, 0.0])) for new in (1.0, 100.0)]

    assert_allclose(found, [3.0 * rounding, 3e-6], rtol=1e-12)


@pytest.mark.parametrize("regularization", [1e-6, 3e4])
def test_similarities_below_the_rounding_of_the_regularization_are_no_reason_to_reject(regularization):
    """Their pivots are γ up to its own rounding, which is in units of γ."""
    rng = np.random.default_rng(0)
    tiny = 1e-12 * regularization
    kernel = FromCallable(lambda x, z: tiny * (x @ z.T), diagonal=lambda x: tiny * (x**2).sum(axis=1))
    posterior = ExactPosterior(kernel, regularization=regularization)

    posterior.observe(rng.normal(size=(60, 3)), rng.normal(size=60))

    assert posterior.size == 60


def test_a_lack_beyond_the_rounding_of_a_small_regularization_is_rejected():
    gamma = 1e-6
    kernel = FromCallable(
        lambda x, z: gamma * 1e-7 * np.sign(x @ z.T) * np.abs(x - z.T), diagonal=lambda x: 0.0 * x[:, 0]
    )
    posterior = ExactPosterior(kernel, regularization=gamma)

    with pytest.raises(NotPositiveSemidefinite):
        posterior.observe([[1.0], [2.0]], [0.0, 1.0])
