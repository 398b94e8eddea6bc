import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments import Clustered, Delayed, SyntheticRKHS
from kernelbandits.environments.base import BatchWorld, WorldWithDelays
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.kernels import Gaussian
from kernelbandits.testing import EnvironmentContract

GROUPS = Clustered(n_actions=4)


def one_or_nine(rng):
    return 1 + 8 * int(rng.integers(2))


class TestDelayed(EnvironmentContract):
    @pytest.fixture(params=[0, 3, (1, 4), one_or_nine], ids=["none", "always 3", "1 to 4", "1 or 9"])
    def environment(self, request):
        return Delayed(GROUPS, delay=request.param)


@pytest.mark.parametrize("inner", [GROUPS, SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=4, n_features=2)])
def test_the_other_world_is_the_one_it_would_be_alone(inner):
    alone = inner.start(np.random.default_rng(5))
    late = Delayed(inner, delay=(0, 9)).start(np.random.default_rng(5))

    for _ in range(20):
        assert_array_equal(alone.observe().contexts, late.observe().contexts)
        assert [alone.reward(a) for a in range(4)] == [late.reward(a) for a in range(4)]


@pytest.mark.parametrize(
    ("delay", "possible"), [(3, {3}), ((1, 4), {1, 2, 3, 4}), ([2, 2], {2}), (one_or_nine, {1, 9})]
)
def test_delays_are_those_requested_and_the_same_again(delay, possible):
    def delays(seed):
        world = Delayed(GROUPS, delay=delay).start(np.random.default_rng(seed))
        return [world.delay() for _ in range(60) if world.observe() is not None]

    assert set(delays(1)) == possible
    assert delays(1) == delays(1)
    assert len(possible) == 1 or delays(1) != delays(2)


def test_a_late_world_says_so_and_has_no_look_ahead():
    world = Delayed(GROUPS, delay=2).start(np.random.default_rng(1))

    assert isinstance(world, WorldWithDelays)
    assert not isinstance(world, BatchWorld)
    assert not isinstance(GROUPS.start(np.random.default_rng(1)), WorldWithDelays)
    with pytest.raises(DecisionError, match=r"Call observe\(\) first"):
        world.delay()


def test_a_function_that_gives_no_delay_is_rejected_in_the_round_that_shows_it():
    world = Delayed(GROUPS, delay=lambda _: -1).start(np.random.default_rng(1))

    with pytest.raises(InvalidParameter, match="A delay must be a whole number of at least 0, got -1"):
        world.observe()


@pytest.mark.parametrize(
    ("delay", "says"),
    [(-1, "A delay"), (1.5, "A delay"), ((1, 2, 3), "two numbers"), ((4, 1), "lower end first"), ((-1, 2), "An end")],
)
def test_bad_delays_are_rejected(delay, says):
    with pytest.raises(InvalidParameter, match=says):
        Delayed(GROUPS, delay=delay)


def test_a_late_world_is_not_delayed_again():
    with pytest.raises(InvalidParameter, match="delayed already"):
        Delayed(Delayed(GROUPS, delay=1), delay=2)


def test_a_function_is_described_by_its_name():
    assert Delayed(GROUPS, delay=one_or_nine).describe()["delay"].endswith("one_or_nine")
