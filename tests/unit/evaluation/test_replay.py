import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits import Catalog
from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Log, Replay, collect_log, simulate
from kernelbandits.kernels import Delta, Gaussian, Spectrum
from kernelbandits.policies import KernelUCB, UniformRandom
from logs import string_log


def test_under_a_uniform_rule_it_is_the_loop_over_matches():
    world = Clustered(n_actions=4)
    log = collect_log(world, UniformRandom(seed=1), horizon=300, seed=2)
    kernel = Gaussian(length_scale=0.1)
    policy, rewards = KernelUCB(kernel, exploration=0.4), []
    for t in range(300):
        decision = policy.choose(log.rounds[t])
        if decision.action == log.actions[t]:
            policy.learn(decision, log.rewards[t])
            rewards.append(log.rewards[t])

    result = Replay().estimate(log, KernelUCB(kernel, exploration=0.4))

    assert result.n_matched == len(rewards)
    assert_allclose(
        [result.value, result.standard_error], [np.mean(rewards), np.std(rewards, ddof=1) / len(rewards) ** 0.5]
    )
    assert result.warnings == ()


def test_the_policy_learns_only_where_it_is_configured_to():
    log, policy = string_log(), KernelUCB(Spectrum(n=2))

    Replay().estimate(log, policy)
    untouched = policy.round_index
    result = Replay(on_a_copy=False).estimate(log, policy)

    assert untouched == 1
    assert policy.round_index == 1 + result.n_matched > 1


def skewed_log(seed, n_rounds=200):
    """Item 0 is shown in 6 of 10 rounds where it pays well, in 2 of 10 where it does not; item 1 otherwise."""
    rng = np.random.default_rng(seed)
    rounds, actions, propensities, rewards = [], [], [], []
    for _ in range(n_rounds):
        is_good = rng.random() < 0.5
        chance = 0.6 if is_good else 0.2
        action = int(rng.random() >= chance)
        rounds.append(["first", "second"])
        actions.append(action)
        propensities.append(chance if action == 0 else 1.0 - chance)
        rewards.append(float(is_good) if action == 0 else 0.5)
    return Log(rounds, actions, propensities, rewards)


def test_rejection_makes_a_skewed_log_fair():
    """The truth is 0.5; plain matching would find 0.6 / (0.6 + 0.2) = 0.75."""
    policy = KernelUCB(Delta(), exploration=0.0)
    policy.warm_start(["first"], [1.0], times=10_000)  # takes the first item whatever it learns here
    estimates = [Replay(seed=100 + seed).estimate(skewed_log(seed), policy) for seed in range(10)]

    values = np.array([result.value for result in estimates])
    plain = np.mean([log.rewards[log.actions == 0].mean() for log in map(skewed_log, range(10))])

    assert abs(values.mean() - 0.5) < 4 * values.std(ddof=1) / np.sqrt(10)
    assert plain > 0.7
    assert "thinned out to a propensity of 0.2" in " ".join(estimates[0].warnings)


def test_a_part_of_a_catalog_is_matched_by_its_items():
    catalog = Catalog(["a", "b", "c"])
    policy = KernelUCB(Delta(), exploration=0.0)
    policy.warm_start(["c"], [1.0])
    log = Log([catalog.without([0])] * 2, actions=[1, 0], propensities=[0.5, 0.5], rewards=[3.0, 4.0])

    result = Replay().estimate(log, policy)

    assert (result.n_matched, result.value) == (1, 3.0)


def test_no_match_leaves_no_value():
    policy = KernelUCB(Delta(), exploration=0.0)
    policy.warm_start(["b"], [1.0])

    result = Replay().estimate(Log([["a", "b"]] * 9, [0] * 9, [1.0] * 9, [1.0] * 9), policy)

    assert np.isnan(result.value)
    assert "Only 0 of 9 rounds" in result.warnings[0]
    assert "was deterministic" in result.warnings[1]


def test_a_learner_earns_in_replay_what_it_earns_in_the_world():
    world = Clustered(n_actions=3, fixed_actions=True, n_clusters=3)
    kernel = Gaussian(length_scale=0.1)
    ours, theirs = [], []
    for seed in range(6):
        log = collect_log(world, UniformRandom(seed=seed), horizon=250, seed=seed)
        result = Replay().estimate(log, KernelUCB(kernel, exploration=0.4))
        trace = simulate(world, KernelUCB(kernel, exploration=0.4), horizon=result.n_matched, seed=seed)
        ours.append(result.value)
        theirs.append(trace.reward.mean())

    differences = np.subtract(ours, theirs)
    assert abs(differences.mean()) < 4 * differences.std(ddof=1) / np.sqrt(6)


@pytest.mark.parametrize("smallest", [0.0, -1.0, np.nan])
def test_a_smallest_propensity_that_is_none_is_rejected(smallest):
    with pytest.raises(InvalidParameter, match="The smallest propensity must be"):
        Replay(smallest_propensity=smallest)


def test_a_log_below_its_smallest_propensity_is_rejected():
    with pytest.raises(InvalidParameter, match=r"0\.3, but the log has 0\.2"):
        Replay(smallest_propensity=0.3).estimate(skewed_log(0), kb.UniformRandom())
