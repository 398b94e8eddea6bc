import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.kernels.stationary import feature_distances


def test_of_the_linear_kernel_it_is_the_distance_of_rows():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))

    expected = np.linalg.norm(first[:, None] - second, axis=2)

    assert_allclose(feature_distances(Linear(), first, second), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "points"),
    [(Gaussian(length_scale=0.5), np.random.default_rng(1).normal(size=(9, 2))), (Spectrum(n=2), ["ab", "abab", "b"])],
)
def test_it_is_a_metric(kernel, points):
    apart = feature_distances(kernel, points, points)

    assert_allclose(np.diag(apart), 0.0, atol=1e-7)
    assert_allclose(apart, apart.T, atol=1e-12)
    assert (apart[:, None, :] <= apart[:, :, None] + apart[None] + 1e-7).all()


def test_a_function_of_norm_b_changes_by_at_most_b_times_the_distance():
    rng, kernel = np.random.default_rng(2), Gaussian(length_scale=0.4)
    points, weights = rng.uniform(size=(30, 2)), rng.normal(size=30)
    gram = kernel.gram(points)
    values, norm = gram @ weights, np.sqrt(weights @ gram @ weights)

    change = np.abs(values[:, None] - values)

    assert (change <= norm * feature_distances(kernel, points, points) + 1e-6).all()
    assert (change > 0.02 * norm * feature_distances(kernel, points, points)).any()
