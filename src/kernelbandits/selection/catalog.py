"""Catalogs: fixed or growing action sets that are queried many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from kernelbandits._sparse import sound
from kernelbandits._transactions import ForkedLock
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import PointKind
from kernelbandits.kernels.kinds import kind_of
from kernelbandits.kernels.points import Shared
from kernelbandits.kernels.rows import GrowingNames, is_sparse
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, ItemId, Pairs, Point, Points
from kernelbandits.validation import as_iterable

__all__ = ["Catalog", "CatalogView"]


class Catalog(Shared):
    """Set of actions that is queried in many rounds. It can grow, its items never change, and it holds no model state.

    Items are any points that the kernel accepts; they are copied. Ids are integers or strings, one per item, all
    distinct; without ids an item is identified by its row. A policy that is passed the same catalog each round reuses
    what it computed for it.

    A catalog can be used and can grow in several threads at once: a query sees the catalog before or after a growth,
    and an interrupted growth adds nothing. `copy` returns the catalog itself, so that several policies and their copies
    can share it.

    >>> catalog = Catalog([[0.0], [0.5], [1.0]], ids=["low", "middle", "high"])
    >>> catalog.add([[2.0]], ids=["very high"])
    array([3])
    >>> catalog.without(["middle"]).rows
    array([0, 2, 3])
    """

    def __init__(self, items: Points, *, ids: Sequence[ItemId] | None = None) -> None:
        chunk = _copied(items)
        n_items = _counted(chunk)
        names = None if ids is None else GrowingNames(_checked_ids(ids, n_items, GrowingNames()))
        self._writing = ForkedLock()
        self._now = _Moment((chunk,), (n_items,), names)

    @property
    def n_items(self) -> int:
        """Current number of items: `len(catalog)`."""
        return self._now.n_items

    def __len__(self) -> int:
        return self._now.n_items

    @property
    def kind(self) -> PointKind:
        """Point kind of the items."""
        return kind_of(self._now.chunks[0])

    @property
    def ids(self) -> Sequence[ItemId] | None:
        """Ids in the order of rows; None if items are identified by their rows."""
        names = self._now.names
        return None if names is None else tuple(names.listed())

    def add(self, items: Points, *, ids: Sequence[ItemId] | None = None) -> Indices:
        """Append items and return their rows. All arguments are validated first: a rejected call adds nothing."""
        chunk = _copied(items)
        n_new = _counted(chunk)
        with self._writing.lock:
            before = self._now
            names = before.names
            if (ids is None) != (names is None):
                raise InvalidParameter(
                    f"This catalog has {'no ids' if names is None else 'an id for every item'}, so new items "
                    f"{'cannot have them either' if names is None else 'need theirs too'}. Ids are given for all "
                    "items or for none."
                )
            if names is not None and ids is not None:
                ids = _checked_ids(ids, n_new, names)
                names = names.grown(ids)
            after = _Moment((*before.chunks, chunk), (*before.sizes, n_new), names)
            after.continue_from(before)
            if self._now is before:
                self._now = after
                return np.arange(before.n_items, after.n_items)
        return self.add(chunk, ids=ids)  # a signal handler added items in between; they come first

    def only(self, ids: Iterable[ItemId]) -> CatalogView:
        """View of these items only (ids, or rows if there are no ids)."""
        return CatalogView(self, None).only(ids)

    def without(self, ids: Iterable[ItemId]) -> CatalogView:
        """View of all items except these."""
        return CatalogView(self, None).without(ids)

    def given(self, context: Point) -> CatalogView:
        """View of all items joined with a shared context, for pair kernels."""
        return CatalogView(self, None).given(context)

    def row(self, item: ItemId) -> int:
        """Row of an id; raises UnknownItem."""
        return self._now.row(item)

    def item(self, row: int) -> ItemId:
        """Id of a row; the row itself if there are no ids."""
        now = self._now
        if now.names is None:
            return row
        if not isinstance(row, int | np.integer) or not 0 <= row < now.n_items:
            raise UnknownItem(f"No row {row!r} in this catalog; its rows are 0 to {now.n_items - 1}.")
        return now.names[row]

    def points(self, kind: PointKind) -> Points:
        """All items in the canonical form of a kernel's kind, computed once and cached; raises InvalidContexts."""
        return self._now.points(kind)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by value, in the current state; canonical forms are recomputed."""
        now = self._now
        return _catalog_of, (now.chunks, now.sizes, None if now.names is None else now.names.listed())


def _catalog_of(chunks: tuple[Points, ...], sizes: tuple[int, ...], ids: list[ItemId] | None) -> Catalog:
    catalog = Catalog.__new__(Catalog)
    catalog._writing = ForkedLock()
    catalog._now = _Moment(chunks, sizes, None if ids is None else GrowingNames(ids))
    return catalog


class _Moment:
    """Immutable snapshot of the items of a catalog."""

    def __init__(self, chunks: tuple[Points, ...], sizes: tuple[int, ...], names: GrowingNames[ItemId] | None) -> None:
        self.chunks = chunks
        """Items as they were passed; the kernel interprets them."""
        self.sizes = sizes
        self.names = names
        self.n_items = sum(sizes)
        self._canonical: dict[PointKind, _Canonical] = {}
        self._latest: tuple[PointKind, Points] | None = None

    def row(self, item: ItemId) -> int:
        """Row of an id; raises UnknownItem."""
        names = self.names
        if names is not None:
            row = names.row(item) if _is_id(item) else -1
        else:
            is_row = isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < self.n_items
            row = int(item) if is_row else -1
        if row < 0:
            known = f"rows 0 to {self.n_items - 1}" if names is None else f"{self.n_items} ids, such as {names[0]!r}"
            raise UnknownItem(f"No item {item!r} in this catalog, which knows {known}. Add it first: catalog.add.")
        return row

    def points(self, kind: PointKind) -> Points:
        """All items in the canonical form of a kind; two threads that call it first may both compute it."""
        latest = self._latest
        if latest is not None and latest[0] is kind:  # comparing kinds is slow, and it is mostly the same one
            return latest[1]
        held = self._canonical.get(kind)
        if held is None:
            held = _Canonical(None, 0)
            for chunk, size in zip(self.chunks, self.sizes, strict=True):
                held = held.extended(kind, chunk, size)
            self._canonical[kind] = held
        points = kind.view(held.store, held.n_items)
        self._latest = kind, points
        return points

    def continue_from(self, before: _Moment) -> None:
        """Extend the cached canonical forms of the previous snapshot by the last chunk, validating it for each kind."""
        for kind, held in before._canonical.copy().items():
            self._canonical[kind] = held.extended(kind, self.chunks[-1], self.sizes[-1])


class _Canonical:
    """The first items of a catalog in the canonical form of one kind, in a buffer that may hold more."""

    def __init__(self, store: Any, n_items: int) -> None:
        self.store, self.n_items = store, n_items
        self._has_grown = False

    def extended(self, kind: PointKind, chunk: Points, size: int) -> Self:
        """These items and more. They share the buffer, unless it was extended from here before."""
        points = kind.check(chunk)
        if kind.count(points) != size:
            raise InvalidContexts(
                f"A catalog of {size} items has {kind.count(points)} points for this kernel ({kind!r:.60}). Give one "
                "entry an item, in the form that the kernel takes."
            )
        store = self.store
        if self._has_grown:
            store = kind.grow(None, 0, kind.take(kind.view(store, self.n_items), np.arange(self.n_items)))
        self._has_grown = store is not None
        return type(self)(kind.grow(store, self.n_items, points), self.n_items + size)


class CatalogView:
    """Restriction of a catalog for one round; `only`, `without` and `given` can be chained.

    It contains the items that existed when it was created, in the order of the catalog's rows.
    """

    def __init__(
        self,
        catalog: Catalog,
        rows: Indices | None,
        context: Point | None = None,
        moment: _Moment | None = None,
    ) -> None:
        self.catalog = catalog
        self._moment = catalog._now if moment is None else moment
        self.context = context
        """Context that every item is joined with; None for items without a context."""
        self._rows = rows
        self.names = self._moment.names
        """Ids of the items of the catalog; None for items that go by their rows."""
        self.n_items = self._moment.n_items if rows is None else len(rows)
        """Number of items in the view: `len(view)`."""

    def __len__(self) -> int:
        return self.n_items

    @property
    def rows(self) -> Indices:
        """Rows in the whole catalog, lowest first."""
        return np.arange(self.n_items) if self._rows is None else self._rows

    @property
    def is_whole(self) -> bool:
        """Whether the view contains every item of the catalog."""
        return self.n_items == self.catalog.n_items

    @property
    def ids(self) -> Sequence[ItemId]:
        """Ids of these items; rows if there are no ids."""
        return [self.catalog.item(int(row)) for row in self.rows]

    def only(self, ids: Iterable[ItemId]) -> CatalogView:
        """Intersection of this view with these items; items excluded by an earlier restriction stay excluded."""
        named = self._named(ids)
        rows = named if self._rows is None else np.intersect1d(named, self._rows, assume_unique=True)
        return self._restricted(rows[rows < self._end()])

    def without(self, ids: Iterable[ItemId]) -> CatalogView:
        """View of these items except the listed ones."""
        return self._restricted(np.setdiff1d(self.rows, self._named(ids), assume_unique=True))

    def given(self, context: Point) -> CatalogView:
        """View of these items joined with a shared context, for pair kernels."""
        if self.context is not None:
            raise InvalidParameter("These items are joined with a context already. Start from the catalog again.")
        return CatalogView(self.catalog, self._rows, context, self._moment)

    def at(self, places: Indices) -> CatalogView:
        """View of the items at these places, lowest first."""
        return self._restricted(self.rows[places])

    def points(self, kind: PointKind) -> Points:
        """The items, or their pairs with the context, in the canonical form of a kernel's kind."""
        if self.context is None:
            points = self._moment.points(kind)
            return points if self._rows is None else kind.take(points, self._rows)
        action_kind = getattr(kind, "action", None)
        if action_kind is None:
            raise InvalidContexts(
                "These items are joined with a context, and this kernel compares items that stand alone. Take a pair "
                "kernel (PairProduct, PairSum), or leave `given` out."
            )
        actions = self._moment.points(action_kind)
        if self._rows is not None:
            actions = action_kind.take(actions, self._rows)
        return kind.check(Pairs(self.context, actions))

    def _named(self, ids: Iterable[ItemId]) -> Indices:
        is_collection = isinstance(ids, Iterable) and getattr(ids, "ndim", 1) == 1
        if isinstance(ids, str | bytes) or not is_collection:
            raise InvalidParameter(f"Ids are given as a collection, got {ids!r}. One item: [{ids!r}].")
        return np.unique(np.array([self.catalog.row(item) for item in ids], dtype=np.intp))

    def _restricted(self, rows: Indices) -> CatalogView:
        if not len(rows):
            raise InvalidContexts("No item is left. A round without items needs no choice.")
        return CatalogView(self.catalog, rows, self.context, self._moment)

    def _end(self) -> int:
        """One past the last row that existed when the view was created."""
        return self.n_items if self._rows is None else int(self._rows[-1]) + 1


