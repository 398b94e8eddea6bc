"""Validated action sets of one round: passed actions or catalog items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import PairPoints, PointKind, kind_of
from kernelbandits.kernels.sequences import Ids
from kernelbandits.selection.catalog import Catalog, CatalogView
from kernelbandits.types import Indices, ItemId, Points, Vector

__all__ = [
    "ActionSet",
    "Actions",
    "CatalogActions",
    "checked_ids",
    "eligible_rows",
    "no_ids_beside_a_catalog",
    "one_id_per_action",
    "plain_points",
]


class ActionSet:
    """Validated actions of one round. A place counts the eligible actions, a row counts all passed actions."""

    __slots__ = ("costs", "ids", "n_actions", "n_rows", "offset", "points", "rows", "whole")

    catalog: ClassVar[None] = None
    costs: Vector | None
    """Most that each eligible action can cost; None if costs do not matter."""
    offset: Vector | None
    """Amount added to the score of each eligible action; None: nothing."""

    def __init__(
        self, kind: PointKind | None, points: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None
    ) -> None:
        n_actions = len(points) if kind is None else kind.count(points)  # None: rows of numbers
        self.costs = self.offset = None
        if ids is None and eligible is None:
            self.ids = self.rows = None
            self.whole = self.points = points
            self.n_rows = self.n_actions = n_actions
            return
        if ids is not None:
            one_id_per_action(ids, n_actions)
        self.ids = ids
        self.rows = None if eligible is None else eligible_rows(eligible, n_actions)
        """Rows of the eligible actions; None if all are eligible."""
        self.whole = points
        """Points of all passed actions."""
        self.points = points
        if self.rows is not None:
            self.points = points[self.rows] if kind is None else kind.take(points, self.rows)
        """Points of the eligible actions, in the order of their rows."""
        self.n_rows = n_actions
        """Number of passed actions, eligible or not."""
        self.n_actions = n_actions if self.rows is None else len(self.rows)
        """Number of eligible actions."""

    def row(self, place: int) -> int:
        """Row among all passed actions of the action at this place."""
        return place if self.rows is None else int(self.rows[place])

    def item(self, row: int) -> ItemId:
        """Id of a row; the row itself if there are no ids."""
        return row if self.ids is None else self.ids[row]

    def at(self, places: Indices, kind: PointKind) -> ActionSet:
        """Return the same actions of which only those at these places are eligible, lowest first."""
        eligible = np.zeros(self.n_rows, dtype=bool)
        eligible[places if self.rows is None else self.rows[places]] = True
        return ActionSet(kind, self.whole, self.ids, eligible)

    def place_of(self, item: ItemId) -> int | None:
        """Place of an item; None if it is absent or not eligible."""
        if self.ids is None:
            row = item if isinstance(item, int) and 0 <= item < self.n_rows else None
        else:
            row = self.ids.index(item) if item in self.ids else None
        return _place_of(row, self.rows)


class CatalogActions:
    """Validated catalog items of one round: rows are those of the whole catalog, points are computed on demand."""

    __slots__ = (
        "_kind", "_moment", "_points_of", "_view", "catalog", "context", "costs", "ids", "n_actions", "n_rows",
        "offset", "rows",
    )  # fmt: skip

    costs: Vector | None
    offset: Vector | None

    def __init__(
        self,
        items: Catalog | CatalogView,
        eligible: NDArray[np.bool_] | None,
        points: Callable[[CatalogView], Points],
        kind: PointKind | None = None,
    ) -> None:
        self._points_of = points
        self._kind = kind  # where `points` gives the items in the form of this kind
        self.costs = self.offset = None  # as in `ActionSet`
        if type(items) is Catalog and eligible is None:
            self._moment = moment = items._now  # later changes of the catalog belong to the next round
            self._view = self.context = self.rows = None
            self.catalog, self.ids, self.n_rows, self.n_actions = items, moment.names, moment.n_items, moment.n_items
            return
        view = items if isinstance(items, CatalogView) else CatalogView(items, None)
        self.catalog, self.ids = view.catalog, view.names
        self._view = view = view if eligible is None else view.at(eligible_rows(eligible, len(view)))
        self.context = view.context
        """Context that every item is joined with; None for items without a context."""
        self._moment = view._moment
        self.n_rows = self._moment.n_items
        self.n_actions = view.n_items
        self.rows = None if self.n_actions == self.n_rows else view.rows

    @property
    def view(self) -> CatalogView:
        """View of the eligible items."""
        if self._view is None:
            self._view = CatalogView(self.catalog, None, None, self._moment)
        return self._view

    @property
    def points(self) -> Points:
        """Points of the eligible items, in the order of their rows."""
        kind = self._kind
        if kind is None:
            return self._points_of(self.view)
        return self._moment.points(kind) if self._view is None else self._view.points(kind)

    @property
    def whole(self) -> Points:
        """Points of all items of the catalog, joined with this round's context if there is one."""
        return self._points_of(CatalogView(self.catalog, None, self.context, self._moment))

    def row(self, place: int) -> int:
        """Row in the whole catalog of the item at this place."""
        return place if self.rows is None else int(self.rows[place])

    def item(self, row: int) -> ItemId:
        """Id of a row; the row itself if there are no ids."""
        return self._moment.item(row)

    def at(self, places: Indices, kind: PointKind) -> CatalogActions:
        """Return the same items of which only those at these places are eligible, lowest first."""
        return CatalogActions(self.view.at(places), None, self._points_of, self._kind)

    def place_of(self, item: ItemId) -> int | None:
        """Place of an item; None if it is absent or not eligible."""
        try:
            return _place_of(self._moment.row(item), self.rows)
        except UnknownItem:
            return None


