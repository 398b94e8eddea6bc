import numpy as np
import pytest
from numpy.testing import assert_allclose

from definitions import ridge
from kernelbandits.errors import IllConditioned
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.posterior import AutoPosterior

RNG = np.random.default_rng(0)
CONTEXTS, REWARDS = RNG.normal(size=(40, 8)), RNG.normal(size=40)


def assert_same_answers(posterior, rows):
    mean, width = ridge(Linear(), CONTEXTS[rows], REWARDS[rows], CONTEXTS, posterior.regularisation)
    assert_allclose(posterior.predict(CONTEXTS).mean, mean, rtol=1e-8, atol=1e-9)
    assert_allclose(posterior.predict(CONTEXTS).width, width, rtol=1e-8)


def test_the_form_changes_when_points_outnumber_features_and_back():
    posterior = AutoPosterior(Linear(), regularisation=0.3)
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
    def refuse(*args):
        raise AssertionError("a batch larger than the features was factored over points")

    monkeypatch.setattr("kernelbandits.posterior.exact.ExactPosterior._follow", refuse)
    posterior = AutoPosterior(Linear(), regularisation=0.3)

    posterior.observe(CONTEXTS, REWARDS)

    assert posterior.form == "primal"
    assert_same_answers(posterior, np.arange(40))


def test_repeats_are_no_reason_to_change_form():
    posterior = AutoPosterior(Linear(), regularisation=0.3)

    posterior.observe(np.repeat(CONTEXTS[:2], 20, axis=0), np.ones(40))

    assert posterior.form == "exact"


def test_a_kernel_without_features_stays_exact():
    posterior = AutoPosterior(Gaussian(length_scale=1.0), regularisation=0.3)

    posterior.observe(CONTEXTS, REWARDS)

    assert posterior.form == "exact"


def test_changing_form_does_not_warn_again():
    posterior = AutoPosterior(Linear(), regularisation=1e-9)
    with pytest.warns(IllConditioned):
        posterior.observe(CONTEXTS[:2], REWARDS[:2])

    posterior.observe(CONTEXTS[2:], REWARDS[2:])

    assert posterior.form == "primal"


def test_a_state_is_restored_in_the_form_it_had():
    posterior = AutoPosterior(Linear(), regularisation=0.3)
    posterior.observe(CONTEXTS, REWARDS)
    other = AutoPosterior(Linear(), regularisation=0.3)

    other.restore(posterior.state())

    assert other.form == "primal"
    assert_same_answers(other, np.arange(40))
