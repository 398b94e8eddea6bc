"""What all actions of a round share."""

from __future__ import annotations

import numpy as np

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.types import Pairs, Points, Vector

__all__ = ["shared_row"]


def shared_row(contexts: Points) -> Vector:
    """The numbers that describe a round as a whole: the context of pairs, or the first row where actions are rows.

    >>> shared_row([[1.0, 2.0], [3.0, 4.0]])
    array([1., 2.])
    """
    if isinstance(contexts, Pairs | PairRows):
        contexts = contexts.context if isinstance(contexts, Pairs) else contexts.contexts
        contexts = contexts if is_sparse(contexts) else np.atleast_2d(contexts)
    if is_sparse(contexts):
        contexts = contexts.tocsr()[[0]].toarray()
    rows = np.asarray(contexts)
    if rows.ndim != 2 or not len(rows) or rows.dtype.kind not in "buif":
        raise InvalidContexts(
            f"Columns are read from rows of numbers, or from the context of kb.Pairs, got {type(contexts).__name__} of "
            f"dtype {rows.dtype}."
        )
    row: Vector = rows[0].astype(np.float64)
    return row
