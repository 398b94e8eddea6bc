import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels.similarity_table import bounded_least_squares

RNG = np.random.default_rng(0)
DESIGN = RNG.normal(size=(12, 5)) * [10.0, 3.0, 1.0, 0.3, 0.1]
TARGETS = RNG.normal(size=(7, 12))


def best_within(target, bound):
    """The exact answer: ridge regression with the multiplier found by bisection."""
    left, values, right = np.linalg.svd(DESIGN, full_matrices=False)
    along = left.T @ target
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        solution = values / (values**2 + middle) * along
        low, high = (middle, high) if solution @ solution > bound else (low, middle)
    return right.T @ solution


def test_a_generous_bound_gives_plain_least_squares():
    solution = bounded_least_squares(TARGETS, DESIGN, np.full(7, 1e9))

    expected, *_ = np.linalg.lstsq(DESIGN, TARGETS.T, rcond=None)
    assert_allclose(solution, expected.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_the_bound_is_met_and_the_answer_nearly_the_best(share):
    free, *_ = np.linalg.lstsq(DESIGN, TARGETS.T, rcond=None)
    bounds = share * (free**2).sum(axis=0)

    solution = bounded_least_squares(TARGETS, DESIGN, bounds)

    lengths = (solution**2).sum(axis=1)
    missed = ((solution @ DESIGN.T - TARGETS) ** 2).sum(axis=1)
    best = np.array([best_within(target, bound) for target, bound in zip(TARGETS, bounds, strict=True)])
    least = ((best @ DESIGN.T - TARGETS) ** 2).sum(axis=1)
    assert_allclose(lengths, bounds, rtol=1e-9)
    assert (missed <= 1.1 * least).all()


def test_each_row_has_its_own_bound():
    bounds = np.array([0.0, 1e9])

    solution = bounded_least_squares(TARGETS[:2], DESIGN, bounds)

    assert_allclose(solution[0], np.zeros(5))
    assert_allclose(solution[1], bounded_least_squares(TARGETS[1:2], DESIGN, bounds[1:])[0])


def test_nothing_to_reach_or_nothing_to_reach_it_with():
    assert_allclose(bounded_least_squares(np.zeros((2, 12)), DESIGN, np.ones(2)), np.zeros((2, 5)))
    assert bounded_least_squares(TARGETS, np.zeros((12, 0)), np.ones(7)).shape == (7, 0)
