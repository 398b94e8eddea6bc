import numpy as np
import pytest
from numpy.testing import assert_allclose

from definitions import ridge
from kernelbandits.errors import IllConditioned, InvalidContexts
from kernelbandits.kernels import FromCallable, Gaussian, Linear
from kernelbandits.posterior import AutoPosterior, ExactPosterior, PrimalPosterior

RNG = np.random.default_rng(0)
CONTEXTS, REWARDS = RNG.normal(size=(40, 8)), RNG.normal(size=40)


def assert_same_answers(posterior, rows):
    mean, width = ridge(Linear(), CONTEXTS[rows], REWARDS[rows], CONTEXTS, posterior.regularization)
    assert_allclose(posterior.predict(CONTEXTS).mean, mean, rtol=1e-8, atol=1e-9)
    assert_allclose(posterior.predict(CONTEXTS).width, width, rtol=1e-8)


def test_the_form_changes_when_points_outnumber_features_and_back():
    posterior = AutoPosterior(Linear(), regularization=0.3)
    forms = []

    for row in range(20):
        posterior.observe(CONTEXTS[[row]], REWARDS[[row]])
        forms.append(posterior.form)
        assert_same_answers(posterior, np.arange(row + 1))
    for row in range(19):
        posterior.remove(CONTEXTS[[row]], REWARDS[[row]])
        forms.append(posterior.form)
        assert_same_answers(posterior, np.arange(row + 1, 20))

    assert forms[:20] == ["exact"] * 8 + ["primal"] * 12
    assert forms[20:] == ["primal"] * 16 + ["exact"] * 3


def test_a_large_batch_goes_straight_to_the_cheaper_form(monkeypatch):
    def reject(*args):
        raise AssertionError("a batch larger than the features was factored over points")

    monkeypatch.setattr("kernelbandits.posterior.exact.ExactPosterior._apply", reject)
    posterior = AutoPosterior(Linear(), regularization=0.3)

    posterior.observe(CONTEXTS, REWARDS)

    assert posterior.form == "primal"
    assert_same_answers(posterior, np.arange(40))


def test_repeats_are_no_reason_to_change_form():
    posterior = AutoPosterior(Linear(), regularization=0.3)

    posterior.observe(np.repeat(CONTEXTS[:2], 20, axis=0), np.ones(40))

    assert posterior.form == "exact"


def test_a_kernel_without_features_stays_exact():
    posterior = AutoPosterior(Gaussian(length_scale=1.0), regularization=0.3)

    posterior.observe(CONTEXTS, REWARDS)

    assert posterior.form == "exact"


def test_changing_form_does_not_warn_again():
    posterior = AutoPosterior(Linear(), regularization=1e-9)
    with pytest.warns(IllConditioned):
        posterior.observe(CONTEXTS[:2], REWARDS[:2])

    posterior.observe(CONTEXTS[2:], REWARDS[2:])

    assert posterior.form == "primal"


def test_a_state_is_restored_in_the_form_it_had():
    posterior = AutoPosterior(Linear(), regularization=0.3)
    posterior.observe(CONTEXTS, REWARDS)
    other = AutoPosterior(Linear(), regularization=0.3)

    other.restore(posterior.state())

    assert other.form == "primal"
    assert_same_answers(other, np.arange(40))


def line(count, *, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(count, 1)), rng.normal(size=count)


def fed(kernel, points, rewards, regularization=0.3):
    """An automatic and an exact posterior with the same history, queried after every tenth observation."""
    auto = AutoPosterior(kernel, regularization=regularization)
    exact = ExactPosterior(kernel, regularization=regularization)
    forms = []
    for first in range(0, len(points), 10):
        for posterior in (auto, exact):
            posterior.observe(points[first : first + 10], rewards[first : first + 10])
        auto.predict(points[:3])
        forms.append(auto.form)
    return auto, exact, forms


def assert_same_as_exact(auto, exact, queries):
    prediction, reference = auto.predict(queries), exact.predict(queries)
    assert_allclose(prediction.mean, reference.mean, atol=1e-10)
    assert_allclose(prediction.width, reference.width, atol=1e-10)


def test_many_points_of_low_rank_are_compressed():
    points, rewards = line(300)
    auto, exact, forms = fed(Gaussian(length_scale=0.3), points, rewards)

    assert forms == ["exact"] * 12 + ["compressed"] * 18
    assert_same_as_exact(auto, exact, np.linspace(-0.5, 1.5, 40)[:, None])
    assert_allclose(auto.log_det_gain, exact.log_det_gain, rtol=1e-10)
    assert auto.form == "compressed"


def test_noisy_similarities_of_a_long_line_are_compressed_with_a_looser_tolerance():
    points, rewards = line(400)
    auto, exact, forms = fed(Gaussian(length_scale=1.0), 31.0 * points, rewards)

    assert forms[-1] == "compressed"
    assert_same_as_exact(auto, exact, 31.0 * points)
    assert auto.form == "compressed"


