"""Actions that are asked about again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import PointKind
from kernelbandits.kernels.looks import kind_of
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, ItemId, Pairs, Point, Points

__all__ = ["Catalogue", "CatalogueView"]


class Catalogue:
    """Actions that are asked about again and again; grows, never changes; holds no model state.

    Items are whatever the kernel takes, and are copied. Ids are integers or strings, one per item, each once; without
    ids an item goes by its row. A policy that is given the same catalogue each round keeps what it computed for it.

    >>> catalogue = Catalogue([[0.0], [0.5], [1.0]], ids=["low", "middle", "high"])
    >>> catalogue.add([[2.0]], ids=["very high"])
    array([3])
    >>> catalogue.without(["middle"]).rows
    array([0, 2, 3])
    """

    def __init__(self, items: Points, *, ids: Sequence[ItemId] | None = None) -> None:
        self._chunks = [_copied(items)]  # as they were given: what they mean is for a kernel to say
        self.n_items = _counted(self._chunks[0])
        """Items that are here now: `len(catalogue)`."""
        self._ids: list[ItemId] | None = None
        self._rows: dict[ItemId, int] = {}
        if ids is not None:
            self._ids = _checked_ids(ids, self.n_items, self._rows)
            self._rows = {item: row for row, item in enumerate(self._ids)}
        self._canonical: dict[PointKind, _Canonical] = {}
        self._latest: tuple[PointKind, Points] | None = None

    def __len__(self) -> int:
        return self.n_items

    @property
    def kind(self) -> PointKind:
        """What the items look like."""
        return kind_of(self._chunks[0])

    @property
    def ids(self) -> Sequence[ItemId] | None:
        """Ids in the order of rows; None where items go by their rows."""
        return None if self._ids is None else tuple(self._ids)

    def add(self, items: Points, *, ids: Sequence[ItemId] | None = None) -> Indices:
        """Append; rows of the new items. Everything is checked first: a refused call adds nothing."""
        chunk = _copied(items)
        n_new = _counted(chunk)
        if (ids is None) != (self._ids is None):
            raise InvalidParameter(
                f"This catalogue has {'no ids' if self._ids is None else 'an id for every item'}, so new items "
                f"{'cannot have them either' if self._ids is None else 'need theirs too'}. Ids are given for all "
                "items or for none."
            )
        new_ids = None if ids is None else _checked_ids(ids, n_new, self._rows)
        chunks = [*self._chunks, chunk]
        self._canonical = {  # kernels that use it already have their say before it grows
            kind: held.extended(kind, chunks[held.n_chunks :]) for kind, held in self._canonical.items()
        }
        self._chunks = chunks
        if self._ids is not None and new_ids is not None:
            self._rows.update((item, self.n_items + place) for place, item in enumerate(new_ids))
            self._ids.extend(new_ids)
        self.n_items += n_new
        self._latest = None
        return np.arange(self.n_items - n_new, self.n_items)

    def only(self, ids: Iterable[ItemId]) -> CatalogueView:
        """These items only (ids; rows when there are none)."""
        return CatalogueView(self, None).only(ids)

    def without(self, ids: Iterable[ItemId]) -> CatalogueView:
        """All but these items."""
        return CatalogueView(self, None).without(ids)

    def given(self, context: Point) -> CatalogueView:
        """Every item joined with a shared context, for pair kernels."""
        return CatalogueView(self, None).given(context)

    def row(self, item: ItemId) -> int:
        """Row of an id, or UnknownItem."""
        if self._ids is not None:
            row = self._rows.get(item)
        else:
            is_row = isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < self.n_items
            row = int(item) if is_row else None
        if row is None:
            ids = self._ids
            known = f"rows 0 to {self.n_items - 1}" if ids is None else f"{self.n_items} ids, such as {ids[0]!r}"
            raise UnknownItem(f"No item {item!r} in this catalogue, which knows {known}. Add it first: catalogue.add.")
        return row

    def item(self, row: int) -> ItemId:
        """Id of a row; the row itself where there are no ids."""
        return row if self._ids is None else self._ids[row]

    def points(self, kind: PointKind) -> Points:
        """All items in the canonical form of a kernel's kind, or InvalidContexts; computed once and kept."""
        if self._latest is not None and self._latest[0] is kind:  # kinds compare slowly, and mostly it is the same
            return self._latest[1]
        held = self._canonical.get(kind)
        if held is None or held.n_chunks < len(self._chunks):
            held = (held or _Canonical(None, 0, 0)).extended(kind, self._chunks[held.n_chunks if held else 0 :])
            self._canonical[kind] = held
        self._latest = kind, kind.view(held.store, held.n_items)
        return self._latest[1]


class _Canonical(NamedTuple):
    """The first items of a catalogue in the form of one kind."""

    store: Any
    n_items: int
    n_chunks: int

    def extended(self, kind: PointKind, chunks: Sequence[Points]) -> _Canonical:
        """The same with more of the catalogue; all of it is checked before the store grows."""
        checked = [kind.check(chunk) for chunk in chunks]
        store, count = self.store, self.n_items
        for points in checked:
            store = kind.grow(store, count, points)
            count += kind.count(points)
        return _Canonical(store, count, self.n_chunks + len(chunks))


