from itertools import count

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import Delayed, DrawnRounds, Drifting, Round, SyntheticRKHS
from kernelbandits.environments.base import BatchWorld
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian
from kernelbandits.testing import EnvironmentContract

HALF = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=6, n_features=2)
FIXED = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=6, n_features=2, fixed_actions=True, action_seed=5)


class TestAbrupt(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return Drifting(HALF, HALF, change_at=10)


class TestGradual(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        coins = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=4, n_features=2, noise="bernoulli")
        return Drifting(coins, coins, change_at=5, gradual=12)


class TestOverFixedActions(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return Drifting(FIXED, FIXED, change_at=7, gradual=3)


class Steps:
    """A world whose n-th round has the context n, and which ends after a given number of rounds."""

    reward_range = (0.0, 2.0)

    def __init__(self, sign, n_rounds=None):
        self.sign, self.n_rounds = sign, n_rounds

    def start(self, rng):
        numbers = count(1) if self.n_rounds is None else range(1, self.n_rounds + 1)
        return DrawnRounds((Round(np.array([[self.sign * n]])), np.array([float(n)])) for n in numbers)

    def describe(self):
        return {"class": "Steps", "sign": self.sign}


class WithoutPeeking(Steps):
    """The same, without a look ahead."""

    reward_range = None

    def start(self, rng):
        drawn = super().start(rng)
        return type("World", (), {"observe": staticmethod(drawn.observe), "reward": staticmethod(drawn.reward)})()


def numbers(world, n_rounds):
    return [float(world.observe().contexts[0, 0]) for _ in range(n_rounds)]


def test_the_first_rounds_are_of_one_world_and_all_others_of_the_other():
    world = Drifting(Steps(1.0), Steps(-1.0), change_at=3).start(np.random.default_rng(0))

    assert numbers(world, 7) == [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, -4.0]
    assert world.reward(0) == 4.0


def test_a_change_before_the_first_round_is_the_other_world():
    world = Drifting(Steps(1.0), Steps(-1.0), change_at=0).start(np.random.default_rng(0))

    assert numbers(world, 3) == [-1.0, -2.0, -3.0]


def test_a_gradual_change_takes_more_and_more_rounds_from_the_other_world():
    n_runs, gradual = 800, 9
    environment = Drifting(Steps(1.0), Steps(-1.0), change_at=4, gradual=gradual)
    observed = np.array(
        [numbers(environment.start(np.random.default_rng(run)), 4 + gradual + 3) for run in range(n_runs)]
    )

    share = (observed < 0).mean(axis=0)

    expected = np.concatenate([np.zeros(4), np.arange(1, gradual + 1) / (gradual + 1), np.ones(3)])
    error = np.sqrt(expected * (1 - expected) / n_runs)
    assert (np.abs(share - expected) <= 5.0 * error + 1e-12).all()
    assert not (np.abs(share - expected[::-1]) <= 5.0 * error[::-1] + 1e-12).all()  # the check can fail
    # a world stands still while the other one is shown
    assert all((np.abs(run[run > 0]) == np.arange(1, (run > 0).sum() + 1)).all() for run in observed)
    assert all((np.abs(run[run < 0]) == np.arange(1, (run < 0).sum() + 1)).all() for run in observed)


@pytest.mark.parametrize("gradual", [0, 8])
def test_peeked_rounds_are_those_that_would_be_observed(gradual):
    environment = Drifting(HALF, FIXED, change_at=6, gradual=gradual)
    observed, peeked = (environment.start(np.random.default_rng(3)) for _ in range(2))

    ahead = [pair for n_rounds in (1, 4, 9, 10) for pair in peeked.peek_rounds(n_rounds)]

    for seen, rewards in ahead:
        again = observed.observe()
        np.testing.assert_array_equal(again.contexts, seen.contexts)
        assert [observed.reward(action) for action in range(6)] == rewards.tolist()
    assert peeked.reward(2) == ahead[-1][1][2]
    np.testing.assert_array_equal(observed.observe().contexts, peeked.observe().contexts)


def test_it_peeks_only_where_both_worlds_do():
    rng = np.random.default_rng(0)

    assert isinstance(Drifting(Steps(1.0), Steps(-1.0), change_at=3).start(rng), BatchWorld)
    for pair in ((WithoutPeeking(1.0), Steps(-1.0)), (Steps(1.0), WithoutPeeking(-1.0))):
        world = Drifting(*pair, change_at=3).start(rng)
        assert not isinstance(world, BatchWorld)
        assert numbers(world, 5) == [1.0, 2.0, 3.0, -1.0, -2.0]


def test_it_ends_when_the_world_ends_whose_turn_it_is():
    early = Drifting(Steps(1.0, 2), Steps(-1.0), change_at=4)
    late = Drifting(Steps(1.0), Steps(-1.0, 3), change_at=2)

    assert [pair[0].contexts[0, 0] for pair in early.start(np.random.default_rng(0)).peek_rounds(9)] == [1.0, 2.0]
    assert len(late.start(np.random.default_rng(0)).peek_rounds(9)) == 5
    world = early.start(np.random.default_rng(0))
    assert numbers(world, 2) == [1.0, 2.0]
    with pytest.raises(StopIteration):
        world.observe()


def test_the_reward_range_covers_both_worlds():
    coins = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=4, n_features=2, noise="bernoulli")

    assert Drifting(coins, Steps(1.0), change_at=3).reward_range == (0.0, 2.0)
    assert Drifting(coins, HALF, change_at=3).reward_range is None
    assert Drifting(HALF, coins, change_at=3).reward_range is None


@pytest.mark.parametrize("arguments", [{"change_at": -1}, {"change_at": 2.5}, {"change_at": 3, "gradual": -1}])
def test_impossible_times_are_rejected(arguments):
    with pytest.raises(InvalidParameter, match="whole number of at least 0"):
        Drifting(HALF, HALF, **arguments)


def test_the_same_actions_can_get_another_reward_function():
    world = Drifting(FIXED, FIXED, change_at=1).start(np.random.default_rng(1))

    first, second = world.observe(), world.observe()

    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert np.abs(first.expected - second.expected).max() > 0.1
    assert world.before.norm == pytest.approx(1.0)
    assert world.after.norm == pytest.approx(1.0)
    np.testing.assert_allclose(world.after.expected(second.contexts), second.expected)


def test_a_simulation_in_it_can_be_described_and_repeated():
    environment = Drifting(FIXED, FIXED, change_at=10, gradual=5)

    traces = [kb.simulate(environment, kb.KernelUCB(FIXED.kernel), horizon=30, seed=4) for _ in range(2)]

    np.testing.assert_array_equal(traces[0].action, traces[1].action)
    assert traces[0].spec["environment"]["before"] == FIXED.describe()


@pytest.mark.parametrize("late_first", [True, False])
def test_a_delay_inside_is_rejected_instead_of_dropped(late_first):
    late, prompt = Delayed(Steps(1.0), delay=3), Steps(-1.0)

    with pytest.raises(InvalidParameter, match=r"Delayed\(Drifting\(...\), delay=...\)"):
        Drifting(*((late, prompt) if late_first else (prompt, late)), change_at=4)
