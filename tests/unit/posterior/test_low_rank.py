import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import IllConditioned, InvalidContexts, InvalidParameter, NotSupported, NumericalError
from kernelbandits.kernels import Gaussian, Linear, Matern, Polynomial, Precomputed, Spectrum
from kernelbandits.posterior import ExactPosterior, LowRankPosterior
from kernelbandits.testing import PosteriorContract

CASES = {
    "line, short": (Gaussian(length_scale=0.1), 1),
    "line, long": (Gaussian(length_scale=1.0), 1),
    "plane, middle": (Gaussian(length_scale=0.5), 2),
    "plane, long": (Gaussian(length_scale=1.0), 2),
    "rough line": (Matern(smoothness=2.5, length_scale=3.0), 1),
    "sum": (Gaussian(length_scale=0.3) + 0.5 * Linear(), 1),
    "polynomial": (Polynomial(degree=3, offset=1.0), 2),
}


def world(dimension, size, *, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(size, dimension))
    rewards = np.sin(6.0 * points.sum(axis=1)) + 0.1 * rng.normal(size=size)
    queries = rng.uniform(-0.2, 1.2, size=(60, dimension))  # some lie where nothing was observed
    return points, rewards, queries


def both(kernel, regularization, **options):
    exact = ExactPosterior(kernel, regularization=regularization)
    return exact, LowRankPosterior(kernel, regularization=regularization, **options)


def bounds(exact, tolerance=1e-13):
    """As stated in the docstring, and ten times the rounding errors that a condition number of tκ/γ allows."""
    _, weights, counts, _ = exact.support()
    t, kappa = exact.n_observations, exact._largest_similarity
    u = 0.5 * np.sqrt(t * kappa / exact.regularization)
    dual = np.sqrt(np.sum(weights**2 / counts))  # a point seen n times has n equal weights
    rounding = 10.0 * np.finfo(float).eps * kappa * (1.0 + u)
    return (
        tolerance * kappa * np.sqrt(t) * dual * (1.0 + u) + rounding * np.sqrt(t) * dual,
        tolerance * kappa * (1.0 + u) ** 2 + rounding * (1.0 + u),
    )


def errors(exact, compressed, queries):
    reference, prediction = exact.predict(queries), compressed.predict(queries)
    of_variance = exact.regularization * (prediction.width**2 - reference.width**2)
    return np.abs(prediction.mean - reference.mean).max(), np.abs(of_variance).max()


@pytest.mark.parametrize("regularization", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_the_exact_form_within_the_stated_bound(case, regularization):
    kernel, dimension = CASES[case]
    points, rewards, queries = world(dimension, 600)
    rows = np.concatenate([np.arange(600), np.arange(0, 600, 3), np.zeros(20, dtype=int)])
    exact, compressed = both(kernel, regularization)

    for posterior in (exact, compressed):
        posterior.observe(points[rows[:300]], rewards[rows[:300]])
        for row in rows[300:330]:
            posterior.observe(points[[row]], rewards[[row]])
        posterior.observe(points[rows[330:]], rewards[rows[330:]])

    of_mean, of_variance = errors(exact, compressed, np.vstack([queries, points[:40]]))
    bound_of_mean, bound_of_variance = bounds(exact)
    assert of_mean < bound_of_mean
    assert of_variance < bound_of_variance
    if regularization >= 0.1:
        assert max(of_mean, of_variance) < 1e-9
    assert compressed.rank < 300
    assert not compressed.needs_exact_fallback


def test_two_thousand_points_of_a_plane_keep_to_a_billionth():
    points, rewards, queries = world(2, 2000)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)

    for posterior in (exact, compressed):
        posterior.observe(points, rewards)

    assert max(errors(exact, compressed, queries)) < 1e-9
    assert compressed.rank < 300


def test_a_large_tolerance_fails_the_same_comparison():
    points, rewards, queries = world(2, 600)
    exact, compressed = both(Gaussian(length_scale=0.5), 0.1, tolerance=1e-4)

    for posterior in (exact, compressed):
        posterior.observe(points, rewards)

    assert min(errors(exact, compressed, queries)) > 1e-7


def test_points_where_nothing_was_observed_are_as_exact_as_others():
    points, rewards, _ = world(1, 400)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points, rewards)
    rank = compressed.rank

    beyond = np.linspace(-1.0, 2.0, 40)[:, None]

    assert max(errors(exact, compressed, beyond)) < 1e-11
    assert compressed.rank > rank


def test_the_rank_stops_growing():
    points, rewards, _ = world(1, 3000)
    posterior = LowRankPosterior(Gaussian(length_scale=0.2), regularization=0.1)
    ranks = []

    for first in range(0, 3000, 500):
        posterior.observe(points[first : first + 500], rewards[first : first + 500])
        ranks.append(posterior.rank)

    assert ranks[0] < 40
    assert ranks[-1] <= ranks[1] + 2


