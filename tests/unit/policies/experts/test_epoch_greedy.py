from math import ceil, floor, log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.experts import UniformExpert, constant_experts, linear_experts
from kernelbandits.policies.experts.epoch_greedy import Epochs


def experts():
    return [*linear_experts(3, n_experts=5, seed=1), *constant_experts(3), UniformExpert()]


def printed_schedule(n_rounds, n_actions, n_experts, factor):
    """Epoch after epoch, written out."""
    explored, epoch = [], 0
    while len(explored) < n_rounds:
        epoch += 1
        greedy = max(1, floor(sqrt(epoch / (n_actions * log(n_experts))) / factor))
        explored += [True] + [False] * greedy
    return explored[:n_rounds]


@pytest.mark.parametrize(("n_actions", "factor"), [(2, 1.0), (5, 0.2), (1, 3.0)])
def test_every_epoch_begins_with_one_uniform_round(n_actions, factor):
    policy = kb.EpochGreedy(experts(), n_actions=n_actions, uniform_factor=factor, seed=0)

    explored = [policy.explores(t) for t in range(1, 2001)]

    assert explored == printed_schedule(2000, n_actions, 9, factor)
    assert policy.explores(1)  # an earlier round may be queried again


def test_a_known_horizon_means_to_explore_first():
    policy = kb.EpochGreedy(experts(), n_actions=4, horizon=5000, uniform_factor=0.5, seed=0)

    n_first = ceil(0.5 * 5000 ** (2 / 3) * (4 * log(9)) ** (1 / 3))
    assert [policy.explores(t) for t in (1, n_first, n_first + 1, 4999)] == [True, True, False, False]


def test_values_are_sums_over_uniform_rounds_and_the_best_is_followed():
    policy, rng = kb.EpochGreedy(experts(), n_actions=4, uniform_factor=0.2, seed=2), np.random.default_rng(3)
    values, n_greedy = np.zeros(9), 0

    for t in range(1, 200):
        contexts, reward = rng.normal(size=(rng.integers(1, 5), 3)), float(rng.uniform())
        advice = np.array([expert.advise(contexts) for expert in experts()])
        probabilities, decision = policy.probabilities(contexts), policy.choose(contexts)
        if policy.explores(t):
            np.testing.assert_allclose(probabilities, 1 / len(contexts))
            values += len(contexts) * reward * advice[:, decision.action]
        else:
            np.testing.assert_allclose(probabilities, advice[np.argmax(values)])
            n_greedy += 1
        assert decision.stage == (1 if policy.explores(t) else None)
        policy.learn(decision, reward)

    np.testing.assert_allclose(policy.values, values)
    assert n_greedy > 50


def test_values_are_unbiased_by_enumeration():
    policy, rng = kb.EpochGreedy(experts(), n_actions=4, reward_range=(-1.0, 3.0), seed=2), np.random.default_rng(4)
    contexts, rewards = rng.normal(size=(4, 3)), rng.uniform(-1.0, 3.0, size=4)
    decisions = {}
    while len(decisions) < 4:
        decision = policy.choose(contexts)
        decisions[decision.action] = decision

    mean = np.zeros(9)
    for action, decision in decisions.items():
        other = policy.copy()
        other.learn(decision, float(rewards[action]))
        mean += policy.probabilities(contexts)[action] * other.values

    advice = np.array([expert.advise(contexts) for expert in experts()])
    np.testing.assert_allclose(mean, advice @ ((rewards + 1.0) / 4.0), rtol=1e-12)
    assert not np.allclose(mean, advice @ rewards)


def test_ties_go_to_the_first_expert():
    policy = kb.EpochGreedy(constant_experts(3), n_actions=3, seed=0)
    decision = policy.choose(np.eye(3))

    policy.learn(decision, 0.0)

    assert policy.leader.action == 0


def test_amended_and_unlearned_rewards_leave_the_values_of_the_right_ones():
    policy, rng = kb.EpochGreedy(experts(), n_actions=3, reward_range=(0.0, 5.0), seed=2), np.random.default_rng(6)
    decisions = [policy.choose(rng.normal(size=(3, 3))) for _ in range(4)]
    straight = policy.copy()
    policy.learn_many(decisions, [1.0, 2.0, 3.0, 4.0])

    policy.amend(decisions[0], was=1.0, now=5.0)
    policy.unlearn(decisions[1], 2.0)

    straight.learn_many([decisions[0], *decisions[2:]], [5.0, 3.0, 4.0])
    np.testing.assert_allclose(policy.values, straight.values, rtol=1e-12)


def test_greedy_rounds_teach_nothing():
    policy = kb.EpochGreedy(experts(), n_actions=3, seed=2)
    policy.learn(policy.choose(np.eye(3)), 0.5)
    before, greedy = policy.values, policy.choose(np.eye(3))

    policy.learn(greedy, 1.0)
    policy.amend(greedy, was=1.0, now=0.2)
    policy.unlearn(greedy, 0.2)

    assert greedy.stage is None
    np.testing.assert_array_equal(policy.values, before)


def test_a_greedy_round_queries_one_expert():
    queried = []

    class Noisy:
        def __init__(self, name):
            self.name = name

        def advise(self, contexts):
            queried.append(self.name)
            return np.eye(len(contexts))[0]

        def describe(self):
            return {"class": "Noisy", "name": self.name}

    policy = kb.EpochGreedy([Noisy("a"), Noisy("b"), Noisy("c")], n_actions=2, seed=0)
    policy.learn(policy.choose(np.eye(2)), 0.0)
    queried.clear()

    policy.choose(np.eye(2))

    assert queried == ["a"]


@pytest.mark.parametrize("options", [{"n_actions": 0}, {"n_actions": 2, "horizon": 0}])
def test_wrong_numbers_are_rejected(options):
    with pytest.raises(InvalidParameter):
        kb.EpochGreedy(experts(), **options)


@pytest.mark.parametrize("complexity", [0.2, 0.7, 3.3, 11.0])
@pytest.mark.parametrize("factor", [1.0, 0.05, 2.7])
def test_epochs_are_those_of_their_definition_in_any_order_of_queries(complexity, factor):
    schedule, starts = Epochs(complexity, horizon=None, factor=factor), [1]
    while starts[-1] < 600:
        starts.append(starts[-1] + 1 + schedule.greedy_rounds(len(starts)))
    rounds = [*range(1, 600), *np.random.default_rng(0).permutation(np.arange(1, 600))[:50].tolist()]

    assert [schedule.explores(t) for t in rounds] == [t in starts for t in rounds]


def test_epochs_of_an_absurd_complexity_are_as_short_as_can_be():
    schedule = Epochs(1e27, horizon=None, factor=1.0)

    assert [schedule.explores(t) for t in (1, 2, 3, 2**40, 2**40 + 1)] == [True, False, True, False, True]


def test_a_round_after_a_trillion_others_takes_no_memory_for_them():
    schedule = Epochs(8.0, horizon=None, factor=1.0)

    schedule.explores(2**40)

    assert schedule._run[0] <= 2**40 < schedule._run[0] + 2**30
