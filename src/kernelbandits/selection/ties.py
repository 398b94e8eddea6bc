"""The tie rule: which scores are tied, and which of the tied actions is taken."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from kernelbandits.errors import InvalidParameter, NumericalError
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Vector
from kernelbandits.validation import is_one_of, shown

__all__ = [
    "Ties",
    "best_of_each",
    "checked_ties",
    "lowered",
    "pick_best",
    "pick_tied",
    "tie_probabilities",
    "tied_for_best",
    "tied_rows",
    "worst_tied",
    "worst_tied_of_each",
]

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
            "double precision, or the regularization is too small beside them. Scale them down, or raise it."
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


Ties: TypeAlias = Literal["lowest", "random", "exact"]


def checked_ties(ties: Ties, *, may_be_exact: bool = False) -> Ties:
    """The rule, or InvalidParameter."""
    if not is_one_of(ties, ("lowest", "random", "exact") if may_be_exact else ("lowest", "random")):
        exact = ", or only 'exact' ones count" if may_be_exact else ""
        raise InvalidParameter(f"Ties go to the 'lowest' row or to one at 'random'{exact}, got ties={shown(ties)}.")
    return ties


def tied_rows(scores: Vector, ties: Ties) -> Indices:
    """Rows that are tied for the best score, lowest first: equal to rounding, or where ties are exact, equal.

    >>> tied_rows(np.array([1.0, 1.0 + 1e-12]), "lowest"), tied_rows(np.array([1.0, 1.0 + 1e-12]), "exact")
    (array([0, 1]), array([1]))
    """
    return np.flatnonzero(scores == scores.max()) if ties == "exact" else tied_for_best(scores)


def pick_best(scores: Vector, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """A row of the best score and the probability with which this row was taken."""
    return pick_tied(tied_rows(scores, ties), ties, rng)


def pick_tied(tied: Indices, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """One of the tied rows, lowest first, and the probability with which it was taken."""
    if ties != "random" or len(tied) == 1:
        return int(tied[0]), 1.0
    return int(tied[rng.integers(len(tied))]), 1.0 / len(tied)


def tie_probabilities(tied: Indices, ties: Ties, n_actions: int) -> Vector:
    """With which probability `pick_tied` takes each of the actions.

    >>> tie_probabilities(np.array([0, 2]), "random", n_actions=3)
    array([0.5, 0. , 0.5])
    """
    taken = tied if ties == "random" else tied[:1]
    probabilities = np.zeros(n_actions)
    probabilities[taken] = 1.0 / len(taken)
    return probabilities