class CatalogueView:
    """A restriction of a catalogue for one round; `only`, `without`, `given` apply again.

    It shows the items that were there when it was made, in the order of the catalogue's rows.
    """

    def __init__(self, catalogue: Catalogue, rows: Indices | None, context: Point | None = None) -> None:
        self.catalogue = catalogue
        self.context = context
        """What every item is joined with; None where items stand alone."""
        self._rows = rows
        self.n_items = catalogue.n_items if rows is None else len(rows)
        """Items shown: `len(view)`."""

    def __len__(self) -> int:
        return self.n_items

    @property
    def rows(self) -> Indices:
        """Rows in the whole catalogue, lowest first."""
        return np.arange(self.n_items) if self._rows is None else self._rows

    @property
    def is_whole(self) -> bool:
        """Whether every item of the catalogue is here."""
        return self.n_items == self.catalogue.n_items

    @property
    def ids(self) -> Sequence[ItemId]:
        """Ids of these items; rows where there are none."""
        return [self.catalogue.item(int(row)) for row in self.rows]

    def only(self, ids: Iterable[ItemId]) -> CatalogueView:
        """Those of these items that are named; an item that an earlier restriction took out stays out."""
        named = self._named(ids)
        rows = named if self._rows is None else np.intersect1d(named, self._rows, assume_unique=True)
        return self._restricted(rows[rows < self._end()])

    def without(self, ids: Iterable[ItemId]) -> CatalogueView:
        """All of these items but those named."""
        return self._restricted(np.setdiff1d(self.rows, self._named(ids), assume_unique=True))

    def given(self, context: Point) -> CatalogueView:
        """Every one of these items joined with a shared context, for pair kernels."""
        if self.context is not None:
            raise InvalidParameter("These items are joined with a context already. Start from the catalogue again.")
        return CatalogueView(self.catalogue, self._rows, context)

    def at(self, places: Indices) -> CatalogueView:
        """Those of these items at the given places, lowest first."""
        return self._restricted(self.rows[places])

    def points(self, kind: PointKind) -> Points:
        """The items, or their pairs with the context, in the canonical form of a kernel's kind."""
        if self.context is None:
            points = self.catalogue.points(kind)
            return points if self._rows is None and self.is_whole else kind.take(points, self.rows)
        action_kind = getattr(kind, "action", None)
        if action_kind is None:
            raise InvalidContexts(
                "These items are joined with a context, and this kernel compares items that stand alone. Take a pair "
                "kernel (PairProduct, PairSum), or leave `given` out."
            )
        actions = self.catalogue.points(action_kind)
        if self._rows is not None or not self.is_whole:
            actions = action_kind.take(actions, self.rows)
        return kind.check(Pairs(self.context, actions))

    def _named(self, ids: Iterable[ItemId]) -> Indices:
        if isinstance(ids, str | bytes):
            raise InvalidParameter(f"Ids are given as a collection, got {ids!r}. One item: [{ids!r}].")
        return np.unique(np.array([self.catalogue.row(item) for item in ids], dtype=np.intp))

    def _restricted(self, rows: Indices) -> CatalogueView:
        if not len(rows):
            raise InvalidContexts("No item is left. A round without items needs no choice.")
        return CatalogueView(self.catalogue, rows, self.context)

    def _end(self) -> int:
        """One past the last row that was there when the view was made."""
        return self.n_items if self._rows is None else int(self._rows[-1]) + 1


def _checked_ids(ids: Sequence[ItemId], n_items: int, known: dict[ItemId, int]) -> list[ItemId]:
    """One id an item, each once and new, or InvalidParameter."""
    try:
        checked = Ids().listed(ids)
    except InvalidContexts as error:
        raise InvalidParameter(f"These ids cannot be used. {error}") from error
    if len(checked) != n_items:
        raise InvalidParameter(f"There has to be one id per item: {n_items} items, {len(checked)} ids.")
    seen: set[ItemId] = set()
    for item in checked:
        if item in known or item in seen:
            raise InvalidParameter(f"Every item has an id of its own; {item!r} stands there twice. Leave one out.")
        seen.add(item)
    return checked


def _copied(items: Points) -> Points:
    """The items, independent of what the caller does with theirs."""
    if isinstance(items, Pairs):
        raise InvalidContexts(
            "A catalogue holds what can be chosen, without a context. Give the actions: Catalogue(actions), and the "
            "context with each round: catalogue.given(context)."
        )
    if isinstance(items, np.ndarray) and not items.shape:
        raise InvalidContexts(
            f"Items are a sequence or an array, one entry an item, got the single value {items!r:.40}."
        )
    if (isinstance(items, np.ndarray) and items.dtype != object) or hasattr(items, "tocsr"):
        return items.copy()
    if isinstance(items, str | bytes | Mapping | set | frozenset) or not isinstance(items, Iterable):
        raise InvalidContexts(f"Items are a sequence or an array, one entry an item, got {type(items).__name__}.")
    return [copy(item) for item in items]


def _counted(items: Points) -> int:
    n_items = int(items.shape[0]) if hasattr(items, "shape") else len(items)
    if not n_items:
        raise InvalidContexts("There has to be at least one item, got none.")
    return n_items
