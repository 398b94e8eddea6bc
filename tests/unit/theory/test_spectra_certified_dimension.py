import numpy as np
import pytest

from kernelbandits.kernels import Delta, Gaussian, Linear, Matern
from kernelbandits.theory import effective_dimension
from kernelbandits.theory.spectra import certified_dimension


@pytest.mark.parametrize("regularization", [1e-3, 0.3, 40.0])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(length_scale=0.2), Matern(length_scale=3.0, smoothness=1.5)])
def test_it_is_the_effective_dimension_of_all_repeats(kernel, regularization):
    rng = np.random.default_rng(7)
    points, counts = rng.standard_normal((60, 3)), rng.integers(1, 9, 60)

    found = certified_dimension(
        kernel, points, counts.astype(float), regularization=regularization, horizon=300, most=60
    )

    written_out = kernel.gram(np.repeat(points, counts, axis=0))
    assert found == effective_dimension(written_out, regularization=regularization, horizon=300)


@pytest.mark.parametrize("most", range(1, 60, 3))
def test_what_few_directions_leave_open_is_not_answered(most):
    kernel, points = Gaussian(length_scale=0.4), np.random.default_rng(7).standard_normal((60, 3))
    truth = effective_dimension(kernel.gram(points), regularization=0.05, horizon=60)

    found = certified_dimension(kernel, points, np.ones(60), regularization=0.05, horizon=60, most=most)

    assert found == truth if most >= 55 else found in (None, truth)
    assert found is None or most >= truth


def test_directions_that_are_too_few_settle_nothing():
    points = [f"item {row}" for row in range(50)]  # all of them equally important

    found = certified_dimension(
        Delta(), Delta().kind.check(points), np.ones(50), regularization=0.01, horizon=50, most=10
    )

    assert found is None


def test_points_without_any_similarity_have_one_direction():
    assert certified_dimension(Linear(), np.zeros((5, 2)), np.ones(5), regularization=1.0, horizon=9, most=3) == 1