Actions: TypeAlias = ActionSet | CatalogActions


def _place_of(row: int | None, rows: Indices | None) -> int | None:
    if row is None or rows is None:
        return row
    place = int(np.searchsorted(rows, row))
    return place if place < len(rows) and rows[place] == row else None


def plain_points(view: CatalogView) -> Points:
    """Items of a catalog for a policy without a kernel: unchanged, or joined with the context of this round."""
    kind = view.catalog.kind
    return view.points(kind if view.context is None else PairPoints(kind_of(view.context), kind))


def eligible_rows(eligible: NDArray[np.bool_], n_actions: int) -> Indices:
    """Return the rows of the eligible actions; raise InvalidContexts unless there is one boolean per action."""
    if isinstance(eligible, np.ma.MaskedArray) and np.ma.is_masked(eligible):
        raise InvalidContexts("Some truth values of `eligible` are masked. Fill them in: eligible.filled(False).")
    try:
        mask = np.asarray(eligible)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidContexts(f"`eligible` must be one truth value per action ({n_actions}): {error}.") from error
    if mask.dtype != np.bool_ or mask.shape != (n_actions,):
        raise InvalidContexts(
            f"`eligible` must be one truth value per action ({n_actions}), got dtype {mask.dtype}, shape {mask.shape}."
        )
    rows = np.flatnonzero(mask)
    if not rows.size:
        raise InvalidContexts("No action is eligible. A round without eligible actions needs no choice.")
    return rows


def checked_ids(ids: Sequence[ItemId] | None) -> list[ItemId] | None:
    """Validate that ids are distinct integers or strings; raise InvalidContexts otherwise."""
    if ids is None:
        return None
    checked = Ids().check(ids)
    if len(set(checked)) < len(checked):
        twice = next(item for item in checked if checked.count(item) > 1)
        raise InvalidContexts(f"Ids of the actions of a round must be distinct; {twice!r} occurs twice.")
    return checked


def one_id_per_action(ids: Sequence[ItemId] | None, n_actions: int) -> None:
    """Raise InvalidContexts unless there are no ids or exactly one per action."""
    if ids is not None and len(ids) != n_actions:
        raise InvalidContexts(f"There must be one id per action: {n_actions} actions, {len(ids)} ids.")


def no_ids_beside_a_catalog(ids: Sequence[ItemId] | None) -> None:
    """Raise InvalidParameter if ids are passed together with a catalog, whose items have ids of their own."""
    if ids is not None:
        raise InvalidParameter("A catalog has its own ids, so none can be given beside it. Leave `ids` out.")
