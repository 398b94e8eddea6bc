"""Policies over a class come closer to its best policy than its average one does."""

import numpy as np
import pytest

import kernelbandits as kb
from policy_classes import scorers

pytestmark = pytest.mark.long

N_ACTIONS, N_POLICIES, N_ROUNDS = 3, 50, 3000


@pytest.mark.parametrize(
    "make",
    [
        lambda experts: kb.PolicyElimination(experts, n_actions=N_ACTIONS, exploration=0.2, seed=1),
        lambda experts: kb.RandomizedUCB(experts, n_actions=N_ACTIONS, seed=1),
        lambda experts: kb.ILOVETOCONBANDITS(experts, n_actions=N_ACTIONS, regret_factor=2.0, seed=1),
    ],
    ids=["PolicyElimination", "RandomizedUCB", "ILOVETOCONBANDITS"],
)
def test_the_last_rounds_pay_more_than_the_average_policy(make):
    """Rewards of 500 rounds have a standard error of at most 0.5 / sqrt(500) = 0.022; the margin is three of these."""
    rng = np.random.default_rng(0)
    experts = scorers(rng, N_POLICIES, n_features=5)
    rounds = rng.normal(size=(N_ROUNDS, N_ACTIONS, 5))
    chances = 1 / (1 + np.exp(-1.5 * rounds @ rng.normal(size=5)))
    rewards = (rng.uniform(size=chances.shape) < chances).astype(float)
    picks = np.array([np.argmax(rounds @ np.array(expert.direction), axis=1) for expert in experts])
    average = chances[np.arange(N_ROUNDS), picks].mean()

    plays = make(experts).play(rounds, rewards)

    assert plays.reward[-500:].mean() > average + 3 * 0.022
