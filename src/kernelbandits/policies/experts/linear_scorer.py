"""The expert that weighs columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import a_vector
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Rows
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.policies.experts.advice import JointAdvice, all_on
from kernelbandits.selection.ties import best_of_each
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["LinearScorer"]


@dataclass(frozen=True)
class LinearScorer:
    """The row x of highest weights · x; among tied rows the lowest.

    >>> LinearScorer((1.0, -1.0)).advise([[0.5, 0.5], [2.0, 1.0]])
    array([0., 1.])
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = a_vector(self.weights, "The weights of a linear scorer")
        if not len(weights):
            raise InvalidParameter("A linear scorer has a weight for each column of the contexts, got none.")
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    def advise(self, contexts: Points) -> Vector:
        """1 at the row of highest score."""
        rows = Rows().check(contexts)
        advice: Vector = self.together([self])(rows, rows.shape[0])[0]
        return advice

    @staticmethod
    def together(experts: Sequence[LinearScorer]) -> JointAdvice:
        """The advice of many: one matrix product for all that have equally many weights."""
        lengths = {len(expert.weights) for expert in experts}
        if len(lengths) > 1:
            raise InvalidParameter(f"All linear scorers of a policy have equally many weights, got {sorted(lengths)}.")
        weights = np.array([expert.weights for expert in experts])

        def advice(contexts: Points, n_actions: int) -> Matrix:
            if not (is_sparse(contexts) or isinstance(contexts, np.ndarray)) or contexts.shape[1] != weights.shape[1]:
                raise InvalidContexts(
                    f"These linear scorers weigh {weights.shape[1]} columns; actions have to be rows of as many "
                    f"numbers, got {type(contexts).__name__}{getattr(contexts, 'shape', '')}."
                )
            return all_on(best_of_each((contexts @ weights.T).T), n_actions)

        return advice

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "LinearScorer", "weights": list(self.weights)}
