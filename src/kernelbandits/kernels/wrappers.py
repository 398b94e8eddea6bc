"""Kernels from functions, scikit-learn kernels and matrices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import CannotSave, InvalidContexts, InvalidParameter
from kernelbandits.kernels._distances import as_rows
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.points import PointKind, check_kind, describe_kind
from kernelbandits.kernels.precomputed import Precomputed
from kernelbandits.kernels.rows import Rows, is_sparse
from kernelbandits.kernels.similarity_table import SimilarityTable
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import check_callable

__all__ = ["FromCallable", "FromScikitLearn", "KernelLike", "as_kernel", "function_name"]

KernelLike: TypeAlias = Kernel | Matrix | Callable[..., Matrix] | object
"""Objects accepted wherever a kernel is; `as_kernel` converts them."""

DIAGONAL_BLOCK: Final = 16
"""Points per Gram matrix when only its diagonal is needed: few calls, and few superfluous similarities."""

LONGEST_ARGUMENTS: Final = 200
"""Characters up to which the arguments of a partial are written out in a description; a digest replaces longer ones."""


class _Wrapped(Kernel):
    """Base class of kernels with external code: a file stores its name, not the code."""

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        raise CannotSave(
            f"{type(self).__name__} wraps code that a file cannot hold. The file names it; hand the kernel to "
            "kb.load(path, kernel=...) again."
        )


@dataclass(frozen=True, init=False, repr=False)
class FromCallable(_Wrapped):
    """Kernel from a function of two collections of points.

    Parameters
    ----------
    function
        Takes two collections in the canonical form of `kind` (rows: float64 arrays; strings, sets: lists) and returns
        the matrix of their similarities, shape (n_first, n_second). It must be symmetric and positive semi-definite,
        and is called in every thread in which the kernel is used.
    kind
        Type of the points: `Rows()` by default, `Strings()`, `Sets()`, `Ids()`, `Objects(key=...)` for anything.
    diagonal
        Optionally k(x, x) of a collection, shape (n,), if it is cheaper than by the function.

    >>> kernel = FromCallable(lambda first, second: np.minimum(first, second.T), kind=Rows())
    >>> kernel.gram([[1.0], [3.0]], [[2.0]])
    array([[1.],
           [2.]])
    """

    function: Callable[[Any, Any], Any]
    kind: PointKind
    _diagonal: Callable[[Any], Any] | None = field(repr=False)

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        kind: PointKind | None = None,
        *,
        diagonal: Callable[[Any], Any] | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidParameter(f"FromCallable takes a function of two collections, got {type(function).__name__}.")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "kind", Rows() if kind is None else check_kind(kind))
        if diagonal is not None:
            check_callable(diagonal, "The diagonal")
        object.__setattr__(self, "_diagonal", diagonal)

    @property
    def is_certified(self) -> bool:
        """Always False: the function is arbitrary."""
        return False

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        first = _arranged(self.kind, first)
        second = first if second is None else _arranged(self.kind, second)
        shape = self.kind.count(first), self.kind.count(second)
        return _checked(self.function(first, second), shape, function_name(self.function))

    def diagonal(self, points: Points) -> Vector:
        points = _arranged(self.kind, points)
        n_points = self.kind.count(points)
        if self._diagonal is not None:
            return _checked(self._diagonal(points), (n_points,), function_name(self._diagonal))
        result = np.empty(n_points)
        for start in range(0, n_points, DIAGONAL_BLOCK):
            rows = np.arange(start, min(start + DIAGONAL_BLOCK, n_points))
            result[rows] = np.diagonal(self.gram(self.kind.take(points, rows)))
        return result

    def describe(self) -> Parameters:
        diagonal = {} if self._diagonal is None else {"diagonal": function_name(self._diagonal)}
        kind = describe_kind(self.kind)
        return {"class": "FromCallable", "function": function_name(self.function), "kind": kind, **diagonal}


@dataclass(frozen=True, init=False, repr=False)
class FromScikitLearn(_Wrapped):
    """Kernel from a scikit-learn kernel object: anything with `kernel(X, Y)` and `kernel.diag(X)`.

    scikit-learn is not imported. The object is copied, so that fitting it elsewhere does not change this kernel. `kind`
    is needed for kernels over points other than rows.
    """

    kernel: Any
    kind: PointKind

    def __init__(self, kernel: Any, kind: PointKind | None = None) -> None:
        if not callable(kernel) or not hasattr(kernel, "diag"):
            raise InvalidParameter(
                f"FromScikitLearn takes an object with kernel(X, Y) and kernel.diag(X), got {type(kernel).__name__}."
            )
        if "WhiteKernel" in _part_names(kernel):
            raise InvalidParameter(
                "A WhiteKernel is noise and no similarity: k(X, X) differs from k(X, Y) for the same rows. Leave it "
                "out, and give the noise as the policy's regularization."
            )
        object.__setattr__(self, "kernel", copy.deepcopy(kernel))
        object.__setattr__(self, "kind", Rows() if kind is None else check_kind(kind))

    @property
    def is_certified(self) -> bool:
        """Always False: the object is arbitrary."""
        return False

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        first = self._taken(first)
        second = first if second is None else self._taken(second)
        return _checked(self.kernel(first, second), (self.kind.count(first), self.kind.count(second)), self._name)

    def diagonal(self, points: Points) -> Vector:
        points = self._taken(points)
        return _checked(self.kernel.diag(points), (self.kind.count(points),), self._name)

    def describe(self) -> Parameters:
        parameters = self.kernel.get_params(deep=True) if hasattr(self.kernel, "get_params") else {}
        plain = {name: _plain(value) for name, value in sorted(parameters.items())}
        return {
            "class": "FromScikitLearn",
            "kernel": self._name,
            "parameters": plain,
            "kind": describe_kind(self.kind),
        }

    def __hash__(self) -> int:
        return hash(self._name)  # scikit-learn's kernels are comparable but not hashable

    @property
    def _name(self) -> str:
        return function_name(type(self.kernel))

    def _taken(self, points: Points) -> Points:
        if is_sparse(points):
            raise InvalidContexts("scikit-learn's kernels take dense rows. Convert them: rows.toarray().")
        return _arranged(self.kind, points)


def as_kernel(kernel: Any) -> Kernel:
    """Convert any `kernel` argument to a kernel: a kernel, a table, a matrix, a scikit-learn kernel or a function.

    >>> as_kernel([[1.0, 0.3], [0.3, 1.0]]).gram([0], [1])
    array([[0.3]])
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, SimilarityTable):
        return Precomputed(kernel)
    if isinstance(kernel, type):
        raise InvalidParameter(f"A kernel is needed, got the class {kernel.__name__}. Call it: {kernel.__name__}(...).")
    if isinstance(kernel, str):
        raise InvalidParameter(
            f"A kernel is needed, got the string {kernel!r}. Kernels are objects: kernels.Gaussian(length_scale=1.0)."
        )
    if callable(kernel):
        return FromScikitLearn(kernel) if hasattr(kernel, "diag") else FromCallable(kernel)
    if isinstance(kernel, (np.ndarray, list, tuple)) or hasattr(kernel, "__array__"):
        return Precomputed(kernel)
    raise InvalidParameter(
        f"A kernel is needed, got {type(kernel).__name__}. Give a kernel of kb.kernels, a square matrix of "
        "similarities, a scikit-learn kernel, or a function of two collections of points."
    )


