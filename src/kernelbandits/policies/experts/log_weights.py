"""Weights of experts, kept as logarithms."""

from __future__ import annotations

import numpy as np

from kernelbandits.types import Vector

__all__ = ["shares"]


def shares(log_weights: Vector) -> Vector:
    """Weights in proportion to exp(log_weights) that add up to 1; no size of these overflows.

    >>> shares(np.array([5000.0, 5000.0]))
    array([0.5, 0.5])
    """
    weights: Vector = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights
