"""A posterior with a budget: exact up to it, a dictionary beyond; and a posterior with an accuracy."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct
from kernelbandits.posterior import AutoPosterior, ExactPosterior, cheapest_exact, posterior_factory

KERNEL = Gaussian(length_scale=0.5)
RNG = np.random.default_rng(0)
POINTS, REWARDS = RNG.normal(size=(400, 3)), RNG.normal(size=400)


def observed(n, *, kernel=KERNEL, **options):
    posterior = AutoPosterior(kernel, regularization=0.2, **options)
    for row in range(n):
        posterior.observe(POINTS[row : row + 1], REWARDS[row : row + 1])
    return posterior


def test_up_to_the_budget_it_is_exact_and_then_a_dictionary(caplog):
    caplog.set_level(logging.INFO, logger="kernelbandits")
    posterior, exact = observed(30, budget=30), ExactPosterior(KERNEL, regularization=0.2)
    exact.observe(POINTS[:30], REWARDS[:30])
    assert posterior.form == "exact"
    assert posterior.certificate is None
    assert posterior.predict(POINTS).error is None
    assert_allclose(posterior.predict(POINTS).mean, exact.predict(POINTS).mean, atol=1e-12)
    assert not caplog.messages

    posterior.observe(POINTS[:30], REWARDS[:30])  # repeats are counts
    assert posterior.form == "exact"
    for row in range(30, 300):
        posterior.observe(POINTS[row : row + 1], REWARDS[row : row + 1])

    assert posterior.form == "nystroem"
    assert posterior.certificate.n_atoms == posterior.size == 30
    assert posterior.n_observations == posterior.n_merged == 330
    assert posterior.predict(POINTS).error.min() > 0.0
    assert not posterior.capabilities.is_exact
    assert [message for message in caplog.messages if "reached its budget of 30 points" in message] == caplog.messages


def test_at_the_budget_the_answers_hardly_change():
    posterior = observed(40, budget=40)
    before = posterior.predict(POINTS)

    posterior.observe(POINTS[40:41], REWARDS[40:41])

    exact = ExactPosterior(KERNEL, regularization=0.2)
    exact.observe(POINTS[:41], REWARDS[:41])
    after, true = posterior.predict(POINTS), exact.predict(POINTS)
    assert np.abs(after.mean - true.mean).max() < 0.05
    assert np.median(np.abs(after.width - true.width)) < 1e-3
    assert np.abs(after.mean - before.mean).max() > 0.05  # something was learned


def test_a_budget_that_the_points_do_not_need_makes_the_dictionary_finer():
    rng = np.random.default_rng(1)
    points, rewards = rng.uniform(size=(300, 1)), rng.normal(size=300)
    posterior, exact = AutoPosterior(KERNEL, regularization=2.0, budget=60), ExactPosterior(KERNEL, regularization=2.0)

    for row in range(300):
        posterior.observe(points[row : row + 1], rewards[row : row + 1])
    exact.observe(points, rewards)

    assert posterior.form == "nystroem"
    assert posterior.residual < 1e-5
    assert_allclose(posterior.predict(points).mean, exact.predict(points).mean, atol=1e-6)
    assert_allclose(posterior.predict(points).width, exact.predict(points).width, rtol=1e-6)


def test_a_batch_larger_than_the_budget_is_never_factored_as_a_whole(monkeypatch):
    def reject(*args):
        raise AssertionError("all points were factored")

    monkeypatch.setattr("kernelbandits.posterior.exact.ExactPosterior._apply", reject)
    posterior = AutoPosterior(KERNEL, regularization=0.2, budget=25)

    posterior.observe(POINTS, REWARDS)

    assert posterior.form == "nystroem"
    assert posterior.certificate.n_atoms == 25


def test_a_kernel_with_few_features_stays_exact_and_its_points_are_merged():
    posterior = observed(300, kernel=Linear(), budget=20)

    exact = ExactPosterior(Linear(), regularization=0.2)
    exact.observe(POINTS[:300], REWARDS[:300])
    prediction = posterior.predict(POINTS)
    assert posterior.form == "primal"
    assert posterior.size <= 20
    assert prediction.error is None
    assert_allclose(prediction.mean, exact.predict(POINTS).mean, atol=1e-8)
    assert_allclose(prediction.width, exact.predict(POINTS).width, rtol=1e-8)


def test_an_accuracy_takes_a_dictionary_where_that_pays_and_keeps_its_promise():
    rng = np.random.default_rng(1)
    points, rewards = rng.uniform(size=(400, 2)), rng.normal(size=400)
    kernel = kb.kernels.Matern(smoothness=1.5, length_scale=2.0)
    posterior = AutoPosterior(kernel, regularization=0.5, accuracy=0.3)

    for row in range(400):
        posterior.observe(points[row : row + 1], rewards[row : row + 1])
        posterior.predict(points[row : row + 2])
        assert posterior.residual <= 0.3 * 0.5

    exact = ExactPosterior(kernel, regularization=0.5)
    exact.observe(points, rewards)
    found, true = posterior.predict(points), exact.predict(points)
    assert posterior.form == "nystroem"
    assert posterior.certificate.n_atoms <= 280
    assert posterior.certificate.has_history
    assert posterior.n_merged == 0
    assert np.abs(found.width - true.width).max() < 0.02
    difference = np.maximum(np.abs(found.mean - true.mean), np.abs(found.width - true.width))
    assert (difference <= found.error).all()


def test_an_accuracy_stays_exact_where_a_dictionary_would_not_pay():
    posterior = AutoPosterior(Gaussian(length_scale=0.05), regularization=0.2, accuracy=0.01)

    for row in range(300):
        posterior.observe(POINTS[row : row + 1], REWARDS[row : row + 1])
        posterior.predict(POINTS[:2])

    assert posterior.form == "exact"


@pytest.mark.parametrize("n", [10, 25, 60, 300])
@pytest.mark.parametrize("options", [{"budget": 20}, {"accuracy": 0.3}])
def test_a_restored_posterior_continues_as_the_saved_one(n, options):
    posterior, restored = observed(n, **options), AutoPosterior(KERNEL, regularization=0.2, **options)

    restored.restore(posterior.state())

    posterior.observe(POINTS[300:350], REWARDS[300:350])
    restored.observe(POINTS[300:350], REWARDS[300:350])
    assert posterior.form == restored.form
    assert_allclose(restored.predict(POINTS).mean, posterior.predict(POINTS).mean, atol=1e-8)
    assert_allclose(restored.predict(POINTS).width, posterior.predict(POINTS).width, rtol=1e-8)


def test_what_was_dropped_cannot_become_exact_again():
    posterior = observed(300, budget=20)

    with pytest.raises(NotSupported, match="cannot be exact again"):
        AutoPosterior(KERNEL, regularization=0.2).restore(posterior.state())


def test_a_dictionary_does_not_shrink_to_a_smaller_budget():
    policy = kb.KernelUCB(KERNEL, regularization=0.2, budget=10)
    for row in range(40):
        policy.learn(policy.choose(POINTS[row : row + 3]), float(REWARDS[row]))
    before = policy.posterior.predict(POINTS).mean

    with pytest.raises(NotSupported, match="has 10 points, which cannot become fewer, and the budget is 5"):
        policy.refit(budget=5)

    assert policy.budget == 10
    assert np.array_equal(policy.posterior.predict(POINTS).mean, before)
    policy.refit(budget=20)
    assert_allclose(policy.posterior.predict(POINTS).mean, before, atol=1e-9)


def test_labels_share_a_dictionary():
    kernel = PairProduct(KERNEL, Delta())

    assert isinstance(cheapest_exact(kernel, regularization=0.2, budget=50), AutoPosterior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "The budget must be a whole number of at least 1, got 0"),
        ({"budget": -5}, "at least 1, got -5"),
        ({"budget": 2.5}, "whole number"),
        ({"budget": 10**9}, r"must fit into memory, got 1,000,000,000: .* At most [0-9,]+ fit"),
        ({"accuracy": 0.0}, "between 0 and 1, exclusive, got 0.0"),
        ({"accuracy": 1.0}, "between 0 and 1"),
        ({"accuracy": float("nan")}, "between 0 and 1"),
        ({"budget": 10, "accuracy": 0.1}, "a budget or an accuracy, got budget=10 and accuracy=0.1"),
    ],
)
def test_bad_parameters_are_rejected(options, message):
    with pytest.raises(InvalidParameter, match=message):
        AutoPosterior(KERNEL, regularization=0.2, **options)
    with pytest.raises(InvalidParameter, match=message):
        kb.KernelUCB(KERNEL, **options)
    with pytest.raises(InvalidParameter, match=message):
        kb.GPUCB(KERNEL, noise_variance=0.1, **options)


def test_a_rejected_budget_leaves_the_policy_as_it_was():
    policy = kb.KernelUCB(KERNEL, regularization=0.2, budget=10)
    policy.learn(policy.choose(POINTS[:5]), 1.0)
    before = policy.posterior.predict(POINTS).mean

    with pytest.raises(InvalidParameter):
        policy.refit(budget=-1)

    assert policy.budget == 10
    assert np.array_equal(policy.posterior.predict(POINTS).mean, before)


def test_a_budget_belongs_to_the_automatic_posterior():
    with pytest.raises(InvalidParameter, match="for posterior='auto', got 'exact'"):
        kb.KernelUCB(KERNEL, posterior="exact", budget=10)
    assert posterior_factory("auto", budget=7)(KERNEL, 0.3).budget == 7


def test_a_policy_beyond_its_budget_is_explained_with_its_error():
    policy = kb.KernelUCB(KERNEL, regularization=0.2, budget=10)
    for row in range(60):
        decision = policy.choose(POINTS[row : row + 4])
        policy.learn(decision, float(REWARDS[row]))

    explanation = policy.explain(policy.choose(POINTS[:4]))

    certificate = policy.posterior.certificate
    assert explanation.error > 0.0
    assert explanation.certificate == certificate
    assert "A dictionary of 10 points approximates it" in str(explanation)
    assert f"residual {certificate.residual:.3g}, inflation {certificate.inflation:.3g}" in str(explanation)
    exact = kb.KernelUCB(KERNEL, regularization=0.2)
    exact.learn(exact.choose(POINTS[:4]), 1.0)
    assert exact.explain(exact.choose(POINTS[:4])).error is None


def test_rewards_of_dropped_points_can_be_amended_and_unlearned():
    policies = [kb.KernelUCB(KERNEL, regularization=0.2, budget=10) for _ in range(2)]
    decisions = [[policy.choose(POINTS[row : row + 3]) for row in range(80)] for policy in policies]
    rewards = REWARDS[:80].copy()
    policies[0].learn_many(decisions[0], rewards)
    rewards[[2, 70]] = 5.0, -3.0
    policies[1].learn_many(decisions[1], rewards)

    policies[0].amend(decisions[0][2], now=5.0)
    policies[0].amend(decisions[0][70], now=-3.0)
    for policy, made in zip(policies, decisions, strict=True):
        policy.unlearn(made[40])

    found, expected = (policy.posterior.predict(POINTS) for policy in policies)
    assert_allclose(found.mean, expected.mean, atol=1e-9)
    assert_allclose(found.width, expected.width, rtol=1e-9)
    assert policies[0].posterior.n_observations == 79


def test_draws_by_features_need_all_observations():
    with pytest.raises(NotSupported, match="Take draws='joint'"):
        kb.KernelThompson(KERNEL, budget=10, draws="features")


def test_a_dictionary_over_a_table_goes_on_when_the_table_grows():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 2))
    names = [f"item {row}" for row in range(60)]
    whole = KERNEL.gram(points)
    table = kb.kernels.Precomputed(whole[:40, :40], ids=names[:40])
    policy = kb.KernelUCB(table, regularization=0.2, exploration=0.5, budget=8)
    for row in range(36):
        policy.learn(policy.choose(names[row : row + 4]), float(REWARDS[row]))

    table.table.add(names[40:], to_known=whole[40:, :40], among_new=whole[40:, 40:])
    for row in range(36, 56):
        policy.learn(policy.choose(names[row : row + 4]), float(REWARDS[row]))

    assert policy.posterior.certificate.n_atoms == 8
    assert policy.posterior.n_observations == 56


@pytest.mark.parametrize(
    ("kernel", "points"),
    [
        (kb.kernels.Spectrum(n=2), ["".join(word) for word in RNG.choice(list("abc"), size=(80, 6))]),
        (kb.kernels.Jaccard(), [frozenset(numbers.tolist()) for numbers in RNG.integers(0, 12, size=(80, 4))]),
    ],
    ids=["strings", "sets"],
)
def test_points_of_any_kind_have_a_budget(kernel, points):
    posterior = AutoPosterior(kernel, regularization=0.3, budget=6)

    for row in range(80):
        posterior.observe(points[row : row + 1], REWARDS[row : row + 1])

    prediction = posterior.predict(points)
    assert posterior.form == "nystroem"
    assert posterior.certificate.n_atoms <= 6
    assert np.isfinite(prediction.mean).all()
    assert (prediction.width > 0.0).all()
