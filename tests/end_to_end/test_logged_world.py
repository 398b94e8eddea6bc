"""A log made by chance, shown again as a world: what is known there is what the world itself would have paid."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import Clustered, Log, Logged
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, UniformRandom

WORLD = Clustered(n_actions=4, n_clusters=3)
KERNEL = Gaussian(length_scale=0.1)


def logged_by_chance(n_rounds):
    trace = simulate(WORLD, UniformRandom(seed=3), horizon=n_rounds, seed=5)
    world = start_world(WORLD, 5)
    rounds = [world.observe().contexts for _ in range(n_rounds)]
    return Log(rounds, trace.action, trace.propensity, trace.reward)


def make_policy():
    return KernelUCB(KERNEL, regularization=0.5, exploration=0.3)


def test_a_run_over_a_log_is_replay():
    log = logged_by_chance(400)
    policy, by_hand = make_policy(), make_policy()

    trace = simulate(Logged(log, reward_range=(0.0, 1.0)), policy, horizon=10_000, seed=1)

    kept = []
    for t in range(len(log)):  # Li et al. (2011): keep the rounds that agree, throw away all others
        decision = by_hand.choose(log.rounds[t])
        assert decision.action == trace.action[t]
        if decision.action == log.actions[t]:
            by_hand.learn(decision, log.rewards[t])
            kept.append(log.rewards[t])
    known = trace.reward[~np.isnan(trace.reward)]
    assert len(trace) == 400
    assert_array_equal(known, kept)
    assert policy.posterior.n_observations == len(kept)
    assert_allclose(len(kept) / 400, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 400))
