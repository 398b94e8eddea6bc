from math import log

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.comparators.index import upper_means


def divergence(p, q):
    """Of two coins, from the definition."""
    return (p * log(p / q) if p else 0.0) + ((1 - p) * log((1 - p) / (1 - q)) if p < 1 else 0.0)


def by_bisection(p, allowed):
    low, high = p, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if middle < 1.0 and divergence(p, middle) <= allowed:
            low = middle
        else:
            high = middle
    return high if p == 1.0 else low


@pytest.mark.parametrize(
    "means",
    [
        np.random.default_rng(0).uniform(size=300),
        10.0 ** np.random.default_rng(1).uniform(-17, 0, size=300),
        1.0 - 10.0 ** np.random.default_rng(2).uniform(-15, 0, size=300),
        np.array([0.0, 1.0, 0.5, 5e-324, 1.0 - 2.0**-53]),
    ],
    ids=["ordinary", "near 0", "near 1", "extreme"],
)
def test_upper_means_are_found_as_by_bisection(means):
    allowed = 10.0 ** np.random.default_rng(3).uniform(-6, 3, size=len(means))

    found = upper_means(means, allowed)

    assert_allclose(found, [by_bisection(p, d) for p, d in zip(means, allowed, strict=True)], rtol=0, atol=1e-10)
    assert ((means <= found) & (found <= 1.0)).all()


def test_nothing_allowed_leaves_the_mean():
    means = np.linspace(0, 1, 11)

    assert_allclose(upper_means(means, np.zeros(11)), means, rtol=1e-15)


@pytest.mark.parametrize(("reward_range", "factor"), [((0.0, 1.0), 3.0), ((-3.0, 5.0), 0.0), ((10.0, 10.5), 1.7)])
def test_the_choice_is_the_definition(reward_range, factor):
    low, high = reward_range
    policy, rng = kb.KLUCB(log_log_factor=factor, reward_range=reward_range), np.random.default_rng(4)
    seen = [[] for _ in range(5)]
    for t in range(1, 150):
        decision = policy.choose(list(range(5)))

        if t <= 5:
            assert decision.action == t - 1
        else:
            allowed = max(0.0, log(t) + factor * log(log(t)))
            scores = [by_bisection((np.mean(own) - low) / (high - low), allowed / len(own)) for own in seen]
            assert decision.action == int(np.flatnonzero(np.array(scores) >= max(scores) - 1e-10)[0])
            assert decision.score == pytest.approx(low + (high - low) * max(scores), abs=1e-9 * (high - low))
        reward = float(low + (high - low) * (rng.uniform() < 0.2 * decision.action))
        policy.learn(decision, reward)
        seen[decision.action].append(reward)


def test_a_factor_that_is_left_out_shows():
    """Negative control of the test above: another c gives other scores."""
    scores = []
    for factor in (3.0, 0.0):
        policy = kb.KLUCB(log_log_factor=factor)
        for reward in (0.2, 0.4, 0.3, 0.5, 0.1):
            policy.learn(policy.choose(["a", "b"]), reward)
        scores.append(policy.choose(["a", "b"]).score)

    assert scores[0] > scores[1] + 0.05


def test_history_before_the_first_round_is_judged_by_its_own_number_of_plays():
    policy = kb.KLUCB(log_log_factor=0.0)
    policy.warm_start(["a"], [0.25], times=20)

    assert policy.choose(["a"]).score == pytest.approx(by_bisection(0.25, log(21) / 20))


@pytest.mark.parametrize("factor", [-1.0, np.inf, "three"])
def test_bad_parameters_are_rejected(factor):
    with pytest.raises(InvalidParameter, match=r"factor of ln ln t must be|is a number, or 'theory'"):
        kb.KLUCB(log_log_factor=factor)


@pytest.mark.long
def test_rare_clicks_cost_less_than_with_ucb1():
    """And no more than three times the limit of Lai and Robbins, Σ gap / kl · ln T."""
    means, horizon = np.array([0.02, 0.05, 0.03, 0.1]), 20_000
    ucb1, kl_ucb = kb.UCB1(exploration="theory"), kb.KLUCB()
    regret = {ucb1: [], kl_ucb: []}
    for seed in range(5):
        rewards = (np.random.default_rng(seed).uniform(size=(horizon, 4)) < means).astype(float)
        for policy in regret:
            plays = policy.clone().play([list(range(4))] * horizon, rewards)
            regret[policy].append((0.1 - means[plays.action]).sum())

    limit = log(horizon) * sum((0.1 - p) / divergence(p, 0.1) for p in means[:3])
    assert np.mean(regret[kl_ucb]) < 0.5 * np.mean(regret[ucb1])
    assert np.mean(regret[kl_ucb]) < 3.0 * limit


def test_the_second_round_explores_without_the_iterated_logarithm():
    """ln ln 2 is negative; with c = 0 the divergence allowed in round 2 is ln 2 / n."""
    means, plays = np.array([0.3, 0.8]), np.array([1.0, 2.0])

    found = kb.KLUCB(log_log_factor=0.0)._indices(means, plays, 2)

    divergence = means * np.log(means / found) + (1 - means) * np.log((1 - means) / (1 - found))
    assert_allclose(plays * divergence, log(2), rtol=1e-9)
    assert_allclose(kb.KLUCB(log_log_factor=3.0)._indices(means, plays, 2), means, rtol=1e-9)