def _is_id(item: object) -> bool:
    return isinstance(item, str | int | np.integer) and not isinstance(item, bool)


def _checked_ids(ids: Sequence[ItemId], n_items: int, known: GrowingNames[ItemId]) -> list[ItemId]:
    """Validate one id per item, distinct and new; raise InvalidParameter otherwise."""
    try:
        checked = Ids().listed(ids)
    except InvalidContexts as error:
        raise InvalidParameter(f"These ids cannot be used. {error}") from error
    if len(checked) != n_items:
        raise InvalidParameter(f"There must be one id per item: {n_items} items, {len(checked)} ids.")
    seen: set[ItemId] = set()
    for item in checked:
        if known.row(item) >= 0 or item in seen:
            raise InvalidParameter(f"Every item has an id of its own; {item!r} stands there twice. Leave one out.")
        seen.add(item)
    return checked


def _copied(items: Points) -> Points:
    """Copy of the items, independent of the caller's objects."""
    items = as_iterable(items)
    if isinstance(items, Pairs):
        raise InvalidContexts(
            "A catalog holds what can be chosen, without a context. Give the actions: Catalog(actions), and the "
            "context with each round: catalog.given(context)."
        )
    if isinstance(items, np.ndarray) and not items.shape:
        raise InvalidContexts(
            f"Items are a sequence or an array, one entry an item, got the single value {items!r:.40}."
        )
    if is_sparse(items):
        return sound(items).copy()
    if getattr(items, "shape", ()) and hasattr(items, "copy") and getattr(items, "dtype", None) != np.dtype(object):
        return items.copy()
    if isinstance(items, str | bytes | Mapping | set | frozenset) or not isinstance(items, Iterable):
        raise InvalidContexts(f"Items are a sequence or an array, one entry an item, got {type(items).__name__}.")
    try:
        return [copy(item) for item in items]
    except TypeError as error:
        raise InvalidContexts(f"Items are copied, and one of these cannot be: {error}.") from error


def _counted(items: Points) -> int:
    n_items = int(items.shape[0]) if hasattr(items, "shape") else len(items)
    if not n_items:
        raise InvalidContexts("There must be at least one item, got none.")
    return n_items
