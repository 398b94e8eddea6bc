"""Kernels by the names that scikit-learn's users know."""

from __future__ import annotations

from typing import Any, Final

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import (
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    as_kernel,
    median_length_scale,
)
from kernelbandits.types import Points

__all__ = ["NAMES", "named_kernel"]

ALIASES: Final = {"gaussian": "rbf", "polynomial": "poly"}
OF_DISTANCE: Final = ("rbf", "laplacian", "matern", "rational_quadratic")
NAMES: Final = ("rbf", "laplacian", "matern", "rational_quadratic", "linear", "poly", "cosine", "precomputed")


def named_kernel(
    kernel: Any, points: Points, *, length_scale: Any, smoothness: float, degree: int, offset: float
) -> Kernel:
    """The kernel of that name with these parameters; anything else that can be a kernel as it is.

    >>> named_kernel("rbf", [[0.0], [3.0]], length_scale="median", smoothness=1.5, degree=3, offset=1.0)
    Gaussian(length_scale=3.0)
    """
    if not isinstance(kernel, str):
        return as_kernel(kernel)
    name = ALIASES.get(kernel, kernel)
    if name in OF_DISTANCE:
        return _of_distance(name, _length_scale(length_scale, points), smoothness)
    if name == "linear":
        return Linear()
    if name == "poly":
        return Polynomial(degree=degree, offset=offset)
    if name == "cosine":
        return Cosine()
    raise InvalidParameter(
        f"A kernel by name is one of {', '.join(map(repr, NAMES))}, got {kernel!r}. Or give an object or a function."
    )


def _of_distance(name: str, length_scale: Any, smoothness: float) -> Kernel:
    if name == "rbf":
        return Gaussian(length_scale=length_scale)
    if name == "laplacian":
        return Laplacian(length_scale=length_scale)
    if name == "matern":
        return Matern(smoothness=smoothness, length_scale=length_scale)
    return RationalQuadratic(length_scale=length_scale)


def _length_scale(length_scale: Any, points: Points) -> Any:
    if not isinstance(length_scale, str):
        return length_scale
    if length_scale != "median":
        raise InvalidParameter(f"A length scale is a number, one per column, or 'median', got {length_scale!r}.")
    return median_length_scale(points, seed=0)
