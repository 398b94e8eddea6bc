"""Catalogs: action sets that are queried many times, and may change between queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from kernelbandits._sparse import sound
from kernelbandits._text import array_text, brief, html_table, listed_briefly
from kernelbandits._transactions import ForkedLock
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import PointKind
from kernelbandits.kernels.kinds import kind_of
from kernelbandits.kernels.points import Shared
from kernelbandits.kernels.rows import GrowingNames, is_sparse
from kernelbandits.kernels.sequences import new_ids
from kernelbandits.types import MOST_ROWS, Indices, ItemId, Pairs, Point, Points
from kernelbandits.validation import as_iterable, short_repr

__all__ = ["Catalog", "CatalogView", "Generation"]


class Catalog(Shared):
    """Set of actions that is queried in many rounds. Items can be added and removed; a catalog holds no model state.

    Items are any points that the kernel accepts; they are copied, and never change. Ids are integers or strings, one
    per item, all distinct; without ids an item is identified by its row. A policy that is passed the same catalog each
    round reuses what it computed for it, also after a change.

    A catalog can be used and changed in several threads at once: a query sees the catalog before or after a change, and
    an interrupted change does nothing. `copy` returns the catalog itself, so that several policies and their copies can
    share it.

    >>> catalog = Catalog([[0.0], [0.5], [1.0]], ids=["low", "middle", "high"])
    >>> catalog.add([[2.0]], ids=["very high"])
    array([3])
    >>> catalog.without(["middle"]).rows
    array([0, 2, 3])
    >>> catalog.remove(["low", "high"])
    >>> catalog.ids
    ('middle', 'very high')
    """

    def __init__(self, items: Points, *, ids: Sequence[ItemId] | None = None) -> None:
        chunk = _copied(items)
        n_items = _counted(chunk)
        names = None if ids is None else GrowingNames(new_ids(ids, n_items, GrowingNames(), "a catalog"))
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
                ids = new_ids(ids, n_new, names, "a catalog")
                names = names.grown(ids)
            after = _Moment((*before.chunks, chunk), (*before.sizes, n_new), names, before.generation)
            after.continue_from(before)
            if self._now is before:
                self._now = after
                return np.arange(before.n_items, after.n_items)
        return self.add(chunk, ids=ids)  # a signal handler changed the catalog in between; its change comes first

    def remove(self, ids: Iterable[ItemId]) -> None:
        """Remove items. The rows of later items move up, so only a catalog with ids has this method.

        All ids are validated first: a rejected call removes nothing. What policies learned from removed items remains
        learned, and the rewards of pending decisions can still be learned. A view that was created before still
        contains the removed items. The ids are free for new items. A call takes time in proportion to the size of the
        catalog, so remove many items at once.
        """
        listed = _listed_ids(ids)
        with self._writing.lock:
            before = self._now
            if before.names is None:
                raise InvalidParameter(
                    "The items of this catalog are identified by their rows, which would change. Give ids: "
                    "Catalog(items, ids=…); or leave items out of a round: catalog.without(rows)."
                )
            rows = np.unique(np.array([before.row(item) for item in listed], dtype=np.intp))
            if not len(rows):
                return
            if len(rows) == before.n_items:
                raise InvalidParameter(f"A catalog has at least one item, and these are all {len(rows)}. Keep one.")
            after = before.without(rows)
            if self._now is before:
                before.generation.end = rows, after.generation
                self._now = after
                return
        self.remove(listed)  # as in `add`

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
        return self._now.item(row)

    def points(self, kind: PointKind) -> Points:
        """All items in the canonical form of a kernel's kind, computed once and cached; raises InvalidContexts."""
        return self._now.points(kind)

    def __repr__(self) -> str:
        now = self._now
        names = range(now.n_items) if now.names is None else map(now.names.__getitem__, range(now.n_items))
        kind = type(self.kind).__name__.lower()
        word = "ids" if now.names is not None else "rows"
        return f"Catalog({now.n_items:,} items of {kind}; {word} {listed_briefly(names, now.n_items)})"

    def _repr_html_(self) -> str:
        now = self._now
        shown = [[row, now.item(row), _shown_item(now, row)] for row in range(min(MOST_ROWS, now.n_items))]
        return html_table(f"Catalog of {now.n_items:,} items", shown, ["row", "id", "item"])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by value, in the current state; canonical forms are recomputed."""
        now = self._now
        return _catalog_of, (now.chunks, now.sizes, None if now.names is None else now.names.listed())


def _catalog_of(chunks: tuple[Points, ...], sizes: tuple[int, ...], ids: list[ItemId] | None) -> Catalog:
    catalog = Catalog.__new__(Catalog)
    catalog._writing = ForkedLock()
    catalog._now = _Moment(chunks, sizes, None if ids is None else GrowingNames(ids))
    return catalog


class Generation:
    """Time between two removals, in which the row of an item does not change."""

    __slots__ = ("end", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.end: tuple[Indices, Generation] | None = None
        """Rows that were removed at its end, and the next generation; None while it lasts."""


class _Moment:
    """Immutable snapshot of the items of a catalog."""

    def __init__(
        self,
        chunks: tuple[Points, ...],
        sizes: tuple[int, ...],
        names: GrowingNames[ItemId] | None,
        generation: Generation | None = None,
    ) -> None:
        self.generation = Generation() if generation is None else generation
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
            raise UnknownItem(f"No item {item!r} in this catalog, which knows {known}. New items come by catalog.add.")
        return row

    def item(self, row: int) -> ItemId:
        """Id of a row; the row itself if there are no ids."""
        if self.names is None:
            return row
        if not isinstance(row, int | np.integer) or not 0 <= row < self.n_items:
            raise UnknownItem(f"No row {row!r} in this catalog; its rows are 0 to {self.n_items - 1}.")
        return self.names[row]

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

    def without(self, rows: Indices) -> _Moment:
        """Snapshot of the next generation, without these rows, which are sorted and not all."""
        assert self.names is not None
        is_kept = np.ones(self.n_items, dtype=bool)
        is_kept[rows] = False
        ends = np.cumsum(self.sizes)
        parts = [np.flatnonzero(part) for part in np.split(is_kept, ends[:-1])]
        kept = [(chunk, part) for chunk, part in zip(self.chunks, parts, strict=True) if len(part)]
        names = [name for name, stays in zip(self.names.listed(), is_kept.tolist(), strict=True) if stays]
        after = _Moment(
            tuple(_taken(chunk, part) for chunk, part in kept),
            tuple(len(part) for _, part in kept),
            GrowingNames(names),
            Generation(self.generation.number + 1),
        )
        for kind, held in self._canonical.copy().items():
            after._canonical[kind] = held.taken(kind, np.flatnonzero(is_kept))
        return after


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

    def taken(self, kind: PointKind, rows: Indices) -> Self:
        """Some of these items, in a buffer of their own."""
        points = kind.take(kind.view(self.store, self.n_items), rows)
        return type(self)(kind.grow(None, 0, points), len(rows))


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

    def __repr__(self) -> str:
        context = "" if self.context is None else f", given {brief(self.context)}"
        items = listed_briefly(map(self._moment.item, map(int, self.rows[:4])), self.n_items)
        return f"CatalogView({self.n_items:,} of {self._moment.n_items:,} items: {items}{context})"

    @property
    def rows(self) -> Indices:
        """Rows in the whole catalog, lowest first."""
        return np.arange(self.n_items) if self._rows is None else self._rows

    @property
    def is_whole(self) -> bool:
        """Whether the view contains every item that the catalog now has."""
        now = self.catalog._now
        return self._moment.generation is now.generation and self.n_items == now.n_items

    @property
    def ids(self) -> Sequence[ItemId]:
        """Ids of these items; rows if there are no ids."""
        return [self._moment.item(int(row)) for row in self.rows]

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
        return np.unique(np.array([self._row(item) for item in _listed_ids(ids)], dtype=np.intp))

    def _row(self, item: ItemId) -> int:
        """Row of an id; a row after all others for an item that was added later."""
        try:
            return self._moment.row(item)
        except UnknownItem:
            self.catalog.row(item)
            return self._moment.n_items

    def _restricted(self, rows: Indices) -> CatalogView:
        if not len(rows):
            raise InvalidContexts("No item is left. A round without items needs no choice.")
        return CatalogView(self.catalog, rows, self.context, self._moment)

    def _end(self) -> int:
        """One past the last row that existed when the view was created."""
        return self.n_items if self._rows is None else int(self._rows[-1]) + 1


def _listed_ids(ids: Iterable[ItemId]) -> list[ItemId]:
    is_collection = isinstance(ids, Iterable) and getattr(ids, "ndim", 1) == 1
    if isinstance(ids, str | bytes) or not is_collection:
        raise InvalidParameter(f"Ids are given as a collection, got {short_repr(ids)}. One item: [{short_repr(ids)}].")
    return list(ids)


def _is_id(item: object) -> bool:
    return isinstance(item, str | int | np.integer) and not isinstance(item, bool)


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


def _taken(items: Points, rows: Indices) -> Points:
    """Some entries of a return value of `_copied`."""
    if isinstance(items, list):
        return [items[row] for row in rows]
    if hasattr(items, "iloc"):  # a data frame
        return items.iloc[rows]
    return sound(items).tocsr()[rows] if is_sparse(items) else items[rows]


def _shown_item(now: _Moment, row: int) -> str:
    """One item as it was passed."""
    chunk = int(np.searchsorted(np.cumsum(now.sizes), row, side="right"))
    items, place = now.chunks[chunk], row - sum(now.sizes[:chunk])
    item = items[place] if isinstance(items, list) else _taken(items, np.array([place]))
    return array_text(item[0]) if isinstance(item, np.ndarray) and item.ndim == 2 else brief(item)


def _counted(items: Points) -> int:
    n_items = int(items.shape[0]) if hasattr(items, "shape") else len(items)
    if not n_items:
        raise InvalidContexts("There must be at least one item, got none.")
    return n_items
