"""Ridge regression from similarities alone, where nothing but a Gram matrix is given."""

from __future__ import annotations

import numpy as np

from kernelbandits.errors import NotPositiveSemidefinite
from kernelbandits.posterior.base import checked_regularisation
from kernelbandits.types import Matrix, Vector

__all__ = ["SimilarityRidge"]


class SimilarityRidge:
    """Mean and width from similarities to the observed points: mean = kᵀA⁻¹y, width² = (k(x, x) − kᵀA⁻¹k)/γ.

    A = K + γI. The posteriors of this library ask a kernel for similarities; here the caller brings them along.

    Parameters
    ----------
    gram
        Similarities of the observed points to each other.
    rewards
        What was observed at them.

    >>> ridge = SimilarityRidge(np.eye(2), np.array([1.0, 3.0]), regularisation=1.0)
    >>> ridge.mean(np.array([[0.0, 1.0]]))
    array([1.5])
    """

    def __init__(self, gram: Matrix, rewards: Vector, *, regularisation: float) -> None:
        from scipy.linalg import cho_factor, cho_solve

        self.regularisation = checked_regularisation(regularisation)
        try:
            self._factor = cho_factor(gram + self.regularisation * np.eye(len(gram)), lower=True)
        except np.linalg.LinAlgError as error:
            raise NotPositiveSemidefinite(
                "The similarities are no kernel: their matrix has an eigenvalue below −regularisation. "
                "kernelbandits.kernels.repair makes one of them."
            ) from error
        self._dual_weights = cho_solve(self._factor, rewards)

    def mean(self, similarities: Matrix) -> Vector:
        """Mean at points with these similarities to the observed ones, a row a point."""
        return np.asarray(similarities @ self._dual_weights)

    def width(self, similarities: Matrix, diagonal: Vector) -> Vector:
        """Width at these points, k(x, x) being `diagonal`."""
        from scipy.linalg import solve_triangular

        whitened = solve_triangular(self._factor[0], similarities.T, lower=True)
        unexplained = diagonal - np.sum(whitened**2, axis=0)
        # Rounding can push a known point slightly below zero.
        return np.asarray(np.sqrt(np.maximum(unexplained, 0.0) / self.regularisation))
