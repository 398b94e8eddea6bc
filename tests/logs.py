"""Small ugly logs, and estimators computed the slow way: what the tests of evaluation compare with."""

from __future__ import annotations

import numpy as np

from kernelbandits.environments import Log

WORDS = ["cheap flights", "cheap fights", "slow cooking", "low cost flight", "quick soup", "a", "flights to rome"]


def string_log(n_rounds=60, seed=0):
    """Sets of strings that change in content and size; propensities and rewards are ugly."""
    rng = np.random.default_rng(seed)
    rounds, actions, propensities, rewards = [], [], [], []
    for _ in range(n_rounds):
        words = [WORDS[place] for place in rng.permutation(len(WORDS))[: rng.integers(2, 6)]]
        shares = rng.dirichlet(np.full(len(words), 2.0))
        action = int(rng.choice(len(words), p=shares))
        rounds.append(words)
        actions.append(action)
        propensities.append(shares[action])
        rewards.append(0.1 * len(words[action]) - 0.7 + rng.normal())
    return Log(rounds, actions, propensities, rewards)


def slow_weights(log, policy):
    return np.array(
        [
            policy.probabilities(log.rounds[t], ids=log.ids_of(t))[log.actions[t]] / log.propensities[t]
            for t in range(len(log))
        ]
    )


def slow_direct(log, policy, mean):
    """Σ_a π(a) mean(a) for every round, where `mean` tells the rewards of a set of actions."""
    values = []
    for t in range(len(log)):
        probabilities = policy.probabilities(log.rounds[t], ids=log.ids_of(t))
        values.append(sum(probabilities[a] * reward for a, reward in enumerate(mean(log.rounds[t]))))
    return np.array(values)
