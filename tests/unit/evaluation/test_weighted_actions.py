import numpy as np
from numpy.testing import assert_allclose

from kernelbandits.evaluation.stacking import gathered
from kernelbandits.evaluation.weighted_actions import WeightedActions
from kernelbandits.kernels import Spectrum


def some(weights, rng):
    rounds = [["a", "b", "c"], ["d"], ["e", "f"]]
    which = rng.integers(3, size=len(weights))
    actions = np.array([rng.integers(len(rounds[place])) for place in which])
    return WeightedActions(rounds, which, actions, weights)


def test_thinning_keeps_the_sum_and_nearly_every_share():
    rng = np.random.default_rng(0)
    many = some(rng.exponential(size=5_000), rng)

    few = many.thinned(400)

    assert len(few) == 400
    assert_allclose(few.weights.sum(), many.weights.sum())
    shares = [np.bincount(one.which, one.weights) / one.weights.sum() for one in (many, few)]
    assert_allclose(*shares, atol=0.06)


def test_few_actions_and_actions_of_no_weight_are_left_alone():
    rng = np.random.default_rng(1)
    many = some(rng.exponential(size=30), rng)

    assert many.thinned(30) is many
    assert 0.0 not in some(np.tile([0.0, 1.0], 50), rng).thinned(40).weights


def test_actions_are_gathered_in_the_order_given():
    rng = np.random.default_rng(2)
    many = some(np.ones(50), rng)

    points = gathered(Spectrum(n=1).kind, many.rounds, many.which, many.actions)

    assert points == [many.rounds[place][row] for place, row in zip(many.which, many.actions, strict=True)]
