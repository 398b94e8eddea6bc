"""Slates: rankings that are built place by place, each place drawn given the places above it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from math import nan
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Indices, Matrix, Selection, Vector
from kernelbandits.validation import short_repr

__all__ = ["Ranking", "given_places", "slate_places"]

MOST_BEGINNINGS: Final = 2_000
"""Largest number of beginnings of slates that are enumerated: some tens of milliseconds."""

SAMPLED_SLATES: Final = 1_000
"""Number of slates drawn where there are more beginnings."""

SAMPLING_SEED: Final = 0
"""Seed of these draws, constant so that equal queries give equal results."""


class Ranking(ABC):
    """A slate under construction: which action takes the next place, and with which probability.

    The probabilities of a place depend on the model and on the actions placed so far, and on nothing else. Therefore
    the propensity of each place, given the places above it, is exact, also if a wrapper places another action than the
    one that was selected. Rows are indices into the eligible actions of the round.
    """

    def __init__(self, n_actions: int) -> None:
        self.left: Indices = np.arange(n_actions)
        """Rows that have not been placed."""

    @abstractmethod
    def select(self) -> Selection:
        """Select the action of the next place. Does not place it."""

    @abstractmethod
    def probabilities(self) -> Vector:
        """Return the probability of each row of `left` to be selected next."""

    def estimate_of(self, row: int) -> tuple[float, float]:
        """Return mean and width of an action at the next place, if the policy has such estimates."""
        return nan, nan

    def place(self, row: int) -> None:
        """Give the next place to an action."""
        self.left = self.left[self.left != row]

    def copy(self) -> Self:
        """Return a copy that can be continued differently; attributes that `place` mutates must be copied."""
        return copy.copy(self)

    def first(self, k: int) -> list[Selection]:
        """Select and place k actions, best first."""
        choices = [self.select()]
        while len(choices) < k:
            self.place(choices[-1].row)
            choices.append(self.select())
        return choices

    def place_probabilities(self, k: int) -> Matrix:
        """Return the probability of each row at each of the next k places: P(row at l) = Σ P(above) P(row | above).

        The sum is over what may stand above, or, if these are more than 2,000 beginnings, the mean over 1,000 of them,
        drawn with a fixed seed.
        """
        found = np.zeros((k, int(self.left[-1]) + 1 if len(self.left) else 0))
        beginnings: list[tuple[Ranking, float]] = [(self.copy(), 1.0)]
        for place in range(k):
            longer: list[tuple[Ranking, float]] = []
            for ranking, share in beginnings:
                own = share * ranking.probabilities()
                found[place, ranking.left] += own
                if place + 1 == k:
                    continue
                rows = ranking.left[own > 0.0]
                if len(longer) + len(rows) > MOST_BEGINNINGS:
                    return self._sampled_probabilities(k, found)
                for row, part in zip(rows.tolist(), own[own > 0.0].tolist(), strict=True):
                    continued = ranking.copy()
                    continued.place(row)
                    longer.append((continued, part))
            beginnings = longer
        return found

    def _sampled_probabilities(self, k: int, found: Matrix) -> Matrix:
        rng = np.random.default_rng(SAMPLING_SEED)
        found[:] = 0.0
        for _ in range(SAMPLED_SLATES):
            ranking = self.copy()
            for place in range(k):
                own = ranking.probabilities()
                found[place, ranking.left] += own / SAMPLED_SLATES
                if place + 1 < k:
                    ends = np.cumsum(own)
                    ranking.place(int(ranking.left[np.searchsorted(ends, rng.random() * ends[-1], side="right")]))
        return found


def given_places(ranking: Ranking, rows: Indices) -> Vector:
    """Return the probability of each row to take the next place, given those before it."""
    found = np.empty(len(rows))
    for place, row in enumerate(rows.tolist()):
        found[place] = ranking.probabilities()[np.searchsorted(ranking.left, row)]
        if place + 1 < len(rows):
            ranking.place(row)
    return found


def slate_places(given: Actions, actions: ArrayLike) -> Indices:
    """Return the rows of a slate as indices into the eligible actions; raise InvalidParameter if one has none."""
    try:
        rows = np.asarray(actions)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"A slate is some different rows, the top place first: {error}.") from error
    if (
        isinstance(actions, np.ma.MaskedArray)
        or rows.ndim != 1
        or rows.dtype.kind not in "iu"
        or not rows.size
        or len(np.unique(rows)) < len(rows)
    ):
        raise InvalidParameter(f"A slate is some different rows, the top place first, got {short_repr(actions)}.")
    eligible = np.arange(given.n_rows) if given.rows is None else given.rows
    places = np.minimum(np.searchsorted(eligible, rows), len(eligible) - 1)
    for row in rows[eligible[places] != rows][:1]:
        raise InvalidParameter(f"A slate shows eligible actions only, and row {row} is none of these.")
    return np.asarray(places, dtype=np.intp)
