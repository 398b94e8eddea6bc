"""The best row of many scorers at once."""

from __future__ import annotations

import numpy as np

from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix

__all__ = ["highest"]


def highest(scores: Matrix) -> Indices:
    """For each row of scores the first that is tied for best: `selection.tied_for_best` of many at once.

    >>> highest(np.array([[0.1, 0.3, 0.3], [2.0, 1.0, 2.0]]))
    array([1, 0])
    """
    best = scores.max(axis=1, keepdims=True)
    places: Indices = np.argmax(scores >= best - TIE_TOLERANCE * np.maximum(1.0, np.abs(best)), axis=1)
    return places
