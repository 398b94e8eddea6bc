"""Python objects in a sequence as points: strings, ids, sets, arbitrary objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits.errors import CannotSave, DamagedFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels.points import NO_CONTEXT, Shared
from kernelbandits.kernels.rows import GrowingNames
from kernelbandits.types import Indices, ItemId, Point, Points
from kernelbandits.validation import short_repr

__all__ = ["Ids", "Objects", "SequenceKind", "Sets", "Strings", "new_ids", "pack_strings", "unpack_strings"]


def _what(points: Any) -> str:
    return type(points).__name__


Item = TypeVar("Item")


class SequenceKind(Shared, ABC, Generic[Item]):
    """Base class of kinds whose points are Python objects; canonical: a list. Subclasses validate and save one item."""

    @abstractmethod
    def check_one(self, point: Any) -> Item:
        """Canonical form of one point; raises InvalidContexts."""

    def key(self, item: Item) -> Hashable:
        """Hashable key that distinguishes items."""
        return item

    def check(self, points: Points) -> list[Item]:
        items = self.listed(points)
        if not items:
            raise InvalidContexts(NO_CONTEXT)
        return items

    def listed(self, points: Points) -> list[Item]:
        """Points in canonical form; may be empty."""
        self.check_ordered(points)
        return [self.check_one(point) for point in points]

    def check_ordered(self, points: Points) -> None:
        """Raise InvalidContexts for anything but a sequence of points: a single point, a set, a table of columns."""
        if type(points) is list:
            return
        is_ordered = isinstance(points, Iterable) and not isinstance(points, (str, bytes, Mapping, set, frozenset))
        n_axes = getattr(points, "ndim", 1)
        is_table = hasattr(points, "tocsr") or (n_axes != 1 and not isinstance(points, np.ndarray))
        if not is_ordered or n_axes == 0 or is_table:
            raise InvalidContexts(
                f"Contexts must be a sequence, one entry an action, got {_what(points)}. One action: [context]."
            )

    def count(self, points: Points) -> int:
        self.check_ordered(points)
        return len(points) if hasattr(points, "__len__") else len(self.listed(points))

    def take(self, points: Points, rows: Indices) -> list[Item]:
        return [points[row] for row in rows]

    def one(self, points: Points, row: int) -> Point:
        return points[row]

    def as_collection(self, point: Point) -> list[Item]:
        return [self.check_one(point)]

    def from_trusted(self, point: Point) -> list[Item]:
        return [point]

    def validate_comparable(self, known: Points, points: Points) -> None:
        """Accept anything: any two items are compatible."""

    def stack(self, *collections: Points) -> list[Item]:
        return list(chain.from_iterable(collections))

    def keys(self, points: Points) -> list[Hashable]:
        return [self.key(item) for item in points]

    def grow(self, store: Any, count: int, points: Points) -> list[Item]:
        store = [] if store is None else store
        store[count:] = points
        return store  # type: ignore[no-any-return]

    def view(self, store: Any, count: int) -> list[Item]:
        return store[:count]  # type: ignore[no-any-return]  # copies references: the buffer continues to grow

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        """Arrays without objects, for saving."""

    @abstractmethod
    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        """Inverse of `pack`."""


class Strings(SequenceKind[str]):
    """Kind of sequences of str."""

    def check_one(self, point: Any) -> str:
        if not isinstance(point, str):
            raise InvalidContexts(f"This kernel compares strings, got {_what(point)}: {short_repr(point)}.")
        return str(point)

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        return pack_strings(points)

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
        return unpack_strings(arrays)


LONGEST_ID: Final = 4_096
"""Largest number of bits of an integer id: longer ones cannot be written as text everywhere."""


class Ids(SequenceKind[ItemId]):
    """Kind of integer or string ids."""

    def check_one(self, point: Any) -> ItemId:
        if isinstance(point, str):
            return str(point)
        if isinstance(point, (int, np.integer)) and not isinstance(point, (bool, np.bool_, np.timedelta64)):
            if abs(int(point)).bit_length() > LONGEST_ID:
                raise InvalidContexts(f"An integer that is an id has at most {LONGEST_ID} bits, got a longer one.")
            return int(point)
        raise InvalidContexts(f"An id is an integer or a string, got {_what(point)}: {short_repr(point)}.")

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        is_text = np.array([isinstance(item, str) for item in points], dtype=np.uint8)
        return {"is_text": is_text, **pack_strings([str(item) for item in points])}

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> list[ItemId]:
        texts = unpack_strings(arrays)
        is_text = saved_array(arrays, "is_text", "u", (len(texts),), most=1).tolist()
        try:
            return [text if its_text else int(text) for text, its_text in zip(texts, is_text, strict=True)]
        except ValueError as error:
            raise DamagedFile(f"An id in the file must be a whole number: {error}.") from error


class Sets(SequenceKind[frozenset[ItemId]]):
    """Kind of sequences of sets of strings and integers."""

    def check_one(self, point: Any) -> frozenset[ItemId]:
        if isinstance(point, (str, bytes, Mapping)) or not isinstance(point, (set, frozenset, list, tuple)):
            raise InvalidContexts(
                f"This kernel compares sets, got {_what(point)}: {short_repr(point)}. Wrap it: {{'a', 'b'}}."
            )
        return frozenset(Ids().check_one(member) for member in point)

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        sizes = np.array([len(members) for members in points], dtype=np.int64)
        members = [member for item in points for member in sorted(item, key=repr)]
        return {"sizes": sizes, **Ids().pack(members)}

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> list[frozenset[ItemId]]:
        members = Ids().unpack(arrays)
        sizes = saved_array(arrays, "sizes", "i", (None,), least=0, most=len(members))
        ends = np.cumsum(sizes).tolist()
        if (ends[-1] if ends else 0) != len(members):
            raise DamagedFile(f"The sets in the file have {len(members)} members, which does not match their sizes.")
        return [frozenset(members[a:b]) for a, b in pairwise([0, *ends])]


class Objects(SequenceKind[Any]):
    """Kind of arbitrary objects: graphs, trees, time series. `key` identifies points; saving needs `pack` and `unpack`.

    Parameters
    ----------
    key
        Maps a point to something hashable; equal keys mean the same point. The point itself by default.
    pack, unpack
        Convert a list of points to a dictionary of arrays, and back.
    """

    def __init__(
        self,
        *,
        key: Callable[[Any], Hashable] | None = None,
        pack: Callable[[list[Any]], dict[str, NDArray[Any]]] | None = None,
        unpack: Callable[[Mapping[str, NDArray[Any]]], list[Any]] | None = None,
    ) -> None:
        self._key, self._pack, self._unpack = key, pack, unpack

    def check_one(self, point: Any) -> Any:
        try:
            hash(self.key(point))
        except TypeError as error:
            raise InvalidContexts(
                f"Points of type {_what(point)} cannot be compared: {error}. Pass a key: Objects(key=...)."
            ) from error
        return point

    def key(self, item: Any) -> Hashable:
        return item if self._key is None else self._key(item)

    def pack(self, points: Points) -> dict[str, NDArray[Any]]:
        if self._pack is None or self._unpack is None:
            raise CannotSave("These points are objects of your own. Saving needs Objects(pack=..., unpack=...).")
        return self._pack(list(points))

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> Points:
        if self._unpack is None:
            raise CannotSave("These points are objects of your own. Loading needs Objects(pack=..., unpack=...).")
        return self._unpack(arrays)


def pack_strings(strings: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Strings as one block of bytes and the end offset of each."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": np.asarray(ends, dtype=np.int64)}


def unpack_strings(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Inverse of `pack_strings`."""
    text = saved_array(arrays, "text", "u", (None,)).tobytes()
    ends = saved_array(arrays, "ends", "i", (None,), least=0, most=len(text))
    if (np.diff(ends) < 0).any() or (ends[-1] if len(ends) else 0) != len(text):
        raise DamagedFile("'ends' in the file must rise up to the length of the text.")
    try:
        return [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends.tolist()])]
    except UnicodeDecodeError as error:
        raise DamagedFile(f"A text in the file is not in UTF-8: {error}.") from error


def new_ids(ids: Sequence[ItemId], count: int, known: GrowingNames[ItemId], owner: str) -> list[ItemId]:
    """Validate ids of new items: one per item, distinct and new; return their canonical form."""
    try:
        names = Ids().listed(ids)
    except InvalidContexts as error:
        raise InvalidParameter(f"The ids of {owner} cannot be used. {error}") from error
    if len(names) != count:
        raise InvalidParameter(f"There must be one id per item, got {len(names)} ids for {count} items.")
    seen: set[ItemId] = set()
    for name in names:
        if name in seen or known.row(name) >= 0:
            raise InvalidParameter(f"The ids of {owner} must be unique, and {name!r} occurs twice.")
        seen.add(name)
    return names
