"""Data frames of installed libraries, built from columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.validation import is_one_of, short_repr

__all__ = ["FrameKind", "frame_of"]

FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]
CONSTRUCTORS: Final = {
    "pandas": ("pandas", "DataFrame"),
    "polars": ("polars", "DataFrame"),
    "arrow": ("pyarrow", "table"),
}
"""Package and constructor of each kind of table."""


def frame_of(columns: Mapping[str, Any], kind: FrameKind) -> Any:
    """Build a table of this kind from columns."""
    if not is_one_of(kind, CONSTRUCTORS):
        raise InvalidParameter(f"The kind of a table must be 'pandas', 'polars' or 'arrow', got {short_repr(kind)}.")
    package, constructor = CONSTRUCTORS[kind]
    construct = getattr(import_optional(package, f"A table of kind {kind!r}", extra="adapters"), constructor)
    try:
        return construct(dict(columns))
    except (TypeError, ValueError) as error:
        raise InvalidContexts(
            f"A column of such a table must have one type, and strings and numbers are mixed here: "
            f"{str(error).splitlines()[0]}. kind='pandas' accepts them."
        ) from error
