"""Which scores are tied: one rule for every engine, so that rounding differences between them do not show."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.types import TIE_TOLERANCE, Indices, Vector

__all__ = ["Ties", "checked_ties", "pick_best", "tied_for_best"]

Ties: TypeAlias = Literal["lowest", "random"]


def checked_ties(ties: Ties) -> Ties:
    """The rule, or InvalidParameter."""
    if ties not in ("lowest", "random"):
        raise InvalidParameter(f"Ties go to the 'lowest' row or to one at 'random', got ties={ties!r}.")
    return ties


def tied_for_best(scores: Vector) -> Indices:
    """Rows whose score is within TIE_TOLERANCE · max(1, |best|) of the best, lowest first."""
    best = scores.max()
    return np.flatnonzero(scores >= best - TIE_TOLERANCE * max(1.0, abs(best)))


def pick_best(scores: Vector, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """A row of the best score and the probability with which this row was taken."""
    tied = tied_for_best(scores)
    if ties == "lowest" or len(tied) == 1:
        return int(tied[0]), 1.0
    return int(tied[rng.integers(len(tied))]), 1.0 / len(tied)
