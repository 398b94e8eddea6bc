"""Tabular data: reading of data frames, and encoding of named columns as a matrix of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kernelbandits._optional import import_optional
from kernelbandits.errors import DataUnavailable, InvalidParameter
from kernelbandits.types import Matrix, Vector
from kernelbandits.validation import check_float, check_list, check_mapping, is_one_of, short_repr

__all__ = [
    "BUNDLED_CLASSES",
    "BUNDLED_VALUES",
    "Categories",
    "Columns",
    "Scaling",
    "Table",
    "bundled",
    "columns_of",
    "encode_columns",
    "fetched",
    "is_absent",
    "is_frame",
    "one_of",
    "rescale_to_avoid_overflow",
    "scaled",
    "without_column",
]


def is_absent(entry: Any) -> bool:
    """Whether this is None, NaN, or a missing-value marker of pandas.

    >>> [is_absent(entry) for entry in (None, float("nan"), 0.0, "")]
    [True, True, False, False]
    """
    is_nan = isinstance(entry, float | np.floating) and bool(np.isnan(entry))
    return entry is None or is_nan or type(entry).__name__ in ("NAType", "NaTType")


Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns by name: float64 for numbers (NaN: missing), objects for categories."""

Categories: TypeAlias = Literal["ordinal", "one_hot", "drop"]
Scaling: TypeAlias = Literal["none", "minmax", "standard"]

SMALL: Final = 1e-150
"""Absolute value below which, and above whose inverse, squares of float64 numbers underflow or overflow."""

MISSING_WORDS: Final = frozenset({"", "?"})
"""Missing-value markers of categories in the files of the UCI repository, besides None and NaN."""


def encode_columns(
    columns: Columns,
    *,
    categorical: Collection[str] = (),
    categories: Categories = "ordinal",
    scaling: Scaling = "none",
    missing: float = -1.0,
) -> Matrix:
    """Encode columns as a matrix with one row per record, shape (n_records, n_features), in the order of the columns.

    Parameters
    ----------
    columns
        Columns by name: numbers, or objects (mostly strings) for categories.
    categorical
        Numeric columns that are categories, such as a soil type from 1 to 40.
    categories
        "ordinal": the index of the category among all that occur, sorted, from 0. "one_hot": one indicator per
        category. "drop": categorical columns are omitted.
    scaling
        "none"; "minmax": each column from 0 to 1; "standard": each with mean 0 and standard deviation 1. Indicators are
        not scaled. Constant columns become 0.
    missing
        Value of a missing entry (None, NaN, "?" or an empty string) after scaling; scales are computed from the known
        entries. For indicators it is 0 in all.

    Examples
    --------
    >>> columns = {"size": np.array([1.0, 3.0, np.nan]), "color": np.array(["red", "blue", "red"], dtype=object)}
    >>> encode_columns(columns, scaling="minmax")
    array([[ 0.,  1.],
           [ 1.,  0.],
           [-1.,  1.]])
    >>> encode_columns(columns, categories="one_hot", missing=0.0)
    array([[1., 0., 1.],
           [3., 1., 0.],
           [0., 0., 1.]])
    """
    one_of(categories, Categories, "The treatment of categories")
    one_of(scaling, Scaling, "The scaling")
    missing = check_float(missing, "The value of missing entries")
    columns = {name: _column(name, column) for name, column in check_mapping(columns, "Columns").items()}
    categorical = check_list(categorical, "Categorical columns", "One column: ['color'].")
    unknown = [name for name in categorical if not is_one_of(name, columns)]
    if unknown:
        raise InvalidParameter(
            f"Categorical columns must be columns of the table, and {unknown[0]!r} is not among {list(columns)!r}."
        )
    encoded = list(_encoded(columns, frozenset(categorical), categories, scaling, missing))
    if not encoded:
        raise InvalidParameter("At least one column must be left as a feature. categories='ordinal' drops none.")
    if len({len(column) for column in encoded}) > 1:
        raise InvalidParameter(f"Columns must have one length, got {[len(column) for column in encoded]}.")
    return np.column_stack(encoded)


