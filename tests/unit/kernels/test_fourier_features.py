import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import Gaussian, Laplacian, Linear, Matern, random_features
from kernelbandits.kernels.fourier_features import has_random_features

KERNELS = [
    Gaussian(length_scale=0.7),
    Gaussian(length_scale=[0.3, 1.4, 5.0]),
    3.0 * Gaussian(length_scale=0.7),
    0.5 * (2.5 * Matern(smoothness=1.5, length_scale=[0.3, 1.4, 5.0])),
    *(Matern(smoothness=smoothness, length_scale=0.9) for smoothness in (0.5, 1.5, 2.5)),
]


def points(n_points=7):
    rng = np.random.default_rng(3)
    return np.vstack([rng.normal(size=(n_points, 3)), np.zeros((2, 3)), [[40.0, -3.0, 2.0]]])


def worst_in_standard_errors(kernel, drawn_for, n_features=40_000):
    """Largest error of the estimated Gram matrix: waves are independent, so their spread says its standard error."""
    features = random_features(drawn_for, 3, n_features, seed=11)
    half = features.n_features // 2
    rows = points()
    values = features.features(rows) * np.sqrt(half)
    waves = np.einsum("nw,mw->nmw", values[:, :half], values[:, :half])
    waves += np.einsum("nw,mw->nmw", values[:, half:], values[:, half:])
    error = np.abs(waves.mean(axis=2) - kernel.gram(rows))
    return (error / (waves.std(axis=2) / np.sqrt(half) + 1e-9)).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_expectation_of_the_features_is_the_kernel(kernel):
    assert worst_in_standard_errors(kernel, kernel) < 5.0


@pytest.mark.parametrize(
    ("kernel", "drawn_for"),
    [
        (Gaussian(length_scale=0.7), Gaussian(length_scale=0.75)),
        (Matern(smoothness=0.5, length_scale=0.9), Matern(smoothness=1.5, length_scale=0.9)),
        (Gaussian(length_scale=[0.3, 1.4, 5.0]), Gaussian(length_scale=[1.4, 0.3, 5.0])),
        (Gaussian(length_scale=0.7), 1.01 * Gaussian(length_scale=0.7)),
    ],
    ids=repr,
)
def test_features_of_another_kernel_are_noticed(kernel, drawn_for):
    assert worst_in_standard_errors(kernel, drawn_for) > 10.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_diagonal_is_met_exactly_and_the_error_is_within_its_bound(kernel):
    gram = kernel.gram(points())
    drawn = [random_features(kernel, 3, 400, seed).features(points()) for seed in range(300)]

    errors = np.array([features @ features.T - gram for features in drawn]) / gram[0, 0]

    np.testing.assert_allclose(np.einsum("snn->sn", errors), 0.0, atol=1e-12)
    assert (errors**2).mean() < 1.0 / 400


def test_equal_seeds_give_equal_features():
    first, second, other = (
        random_features(Matern(smoothness=2.5, length_scale=0.4), 2, 10, seed).features(np.eye(2)) for seed in (5, 5, 6)
    )

    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)


def test_sparse_rows_have_the_same_features():
    features = random_features(Gaussian(length_scale=0.7), 3, 10, seed=1)

    np.testing.assert_allclose(features.features(csr_array(points())), features.features(points()))


def test_features_describe_themselves():
    features = random_features(2.0 * Gaussian(length_scale=0.7), 3, 10, seed=1)

    assert features.describe()["kernel"] == (2.0 * Gaussian(length_scale=0.7)).describe()
    assert (features.describe()["n_columns"], features.describe()["n_features"]) == (3, 10)


@pytest.mark.parametrize("kernel", [Linear(), Laplacian(length_scale=1.0), Gaussian(length_scale=1.0) + 1.0], ids=repr)
def test_other_kernels_are_refused(kernel):
    assert not has_random_features(kernel)
    with pytest.raises(NotSupported, match="Random features are drawn for Gaussian, Matern"):
        random_features(kernel, 3, 10)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidParameter, match="even, got 9"):
        random_features(Gaussian(length_scale=1.0), 3, 9)
    with pytest.raises(InvalidParameter, match="number of columns"):
        random_features(Gaussian(length_scale=1.0), 0, 10)
    with pytest.raises(InvalidContexts, match="2 length scales for 3 columns"):
        random_features(Gaussian(length_scale=[1.0, 2.0]), 3, 10)
    with pytest.raises(InvalidContexts, match="drawn for 3 columns, and the points have 2"):
        random_features(Gaussian(length_scale=1.0), 3, 10, seed=0).features(np.eye(2))


def test_contexts_whose_phases_overflow_are_refused():
    features = random_features(Gaussian(length_scale=0.5), 2, 10, np.random.default_rng(0))

    with pytest.raises(InvalidContexts, match="random features of these contexts overflow"):
        features.features(np.array([[1e308, -1e308]]))
