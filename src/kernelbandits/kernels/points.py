"""Interface of point types: only they inspect points.

A kernel has a `PointKind`. All other components (posteriors, policies, files) handle points through it, so a
policy over strings is the same code as a policy over vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

from numpy.typing import NDArray

from kernelbandits.types import Indices, Point, Points
from kernelbandits.validation import check_has_methods

__all__ = ["NO_CONTEXT", "PointKind", "Shared", "check_kind", "describe_kind", "digest_of"]

NO_CONTEXT = "There must be at least one context, got none."


class Shared:
    """Base class of objects that belong to the caller and never change except by growing: a copy is the object itself.

    So a policy and its copies use the same kernel, similarity table or catalog, and what is added there is visible to
    all of them. Pickling copies by value, once per object in a pickle.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self


@runtime_checkable
class PointKind(Protocol):
    """Protocol of a point type: validation, counting, copying, comparison, storage and serialization.

    Kinds are immutable and can be used in several threads at once; a copy of a policy shares them.
    """

    def check(self, points: Points) -> Points:
        """Canonical form of valid points; raises InvalidContexts. Canonical points are returned unchanged."""

    def count(self, points: Points) -> int:
        """Number of points."""

    def take(self, points: Points, rows: Indices) -> Points:
        """Points at these rows, as a copy."""

    def one(self, points: Points, row: int) -> Point:
        """Copy of a single point, in the form that users pass."""

    def as_collection(self, point: Point) -> Points:
        """Collection that holds just this point: inverse of `one`, validated."""

    def from_trusted(self, point: Point) -> Points:
        """`as_collection` without validation, for an unmodified point returned by `one`."""

    def validate_comparable(self, known: Points, points: Points) -> None:
        """Raise InvalidContexts if points are incompatible with the known ones, such as rows of another length."""

    def stack(self, *collections: Points) -> Points:
        """Concatenate one or more collections."""

    def keys(self, points: Points) -> list[Hashable]:
        """Hashable keys, equal if and only if the points are equal."""

    def grow(self, store: Any, count: int, points: Points) -> Any:
        """Write points after the first `count` of a buffer (None: create one), in amortized time, never copying all."""

    def view(self, store: Any, count: int) -> Points:
        """The first `count` points of a buffer, without a copy."""

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        """Arrays without objects, for saving."""

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        """Inverse of `pack`."""


def check_kind(value: PointKind) -> PointKind:
    """Validate a kind of points; raise InvalidParameter otherwise."""
    return check_has_methods(
        value, "The kind of points", "check", "count", "take", "keys", hint="Rows() is one, Strings() too."
    )


def describe_kind(kind: PointKind) -> Any:
    """A kind as plain values: its own `describe()`, or the name of its class."""
    describe = getattr(kind, "describe", None)
    return type(kind).__name__ if describe is None else describe()


def digest_of(kind: PointKind, points: Points) -> str:
    """Short digest, equal for equal points in equal order."""
    digest = hashlib.sha256()
    for name, array in sorted(kind.pack(points).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]
