from dataclasses import replace
from math import e, exp, log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.policies.experts import UniformExpert, constant_experts, linear_experts

HORIZON, FACTOR, SPEED = 150, 0.7, 1.9


def experts():
    return [*linear_experts(3, n_experts=4, seed=1), *constant_experts(3), UniformExpert()]


def make_policy(**options):
    return kb.EXP4(experts(), horizon=HORIZON, uniform_factor=FACTOR, learning_factor=SPEED, seed=2, **options)


def products(run):
    """Weights and probabilities of a run as the algorithm is printed: one product after the other."""
    weights, stated = [1.0] * len(experts()), []
    for contexts, action, reward in run:
        advice = [expert.advise(contexts) for expert in experts()]
        n = len(contexts)
        g = min(1.0, FACTOR * sqrt(n * log(len(weights)) / ((e - 1) * HORIZON)))
        p = [
            (1 - g) * sum(w * xi[j] for w, xi in zip(weights, advice, strict=True)) / sum(weights) + g / n
            for j in range(n)
        ]
        stated.append(p)
        estimate = [reward / p[j] if j == action else 0.0 for j in range(n)]
        weights = [w * exp(SPEED * g * float(xi @ estimate) / n) for w, xi in zip(weights, advice, strict=True)]
    return np.array(weights) / sum(weights), stated


def test_weights_and_probabilities_are_those_of_the_products():
    policy, rng = make_policy(reward_range=(-2.0, 2.0)), np.random.default_rng(3)
    run, stated = [], []

    for n_actions in rng.integers(1, 7, size=60):
        contexts, reward = rng.normal(size=(n_actions, 3)), float(rng.uniform())
        stated.append(policy.probabilities(contexts))
        decision = policy.choose(contexts)
        policy.learn(decision, 4.0 * reward - 2.0)
        run.append((contexts, decision.action, reward))

    weights, probabilities = products(run)
    np.testing.assert_allclose(policy.weights, weights, rtol=1e-9)
    for left, right in zip(stated, probabilities, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9)


def test_estimated_rewards_of_experts_are_unbiased_by_enumeration():
    policy, rng = make_policy(), np.random.default_rng(4)
    for _ in range(20):
        policy.learn(policy.choose(rng.normal(size=(4, 3))), float(rng.uniform()))
    contexts, rewards = rng.normal(size=(4, 3)), rng.uniform(size=4)
    advice = np.array([expert.advise(contexts) for expert in experts()])

    assert_unbiased(policy, contexts, rewards, advice @ rewards)
    with pytest.raises(AssertionError):  # without dividing by the propensity they would not be
        assert_unbiased(policy, contexts, rewards, advice @ rewards, propensity=1.0)


def assert_unbiased(policy, contexts, rewards, wanted, **wrong):
    """Σ_a p_a · (estimate after a) = what the expert earns on average, over all actions a."""
    probabilities, mean = policy.probabilities(contexts), 0.0
    for action, decision in every_decision(policy, contexts).items():
        other = policy.copy()
        other.learn(replace(decision, id="", **wrong), float(rewards[action]))
        moved = other._state()["log_weights"] - policy._state()["log_weights"]
        mean += probabilities[action] * moved * len(contexts) / (SPEED * policy.mixing(len(contexts)))
    np.testing.assert_allclose(mean, wanted, rtol=1e-9, atol=1e-12)


def every_decision(policy, contexts):
    found = {}
    while len(found) < len(contexts):
        decision = policy.choose(contexts)
        found[decision.action] = decision
    return found


def test_weights_do_not_depend_on_the_order_of_late_rewards():
    policy, rng = make_policy(), np.random.default_rng(5)
    decisions, rewards = [policy.choose(rng.normal(size=(3, 3))) for _ in range(9)], rng.uniform(size=9)
    other = policy.copy()

    policy.learn_many(decisions, rewards)
    for place in rng.permutation(9):
        other.learn(kb.Decision.from_dict(decisions[place].to_dict()), rewards[place])

    np.testing.assert_allclose(policy.weights, other.weights, rtol=1e-12)


def test_amended_and_unlearned_rewards_leave_the_weights_of_the_right_ones():
    policy, rng = make_policy(reward_range=(0.0, 5.0)), np.random.default_rng(6)
    decisions = [policy.choose(rng.normal(size=(3, 3))) for _ in range(4)]
    straight = policy.copy()
    policy.learn_many(decisions, [1.0, 2.0, 3.0, 4.0])

    policy.amend(decisions[0], was=1.0, now=5.0)
    policy.unlearn(decisions[1], 2.0)

    straight.learn_many([decisions[0], *decisions[2:]], [5.0, 3.0, 4.0])
    np.testing.assert_allclose(policy.weights, straight.weights, rtol=1e-12)
    straight.learn(decisions[1], 2.0)
    assert np.abs(policy.weights - straight.weights).max() > 1e-6


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
def test_weights_neither_overflow_nor_vanish():
    policy = kb.EXP4(constant_experts(2), horizon=1, uniform_factor=0.5, seed=0)
    decision = replace(policy.choose(np.eye(2)), propensity=1e-6, id="")

    for _ in range(20):
        policy.learn(decision, 1.0)

    assert policy.weights[decision.action] == pytest.approx(1.0)
    assert policy.probabilities(np.eye(2)).min() > 0.0


def test_a_decision_without_its_memo_or_propensity_is_rejected_and_changes_nothing():
    policy = make_policy()
    decision, before = policy.choose(np.eye(3)), policy.weights

    with pytest.raises(DecisionError, match="memo"):
        policy.learn(replace(decision, memo={}), 0.5)
    with pytest.raises(DecisionError, match="propensity"):
        policy.learn(replace(decision, propensity=0.0), 0.5)

    np.testing.assert_array_equal(policy.weights, before)
    policy.learn(decision, 0.5)


def test_a_memo_holds_a_number_per_expert_however_many_actions():
    policy = make_policy()

    decision = policy.choose(np.random.default_rng(0).normal(size=(50, 3)))

    assert {name: np.size(array) for name, array in decision.memo.items()} == {"advice": len(experts())}


@pytest.mark.parametrize("options", [{"horizon": 0}, {"horizon": 9, "uniform_factor": 0.0}])
def test_wrong_numbers_are_rejected(options):
    with pytest.raises(InvalidParameter):
        kb.EXP4(experts(), **options)