def _arranged(kind: PointKind, points: Points) -> Points:
    """Points in the form of the wrapped code: rows as float64 arrays, everything else unchanged."""
    return as_rows(points) if isinstance(kind, Rows) else points


def _checked(result: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Result of wrapped code as float64; raises InvalidParameter if its shape or a number is invalid."""
    try:
        values = np.asarray(result)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{name} must return an array of numbers: {error}.") from error
    if values.shape != shape:
        raise InvalidParameter(
            f"{name} must return the similarities of all pairs, shape {shape}, and returned shape {values.shape}. A "
            "function k of two points becomes one of two collections with: "
            "lambda first, second: [[k(x, z) for z in second] for x in first]."
        )
    if values.dtype.kind not in "buif" or not np.isfinite(values).all():
        raise InvalidParameter(f"{name} must return finite real numbers, and returned others (dtype {values.dtype}).")
    return values.astype(np.float64, copy=False)


def function_name(function: Any) -> str:
    """Module and name of a function, or of an object's class; a partial with its arguments, or their digest."""
    if isinstance(function, partial):
        given = [*map(_plain, function.args), *(f"{name}={_plain(value)}" for name, value in function.keywords.items())]
        arguments = ", ".join(map(str, given))
        if len(arguments) > LONGEST_ARGUMENTS:
            arguments = f"digest {sha256(arguments.encode()).hexdigest()[:16]}"
        return f"partial of {function_name(function.func)}({arguments})"
    is_named = hasattr(function, "__qualname__") and hasattr(function, "__module__")  # a generator has no module
    named = function if is_named else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _part_names(kernel: Any) -> set[str]:
    """Names of the classes that a scikit-learn kernel is composed of."""
    parts = kernel.get_params(deep=True).values() if hasattr(kernel, "get_params") else ()
    return {type(part).__name__ for part in (kernel, *parts)}


def _plain(value: Any) -> Any:
    """Parameter of a scikit-learn kernel as plain values; objects by the name of their class."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return function_name(value)
