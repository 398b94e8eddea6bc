"""Draws of the rewards of some points together, from their joint normal distribution."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.posterior.cholesky import cholesky
from kernelbandits.posterior.threads import few_threads
from kernelbandits.types import Matrix, Vector

__all__ = ["JITTER", "draw_jointly"]

JITTER: Final = 1e-10
"""Share of the trace that is added to the diagonal of a covariance, so that points which explain each other have a
factor too: far below the sampling error of any number of draws, far above rounding."""


def draw_jointly(mean: Vector, covariance: Matrix, n_draws: int, rng: np.random.Generator) -> Matrix:
    """One row a draw of N(mean, covariance + JITTER · trace · I), one column a point.

    >>> draw_jointly(np.array([1.0, 2.0]), np.zeros((2, 2)), 1, np.random.default_rng(0))
    array([[1., 2.]])
    """
    normal = rng.standard_normal((n_draws, len(mean)))
    jitter = JITTER * float(np.trace(covariance))
    with few_threads(float(covariance.size) * (len(mean) + n_draws)):
        while jitter > 0.0:
            try:
                return np.asarray(mean + normal @ cholesky(covariance + jitter * np.eye(len(mean))).T)
            except np.linalg.LinAlgError:  # a variance so small beside k(x, x) is all rounding
                jitter *= 10.0
    return np.tile(mean, (n_draws, 1))
