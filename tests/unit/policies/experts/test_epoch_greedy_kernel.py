import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.policies.experts import constant_experts

GAMMA, KERNEL = 0.3, Gaussian(length_scale=0.8)


def make_policy(**options):
    return kb.KernelEpochGreedy(KERNEL, n_actions=4, regularization=GAMMA, uniform_factor=0.2, seed=1, **options)


def test_greedy_rounds_play_the_ridge_estimate_of_the_uniform_ones():
    policy, rng = make_policy(complexity=2.0), np.random.default_rng(2)
    seen, paid, n_greedy = [], [], 0

    for t in range(1, 150):
        contexts = np.round(rng.normal(size=(rng.integers(1, 5), 2)), 1)  # some are met again
        estimates = np.zeros(len(contexts))
        if seen:
            gram = KERNEL.gram(np.array(seen)) + GAMMA * np.eye(len(seen))
            estimates = KERNEL.gram(contexts, np.array(seen)) @ np.linalg.solve(gram, paid)
        decision, reward = policy.choose(contexts), float(rng.normal())
        np.testing.assert_allclose(policy.estimate(contexts), estimates, rtol=1e-7, atol=1e-9)
        if policy.explores(t):
            assert (decision.stage, decision.propensity) == (1, 1 / len(contexts))
            seen.append(contexts[decision.action])
            paid.append(reward)
        else:
            assert (decision.stage, decision.propensity) == (None, 1.0)
            assert estimates[decision.action] == pytest.approx(estimates.max())
            n_greedy += 1
        assert decision.mean == pytest.approx(estimates[decision.action], abs=1e-9)
        policy.learn(decision, reward)

    assert n_greedy > 50
    assert policy.posterior.n_observations == len(seen)


def test_its_schedule_is_that_of_epoch_greedy():
    listed = kb.EpochGreedy(constant_experts(9), n_actions=3, uniform_factor="theory")
    taught = kb.KernelEpochGreedy(KERNEL, n_actions=3, complexity=np.log(9.0), uniform_factor="theory")

    assert [listed.explores(t) for t in range(1, 500)] == [taught.explores(t) for t in range(1, 500)]


def test_amended_and_unlearned_rewards_are_as_if_they_had_come_right():
    policy, rng = make_policy(), np.random.default_rng(3)
    decisions, contexts = [policy.choose(rng.normal(size=(3, 2))) for _ in range(4)], rng.normal(size=(5, 2))
    straight = policy.copy()
    policy.learn_many(decisions, [1.0, 2.0, 3.0, 4.0])
    policy.estimate(contexts)

    policy.amend(decisions[0], was=1.0, now=5.0)
    policy.unlearn(decisions[1], 2.0)

    straight.learn_many([decisions[0], *decisions[2:]], [5.0, 3.0, 4.0])
    np.testing.assert_allclose(policy.estimate(contexts), straight.estimate(contexts), rtol=1e-7)


def test_history_counts_and_any_points_will_do():
    policy = kb.KernelEpochGreedy(Spectrum(n=2), n_actions=2, regularization=0.5, seed=0)
    policy.warm_start(["cheap flights", "slow cooking"], [1.0, 0.0])
    policy.learn(policy.choose(["abc", "abd"]), 0.0)

    assert policy.choose(["slow cook", "cheap flight"]).item == 1


def test_a_batch_teaches_its_uniform_rounds_only():
    policy, rng = make_policy(), np.random.default_rng(5)
    contexts = rng.normal(size=(4, 2))
    decisions = []
    for _ in range(12):
        decisions.append(policy.choose(contexts))
        policy.learn(decisions[-1], 0.5)
    n_uniform = sum(decision.stage == 1 for decision in decisions)
    together = make_policy()

    together.learn_many(decisions, [0.5] * 12)

    assert 0 < n_uniform < 12
    assert together.posterior.n_observations == policy.posterior.n_observations == n_uniform
    np.testing.assert_allclose(together.estimate(contexts), policy.estimate(contexts), rtol=1e-9)


def test_its_means_are_explained_without_a_bonus():
    policy, contexts = make_policy(), np.random.default_rng(6).normal(size=(4, 2))
    decision = policy.choose(contexts)
    policy.learn(decision, 0.7)

    explanation = policy.explain(decision)

    assert explanation.mean == pytest.approx(policy.estimate(contexts)[decision.action])
    assert (explanation.bonus, len(explanation.contributions)) == (0.0, 1)


def test_it_is_not_to_be_mixed_with_other_actions():
    with pytest.raises(NotSupported, match="cannot be mixed"):
        kb.Mixed(make_policy(), epsilon=0.1)


@pytest.mark.parametrize("options", [{"n_actions": 0}, {"n_actions": 2, "complexity": 0.0}])
def test_wrong_numbers_are_rejected(options):
    with pytest.raises(InvalidParameter):
        kb.KernelEpochGreedy(Linear(), **options)
