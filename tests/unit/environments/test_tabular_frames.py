import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments.tabular import Table, columns_of, is_frame, without_column
from kernelbandits.errors import InvalidParameter, MissingExtra

TABLE = {
    "count": [3, None, 5],
    "weight": [0.5, 1.5, None],
    "is_new": [True, False, True],
    "city": ["Bonn", None, "Ulm"],
}


def pandas_frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(TABLE)


def pandas_nullable_frame():
    return pandas_frame().astype({"count": "Int64", "weight": "Float64", "is_new": "boolean", "city": "string"})


def pandas_category_frame():
    return pandas_frame().astype({"city": "category"})


def polars_frame():
    return pytest.importorskip("polars").DataFrame(TABLE)


def arrow_table():
    return pytest.importorskip("pyarrow").table(TABLE)


def arrow_dictionary_table():
    table = arrow_table()
    return table.set_column(3, "city", table["city"].dictionary_encode())


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        pandas_frame,
        pandas_nullable_frame,
        pandas_category_frame,
        polars_frame,
        arrow_table,
        arrow_dictionary_table,
    ],
)
def test_every_library_gives_the_same_columns(make):
    columns = columns_of(make())

    assert list(columns) == list(TABLE)
    assert_array_equal(columns["count"], [3.0, np.nan, 5.0])
    assert_array_equal(columns["weight"], [0.5, 1.5, np.nan])
    assert_array_equal(columns["is_new"], [1.0, 0.0, 1.0])
    assert columns["city"].dtype == object
    assert columns["city"].tolist() == ["Bonn", None, "Ulm"]


def test_numbers_that_are_declared_categories_stay_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"soil": pandas.Categorical([10, 2, None])})

    assert columns_of(frame)["soil"].tolist() == [10, 2, None]
    assert columns_of(frame)["soil"].dtype == object


@pytest.mark.parametrize("make", [pandas_category_frame, polars_frame, arrow_table])
def test_a_dictionary_may_hold_columns_of_other_libraries(make):
    frame = make()

    columns = columns_of({name: frame[name] for name in TABLE})

    assert_array_equal(columns["count"], [3.0, np.nan, 5.0])
    assert columns["city"].tolist() == ["Bonn", None, "Ulm"]


def test_frames_need_narwhals_and_dictionaries_do_not(monkeypatch):
    frame, expected = pandas_frame(), columns_of(pandas_frame())
    monkeypatch.setitem(sys.modules, "narwhals", None)

    for table in (TABLE, {name: frame[name] for name in TABLE}):
        for name, column in columns_of(table).items():
            assert_array_equal(column, expected[name])
    with pytest.raises(MissingExtra, match=r"A data frame needs narwhals.*kernelbandits\[adapters\]"):
        columns_of(frame)


def test_entries_of_a_dictionary_become_numbers_or_none():
    table = Table(
        {
            "price": [Decimal("1.5"), None],
            "masked": np.ma.array([1.0, 2.0], mask=[False, True]),
            "time": np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
            "id": [np.int64(3), 10**30],
        }
    )

    assert_array_equal(table.numbers("price"), [1.5, np.nan])
    assert_array_equal(table.numbers("masked"), [1.0, np.nan])
    assert table.column("time").tolist() == [np.datetime64("2020-01-01"), None]
    assert table.column("id").tolist() == [3, 10**30]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(["2020-01-01"], dtype="datetime64[ns]"), "'x' holds datetime64"),
        (np.array([5], dtype="timedelta64[ns]"), "'x' holds timedelta64"),
        ([10**400], "'x' must hold numbers that a float can hold"),
        ([[1, 2], [3, 4]], "'x' holds list"),
        (np.eye(2), r"one value per row, and 'x' has shape \(2, 2\)"),
        ("ab", "The values of column 'x' .* list, got 'ab'"),
    ],
)
def test_columns_that_are_neither_numbers_nor_names_are_rejected(values, message):
    with pytest.raises(InvalidParameter, match=message):
        columns_of({"x": values})


def test_a_table_without_columns_is_rejected():
    with pytest.raises(InvalidParameter, match="at least one column"):
        columns_of({})


def test_a_matrix_is_no_frame():
    assert not is_frame(np.eye(2))
    with pytest.raises(InvalidParameter, match=r"data frame.*got ndarray"):
        columns_of(np.eye(2))


def test_columns_of_different_lengths_are_rejected():
    with pytest.raises(InvalidParameter, match=r"one length.*'b': 1"):
        columns_of({"a": [1, 2], "b": [1]})


def test_two_columns_of_one_name_are_rejected():
    pandas = pytest.importorskip("pandas")

    with pytest.raises(InvalidParameter, match="different names, got 2 columns called 'a'"):
        columns_of(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidParameter, match="different names, got 2 columns called '0'"):
        columns_of({0: [1], "0": [2]})


def test_what_is_neither_number_nor_name_is_rejected():
    with pytest.raises(InvalidParameter, match="'day' holds date"):
        columns_of({"day": [date(2020, 1, 1), None]})


def test_one_column_is_taken_out_and_others_dropped():
    columns = columns_of(TABLE)

    taken, others = without_column(columns, "city", ["count"])

    assert taken is columns["city"]
    assert list(others) == ["weight", "is_new"]


@pytest.mark.parametrize(("name", "drop"), [("town", []), ("city", ["age"])])
def test_a_column_that_is_not_there_is_rejected(name, drop):
    with pytest.raises(InvalidParameter, match=r"no column '(town|age)', only \['count'"):
        without_column(columns_of(TABLE), name, drop)


def test_columns_to_drop_are_a_list():
    with pytest.raises(InvalidParameter, match=r"One column: \['count'\]"):
        without_column(columns_of(TABLE), "city", "count")


def test_a_lazy_frame_is_carried_out():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"age": [30, 41], "city": ["Bonn", None]})

    found = columns_of(frame.lazy())

    assert found["age"].tolist() == [30.0, 41.0]
    assert found["city"].tolist() == ["Bonn", None]


def test_a_column_named_by_a_number_is_requested_by_its_text():
    columns = columns_of({0: [1.0, 2.0], 1: [3.0, 4.0]})

    with pytest.raises(InvalidParameter, match=r"'1'\]\. Names of columns are strings here: '1'"):
        without_column(columns, 1)
    with pytest.raises(InvalidParameter, match=r"no column 'x', only \['0', '1'\]\.$"):
        without_column(columns, "x")
