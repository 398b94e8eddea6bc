"""What every kernel can do."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import CannotSave, InvalidParameter, NotSupported
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.rows import Rows
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["Kernel", "positive"]


class Kernel(ABC):
    """Similarity k(x, z) of two points; symmetric and positive semi-definite. Frozen.

    Compose kernels with `+`, `*` and numbers. Write your own by subclassing (two methods and `kind`), or wrap a
    function with `FromCallable`. `gram` trusts its points: posteriors and policies check theirs with `kind.check`.
    """

    kind: PointKind = Rows()

    @abstractmethod
    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        """K of every pair, shape (len(first), len(second)); `None` means `first`."""

    @abstractmethod
    def diagonal(self, points: Points) -> Vector:
        """k(x, x) of every point, without the Gram matrix."""

    def n_features(self, points: Points) -> int | None:
        """Length of the finite feature map for such points, or None where there is none."""
        del points
        return None

    def features(self, points: Points) -> Matrix:
        """Rows φ with φ φᵀ = gram."""
        del points
        raise NotSupported(f"{type(self).__name__} has no finite feature map; use the exact posterior.")

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        values = {field.name: _plain(getattr(self, field.name)) for field in _fields(self)}
        return {"class": type(self).__name__, **values}

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        """Parameters and arrays from which `unpack` makes the same kernel.

        CannotSave where there is no such form: a kernel of your own is handed to `kb.load(path, kernel=...)` again.
        """
        if not type(self).__module__.startswith("kernelbandits.kernels."):
            raise CannotSave(f"{type(self).__name__} is a kernel of your own; a file can name it and not hold it.")
        parameters: Parameters = {"class": type(self).__name__}
        arrays: dict[str, NDArray[Any]] = {}
        for field in _fields(self):
            parameters[field.name] = _pack_value(getattr(self, field.name), field.name, arrays)
        return parameters, arrays

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> Kernel:
        """Inverse of `pack`; nested kernels arrive as kernels."""
        del arrays
        return cls(**{name: value for name, value in parameters.items() if name != "class"})

    def __add__(self, other: Kernel | float) -> Kernel:
        from kernelbandits.kernels.combine import add

        return add(self, other)

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kernelbandits.kernels.combine import multiply

        return multiply(self, other)

    __radd__ = __add__
    __rmul__ = __mul__


def positive(value: float, name: str) -> float:
    """The value as a float, or InvalidParameter when it is no finite number above zero."""
    number = float(value)
    if not 0.0 < number < np.inf:  # also catches NaN
        raise InvalidParameter(f"{name} has to be a finite number above zero, got {value!r}.")
    return number


def _fields(kernel: Kernel) -> tuple[dataclasses.Field[Any], ...]:
    if not dataclasses.is_dataclass(kernel):
        return ()
    return tuple(field for field in dataclasses.fields(kernel) if field.init and field.compare)


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.describe()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def _pack_value(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain form of a field; arrays of nested kernels go into `arrays` under their place."""
    if isinstance(value, Kernel):
        parameters, nested = value.pack()
        arrays.update({f"{name}.{key}": array for key, array in nested.items()})
        return parameters
    if isinstance(value, tuple):
        return [_pack_value(part, f"{name}.{place}", arrays) for place, part in enumerate(value)]
    return _plain(value)
