from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import _distances
from kernelbandits.kernels._distances import (
    EXPANSION_LIMIT,
    as_rows,
    distances,
    inner_products,
    row_pair,
    squared_distances,
    squared_norms,
)

SCALES = [1.0, 0.3, 40.0, np.array([0.5, 3.0, 20.0])]
FORMS = {"dense": np.asarray, "sparse": csr_array}


def exact_squared_distances(first, second, scale=1.0):
    """In sixty digits, from the very numbers that the floats stand for."""
    scales = np.broadcast_to(scale, first.shape[1])
    result = np.empty((len(first), len(second)))
    for (i, x), (j, z) in product(enumerate(first.tolist()), enumerate(second.tolist())):
        parts = (((Decimal(a) - Decimal(b)) / Decimal(float(s))) ** 2 for a, b, s in zip(x, z, scales, strict=True))
        result[i, j] = float(sum(parts))
    return result


@pytest.fixture(params=[(form, other) for form in FORMS for other in FORMS])
def forms(request):
    return [FORMS[name] for name in request.param]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("spread", [1.0, 500.0])
def test_squared_distances_are_sums_of_squared_differences(forms, scale, spread):
    rng = np.random.default_rng(0)
    first, second = spread * rng.normal(size=(4, 3)), spread * rng.normal(size=(6, 3))

    squared = squared_distances(forms[0](first), forms[1](second), length_scale=scale)

    assert_allclose(squared, exact_squared_distances(first, second, scale), rtol=1e-10)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_distances_are_those_of_the_definition(forms, metric, scale):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))

    apart = distances(forms[0](first), forms[1](second), metric=metric, length_scale=scale)

    differences = np.abs(first[:, None, :] - second[None, :, :]) / scale
    expected = differences.sum(axis=2) if metric == "cityblock" else np.sqrt((differences**2).sum(axis=2))
    assert_allclose(apart, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [0.3, 1.0, np.array([0.5, 3.0])])
@pytest.mark.parametrize("offset", [0.0, 1e8, -1e12])
def test_far_from_the_origin_distances_keep_their_digits(offset, scale):
    rng = np.random.default_rng(2)
    first, second = offset + rng.normal(size=(5, 2)), offset + rng.normal(size=(3, 2))

    squared = squared_distances(first, second, length_scale=scale)

    assert_allclose(squared, exact_squared_distances(first, second, scale), rtol=1e-12, atol=1e-13)


def test_points_near_the_origin_keep_their_digits_beside_far_ones():
    first = np.array([[0.1], [1e8 + 0.25]])
    second = np.array([[1e8], [0.3]])  # the first row of the second side is where the center would be

    squared = squared_distances(first, second, length_scale=0.7)

    assert_allclose(squared, exact_squared_distances(first, second, 0.7), rtol=1e-14)


@given(
    rows=arrays(np.float64, (6, 2), elements=st.floats(-30, 30, allow_subnormal=False)),
    offset=st.sampled_from([0.0, 3.0, 1e4, 1e8]),
)
def test_the_expansion_is_as_accurate_as_it_claims(rows, offset):
    rows = rows + offset

    squared = squared_distances(rows[:3], rows)

    expected = exact_squared_distances(rows[:3], rows)
    assert np.abs(squared - expected).max() <= 1e-12 + 1e-14 * expected.max()


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_few_rows_give_the_same_from_either_side(n_rows):
    rows = np.random.default_rng(0).normal(size=(9, 4))

    few = squared_distances(rows[:n_rows], rows, length_scale=0.7)

    assert_allclose(few, exact_squared_distances(rows[:n_rows], rows) / 0.49, atol=1e-12)
    assert_allclose(squared_distances(rows, rows[:n_rows], length_scale=0.7), few.T, atol=1e-12)


def test_the_product_form_is_used_up_to_its_limit_only(monkeypatch):
    calls = []
    monkeypatch.setattr(_distances, "distances", lambda *_, **kwargs: calls.append(kwargs) or np.zeros((1, 1)))
    n_rows = _distances.FEW_ROWS + 1
    origin, edge = np.zeros((n_rows, 1)), np.full((n_rows, 1), np.sqrt(EXPANSION_LIMIT))

    near = squared_distances(origin, edge / 1.001)
    assert_allclose(near, EXPANSION_LIMIT / 1.001**2)
    assert not calls

    squared_distances(origin, edge * 1.001)
    squared_distances(origin, edge * 0.501, length_scale=0.5)
    assert len(calls) == 2


def test_equal_rows_are_at_distance_zero_within_rounding():
    rows = np.random.default_rng(3).normal(size=(50, 10))

    squared = squared_distances(rows, rows.copy())

    assert (squared >= 0).all()
    assert np.diagonal(squared).max() < 1e-12


def test_numbers_at_the_edge_of_the_range_overflow_in_silence():
    rows = np.array([[1e200, 1.0], [-1.7e308, 0.0], [1.7e308, 0.0]])

    squared = squared_distances(rows, rows)

    assert (np.diagonal(squared) == 0).all()
    assert squared[0, 1] == np.inf


def test_no_rows_have_no_distances():
    rows = np.ones((3, 2))

    assert squared_distances(rows, np.empty((0, 2))).shape == (3, 0)
    assert squared_distances(np.empty((0, 2)), rows).shape == (0, 3)
    assert distances(csr_array((0, 2)), csr_array(rows)).shape == (0, 3)


def test_sparse_distances_are_computed_block_by_block():
    rows = np.random.default_rng(4).normal(size=(7, 3))

    apart = _distances._all_distances(csr_array(rows), csr_array(rows[:5]), "euclidean", None, sparse_block=6)

    assert_allclose(apart, distances(rows, rows[:5]), atol=1e-12)


def test_sparse_rows_without_a_number_are_all_alike():
    empty = csr_array((2, 4))

    assert (distances(empty, empty, metric="cityblock") == 0).all()
    assert (squared_distances(empty, empty) == 0).all()


def test_sparse_columns_that_all_rows_leave_empty_cost_nothing():
    wide = csr_array(([1.0, 2.0], ([0, 1], [0, 4_999_999])), shape=(2, 5_000_000))

    assert_allclose(distances(wide, wide, metric="cityblock"), [[0.0, 3.0], [3.0, 0.0]])


def test_products_and_norms_are_the_same_for_both_forms(forms):
    first, second = np.arange(6.0).reshape(2, 3) - 2.0, np.arange(9.0).reshape(3, 3)

    assert_allclose(inner_products(forms[0](first), forms[1](second)), first @ second.T)
    assert_allclose(squared_norms(forms[0](first)), (first**2).sum(axis=1))


def test_rows_are_two_dimensional():
    with pytest.raises(InvalidContexts, match=r"Contexts must be a 2-d array, one row per action, got shape \(3,\)"):
        as_rows([1.0, 2.0, 3.0])


def test_rows_of_different_lengths_are_not_compared():
    with pytest.raises(InvalidContexts, match="Rows of 2 and of 3 columns cannot be compared"):
        row_pair(np.ones((1, 2)), np.ones((1, 3)))
