from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter
from kernelbandits.policies.experts import ConstantExpert, UniformExpert
from policy_classes import LinearScorer, scorers, takes

CLASSES = [
    lambda experts, **rest: kb.PolicyElimination(experts, exploration=0.3, **rest),
    lambda experts, **rest: kb.RandomizedUCB(experts, regret_factor=2.0, **rest),
    lambda experts, **rest: kb.RandomizedUCB(experts, schedule="every", **rest),
    lambda experts, **rest: kb.ILOVETOCONBANDITS(experts, regret_factor=2.0, **rest),
]
NAMES = ["PolicyElimination", "RandomizedUCB", "RandomizedUCB every", "ILOVETOCONBANDITS"]


@pytest.fixture(params=CLASSES, ids=NAMES)
def make_class(request):
    return request.param


@pytest.fixture
def make_policy(make_class):
    experts = [*scorers(np.random.default_rng(5), 6), ConstantExpert(0), ConstantExpert(2)]
    return lambda **rest: make_class(experts, **{"n_actions": 4, "failure_probability": 0.2, "seed": 1, **rest})


def trained(policy, n_rounds=20, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        policy.learn(policy.choose(rng.normal(size=(4, 3))), float(rng.uniform()))
    return policy


def estimates_by_action(policy, contexts, rewards, eligible):
    """Probability of each action, and the values that learning its reward would give."""
    probabilities, n_learned = policy.probabilities(contexts, eligible=eligible), policy.round_index - 1
    template, values = policy.choose(contexts, eligible=eligible), {}
    for action in np.flatnonzero(probabilities):
        other = policy.copy()
        other.learn(
            replace(template, action=int(action), propensity=float(probabilities[action]), id=""), rewards[action]
        )
        values[int(action)] = (n_learned + 1) * other.values - n_learned * policy.values
    return probabilities, values


@pytest.mark.parametrize("eligible", [[True] * 4, [False, True, False, True]], ids=["all", "some"])
@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-3.0, 5.0)], ids=str)
def test_estimated_values_are_unbiased(make_policy, reward_range, eligible):
    """Exactly, by enumeration: Σ_a p(a) · estimate(a) is what each policy would have been paid."""
    policy, rng = trained(make_policy(reward_range=reward_range)), np.random.default_rng(2)
    contexts, rewards, eligible = rng.normal(size=(4, 3)), rng.uniform(size=4), np.array(eligible)

    probabilities, values = estimates_by_action(policy, contexts, rewards, eligible)

    rows = np.flatnonzero(eligible)
    picks = np.array([int(np.argmax(expert.advise(contexts))) for expert in policy.experts])
    places = np.array([int(np.flatnonzero(rows == pick)[0]) if eligible[pick] else -1 for pick in picks])
    expected = takes(places, len(rows)) @ rewards[rows]
    assert_allclose(sum(probabilities[action] * value for action, value in values.items()), expected, rtol=1e-9)


def test_a_wrong_propensity_would_be_seen(make_policy):
    policy, rng = trained(make_policy()), np.random.default_rng(2)
    contexts, rewards = rng.normal(size=(4, 3)), rng.uniform(size=4)
    probabilities, values = estimates_by_action(policy, contexts, rewards, np.ones(4, dtype=bool))

    even = sum(0.25 * value for value in values.values())

    right = sum(probabilities[action] * value for action, value in values.items())
    assert np.abs(even - right).max() > 0.01


def test_late_rewards_in_any_order_give_the_same_values(make_policy):
    first, second, rng = make_policy(), make_policy(), np.random.default_rng(3)
    decisions = [first.choose(rng.normal(size=(4, 3))) for _ in range(9)]
    rewards = rng.uniform(size=9)

    for place in range(9):
        first.learn(decisions[place], rewards[place])
    second.learn_many(decisions[::-1], rewards[::-1])

    assert_allclose(first.values, second.values, rtol=1e-12)


def test_every_action_keeps_the_least_probability(make_policy):
    policy, rng = trained(make_policy(), 40), np.random.default_rng(4)

    for n_actions in (1, 2, 3, 4):
        probabilities = policy.probabilities(rng.normal(size=(n_actions, 3)))
        assert probabilities.min() >= policy.mixing - 1e-12
        assert probabilities.sum() == pytest.approx(1.0)
    assert policy.weights.sum() == pytest.approx(1.0)


