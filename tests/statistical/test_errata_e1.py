"""Erratum E1: the printed SupKernelUCB can drop the best action for good; the valid scale keeps it.

Two fixed actions (1, 0) and (0, 0.04), θ* = (0.75, 25), so that the rewards are 0.75 and 1.0 without noise; γ = 1 and
δ = 0.1. Every hypothesis of Theorem 1 holds: ‖φ‖ ≤ 1 and rewards in [0, 1]. The second action is short and its
parameter long: unplayed, its printed interval ends at 0.04 η ≈ 0.2, so it counts as known and as bad.

Nothing here is random, so every figure is exact.
"""

from math import hypot

import numpy as np
import pytest

import kernelbandits as kb

ACTIONS = np.array([[1.0, 0.0], [0.0, 0.04]])
THETA = np.array([0.75, 25.0])
REWARDS = ACTIONS @ THETA
BEST = 1


def play(policy, rounds):
    """Actions chosen, and the first round whose walk lost the best action on the way (None: it never did)."""
    chosen, lost = [], None
    for t in range(1, rounds + 1):
        if lost is None and any(BEST not in step.active for step in policy.walk(ACTIONS)):
            lost = t
        decision = policy.choose(ACTIONS)
        policy.learn(decision, float(REWARDS[decision.action]))
        chosen.append(decision.action)
    return np.array(chosen), lost


def policy_of(mode, horizon):
    bound = {"norm_bound": hypot(*THETA)} if mode == "valid" else {}
    return kb.SupKernelUCB(
        kb.kernels.Linear(),
        regularization=1.0,
        horizon=horizon,
        n_actions=2,
        failure_probability=0.1,
        mode=mode,
        exploration="theory",
        **bound,
    )


def test_rewards_are_what_the_text_says():
    np.testing.assert_allclose(REWARDS, [0.75, 1.0])


def test_paper_mode_drops_the_best_action_and_never_plays_it():
    policy = policy_of("paper", horizon=20_000)

    chosen, lost = play(policy, rounds=1500)

    assert lost == 109  # after 108 rounds
    assert not np.any(chosen == BEST)


def test_once_dropped_it_stays_dropped():
    policy = policy_of("paper", horizon=20_000)
    play(policy, rounds=108)

    for _ in range(300):
        last = policy.walk(ACTIONS)[-1]
        assert BEST not in last.active
        decision = policy.choose(ACTIONS)
        policy.learn(decision, float(REWARDS[decision.action]))


def test_valid_mode_keeps_it_and_finds_it():
    policy = policy_of("valid", horizon=20_000)

    chosen, lost = play(policy, rounds=1500)

    assert lost is None
    assert np.any(chosen == BEST)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "plays_of_best", "regret"), [("paper", 0, 3000.0), ("valid", 5376, 1656.0)])
def test_whole_runs(mode, plays_of_best, regret):
    policy = policy_of(mode, horizon=12_000)

    chosen, lost = play(policy, rounds=12_000)

    assert (lost is None) == (mode == "valid")
    assert np.sum(chosen == BEST) == plays_of_best
    np.testing.assert_allclose(np.sum(1.0 - REWARDS[chosen]), regret)
