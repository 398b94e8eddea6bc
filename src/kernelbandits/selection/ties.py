"""Tie rule: which scores are tied, and which of the tied actions is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from kernelbandits.errors import InvalidParameter, NumericalError
from kernelbandits.types import TIE_SLACK, TIE_TOLERANCE, Indices, Matrix, Vector
from kernelbandits.validation import is_one_of, short_repr

__all__ = [
    "TieBreaker",
    "Ties",
    "best_of_each",
    "checked_ties",
    "lowered",
    "pick_best",
    "pick_lowest",
    "pick_tied",
    "tie_probabilities",
    "tied_for_best",
    "tied_rows",
    "worst_tied",
    "worst_tied_of_each",
]


def worst_tied(best: float) -> float:
    """Lowest score that is tied with the best: best − TIE_TOLERANCE · max(1, |best|)."""
    return best - TIE_TOLERANCE * max(1.0, abs(best))


def tied_for_best(scores: Vector) -> Indices:
    """Rows whose score is within TIE_TOLERANCE · max(1, |best|) of the best, lowest first."""
    tied: Indices = (scores >= worst_tied(scores.item(scores.argmax()))).nonzero()[0]
    if not tied.size:
        raise NumericalError(
            f"No action has the best score: one of them is {scores.max()}. Rewards or contexts are too large for "
            "double precision, or the regularization is too small beside them. Scale them down, or raise it."
        )
    return tied


def worst_tied_of_each(scores: Matrix) -> Vector:
    """`worst_tied` for the best score of each row."""
    best = scores.max(axis=1)
    return np.asarray(best - TIE_TOLERANCE * np.maximum(1.0, np.abs(best)))


def best_of_each(scores: Matrix) -> Indices:
    """Lowest column tied for the best of each row of scores: a vectorized `tied_for_best(row)[0]`.

    >>> best_of_each(np.array([[0.1, 0.3, 0.3], [2.0, 1.0, 2.0]]))
    array([1, 0])
    """
    places: Indices = np.argmax(scores >= worst_tied_of_each(scores)[:, None], axis=1)
    return places


def lowered(score: float) -> float:
    """Threshold that every score tied with this one or better reaches despite rounding."""
    return worst_tied(score) - TIE_SLACK * max(1.0, abs(score))


Ties: TypeAlias = Literal["lowest", "random", "exact"]

TieBreaker: TypeAlias = Callable[[Indices], tuple[int, float]]
"""Picks one of several tied rows, lowest first, and returns the probability with which it was chosen: `pick_tied`."""


def checked_ties(ties: Ties, *, may_be_exact: bool = False) -> Ties:
    """Validate the tie rule; raise InvalidParameter otherwise."""
    if not is_one_of(ties, ("lowest", "random", "exact") if may_be_exact else ("lowest", "random")):
        exact = ", or only 'exact' ones count" if may_be_exact else ""
        raise InvalidParameter(
            f"Ties go to the 'lowest' row or to one at 'random'{exact}, got ties={short_repr(ties)}."
        )
    return ties


def tied_rows(scores: Vector, ties: Ties) -> Indices:
    """Rows tied for the best score, lowest first: equal up to rounding, or exactly equal for ties="exact".

    >>> tied_rows(np.array([1.0, 1.0 + 1e-12]), "lowest"), tied_rows(np.array([1.0, 1.0 + 1e-12]), "exact")
    (array([0, 1]), array([1]))
    """
    return np.flatnonzero(scores == scores.max()) if ties == "exact" else tied_for_best(scores)


def pick_best(scores: Vector, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """Row with the best score, and the probability with which it was chosen."""
    return pick_tied(tied_rows(scores, ties), ties, rng)


def pick_tied(tied: Indices, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """One of the tied rows, and the probability with which it was chosen; `tied` is sorted, lowest first."""
    if ties != "random" or len(tied) == 1:
        return int(tied[0]), 1.0
    return int(tied[rng.integers(len(tied))]), 1.0 / len(tied)


def pick_lowest(tied: Indices) -> tuple[int, float]:
    """`TieBreaker` that picks the lowest row."""
    return int(tied[0]), 1.0


def tie_probabilities(tied: Indices, ties: Ties, n_actions: int) -> Vector:
    """Probability with which `pick_tied` chooses each action.

    >>> tie_probabilities(np.array([0, 2]), "random", n_actions=3)
    array([0.5, 0. , 0.5])
    """
    taken = tied if ties == "random" else tied[:1]
    probabilities = np.zeros(n_actions)
    probabilities[taken] = 1.0 / len(taken)
    return probabilities
