"""Functions of which the RKHS norm is known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from kernelbandits.checks import LARGEST, a_vector
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.types import Points, Vector

__all__ = ["RKHSFunction"]


@dataclass(frozen=True, eq=False)
class RKHSFunction:
    """A weighted sum of similarities to a few centres: f(x) = Σᵢ cᵢ k(xᵢ, x).

    Such functions lie in the kernel's Hilbert space, and their norm is no estimate: ‖f‖² = cᵀ K c with K the Gram
    matrix of the centres.

    >>> from kernelbandits.kernels import Gaussian
    >>> f = RKHSFunction(Gaussian(length_scale=1.0), np.zeros((1, 2)), np.array([0.5]))
    >>> f.norm, f(np.zeros((3, 2)))
    (0.5, array([0.5, 0.5, 0.5]))
    """

    kernel: Kernel
    centres: Points
    coefficients: Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "centres", self.kernel.kind.check(self.centres))
        coefficients, n_centres = a_vector(self.coefficients, "Coefficients"), self.kernel.kind.count(self.centres)
        if len(coefficients) != n_centres:
            raise InvalidParameter(f"There is one coefficient per centre: {n_centres}, got {len(coefficients)}.")
        if np.abs(coefficients).max() > LARGEST:
            raise InvalidParameter(f"Coefficients have to be at most {LARGEST:g}, got {np.abs(coefficients).max():g}.")
        object.__setattr__(self, "coefficients", coefficients)

    def __call__(self, contexts: Points) -> Vector:
        """Value at each context."""
        return np.asarray(self.kernel.gram(self.kernel.kind.check(contexts), self.centres) @ self.coefficients)

    @cached_property
    def norm(self) -> float:
        """RKHS norm, exact up to rounding."""
        squared = self.coefficients @ self.kernel.gram(self.centres) @ self.coefficients
        return sqrt(max(float(squared), 0.0))  # rounding can push a function that is almost zero below it

    def times(self, factor: float) -> RKHSFunction:
        """The same function, higher or lower."""
        return RKHSFunction(self.kernel, self.centres, factor * self.coefficients)
