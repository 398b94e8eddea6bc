"""A class of policies that is a list of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelbandits.policies.experts.advice import Expert, picks_of
from kernelbandits.policies.experts.panel import Panel
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["FiniteClass"]


class FiniteClass:
    """Experts that each put all probability on one action.

    >>> from kernelbandits.policies.experts.basic_experts import ConstantExpert
    >>> policies = FiniteClass([ConstantExpert(0), ConstantExpert(1), ConstantExpert(2)])
    >>> looks = np.array([policies.look([[1.0], [2.0]], 2)])
    >>> policies.distinct(looks)  # of two actions, ConstantExpert(2) plays the last as well
    [ConstantExpert(action=0), ConstantExpert(action=1)]
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.panel = Panel(experts)

    def look(self, contexts: Points, n_actions: int) -> Vector:
        """The row that each policy plays."""
        return picks_of(self.panel.advice_on(contexts, n_actions)).astype(np.float64)

    def distinct(self, looks: Matrix) -> list[Expert]:
        """The first policy of each labelling, in their order."""
        _, first = np.unique(looks, axis=1, return_index=True)
        return self.panel.subset(np.sort(first))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "FiniteClass", "n_experts": len(self.panel), "digest": self.panel.digest}
