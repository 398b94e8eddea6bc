"""Small logs of slates with every slate once, and values of slates computed by enumeration."""

from __future__ import annotations

import itertools

import numpy as np

from kernelbandits.environments import Log


def every_slate(n_actions, k):
    """All slates as rows of a matrix."""
    return np.array(list(itertools.permutations(range(n_actions), k)))


def given_above(policy, contexts, slates):
    """Probability of each place of each slate given those above: choosing among what is left, one place at a time."""
    return np.array([policy.slate_probabilities(contexts, slate) for slate in slates])


def at_place(slates, shares, n_actions):
    """Probability of the action of each slate at its place: the sum over all slates that have it there."""
    found = np.empty(slates.shape)
    for t, slate in enumerate(slates):
        for place, action in enumerate(slate):
            found[t, place] = shares[slates[:, place] == action].sum()
    return found


def log_of_every_slate(contexts, logging, k, reward):
    """A log with each slate once, and the probability with which the logging policy shows it."""
    slates = every_slate(len(contexts), k)
    propensities = given_above(logging, contexts, slates)
    shares = propensities.prod(axis=1)
    rewards = np.array([[reward(tuple(slate), place) for place in range(k)] for slate in slates])
    log = Log(
        [contexts] * len(slates),
        slates,
        propensities,
        rewards,
        place_propensities=at_place(slates, shares, len(contexts)),
    )
    return log, shares
