from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import DecisionError, NotLearnt

RNG = np.random.default_rng(0)
ACTIONS = RNG.normal(size=(20, 3))
ACTIONS /= np.linalg.norm(ACTIONS, axis=1)[:, None]
WEIGHTS = np.array([0.5, -1.0, 0.3])


def printed(spanning, rewards_of, n_rounds):
    """The algorithm as printed: cycles, and estimates averaged over them; gives (row, mean or None) per round."""
    arms, cycle, played = ACTIONS[spanning], 0, []
    estimates = []
    while len(played) < n_rounds:
        cycle += 1
        rewards = []
        for row in spanning:
            rewards.append(rewards_of(len(played), row))
            played.append((row, None))
        estimates.append(np.linalg.solve(arms.T @ arms, arms.T @ np.array(rewards)))
        theta = np.mean(estimates, axis=0)
        for _ in range(cycle):
            row = int(np.argmax(ACTIONS @ theta))
            rewards_of(len(played), row)
            played.append((row, ACTIONS[row] @ theta))
    return played[:n_rounds]


def test_cycles_and_estimates_are_those_printed():
    noise = 0.4 * np.random.default_rng(1).normal(size=300)
    policy = kb.PEGE(ACTIONS)
    wanted = printed(policy.spanning, lambda t, row: ACTIONS[row] @ WEIGHTS + noise[t], 130)
    for t, (row, mean) in enumerate(wanted):
        decision = policy.choose(ACTIONS)
        assert decision.action == row
        assert (decision.stage is None) == (mean is not None)
        if mean is not None:
            assert_allclose([decision.mean, decision.score], mean, rtol=1e-9)
        policy.learn(decision, float(ACTIONS[row] @ WEIGHTS + noise[t]))


def test_the_printed_cycles_are_not_those_of_equal_length():
    """Negative control: exploiting once in every cycle parts from it in the second."""
    policy, stages = kb.PEGE(ACTIONS), []
    for _ in range(3 + 1 + 3 + 2 + 3 + 3):
        decision = policy.choose(ACTIONS)
        stages.append(decision.stage)
        policy.learn(decision, 0.0)

    assert stages == [1, 1, 1, None, 2, 2, 2, None, None, 3, 3, 3, None, None, None]
    assert stages != [1, 1, 1, None, 2, 2, 2, None, 3, 3, 3, None, 4, 4, 4]


def test_exploiting_teaches_nothing():
    policy = kb.PEGE(ACTIONS)
    for _ in range(3):
        policy.learn(policy.choose(ACTIONS), 0.5)
    exploiting = policy.choose(ACTIONS)

    policy.learn(exploiting, 1e6)

    assert exploiting.stage is None
    assert policy.choose(ACTIONS, eligible=np.arange(20) == exploiting.action).mean == pytest.approx(exploiting.mean)


def test_pending_decisions_move_the_phases_on():
    """Rewards that come at the very end: the same actions are explored as if they had come at once."""
    policy, rng = kb.PEGE(ACTIONS), np.random.default_rng(2)
    decisions = []
    for _ in range(15):
        decisions.append(policy.choose(ACTIONS))
        policy.expect(decisions[-1])
    stages = [decision.stage for decision in decisions]

    for place in rng.permutation(15):
        policy.learn(decisions[place], float(decisions[place].context @ WEIGHTS))

    assert stages == [1, 1, 1, None, 2, 2, 2, None, None, 3, 3, 3, None, None, None]
    assert policy.choose(ACTIONS).stage == 4
    assert policy.greedy_action == int(np.argmax(ACTIONS @ WEIGHTS))


def test_choices_repeated_before_any_reward_are_caught_up_with():
    """None is announced as pending: the first action is explored five times, then the others get their turn."""
    policy = kb.PEGE(ACTIONS)
    decisions = [policy.choose(ACTIONS) for _ in range(5)]
    policy.learn_many(decisions, [1.0, 2.0, 3.0, 4.0, 5.0])

    for place in (1, 2):
        decision = policy.choose(ACTIONS)
        assert decision.action == policy.spanning[place]
        policy.learn(decision, 0.0)

    first = np.arange(20) == policy.spanning[0]
    assert policy.choose(ACTIONS).stage is None
    assert policy._means(np.flatnonzero(first))[0] == pytest.approx(3.0)


