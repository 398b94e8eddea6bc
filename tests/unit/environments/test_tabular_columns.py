import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import encode_columns
from kernelbandits.environments.tabular import scaled
from kernelbandits.errors import InvalidParameter


def objects(*entries):
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


COLUMNS = {
    "weight": np.array([3.0, np.nan, 7.0, 4.0]),
    "color": objects("red", "?", "blue", "red"),
    "soil": np.array([10.0, 2.0, 2.0, 40.0]),
}


def test_categories_are_numbered_in_sorted_order_and_missing_entries_read_minus_one():
    encoded = encode_columns(COLUMNS, categorical=["soil"])

    assert_array_equal(encoded, [[3, 1, 1], [-1, -1, 0], [7, 0, 0], [4, 1, 2]])


def test_one_hot_has_an_indicator_for_each_category_and_none_for_a_missing_one():
    encoded = encode_columns(COLUMNS, categorical=["soil"], categories="one_hot", scaling="minmax", missing=0.5)

    assert_array_equal(
        encoded,
        [[0, 0, 1, 0, 1, 0], [0.5, 0, 0, 1, 0, 0], [1, 1, 0, 1, 0, 0], [0.25, 0, 1, 0, 0, 1]],
    )


def test_categories_can_be_left_out():
    assert_array_equal(encode_columns(COLUMNS, categories="drop", missing=9.0), [[3, 10], [9, 2], [7, 2], [4, 40]])


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_scales_are_those_of_the_known_entries(scaling):
    known = np.array([3.0, 7.0, 4.0])
    expected = (known - 3) / 4 if scaling == "minmax" else (known - known.mean()) / known.std()

    encoded = encode_columns({"weight": COLUMNS["weight"]}, scaling=scaling, missing=-5.0)

    assert_allclose(encoded[:, 0], np.insert(expected, 1, -5.0))


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_columns_of_a_matrix_are_scaled_each_on_its_own(scaling):
    matrix = np.random.default_rng(5).normal(3.0, 50.0, size=(40, 3)) * [1.0, 1e-6, 1e9]

    found = scaled(matrix, scaling)

    assert_allclose(found, np.column_stack([scaled(column, scaling) for column in matrix.T]))
    if scaling == "standard":
        assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
        assert_allclose(found.std(axis=0), 1.0)


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_a_constant_column_becomes_zero(scaling, value):
    assert_array_equal(scaled(np.full(7, value), scaling), np.zeros(7))


def test_a_column_that_is_missing_throughout_reads_missing():
    columns = {"empty": np.full(2, np.nan), "nothing": objects(None, ""), "full": np.array([1.0, 2.0])}

    assert_array_equal(encode_columns(columns, scaling="standard"), [[-1, -1, -1], [-1, -1, 1]])


def test_words_and_numbers_in_one_column_are_ordered_all_the_same():
    assert_array_equal(encode_columns({"mixed": objects("b", 3, "a", 1)})[:, 0], [3, 1, 2, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": "dummy"}, "treatment of categories must be one of .*'dummy'"),
        ({"scaling": "robust"}, "scaling must be one of .*'robust'"),
        ({"categorical": ["age"]}, "'age' is not among .*weight"),
        ({"missing": "no"}, "one number"),
    ],
)
def test_options_that_mean_nothing_are_rejected(options, message):
    with pytest.raises(InvalidParameter, match=message):
        encode_columns(COLUMNS, **options)


def test_nothing_to_encode_is_rejected():
    with pytest.raises(InvalidParameter, match="At least one column must be left"):
        encode_columns({"color": COLUMNS["color"]}, categories="drop")


def test_an_infinity_is_no_number_to_learn_from():
    with pytest.raises(InvalidParameter, match="'height' must hold finite numbers"):
        encode_columns({"height": np.array([1.0, np.inf])})


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
@pytest.mark.parametrize("unit", [1e-250, 1e-160, 1e160, 1e307])
def test_units_do_not_matter_however_large_or_small(scaling, unit):
    values = np.array([[1.0, -9.0], [3.0, 2.0], [-9.0, 5.0], [4.0, 9.0]])

    np.testing.assert_allclose(scaled(values * unit, scaling), scaled(values, scaling), rtol=1e-12, atol=1e-15)


def test_a_gap_in_a_column_of_huge_numbers_stays_a_gap():
    values = np.array([1e300, np.nan, -1e300])

    np.testing.assert_array_equal(scaled(values, "minmax"), [1.0, np.nan, 0.0])
