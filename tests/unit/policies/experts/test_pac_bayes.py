from dataclasses import replace
from math import exp

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter
from kernelbandits.policies.experts import k_means_centers

CENTERS = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 2.0]])


def make_policy(n_actions=4, **options):
    return kb.PACBayes(CENTERS, n_actions=n_actions, uniform_factor=0.6, learning_factor=1.7, seed=0, **options)


class Printed:
    """The algorithm with dictionaries and loops, for all N actions in every round."""

    def __init__(self, n):
        self.n, self.t = n, 1
        self.marginal = [1 / n] * n
        self.earned = {(s, a): 0.0 for s in range(3) for a in range(n)}
        self.visits = [0] * 3

    def rule(self, s):
        g = 1.7 * (self.n * self.t) ** (1 / 3)
        raw = [self.marginal[a] * exp(g * self.earned[s, a] / max(1, self.visits[s])) for a in range(self.n)]
        return [value / sum(raw) for value in raw]

    def probabilities(self, s):
        floor = min(1 / (2 * self.n), 0.6 * (self.n * self.t) ** (-1 / 3))
        return [(1 - self.n * floor) * value + floor for value in self.rule(s)]

    def learn(self, s, a, reward):
        p, rule = self.probabilities(s), self.rule(s)
        self.earned[s, a] += reward / p[a]
        self.visits[s] += 1
        self.marginal = [(1 - 1 / 3) * h + 1 / 3 * r for h, r in zip(self.marginal, rule, strict=True)]
        self.t += 1


def test_it_is_the_algorithm_as_printed():
    policy, printed, rng = make_policy(reward_range=(-3.0, 1.0)), Printed(4), np.random.default_rng(1)

    for _ in range(80):
        state, reward = int(rng.integers(3)), float(rng.uniform())
        contexts = np.tile(CENTERS[state] + rng.normal(size=2) * 0.05, (4, 1))
        np.testing.assert_allclose(policy.probabilities(contexts), printed.probabilities(state), rtol=1e-9)
        decision = policy.choose(contexts)
        policy.learn(decision, 4.0 * reward - 3.0)
        printed.learn(state, decision.action, reward)

    np.testing.assert_allclose(policy.marginal, printed.marginal, rtol=1e-9)
    assert policy.marginal.sum() == pytest.approx(1.0)


def test_estimates_are_unbiased_by_enumeration():
    policy, rng = make_policy(), np.random.default_rng(2)
    contexts, rewards, decisions = np.tile(CENTERS[1], (4, 1)), rng.uniform(size=4), {}
    while len(decisions) < 4:
        decision = policy.choose(contexts)
        decisions[decision.action] = decision

    mean, biased = np.zeros((3, 4)), np.zeros((3, 4))
    for action, decision in decisions.items():
        for total, propensity in ((mean, decision.propensity), (biased, 1.0)):
            other = policy.copy()
            other.learn(replace(decision, propensity=propensity, id=""), float(rewards[action]))
            total += policy.probabilities(contexts)[action] * other.estimates

    np.testing.assert_allclose(mean[1], rewards, rtol=1e-12)
    assert not mean[[0, 2]].any()
    assert not np.allclose(biased[1], rewards)


def test_the_state_is_the_nearest_center_of_what_actions_share():
    policy = make_policy()

    assert policy.state_of(np.array([[0.9, 1.2], [-1.0, 2.0]])) == 1
    assert policy.state_of(kb.Pairs(np.array([-1.1, 1.5]), ["a", "b"])) == 2
    assert policy.state_of([[0.5, 0.5]]) == 0  # tied with state 1
    with pytest.raises(InvalidContexts, match="2 columns"):
        policy.choose(np.zeros((4, 3)))


def test_fewer_actions_move_the_marginal_only_among_those_that_are_there():
    policy, contexts = make_policy(), np.zeros((4, 2))
    for _ in range(30):
        decision = policy.choose(contexts)
        policy.learn(decision, float(decision.action == 1))
    habit = policy.marginal

    short = policy.choose(contexts[:2])
    policy.learn(short, 1.0)
    masked = policy.choose(contexts, eligible=np.array([False, True, False, True]))
    policy.learn(masked, 0.0)

    assert short.action in (0, 1)
    assert masked.action in (1, 3)
    assert policy.marginal[2] == habit[2]
    assert policy.marginal.sum() == pytest.approx(1.0)
    with pytest.raises(InvalidContexts, match="n_actions=5"):
        policy.choose(np.zeros((5, 2)))


def test_nothing_overflows_where_propensities_are_tiny():
    policy = kb.PACBayes([[0.0]], n_actions=2, learning_factor=1e6, uniform_factor=1e-6, seed=0)
    for _ in range(200):
        decision = policy.choose(np.zeros((2, 1)))
        policy.learn(decision, float(decision.action))

    probabilities = policy.probabilities(np.zeros((2, 1)))
    assert np.isfinite(probabilities).all()
    assert policy.choose(np.zeros((2, 1)), eligible=np.array([True, False])).propensity == 1.0


def test_a_decision_about_other_actions_or_states_is_rejected():
    policy = make_policy()
    decision = policy.choose(np.zeros((4, 2)))

    with pytest.raises(DecisionError, match="do not exist"):
        policy.learn(replace(decision, memo={**decision.memo, "state": np.array([3])}), 0.5)
    with pytest.raises(DecisionError, match="do not exist"):
        policy.learn(replace(decision, action=4), 0.5)
    with pytest.raises(DecisionError, match="memo"):
        policy.learn(replace(decision, memo={}), 0.5)
    policy.learn(decision, 0.5)


def test_k_means_finds_the_clouds_and_no_more_centers_than_points():
    rng = np.random.default_rng(3)
    clouds = np.vstack([center + 0.01 * rng.normal(size=(20, 2)) for center in CENTERS])

    centers = k_means_centers(clouds, n_centers=3, seed=1)
    few = k_means_centers(np.repeat(CENTERS[:2], 5, axis=0), n_centers=9, seed=0)

    assert 1 <= len(centers) <= 3
    np.testing.assert_allclose(few, CENTERS[:2])
    assert kb.PACBayes(centers, n_actions=2).probabilities(clouds[:2]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("centers", [[], [1.0, 2.0], [[np.nan]], [["a"]]])
def test_centers_are_rows_of_numbers(centers):
    with pytest.raises(InvalidParameter):
        kb.PACBayes(centers, n_actions=2)


@pytest.mark.parametrize("scale", [1e-170, 1.0, 1e170, 1e300])
def test_states_and_cells_do_not_depend_on_the_scale(scale):
    centers = k_means_centers(scale * np.array([[0.0], [0.2], [5.0], [5.2]]), n_centers=2, seed=0)

    policy = kb.PACBayes(centers, n_actions=2)

    np.testing.assert_allclose(centers.ravel() / scale, [0.1, 5.1])
    assert [policy.state_of([[scale * x], [scale * x]]) for x in (0.3, 4.0, 1e3)] == [0, 1, 1]