def scaled(values: Vector | Matrix, scaling: Scaling) -> NDArray[np.float64]:
    """Scale values, or each column of a matrix; NaN is unchanged.

    >>> scaled(np.array([2.0, 4.0, 3.0]), "minmax")
    array([0. , 1. , 0.5])
    """
    one_of(scaling, Scaling, "The scaling")
    if scaling == "none" or np.all(np.isnan(values)):
        return values
    values = rescale_to_avoid_overflow(values)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    origin = low if scaling == "minmax" else np.nanmean(values, axis=0)
    unit = high - low if scaling == "minmax" else np.nanstd(values, axis=0)
    is_constant = high == low  # a standard deviation of rounding errors is not a unit
    return np.asarray(np.where(is_constant, 0.0, values - origin) / np.where(is_constant, 1.0, unit))


def rescale_to_avoid_overflow(values: Vector | Matrix) -> NDArray[np.float64]:
    """Divide values, or each column of a matrix, by the largest if their squares would overflow or underflow.

    >>> rescale_to_avoid_overflow(np.array([3e200, 4e200])), rescale_to_avoid_overflow(np.array([3.0, 4.0]))
    (array([0.75, 1.  ]), array([3., 4.]))
    """
    largest = np.nanmax(np.abs(values), axis=0)
    is_out_of_reach = (largest > 1.0 / SMALL) | ((largest < SMALL) & (largest > 0.0))
    return np.asarray(values / np.where(is_out_of_reach, largest, 1.0)) if np.any(is_out_of_reach) else values


def _encoded(
    columns: Columns, categorical: frozenset[str], categories: Categories, scaling: Scaling, missing: float
) -> Iterator[NDArray[np.float64]]:
    for name, column in columns.items():
        if column.dtype != object and name not in categorical:
            yield _filled(scaled(_finite_or_missing(column, name), scaling), missing)
        elif categories == "ordinal":
            codes, _ = _codes(column)
            yield _filled(scaled(codes, scaling), missing)
        elif categories == "one_hot":
            codes, n_categories = _codes(column)
            yield np.equal(codes[:, None], np.arange(n_categories)[None, :]).astype(np.float64)


def _column(name: str, column: Any) -> NDArray[Any]:
    """Convert a column to an array of numbers, or of objects for categories."""
    try:
        array = np.asarray(column)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"Column {name!r} cannot be read as an array: {error}.") from error
    if array.ndim != 1:
        raise InvalidParameter(f"Column {name!r} must be one value per record, got shape {array.shape}.")
    return array if array.dtype.kind in "buifO" else array.astype(object)


def _codes(column: NDArray[Any]) -> tuple[Vector, int]:
    """Return the index of each entry among the sorted categories, NaN if missing; and the number of categories."""
    entries = column.tolist()
    distinct = set(entries)
    known = {entry for entry in distinct if not _is_missing(entry)}
    try:
        ordered = sorted(known)
    except TypeError:  # text and numbers in one column
        ordered = sorted(known, key=lambda entry: (type(entry).__name__, str(entry)))
    places = dict.fromkeys(distinct, np.nan) | {entry: float(place) for place, entry in enumerate(ordered)}
    return np.array([places[entry] for entry in entries]), len(ordered)


def _is_missing(entry: Any) -> bool:
    return is_absent(entry) or (isinstance(entry, str) and entry in MISSING_WORDS)


def _finite_or_missing(column: NDArray[Any], name: str) -> Vector:
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        numbers = column.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidParameter(
            f"Column {name!r} must hold finite numbers, and NaN for missing entries; it holds an infinity."
        )
    return numbers


def _filled(values: Vector, missing: float) -> Vector:
    return np.where(np.isnan(values), missing, values)


def one_of(value: str, choices: Any, name: str) -> None:
    """Reject a value that is not a member of a literal type."""
    if not is_one_of(value, get_args(choices)):
        raise InvalidParameter(f"{name} must be one of {list(get_args(choices))}, got {short_repr(value)}.")


def is_frame(table: Any) -> bool:
    """Whether this is a table with named columns: a data frame, an Arrow table, or a dictionary of columns."""
    return isinstance(table, Mapping) or any(hasattr(type(table), name) for name in ("columns", "column_names"))