def test_spanning_actions_that_may_not_be_taken_are_passed_over():
    policy = kb.PEGE(ACTIONS)
    without_first = np.arange(20) != policy.spanning[0]
    none_of_them = ~np.isin(np.arange(20), policy.spanning)

    stages = []
    for _ in range(6):
        decision = policy.choose(ACTIONS, eligible=without_first)
        stages.append(decision.stage)
        policy.learn(decision, 0.1)

    assert stages == [1, 1, None, 2, 2, None]
    assert policy.choose(ACTIONS, eligible=none_of_them).stage is None
    assert policy.choose(ACTIONS).action == policy.spanning[0]


@pytest.mark.long
def test_regret_on_a_circle_grows_like_the_root():
    """Four times as many rounds, about twice the regret; linear growth would make it four times."""
    angles = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    actions = np.column_stack([np.cos(angles), np.sin(angles)])
    values = actions @ [np.cos(1.0), np.sin(1.0)]
    totals = np.zeros(2)
    for seed in range(10):
        rng, policy, regret = np.random.default_rng(seed), kb.PEGE(actions), 0.0
        for t in range(1, 2001):
            decision = policy.choose(actions)
            regret += values.max() - values[decision.action]
            policy.learn(decision, float(values[decision.action] + 0.3 * rng.normal()))
            if t in (500, 2000):
                totals[t // 2000] += regret

    assert 1.5 < totals[1] / totals[0] < 3.0


def test_decisions_that_no_exploration_made_are_rejected():
    policy = kb.PEGE(ACTIONS)
    other = int(np.setdiff1d(np.arange(20), policy.spanning)[0])

    with pytest.raises(DecisionError, match="Only the spanning actions"):
        policy.learn(kb.Decision(action=other, context=ACTIONS[other], stage=1), 0.5)
    with pytest.raises(DecisionError, match="Only the spanning actions"):
        policy.expect(kb.Decision(action=other, context=ACTIONS[other], stage=1, id="a"))
    with pytest.raises(DecisionError, match=r"row of the 20|`action` of a decision"):
        policy.learn(kb.Decision(action=-1, context=ACTIONS[0]), 0.5)
    policy.learn(policy.choose(ACTIONS), 0.5)
    with pytest.raises(NotLearnt, match="No exploiting decision"):
        policy.unlearn(kb.Decision(action=other, context=ACTIONS[other]), 0.5)


def test_what_was_never_explored_cannot_be_amended():
    policy = kb.PEGE(ACTIONS)
    first, second = policy.spanning[:2].tolist()
    policy.learn(policy.choose(ACTIONS), 0.5)

    with pytest.raises(NotLearnt, match=f"No reward of action {second}"):
        policy.amend(kb.Decision(action=second, context=ACTIONS[second], stage=1), was=0.0, now=7.0)
    policy.amend(kb.Decision(action=first, context=ACTIONS[first], stage=1), was=0.5, now=7.0)

    assert policy._means(policy.spanning).tolist() == pytest.approx([7.0, 0.0, 0.0])


def test_a_decision_for_no_action_of_the_set_is_not_pending():
    policy = kb.PEGE(ACTIONS)

    with pytest.raises(DecisionError, match=r"row of the 20|`action` of a decision"):
        policy.expect(kb.Decision(action=20, context=ACTIONS[0], id="foreign"))

    assert policy.choose(ACTIONS).action == policy.spanning[0]


def test_a_decision_whose_context_is_not_its_row_is_rejected():
    policy = kb.PEGE(np.eye(3))
    decision = policy.choose(np.eye(3))

    for wrong in (replace(decision, context=np.array([1.0, 2.0])), replace(decision, action=2)):
        with pytest.raises(DecisionError, match="its context is another one"):
            policy.learn(wrong, 0.5)
        with pytest.raises(DecisionError, match="its context is another one"):
            policy.expect(wrong)

    policy.learn(decision, 0.5)
