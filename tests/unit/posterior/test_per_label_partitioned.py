import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, NotLearnt
from kernelbandits.kernels import Delta, Gaussian, PairProduct, Spectrum
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import AutoPosterior, ExactPosterior, PartitionedPosterior, posterior_factory

KERNEL = PairProduct(Gaussian(length_scale=0.7), Delta())


def test_the_automatic_choice_takes_labels_apart():
    assert isinstance(posterior_factory("auto")(KERNEL, 0.5), PartitionedPosterior)
    assert isinstance(posterior_factory("auto")(PairProduct(Delta(), Spectrum(n=2)), 0.5), AutoPosterior)


def test_labels_with_something_in_common_are_rejected():
    with pytest.raises(InvalidParameter, match="nothing in common"):
        PartitionedPosterior(PairProduct(Gaussian(length_scale=0.7), Spectrum(n=2)), regularization=1.0)


@pytest.mark.parametrize("regularization", [0.03, 4.0])
def test_choices_are_those_of_the_whole_gram_matrix(regularization):
    rng = np.random.default_rng(1)
    parted = kb.KernelUCB(KERNEL, regularization=regularization, exploration=0.3)
    whole = kb.KernelUCB(KERNEL, regularization=regularization, exploration=0.3, posterior="exact")

    for _ in range(80):
        shown = kb.Pairs(rng.normal(size=2), ["a", "b", 3])
        ours, theirs = parted.choose(shown), whole.choose(shown)
        reward = float(rng.normal())
        parted.learn(ours, reward)
        whole.learn(theirs, reward)

        assert ours.item == theirs.item
        assert_allclose([ours.mean, ours.width], [theirs.mean, theirs.width], rtol=1e-8, atol=1e-10)
    assert_allclose(parted.posterior.log_det_gain, whole.posterior.log_det_gain)


def test_pending_decisions_narrow_only_their_label():
    points = kb.Pairs([0.3, 0.1], ["a", "b"])
    posterior, whole = (form(KERNEL, regularization=0.2) for form in (PartitionedPosterior, ExactPosterior))
    for each in (posterior, whole):
        each.observe(kb.Pairs([0.0, 0.0], ["a", "b"]), [1.0, -1.0])

    unrewarded = posterior.predict(points, pending=kb.Pairs([0.3, 0.2], ["b"]))

    expected = whole.predict(points, pending=kb.Pairs([0.3, 0.2], ["b"]))
    assert_allclose(unrewarded.width, expected.width)
    assert unrewarded.width[0] == posterior.predict(points).width[0]
    assert unrewarded.width[1] < posterior.predict(points).width[1]


@pytest.mark.parametrize(
    "move",
    [
        lambda posterior, pairs: posterior.amend(pairs, was=[1.0, 1.0], now=[2.0, 2.0]),
        lambda posterior, pairs: posterior.remove(pairs, [1.0, 1.0]),
    ],
    ids=["amend", "remove"],
)
def test_a_move_that_one_label_rejects_moves_none(move):
    posterior = PartitionedPosterior(KERNEL, regularization=0.2)
    posterior.observe(kb.Pairs([0.0, 0.0], ["a"]), [1.0])
    queries = kb.Pairs([0.1, 0.0], ["a", "b"])
    before = posterior.predict(queries)

    pairs = kb.Pairs([0.0, 0.0], ["a", "b"])
    with pytest.raises(NotLearnt):
        posterior.amend(pairs, was=[1.0, 1.0], now=[2.0, 2.0]) if move == "amend" else posterior.remove(
            pairs, [1.0] * 2
        )

    after = posterior.predict(queries)
    assert_allclose(after.mean, before.mean)
    assert_allclose(after.width, before.width)
    assert posterior.n_observations == 1


def test_contexts_unlike_those_learned_are_rejected_under_any_label():
    posterior = PartitionedPosterior(KERNEL, regularization=0.2)
    posterior.observe(kb.Pairs([0.0, 0.0], ["a"]), [1.0])

    with pytest.raises(kb.errors.InvalidContexts, match="columns"):
        posterior.predict(kb.Pairs([0.0, 0.0, 0.0], ["b"]))


def test_a_saved_policy_goes_on_alike(tmp_path):
    rng = np.random.default_rng(2)
    policy = kb.KernelUCB(KERNEL, regularization=0.5, exploration=0.3)
    for _ in range(30):
        policy.learn(policy.choose(kb.Pairs(rng.normal(size=2), ["a", "b", 3])), float(rng.normal()))
    policy.save(tmp_path / "policy.kb")

    again = kb.load(tmp_path / "policy.kb")

    queries = PairRows(rng.normal(size=(4, 2)), ["a", "b", 3, "c"], is_shared=False)
    assert isinstance(again.posterior, PartitionedPosterior)
    assert_allclose(again.posterior.predict(queries).mean, policy.posterior.predict(queries).mean, atol=1e-12)
    assert_allclose(again.posterior.predict(queries).width, policy.posterior.predict(queries).width)
