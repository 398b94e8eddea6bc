"""A matrix below the precision of a linear model whose inverse costs nothing: it bounds widths from above."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kernelbandits.types import Matrix, Vector

__all__ = ["Minorant", "minorant_of"]

MARGIN: Final = 1e-6
"""Share by which the matrix stays below what the eigenvalues allow, far above their rounding errors."""

LENGTH: Final = 8.0 * float(np.finfo(float).eps)
"""Times D, in shares of flat · ‖φ‖²: more than is lost because ‖q‖ is not quite 1 and the difference is rounded, which
along q is small beside its terms."""


class Minorant(NamedTuple):
    """M = μI + κqqᵀ ≤ C with ‖q‖ = 1, so that width² = φᵀC⁻¹φ ≤ φᵀM⁻¹φ = flat · ‖φ‖² − peak · (qᵀφ)².

    It stays below C as C grows by further observations.
    """

    direction: Vector
    flat: float
    """1/μ, and a hair more"""
    peak: float
    """1/μ − 1/(μ + κ)"""


def minorant_of(precision: Matrix, regularisation: float) -> Minorant:
    """The largest M of this form but for a margin: μ from the smallest eigenvalue of C, κ and q from the largest.

    Features often share a direction, such as a constant column, that is known well long before the others are: κ takes
    it out of the bound. Eigenvalues are off by some D ε λ_max, which is taken off the smallest. That M is below C is
    checked by a Cholesky factor of the difference, which sees it up to as much; where there is none, γI is below C for
    sure.
    """
    values, vectors = np.linalg.eigh(precision)
    rounding = 8.0 * len(values) * float(np.finfo(float).eps * values[-1])
    floor = max(regularisation, float(values[0]) - rounding) * (1.0 - MARGIN)
    direction = np.ascontiguousarray(vectors[:, -1])
    rise = max(0.0, (float(values[-1]) - floor) * (1.0 - MARGIN))
    try:
        np.linalg.cholesky(precision - floor * np.eye(len(precision)) - rise * np.outer(direction, direction))
    except np.linalg.LinAlgError:
        return Minorant(direction, 1.0 / (regularisation * (1.0 - MARGIN)), 0.0)
    peak = 1.0 / floor - 1.0 / (floor + rise)
    return Minorant(direction, (1.0 + LENGTH * len(values)) / floor, peak)
