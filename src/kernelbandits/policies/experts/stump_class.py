"""The class of all stumps, whatever their threshold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Final

import numpy as np

from kernelbandits.checks import MOST_IN_MEMORY, a_count, a_list
from kernelbandits.errors import InvalidContexts
from kernelbandits.policies.experts.advice import Expert
from kernelbandits.policies.experts.basic_experts import ConstantExpert
from kernelbandits.policies.experts.shared_row import shared_row
from kernelbandits.policies.experts.stump import Stump, thresholds_between
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["StumpClass"]


MOST_COLUMNS: Final = 10**6
"""That a class looks at when it is given their number."""


class StumpClass:
    """Every threshold on every one of some columns, with every two rows below and above it; constant rows among them.

    Infinitely many policies, of which n rounds can tell apart only as many as there are gaps between their values: with
    two actions and one column of distinct values, 2n.

    Parameters
    ----------
    columns
        Columns that a stump may look at; a number means so many, from the first.
    n_actions
        Rows 0 to n_actions − 1 are played.

    >>> StumpClass(1).distinct(np.array([[0.5], [1.5]]))  # doctest: +NORMALIZE_WHITESPACE
    [ConstantExpert(action=0), ConstantExpert(action=1),
     Stump(column=0, threshold=1.0, below=0, above=1), Stump(column=0, threshold=1.0, below=1, above=0)]
    """

    def __init__(self, columns: int | Sequence[int], *, n_actions: int = 2) -> None:
        if isinstance(columns, int):
            columns = range(a_count(columns, "The number of columns", most=MOST_COLUMNS))
        listed = [a_count(column, "A column", least=0, most=MOST_IN_MEMORY) for column in a_list(columns, "Columns")]
        self.columns = tuple(dict.fromkeys(listed))
        a_count(len(self.columns), "The number of columns")
        self.n_actions = a_count(n_actions, "The number of actions", least=2)

    def look(self, contexts: Points, n_actions: int) -> Vector:
        """The columns, as all actions of the round share them."""
        del n_actions
        row = shared_row(contexts)
        if max(self.columns) >= len(row):
            raise InvalidContexts(
                f"These stumps look at column {max(self.columns)}; this round has columns 0 to {len(row) - 1}."
            )
        return row[list(self.columns)]

    def distinct(self, looks: Matrix) -> list[Expert]:
        """Constant rows first, then each division of the rounds in two with all pairs of rows.

        A division and its complement are one, since every pair of rows comes in both orders.
        """
        known: dict[bytes, tuple[int, float]] = {}
        for place, column in enumerate(self.columns):
            for threshold in thresholds_between(looks[:, place]):
                is_below = looks[:, place] <= threshold
                known.setdefault(np.packbits(is_below ^ is_below[0]).tobytes(), (column, float(threshold)))
        constants: list[Expert] = [ConstantExpert(action) for action in range(self.n_actions)]
        return constants + [
            Stump(column=column, threshold=threshold, below=below, above=above)
            for column, threshold in known.values()
            for below, above in permutations(range(self.n_actions), 2)
        ]

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "StumpClass", "columns": list(self.columns), "n_actions": self.n_actions}
