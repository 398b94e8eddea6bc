from math import log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotLearnt
from kernelbandits.kernels import Delta

NAMES = ["red", "green", "blue", 4]


class RootOfTwoLogarithms:
    """sqrt(2 ln t)."""

    def __call__(self, situation):
        return sqrt(2 * log(situation.round_index))

    def describe(self):
        return {"class": "RootOfTwoLogarithms"}


def agreements_with_kernel_ucb(schedule, seed):
    """How often UCB1 and KernelUCB with the delta kernel and γ = 1e-6 choose alike, after one pull each."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.2, 0.8, size=6)
    index, kernel = kb.UCB1(exploration="theory"), kb.KernelUCB(Delta(), regularization=1e-6, exploration=schedule)
    alike = []
    for round_index in range(400):
        offered = [round_index] if round_index < 6 else list(range(6))
        left, right = index.choose(offered, ids=offered), kernel.choose(offered)
        alike.append(left.item == right.context)
        reward = float(values[left.item] + rng.uniform(-0.2, 0.2))
        index.learn(left, reward)
        kernel.learn(right if alike[-1] else kernel.choose([left.item]), reward)
    return np.mean(alike)


@pytest.mark.parametrize("seed", range(4))
def test_ucb1_is_kernel_ucb_with_the_delta_kernel(seed):
    """Oracle 6."""
    assert agreements_with_kernel_ucb(RootOfTwoLogarithms(), seed) == 1.0


def test_kernel_ucb_with_another_exploration_is_not_ucb1():
    assert agreements_with_kernel_ucb(0.5, 0) < 0.95


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-3.0, 5.0), (1e6, 1e6 + 2.0), (-1e-9, 1e-9)])
def test_the_choice_is_the_definition(reward_range):
    low, high = reward_range
    policy, rng = kb.UCB1(exploration=0.3, reward_range=reward_range), np.random.default_rng(1)
    seen = {name: [] for name in NAMES}
    for t in range(1, 200):
        decision = policy.choose(NAMES, ids=NAMES)

        bare = [name for name in NAMES if not seen[name]]
        if bare:
            assert decision.item == bare[0]
            assert np.isnan([decision.mean, decision.width, decision.score]).all()
        else:
            factor = 0.3 * (high - low)
            scores = [np.mean(seen[name]) + factor * sqrt(2 * log(t) / len(seen[name])) for name in NAMES]
            assert decision.action == int(np.argmax(scores))
            assert decision.score == pytest.approx(max(scores), abs=1e-8 * (high - low))
            assert decision.mean == pytest.approx(np.mean(seen[decision.item]), abs=1e-8 * (high - low))
        reward = float(low + (high - low) * rng.uniform())
        policy.learn(decision, reward)
        seen[decision.item].append(reward)


def test_an_action_that_appears_late_is_played_first():
    policy = kb.UCB1(exploration="theory")
    for _ in range(10):
        policy.learn(policy.choose(["a", "b"], ids=["a", "b"]), 1.0)

    assert policy.choose(["a", "b", "z", "c"], ids=["a", "b", "z", "c"]).item == "z"


def test_contexts_are_not_looked_at():
    rows, texts, rng = kb.UCB1(exploration="theory"), kb.UCB1(exploration="theory"), np.random.default_rng(2)
    for _ in range(60):
        left = rows.choose(rng.normal(size=(3, 5)) * 1e100)
        right = texts.choose(["same"] * 3)
        assert left.action == right.action
        reward = float(rng.uniform())
        rows.learn(left, reward)
        texts.learn(right, reward)


def test_a_catalog_gives_its_ids_with_and_without_a_context():
    catalog = kb.Catalog(["x", "y", "z"], ids=["first", "second", "third"])
    policy = kb.UCB1(exploration="theory")

    policy.learn(policy.choose(catalog), 0.4)

    assert policy.choose(catalog.given([0.5, 1.0])).item == "second"
    assert policy.choose(catalog.only(["first"])).mean == 0.4


def test_pending_plays_count_in_the_width_and_not_in_the_mean():
    policy = kb.UCB1(exploration="theory")
    for reward in (0.6, 0.6):
        policy.learn(policy.choose(["a", "b"]), reward)

    pending = policy.choose(["a", "b"])
    policy.expect(pending)
    after = policy.choose(["a", "b"])

    assert (pending.action, after.action) == (0, 1)
    assert policy.choose(["a"]).mean == pytest.approx(0.6)
    assert policy.choose(["a"]).score == pytest.approx(0.6 + sqrt(2 * log(4) / 2))
    policy.withdraw(pending)
    assert policy.choose(["a", "b"]).action == 0


def test_first_rewards_are_pending_in_turn():
    policy, chosen = kb.UCB1(exploration="theory"), []
    for _ in range(7):
        decision = policy.choose(["a", "b", "c"])
        policy.expect(decision)
        chosen.append(decision.action)

    assert chosen == [0, 1, 2, 0, 1, 2, 0]


def test_history_counts_as_plays():
    policy = kb.UCB1(exploration="theory")
    policy.warm_start(["a", "b"], [0.2, 0.6], times=[3, 5], ids=["a", "b"])

    decision = policy.choose(["b"], ids=["b"])

    assert decision.round_index == 1
    assert decision.mean == pytest.approx(0.6)
    assert decision.score == pytest.approx(0.6 + sqrt(2 * log(9) / 5))


def test_a_single_action_is_always_chosen():
    policy = kb.UCB1(exploration="theory")
    for _ in range(5):
        decision = policy.choose([[0.0]])
        policy.learn(decision, 0.0)
        assert decision.action == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exploration": 0.0}, "exploration must be a finite number above zero"),
        ({"exploration": np.nan}, "exploration must be a finite number above zero"),
        ({"reward_range": None}, "must be declared, got reward_range=None"),
        ({"reward_range": (1.0, 0.0)}, "two finite numbers"),
        ({"ties": "highest"}, "'lowest' row or to one at 'random'"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.UCB1(**arguments)


def test_what_does_not_fit_is_rejected_and_leaves_no_trace():
    policy = kb.UCB1(exploration="theory")
    policy.learn(policy.choose(["a", "b"], ids=["a", "b"]), 0.5)

    with pytest.raises(InvalidContexts, match="one id per action"):
        policy.choose(["a", "b"], ids=["a"])
    with pytest.raises(InvalidContexts, match="An id is an integer or a string"):
        policy.learn(kb.Decision(action=0, context="a"), 0.5)
    with pytest.raises(InvalidParameter, match="one per context"):
        policy.warm_start(["a", "b"], [0.5, 0.5], times=[1, 2, 3])
    with pytest.raises(InvalidParameter, match="`times` must be whole numbers from 1"):
        policy.warm_start(["a", "b"], [0.5, 0.5], times=[1, 0])
    with pytest.raises(NotLearnt, match="No reward of action 'z'"):
        policy.unlearn(kb.Decision(action=0, context="z", item="z"), 0.5)

    assert policy.round_index == 2
    assert policy.choose(["b", "a"], ids=["b", "a"]).item == "b"


@pytest.mark.long
def test_regret_grows_like_a_logarithm():
    """The bound of Theorem 1: 8 Σ ln T / gap + (1 + π²/3) Σ gap, and far below that of playing at random."""
    means, horizon = np.array([0.3, 0.5, 0.4, 0.75]), 20_000
    gaps = means.max() - means
    regret = []
    for seed in range(5):
        policy, rng = kb.UCB1(exploration="theory"), np.random.default_rng(seed)
        plays = policy.play([list(range(4))] * horizon, (rng.uniform(size=(horizon, 4)) < means).astype(float))
        regret.append(gaps[plays.action].sum())

    bound = sum(8 * log(horizon) / gap + (1 + np.pi**2 / 3) * gap for gap in gaps if gap)
    assert np.mean(regret) < bound < 0.2 * horizon * gaps.mean()


def test_an_action_whose_first_reward_is_late_does_not_hold_up_the_others():
    policy = kb.UCB1(exploration="theory")
    late = policy.choose(["a", "b", "c"])
    policy.expect(late)
    for _ in range(2):
        policy.learn(policy.choose(["a", "b", "c"]), 0.5)

    following = []
    for _ in range(12):
        decision = policy.choose(["a", "b", "c"])
        following.append(decision.action)
        policy.learn(decision, 0.5)

    assert late.action == 0
    assert set(following) == {1, 2}
    policy.learn(late, 1.0)
    assert policy.choose(["a", "b", "c"]).action == 0
