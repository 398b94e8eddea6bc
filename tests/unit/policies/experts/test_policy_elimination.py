from math import log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelbandits as kb
from kernelbandits.policies.experts import ConstantExpert
from kernelbandits.policies.experts.policy_elimination import balanced_weights
from policy_classes import LinearScorer, random_rounds, scorers, slow_variances, table_of


def meets_the_bound(rounds, weights, active, mixing, n_actions):
    return slow_variances(rounds, weights, mixing)[active].max() <= 2 * n_actions * (1 + 1e-8)


@pytest.mark.parametrize("n_actions", [2, 3, 10])
@pytest.mark.parametrize("mixing", [1e-4, 0.01, 0.05])
def test_balanced_weights_meet_the_bound_of_twice_the_actions(n_actions, mixing):
    rng = np.random.default_rng(n_actions)
    rounds = random_rounds(rng, 40, n_policies=30, n_actions=n_actions)
    active = np.array([0, 3, *range(10, 30)])

    balance = balanced_weights(table_of(rounds, 30, n_actions), active, mixing)

    assert meets_the_bound(rounds, balance.weights, active, mixing, n_actions)
    assert balance.weights.sum() == pytest.approx(1.0)
    assert not np.delete(balance.weights, active).any()


def lonely_dissenter(n_policies=40):
    """All policies but the last agree, so that equal weights hardly ever take the last one's action."""
    picks = np.zeros(n_policies, dtype=int)
    picks[-1] = 1
    return [(picks, 2)] * 5


def test_equal_weights_are_not_enough_and_steps_are_taken():
    """Negative control of the test above: the weights it starts from break the bound here."""
    rounds, active, mixing = lonely_dissenter(), np.arange(40), 0.01

    balance = balanced_weights(table_of(rounds, 40, 2), active, mixing)

    assert not meets_the_bound(rounds, np.full(40, 1 / 40), active, mixing, 2)
    assert meets_the_bound(rounds, balance.weights, active, mixing, 2)
    assert 1 <= balance.n_steps <= 3


def test_a_step_multiplies_the_weights_by_the_variances():
    rounds, mixing = lonely_dissenter(), 0.01

    balance = balanced_weights(table_of(rounds, 40, 2), np.arange(40), mixing)

    weights = np.full(40, 1 / 40)
    for _ in range(balance.n_steps):
        weights = weights * slow_variances(rounds, weights, mixing)
        weights /= weights.sum()
    assert_allclose(balance.weights, weights, rtol=1e-12)


@pytest.mark.parametrize(("factor", "mixing_factor"), [(0.2, 1.0), (0.1, 0.3)])
def test_a_run_is_the_algorithm_written_out(factor, mixing_factor):
    n_actions, delta = 3, 0.3
    rng, chance = np.random.default_rng(1), np.random.default_rng(2)
    experts = scorers(rng, 12)
    policy = kb.PolicyElimination(
        experts,
        n_actions=n_actions,
        failure_probability=delta,
        exploration=factor,
        uniform_factor=mixing_factor,
        seed=0,
    )
    active, sums, rounds, sizes = np.arange(12), np.zeros(12), [], []

    for t in range(1, 161):
        contexts = rng.normal(size=(n_actions, 3))
        mixing = min(1 / 6, mixing_factor * sqrt(log(4 * 12 * t**2 / delta) / (6 * t)))
        assert policy.mixing == pytest.approx(mixing)
        if t % 8 == 0:
            assert meets_the_bound(rounds, policy.weights, active, mixing, n_actions)
        picks = np.array([np.argmax(contexts @ np.array(expert.direction)) for expert in experts])
        probabilities = [(1 - 3 * mixing) * policy.weights[picks == a].sum() + mixing for a in range(3)]
        decision = policy.choose(contexts)
        assert decision.propensity == pytest.approx(probabilities[decision.action])
        reward = float(chance.uniform() < 1 / (1 + np.exp(-3 * contexts[decision.action, 0])))
        policy.learn(decision, reward)

        rounds.append((picks, n_actions))
        sums += reward * (picks == decision.action) / decision.propensity
        half_width = factor * 2 * sqrt(6 * log(4 * 12 * t**2 / delta) / t)
        if t >= factor * 6 * log(4 * 12 * t**2 / delta):
            active = active[sums[active] / t >= (sums[active] / t).max() - 2 * half_width]
        assert_array_equal(policy.active, active)
        sizes.append(len(active))

    assert sizes[0] == sizes[3] == 12
    assert 1 <= sizes[-1] < 12
    assert not np.delete(policy.weights, active).any()


def test_the_best_of_clearly_different_policies_is_left():
    policy = kb.PolicyElimination([ConstantExpert(row) for row in range(3)], n_actions=3, exploration=0.2, seed=0)

    for _ in range(400):
        decision = policy.choose(["a", "b", "c"])
        policy.learn(decision, [0.1, 0.9, 0.2][decision.action])

    assert policy.active.tolist() == [1]
    assert policy.probabilities(["a", "b", "c"])[1] == pytest.approx(1 - 2 * policy.mixing)


def test_the_width_of_the_proof_drops_nothing_in_a_few_thousand_rounds():
    """What the docstring says: even a gap of 0.7 is not seen after 4000 rounds with 3 actions and 50 policies."""
    policy = kb.PolicyElimination([LinearScorer((1.0,))] * 50, n_actions=3, failure_probability=0.05)

    half_width = 2 * sqrt(2 * 3 * policy._confidence(4000) / 4000)

    assert half_width == pytest.approx(0.386, abs=1e-3)


@pytest.mark.parametrize("exploration", [0.02, 0.05, 0.2])
def test_the_first_rewards_eliminate_no_policy(exploration):
    """One reward of a hundred actions has a weight of about 100, where b_1 is 17 with an exploration of 0.2."""
    experts = [ConstantExpert(row) for row in range(100)] + [ConstantExpert(row) for row in range(20)]
    policy = kb.PolicyElimination(experts, n_actions=100, exploration=exploration, seed=0)
    actions = np.zeros((100, 1))

    for _ in range(20):
        policy.learn(policy.choose(actions), 1.0)

    assert len(policy.active) == 120


def test_a_small_exploration_eliminates_once_there_is_evidence():
    """Negative control of the waiting: after some hundred rounds only good actions are left."""
    policy = kb.PolicyElimination([ConstantExpert(row) for row in range(5)], n_actions=5, exploration=0.1, seed=0)
    rng = np.random.default_rng(0)

    for _ in range(600):
        decision = policy.choose(np.zeros((5, 1)))
        policy.learn(decision, float(rng.uniform() < (0.9 if decision.action == 2 else 0.2)))

    assert policy.active.tolist() == [2]
