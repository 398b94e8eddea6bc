"""Kinds of points as plain values, so that a file can say what a kernel compares."""

from __future__ import annotations

from typing import Any, Final

from kernelbandits.errors import CannotSave, ForeignFile
from kernelbandits.kernels.pairs import PairPoints
from kernelbandits.kernels.points import PointKind, describe_kind
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids, Sets, Strings

__all__ = ["pack_kind", "unpack_kind"]

NAMED: Final[dict[str, type[PointKind]]] = {"Ids": Ids, "Rows": Rows, "Sets": Sets, "Strings": Strings}


def pack_kind(kind: PointKind) -> Any:
    """The kind as plain values; CannotSave for one that has none."""
    if isinstance(kind, PairPoints):
        return {"context": pack_kind(kind.context), "action": pack_kind(kind.action)}
    if type(kind) not in NAMED.values():
        raise CannotSave(
            f"A file can name rows, strings, ids, sets and pairs of these as points, and not {describe_kind(kind)}. "
            "Hand the kernel to kb.load(path, kernel=...) again."
        )
    return describe_kind(kind)


def unpack_kind(value: Any) -> PointKind:
    """Inverse of `pack_kind`; only kinds that are named here."""
    if isinstance(value, dict) and value.keys() == {"context", "action"}:
        return PairPoints(unpack_kind(value["context"]), unpack_kind(value["action"]))
    if not isinstance(value, str) or value not in NAMED:
        raise ForeignFile(f"The file names a kind of points that this version does not know: {value!r}.")
    return NAMED[value]()
