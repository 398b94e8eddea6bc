"""Ridge regression on coordinates, kept up to date by changes of rank one: a square root of the inverse."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from kernelbandits.posterior.cholesky import cholesky, solve_lower
from kernelbandits.types import Matrix, Vector

__all__ = ["RidgeRoot"]


class RidgeRoot:
    """T with TᵀT = C⁻¹ for C = γI + Σ n φφᵀ, and the weights θ = C⁻¹ Σ sφ of points φ with counts n and sums s.

    Another observation of φ is a product with T on either side and one change of rank one (Potter's square root
    filter): with y = sqrt(n)·Tφ,

        T ← (I − b yyᵀ) T,   b = (1 − 1/sqrt(1 + yᵀy)) / yᵀy,

    3r² multiplications against r³/3 for a new factor. ‖Tφ‖² = φᵀC⁻¹φ is a sum of squares and cannot fall below zero.
    The matrices are those of all points, one column each: (rank, n_points).
    """

    def __init__(self, coordinates: Matrix, counts: Vector, sums: Vector, *, regularisation: float) -> None:
        self.regularisation = regularisation
        scaled = coordinates * counts
        precision = scaled @ coordinates.T
        self.trace = float(np.trace(precision))
        """Σ n ‖φ‖²."""
        precision[np.diag_indices_from(precision)] += regularisation
        lower = cholesky(precision)
        self.log_det_gain = _log_det(lower) - len(lower) * log(regularisation)
        """Ln det(C/γ)."""
        self.root: Matrix = np.eye(len(lower))
        solve_lower(lower, self.root)
        self.n_changes = 0
        """Since T was made; each adds its rounding errors."""
        self.retarget(coordinates, sums)

    def retarget(self, coordinates: Matrix, sums: Vector) -> None:
        """The weights for other reward sums of the same points."""
        self.weights: Vector = (self.root @ (coordinates @ sums)) @ self.root

    def add(self, column: Vector, count: float, total: float) -> None:
        """`count` more observations of one point, whose rewards add up to `total`."""
        from scipy.linalg.blas import dger

        y = self.root @ column
        explained = count * float(y @ y)
        gain = y @ self.root  # C⁻¹φ
        self.weights += gain * ((total - count * float(column @ self.weights)) / (1.0 + explained))
        # count·b, with yᵀy = explained, in a form that does not cancel when little is explained
        grown = sqrt(1.0 + explained)
        dger(-count / (grown * (1.0 + grown)), gain, y, a=self.root.T, overwrite_a=1)
        self.log_det_gain += 2.0 * log(grown)
        self.trace += count * float(column @ column)
        self.n_changes += 1

    def widen(self, coordinates: Matrix, counts: Vector, sums: Vector) -> None:
        """The points have more coordinates than before: C gets more rows, and T those of their Schur complement."""
        size = len(self.root)
        old, new = coordinates[:size], coordinates[size:]
        scaled = new * counts
        whitened = self.root @ (old @ scaled.T)
        left = scaled @ new.T
        self.trace += float(np.trace(left))
        left -= whitened.T @ whitened
        left[np.diag_indices_from(left)] += self.regularisation
        corner = cholesky(left)
        rows = np.hstack([-(whitened.T @ self.root), np.eye(len(new))])
        solve_lower(corner, rows)
        root = np.zeros((len(coordinates), len(coordinates)))
        root[:size, :size] = self.root
        root[size:] = rows
        self.root = root
        self.log_det_gain += _log_det(corner) - len(new) * log(self.regularisation)
        self.retarget(coordinates, sums)


def _log_det(lower: Matrix) -> float:
    return 2.0 * float(np.log(np.diagonal(lower)).sum())