def test_thousands_of_single_observations_do_not_drift():
    points, rewards, queries = world(1, 1500)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.01)
    exact.observe(points, rewards)

    for row in range(1500):
        compressed.observe(points[[row]], rewards[[row]])
        compressed.predict(points[[row]])

    assert max(errors(exact, compressed, queries)) < 1e-9
    assert_allclose(compressed.log_det_gain, exact.log_det_gain, rtol=1e-11)
    assert_allclose(compressed.norm, exact.norm, rtol=1e-9)


def test_so_many_points_outside_are_answered_by_the_exact_form():
    rng = np.random.default_rng(2)
    points, rewards, far = rng.uniform(size=(200, 1)), rng.normal(size=200), rng.uniform(5.0, 50.0, size=(400, 1))
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points, rewards)

    assert max(errors(exact, compressed, far)) < 1e-12
    assert compressed.needs_exact_fallback
    assert compressed.rank < 300
    assert_allclose(compressed.covariance(far[:9], far), exact.covariance(far[:9], far), atol=1e-10)
    for posterior in (exact, compressed):
        posterior.observe(points[:1] + 0.01, [3.0])
    assert max(errors(exact, compressed, far)) < 1e-12


def test_similarities_noisier_than_the_tolerance_are_noticed():
    points, rewards, queries = world(1, 600)
    exact, compressed = both(Gaussian(length_scale=0.05), 0.1, tolerance=1e-16)

    for posterior in (exact, compressed):
        posterior.observe(points, rewards)

    assert max(errors(exact, compressed, queries)) < 1e-11
    assert compressed.needs_exact_fallback


def test_a_point_queried_is_learned_as_it_was_then():
    """The caller may write over the array in between."""
    points, rewards, queries = world(1, 100)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points, rewards)
    queried = queries[:5].copy()
    compressed.predict(queried)
    queried[:] = 0.5

    for posterior in (exact, compressed):
        posterior.observe(queried[:1], [2.0])
        posterior.observe(queries[1:2], [1.0])

    assert max(errors(exact, compressed, queries)) < 1e-11


def test_many_removals_leave_what_was_never_more():
    points, rewards, queries = world(1, 300)
    exact, compressed = both(Gaussian(length_scale=0.2), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points, rewards)
        posterior.observe(points[:50], rewards[:50])
    rank = compressed.rank

    for posterior in (exact, compressed):
        posterior.remove(points[:290], rewards[:290])
        posterior.amend(points[295:], was=rewards[295:], now=rewards[295:] + 1.0)

    assert max(errors(exact, compressed, queries)) < 1e-11
    assert compressed.size == exact.size == 60
    assert compressed.rank <= rank + 20


def test_the_record_is_all_that_is_saved():
    points, rewards, queries = world(2, 300)
    compressed = LowRankPosterior(Gaussian(length_scale=0.5), regularization=0.1)
    compressed.observe(points, rewards)
    restored = LowRankPosterior(Gaussian(length_scale=0.5), regularization=0.1)

    restored.restore(compressed.state())

    assert set(compressed.state()) == {"counts", "sums", "errors", "points.rows"}
    assert max(errors(compressed, restored, queries)) < 1e-11


def test_a_similarity_that_might_be_no_kernel_is_rejected():
    with pytest.raises(NotSupported, match="Precomputed might be no kernel"):
        LowRankPosterior(Precomputed(np.eye(3)), regularization=0.1)


def test_a_tolerance_is_a_positive_number():
    with pytest.raises(InvalidParameter, match="The tolerance"):
        LowRankPosterior(Linear(), regularization=0.1, tolerance=0.0)


def test_contexts_whose_similarities_overflow_are_rejected_and_nothing_changes():
    points, rewards, queries = world(2, 40)
    compressed = LowRankPosterior(Linear(), regularization=0.1)
    compressed.observe(points, rewards)
    before = compressed.predict(queries)

    for call in (
        lambda: compressed.predict(np.full((1, 2), 1e200)),
        lambda: compressed.observe(np.full((1, 2), 1e200), [1.0]),
    ):
        with pytest.raises(InvalidContexts, match="overflow"):
            call()

    after = compressed.predict(queries)
    assert_allclose(after.mean, before.mean, rtol=1e-9)
    assert_allclose(after.width, before.width, rtol=1e-9)


def test_a_giant_that_was_removed_leaves_no_trace():
    points, rewards, queries = world(2, 40)
    compressed = LowRankPosterior(Linear(), regularization=0.1)
    compressed.observe(points, rewards)
    before = compressed.predict(queries)
    giant = np.array([[1e6, -2e6]])

    with pytest.warns(IllConditioned):
        compressed.observe(giant, [1.0])
    compressed.remove(giant, [1.0])

    after = compressed.predict(queries)
    assert_allclose(after.mean, before.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(after.width, before.width, rtol=1e-8)


def test_a_failure_half_way_leaves_what_was_known(monkeypatch):
    points, rewards, queries = world(1, 60)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)

    def fail(*args, **options):
        raise np.linalg.LinAlgError

    with monkeypatch.context() as patch:
        patch.setattr("kernelbandits.posterior.low_rank.RidgeRoot.__init__", fail)
        with pytest.raises(NumericalError):
            compressed.observe(points[40:], rewards[40:])
    assert compressed.size == 0
    for posterior in (exact, compressed):
        posterior.observe(points[:45], rewards[:45])

    assert max(errors(exact, compressed, queries)) < 1e-11


