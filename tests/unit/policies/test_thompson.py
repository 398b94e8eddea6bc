from itertools import permutations
from math import erf, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Delta, Gaussian, Jaccard, Linear, Matern
from kernelbandits.theory import Constant
from kernelbandits.theory import exploration as schedules

KERNEL = Gaussian(length_scale=0.8)
GAMMA = 0.2


def trained(kernel=KERNEL, n_rounds=15, **options):
    policy = kb.KernelThompson(kernel, **{"regularization": GAMMA, "exploration": sqrt(GAMMA), "seed": 3, **options})
    rng = np.random.default_rng(1)
    policy.warm_start(rng.normal(size=(n_rounds, 2)), rng.normal(size=n_rounds))
    return policy


def belief(policy, contexts, pending=None):
    """Mean and covariance of a Gaussian process of noise variance γ, the slow way."""
    points, _, counts, sums = policy.posterior.support()
    known, gamma, kernel = np.repeat(points, counts.astype(int), axis=0), policy.posterior.regularization, policy.kernel
    rewards = np.repeat(sums / counts, counts.astype(int))
    cross = kernel.gram(known, contexts)
    mean = cross.T @ np.linalg.solve(kernel.gram(known) + gamma * np.eye(len(known)), rewards)
    if pending is not None:
        known = np.vstack([known, pending])
        cross = kernel.gram(known, contexts)
    explained = cross.T @ np.linalg.solve(kernel.gram(known) + gamma * np.eye(len(known)), cross)
    return mean, kernel.gram(contexts) - explained


def in_standard_errors(draws, mean, covariance):
    """Largest deviation of the draws' moments from these."""
    variance = np.diagonal(covariance)
    standard = np.sqrt((np.outer(variance, variance) + covariance**2) / len(draws))
    off_mean = np.abs(draws.mean(axis=0) - mean) / np.sqrt(variance / len(draws))
    return max(off_mean.max(), (np.abs(np.cov(draws.T) - covariance) / standard).max())


@pytest.mark.parametrize("exploration", [1.0, 0.4])
@pytest.mark.parametrize("is_pending", [False, True])
def test_draws_have_the_mean_and_the_covariance_of_the_process(exploration, is_pending):
    policy, contexts = trained(exploration=exploration * sqrt(GAMMA)), np.random.default_rng(2).normal(size=(4, 2))
    pending = None
    if is_pending:
        decision = policy.choose(contexts)
        policy.expect(decision)
        pending = decision.context[None]
    mean, covariance = belief(policy, contexts, pending)

    draws = policy.draw(contexts, 100_000, seed=7)

    assert in_standard_errors(draws, mean, exploration**2 * covariance) < 5.0
    assert in_standard_errors(draws, mean, exploration**2 * 1.05 * covariance) > 5.0
    assert in_standard_errors(draws, mean + 0.02, exploration**2 * covariance) > 5.0


@pytest.mark.parametrize("kernel", [KERNEL, 2.0 * Matern(smoothness=1.5, length_scale=[0.8, 1.6])], ids=repr)
def test_draws_by_random_features_come_near_the_process(kernel):
    """Averaged over the features of many rounds: what is left is sampling error."""
    policy, contexts = trained(kernel, draws="features", n_features=40), np.random.default_rng(2).normal(size=(3, 2))
    mean, covariance = belief(policy, contexts)

    draws = np.vstack([policy.draw(contexts, 10, seed=seed) for seed in range(800)])

    # Draws that share their features are not quite independent: a little more than five standard errors.
    assert in_standard_errors(draws, mean, covariance) < 6.0
    assert in_standard_errors(draws, mean, 1.3 * covariance) > 6.0


def test_a_schedule_gives_the_scale_of_the_draws_in_widths():
    schedule = schedules.Mixture(noise_scale=0.5, norm_bound=1.0, failure_probability=0.1)
    policy, contexts = trained(exploration=schedule), np.random.default_rng(2).normal(size=(3, 2))
    mean, covariance = belief(policy, contexts)
    situation = schedules.RoundState(
        round_index=1, n_actions=3, log_det_gain=policy.posterior.log_det_gain, regularization=0.2
    )

    draws = policy.draw(contexts, 20_000, seed=7)

    assert in_standard_errors(draws, mean, schedule(situation) ** 2 / 0.2 * covariance) < 5.0


