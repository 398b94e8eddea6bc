"""A class of policies for tests, and the slow way of computing what its algorithms need."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernelbandits.policies.experts.class_policy import SPREAD, PickTable


@dataclass(frozen=True)
class LinearScorer:
    """The row of highest inner product."""

    direction: tuple[float, ...]

    def advise(self, contexts):
        advice = np.zeros(len(contexts))
        advice[int(np.argmax(np.asarray(contexts) @ np.array(self.direction)))] = 1.0
        return advice

    def describe(self):
        return {"class": "LinearScorer", "direction": list(self.direction)}


def scorers(rng, n_policies, n_features=3):
    return [LinearScorer(tuple(row)) for row in rng.normal(size=(n_policies, n_features)).tolist()]


def random_rounds(rng, n_rounds, n_policies, n_actions):
    """Rounds as (picks, number of actions): of every size, some picks SPREAD, some rounds twice."""
    rounds = []
    for _ in range(n_rounds):
        size = int(rng.integers(1, n_actions + 1))
        picks = rng.integers(-1, size, size=n_policies)
        rounds.extend([(picks, size)] * int(rng.integers(1, 4)))
    return rounds


def table_of(rounds, n_policies, n_actions, **options):
    table = PickTable(n_policies, n_actions, **options)
    for picks, size in rounds:
        table.add(picks, size)
    return table


def takes(picks, size):
    """π(a | x), a row per policy."""
    probabilities = np.zeros((len(picks), size))
    for policy, pick in enumerate(picks):
        probabilities[policy] = 1.0 / size if pick == SPREAD else np.arange(size) == pick
    return probabilities


def slow_variances(rounds, weights, mixing):
    """Mean over the rounds of Σ_a π(a | x) / W'(x, a), from the definition."""
    total = np.zeros(len(weights))
    for picks, size in rounds:
        probabilities = takes(picks, size)
        mixed = (1.0 - size * mixing) * (weights @ probabilities) + mixing
        total += probabilities @ (1.0 / mixed)
    return total / len(rounds)


def two_policy_mixtures(n_policies, n_steps=40):
    """Mixtures of every two policies on a grid."""
    for first in range(n_policies):
        for second in range(first, n_policies):
            for share in np.linspace(0.0, 1.0, n_steps):
                mixture = np.zeros(n_policies)
                mixture[first] += 1.0 - share
                mixture[second] += share
                yield mixture


def is_concave(across, up):
    slopes = [(up[b] - up[a]) / (across[b] - across[a]) for a, b in pairwise(range(len(across)))]
    return all(left >= right - 1e-9 for left, right in pairwise(slopes))
