"""Encoding of tabular data: named columns to a matrix of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    missing = check_float(missing, "What a missing entry reads")
    columns = {name: _column(name, column) for name, column in check_mapping(columns, "Columns").items()}
    categorical = check_list(categorical, "Categorical columns", "One column: ['color'].")
    unknown = [name for name in categorical if not is_one_of(name, columns)]
    if unknown:
        raise InvalidParameter(f"There is no column {unknown[0]!r} to take as categories, only {list(columns)!r}.")
    encoded = list(_encoded(columns, frozenset(categorical), categories, scaling, missing))
    if not encoded:
        raise InvalidParameter("No column is left to make features of. Keep some: categories='ordinal' drops none.")
    if len({len(column) for column in encoded}) > 1:
        raise InvalidParameter(f"Columns have to be of one length, got {[len(column) for column in encoded]}.")
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
        raise InvalidParameter(f"Column {name!r} has to be one value per record, got shape {array.shape}.")
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
        raise InvalidParameter(f"Column {name!r} holds an infinity. Give finite numbers, and NaN for what is missing.")
    return numbers


def _filled(values: Vector, missing: float) -> Vector:
    return np.where(np.isnan(values), missing, values)


def one_of(value: str, choices: Any, name: str) -> None:
    """Reject a value that is not a member of a literal type."""
    if not is_one_of(value, get_args(choices)):
        raise InvalidParameter(f"{name} is one of {list(get_args(choices))}, got {short_repr(value)}.")


ARROW_NUMBERS: Final = ("int", "uint", "float", "halffloat", "double", "decimal", "bool")
"""Prefixes of the names of Arrow types that hold numbers or booleans."""


def is_frame(table: Any) -> bool:
    """Whether this is a table with named columns: pandas, polars, Arrow, or a dictionary of columns."""
    return isinstance(table, Mapping) or _is_arrow(table) or (hasattr(table, "columns") and hasattr(table, "dtypes"))


def columns_of(frame: Any) -> Columns:
    """Return columns by name, in order: float64 for numbers and booleans (NaN: missing), otherwise objects.

    Parameters
    ----------
    frame
        A pandas or polars data frame, lazy or not, an Arrow table, or a dictionary of columns.

    Examples
    --------
    >>> columns_of({"age": [30, 41], "city": ["Bonn", None]})
    {'age': array([30., 41.]), 'city': array(['Bonn', None], dtype=object)}
    """
    if type(frame).__name__ == "LazyFrame":  # of polars: collected first, since it exposes little
        frame = frame.collect()
    if not is_frame(frame):
        raise InvalidParameter(
            f"A table is a pandas or polars data frame, an Arrow table or a dictionary of columns, got "
            f"{type(frame).__name__}."
        )
    names = (
        list(frame) if isinstance(frame, Mapping) else list(frame.column_names if _is_arrow(frame) else frame.columns)
    )
    if len(set(map(str, names))) < len(names):
        raise InvalidParameter(f"The columns of a table have different names, got {names!r}.")
    columns = {str(name): _frame_column(frame[name], str(name)) for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidParameter(f"The columns of a table are of one length, got {lengths}.")
    return columns


def without_column(columns: Columns, name: str, drop: Collection[str] = ()) -> tuple[NDArray[Any], Columns]:
    """Return one column, and all others except those to drop."""
    if isinstance(drop, str):
        raise InvalidParameter(f"Columns to drop are a list of names, got {drop!r}. One column: [{drop!r}].")
    for wanted in (name, *drop):
        if wanted not in columns:
            hint = f" Columns are named by texts here: {str(wanted)!r}." if str(wanted) in columns else ""
            raise InvalidParameter(f"There is no column {wanted!r}, only {list(columns)!r}.{hint}")
    return columns[name], {key: column for key, column in columns.items() if key != name and key not in drop}


def _is_arrow(table: Any) -> bool:
    return hasattr(table, "column_names") and hasattr(table, "schema")


def _frame_column(values: Any, name: str) -> NDArray[Any]:
    module = type(values).__module__.partition(".")[0]
    if module == "pyarrow":
        return _arrow_column(values, name)
    if module == "polars":
        return _polars_column(values, name)
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if module == "pandas" and kind in tuple("biuf"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if module == "pandas":
        column = _objects(list(values), name)
        return column if values.dtype == "category" else _numbers_where_all_are(column)
    listed = values if kind else check_list(values, f"The values of column {name!r}")
    array = np.asarray(listed, dtype=None if kind else _type_of(listed))
    if array.ndim != 1:
        raise InvalidParameter(f"A column is one value per row, and {name!r} has shape {array.shape}.")
    return array.astype(np.float64) if array.dtype.kind in "biuf" else _numbers_where_all_are(_objects(array, name))


def _arrow_column(values: Any, name: str) -> NDArray[Any]:
    type_name = str(values.type)
    if type_name.startswith(ARROW_NUMBERS):
        numbers = values.cast("uint8") if type_name == "bool" else values
        return np.array(numbers.cast("float64").to_numpy(), dtype=np.float64)
    return _objects(values.to_pylist(), name)


def _polars_column(values: Any, name: str) -> NDArray[Any]:
    if values.dtype.is_numeric() or str(values.dtype) == "Boolean":
        return np.array(values.cast(float).to_numpy(), dtype=np.float64)
    return _objects(values.to_list(), name)


def _type_of(values: Any) -> Any:
    """Return object if there is text among the values; otherwise NumPy would convert the numbers to text."""
    return object if any(isinstance(value, str) or value is None for value in values) else None


def _numbers_where_all_are(column: NDArray[Any]) -> NDArray[Any]:
    """Convert a column of objects that are all numbers or missing to numbers."""
    if any(isinstance(value, str) for value in column) or all(value is None for value in column):
        return column
    return column.astype(np.float64)  # None becomes NaN


def _objects(values: Sequence[Any] | NDArray[Any], name: str) -> NDArray[Any]:
    """Return categories unchanged; reject values that are not valid categories."""
    column = np.empty(len(values), dtype=object)
    if set(map(type, values)) <= {str, type(None)}:
        column[:] = values
        return column
    for row, value in enumerate(values):
        is_missing = is_absent(value)
        if not (is_missing or isinstance(value, str | int | float | np.integer | np.floating | np.bool_)):
            raise InvalidParameter(
                f"A column holds numbers or names, and {name!r} holds {type(value).__name__}: {value!r:.60}. Turn it "
                "into one of these, or drop it."
            )
        column[row] = None if is_missing else value.item() if isinstance(value, np.generic) else value
    return column


BUNDLED_CLASSES: Final = ("digits", "breast_cancer", "wine", "iris")
"""Classification data sets included in scikit-learn."""

BUNDLED_VALUES: Final = ("diabetes",)
"""Regression data sets included in scikit-learn."""


def bundled(name: str, known: tuple[str, ...]) -> tuple[Matrix, NDArray[Any]]:
    """Return features and targets of a data set included in scikit-learn; classes by name if they have names."""
    if name not in known:
        raise InvalidParameter(f"scikit-learn brings {', '.join(known)} for this, got {name!r}.")
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
            f"The set {name!r} could not be fetched from openml.org: {error}. Ask again with a connection, name a "
            "`data_home` where it was kept before, or give the table yourself: Classification.from_frame."
        ) from error
    except ValueError as error:
        raise InvalidParameter(
            f"openml.org has no such set, or none that scikit-learn takes: {name!r}, version {version!r}. {error}"
        ) from error
    return bunch.frame, list(bunch.target_names)


def _scikit_learn() -> Any:
    return import_optional("sklearn.datasets", "This data set")
