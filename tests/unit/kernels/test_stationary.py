import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.gaussian_process import kernels as scikit
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Gaussian, Laplacian, Matern, RationalQuadratic, median_length_scale

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
SCALES = [0.4, 2.5, (0.5, 3.0, 20.0)]


def slowly(similarity, first, second, scale):
    """One pair and one column at a time."""
    scales = [scale] * first.shape[1] if np.ndim(scale) == 0 else scale
    return np.array([[similarity([(a - b) / s for a, b, s in zip(x, z, scales, strict=True)]) for z in second]
                     for x in first])  # fmt: skip


def matern(smoothness):
    def similarity(differences):
        r = np.sqrt(sum(d**2 for d in differences))
        if smoothness == 0.5:
            return np.exp(-r)
        if smoothness == 1.5:
            return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
        return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)

    return similarity


DEFINITIONS = {
    "gaussian": (Gaussian, {}, lambda d: np.exp(-sum(x**2 for x in d) / 2)),
    "laplacian": (Laplacian, {}, lambda d: np.exp(-sum(abs(x) for x in d))),
    "matern 1/2": (Matern, {"smoothness": 0.5}, matern(0.5)),
    "matern 3/2": (Matern, {"smoothness": 1.5}, matern(1.5)),
    "matern 5/2": (Matern, {"smoothness": 2.5}, matern(2.5)),
    "rational quadratic": (RationalQuadratic, {"mixture": 0.6}, lambda d: (1 + sum(x**2 for x in d) / 1.2) ** -0.6),
}


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("kernel_type", "options", "similarity"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_gram_is_the_definition(kernel_type, options, similarity, scale, form):
    kernel = kernel_type(length_scale=scale, **options)

    gram = kernel.gram(form(FIRST), form(SECOND))

    assert_allclose(gram, slowly(similarity, FIRST, SECOND, scale), rtol=1e-10)
    assert_allclose(kernel.diagonal(form(FIRST)), np.ones(5))


@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_grams_agree_with_scikit_learn(scale):
    pairs = {
        Gaussian(length_scale=scale): rbf_kernel(FIRST, SECOND, gamma=1 / (2 * scale**2)),
        Laplacian(length_scale=scale): laplacian_kernel(FIRST, SECOND, gamma=1 / scale),
        RationalQuadratic(length_scale=scale, mixture=1.7): scikit.RationalQuadratic(scale, 1.7)(FIRST, SECOND),
        **{
            Matern(smoothness=nu, length_scale=scale): scikit.Matern(scale, nu=nu)(FIRST, SECOND)
            for nu in (0.5, 1.5, 2.5)
        },
    }

    for kernel, expected in pairs.items():
        assert_allclose(kernel.gram(FIRST, SECOND), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel_type", [Gaussian, Laplacian])
def test_one_scale_per_column_agrees_with_scaled_columns(kernel_type):
    scales = np.array([0.5, 3.0, 20.0])

    gram = kernel_type(length_scale=scales).gram(FIRST, SECOND)

    assert_allclose(gram, kernel_type(length_scale=1.0).gram(FIRST / scales, SECOND / scales), rtol=1e-10)


@pytest.mark.parametrize("scale", [0.3, 2.0])
@pytest.mark.parametrize("offset", [1e8, -1e12])
def test_a_gaussian_stays_accurate_far_from_the_origin(offset, scale):
    steps = 2.0 ** np.arange(-8, 1)[:, None]  # exact, also beside the offset

    gram = Gaussian(length_scale=scale).gram(offset + steps, np.array([[offset]]))

    assert_allclose(gram, np.exp(-(steps**2) / (2 * scale**2)), rtol=1e-12)


@pytest.mark.parametrize(("kernel_type", "options", "similarity"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_columns_of_very_different_sizes_are_no_trouble(kernel_type, options, similarity):
    first, second = FIRST * [1e-6, 1.0, 1e6], SECOND * [1e-6, 1.0, 1e6]
    scale = (2e-6, 1.0, 3e6)

    gram = kernel_type(length_scale=scale, **options).gram(first, second)

    assert_allclose(gram, slowly(similarity, first, second, scale), rtol=1e-10)


@pytest.mark.parametrize(("kernel_type", "options", "similarity"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_points_at_both_ends_of_the_range_have_nothing_in_common(kernel_type, options, similarity):
    rows = np.array([[1e308], [-1e308], [1e200]])

    gram = kernel_type(length_scale=1.0, **options).gram(rows)

    assert_allclose(gram, np.eye(3), atol=1e-60)


@given(st.floats(1e-3, 1e3), st.floats(-50, 50), st.floats(-50, 50))
def test_similarity_lies_between_zero_and_one_and_ignores_the_origin(scale, x, z):
    kernel = Gaussian(length_scale=scale)

    similarity = kernel.gram([[x]], [[z]])[0, 0]

    assert 0.0 <= similarity <= 1.0
    assert_allclose(kernel.gram([[x - z]], [[0.0]])[0, 0], similarity, rtol=1e-6, atol=1e-9)


def test_one_point_is_like_itself():
    assert_allclose(Matern(smoothness=2.5, length_scale=3.0).gram([[5.0, 1.0]]), [[1.0]])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "wide", None])
def test_a_length_scale_is_positive_and_finite(scale):
    with pytest.raises(InvalidParameter, match="The length scale must be"):
        Gaussian(length_scale=scale)


@pytest.mark.parametrize("scales", [[1.0, 0.0], [1.0, np.nan], [[1.0, 2.0], [3.0, 4.0]]])
def test_every_length_scale_is_positive_and_finite(scales):
    with pytest.raises(InvalidParameter, match="Every length scale must be"):
        Laplacian(length_scale=scales)


def test_there_is_a_length_scale():
    with pytest.raises(InvalidParameter, match="The length scale must be one number"):
        Gaussian(length_scale=[])


def test_there_are_as_many_length_scales_as_columns():
    with pytest.raises(InvalidContexts, match=r"There are 2 length scales for 3 columns. Give one number, or one per"):
        Matern(smoothness=1.5, length_scale=[1.0, 2.0]).gram(FIRST)


@pytest.mark.parametrize("smoothness", [1.0, 3.5, "rough", None])
def test_a_matern_kernel_has_one_of_three_smoothnesses(smoothness):
    with pytest.raises(InvalidParameter, match=r"The smoothness must be 0.5, 1.5 or 2.5, got"):
        Matern(smoothness=smoothness, length_scale=1.0)


@pytest.mark.parametrize("mixture", [0.0, np.nan, "much"])
def test_a_mixture_is_positive_and_finite(mixture):
    with pytest.raises(InvalidParameter, match="The mixture must be"):
        RationalQuadratic(length_scale=1.0, mixture=mixture)


def test_parameters_are_kept_as_plain_numbers():
    described = Matern(smoothness=np.float32(0.5), length_scale=np.array([1, 2])).describe()

    assert described == {"class": "Matern", "length_scale": [1.0, 2.0], "smoothness": 0.5}
    assert {type(value) for value in described["length_scale"]} == {float}


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_median_length_scale_is_the_median_distance_of_different_rows(form):
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [0.0, 1.0]])

    assert median_length_scale(form(rows)) == pytest.approx(np.median([5, 5, 1, np.sqrt(18), np.sqrt(18)]))


def test_the_median_of_a_sample_depends_on_the_seed_only():
    rows = np.random.default_rng(1).normal(size=(300, 2))

    values = [median_length_scale(rows, sample=50, seed=seed) for seed in (1, 1, 2)]

    assert values[0] == values[1] != values[2]
    assert values[0] == pytest.approx(median_length_scale(rows), rel=0.3)


def test_equal_rows_have_no_median_distance():
    with pytest.raises(InvalidContexts, match="A median distance needs at least two different rows"):
        median_length_scale(np.ones((5, 2)))
