from math import log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelbandits as kb
from kernelbandits.policies.experts.ilovetoconbandits import sparse_weights
from policy_classes import random_rounds, scorers, slow_variances, table_of


def keeps_regret_low(weights, penalties, n_actions):
    return weights @ (2 * n_actions + penalties) <= 2 * n_actions * (1 + 1e-9)


def keeps_variance_low(rounds, weights, penalties, mixing, n_actions):
    return bool((slow_variances(rounds, weights, mixing) <= (2 * n_actions + penalties) * (1 + 1e-9)).all())


def make_problem(seed, n_policies=20, n_actions=4):
    rng = np.random.default_rng(seed)
    rounds = random_rounds(rng, 50, n_policies, n_actions)
    return rounds, table_of(rounds, n_policies, n_actions), rng.exponential(size=n_policies)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mixing", [1e-3, 0.02, 0.1])
@pytest.mark.parametrize("scale", [0.0, 0.5, 30.0])
def test_both_constraints_hold_after_a_descent(seed, mixing, scale):
    rounds, table, penalties = make_problem(seed)

    for start in (np.zeros(20), np.random.default_rng(seed).uniform(size=20)):
        descent = sparse_weights(table, scale * penalties, mixing, start)

        assert keeps_regret_low(descent.weights, scale * penalties, 4)
        assert keeps_variance_low(rounds, descent.weights, scale * penalties, mixing, 4)
        assert descent.weights.min() >= 0.0
        assert descent.weights.sum() <= 1.0 + 1e-9
        assert descent.n_steps <= 200


def test_other_weights_break_the_constraints():
    """Negative control: no weights at all, weights a little larger, and a policy taken away."""
    rounds, table, penalties = make_problem(0)
    weights = sparse_weights(table, penalties, 0.01, np.zeros(20)).weights
    without = np.where(np.arange(20) == np.argmax(weights), 0.0, weights)
    full = sparse_weights(table, penalties, 0.01, np.ones(20)).weights  # starts from the edge of the first

    assert not keeps_variance_low(rounds, np.zeros(20), penalties, 0.01, 4)
    assert not keeps_variance_low(rounds, without, penalties, 0.01, 4)
    assert not keeps_regret_low(1.5 * full, penalties, 4)


def test_a_step_is_that_of_the_authors():
    picks = np.array([0, 1, 1])
    table, mixing = table_of([(picks, 2)] * 3 + [(picks[::-1], 2)], 3, 2), 0.05
    penalties = np.array([0.0, 0.5, 4.0])

    descent = sparse_weights(table, penalties, mixing, np.zeros(3))

    # From Q = 0 every V is 1 / m = 20, every S is 400; the first policy has the least limit. After its step it is its
    # action in three of four rounds and the second policy's in the last.
    step = (20 + 16) / (2 * 0.9 * 400)
    weights, n_steps = np.array([step, 0.0, 0.0]), 1
    rounds = [(picks, 2)] * 3 + [(picks[::-1], 2)]
    while True:
        total = weights @ (4 + penalties)
        if total > 4 * (1 + 1e-12):
            weights = weights * 4 / total
        variances = slow_variances(rounds, weights, mixing)
        excess = variances - 4 - penalties
        worst = int(np.argmax(excess))
        if excess[worst] <= 4e-12:
            break
        squares = 0.0
        for round_picks, _ in rounds:
            probabilities = 0.9 * weights[round_picks == round_picks[worst]].sum() + mixing
            squares += probabilities**-2 / len(rounds)
        weights[worst] += (variances[worst] + excess[worst]) / (2 * 0.9 * squares)
        n_steps += 1
    assert descent.n_steps == n_steps > 1
    assert_allclose(descent.weights, weights, rtol=1e-9)


def test_a_descent_from_its_own_end_takes_no_step():
    _, table, penalties = make_problem(2)
    end = sparse_weights(table, penalties, 0.01, np.zeros(20)).weights

    again = sparse_weights(table, penalties, 0.01, end)

    assert again.n_steps == 0
    assert_allclose(again.weights, end, rtol=1e-11)


@pytest.mark.parametrize("factor", [100.0, 0.5])
def test_a_run_solves_at_rounds_that_are_powers_of_two(factor):
    n_actions, delta, n_policies = 3, 0.3, 15
    rng = np.random.default_rng(3)
    experts = scorers(rng, n_policies)
    policy = kb.ILOVETOCONBANDITS(
        experts, n_actions=n_actions, failure_probability=delta, regret_factor=factor, uniform_factor="theory", seed=0
    )
    sums, rounds = np.zeros(n_policies), []
    assert (policy.mixing, policy.weights[0]) == (pytest.approx(1 / 6), 1.0)

    for t in range(1, 600):
        contexts = rng.normal(size=(n_actions, 3))
        picks = np.array([np.argmax(contexts @ np.array(expert.direction)) for expert in experts])
        decision, before = policy.choose(contexts), (policy.weights, policy.mixing)
        reward = float(rng.uniform() < 1 / (1 + np.exp(-3 * contexts[decision.action, 0])))
        policy.learn(decision, reward)

        rounds.append((picks, n_actions))
        sums += reward * (picks == decision.action) / decision.propensity
        if t not in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
            assert_array_equal(policy.weights, before[0])
            assert policy.mixing == before[1]
            continue
        mixing = min(1 / 6, sqrt(log(16 * t**2 * n_policies / delta) / (3 * t)))
        penalties = (sums.max() - sums) / t / (factor * mixing)
        sparse = policy._sparse
        assert policy.mixing == pytest.approx(mixing)
        assert keeps_regret_low(sparse, penalties, n_actions)
        assert keeps_variance_low(rounds, sparse, penalties, mixing, n_actions)
        left = policy.weights - sparse
        assert left[int(np.argmax(sums))] == pytest.approx(1.0 - sparse.sum())
        assert np.count_nonzero(left) <= 1

    assert policy.n_steps > 0
