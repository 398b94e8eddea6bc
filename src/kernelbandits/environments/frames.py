"""Columns of a table, whichever library holds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_list
from kernelbandits.environments.columns import Columns
from kernelbandits.environments.missing import is_absent
from kernelbandits.errors import InvalidParameter

__all__ = ["columns_of", "is_frame", "without_column"]

ARROW_NUMBERS: Final = ("int", "uint", "float", "halffloat", "double", "decimal", "bool")
"""How the names of Arrow's types begin that hold numbers or truth values."""


def is_frame(table: Any) -> bool:
    """Whether this is a table with named columns: pandas, polars, Arrow, or a dictionary of columns."""
    return isinstance(table, Mapping) or _is_arrow(table) or (hasattr(table, "columns") and hasattr(table, "dtypes"))


def columns_of(frame: Any) -> Columns:
    """Columns by name, in order: float64 where they hold numbers or truth values (NaN: missing), otherwise objects.

    Parameters
    ----------
    frame
        A pandas or polars data frame, lazy or not, an Arrow table, or a dictionary of columns.

    Examples
    --------
    >>> columns_of({"age": [30, 41], "city": ["Bonn", None]})
    {'age': array([30., 41.]), 'city': array(['Bonn', None], dtype=object)}
    """
    if type(frame).__name__ == "LazyFrame":  # of polars: it says so little of itself that it is carried out first
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
    columns = {str(name): _column(frame[name], str(name)) for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidParameter(f"The columns of a table are of one length, got {lengths}.")
    return columns


def without_column(columns: Columns, name: str, drop: Collection[str] = ()) -> tuple[NDArray[Any], Columns]:
    """One column, and all others but those to drop."""
    if isinstance(drop, str):
        raise InvalidParameter(f"Columns to drop are a list of names, got {drop!r}. One column: [{drop!r}].")
    for wanted in (name, *drop):
        if wanted not in columns:
            way_out = f" Columns are named by texts here: {str(wanted)!r}." if str(wanted) in columns else ""
            raise InvalidParameter(f"There is no column {wanted!r}, only {list(columns)!r}.{way_out}")
    return columns[name], {key: column for key, column in columns.items() if key != name and key not in drop}


def _is_arrow(table: Any) -> bool:
    return hasattr(table, "column_names") and hasattr(table, "schema")


def _column(values: Any, name: str) -> NDArray[Any]:
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
    listed = values if kind else a_list(values, f"The values of column {name!r}")
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
    """Object where text is among the values, or NumPy would make text of the numbers beside it."""
    return object if any(isinstance(value, str) or value is None for value in values) else None


def _numbers_where_all_are(column: NDArray[Any]) -> NDArray[Any]:
    """A column of objects that are all numbers or missing, as numbers."""
    if any(isinstance(value, str) for value in column) or all(value is None for value in column):
        return column
    return column.astype(np.float64)  # None becomes NaN


def _objects(values: Sequence[Any] | NDArray[Any], name: str) -> NDArray[Any]:
    """Names as they are; what is no name is refused."""
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
