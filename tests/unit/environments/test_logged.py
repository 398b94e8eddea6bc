import json
from math import isnan

import numpy as np
import pytest

from kernelbandits.environments import Log, Logged
from kernelbandits.environments.base import BatchWorld
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB
from kernelbandits.selection import Catalog
from kernelbandits.testing import EnvironmentContract
from kernelbandits.types import Pairs


def make_log(*, n_rounds=30, seed=1, **changed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, size=n_rounds)
    columns = {
        "rounds": [rng.random((size, 3)) for size in sizes],
        "actions": [int(rng.integers(size)) for size in sizes],
        "propensities": 1.0 / sizes,
        "rewards": rng.random(n_rounds),
        "ids": [[f"item {row}" for row in range(size)] for size in sizes],
    }
    return Log(**{**columns, **changed})


def make_log_of_parts(n_rounds=40):
    """Each round shows three of nine items, and the reward tells which item was shown."""
    rng, catalog = np.random.default_rng(2), Catalog(np.random.default_rng(3).random((9, 2)))
    parts = [catalog.only(rng.choice(9, size=3, replace=False).tolist()) for _ in range(n_rounds)]
    places = rng.integers(3, size=n_rounds)
    paid = [float(part.rows[place]) for part, place in zip(parts, places, strict=True)]
    return Log(parts, places, np.full(n_rounds, 1 / 3), paid)


class TestLogged(EnvironmentContract):
    pays_unknown = True

    @pytest.fixture(params=[None, (0.0, 1.0)])
    def environment(self, request):
        return Logged(make_log(), reward_range=request.param)


class TestLoggedPartsOfACatalog(EnvironmentContract):
    pays_unknown = True

    @pytest.fixture
    def environment(self):
        return Logged(make_log_of_parts())


class TestLoggedWithoutAnyUnknown(EnvironmentContract):
    """A log of rounds with one action each: the whole contract holds."""

    @pytest.fixture
    def environment(self):
        return Logged(Log([[[0.5]], [[1.5]]], actions=[0, 0], propensities=[1.0, 1.0], rewards=[0.25, 4.0]))


def test_it_shows_the_rounds_in_order_and_pays_what_was_logged():
    log = make_log()
    world = Logged(log).start(np.random.default_rng(0))

    for t in range(len(log)):
        observed = world.observe()
        paid = [world.reward(action) for action in range(log.n_actions[t])]
        assert observed.contexts is log.rounds[t]
        assert (observed.ids, observed.expected) == (log.ids[t], None)
        assert paid[log.actions[t]] == log.rewards[t]
        assert sum(isnan(reward) for reward in paid) == log.n_actions[t] - 1
    with pytest.raises(StopIteration):
        world.observe()


def test_what_is_not_known_cannot_be_peeked():
    assert not isinstance(Logged(make_log()).start(np.random.default_rng(0)), BatchWorld)


def test_the_description_tells_logs_apart_by_everything_they_hold():
    log = make_log()
    others = [
        make_log(rounds=[points + 1e-9 for points in log.rounds]),
        make_log(rewards=log.rewards * 0.5),
        make_log(propensities=log.propensities * 0.5),
        make_log(actions=[0] * len(log)),
        make_log(ids=[[*names[:-1], "other"] for names in log.ids]),
        log[:-1],
    ]

    assert Logged(make_log()).describe() == Logged(log).describe()
    described = [json.dumps(Logged(other).describe()) for other in (log, *others)]
    assert len(set(described)) == 1 + len(others)


def test_rounds_of_any_kind_can_be_described():
    catalog, same, other = Catalog(np.eye(3)), Catalog(np.eye(3)), Catalog(np.eye(3) * 2.0)
    rounds = [["a", "b"], Pairs([0.5], ["a", "b"]), catalog, catalog.only([0, 2]), catalog.given([0.5])]

    def described(points):
        return Logged(Log([points], actions=[0], propensities=[1.0], rewards=[1.0])).describe()["log"]["sha256"]

    assert len({described(points) for points in rounds}) == len(rounds)
    assert described(catalog) == described(same) != described(other)


def test_objects_of_ones_own_are_identified_by_their_repr():
    class Thing:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return f"Thing({self.name})"

    def described(*names):
        return Logged(Log([[Thing(name) for name in names]], [0], [0.5], [1.0])).describe()

    assert described("a", "b") == described("a", "b") != described("a", "c")


def test_a_part_of_a_catalog_pays_for_the_item_that_was_shown():
    trace = simulate(Logged(make_log_of_parts()), KernelUCB(Gaussian(length_scale=0.5)), horizon=40, seed=0)

    is_known = ~np.isnan(trace.reward)
    assert 3 < is_known.sum() < 40
    np.testing.assert_array_equal(trace.reward[is_known], trace.action[is_known])


def test_a_reward_beyond_the_range_is_rejected():
    with pytest.raises(InvalidParameter, match=r"must lie in the reward range \(0.0, 0.5\)"):
        Logged(make_log(), reward_range=(0.0, 0.5))


def test_the_contract_rejects_a_reward_that_is_not_known_unless_specified():
    with pytest.raises(AssertionError):
        EnvironmentContract().test_rewards_are_finite_and_in_range(Logged(make_log()))

    TestLogged().test_rewards_are_finite_and_in_range(Logged(make_log()))


@pytest.mark.parametrize("reward_range", ["ab", (0.0, 1.0, 2.0), (1.0, 0.0), 3.0])
def test_a_range_that_is_none_is_rejected(reward_range):
    with pytest.raises(InvalidParameter, match="reward range is two finite numbers a finite length apart"):
        Logged(make_log(), reward_range=reward_range)


def test_anything_but_a_log_is_rejected():
    with pytest.raises(InvalidParameter, match="built from a Log, got list"):
        Logged([1.0])
