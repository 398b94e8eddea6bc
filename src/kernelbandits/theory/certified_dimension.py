"""The effective dimension of many points from the leading directions of their Gram matrix."""

from __future__ import annotations

from math import log, sqrt
from typing import Final

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.theory.spectra import effective_dimension
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["NEGLIGIBLE", "certified_dimension"]

LITTLE: Final = 1e-6
"""Share of γ ln T below which what is left of the trace can hardly move d̃."""

NEGLIGIBLE: Final = 1e-13
"""Share of the largest similarity below which what is left of a point is rounding."""


def certified_dimension(
    kernel: Kernel, points: Points, counts: Vector, *, regularisation: float, horizon: int, most: int
) -> int | None:
    """d̃ of `theory.effective_dimension`, counts included, or None where `most` directions do not settle it.

    A factorisation A ≈ L Lᵀ of A = D^½ K D^½ takes one column after the other, always of the point of which most is
    left. Eigenvalues of LᵀL never exceed those of A, and together they fall short by the trace of A − L Lᵀ. So tails
    μ_{j+1} + μ_{j+2} + … of A lie between those of LᵀL and the same plus that trace: two bounds on d̃, which is known
    where they agree. With n points and r directions this costs O(n r²), and the Gram matrix is never written down.

    Parameters
    ----------
    kernel
        Similarity of the points.
    points, counts
        Distinct points in the canonical form of the kernel's kind, and how often each was chosen.
    regularisation, horizon
        γ and T.
    most
        Directions to look for.

    Examples
    --------
    >>> from kernelbandits.kernels import Linear
    >>> points = np.linspace(-1.0, 1.0, 50)[:, None]  # on a line: one direction
    >>> certified_dimension(Linear(), points, np.ones(50), regularisation=0.1, horizon=50, most=5)
    1
    """
    step = regularisation * log(horizon)
    factor, rest = _factor(kernel, points, counts, enough=LITTLE * step, most=most)
    spectrum = np.maximum(np.linalg.eigvalsh(factor.T @ factor), 0.0) if factor.size else np.zeros(1)
    least = effective_dimension(spectrum=spectrum, regularisation=regularisation, horizon=horizon)
    trace = float(spectrum.sum()) + rest
    greatest = effective_dimension(spectrum=spectrum, trace=trace, regularisation=regularisation, horizon=horizon)
    return least if least == greatest else None


def _factor(kernel: Kernel, points: Points, counts: Vector, *, enough: float, most: int) -> tuple[Matrix, float]:
    """Columns L and the trace of D^½ K D^½ − L Lᵀ, once that is small enough, or there are `most`."""
    roots = np.sqrt(counts)
    left = counts * kernel.diagonal(points)  # what is left of each point's diagonal
    rounding = NEGLIGIBLE * float(left.max())
    columns = np.empty((len(counts), min(most, len(counts))), order="F")
    rank = 0
    while rank < columns.shape[1] and left.sum() > enough and left.max() > rounding:
        pivot = int(np.argmax(left))
        similarity = kernel.gram(points, kernel.kind.take(points, np.array([pivot])))[:, 0]
        column = columns[:, rank]
        column[:] = roots * similarity * roots[pivot] - columns[:, :rank] @ columns[pivot, :rank]
        column /= sqrt(float(left[pivot]))
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        rank += 1
    return columns[:, :rank], float(left.sum())
