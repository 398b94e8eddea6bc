import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter, InvalidReward
from kernelbandits.evaluation import IPS, ABComparison, ConfidenceSequence, Log, compare_on_log
from kernelbandits.kernels import Delta
from kernelbandits.policies import KernelUCB, Mixed, UniformRandom

ITEMS = ["a", "b", "c"]


def make_test():
    return ABComparison(failure_probability=0.1, reward_range=(0.0, 1.0))


def likes(item, epsilon):
    policy = KernelUCB(Delta(), exploration=0.0)
    policy.warm_start([item], [5.0])
    return Mixed(policy, epsilon=epsilon, seed=0)


def uniform_log(seed, n_rounds=800):
    rng = np.random.default_rng(seed)
    actions = rng.integers(3, size=n_rounds)
    rewards = (rng.random(n_rounds) < np.array([0.2, 0.5, 0.6])[actions]).astype(float)
    return Log([ITEMS] * n_rounds, actions, [1 / 3] * n_rounds, rewards)


def test_the_difference_lies_between_the_ends_of_both():
    first, second = np.random.default_rng(0).random(300), np.random.default_rng(1).random(100) ** 3
    test = make_test()

    test.add(first=first, second=second[:40])
    test.add(second=second[40:])

    ours, theirs = (ConfidenceSequence(failure_probability=0.05, reward_range=(0, 1)).add(x) for x in (first, second))
    result = test.estimate()
    assert_allclose(test.interval, [ours.low - theirs.high, ours.high - theirs.low])
    assert_allclose([result.low, result.high], test.interval)
    assert_allclose(result.value, first.mean() - second.mean())
    assert result.n_rounds == 400


def test_it_finds_the_winner_and_not_one_among_equals():
    rng = np.random.default_rng(2)
    first, second, third = make_test(), make_test(), make_test()

    first.add(first=rng.random(400) < 0.8, second=rng.random(400) < 0.3)
    second.add(first=rng.random(400) < 0.3, second=rng.random(400) < 0.8)
    third.add(first=rng.random(400) < 0.5, second=rng.random(400) < 0.5)

    assert (first.winner, second.winner, third.winner) == ("first", "second", None)


def test_equal_policies_are_hardly_ever_distinguished_at_any_peek():
    def is_wrong(run):
        rng = np.random.default_rng(run)
        ours, theirs = make_test(), make_test()
        (low, high), (other_low, other_high) = (
            ours.first.follow(rng.random(1000)),
            theirs.second.follow(rng.random(1000)),
        )
        return bool(((low > other_high) | (high < other_low)).any())

    share = np.mean([is_wrong(run) for run in range(200)])

    assert share <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 200)


def test_a_reward_outside_the_range_changes_neither():
    test = make_test()

    with pytest.raises(InvalidReward, match="between"):
        test.add(first=[0.5], second=[2.0])

    assert test.first.n_values == test.second.n_values == 0


def test_on_a_log_it_is_the_mean_of_weighted_differences():
    log, first, second = uniform_log(0), likes("c", 0.3), likes("a", 0.6)

    result = compare_on_log(log, first, second, smallest_propensity=0.2, reward_range=(0, 1), failure_probability=0.1)

    weights = [[p.probabilities(ITEMS)[a] * 3 for a in log.actions] for p in (first, second)]
    terms = (np.array(weights[0]) - np.array(weights[1])) * (log.rewards - 0.5)
    slow = ConfidenceSequence(failure_probability=0.1, reward_range=(-2.5, 2.5)).add(terms)
    assert_allclose([result.value, result.low, result.high], [slow.value, slow.low, slow.high])
    assert result.low > 0.0


def test_it_covers_the_difference():
    """π₁ − π₂ times the expected rewards 0.2, 0.5 and 0.6."""
    first, second = likes("c", 0.3), likes("b", 0.3)
    truth = 0.7 * (0.6 - 0.5)
    estimates = [
        compare_on_log(uniform_log(seed, 300), first, second, smallest_propensity=0.3, reward_range=(0, 1))
        for seed in range(60)
    ]

    values = np.array([result.value for result in estimates])
    assert abs(values.mean() - truth) < 4 * values.std(ddof=1) / np.sqrt(60)
    assert np.mean([result.low <= truth <= result.high for result in estimates]) >= 0.9
    differences = [
        IPS().estimate(uniform_log(seed, 300), first).value - IPS().estimate(uniform_log(seed, 300), second).value
        for seed in range(60)
    ]
    assert values.std() < np.std(differences)  # the centered rewards are the quieter ones


def test_the_largest_terms_are_not_rejected_for_their_rounding():
    rng = np.random.default_rng(0)

    for _ in range(200):
        low, propensity = rng.uniform(-5.0, 5.0), rng.uniform(0.01, 1.0)
        high = low + rng.uniform(0.01, 5.0)
        log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[propensity] * 2, rewards=[high, low])
        result = compare_on_log(
            log,
            likes("a", 1e-300),
            likes("b", 1e-300),
            smallest_propensity=propensity,
            reward_range=(low, high),
        )
        assert_allclose(result.value, (high - low) / (2.0 * propensity))


def test_a_log_with_a_reward_outside_the_range_is_rejected_even_if_its_weight_is_small():
    log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[0.9, 0.9], rewards=[1.0, 5.0])

    with pytest.raises(InvalidReward, match=r"between 0.0 and 1.0, got 5.0"):
        compare_on_log(log, UniformRandom(), likes("a", 0.5), smallest_propensity=0.01, reward_range=(0.0, 1.0))


def test_a_log_below_its_smallest_propensity_is_rejected():
    with pytest.raises(InvalidParameter, match=r"the smallest, 0\.5, but the log has 0\.33"):
        compare_on_log(uniform_log(0), UniformRandom(), UniformRandom(), smallest_propensity=0.5, reward_range=(0, 1))
