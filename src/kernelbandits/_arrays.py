"""Array functions for NumPy arrays and, by the array API standard, for arrays of other libraries."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from kernelbandits._optional import import_optional
from kernelbandits.types import Matrix

__all__ = ["array_namespace", "at_most", "exp", "is_foreign"]


def is_foreign(array: object) -> TypeGuard[Any]:
    """Whether this is an array of another library than NumPy, such as a tensor on a GPU.

    >>> is_foreign(np.zeros(2)), is_foreign([0.0])
    (False, False)
    """
    return hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray | np.generic)


def array_namespace(array: Any) -> Any:
    """Functions of the library of an array, as the array API standard names them."""
    compatible = import_optional("array_api_compat", "Computing on another device", extra="gpu")
    return compatible.array_namespace(array)


def exp(values: Matrix) -> Matrix:
    """E to these powers; of a NumPy array in place."""
    result: Matrix = array_namespace(values).exp(values) if is_foreign(values) else np.exp(values, out=values)
    return result


def at_most(values: Matrix, limit: float) -> Matrix:
    """The values, or the limit where they are larger; of a NumPy array in place."""
    if is_foreign(values):
        clipped: Matrix = array_namespace(values).clip(values, max=limit)
        return clipped
    return np.minimum(values, limit, out=values)
