"""Slates: rankings that are built place by place, each place drawn given the places above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import nan

import numpy as np

from kernelbandits.types import Indices, Selection, Vector

__all__ = ["Ranking"]


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

    def first(self, k: int) -> list[Selection]:
        """Select and place k actions, best first."""
        choices = [self.select()]
        while len(choices) < k:
            self.place(choices[-1].row)
            choices.append(self.select())
        return choices
