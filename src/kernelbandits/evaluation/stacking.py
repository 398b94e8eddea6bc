"""Actions of many rounds as one collection of points, a few rounds at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from kernelbandits.environments.action_rows import n_points
from kernelbandits.evaluation.distinct_rounds import points_of
from kernelbandits.kernels import PointKind
from kernelbandits.types import Indices, Points

__all__ = ["gathered", "parts", "sizes_of", "stacked"]

POINTS_AT_ONCE: Final = 65_536
"""Actions of different rounds that are stacked together: some tens of megabytes of rows."""


def sizes_of(rounds: Sequence[Points]) -> Indices:
    """How many actions each round has."""
    return np.array([n_points(contexts) for contexts in rounds], dtype=np.intp)


def parts(sizes: Indices) -> Iterator[slice]:
    """Rounds in a row that have about so many points together."""
    block_of = np.cumsum(sizes) // POINTS_AT_ONCE
    ends = [*(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(sizes)]
    for first, last in pairwise([0, *ends]):
        yield slice(first, last)


def stacked(kind: PointKind, rounds: Sequence[Points]) -> Points:
    """All actions of these rounds, in their order."""
    return kind.stack(*(points_of(kind, contexts) for contexts in rounds))


def gathered(kind: PointKind, rounds: Sequence[Points], which: Indices, actions: Indices) -> Points:
    """The points of some actions, each named by its round and its row there, in the order given."""
    used, which = np.unique(which, return_inverse=True)
    rounds = [rounds[place] for place in used]
    sizes = sizes_of(rounds)
    starts = np.cumsum(sizes) - sizes  # of each set, had all been stacked
    found, owners = [], []
    for part in parts(sizes):
        own = np.flatnonzero((which >= part.start) & (which < part.stop))
        rows = starts[which[own]] + actions[own] - starts[part.start]
        found.append(kind.take(stacked(kind, rounds[part]), rows))
        owners.append(own)
    return kind.take(kind.stack(*found), np.argsort(np.concatenate(owners)))