@pytest.mark.parametrize("exploration", [1.0, 0.3])
def test_two_actions_are_played_by_the_normal_distribution(exploration):
    policy, contexts = trained(exploration=exploration * sqrt(GAMMA)), np.random.default_rng(2).normal(size=(2, 2))
    mean, covariance = belief(policy, contexts)
    deviation = exploration * sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])

    probabilities = policy.probabilities(contexts)

    first = 0.5 * (1.0 + erf((mean[0] - mean[1]) / deviation / sqrt(2.0)))
    np.testing.assert_allclose(probabilities, [first, 1.0 - first], rtol=1e-9)


@pytest.mark.parametrize("draws", ["joint", "features"])
def test_shares_are_near_the_probability_of_being_the_best(draws):
    policy = trained(Linear() + 0.5, draws=draws, propensity_draws=20_000)
    contexts = np.random.default_rng(2).normal(size=(4, 2))
    mean, covariance = belief(policy, contexts)
    own = np.random.default_rng(9).multivariate_normal(mean, covariance, size=200_000, method="eigh")
    ideal = np.bincount(own.argmax(axis=1), minlength=4) / len(own)

    probabilities = policy.probabilities(contexts)

    np.testing.assert_array_less(np.abs(probabilities - ideal), 5 * np.sqrt(ideal * (1 - ideal) / 18_000) + 1e-3)


def test_probabilities_are_the_same_until_something_is_learned():
    policy, contexts = trained(propensity_draws=100), np.random.default_rng(2).normal(size=(6, 2))

    first = policy.probabilities(contexts)
    decision = policy.choose(contexts)
    second = policy.probabilities(contexts)
    policy.learn(decision, decision.mean)

    np.testing.assert_array_equal(first, second)
    assert decision.propensity == first[decision.action] > 0.0
    assert not np.array_equal(policy.probabilities(contexts), first)


def test_equal_actions_draw_equal_rewards():
    contexts = np.array([[0.1, 0.2], [1.0, 1.0], [0.1, 0.2], [0.1, 0.2]])

    lowest = trained(propensity_draws=500).probabilities(contexts)
    shared = trained(propensity_draws=500, ties="random").probabilities(contexts)

    assert lowest[2] == lowest[3] == 0.0
    np.testing.assert_allclose(shared[[0, 2, 3]], lowest[0] / 3)
    assert trained().probabilities(contexts[[0, 2]]).tolist() == [1.0, 0.0]
    assert trained(ties="random").probabilities(contexts[[0, 2]]).tolist() == [0.5, 0.5]


def test_the_default_is_a_quarter_of_the_deviation_of_the_posterior():
    policy = trained(exploration=None)

    assert policy.exploration == Constant(sqrt(GAMMA) / 4)
    assert policy.get_params()["exploration"] is None
    assert policy.clone(regularization=0.5).exploration == Constant(sqrt(0.5) / 4)


def test_without_exploration_it_is_greedy():
    policy, contexts = trained(exploration=0.0), np.random.default_rng(2).normal(size=(6, 2))

    probabilities = policy.probabilities(contexts)

    assert probabilities[np.argmax(policy.posterior.predict(contexts).mean)] == 1.0


def test_a_single_draw_is_followed_with_certainty():
    policy, contexts = trained(propensity_draws=1), np.random.default_rng(2).normal(size=(6, 2))

    decisions = [policy.choose(contexts) for _ in range(5)]

    assert {(decision.action, decision.propensity) for decision in decisions} == {(decisions[0].action, 1.0)}


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_rewards_of_any_scale_are_drawn(scale):
    policy = kb.KernelThompson(scale**2 * KERNEL, regularization=0.2 * scale**2, exploration=scale * sqrt(0.2), seed=3)
    plain = trained(n_rounds=15)
    rng = np.random.default_rng(1)
    policy.warm_start(rng.normal(size=(15, 2)), scale * rng.normal(size=15))
    contexts = rng.normal(size=(5, 2))

    draws = policy.draw(contexts, 50, seed=0)

    np.testing.assert_allclose(draws / scale, plain.draw(contexts, 50, seed=0), rtol=1e-5, atol=1e-5)


