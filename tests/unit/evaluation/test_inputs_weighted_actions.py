from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.evaluation._inputs import WeightedActions, gathered, parts
from kernelbandits.kernels import Spectrum


def some(weights, rng):
    rounds = [["a", "b", "c"], ["d"], ["e", "f"]]
    which = rng.integers(3, size=len(weights))
    actions = np.array([rng.integers(len(rounds[place])) for place in which])
    return WeightedActions(rounds, which, actions, weights)


def taken(many, most):
    """Places of the actions that stand for all."""
    return replace(many, which=np.arange(len(many))).thinned(most).which


def test_thinning_keeps_the_sum_and_nearly_every_share():
    rng = np.random.default_rng(0)
    many = some(rng.exponential(size=5_000), rng)

    few = many.thinned(400)

    assert len(few) == 400
    assert_allclose(few.weights.sum(), many.weights.sum())
    shares = [np.bincount(one.which, one.weights) / one.weights.sum() for one in (many, few)]
    assert_allclose(*shares, atol=0.06)


@pytest.mark.parametrize("n_actions", [2, 3, 4, 5])
def test_every_row_of_equal_sets_keeps_its_share(n_actions):
    """Steps of the size of a set would meet one row only."""
    n_rounds = 400
    which, actions = np.repeat(np.arange(n_rounds), n_actions), np.tile(np.arange(n_actions), n_rounds)
    many = WeightedActions([["a"] * n_actions] * n_rounds, which, actions, np.full(len(which), 0.1))

    few = many.thinned(n_rounds)

    shares = np.bincount(few.actions, few.weights, minlength=n_actions) / many.weights.sum()
    assert_allclose(shares, 1 / n_actions, atol=4 * np.sqrt(0.25 / n_rounds))


def test_few_actions_and_actions_of_no_weight_are_left_alone():
    rng = np.random.default_rng(1)
    many = some(rng.exponential(size=30), rng)

    assert many.thinned(30) is many
    without = some(np.tile([0.0, 1.0, 0.0], 50), rng)
    assert set(np.flatnonzero(without.weights)) >= set(taken(without, 40))


@pytest.mark.parametrize("points_at_once", [1, 4, 65_536])
def test_actions_are_gathered_in_the_order_given(points_at_once):
    rng = np.random.default_rng(2)
    many = some(np.ones(50), rng)

    points = gathered(Spectrum(n=1).kind, many.rounds, many.which, many.actions, points_at_once=points_at_once)

    assert points == [many.rounds[place][row] for place, row in zip(many.which, many.actions, strict=True)]


def test_rounds_are_split_into_blocks_of_about_as_many_points():
    found = list(parts(np.array([3, 1, 4, 1, 5]), points_at_once=4))

    assert found == [slice(0, 1), slice(1, 2), slice(2, 4), slice(4, 5)]