class Table:
    """Columns of a table by name. Data frames are read by narwhals; a dictionary of columns needs no other package.

    Parameters
    ----------
    frame
        A data frame of pandas, polars or another library that narwhals supports, lazy or not, an Arrow table, batch or
        reader, a DuckDB relation, or a dictionary of columns.

    Examples
    --------
    >>> table = Table({"age": [30, None], "city": ["Bonn", "Ulm"]})
    >>> table.names, table.column("city"), table.numbers("age")
    (['age', 'city'], array(['Bonn', 'Ulm'], dtype=object), array([30., nan]))
    """

    def __init__(self, frame: Any) -> None:
        columns = frame if isinstance(frame, Mapping) else _columns_by_narwhals(frame)
        self.names = [str(name) for name in columns]
        _check_unique(self.names)
        self._columns = dict(zip(self.names, columns.values(), strict=True))
        if isinstance(frame, Mapping):
            self._columns = {name: _column_of_dictionary(values, name) for name, values in self._columns.items()}
            lengths = {name: len(column) for name, column in self._columns.items()}
            if len(set(lengths.values())) > 1:
                raise InvalidParameter(f"The columns of a table must be of one length, got {lengths}.")

    def is_categorical(self, name: str) -> bool:
        """Whether a column was declared categorical, also if its categories are numbers."""
        dtype = str(getattr(self._columns[name], "dtype", ""))
        return dtype.startswith(("category", "Categorical", "Enum"))  # pandas; narwhals and polars

    def column(self, name: str) -> NDArray[Any]:
        """Column as an array: of numbers or booleans, or of objects with None for missing entries."""
        if not is_one_of(name, self.names):
            listed = ", ".join(map(repr, self.names)) or "none"
            raise InvalidParameter(f"The table has no column {short_repr(name)}; it has {listed}.")
        column = self._columns[name]
        if hasattr(column, "to_native"):  # a series of narwhals
            is_numeric = column.dtype.is_numeric() or str(column.dtype) == "Boolean"
            column = _numbers_of_series(column) if is_numeric else column.to_list()
        if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
            return column
        return np.fromiter((_plain(entry) for entry in column), dtype=object, count=len(column))

    def numbers(self, name: str) -> Vector:
        """Column as float64, NaN for missing entries; raise InvalidParameter if an entry is not a number."""
        column = self.column(name)
        for entry in column[:0] if column.dtype.kind in "biuf" else column:
            if entry is not None and not _is_number(entry):
                raise InvalidParameter(
                    f"The column {name!r} must hold numbers, got {type(entry).__name__}: {short_repr(entry)}. "
                    "Make a column of 0 and 1 for each category, as pandas.get_dummies does."
                )
        return _as_floats(column, name)


def columns_of(frame: Any) -> Columns:
    """Return all columns of a `Table`, in order: float64 for numbers and booleans (NaN: missing), otherwise objects.

    >>> columns_of({"age": [30, 41], "city": ["Bonn", None]})
    {'age': array([30., 41.]), 'city': array(['Bonn', None], dtype=object)}
    """
    table = Table(frame)
    if not table.names:
        raise InvalidParameter("A table must have at least one column, got none.")
    return {name: _numbers_or_categories(table, name) for name in table.names}


def without_column(columns: Columns, name: str, drop: Collection[str] = ()) -> tuple[NDArray[Any], Columns]:
    """Return one column, and all others except those to drop."""
    if isinstance(drop, str):
        raise InvalidParameter(f"Columns to drop must be a list of names, got {drop!r}. One column: [{drop!r}].")
    for wanted in (name, *drop):
        if wanted not in columns:
            hint = f" Names of columns are strings here: {str(wanted)!r}." if str(wanted) in columns else ""
            raise InvalidParameter(f"There is no column {wanted!r}, only {list(columns)!r}.{hint}")
    return columns[name], {key: column for key, column in columns.items() if key != name and key not in drop}


def _columns_by_narwhals(frame: Any) -> Mapping[Any, Any]:
    """Series of narwhals by name; lazy frames, readers and relations are collected."""
    if not (is_frame(frame) or hasattr(frame, "__arrow_c_stream__")) or hasattr(frame, "__array_interface__"):
        raise InvalidParameter(
            "A table must be a data frame (pandas, polars), an Arrow table, a DuckDB relation or a dictionary of "
            f"columns, got {type(frame).__name__}."
        )
    narwhals = import_optional("narwhals", "A data frame", extra="adapters")
    try:
        table = narwhals.from_native(frame)
    except narwhals.exceptions.DuplicateError:
        _check_unique([str(name) for name in getattr(frame, "column_names", getattr(frame, "columns", ()))])
        raise
    except TypeError:  # a batch or a reader of Arrow
        table = narwhals.from_arrow(frame, backend="pyarrow")
    table = table.collect() if isinstance(table, narwhals.LazyFrame) else table
    return {name: table.get_column(name) for name in table.columns}


