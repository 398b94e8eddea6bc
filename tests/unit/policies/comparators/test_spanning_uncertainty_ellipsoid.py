import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, InvalidReward, NotLearnt
from kernelbandits.theory.exploration import Mixture

ACTIONS = np.random.default_rng(0).normal(size=(9, 3)) * np.array([1.0, 0.3, 2.0])


def defined_scores(history, exploration, round_index):
    """Least squares by pinv on the whole history, and the printed radius."""
    rows, rewards = np.array([row for row, _ in history]), np.array([reward for _, reward in history])
    covariance = np.linalg.inv(ACTIONS[rows].T @ ACTIONS[rows])
    theta = covariance @ (rewards @ ACTIONS[rows])
    radius = exploration * np.sqrt(np.log(round_index)) * np.sqrt(min(3 * np.log(round_index), 9))
    return ACTIONS @ theta, np.sqrt(np.einsum("nd,de,ne->n", ACTIONS, covariance, ACTIONS)), radius


@pytest.mark.parametrize("exploration", [0.0, 0.2, 3.0])
def test_spanning_actions_come_first_and_then_the_highest_score(exploration):
    policy, rng, history = kb.UncertaintyEllipsoid(ACTIONS, exploration=exploration), np.random.default_rng(1), []
    for round_index in range(1, 80):
        decision = policy.choose(ACTIONS)
        if round_index <= 3:
            assert decision.action == policy.spanning[round_index - 1]
        else:
            mean, width, radius = defined_scores(history, exploration, round_index)
            scores = mean + radius * width
            assert decision.action == int(np.argmax(scores))
            assert_allclose(
                [decision.mean, decision.width, decision.score],
                [mean[decision.action], width[decision.action], scores[decision.action]],
                rtol=1e-8,
            )
        reward = float(ACTIONS[decision.action] @ [0.5, -1.0, 0.2] + 0.3 * rng.normal())
        policy.learn(decision, reward)
        history.append((decision.action, reward))


def test_the_definition_is_not_met_by_a_ridge():
    """Negative control: LinUCB's estimate differs, so that the comparison above can fail."""
    policy, ridge, rng = kb.UncertaintyEllipsoid(ACTIONS), kb.LinUCB(regularization=1.0), np.random.default_rng(2)
    for _ in range(20):
        decision, reward = policy.choose(ACTIONS), float(rng.normal())
        policy.learn(decision, reward)
        ridge.warm_start(decision.context[None], [reward])

    decision = policy.choose(ACTIONS)

    assert ridge.posterior.predict(decision.context[None]).mean[0] != pytest.approx(decision.mean, rel=1e-3)


def test_spanning_actions_that_are_pending_are_not_played_again():
    policy = kb.UncertaintyEllipsoid(ACTIONS)
    decisions = []
    for _ in range(4):
        decisions.append(policy.choose(ACTIONS))
        policy.expect(decisions[-1])

    assert [decision.action for decision in decisions[:3]] == policy.spanning.tolist()
    assert decisions[3].mean == 0.0
    policy.learn(decisions[1], 2.0)
    seen = policy.choose(ACTIONS, eligible=np.arange(9) == policy.spanning[1])
    assert seen.mean == pytest.approx(2.0)


def test_pending_decisions_narrow_the_width_and_leave_the_mean():
    policy = kb.UncertaintyEllipsoid(ACTIONS)
    for _ in range(6):
        policy.learn(policy.choose(ACTIONS), 0.3)
    before = policy.choose(ACTIONS)
    policy.expect(before)

    now = policy.choose(ACTIONS, eligible=np.arange(9) == before.action)

    assert now.mean == pytest.approx(before.mean)
    assert now.width == pytest.approx(before.width / np.sqrt(1 + before.width**2))


def test_late_rewards_in_any_order_give_the_same_model():
    straight, late, rng = (*(kb.UncertaintyEllipsoid(ACTIONS, exploration=0.5) for _ in range(2)),
                           np.random.default_rng(3))  # fmt: skip
    decisions, rewards = [], rng.normal(size=12)
    for reward in rewards:
        decisions.append(straight.choose(ACTIONS))
        straight.learn(decisions[-1], float(reward))

    for place in rng.permutation(12):
        late.learn(decisions[place], float(rewards[place]))

    assert late.choose(ACTIONS).score == pytest.approx(straight.choose(ACTIONS).score, rel=1e-10)


def test_where_no_spanning_action_may_be_taken_the_unseen_is_shown_first():
    policy = kb.UncertaintyEllipsoid(np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 0.1], [1.0, 0.9], [0.5, 0.05]]))
    others = np.array([False, False, True, True, True])
    contexts = policy.actions

    first = policy.choose(contexts, eligible=others)
    policy.learn(first, 1.0)
    second = policy.choose(contexts, eligible=others)
    policy.learn(second, 1.0)
    third = policy.choose(contexts, eligible=others)

    assert np.isnan(first.score)
    assert np.isnan(second.score)
    assert np.linalg.matrix_rank(contexts[[first.action, second.action]]) == 2
    assert np.isfinite(third.score)


def test_redundant_columns_and_the_unit_of_the_features_do_not_matter():
    redundant = 1e120 * np.hstack([ACTIONS, ACTIONS[:, :1] + ACTIONS[:, 1:2]])
    plain, other = kb.UncertaintyEllipsoid(ACTIONS), kb.UncertaintyEllipsoid(redundant)
    spanning = plain.spanning.tolist()
    for row in spanning:
        for policy in (plain, other):
            policy.learn(kb.Decision(action=row, context=policy.actions[row]), float(row))
    for row in set(other.spanning.tolist()) - set(spanning):
        for policy in (plain, other):
            policy.learn(kb.Decision(action=row, context=policy.actions[row]), float(row))

    first, second = plain.choose(ACTIONS), other.choose(redundant)

    assert len(other.spanning) == 3
    assert (first.action, first.score) == (second.action, pytest.approx(second.score))


def test_the_best_action_is_found():
    rng, policy = np.random.default_rng(4), kb.UncertaintyEllipsoid(ACTIONS, exploration=0.3)
    values = ACTIONS @ [0.5, -1.0, 0.2]
    for _ in range(400):
        decision = policy.choose(ACTIONS)
        policy.learn(decision, float(values[decision.action] + 0.3 * rng.normal()))

    assert policy.choose(ACTIONS).action == int(np.argmax(values))


def test_bad_parameters_and_rewards_are_rejected():
    with pytest.raises(InvalidParameter, match="must be a number"):
        kb.UncertaintyEllipsoid(ACTIONS, exploration=Mixture(noise_scale=1.0, norm_bound=1.0, failure_probability=0.1))
    with pytest.raises(InvalidParameter, match="exploration"):
        kb.UncertaintyEllipsoid(ACTIONS, exploration=-1.0)
    policy = kb.UncertaintyEllipsoid(ACTIONS)
    by_hand = kb.Decision(action=0, context=ACTIONS[0])
    policy.learn(by_hand, 1.7e308)
    with pytest.raises(InvalidReward, match="more than a float64 holds"):
        policy.learn(by_hand, 1.7e308)
    with pytest.raises(NotLearnt, match="No reward of action 1"):
        policy.unlearn(kb.Decision(action=1, context=ACTIONS[1]), 1.0)
