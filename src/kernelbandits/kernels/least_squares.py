"""Least squares with a bound on the length of the solution."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.types import Matrix, Vector

__all__ = ["bounded_least_squares"]

MAX_STEPS: Final = 200
"""Steps of conjugate gradients; each refines the answer, and the bound usually ends them after some tens."""

CONVERGED: Final = 1e-12
"""Length of the gradient, as a share of the first one, at which the answer is exact for our purposes."""


def bounded_least_squares(targets: Matrix, design: Matrix, bounds: Vector) -> Matrix:
    """Rows h with ‖h‖² ≤ bound for which h · designᵀ comes close to the targets, row by row.

    Conjugate gradients from zero: every step brings h · designᵀ closer and makes h longer, directions that say much
    about the target first, and the walk ends where it meets the bound. The answer is nearly the best one within the
    bound, at the cost of a few products with the design.

    Reference: Steihaug (1983), The conjugate gradient method and trust regions in large scale optimization.
    """
    solution = np.zeros((len(targets), design.shape[1]))
    gradient = targets @ design
    direction = gradient.copy()
    squared = _dots(gradient, gradient)
    enough = CONVERGED**2 * squared
    live = np.flatnonzero(squared > 0.0)  # rows that still walk
    for _ in range(MAX_STEPS):
        if not len(live):
            break
        step = direction[live]
        curved = (step @ design.T) @ design
        full = squared[live] / _dots(step, curved)
        to_bound = _length_to_bound(solution[live], step, bounds[live])
        length = np.minimum(full, to_bound)[:, None]
        solution[live] += length * step
        gradient[live] -= length * curved
        before, squared[live] = squared[live], _dots(gradient[live], gradient[live])
        direction[live] = gradient[live] + (squared[live] / before)[:, None] * step
        live = live[(full < to_bound) & (squared[live] > enough[live])]
    return solution


def _dots(first: Matrix, second: Matrix) -> Vector:
    """Inner product of each row of the first with the same row of the second."""
    return np.asarray(np.einsum("nd,nd->n", first, second))


def _length_to_bound(start: Matrix, step: Matrix, bounds: Vector) -> Vector:
    """How far one can go along each step until ‖start + length · step‖² is the bound."""
    along, size = _dots(start, step), _dots(step, step)
    room = np.maximum(bounds - _dots(start, start), 0.0)
    return np.asarray((np.sqrt(along**2 + size * room) - along) / size)
