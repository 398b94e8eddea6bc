"""Tables of other libraries as columns, and columns as such tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.adapters.extras import required
from kernelbandits.checks import is_one_of, shown
from kernelbandits.environments.missing import is_absent
from kernelbandits.errors import InvalidContexts, InvalidParameter

__all__ = ["Column", "FrameKind", "column_of", "frame_of", "materialised", "numbers_of", "truths_of"]

FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]
Column: TypeAlias = NDArray[Any]


def materialised(frame: Any) -> Any:
    """Something with named columns: lazy frames, readers and relations are carried out."""
    for method in ("to_arrow_table", "fetch_arrow_table", "collect", "read_all"):
        if hasattr(type(frame), method):  # of the class: pandas gives columns as attributes
            return getattr(frame, method)()
    return frame


def column_of(table: Any, name: str) -> Column:
    """A column as an array."""
    names = _names(table)
    if not is_one_of(name, names):
        raise InvalidParameter(
            f"The table has no column {shown(name)}; it has {', '.join(map(repr, names)) or 'none'}."
        )
    if names.count(name) > 1:
        raise InvalidParameter(f"The table has {names.count(name)} columns called {name!r}. Rename all but one.")
    column = table[name]
    if hasattr(column, "to_pylist") and not hasattr(column, "chunks"):
        return np.asarray(column.to_numpy(zero_copy_only=False))  # a record batch of Arrow would refuse to copy
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _names(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow; pandas and polars
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    raise InvalidParameter(
        f"A table of pandas, polars, Arrow or DuckDB, or a mapping of columns is needed, got {type(table).__name__}."
    )


def numbers_of(table: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers; what is missing is NaN."""
    column = column_of(table, name)
    if column.dtype.kind == "O":
        members = [_number_or_nan(value) for value in column.tolist()]
        column = np.array(members, dtype=None if all(isinstance(member, float) for member in members) else object)
    if column.dtype.kind not in "buif":
        raise InvalidParameter(f"The column {name!r} has to hold numbers, got {column.dtype}.")
    return column.astype(np.float64)


def _number_or_nan(value: Any) -> Any:
    """A number for what is one, such as a decimal; NaN for what is missing, and anything else as it is."""
    if is_absent(value):
        return np.nan
    try:
        return value if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return value


def truths_of(table: Any, name: str) -> NDArray[np.bool_]:
    """A column of truth values."""
    numbers = numbers_of(table, name)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise InvalidParameter(f"The column {name!r} has to hold truth values, true for the row that was shown.")
    return np.asarray(numbers == 1.0)


def frame_of(columns: Mapping[str, Any], kind: FrameKind) -> Any:
    """A table of that kind with these columns."""
    if not is_one_of(kind, ("pandas", "polars", "arrow")):
        raise InvalidParameter(f"The kind of a table is 'pandas', 'polars' or 'arrow', got {shown(kind)}.")
    if kind == "pandas":
        return required("pandas", "A pandas frame").DataFrame(dict(columns))
    is_arrow = kind == "arrow"
    make = required("pyarrow", "An Arrow table").table if is_arrow else required("polars", "A polars frame").DataFrame
    try:
        return make(dict(columns))
    except (TypeError, ValueError) as error:
        raise InvalidContexts(
            f"Columns of such a table are of one type each, and strings and numbers are mixed here: {error} "
            "kind='pandas' takes them as they are."
        ) from error
