"""The expert that looks at one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import MOST_IN_MEMORY, a_count, a_number
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import kind_of
from kernelbandits.policies.experts.advice import JointAdvice, all_on
from kernelbandits.policies.experts.shared_row import shared_row
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["Stump", "thresholds_between"]


@dataclass(frozen=True, kw_only=True)
class Stump:
    """One row where a column that all actions share is at most a threshold, another row where it is above.

    The column is that of the round's first row, or of the context where the round is `Pairs`. A row beyond the last of
    a round means the last.

    >>> Stump(column=0, threshold=0.5, below=0, above=2).advise([[0.7], [0.7], [0.7]])
    array([0., 0., 1.])
    """

    column: int
    threshold: float
    below: int
    above: int

    def __post_init__(self) -> None:
        for name in ("column", "below", "above"):
            object.__setattr__(
                self, name, a_count(getattr(self, name), f"A stump's `{name}`", least=0, most=MOST_IN_MEMORY)
            )
        threshold = a_number(self.threshold, "A stump's threshold")
        if not np.isfinite(threshold):
            raise InvalidParameter(
                f"A stump's threshold has to be finite, got {threshold}. ConstantExpert(row) never asks."
            )
        object.__setattr__(self, "threshold", threshold)

    def advise(self, contexts: Points) -> Vector:
        """1 at the row that the column asks for."""
        advice: Vector = self.together([self])(contexts, kind_of(contexts).count(contexts))[0]
        return advice

    @staticmethod
    def together(experts: Sequence[Stump]) -> JointAdvice:
        """The advice of many."""
        columns = np.array([expert.column for expert in experts], dtype=np.intp)
        thresholds = np.array([expert.threshold for expert in experts])
        below = np.array([expert.below for expert in experts], dtype=np.intp)
        above = np.array([expert.above for expert in experts], dtype=np.intp)
        last = int(columns.max())

        def advice(contexts: Points, n_actions: int) -> Matrix:
            row = shared_row(contexts)
            if last >= len(row):
                raise InvalidContexts(f"A stump looks at column {last}; this round has columns 0 to {len(row) - 1}.")
            return all_on(np.where(row[columns] <= thresholds, below, above), n_actions)

        return advice

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {
            "class": "Stump",
            "column": self.column,
            "threshold": self.threshold,
            "below": self.below,
            "above": self.above,
        }


def thresholds_between(values: Vector) -> Vector:
    """One threshold in each gap between the distinct values of a column.

    >>> thresholds_between(np.array([4.0, 0.0, 1.0, 0.0]))
    array([0.5, 2.5])
    """
    distinct = np.unique(values)
    low, high = distinct[:-1], distinct[1:]
    middle = np.maximum(low / 2.0 + high / 2.0, low)
    return np.where(middle < high, middle, low)  # neighbours in floating point have nothing between them
