from math import ceil

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidParameter, InvalidReward, NotLearnt
from kernelbandits.kernels import Gaussian, Linear, Spectrum

LINE = np.linspace(0, 1, 21)[:, None]
VALUES = np.sin(5 * LINE[:, 0])


def played(policy, n_rounds, values=VALUES):
    return policy.play([LINE] * n_rounds, np.tile(values, (n_rounds, 1))).action


def test_the_grid_is_tried_once_and_its_best_point_is_played_from_then_on():
    policy = kb.GridGP(Linear(), LINE, n_points=5)

    actions = played(policy, 20)

    assert actions[:5].tolist() == policy.grid.tolist() == [0, 20, 10, 5, 15]
    assert set(actions[5:]) == {policy.grid[np.argmax(VALUES[policy.grid])]}


@pytest.mark.parametrize(("horizon", "smoothness", "dimension"), [(50, 2.0, None), (50, 1.0, None), (50, 0.5, 3)])
def test_the_horizon_balances_trying_and_playing(horizon, smoothness, dimension):
    policy = kb.GridGP(
        Linear(), np.linspace(0, 1, 400)[:, None], horizon=horizon, smoothness=smoothness, dimension=dimension
    )

    d = dimension or 1
    assert len(policy.grid) == ceil(horizon ** (2 * d / (2 * d + smoothness)))


def test_more_points_leave_less_to_lose():
    rng = np.random.default_rng(0)
    domain = rng.uniform(size=(400, 2))
    root = np.linalg.cholesky(Gaussian(length_scale=0.3).gram(domain) + 1e-9 * np.eye(400))
    lost = {n: [] for n in (4, 16, 64)}
    for _ in range(20):
        values = root @ rng.normal(size=400)
        for n in lost:
            lost[n].append(values.max() - values[kb.GridGP(Linear(), domain, n_points=n).grid].max())

    means = [np.mean(lost[n]) for n in lost]
    assert means[0] > 2 * means[1] > 4 * means[2]


def test_a_kernel_gives_the_distances_of_anything():
    words = ["aa", "ab", "zz", "za", "aaa"]

    assert kb.GridGP(Spectrum(n=1), words, n_points=2).grid.tolist() == [0, 2]
    assert kb.GridGP(Gaussian(length_scale=1.0), LINE, n_points=3).grid.tolist() == [0, 20, 10]


def test_pending_tries_are_not_repeated_and_the_best_known_is_played_meanwhile():
    policy = kb.GridGP(Linear(), LINE, n_points=3)
    first = policy.choose(LINE)
    policy.expect(first)
    second = policy.choose(LINE)
    policy.learn(second, 0.5)
    third = policy.choose(LINE)
    policy.expect(third)

    assert [first.action, second.action, third.action] == policy.grid.tolist()
    assert policy.choose(LINE).action == second.action
    policy.learn(first, 0.9)
    assert policy.choose(LINE).action == first.action
    policy.withdraw(third)
    assert policy.choose(LINE).action == third.action


def test_only_eligible_actions_are_tried_and_played():
    policy = kb.GridGP(Linear(), LINE, n_points=3)
    without_first = np.arange(21) != 0
    tried = []
    for reward in (0.1, 0.7):
        decision = policy.choose(LINE, eligible=without_first)
        policy.learn(decision, reward)
        tried.append(decision.action)

    assert tried == [20, 10]
    assert policy.choose(LINE, eligible=without_first).action == 10
    assert policy.choose(LINE).action == 0
    assert policy.choose(LINE, eligible=np.isin(np.arange(21), [3, 4])).action == 3


def test_noise_is_averaged():
    policy = kb.GridGP(Linear(), LINE, n_points=2)
    for reward in (1.0, 0.8, 0.0):
        policy.learn(policy.choose(LINE), reward)

    decision = policy.choose(LINE)

    assert (decision.action, decision.mean) == (20, 0.8)
    policy.amend(kb.Decision(action=0, context=LINE[0]), was=0.0, now=0.9)
    assert policy.choose(LINE).action == 0


def test_one_action_is_tried_and_played():
    policy = kb.GridGP(Linear(), [[3.0]], horizon=100)

    assert len(policy.grid) == 1
    policy.learn(policy.choose([[3.0]]), -1e30)
    assert policy.choose([[3.0]]).mean == -1e30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of them is needed"),
        ({"n_points": 3, "horizon": 5}, "one of them is needed"),
        ({"n_points": 0}, "number of points must be a whole number"),
        ({"horizon": 1.5}, "horizon must be a whole number"),
        ({"horizon": 5, "smoothness": 0.0}, "smoothness must be a finite number above zero"),
        ({"horizon": 5, "smoothness": 2.5}, "at most 2, got 2.5"),
        ({"horizon": 5, "dimension": 0}, "dimension must be a whole number"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.GridGP(Linear(), LINE, **arguments)


def test_what_has_no_columns_needs_a_dimension():
    with pytest.raises(InvalidParameter, match="give dimension="):
        kb.GridGP(Spectrum(n=1), ["a", "b"], horizon=5)


def test_decisions_for_other_actions_are_rejected():
    policy = kb.GridGP(Linear(), LINE, n_points=3)
    foreign = kb.Decision(action=21, context=LINE[0], id="x")

    with pytest.raises(DecisionError, match="row of the 21"):
        policy.learn(foreign, 0.5)
    with pytest.raises(DecisionError, match="row of the 21"):
        policy.expect(foreign)
    policy.learn(policy.choose(LINE), 0.5)
    with pytest.raises(NotLearnt, match="No reward of action 4"):
        policy.unlearn(kb.Decision(action=4, context=LINE[4]), 0.5)


def test_rewards_that_add_up_to_too_much_are_rejected_and_leave_the_mean_alone():
    policy = kb.GridGP(Linear(), [[3.0]], n_points=1)
    decision = policy.choose([[3.0]])
    policy.learn(decision, 1.7e308)

    with pytest.raises(InvalidReward, match="more than a float64 holds"):
        policy.learn(kb.Decision(action=0, context=np.array([3.0]), id="again"), 1.7e308)

    assert policy.choose([[3.0]]).mean == 1.7e308
