from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from benchmarks.workloads import (
    GAUSSIAN,
    LINEAR,
    REGIMES,
    FixedSet,
    FreshContexts,
    KernelSpec,
    Plane,
    chessboard,
    similarity,
    step_diagonal,
)
from numpy.testing import assert_allclose, assert_array_equal

from definitions import JointPosterior
from kernelbandits.kernels import Gaussian, Linear

WORLDS = [FixedSet(50), FreshContexts(7), FreshContexts(7, LINEAR), Plane("chessboard"), Plane("step-diagonal")]


def test_similarities_are_those_of_the_library():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))

    assert_allclose(
        similarity(KernelSpec("gaussian", 0.7), first, second), Gaussian(length_scale=0.7).gram(first, second)
    )
    assert_allclose(similarity(LINEAR, first, second), Linear().gram(first, second))


def test_regimes_are_the_published_ones():
    assert REGIMES == {"A": (0.1, 0.2), "B": (1.0, 0.5), "C": (1.0, 1.0), "D": (0.1, 1.0)}


def test_fixed_set_is_drawn_in_the_stated_order():
    rng = np.random.default_rng(0)
    contexts = rng.uniform(size=(50, 10))
    centers, weights = rng.uniform(size=(30, 10)), rng.standard_normal(30)
    values = Gaussian(length_scale=0.5).gram(contexts, centers) @ weights
    noise = 0.1 * np.random.default_rng(1).standard_normal(3)

    rounds = list(islice(FixedSet(50).rounds(), 3))

    assert_array_equal(rounds[0].contexts, contexts)
    scaled = (values - values.min()) / np.ptp(values)
    assert_allclose([observed.reward(4) for observed in rounds], scaled[4] + noise)
    assert_allclose(rounds[2].rewards(), scaled + noise[2])


def test_fixed_set_is_the_same_array_in_every_round():
    first, second = islice(FixedSet(50).rounds(), 2)

    assert first.contexts is second.contexts


@pytest.mark.parametrize("kernel", [GAUSSIAN, LINEAR])
def test_fresh_contexts_are_scaled_over_twenty_thousand_points(kernel):
    rng = np.random.default_rng(0)
    centers, weights = rng.uniform(size=(30, 10)), rng.standard_normal(30)
    values = similarity(kernel, rng.uniform(size=(20_000, 10)), centers) @ weights
    contexts = rng.uniform(size=(7, 10))

    observed = next(FreshContexts(7, kernel).rounds())

    assert_array_equal(observed.contexts, contexts)
    expected = (similarity(kernel, contexts, centers) @ weights - values.min()) / np.ptp(values)
    assert_allclose(observed.expected(slice(None)), expected)


@pytest.mark.parametrize("world", WORLDS, ids=repr)
def test_rounds_start_again_identically(world):
    first, second = (list(islice(world.rounds(), 3)) for _ in range(2))

    for one, other in zip(first, second, strict=True):
        assert one.contexts.shape == (world.n_actions, world.n_features)
        assert_array_equal(one.contexts, other.contexts)
        assert_array_equal(one.rewards(), other.rewards())


def test_distinct_actions_are_as_many_as_published():
    """Regime B, N = 1,000: 35 distinct actions in 500 rounds, by an independent form of the posterior."""
    rounds = list(islice(FixedSet(1000).rounds(), 500))
    regime = REGIMES["B"]
    posterior = JointPosterior(similarity(GAUSSIAN, rounds[0].contexts, rounds[0].contexts), regime.regularization)
    chosen = []

    for observed in rounds:
        chosen.append(int(np.argmax(posterior.mean + regime.exploration * posterior.width)))
        posterior.pull(chosen[-1], observed.reward(chosen[-1]))

    assert len(set(chosen)) == 35


def test_actions_of_the_plane_are_the_published_ten():
    observed = next(Plane("chessboard").rounds())

    assert_allclose(observed.contexts[:, 1], [0.08, 0.70, 0.82, 0.28, 0.63, 0.00, 0.05, 0.50, 0.81, 0.04])
    assert len(set(observed.contexts[:, 0])) == 1


@pytest.mark.parametrize(
    ("x", "a", "value"),
    [
        (0.3, 0.1, 1.0),
        (0.25, 0.5, 1.0),
        (1.0, 0.6, 1.0),
        (0.1, 0.3, 0.5),
        (0.5, 0.25, 0.5),
        (0.6, 1.0, 0.5),
        (0.1, 0.1, 0.0),
    ],
)
def test_chessboard(x, a, value):
    assert chessboard(x, a) == value


@pytest.mark.parametrize(("x", "a", "value"), [(0.5, 0.3, 1.0), (0.2, 0.3, 0.5), (0.3, 0.3, 0.0), (0.9, 0.1, 0.0)])
def test_step_diagonal(x, a, value):
    assert step_diagonal(x, a) == value


def test_attainable_rewards_of_the_plane():
    """½, 1, ½, 1 by the quarter of the context on the chessboard; on the diagonal 1 for 93 % of contexts, else ½."""
    actions = next(Plane("chessboard").rounds()).contexts[:, 1]
    grid = np.linspace(0.0, 1.0, 4001)

    best = {value: np.mean([max(value(x, a) for a in actions) for x in grid]) for value in (chessboard, step_diagonal)}

    assert_allclose(best[chessboard], 0.750, atol=1e-3)
    assert_allclose(best[step_diagonal], 0.93 + 0.07 / 2, atol=1e-3)