def test_a_root_that_rounding_keeps_from_growing_is_rebuilt(monkeypatch):
    points, rewards, queries = world(1, 60)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points[:5], rewards[:5])
        posterior.predict(points[:5])

    def fail(*args, **options):
        raise np.linalg.LinAlgError

    monkeypatch.setattr("kernelbandits.posterior.low_rank.RidgeRoot.widen", fail)

    assert max(errors(exact, compressed, queries)) < 1e-11


def test_a_question_that_rounding_keeps_from_an_answer_is_rejected_in_words(monkeypatch):
    points, rewards, queries = world(1, 60)
    _, compressed = both(Gaussian(length_scale=0.3), 0.1)
    compressed.observe(points, rewards)
    compressed.observe(points, rewards)

    def fail(*args, **options):
        raise np.linalg.LinAlgError

    for queried in (compressed.predict, compressed.covariance):
        with monkeypatch.context() as patch:
            patch.setattr("kernelbandits.posterior.low_rank.RidgeRoot.__init__", fail)
            patch.setattr("kernelbandits.posterior.low_rank.RidgeRoot.widen", fail)
            with pytest.raises(NumericalError, match=r"too small .* of 120 observations.* Take a regularization of at"):
                queried(queries)


def test_what_is_observed_waits_until_it_is_requested(monkeypatch):
    points, rewards, queries = world(1, 400)
    exact, compressed = both(Gaussian(length_scale=0.3), 0.1)
    for posterior in (exact, compressed):
        posterior.observe(points[:300], rewards[:300])

    with monkeypatch.context() as patch:
        patch.delattr("kernelbandits.posterior.low_rank.RidgeRoot.add")
        patch.delattr("kernelbandits.posterior._basis.Basis.coordinates")
        for row in range(290, 330):
            compressed.observe(points[[row]], rewards[[row]])
        compressed.amend(points[[3, 310]], was=[0.0, 0.0], now=[1.0, 2.0])
    for row in range(290, 330):
        exact.observe(points[[row]], rewards[[row]])
    exact.amend(points[[3, 310]], was=[0.0, 0.0], now=[1.0, 2.0])

    assert max(errors(exact, compressed, queries)) < 1e-11


def test_kernel_ucb_chooses_as_with_the_exact_form():
    rng = np.random.default_rng(3)
    actions = rng.uniform(size=6)
    chosen = {}

    for form in (ExactPosterior, LowRankPosterior):
        rng = np.random.default_rng(4)
        policy = kb.KernelUCB(
            Gaussian(length_scale=0.3),
            regularization=0.5,
            exploration=0.5,
            posterior=lambda kernel, regularization, form=form: form(kernel, regularization=regularization),
        )
        chosen[form] = []
        for _ in range(300):
            contexts = np.column_stack([np.full(6, rng.uniform()), actions])
            decision = policy.choose(contexts)
            policy.learn(decision, float(np.sin(7.0 * contexts[decision.action].prod()) + 0.1 * rng.normal()))
            chosen[form].append(decision.action)

    assert chosen[ExactPosterior] == chosen[LowRankPosterior]


class TestCompressedGaussian(PosteriorContract):
    @pytest.fixture(params=[0.05, 9.0])
    def posterior(self, request):
        return LowRankPosterior(Gaussian(length_scale=0.8), regularization=request.param)

    @pytest.fixture
    def points(self):
        return np.random.default_rng(0).normal(size=(14, 3))


class TestCompressedLinearOfFewDimensions(TestCompressedGaussian):
    @pytest.fixture(params=[0.05, 9.0])
    def posterior(self, request):
        return LowRankPosterior(Linear() + 0.3, regularization=request.param)


class TestCompressedStrings(PosteriorContract):
    @pytest.fixture
    def posterior(self):
        return LowRankPosterior(Spectrum(n=2), regularization=0.7)

    @pytest.fixture
    def points(self):
        return [f"{first} {second}" for first in ("red", "green", "blue") for second in ("boat", "goat", "ship", "car")]


def test_the_record_is_compacted_when_more_than_a_quarter_of_its_slots_is_empty():
    exact, compressed = both(Gaussian(length_scale=0.3), 0.2)
    points, rewards, queries = world(2, 20)
    for posterior in (exact, compressed):
        posterior.observe(points, rewards)
    record, whole = compressed.record, compressed.whole

    compressed.remove(points[:5], rewards[:5])
    assert compressed.record is record
    assert compressed.whole is whole  # the exact form over the same record is kept
    assert record.n_slots == 20

    compressed.remove(points[5:6], rewards[5:6])
    exact.remove(points[:6], rewards[:6])
    assert compressed.record.n_slots == 14
    assert compressed.whole is not whole
    for form in (compressed, compressed.whole):
        assert_allclose(form.predict(queries).mean, exact.predict(queries).mean, rtol=1e-7, atol=1e-9)
        assert form.n_observations == 14
