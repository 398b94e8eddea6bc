"""Linear models that keep a bounded number of points."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import NotLearnt
from kernelbandits.kernels import LabeledLinear, Linear
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import PerActionPosterior, PrimalPosterior
from kernelbandits.posterior._primal_loops import feature_loops

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 3))
REWARDS = RNG.normal(size=400)


def pairs(rows):
    return PairRows([f"label {row % 5}" for row in rows], ROWS[rows], is_shared=False)


FORMS = {
    "primal": (lambda keep: PrimalPosterior(Linear(), regularization=0.3, keep=keep), lambda rows: ROWS[rows]),
    "disjoint": (lambda keep: PerActionPosterior(LabeledLinear(()), regularization=0.3, keep=keep), pairs),
    "hybrid": (lambda keep: PerActionPosterior(LabeledLinear((0,)), regularization=0.3, keep=keep), pairs),
}


@pytest.mark.parametrize("form", FORMS)
def test_merging_changes_no_prediction_and_bounds_what_is_kept(form):
    make, take = FORMS[form]
    bounded, whole = make(40), make(None)

    for row in range(400):
        for posterior in (bounded, whole):
            posterior.observe(take(np.array([row])), [REWARDS[row]])
            posterior.predict(take(np.array([0])))

    prediction, expected = (posterior.predict(take(np.arange(50))) for posterior in (bounded, whole))
    assert_allclose(prediction.mean, expected.mean, atol=1e-10)
    assert_allclose(prediction.width, expected.width, atol=1e-10)
    assert bounded.size <= 41
    assert bounded.n_observations == whole.n_observations == 400
    assert_allclose(bounded.log_det_gain, whole.log_det_gain)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_can_be_changed_and_what_is_merged_cannot(form):
    make, take = FORMS[form]
    bounded, whole = make(40), make(None)
    for posterior in (bounded, whole):
        for row in range(200):
            posterior.observe(take(np.array([row])), [REWARDS[row]])
            posterior.predict(take(np.array([0])))
        posterior.remove(take(np.array([199])), REWARDS[[199]])
        posterior.amend(take(np.array([198])), was=REWARDS[[198]], now=[5.0])

    with pytest.raises(NotLearnt, match="oldest observations, of which only sums are kept"):
        bounded.remove(take(np.array([0])), REWARDS[[0]])

    opened = make(40)
    opened.restore(bounded.state())
    for posterior in (bounded, opened, bounded.copy()):
        prediction, expected = (each.predict(take(np.arange(50))) for each in (posterior, whole))
        assert_allclose(prediction.mean, expected.mean, atol=1e-9)
        assert_allclose(prediction.width, expected.width, atol=1e-9)
        assert posterior.n_observations == 199


@pytest.mark.parametrize("model", ["shared", "disjoint"])
def test_memory_of_a_linear_model_stops_growing(model):
    feature_loops.ensure()  # a compiler at work in the background would be measured, too
    policy = kb.LinUCB(model=model)
    policy.posterior.keep = policy.remember = 500

    def play(n_rounds):
        for contexts in RNG.normal(size=(n_rounds, 4, 6)):
            decision = policy.choose(contexts)
            policy.learn(decision, float(contexts[decision.action, 0]))

    play(2_500)
    tracemalloc.start()
    play(1_500)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert grown < 400_000  # 1,500 contexts with their keys alone would take 500,000
    assert policy.posterior.size < 2_000
    assert policy.round_index == 4_001
