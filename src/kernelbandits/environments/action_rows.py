"""How the actions of a round are counted, and by which rows decisions name them."""

from __future__ import annotations

from operator import index

import numpy as np

from kernelbandits.errors import DecisionError, InvalidContexts
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Pairs, Points

__all__ = ["n_points", "place_of", "row_of"]


def n_points(contexts: Points) -> int:
    """How many actions a round has, whatever they are: rows, strings, pairs, a catalogue.

    >>> n_points(Pairs([0.5], ["left", "right"])), n_points(np.eye(3))
    (2, 3)
    """
    if isinstance(contexts, Catalogue | CatalogueView):
        return len(contexts)
    points = contexts.actions if isinstance(contexts, Pairs) else contexts
    if not hasattr(points, "shape") and not hasattr(points, "__len__"):
        raise InvalidContexts(f"A round is a list or an array of actions, got {type(points).__name__}.")
    return int(points.shape[0]) if hasattr(points, "shape") else len(points)


def row_of(contexts: Points, place: int) -> int:
    """The row by which a decision names an action of a round: of a part of a catalogue, its row in the whole.

    >>> row_of(Catalogue(["a", "b", "c"]).only([0, 2]), 1), row_of(["a", "c"], 1)
    (2, 1)
    """
    return int(contexts.rows[place]) if isinstance(contexts, CatalogueView) else place


def place_of(contexts: Points, row: int) -> int:
    """The place among the actions of a round that a decision names by this row; DecisionError where there is none.

    >>> place_of(Catalogue(["a", "b", "c"]).only([0, 2]), 2)
    1
    """
    named = index(row)
    if isinstance(contexts, CatalogueView):
        rows = contexts.rows
        place = int(np.searchsorted(rows, named))
        if place < len(rows) and rows[place] == named:
            return place
        shown = f"the rows {rows[:8].tolist()}{' and others' if len(rows) > 8 else ''} of its catalogue as actions"
    else:
        if 0 <= named < n_points(contexts):
            return named
        shown = f"actions 0 to {n_points(contexts) - 1}"
    raise DecisionError(
        f"The round last shown has {shown}, got action {row!r}. Pay for a row of the contexts that were shown."
    )