def test_the_record_stays_the_same_when_the_form_changes():
    points, rewards = line(200)
    auto = AutoPosterior(Gaussian(length_scale=0.3), regularization=0.3)
    auto.observe(points, rewards)
    record = auto.record

    auto.predict(points[:3])

    assert auto.form == "compressed"
    assert auto.record is record


def test_nothing_is_compressed_that_is_not_queried():
    points, rewards = line(200)
    auto = AutoPosterior(Gaussian(length_scale=0.3), regularization=0.3)

    auto.observe(points, rewards)

    assert auto.form == "exact"


def test_points_of_full_rank_stay_exact():
    rng = np.random.default_rng(2)
    points, rewards = rng.normal(size=(700, 6)), rng.normal(size=700)
    *_, forms = fed(Gaussian(length_scale=1.0), points, rewards)

    assert set(forms) == {"exact"}


def test_what_is_queried_counts_towards_the_rank():
    points, rewards = line(200)
    auto = AutoPosterior(Gaussian(length_scale=0.3), regularization=0.3)
    auto.observe(points[:100], rewards[:100])
    far = np.random.default_rng(3).uniform(0.0, 100.0, size=(30, 10, 1))

    for question in far:
        auto.predict(question)
    auto.observe(points[100:], rewards[100:])
    auto.predict(points[:3])

    assert auto.form == "exact"


def test_a_rank_that_grows_again_leads_back_to_the_exact_form():
    points, rewards = line(200)
    far = np.random.default_rng(3).uniform(2.0, 400.0, size=(700, 1))
    auto, exact, _ = fed(Gaussian(length_scale=0.3), points, rewards)
    assert auto.form == "compressed"

    for posterior in (auto, exact):
        posterior.observe(far, np.ones(700))
    assert_same_as_exact(auto, exact, far[:9])
    assert_same_as_exact(auto, exact, points[:9])

    assert auto.form == "exact"


def test_questions_far_from_the_data_lead_back_to_the_exact_form():
    points, rewards = line(200)
    auto, exact, _ = fed(Gaussian(length_scale=0.3), points, rewards)
    far = np.random.default_rng(3).uniform(2.0, 400.0, size=(900, 1))

    assert_same_as_exact(auto, exact, far)
    assert_same_as_exact(auto, exact, points[:9])

    assert auto.form == "exact"


def test_removals_lead_back_to_the_exact_form():
    points, rewards = line(200)
    auto, exact, _ = fed(Gaussian(length_scale=0.05), points, rewards)
    assert auto.form == "compressed"

    for posterior in (auto, exact):
        posterior.remove(points[:140], rewards[:140])

    assert_same_as_exact(auto, exact, points[:9])
    assert auto.form == "exact"


@pytest.mark.parametrize(("regularization", "form"), [(0.01, "compressed"), (1e-4, "exact")])
def test_nothing_is_compressed_where_it_would_show(regularization, form):
    """sqrt(t) max k(x, x) may be 5,000 times the regularization."""
    points, rewards = line(300)

    *_, forms = fed(Gaussian(length_scale=0.3), points, rewards, regularization)

    assert forms[-1] == form


def test_a_similarity_that_might_be_no_kernel_stays_exact():
    points, rewards = line(200)
    kernel = FromCallable(lambda first, second: np.exp(-((first - second.T) ** 2)))

    *_, forms = fed(kernel, points, rewards)

    assert forms[-1] == "exact"


def test_a_compressed_state_is_restored_and_compressed_again():
    points, rewards = line(300)
    auto, exact, _ = fed(Gaussian(length_scale=0.3), points, rewards)
    other = AutoPosterior(Gaussian(length_scale=0.3), regularization=0.3)

    other.restore(auto.state())

    assert_same_as_exact(other, exact, points)
    assert other.form == auto.form == "compressed"


def test_contexts_that_were_rejected_are_not_remembered():
    points, rewards = line(300)
    auto = AutoPosterior(Gaussian(length_scale=0.3), regularization=0.3)
    auto.observe(points[:100], rewards[:100])

    with pytest.raises(InvalidContexts):
        auto.predict(np.zeros((2, 5)))
    auto.observe(points[100:], rewards[100:])

    assert auto.predict(points[:2]).mean.shape == (2,)
    assert auto.form == "compressed"


def test_the_capabilities_are_those_of_the_current_form():
    posterior = AutoPosterior(Linear(), regularization=1.0)
    assert isinstance(posterior._current_form(), ExactPosterior)
    assert posterior.capabilities == ExactPosterior.capabilities

    posterior.observe([[1.0], [2.0]], [0.0, 1.0])

    assert isinstance(posterior._current_form(), PrimalPosterior)
    assert posterior.capabilities == PrimalPosterior.capabilities