def _check_unique(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(
                f"The columns of a table must have different names, got {names.count(name)} columns called {name!r}. "
                "Rename all but one."
            )


def _column_of_dictionary(values: Any, name: str) -> Any:
    """Column with a length: an array, a series of pandas or polars, or a list."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidParameter(f"A column must have one value per row, and {name!r} has shape {values.shape}.")
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        return values
    if hasattr(values, "to_pylist"):  # of Arrow, whose entries are not Python's
        return values.to_pylist()
    return values if hasattr(values, "dtype") else check_list(values, f"The values of column {name!r}")


def _numbers_of_series(series: Any) -> NDArray[Any]:
    """Numbers or booleans of a series of narwhals; float64 if entries are missing or the type is not NumPy's."""
    numbers = series.to_numpy()
    if numbers.dtype.kind in "biuf" and not series.is_null().any():
        return np.asarray(numbers)
    narwhals = import_optional("narwhals", "A data frame", extra="adapters")
    return np.array(series.cast(narwhals.Float64).to_numpy(), dtype=np.float64)


def _plain(entry: Any) -> Any:
    """Return a Python value for one of NumPy, None for a missing entry."""
    if isinstance(entry, np.datetime64 | np.timedelta64):
        return None if np.isnat(entry) else entry  # as an item, nanoseconds would be a number
    if is_absent(entry) or entry is np.ma.masked:
        return None
    return entry.item() if isinstance(entry, np.generic) else entry


def _is_number(entry: Any) -> bool:
    return isinstance(entry, Real | Decimal) and not isinstance(entry, np.timedelta64)  # which NumPy counts as a number


def _as_floats(column: NDArray[Any], name: str) -> Vector:
    try:
        return column.astype(np.float64)  # None becomes NaN
    except OverflowError as error:
        raise InvalidParameter(f"The column {name!r} must hold numbers that a float can hold: {error}.") from error


def _numbers_or_categories(table: Table, name: str) -> NDArray[Any]:
    """Numbers if all known entries are; otherwise categories. Entries that are neither are rejected."""
    column = table.column(name)
    if column.dtype != object:
        return column.astype(np.float64)
    known = [entry for entry in column if entry is not None]
    for entry in known:
        if not (isinstance(entry, str) or _is_number(entry)):
            raise InvalidParameter(
                f"A column must hold numbers or categories, and {name!r} holds {type(entry).__name__}: {entry!r:.60}. "
                "Convert it, or drop it."
            )
    is_numeric = bool(known) and not table.is_categorical(name) and all(map(_is_number, known))
    return _as_floats(column, name) if is_numeric else column


BUNDLED_CLASSES: Final = ("digits", "breast_cancer", "wine", "iris")
"""Classification data sets included in scikit-learn."""

BUNDLED_VALUES: Final = ("diabetes",)
"""Regression data sets included in scikit-learn."""


def bundled(name: str, known: tuple[str, ...]) -> tuple[Matrix, NDArray[Any]]:
    """Return features and targets of a data set included in scikit-learn; classes by name if they have names."""
    if name not in known:
        raise InvalidParameter(f"The data set must be one of scikit-learn's {', '.join(known)}, got {name!r}.")
    bunch = getattr(_scikit_learn(), f"load_{name}")()
    features, target = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)
    names = getattr(bunch, "target_names", None)
    if names is None or np.asarray(names).dtype.kind not in "US":
        return features, target
    return features, np.asarray(names)[target]


def fetched(name: str, *, version: int | str, data_home: str | None) -> tuple[Any, list[str]]:
    """Return data frame and label columns of an openml.org data set, downloaded or read from the cache."""
    try:
        bunch = _scikit_learn().fetch_openml(name, version=version, data_home=data_home, as_frame=True, parser="auto")
    except OSError as error:  # base class of URLError and HTTPError
        raise DataUnavailable(
            f"The set {name!r} could not be fetched from openml.org: {error}. Check the connection, pass a "
            "`data_home` with an earlier download, or pass the table: Classification.from_frame."
        ) from error
    except ValueError as error:
        raise InvalidParameter(
            f"openml.org has no data set that scikit-learn can read: {name!r}, version {version!r}. {error}"
        ) from error
    return bunch.frame, list(bunch.target_names)


def _scikit_learn() -> Any:
    return import_optional("sklearn.datasets", "This data set")
