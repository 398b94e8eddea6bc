"""Points made of coba's contexts and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import MOST_NUMBERS, a_count, is_one_of, shown
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.types import Pairs, Points

__all__ = ["CobaLayout", "CobaPoints"]

CobaLayout: TypeAlias = Literal["pairs", "joined", "actions"]
SPARSE_COLUMNS: Final = 1 << 20


class CobaPoints:
    """How a context and a set of actions of coba become the points of a round.

    Each half by its looks: numbers and sequences of numbers are dense rows; categorical values are their one-hot
    rows, also within a sequence; a plain string is a string; mappings, and sequences that hold strings, are sparse
    rows. A sparse feature gets the next free column when it is first seen, `name=value` one of its own with the value 1
    where the value is a string; there are no collisions, and rows of `sparse_columns` columns that never get longer.

    Parameters
    ----------
    layout
        "pairs" gives `Pairs(context, actions)`, for pair kernels; "joined" one row an action that holds the context's
        columns and the action's, for any kernel of rows; "actions" leaves the context out. Without a context (None)
        rounds are the actions alone, whatever the layout.
    sparse_columns
        Columns of sparse rows: most features that can be told apart.

    Examples
    --------
    >>> points = CobaPoints("joined")
    >>> points((0.5, 2.0), [(1, 0), (0, 1)])
    array([[0.5, 2. , 1. , 0. ],
           [0.5, 2. , 0. , 1. ]])
    >>> points(None, ["red", "blue"])
    ['red', 'blue']
    """

    def __init__(self, layout: CobaLayout = "pairs", *, sparse_columns: int = SPARSE_COLUMNS) -> None:
        if not is_one_of(layout, ("pairs", "joined", "actions")):
            raise InvalidParameter(f"The layout is 'pairs', 'joined' or 'actions', got {shown(layout)}.")
        self.layout = layout
        self._context_half = _Half(a_count(sparse_columns, "The number of sparse columns", most=MOST_NUMBERS))
        self._action_half = _Half(a_count(sparse_columns, "The number of sparse columns", most=MOST_NUMBERS))

    def __call__(self, context: Any, actions: Sequence[Any]) -> Points:
        """The points of a round, one an action."""
        points = self._action_half.points(actions)
        if context is None or self.layout == "actions":
            return points
        contexts = self._context_half.points([context])
        if self.layout == "joined":
            return _joined(contexts, points)
        return Pairs(contexts if hasattr(contexts, "tocsr") else contexts[0], points)


class _Half:
    """Points of contexts, or of actions, with their own columns."""

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._column: dict[str, int] = {}

    def points(self, things: Sequence[Any]) -> Points:
        if all(isinstance(thing, str) and not hasattr(thing, "as_onehot") for thing in things):
            return [str(thing) for thing in things]
        rows = [_numbers(thing) for thing in things]
        known = [row for row in rows if row is not None]
        if len(known) == len(rows) and len({len(row) for row in known}) == 1:
            return np.array(known)
        return self._sparse([_named(thing) for thing in things])

    def _sparse(self, described: Sequence[Mapping[str, float]]) -> Points:
        from scipy.sparse import csr_array

        known = [
            (row, self._place(name), value) for row, values in enumerate(described) for name, value in values.items()
        ]
        rows, columns, values = zip(*known, strict=True) if known else ((), (), ())
        places = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
        return csr_array((np.array(values, dtype=np.float64), places), shape=(len(described), self._n_columns))

    def _place(self, name: str) -> int:
        column = self._column.setdefault(name, len(self._column))
        if column >= self._n_columns:
            del self._column[name]
            raise InvalidContexts(
                f"There are more than {self._n_columns} sparse features. Give more columns: "
                f"CobaPoints(sparse_columns={2 * self._n_columns})."
            )
        return column


def _numbers(thing: Any) -> NDArray[np.float64] | None:
    """A dense row, or None for what has no such form."""
    if isinstance(thing, Mapping) or hasattr(thing, "items"):
        return None
    members = [thing] if isinstance(thing, str | Real) else list(thing)
    numbers: list[float] = []
    for member in members:
        if hasattr(member, "as_onehot"):
            numbers.extend(member.as_onehot)
        elif isinstance(member, Real):
            numbers.append(float(member))
        else:
            return None
    return np.array(numbers)


def _named(thing: Any) -> dict[str, float]:
    """Features by name: those of a mapping, or of a sequence by their place."""
    if isinstance(thing, str | Real):
        pairs: Any = [("", thing)]
    else:
        pairs = thing.items() if hasattr(thing, "items") else enumerate(thing)
    named: dict[str, float] = {}
    for name, value in pairs:
        if isinstance(value, str):
            named[f"{name}={value}"] = 1.0
        elif isinstance(value, Real):
            named[str(name)] = float(value)
        else:
            raise InvalidContexts(f"A feature is a number or a string, got {type(value).__name__} for {name!r}.")
    return named


def _joined(context: Points, actions: Points) -> Points:
    if isinstance(context, list) or isinstance(actions, list):
        raise InvalidContexts(
            "Strings cannot be joined to rows. Take CobaPoints('pairs') and a pair kernel, or points of your own."
        )
    n_actions = actions.shape[0]
    if not hasattr(context, "tocsr") and not hasattr(actions, "tocsr"):
        return np.hstack([np.repeat(context, n_actions, axis=0), actions])
    from scipy.sparse import csr_array, hstack, vstack

    return csr_array(hstack([vstack([csr_array(context)] * n_actions), csr_array(actions)], format="csr"))
