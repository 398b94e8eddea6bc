"""The contract of environments notices what it is there for; here, where rounds are catalogs."""

import numpy as np
import pytest

from kernelbandits import Catalog
from kernelbandits.environments import DrawnRounds, FixedCatalog, Round
from kernelbandits.testing import EnvironmentContract


class Unsteady:
    """Another catalog in every run, or another part of it, or another context, whatever the seed."""

    reward_range = None

    def __init__(self, make):
        self._make, self._n_runs = make, 0

    def start(self, rng):
        self._n_runs += 1
        values = np.zeros(2)
        world = FixedCatalog(np.eye(2), values).start(rng)
        world._observed = Round(self._make(self._n_runs), expected=values)
        return world


BASE = Catalog(np.eye(4), ids=list("abcd"))


@pytest.mark.parametrize(
    "make",
    [
        lambda run: Catalog(run * np.eye(2)),
        lambda run: Catalog(np.eye(2), ids=[run, -run]),
        lambda run: BASE.only(["a", "b" if run == 1 else "c"]),
        lambda run: BASE.only(["a", "b"]).given(np.array([run])),
    ],
)
def test_other_catalogs_under_the_same_seed_are_noticed(make):
    with pytest.raises(AssertionError):
        EnvironmentContract().test_the_same_seed_gives_the_same_world(Unsteady(make))


@pytest.mark.parametrize("make", [lambda _: Catalog(np.eye(2)), lambda _: BASE.only(["a", "b"]).given(np.array([2.5]))])
def test_equal_catalogs_pass(make):
    EnvironmentContract().test_the_same_seed_gives_the_same_world(Unsteady(make))


class Peeking:
    """A world whose foresight can be wrong: it tells other rewards, or does not count what it foresaw as shown."""

    reward_range = None

    def __init__(self, fault):
        self._fault = fault

    def start(self, rng):
        world = DrawnRounds((Round(np.eye(2)), rng.random(2)) for _ in range(30))
        if self._fault == "other rewards":
            peek_rounds = world.peek_rounds
            world.peek_rounds = lambda n_rounds: [(observed, paid + 1.0) for observed, paid in peek_rounds(n_rounds)]
        if self._fault == "not shown":
            again = DrawnRounds((Round(np.eye(2)), rng.random(2)) for _ in range(30))
            world.peek_rounds = again.peek_rounds
        return world


@pytest.mark.parametrize("fault", ["other rewards", "not shown"])
def test_a_wrong_look_ahead_is_noticed(fault):
    with pytest.raises((AssertionError, ValueError)):
        EnvironmentContract().test_peeked_rounds_are_those_that_would_be_observed(Peeking(fault))


def test_a_right_look_ahead_passes():
    EnvironmentContract().test_peeked_rounds_are_those_that_would_be_observed(Peeking(None))
