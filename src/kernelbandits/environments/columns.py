"""From named columns to a matrix of numbers: categories become codes or indicators, scales are made equal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_list, a_mapping, a_number, is_one_of, shown
from kernelbandits.environments.missing import is_absent
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Matrix, Vector

__all__ = ["Categories", "Columns", "Scaling", "encode_columns", "in_reach_of_squares", "one_of", "scaled"]

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns by name: float64 for numbers (NaN: missing), objects for categories."""

Categories: TypeAlias = Literal["ordinal", "one_hot", "drop"]
Scaling: TypeAlias = Literal["none", "minmax", "standard"]

SMALL: Final = 1e-150
"""Below it, and above its inverse, squares of float64 numbers leave their range."""

MISSING_WORDS: Final = frozenset({"", "?"})
"""What stands for a missing category in the files of the UCI repository, beside None and NaN."""


def encode_columns(
    columns: Columns,
    *,
    categorical: Collection[str] = (),
    categories: Categories = "ordinal",
    scaling: Scaling = "none",
    missing: float = -1.0,
) -> Matrix:
    """One row of numbers a record, shape (n_records, n_features), in the order of the columns.

    Parameters
    ----------
    columns
        Columns by name: numbers, or objects (mostly strings) for categories.
    categorical
        Columns of numbers that are names in truth, such as a soil type from 1 to 40.
    categories
        "ordinal": the place of the category among all that occur, sorted, from 0. "one_hot": an indicator for each.
        "drop": columns of categories are left out.
    scaling
        "none"; "minmax": each column from 0 to 1; "standard": each with mean 0 and standard deviation 1. Indicators
        stay 0 and 1. Columns that are constant become 0.
    missing
        What a missing entry (None, NaN, "?" or nothing) reads once all is scaled; scales are those of the entries that
        are known. Among indicators it reads 0 in all.

    Examples
    --------
    >>> columns = {"size": np.array([1.0, 3.0, np.nan]), "colour": np.array(["red", "blue", "red"], dtype=object)}
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
    missing = a_number(missing, "What a missing entry reads")
    columns = {name: _column(name, column) for name, column in a_mapping(columns, "Columns").items()}
    categorical = a_list(categorical, "Categorical columns", "One column: ['colour'].")
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
    """Values, or each column of a matrix, in equal units; NaN is left as it is.

    >>> scaled(np.array([2.0, 4.0, 3.0]), "minmax")
    array([0. , 1. , 0.5])
    """
    one_of(scaling, Scaling, "The scaling")
    if scaling == "none" or np.all(np.isnan(values)):
        return values
    values = in_reach_of_squares(values)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    origin = low if scaling == "minmax" else np.nanmean(values, axis=0)
    unit = high - low if scaling == "minmax" else np.nanstd(values, axis=0)
    is_constant = high == low  # a standard deviation made of rounding errors is no unit
    return np.asarray(np.where(is_constant, 0.0, values - origin) / np.where(is_constant, 1.0, unit))


def in_reach_of_squares(values: Vector | Matrix) -> NDArray[np.float64]:
    """Values, or each column of a matrix, divided by the largest where squares of them would overflow or vanish.

    >>> in_reach_of_squares(np.array([3e200, 4e200])), in_reach_of_squares(np.array([3.0, 4.0]))
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
    """A column as an array: of numbers, or of objects for categories."""
    try:
        array = np.asarray(column)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"Column {name!r} cannot be read as an array: {error}.") from error
    if array.ndim != 1:
        raise InvalidParameter(f"Column {name!r} has to be one value per record, got shape {array.shape}.")
    return array if array.dtype.kind in "buifO" else array.astype(object)


def _codes(column: NDArray[Any]) -> tuple[Vector, int]:
    """Place of each entry among the sorted categories, NaN where it is missing; and how many there are."""
    entries = column.tolist()
    distinct = set(entries)
    known = {entry for entry in distinct if not _is_missing(entry)}
    try:
        ordered = sorted(known)
    except TypeError:  # words and numbers in one column
        ordered = sorted(known, key=lambda entry: (type(entry).__name__, str(entry)))
    places = dict.fromkeys(distinct, np.nan) | {entry: float(place) for place, entry in enumerate(ordered)}
    return np.array([places[entry] for entry in entries]), len(ordered)


def _is_missing(entry: Any) -> bool:
    return is_absent(entry) or (isinstance(entry, str) and entry in MISSING_WORDS)


def _finite_or_missing(column: NDArray[Any], name: str) -> Vector:
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes an infinity
        numbers = column.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidParameter(f"Column {name!r} holds an infinity. Give finite numbers, and NaN for what is missing.")
    return numbers


def _filled(values: Vector, missing: float) -> Vector:
    return np.where(np.isnan(values), missing, values)


def one_of(value: str, choices: Any, name: str) -> None:
    """Refuse what is no member of a literal type."""
    if not is_one_of(value, get_args(choices)):
        raise InvalidParameter(f"{name} is one of {list(get_args(choices))}, got {shown(value)}.")
