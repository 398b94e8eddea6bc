import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import (
    Columns,
    Constant,
    Delta,
    FromCallable,
    Gaussian,
    Jaccard,
    Laplacian,
    Linear,
    Normalized,
    PairSum,
    Polynomial,
    Precomputed,
    Product,
    Rows,
    Scaled,
    Spectrum,
    Strings,
    Sum,
)

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
A, B = Gaussian(length_scale=0.7), Polynomial(degree=2, offset=0.5)


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist])
def test_compositions_compute_what_they_say(form):
    first, second = form(FIRST), form(SECOND)
    a, b = A.gram(FIRST, SECOND), B.gram(FIRST, SECOND)

    assert_allclose((A + B + 2).gram(first, second), a + b + 2)
    assert_allclose((A * B).gram(first, second), a * b)
    assert_allclose((0.3 * B).gram(first, second), 0.3 * b)
    assert_allclose((A + B + 2).diagonal(first), 3.0 + B.diagonal(FIRST))
    assert_allclose((A * B * 3).diagonal(first), 3.0 * B.diagonal(FIRST))


def test_a_normalized_kernel_has_self_similarity_one():
    kernel = Normalized(B)

    gram = kernel.gram(FIRST, SECOND)

    expected = [[(x @ z + 0.5) ** 2 / ((x @ x + 0.5) * (z @ z + 0.5)) for z in SECOND] for x in FIRST]
    assert_allclose(gram, expected, rtol=1e-12)
    assert_allclose(kernel.diagonal(FIRST), np.ones(5))


def test_what_is_not_similar_to_itself_stays_so_when_normalized():
    rows = np.array([[0.0, 0.0], [1.0, 2.0]])

    assert_allclose(Normalized(Linear()).gram(rows), [[0.0, 0.0], [0.0, 1.0]], atol=1e-15)
    assert_allclose(Normalized(Linear()).diagonal(rows), [0.0, 1.0])


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist])
def test_columns_shows_some_columns_only(form):
    kernel = Columns(Linear(), [2, 0])

    assert_allclose(kernel.gram(form(FIRST), form(SECOND)), FIRST[:, [2, 0]] @ SECOND[:, [2, 0]].T)
    assert_allclose(kernel.features(form(FIRST)), FIRST[:, [2, 0]])
    assert kernel.n_features(form(FIRST)) == 2


def test_features_of_compositions_are_joined_or_multiplied():
    total, product = Sum((Linear(), B)), Product((Linear(), B))

    assert total.n_features(FIRST) == 3 + 10
    assert product.n_features(FIRST) == 3 * 10
    assert_allclose(product.features(FIRST) @ product.features(SECOND).T, product.gram(FIRST, SECOND))


@pytest.mark.parametrize("kernel", [A + Linear(), A * Linear(), 2 * A, Normalized(A), Columns(A, [0])])
def test_a_composition_with_a_part_without_features_has_none(kernel):
    assert kernel.n_features(FIRST) is None


def test_constants_take_the_kind_of_their_neighbors_however_wrapped():
    kernel = 1 + 2 * Constant(0.5) * Normalized(Constant(3.0)) + Spectrum(n=2) + (Constant(1.0) + Constant(2.0))

    assert kernel.kind == Strings()
    assert_allclose(kernel.gram(["ab"], ["ab", "cd"]), [[6.0, 5.0]])


def test_constants_alone_compare_rows():
    kernel = Sum((Constant(1.0), 2 * Constant(2.0)))

    assert kernel.kind == Rows()
    assert_allclose(kernel.gram([[1.0]]), [[5.0]])


def two_tables():
    return Precomputed(np.eye(2)) + Precomputed(np.eye(2))


@pytest.mark.parametrize(
    ("combine", "named"),
    [
        (lambda: Linear() + Spectrum(), "'Rows', 'Strings'"),
        (lambda: Jaccard() * Delta(), "'Sets', 'Ids'"),
        (
            lambda: PairSum(Linear(), Spectrum()) + PairSum(Spectrum(), Linear()),
            "'context': 'Rows', 'action': 'Strings'",
        ),
        (two_tables, "'TableIds', 'TableIds'"),
        (lambda: Sum((Constant(1.0, kind=Strings()), Constant(1.0))), "'Strings', 'Rows'"),
    ],
)
def test_kernels_over_different_kinds_are_not_combined(combine, named):
    with pytest.raises(InvalidParameter, match=f"different kinds of points cannot be combined, got .*{named}"):
        combine()


def test_a_composition_needs_a_part():
    with pytest.raises(InvalidParameter, match="Product needs at least one kernel, got none"):
        Product(())


@pytest.mark.parametrize("factor", [0, -1.0, np.nan, np.inf])
def test_a_factor_is_positive(factor):
    with pytest.raises(InvalidParameter, match="The factor of a kernel must be a finite number above zero"):
        factor * Linear()


@pytest.mark.parametrize("columns", [[], [-1], [0.5], ["a"], [True], 3, [[0, 1]]])
def test_columns_are_whole_numbers(columns):
    with pytest.raises(InvalidParameter, match="Columns must be whole numbers from 0, at least one, got"):
        Columns(Linear(), columns)


def test_only_rows_have_columns():
    with pytest.raises(InvalidParameter, match="Only rows have columns; this kernel compares Strings"):
        Columns(Spectrum(), [0])


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InvalidContexts, match="reads column 3, but the contexts have only 3"):
        Columns(Linear(), [0, 3]).gram(FIRST)


def test_descriptions_say_what_produced_a_result():
    described = (2 * Columns(Laplacian(length_scale=[1, 2]), np.array([0, 2])) + 1).describe()

    columns = {"class": "Columns", "kernel": {"class": "Laplacian", "length_scale": [1.0, 2.0]}, "columns": [0, 2]}
    scaled = {"class": "Scaled", "kernel": columns, "factor": 2.0}
    assert described == {"class": "Sum", "parts": [scaled, {"class": "Constant", "value": 1.0, "kind": "Rows"}]}


def test_slightly_negative_self_similarities_do_not_break_normalization():
    kernel = Normalized(FromCallable(lambda x, z: -1e-18 * np.ones((len(x), len(z)))))

    assert_allclose(kernel.gram([[1.0]]), [[0.0]])
    assert_allclose(kernel.diagonal([[1.0]]), [0.0])


def test_scaled_stores_a_plain_float():
    assert type(Scaled(Linear(), np.float32(0.5)).factor) is float
