"""The contract of environments notices what it is there for; here, where rounds are catalogues."""

import numpy as np
import pytest

from kernelbandits import Catalogue
from kernelbandits.environments import FixedCatalogue, Round
from kernelbandits.testing import EnvironmentContract


class Unsteady:
    """Another catalogue in every run, or another part of it, or another context, whatever the seed."""

    reward_range = None

    def __init__(self, make):
        self._make, self._n_runs = make, 0

    def start(self, rng):
        self._n_runs += 1
        values = np.zeros(2)
        world = FixedCatalogue(np.eye(2), values).start(rng)
        world._shown = Round(self._make(self._n_runs), expected=values)
        return world


BASE = Catalogue(np.eye(4), ids=list("abcd"))


@pytest.mark.parametrize(
    "make",
    [
        lambda run: Catalogue(run * np.eye(2)),
        lambda run: Catalogue(np.eye(2), ids=[run, -run]),
        lambda run: BASE.only(["a", "b" if run == 1 else "c"]),
        lambda run: BASE.only(["a", "b"]).given(np.array([run])),
    ],
)
def test_other_catalogues_under_the_same_seed_are_noticed(make):
    with pytest.raises(AssertionError):
        EnvironmentContract().test_the_same_seed_gives_the_same_world(Unsteady(make))


@pytest.mark.parametrize(
    "make", [lambda _: Catalogue(np.eye(2)), lambda _: BASE.only(["a", "b"]).given(np.array([2.5]))]
)
def test_equal_catalogues_pass(make):
    EnvironmentContract().test_the_same_seed_gives_the_same_world(Unsteady(make))