def test_duplicates_and_a_class_of_one_are_no_trouble(make_class):
    for experts in ([ConstantExpert(1)], [ConstantExpert(0)] * 3, [LinearScorer((1.0, 0.0, 0.0))] * 2):
        policy = trained(make_class(experts, n_actions=4, failure_probability=0.1, seed=0), 35)

        assert policy.best_policy == 0
        assert_allclose(policy.values, policy.values[0])


def test_contexts_of_huge_scale_are_no_trouble(make_policy):
    policy, rng = make_policy(), np.random.default_rng(6)

    for _ in range(20):
        policy.learn(policy.choose(1e150 * rng.normal(size=(4, 3))), 1.0)

    assert np.isfinite(policy.values).all()


def test_values_are_those_of_the_rewards_range(make_policy):
    plain, wide = make_policy(), make_policy(reward_range=(-10.0, 30.0))
    rng = np.random.default_rng(7)

    assert np.isnan(plain.values).all()
    for _ in range(15):
        contexts, reward = rng.normal(size=(4, 3)), float(rng.uniform())
        plain.learn(plain.choose(contexts), reward)
        wide.learn(wide.choose(contexts), -10.0 + 40.0 * reward)

    assert_allclose(wide.values, -10.0 + 40.0 * plain.values, rtol=1e-9)
    assert_allclose(wide.weights, plain.weights, rtol=1e-9)


def test_a_round_of_too_many_actions_is_rejected(make_policy):
    policy = make_policy()

    with pytest.raises(InvalidContexts, match="at most n_actions = 4 actions, got 5"):
        policy.choose(np.zeros((5, 3)))

    assert policy.choose(np.zeros((5, 3)), eligible=np.array([True] * 4 + [False])).n_actions == 4


def test_an_expert_that_randomizes_is_rejected(make_class):
    policy = make_class([ConstantExpert(0), UniformExpert()], n_actions=3, failure_probability=0.1)

    with pytest.raises(InvalidParameter, match="put all probability on one action"):
        policy.choose(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "change",
    [
        {"memo": {}},
        {"memo": {"picks": np.zeros(3, dtype=int)}},
        {"memo": {"picks": np.zeros(8)}},
        {"memo": {"picks": np.full(8, -2)}},
        {"memo": {"picks": np.arange(8)}},
        {"propensity": 0.0},
        {"propensity": 1.5},
        {"propensity": np.nan},
        {"n_actions": 0},
        {"n_actions": 5},
    ],
    ids=str,
)
def test_a_decision_that_says_too_little_is_rejected_and_leaves_no_trace(make_policy, change):
    policy = trained(make_policy())
    before, decision = policy.values, policy.choose(np.random.default_rng(8).normal(size=(4, 3)))

    with pytest.raises(DecisionError, match="as `choose` gives them"):
        policy.learn(replace(decision, **change), 0.5)

    assert_array_equal(policy.values, before)
    assert policy.round_index == 21
    policy.learn(decision, 0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_actions": 0}, "number of actions"),
        ({"failure_probability": 1.0}, "failure probability"),
        ({"reward_range": (1, 0)}, "reward range"),
    ],
)
def test_wrong_parameters_are_rejected(make_policy, wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        make_policy(**wrong)


def test_factors_and_schedules_are_checked():
    experts = [ConstantExpert(0)]

    with pytest.raises(InvalidParameter, match="The exploration must be"):
        kb.PolicyElimination(experts, n_actions=2, exploration=0.0)
    with pytest.raises(InvalidParameter, match="regret factor"):
        kb.ILOVETOCONBANDITS(experts, n_actions=2, regret_factor=-1.0)
    with pytest.raises(InvalidParameter, match="regret factor"):
        kb.RandomizedUCB(experts, n_actions=2, regret_factor=np.inf)
    with pytest.raises(InvalidParameter, match="'doubling' rounds or at 'every' one"):
        kb.RandomizedUCB(experts, n_actions=2, schedule="often")
    with pytest.raises(InvalidParameter, match="tolerance"):
        kb.RandomizedUCB(experts, n_actions=2, tolerance=0.0)
    with pytest.raises(InvalidParameter, match="number of steps"):
        kb.RandomizedUCB(experts, n_actions=2, most_steps=0)


def test_one_round_gives_the_estimates_of_one_round(make_policy):
    policy = make_policy()
    contexts = np.random.default_rng(2).normal(size=(4, 3))

    decision = policy.choose(contexts)
    policy.learn(decision, 0.75)

    picks = np.array([int(np.argmax(expert.advise(contexts))) for expert in policy.experts])
    assert_allclose(policy.values, (picks == decision.action) * 0.75 / decision.propensity, rtol=1e-12)
    assert policy.values.max() > 0.0
