"""Which scores are tied: one rule for every engine, so that rounding differences between them do not show."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.errors import NumericalError
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Vector

__all__ = ["best_of_each", "lowered", "tied_for_best", "worst_tied", "worst_tied_of_each"]

SLACK: Final = 1e-12
"""Share of a score, far above its rounding error, by which a bar is lowered."""


def worst_tied(best: float) -> float:
    """The lowest score that is tied with the best: best − TIE_TOLERANCE · max(1, |best|)."""
    return best - TIE_TOLERANCE * max(1.0, abs(best))


def tied_for_best(scores: Vector) -> Indices:
    """Rows whose score is within TIE_TOLERANCE · max(1, |best|) of the best, lowest first."""
    tied = np.flatnonzero(scores >= worst_tied(float(scores.max())))
    if not tied.size:
        raise NumericalError(
            f"No action has the best score: one of them is {scores.max()}. Rewards or contexts are too large for "
            "double precision, or the regularisation is too small beside them. Scale them down, or raise it."
        )
    return tied


def worst_tied_of_each(scores: Matrix) -> Vector:
    """`worst_tied` for the best score of each row."""
    best = scores.max(axis=1)
    return np.asarray(best - TIE_TOLERANCE * np.maximum(1.0, np.abs(best)))


def best_of_each(scores: Matrix) -> Indices:
    """For each row of scores the lowest place that is tied for best: `tied_for_best(row)[0]` of many at once.

    >>> best_of_each(np.array([[0.1, 0.3, 0.3], [2.0, 1.0, 2.0]]))
    array([1, 0])
    """
    places: Indices = np.argmax(scores >= worst_tied_of_each(scores)[:, None], axis=1)
    return places


def lowered(score: float) -> float:
    """A bar that everything tied with this score or better passes, whatever the rounding."""
    return worst_tied(score) - SLACK * max(1.0, abs(score))
