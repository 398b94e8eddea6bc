"""The distance that a kernel implies: how far apart two points lie in its feature space."""

from __future__ import annotations

import numpy as np

from kernelbandits.kernels.base import Kernel
from kernelbandits.types import Matrix, Points

__all__ = ["feature_distances"]


def feature_distances(kernel: Kernel, first: Points, second: Points) -> Matrix:
    """‖φ(x) − φ(z)‖ = sqrt(k(x, x) + k(z, z) − 2 k(x, z)) of every pair, from similarities alone.

    A function of norm B changes by at most B times this from x to z. Distances below 1e-8 sqrt(k(x, x)) are rounding.

    >>> from kernelbandits.kernels import Linear
    >>> feature_distances(Linear(), [[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[5., 1.]])
    """
    squared = kernel.diagonal(first)[:, None] + kernel.diagonal(second)[None, :] - 2.0 * kernel.gram(first, second)
    return np.sqrt(np.maximum(squared, 0.0))
