"""Which kind of point something is, by its looks: for policies that take any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels.pairs import PairPoints, PairRows
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.rows import Rows, is_sparse
from kernelbandits.kernels.sequences import Ids, Sets, Strings
from kernelbandits.types import Pairs, Points

__all__ = ["kind_of"]


def kind_of(points: Points) -> PointKind:
    """The kind that such points have; for one point on its own, the kind of a collection of it.

    >>> type(kind_of(["a", "b"])).__name__, type(kind_of([[0.5, 1.0]])).__name__
    ('Strings', 'Rows')
    """
    if isinstance(points, Pairs | PairRows):
        first = points.context if isinstance(points, Pairs) else points.contexts
        return PairPoints(kind_of(first), kind_of(points.actions))
    if isinstance(points, np.ndarray) and points.dtype.kind in ("USOiu" if points.ndim == 1 else "USO"):
        return kind_of(points.tolist())
    if is_sparse(points) or hasattr(points, "__array__"):
        return Rows()
    if isinstance(points, str):
        return Strings()
    if isinstance(points, int | np.integer):
        return Ids()
    if isinstance(points, set | frozenset):
        return Sets()
    if isinstance(points, Iterator):
        raise InvalidContexts(f"Contexts are read more than once, got {type(points).__name__}. Make a list of them.")
    listed = points if isinstance(points, Iterable) else ()
    members = listed if isinstance(listed, list | tuple) else list(listed)
    for kind, types in ((Strings(), str), (Ids(), int | np.integer | str), (Sets(), set | frozenset)):
        if members and all(isinstance(member, types) for member in members):
            return kind
    return Rows()
