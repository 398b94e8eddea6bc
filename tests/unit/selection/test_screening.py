import copy
import pickle

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Delta, FromCallable, Gaussian, Linear, PairProduct
from kernelbandits.posterior import AutoPosterior, ExactPosterior
from kernelbandits.selection import screened
from kernelbandits.selection.screening import DualWeights, Screening, bound_terms
from kernelbandits.selection.ties import pick_lowest


def make_policy(kernel=None, n_known=20, **settings):
    rng = np.random.default_rng(0)
    policy = kb.KernelUCB(kernel or Gaussian(length_scale=0.5), regularization=0.5, exploration=0.4, **settings)
    if n_known:
        policy.warm_start(rng.uniform(size=(n_known, 2)), rng.normal(size=n_known))
    return policy


CONTEXTS = np.random.default_rng(1).uniform(size=(30, 2))


def test_the_report_tells_how_few_widths_were_needed():
    policy = make_policy()

    report = policy.choose(CONTEXTS).cost

    assert (report.engine, report.n_actions, report.means_computed) == ("screened", 30, 30)
    assert 1 <= report.widths_computed <= 30
    assert report.bounds_scanned == 30


@pytest.mark.parametrize(
    ("policy", "contexts"),
    [
        (make_policy(n_known=0), CONTEXTS),
        (make_policy(), CONTEXTS[:1]),
        (make_policy(FromCallable(lambda x, z: x @ z.T)), CONTEXTS),
    ],
    ids=["nothing known", "one action", "a function"],
)
def test_what_cannot_be_screened_is_scored(policy, contexts):
    assert policy.choose(contexts).cost.engine == "exhaustive"


def test_pending_decisions_are_scored_for():
    policy = make_policy()
    policy.expect(policy.choose(CONTEXTS))

    assert policy.choose(CONTEXTS).cost.engine == "exhaustive"


def test_a_catalog_with_a_context_is_screened():
    kernel = PairProduct(context=Gaussian(length_scale=0.5), action=Delta())
    policy = kb.KernelUCB(kernel, regularization=0.5, exploration=0.4, posterior="exact")
    rng, catalog = np.random.default_rng(2), kb.Catalog(["red", "green", "blue"])
    for context in rng.uniform(size=(30, 2)):
        scores = policy.posterior.predict(kb.Pairs(context, ["red", "green", "blue"])).upper(0.4)
        decision = policy.choose(catalog.given(context))
        assert decision.action == scores.argmax()
        policy.learn(decision, float(rng.normal()))

    assert decision.cost.engine == "screened"


def test_rows_of_another_length_are_rejected_in_words():
    with pytest.raises(InvalidContexts, match="columns"):
        make_policy().choose(np.ones((4, 3)))


def test_similarities_that_overflow_are_rejected_in_words():
    policy = make_policy(Linear() * Linear() * Linear(), posterior="exact")

    with pytest.raises(InvalidContexts, match="overflow"):
        policy.choose(CONTEXTS * 1e120)


def test_a_copy_starts_empty():
    policy = make_policy()
    policy.choose(CONTEXTS)

    copied = policy.copy()

    assert copied._selectors.screening._record is None
    assert copied.choose(CONTEXTS).action == policy.choose(CONTEXTS).action


def test_only_the_exact_form_is_screened():
    posterior = AutoPosterior(Linear(), regularization=1.0)
    posterior.observe(CONTEXTS[:10], np.zeros(10))

    assert posterior.form == "primal"
    assert screened(posterior, 30) is None


def test_a_copy_knows_nothing_of_the_factor():
    """Addresses of another factor, or of another process, would be read."""
    policy = make_policy()
    policy.choose(CONTEXTS)

    for copied in (copy.deepcopy(policy._selectors.screening), pickle.loads(pickle.dumps(policy._selectors.screening))):
        assert not len(copied._panels._rows)


def test_what_was_screened_is_exact_and_says_so():
    policy = make_policy()
    selector = Screening()
    selector.posterior = policy.posterior._current_form()

    found = selector.select(policy._actions(CONTEXTS, None), 0.4, pick_lowest)

    prediction = policy.posterior.predict(CONTEXTS[[found.row]])
    assert found.error == 0.0
    assert (found.mean, found.width) == pytest.approx((prediction.mean.item(), prediction.width.item()), rel=1e-12)


@pytest.mark.parametrize(("gamma", "n_points"), [(0.5, 9), (1e-3, 40), (7.0, 200)])
def test_the_slack_of_bounds_covers_the_rounding_of_a_substitution(gamma, n_points):
    """It grows with the number of rows s and the spread tr K / γ, as s ε sqrt(s + tr K / γ) does."""
    rng = np.random.default_rng(0)
    posterior = ExactPosterior(Gaussian(length_scale=0.5), regularization=gamma)
    posterior.observe(rng.uniform(size=(n_points, 2)), rng.normal(size=n_points))
    whitening, weights = posterior.whitening(), DualWeights()
    weights.size = n_points

    slack = bound_terms(whitening, weights, gamma, 0.0, 1.0).slack

    eps, spread = np.finfo(float).eps, n_points / gamma  # k(x, x) = 1
    assert slack >= 1e-12 + 2.0 * n_points * eps * np.sqrt(n_points + spread)
    assert slack >= 1e-12 + 4.0 * spread * eps
    assert slack <= 1e-12 + 10.0 * (n_points + 16) * eps * (1.0 + spread)
