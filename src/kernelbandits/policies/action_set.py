"""The actions of one round, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import PointKind
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, ItemId, Points

__all__ = ["ActionSet", "checked_ids", "one_id_per_action"]


class ActionSet(NamedTuple):
    """What a policy may choose among now."""

    points: Points
    """Of the eligible actions."""

    rows: Indices | None
    """Their rows among all actions; None when all are eligible."""

    ids: Sequence[ItemId] | None
    """Of all actions."""

    n_actions: int
    """Eligible ones."""

    @classmethod
    def of(
        cls, kind: PointKind, points: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None
    ) -> ActionSet:
        """Checked points with their checked ids, restricted to those eligible."""
        n_actions = kind.count(points)
        one_id_per_action(ids, n_actions)
        if eligible is None:
            return cls(points, None, ids, n_actions)
        mask = np.asarray(eligible)
        if mask.dtype != np.bool_ or mask.shape != (n_actions,):
            raise InvalidContexts(
                f"`eligible` has to be one truth value per action ({n_actions}), got dtype {mask.dtype}, shape "
                f"{mask.shape}."
            )
        rows = np.flatnonzero(mask)
        if not rows.size:
            raise InvalidContexts("No action is eligible. A round without eligible actions needs no choice.")
        return cls(kind.take(points, rows), rows, ids, len(rows))

    def row(self, place: int) -> int:
        """Row among all actions of the point at this place."""
        return place if self.rows is None else int(self.rows[place])

    def item(self, place: int) -> ItemId:
        """Id of the point at this place; its row where there are no ids."""
        row = self.row(place)
        return row if self.ids is None else self.ids[row]


def checked_ids(ids: Sequence[ItemId] | None) -> list[ItemId] | None:
    """Different integers or strings, or InvalidContexts."""
    if ids is None:
        return None
    checked = Ids().check(ids)
    if len(set(checked)) < len(checked):
        twice = next(item for item in checked if checked.count(item) > 1)
        raise InvalidContexts(f"Every action of a round has an id of its own; {twice!r} stands there twice.")
    return checked


def one_id_per_action(ids: Sequence[ItemId] | None, n_actions: int) -> None:
    """InvalidContexts where there are ids, and not one per action."""
    if ids is not None and len(ids) != n_actions:
        raise InvalidContexts(f"There has to be one id per action: {n_actions} actions, {len(ids)} ids.")
