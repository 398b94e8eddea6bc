import copy
import pickle

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Delta, FromCallable, Gaussian, Linear, PairProduct
from kernelbandits.posterior import AutoPosterior
from kernelbandits.selection import screened


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