def test_many_actions_are_drawn_by_features_where_the_kernel_has_them():
    rng = np.random.default_rng(0)
    policy, strings = trained(n_features=100, propensity_draws=16), kb.KernelThompson(Jaccard(), propensity_draws=4)

    assert policy._draws_paths(rng.normal(size=(513, 2)), 513)
    assert not policy._draws_paths(rng.normal(size=(512, 2)), 512)
    decision = policy.choose(rng.normal(size=(2_000, 2)))
    assert np.isfinite([decision.mean, decision.width]).all()
    assert strings.choose([{row, row + 1} for row in range(600)]).propensity > 0.0


def test_many_actions_with_binary_rewards_are_drawn_jointly():
    """The correction of a prior draw needs Gaussian noise."""
    contexts = np.random.default_rng(0).normal(size=(600, 2))
    policy = kb.KernelThompson(KERNEL, posterior="logistic", propensity_draws=4, seed=0)

    for _ in range(2):
        policy.learn(policy.choose(contexts), 1.0)

    assert not policy._draws_paths(contexts, 600)
    assert policy.choose(contexts).propensity >= 0.25


def test_a_slate_ranks_one_draw_and_its_propensities_are_shares_of_the_draws():
    policy, contexts = trained(propensity_draws=400), np.random.default_rng(2).normal(size=(3, 2))
    draws = policy._round_draws(contexts, 3)
    orders = [tuple(order) for order in np.argsort(-draws, axis=1)]

    slates = [policy.choose(contexts, k=3) for _ in range(200)]

    for slate in slates:
        assert slate.propensity == pytest.approx(orders.count(tuple(slate.actions)) / 400)
        assert slate[0].score >= slate[1].score >= slate[2].score
    seen = [tuple(slate.actions) for slate in slates]
    for order in permutations(range(3)):
        assert abs(seen.count(order) / 200 - orders.count(order) / 400) < 5 * 0.5 / sqrt(200)
    with pytest.raises(NotSupported, match="no diverse slates"):
        policy.choose(contexts, k=2, diverse=True)


def test_an_explanation_adds_one_standard_deviation():
    policy, contexts = trained(exploration=0.5 * sqrt(GAMMA)), np.random.default_rng(2).normal(size=(3, 2))
    decision = policy.choose(contexts)

    explanation = policy.explain(decision)

    _, covariance = belief(policy, decision.context[None])
    assert explanation.bonus == pytest.approx(0.5 * sqrt(covariance[0, 0]))


def test_it_finds_the_best_action():
    contexts = np.linspace(0, 1, 9)[:, None]
    policy = kb.KernelThompson(Gaussian(length_scale=0.2), regularization=0.01, seed=0, propensity_draws=64)
    rng = np.random.default_rng(5)

    late = 0
    for t in range(150):
        decision = policy.choose(contexts)
        policy.learn(decision, float(np.sin(4 * contexts[decision.action, 0]) + rng.normal(scale=0.1)))
        late += t >= 100 and decision.action == 3

    assert late > 40


def test_what_cannot_be_is_rejected():
    with pytest.raises(InvalidParameter, match="Draws are made"):
        kb.KernelThompson(KERNEL, draws="paths")
    with pytest.raises(InvalidParameter, match="even, got 7"):
        kb.KernelThompson(KERNEL, n_features=7)
    with pytest.raises(InvalidParameter, match="number of draws"):
        kb.KernelThompson(KERNEL, propensity_draws=0)
    with pytest.raises(InvalidParameter, match="Ties go"):
        kb.KernelThompson(KERNEL, ties="highest")
    with pytest.raises(NotSupported, match="draws='joint'"):
        kb.KernelThompson(Delta(), draws="features")
    with pytest.raises(NotSupported, match="need a kernel with a spectral density"):
        kb.KernelThompson(KERNEL + Linear(), draws="features").choose(np.eye(3))
