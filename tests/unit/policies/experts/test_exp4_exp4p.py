from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.policies.experts import UniformExpert, constant_experts, linear_experts, stump_experts

HORIZON, DELTA, FACTOR, SPEED, BONUS = 130, 0.07, 1.3, 2.2, 0.6


def experts():
    return [*linear_experts(3, n_experts=4, seed=1), UniformExpert(), *constant_experts(3)]


def make_policy(**options):
    rates = {"exploration": BONUS, "uniform_factor": FACTOR, "learning_factor": SPEED}
    return kb.EXP4P(experts(), horizon=HORIZON, failure_probability=DELTA, seed=2, **rates, **options)


def products(run):
    """Weights and probabilities of a run as the algorithm is printed: one product after the other."""
    weights, stated = [1.0] * len(experts()), []
    for contexts, action, reward in run:
        advice = [expert.advise(contexts) for expert in experts()]
        n, m = len(contexts), len(weights)
        floor = min(1.0 / n, FACTOR * sqrt(log(m) / (n * HORIZON)))
        p = [
            (1 - n * floor) * sum(w * xi[j] for w, xi in zip(weights, advice, strict=True)) / sum(weights) + floor
            for j in range(n)
        ]
        stated.append(p)
        estimate = [reward / p[j] if j == action else 0.0 for j in range(n)]
        spread = [sum(xi[j] / p[j] for j in range(n)) for xi in advice]
        bonus = BONUS * sqrt(log(m / DELTA) / (n * HORIZON))
        weights = [
            w * exp(SPEED * floor / 2 * (float(xi @ estimate) + v * bonus))
            for w, xi, v in zip(weights, advice, spread, strict=True)
        ]
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


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")  # 40 rounds
@pytest.mark.parametrize("horizon", [8, 100, 10**6])
@pytest.mark.parametrize("n_actions", [1, 2, 9])
def test_probabilities_sum_to_one_and_stay_above_the_floor(horizon, n_actions):
    policy = kb.EXP4P(experts(), horizon=horizon, failure_probability=0.05, uniform_factor="theory", seed=0)
    rng, floor = np.random.default_rng(5), policy.floor(n_actions)

    for _ in range(40):
        contexts = np.round(rng.normal(size=(n_actions, 3)) * 10.0 ** rng.integers(-3, 9))  # ties, zeros, huge
        probabilities = policy.probabilities(contexts)
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        assert probabilities.min() >= floor * (1.0 - 1e-12)
        policy.learn(policy.choose(contexts), float(rng.integers(2)))

    assert floor == pytest.approx(min(1 / n_actions, sqrt(log(8) / (n_actions * horizon))))


def test_the_floor_is_reached_when_one_expert_has_all_the_weight():
    policy = make_policy()
    policy._restore({"log_weights": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 900.0, 0.0, 0.0])})  # that of ConstantExpert(0)

    probabilities = policy.probabilities(np.eye(3))

    floor = min(1 / 3, FACTOR * sqrt(log(8) / (3 * HORIZON)))
    np.testing.assert_allclose(probabilities, [1.0 - 2.0 * floor, floor, floor], rtol=1e-12)
    assert probabilities.min() < 1.001 * floor  # so that a floor only a little higher would be broken


def test_estimated_rewards_and_spreads_of_experts_are_unbiased_by_enumeration():
    policy, rng = make_policy(), np.random.default_rng(4)
    for _ in range(20):
        policy.learn(policy.choose(rng.normal(size=(4, 3))), float(rng.uniform()))
    contexts, rewards = rng.normal(size=(4, 3)), rng.uniform(size=4)
    advice = np.array([expert.advise(contexts) for expert in experts()])
    probabilities, rate = policy.probabilities(contexts), SPEED * policy.floor(4) / 2.0
    bonus = BONUS * (advice @ (1 / probabilities)) * sqrt(log(8 / DELTA) / (4 * HORIZON))

    mean, found = 0.0, set()
    while len(found) < 4:
        decision = policy.choose(contexts)
        if decision.action not in found:
            other = policy.copy()
            other.learn(decision, float(rewards[decision.action]))
            moved = other._state()["log_weights"] - policy._state()["log_weights"]
            mean = mean + probabilities[decision.action] * (moved / rate - bonus)
            found.add(decision.action)

    np.testing.assert_allclose(mean, advice @ rewards, rtol=1e-8, atol=1e-10)
    assert np.abs(mean - rewards[decision.action]).max() > 1e-3


def test_a_uniform_expert_is_added_where_there_is_none():
    without = kb.EXP4P(constant_experts(3), horizon=100)
    among = kb.EXP4P([UniformExpert(), *constant_experts(3)], horizon=100)

    assert [type(expert).__name__ for expert in without.experts] == ["ConstantExpert"] * 3 + ["UniformExpert"]
    assert [type(expert).__name__ for expert in among.experts] == ["UniformExpert"] + ["ConstantExpert"] * 3


def test_the_uniform_expert_alone_plays_uniformly():
    policy = kb.EXP4P([UniformExpert()], horizon=100, seed=0)
    policy.learn(policy.choose(np.eye(4)), 1.0)

    np.testing.assert_allclose(policy.probabilities(np.eye(4)), 0.25)


def test_a_horizon_below_its_logarithm_is_rejected():
    experts = stump_experts(np.random.default_rng(0).normal(size=(50, 2)), n_actions=2)

    with pytest.raises(InvalidParameter, match=r"ln\(M/δ\) = 6\.71.*Play 7 rounds"):
        kb.EXP4P(experts, horizon=6, failure_probability=0.05)
    assert kb.EXP4P(experts, horizon=7, failure_probability=0.05).horizon == 7


def test_amended_and_unlearned_rewards_leave_the_weights_of_the_right_ones():
    policy, rng = make_policy(reward_range=(0.0, 5.0)), np.random.default_rng(6)
    decisions = [policy.choose(rng.normal(size=(3, 3))) for _ in range(4)]
    straight = policy.copy()
    policy.learn_many(decisions, [1.0, 2.0, 3.0, 4.0])

    policy.amend(decisions[0], was=1.0, now=5.0)
    policy.unlearn(decisions[1], 2.0)

    straight.learn_many([decisions[0], *decisions[2:]], [5.0, 3.0, 4.0])
    np.testing.assert_allclose(policy.weights, straight.weights, rtol=1e-12)


def test_a_decision_of_another_panel_is_rejected():
    policy = make_policy()
    decision = policy.choose(np.eye(3))

    with pytest.raises(DecisionError, match="spread"):
        policy.learn(replace(decision, memo={"advice": decision.memo["advice"]}), 0.5)
