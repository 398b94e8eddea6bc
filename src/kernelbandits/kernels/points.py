"""The interface of point types: the only place that looks inside a point.

A kernel carries its `PointKind`. Everyone else (posteriors, policies, files) handles points through it, so a
policy over strings is the same code as a policy over vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

from numpy.typing import NDArray

from kernelbandits.types import Indices, Point, Points
from kernelbandits.validation import an_object

__all__ = ["NO_CONTEXT", "PointKind", "Shared", "a_kind", "describe_kind", "digest_of"]

NO_CONTEXT = "There has to be at least one context, got none. A round without actions needs no choice."


class Shared:
    """What belongs to the caller and never changes, but for growing: a copy of it is itself.

    So a policy and its copies look at the same kernel, similarity table or catalog, and what is added there reaches
    all of them. Pickling copies by value, once for everything in one pickle.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self


@runtime_checkable
class PointKind(Protocol):
    """How one kind of point is checked, counted, copied, compared, stored and saved.

    Kinds are frozen and can be used in several threads at once; a copy of a policy shares them.
    """

    def check(self, points: Points) -> Points:
        """Canonical form of acceptable points, or InvalidContexts. Canonical points pass unchanged."""

    def count(self, points: Points) -> int:
        """Number of points."""

    def take(self, points: Points, rows: Indices) -> Points:
        """Some of them, as a copy."""

    def one(self, points: Points, row: int) -> Point:
        """A copy of a single point, as a user would write it."""

    def single(self, point: Point) -> Points:
        """A collection that holds just this point: inverse of `one`, checked."""

    def again(self, point: Point) -> Points:
        """`single` for a point that `one` gave and nobody else has touched: it needs no second look."""

    def refuse_unlike(self, known: Points, points: Points) -> None:
        """InvalidContexts where points cannot stand beside those known, such as rows of another length."""

    def stack(self, *collections: Points) -> Points:
        """One collection after the other, at least one."""

    def keys(self, points: Points) -> list[Hashable]:
        """Equal keys if and only if the points are the same point."""

    def grow(self, store: Any, count: int, points: Points) -> Any:
        """Write points behind the first `count` of a store (None: make one); amortized, never a copy of the whole."""

    def view(self, store: Any, count: int) -> Points:
        """The first `count` points of a store, without copying them."""

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        """Arrays without objects, for saving."""

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        """Inverse of `pack`."""


def a_kind(value: PointKind) -> PointKind:
    """A kind of points, or InvalidParameter."""
    return an_object(
        value, "The kind of points", "check", "count", "take", "keys", way_out="Rows() is one, Strings() too."
    )


def describe_kind(kind: PointKind) -> Any:
    """A kind as plain values: its own `describe()`, or the name of its class."""
    describe = getattr(kind, "describe", None)
    return type(kind).__name__ if describe is None else describe()


def digest_of(kind: PointKind, points: Points) -> str:
    """A few characters, equal for equal points in equal order."""
    digest = hashlib.sha256()
    for name, array in sorted(kind.pack(points).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]
