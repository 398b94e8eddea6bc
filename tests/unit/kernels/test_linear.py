from itertools import product
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import cosine_similarity, polynomial_kernel

from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Constant, Cosine, Linear, Polynomial, Sets, Strings, linear

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
FORMS = [np.asarray, csr_array, np.ndarray.tolist]


@pytest.mark.parametrize("form", FORMS)
def test_the_linear_kernel_is_the_inner_product(form):
    gram = Linear().gram(form(FIRST), form(SECOND))

    assert_allclose(gram, [[sum(a * b for a, b in zip(x, z, strict=True)) for z in SECOND] for x in FIRST])
    assert_allclose(Linear().features(form(FIRST)), FIRST)
    assert Linear().n_features(form(FIRST)) == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("degree", "offset"), [(1, 2.0), (2, 0.0), (3, 0.4), (4, 1.0)])
def test_the_polynomial_kernel_is_a_power_of_the_inner_product(degree, offset, form):
    kernel = Polynomial(degree=degree, offset=offset)

    gram = kernel.gram(form(FIRST), form(SECOND))

    assert_allclose(gram, [[(x @ z + offset) ** degree for z in SECOND] for x in FIRST], rtol=1e-10)
    assert_allclose(gram, polynomial_kernel(FIRST, SECOND, degree=degree, gamma=1.0, coef0=offset), rtol=1e-10)
    assert_allclose(kernel.diagonal(form(FIRST)), [(x @ x + offset) ** degree for x in FIRST])


@pytest.mark.parametrize(("degree", "offset"), [(1, 2.0), (2, 0.0), (3, 0.4), (4, 1.0)])
def test_polynomial_features_are_the_monomials(degree, offset):
    kernel = Polynomial(degree=degree, offset=offset)

    features = kernel.features(FIRST)

    n_variables = 3 + (offset > 0)
    assert features.shape == (5, comb(n_variables + degree - 1, degree))
    assert_allclose(features @ kernel.features(SECOND).T, kernel.gram(FIRST, SECOND), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("degree", [0, 2.5, True, "two", None, np.inf])
def test_a_degree_is_a_whole_number(degree):
    with pytest.raises(InvalidParameter, match="The degree must be"):
        Polynomial(degree=degree)


@pytest.mark.parametrize("offset", [-0.1, np.nan, np.inf, "high"])
def test_an_offset_is_not_negative(offset):
    with pytest.raises(InvalidParameter, match="The offset must be"):
        Polynomial(degree=2, offset=offset)


def test_a_degree_given_as_a_float_is_a_whole_number_afterwards():
    kernel = Polynomial(degree=np.float64(2.0))

    assert kernel.describe() == {"class": "Polynomial", "degree": 2, "offset": 1.0}
    assert kernel.n_features(FIRST) == 10


@pytest.mark.parametrize("form", FORMS)
def test_the_cosine_is_that_of_the_angle(form):
    gram = Cosine().gram(form(FIRST), form(SECOND))

    lengths = [[np.sqrt(x @ x) * np.sqrt(z @ z) for z in SECOND] for x in FIRST]
    assert_allclose(gram, (FIRST @ SECOND.T) / lengths, rtol=1e-12)
    assert_allclose(gram, cosine_similarity(FIRST, SECOND), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_zero_row_is_similar_to_nothing_by_cosine(form):
    rows = form(np.array([[0.0, 0.0], [3.0, 4.0]]))

    assert_allclose(Cosine().gram(rows), [[0.0, 0.0], [0.0, 1.0]])
    assert_allclose(Cosine().diagonal(rows), [0.0, 1.0])


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_cosine_does_not_depend_on_lengths_however_extreme(form):
    directions = np.array([[3.0, 4.0], [4.0, 3.0], [-3.0, 4.0]])
    lengths = np.array([1e-200, 1e300, 5e-324 * 2**52])[:, None]

    rows = form(directions * lengths)

    assert_allclose(Cosine().gram(rows), directions @ directions.T / 25.0, rtol=1e-12, atol=1e-15)
    assert_allclose(Cosine().diagonal(rows), np.ones(3))


@pytest.mark.parametrize(("kind", "points"), [(Strings(), ["a", "b"]), (Sets(), [{1}, {2}])])
def test_a_constant_takes_any_kind_of_point(kind, points):
    kernel = Constant(0.7, kind=kind)

    assert_allclose(kernel.gram(points, points[:1]), [[0.7], [0.7]])
    assert_allclose(kernel.diagonal(points), [0.7, 0.7])
    assert_allclose(kernel.features(points) ** 2, [[0.7], [0.7]])
    assert kernel.n_features(points) == 1


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "one"])
def test_a_constant_is_not_negative(value):
    with pytest.raises(InvalidParameter, match="A constant kernel must be"):
        Constant(value)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2), Cosine()])
def test_rows_of_different_lengths_are_rejected(kernel):
    with pytest.raises(InvalidContexts, match="Rows of 3 and of 2 columns cannot be compared"):
        kernel.gram(FIRST, SECOND[:, :2])


def test_dense_and_sparse_rows_can_be_compared():
    for dense_first, kernel in product([True, False], [Linear(), Polynomial(degree=2), Cosine()]):
        sides = (FIRST, csr_array(SECOND)) if dense_first else (csr_array(FIRST), SECOND)

        assert_allclose(kernel.gram(*sides), kernel.gram(FIRST, SECOND))


def test_only_small_tables_of_monomials_are_remembered():
    most = 8 * 3 * 21  # 21 monomials of 6 variables, 2 factors and a weight
    linear._remembered_monomials.cache_clear()

    linear._monomials(6, 2, remembered_bytes=most)
    assert linear._remembered_monomials.cache_info().currsize == 1
    linear._monomials(7, 2, remembered_bytes=most)
    assert linear._remembered_monomials.cache_info().currsize == 1
