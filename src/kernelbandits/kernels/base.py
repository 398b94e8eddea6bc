"""Kernel interface."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelbandits._text import repr_of_fields
from kernelbandits.errors import CannotSave, InvalidParameter, NotSupported
from kernelbandits.kernels.points import PointKind, Shared, describe_kind
from kernelbandits.kernels.rows import Rows
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import short_repr

__all__ = ["Kernel", "check_kernel", "no_gradient", "pack_value"]


class Kernel(Shared, ABC):
    """Similarity k(x, z) of two points; symmetric and positive semi-definite. Immutable.

    A kernel can be used in several threads at once. `copy` returns the kernel itself, so that a policy and its copies
    share it, together with the similarity table it may use.

    Combine kernels with `+`, `*` and numbers. Define your own by subclassing (two methods and `kind`), or wrap a
    function with `FromCallable`. `gram` does not validate its points: posteriors and policies validate theirs with
    `kind.check`.
    """

    kind: PointKind = Rows()

    is_rotation_invariant: ClassVar[bool] = False
    """Whether it depends on lengths and angles of rows only; with one length scale, if it has length scales."""

    takes_any_array: ClassVar[bool] = False
    """Whether `gram` also takes rows as arrays of another library (`_arrays.is_foreign`), if all nested kernels do."""

    @abstractmethod
    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        """Similarity k(x, z) of every pair, shape (len(first), len(second)); `None` means `first`."""

    @abstractmethod
    def diagonal(self, points: Points) -> Vector:
        """k(x, x) of every point, without the Gram matrix."""

    def n_features(self, points: Points) -> int | None:
        """Length of the finite feature map for such points, or None if there is none."""
        return None

    def features(self, points: Points) -> Matrix:
        """Rows φ with φ φᵀ = gram."""
        raise NotSupported(f"{type(self).__name__} has no finite feature map; use the exact posterior.")

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        """Gradients Σ_j w_ij ∂k(x_i, z_j)/∂x_i: one row per point x_i of the first, one column per column of it.

        Of pairs, with respect to the action. Only for dense rows, and pairs with dense rows as actions. Where k is not
        differentiable, at the kink of `Laplacian` and of `Matern` with smoothness 1/2, the kink contributes 0.

        Parameters
        ----------
        first, second
            Points x and z.
        weights
            w, shape (len(first), len(second)).
        """
        if type(self).feature_gradient is Kernel.feature_gradient:
            raise no_gradient(self)
        return self.feature_gradient(first, weights @ self.features(second))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        """Gradients Σ_f w_if ∂φ_f(x_i)/∂x_i of the features, as in `gradient`; weights have one column per feature."""
        raise no_gradient(self)

    def log_parameters(self) -> Vector:
        """Logarithms of the parameters that can be learned from rewards: length scales, and the weights of a sum."""
        return np.zeros(0)

    def with_log_parameters(self, values: Vector) -> Kernel:
        """The same kernel with other `log_parameters`. The weights of a sum keep their total."""
        return self

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        """Derivative of Σ wᵢⱼ k(xᵢ, xⱼ) with respect to `log_parameters`, for symmetric weights w."""
        return np.zeros(0)

    @property
    def is_certified(self) -> bool:
        """Whether it is certainly positive semi-definite and compares any two points that its kind accepts.

        Then a model can delay the processing of a point: a validated point cannot be rejected later. True for the
        kernels of this library that are formulas, and for kernels composed of these.
        """
        is_ours = type(self).__module__.startswith("kernelbandits.kernels.")
        return is_ours and all(part.is_certified for part in self._parts())

    def _parts(self) -> list[Kernel]:
        values = [getattr(self, field.name) for field in _fields(self)]
        nested = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        return [part for part in nested if isinstance(part, Kernel)]

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        values = {field.name: _plain(getattr(self, field.name)) for field in _fields(self)}
        return {"class": type(self).__name__, **values}

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        """Parameters and arrays from which `unpack` restores the same kernel.

        Raises CannotSave if there is no such form: pass a user-defined kernel to `kb.load(path, kernel=...)` again.
        """
        if not type(self).__module__.startswith("kernelbandits.kernels."):
            raise CannotSave(f"{type(self).__name__} is a kernel of your own; a file can name it and not hold it.")
        parameters: Parameters = {"class": type(self).__name__}
        arrays: dict[str, NDArray[Any]] = {}
        for field in _fields(self):
            parameters[field.name] = pack_value(getattr(self, field.name), field.name, arrays)
        return parameters, arrays

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> Kernel:
        """Inverse of `pack`; nested kernels are passed as kernels."""
        return cls(**{name: value for name, value in parameters.items() if name != "class"})

    def __repr__(self) -> str:
        return repr_of_fields(self) if dataclasses.is_dataclass(self) else f"{type(self).__name__}()"

    __array_ufunc__ = None  # NumPy scalars delegate `number * kernel` to the kernel

    def __add__(self, other: Kernel | float) -> Kernel:
        from kernelbandits.kernels.composite import add

        return add(self, other) if isinstance(other, (Kernel, Real)) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kernelbandits.kernels.composite import multiply

        return multiply(self, other) if isinstance(other, (Kernel, Real)) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__


def no_gradient(kernel: Kernel) -> NotSupported:
    """Error for a kernel that cannot be differentiated."""
    return NotSupported(
        f"A search by gradients needs a kernel that can be differentiated, got {short_repr(kernel)}. Kernels of dense "
        "rows that are formulas can be (Gaussian, Matern, Linear, Polynomial and others, sums and products of these); "
        "for any other kernel, list the actions in an array or a kb.Catalog."
    )


def check_kernel(value: Kernel) -> Kernel:
    """Validate a kernel; raise InvalidParameter otherwise."""
    if not isinstance(value, Kernel):
        raise InvalidParameter(
            f"A kernel is needed, got {short_repr(value)}. Wrap a function or a table first: kb.kernels.as_kernel(...)."
        )
    return value


def _fields(kernel: Kernel) -> tuple[dataclasses.Field[Any], ...]:
    if not dataclasses.is_dataclass(kernel):
        return ()
    return tuple(field for field in dataclasses.fields(kernel) if field.init and field.compare)


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.describe()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, PointKind):
        return describe_kind(value)
    return value


def pack_value(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain form of a field; arrays of nested kernels are added to `arrays` under their path.

    A nested kernel's arrays are named `<field>.<array>`, those of a kernel in a tuple `<field>.<place>.<array>`;
    `serialization.unpack_kernel` parses these names.
    """
    if isinstance(value, Kernel):
        parameters, nested = value.pack()
        arrays.update({f"{name}.{key}": array for key, array in nested.items()})
        return parameters
    if isinstance(value, tuple):
        return [pack_value(part, f"{name}.{place}", arrays) for place, part in enumerate(value)]
    if isinstance(value, PointKind):
        from kernelbandits.kernels.kinds import pack_kind

        return pack_kind(value)
    return _plain(value)
