"""Point types: serialization by name, and inference from data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from kernelbandits.errors import CannotSave, ForeignFile, InvalidContexts
from kernelbandits.kernels.pairs import PairPoints, PairRows
from kernelbandits.kernels.points import PointKind, describe_kind
from kernelbandits.kernels.rows import Rows, is_sparse
from kernelbandits.kernels.sequences import Ids, Sets, Strings
from kernelbandits.types import Pairs, Points
from kernelbandits.validation import as_iterable

__all__ = ["kind_of", "pack_kind", "unpack_kind"]

NAMED: Final[dict[str, type[PointKind]]] = {"Ids": Ids, "Rows": Rows, "Sets": Sets, "Strings": Strings}

ROWS: Final = Rows()


def pack_kind(kind: PointKind) -> Any:
    """The kind as plain values; raises CannotSave if it has no such form."""
    if isinstance(kind, PairPoints):
        return {"context": pack_kind(kind.context), "action": pack_kind(kind.action)}
    if type(kind) not in NAMED.values():
        raise CannotSave(
            f"A file can name rows, strings, ids, sets and pairs of these as points, and not {describe_kind(kind)}. "
            "Hand the kernel to kb.load(path, kernel=...) again."
        )
    return describe_kind(kind)


def unpack_kind(value: Any) -> PointKind:
    """Inverse of `pack_kind`, for the kinds listed here only."""
    if isinstance(value, dict) and value.keys() == {"context", "action"}:
        return PairPoints(unpack_kind(value["context"]), unpack_kind(value["action"]))
    if not isinstance(value, str) or value not in NAMED:
        raise ForeignFile(f"The file names a kind of points that this version does not know: {value!r}.")
    return NAMED[value]()


def kind_of(points: Points) -> PointKind:
    """Infer the kind of points; for a single point, the kind of a collection of it.

    >>> type(kind_of(["a", "b"])).__name__, type(kind_of([[0.5, 1.0]])).__name__
    ('Strings', 'Rows')
    """
    if type(points) is np.ndarray and points.dtype.kind == "f":  # the usual case
        return ROWS
    points = as_iterable(points)
    if isinstance(points, Pairs | PairRows):
        first = points.context if isinstance(points, Pairs) else points.contexts
        return PairPoints(kind_of(first), kind_of(points.actions))
    if isinstance(points, np.ndarray) and points.dtype.kind in ("USOiu" if points.ndim == 1 else "USO"):
        return kind_of(points.tolist())
    if is_sparse(points) or hasattr(points, "__array__"):
        return Rows()
    if isinstance(points, str):
        return Strings()
    if isinstance(points, int | np.integer):
        return Ids()
    if isinstance(points, set | frozenset):
        return Sets()
    if isinstance(points, Iterator):
        raise InvalidContexts(f"Contexts are read more than once, got {type(points).__name__}. Make a list of them.")
    listed = points if isinstance(points, Iterable) else ()
    members = listed if isinstance(listed, list | tuple) else list(listed)
    for kind, types in ((Strings(), str), (Ids(), int | np.integer | str), (Sets(), set | frozenset)):
        if members and all(isinstance(member, types) for member in members):
            return kind
    return Rows()
