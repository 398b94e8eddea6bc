"""Which of the tied actions is taken."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Indices, Vector

__all__ = ["Ties", "checked_ties", "pick_best", "pick_tied", "tie_probabilities"]

Ties: TypeAlias = Literal["lowest", "random"]


def checked_ties(ties: Ties) -> Ties:
    """The rule, or InvalidParameter."""
    if ties not in ("lowest", "random"):
        raise InvalidParameter(f"Ties go to the 'lowest' row or to one at 'random', got ties={ties!r}.")
    return ties


def pick_best(scores: Vector, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """A row of the best score and the probability with which this row was taken."""
    return pick_tied(tied_for_best(scores), ties, rng)


def pick_tied(tied: Indices, ties: Ties, rng: np.random.Generator) -> tuple[int, float]:
    """One of the tied rows, lowest first, and the probability with which it was taken."""
    if ties == "lowest" or len(tied) == 1:
        return int(tied[0]), 1.0
    return int(tied[rng.integers(len(tied))]), 1.0 / len(tied)


def tie_probabilities(tied: Indices, ties: Ties, n_actions: int) -> Vector:
    """With which probability `pick_tied` takes each of the actions.

    >>> tie_probabilities(np.array([0, 2]), "random", n_actions=3)
    array([0.5, 0. , 0.5])
    """
    taken = tied[:1] if ties == "lowest" else tied
    probabilities = np.zeros(n_actions)
    probabilities[taken] = 1.0 / len(taken)
    return probabilities
