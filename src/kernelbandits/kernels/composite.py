"""Composite kernels: sums, products, scaling, normalization and column selection."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels._distances import as_rows
from kernelbandits.kernels.base import Kernel, check_kernel, no_gradient, pack_value
from kernelbandits.kernels.linear import Constant
from kernelbandits.kernels.points import PointKind, describe_kind
from kernelbandits.kernels.rows import Rows
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import MOST_IN_MEMORY, check_int, check_list, check_positive, short_repr

__all__ = ["Columns", "Normalized", "Product", "Scaled", "Sum"]


@dataclass(frozen=True, repr=False)
class Around(Kernel):
    """Base class of kernels made of one other kernel, whose parameters are theirs."""

    kernel: Kernel

    def log_parameters(self) -> Vector:
        return self.kernel.log_parameters()

    def with_log_parameters(self, values: Vector) -> Around:
        return replace(self, kernel=self.kernel.with_log_parameters(values))


@dataclass(frozen=True, repr=False)
class Scaled(Around):
    """Scaled kernel: factor · k. In a sum the factor is a weight; elsewhere it is not learned."""

    takes_any_array = True

    factor: float

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        object.__setattr__(self, "factor", check_positive(self.factor, "The factor of a kernel"))

    @property
    def kind(self) -> PointKind:  # type: ignore[override]
        return self.kernel.kind

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return self.factor * self.kernel.gram(first, second)

    def diagonal(self, points: Points) -> Vector:
        return self.factor * self.kernel.diagonal(points)

    def n_features(self, points: Points) -> int | None:
        return self.kernel.n_features(points)

    def features(self, points: Points) -> Matrix:
        return sqrt(self.factor) * self.kernel.features(points)

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        return self.kernel.gradient(first, second, self.factor * weights)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return self.kernel.feature_gradient(points, sqrt(self.factor) * weights)

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        return self.factor * self.kernel.parameter_gradient(points, weights)


@dataclass(frozen=True, repr=False)
class _Several(Kernel):
    """Base class of kernels with several parts over the same points."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        parts = tuple(check_kernel(part) for part in check_list(self.parts, "Parts"))
        if not parts:
            raise InvalidParameter(f"{type(self).__name__} needs at least one kernel, got none.")
        choosy = [part.kind for part in parts if not _takes_any_kind(part)]
        if choosy:  # a constant accepts any point: the other parts define the kind
            parts = tuple(_over(part, choosy[0]) for part in parts)
        if any(part.kind != parts[0].kind for part in parts):
            kinds = ", ".join(repr(describe_kind(part.kind)) for part in parts)
            raise InvalidParameter(
                f"Kernels over different kinds of points cannot be combined, got {kinds}. For (context, action) "
                "pairs need PairSum or PairProduct; ids must belong to one table."
            )
        object.__setattr__(self, "parts", parts)

    @property
    def kind(self) -> PointKind:  # type: ignore[override]
        return self.parts[0].kind

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        parts, arrays = self.parts, dict[str, NDArray[Any]]()
        if not _takes_any_kind(self):  # constants adopt the kind of the other parts again
            parts = tuple(_over(part, Rows()) for part in parts)
        return {"class": type(self).__name__, "parts": pack_value(parts, "parts", arrays)}, arrays


def _takes_any_kind(kernel: Kernel) -> bool:
    """Whether the kernel is composed of constants only, which do not depend on their points."""
    if isinstance(kernel, (Scaled, Normalized)):
        return _takes_any_kind(kernel.kernel)
    if isinstance(kernel, _Several):
        return all(map(_takes_any_kind, kernel.parts))
    return isinstance(kernel, Constant)


def _over(kernel: Kernel, kind: PointKind) -> Kernel:
    """The same kernel; one that accepts any kind of point gets this kind."""
    if not _takes_any_kind(kernel):
        return kernel
    if isinstance(kernel, (Scaled, Normalized)):
        return replace(kernel, kernel=_over(kernel.kernel, kind))
    if isinstance(kernel, _Several):
        return replace(kernel, parts=tuple(_over(part, kind) for part in kernel.parts))
    return replace(kernel, kind=kind)  # type: ignore[type-var]


def constant_in(kernel: Kernel) -> float:
    """Value c of the constant parts of a kernel k = k₀ + c.

    >>> constant_in(2.0 * (Constant(0.5) + Constant(1.0)))
    3.0
    """
    if isinstance(kernel, Constant):
        return kernel.value
    if isinstance(kernel, Scaled):
        return kernel.factor * constant_in(kernel.kernel)
    return sum(map(constant_in, kernel.parts)) if isinstance(kernel, Sum) else 0.0


@dataclass(frozen=True, repr=False)
class Sum(_Several):
    """Sum of kernels over the same points: their features are concatenated."""

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return reduce(operator.add, (part.gram(first, second) for part in self.parts))

    def diagonal(self, points: Points) -> Vector:
        return reduce(np.add, (part.diagonal(points) for part in self.parts))

    def n_features(self, points: Points) -> int | None:
        sizes = [part.n_features(points) for part in self.parts]
        return None if None in sizes else sum(filter(None, sizes))

    def features(self, points: Points) -> Matrix:
        return np.hstack([part.features(points) for part in self.parts])

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        return reduce(np.add, (part.gradient(first, second, weights) for part in self.parts))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        if self.n_features(points) is None:
            raise no_gradient(self)
        ends = np.cumsum([int(part.n_features(points) or 0) for part in self.parts])[:-1]
        own = zip(self.parts, np.split(weights, ends, axis=1), strict=True)
        return reduce(np.add, (part.feature_gradient(points, some) for part, some in own))

    def log_parameters(self) -> Vector:
        return weighted_parameters(self.parts)

    def with_log_parameters(self, values: Vector) -> Sum:
        return Sum(tuple(weighted_parts(self.parts, values)))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        return weighted_gradient([(part, points, weights) for part in self.parts])


def weighted_parameters(parts: Sequence[Kernel]) -> Vector:
    """Logarithms of the weights of several parts, then the parameters of each."""
    weights = [part.factor if isinstance(part, Scaled) else 1.0 for part in parts]
    return np.concatenate([np.log(weights), *(part.log_parameters() for part in parts)])


def weighted_parts(parts: Sequence[Kernel], values: Vector) -> list[Kernel]:
    """The parts with other `weighted_parameters`. Their weights are a convex combination times the total so far."""
    shares = np.exp(values[: len(parts)] - values[: len(parts)].max())
    shares *= sum(part.factor if isinstance(part, Scaled) else 1.0 for part in parts) / shares.sum()
    bare = [part.kernel if isinstance(part, Scaled) else part for part in parts]
    found = with_values(bare, values[len(parts) :])
    return [Scaled(part, weight) for part, weight in zip(found, shares.tolist(), strict=True)]


def weighted_gradient(parts: Sequence[tuple[Kernel, Points, Matrix]]) -> Vector:
    """Gradient by `weighted_parameters`, from every part with its points and weights."""
    sums = np.array([np.vdot(weights, part.gram(points)) for part, points, weights in parts])
    shares = np.array([part.factor if isinstance(part, Scaled) else 1.0 for part, _, _ in parts])
    own = [part.parameter_gradient(points, weights) for part, points, weights in parts]
    return np.concatenate([sums - shares / shares.sum() * sums.sum(), *own])


def _own_values(parts: Sequence[Kernel], values: Vector) -> list[Vector]:
    """Split the values of all parts into those of each."""
    return np.split(values, np.cumsum([len(part.log_parameters()) for part in parts])[:-1])


@dataclass(frozen=True, repr=False)
class Product(_Several):
    """Product of kernels over the same points: similar only if similar under all parts."""

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return reduce(operator.mul, (part.gram(first, second) for part in self.parts))

    def diagonal(self, points: Points) -> Vector:
        return reduce(np.multiply, (part.diagonal(points) for part in self.parts))

    def n_features(self, points: Points) -> int | None:
        total = 1
        for part in self.parts:
            size = part.n_features(points)
            if size is None:
                return None
            total *= size
        return total

    def features(self, points: Points) -> Matrix:
        """All products of one feature of each part."""
        return reduce(paired_features, (part.features(points) for part in self.parts))

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        grams = [part.gram(first, second) for part in self.parts]
        others = [reduce(np.multiply, [*grams[:place], *grams[place + 1 :]], weights) for place in range(len(grams))]
        slopes = (part.gradient(first, second, own) for part, own in zip(self.parts, others, strict=True))
        return reduce(np.add, slopes)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        if self.n_features(points) is None:
            raise no_gradient(self)
        features = [part.features(points) for part in self.parts]
        slopes = (
            part.feature_gradient(points, weights_of_factor(weights, features, place))
            for place, part in enumerate(self.parts)
        )
        return reduce(np.add, slopes)

    def log_parameters(self) -> Vector:
        return np.concatenate([part.log_parameters() for part in self.parts])

    def with_log_parameters(self, values: Vector) -> Product:
        return Product(tuple(with_values(self.parts, values)))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        grams, found = [part.gram(points) for part in self.parts], []
        for place, part in enumerate(self.parts):
            others = grams[:place] + grams[place + 1 :]
            found.append(part.parameter_gradient(points, reduce(operator.mul, others, weights)))
        return np.concatenate(found)


def with_values(parts: Sequence[Kernel], values: Vector) -> list[Kernel]:
    """The parts with other parameters, given one after the other."""
    return [part.with_log_parameters(own) for part, own in zip(parts, _own_values(parts, values), strict=True)]


def paired_features(first: Matrix, second: Matrix) -> Matrix:
    """Row-wise products of every entry of the first with every entry of the second."""
    return np.asarray(np.einsum("ni,nj->nij", first, second).reshape(len(first), -1))


def weights_of_factor(weights: Matrix, features: Sequence[Matrix], place: int) -> Matrix:
    """Weights of the features at one place, for weights of all products of features and the others held fixed."""
    alone = np.ones((len(weights), 1))
    before = reduce(paired_features, features[:place], alone)
    after = reduce(paired_features, features[place + 1 :], alone)
    each = weights.reshape(len(weights), before.shape[1], -1, after.shape[1])
    return np.asarray(np.einsum("nbfa,nb,na->nf", each, before, after))


@dataclass(frozen=True, repr=False)
class Normalized(Around):
    """Cosine-normalized kernel k(x, z) / sqrt(k(x, x) k(z, z)), so that k(x, x) = 1; if k(x, x) = 0, it stays 0."""

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    @property
    def kind(self) -> PointKind:  # type: ignore[override]
        return self.kernel.kind

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        left = self._inverse_norms(first)
        right = left if second is None else self._inverse_norms(second)
        return left[:, None] * self.kernel.gram(first, second) * right[None, :]

    def diagonal(self, points: Points) -> Vector:
        return (self.kernel.diagonal(points) > 0).astype(np.float64)

    def n_features(self, points: Points) -> int | None:
        return self.kernel.n_features(points)

    def features(self, points: Points) -> Matrix:
        return self._inverse_norms(points)[:, None] * self.kernel.features(points)

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        left, right = self._inverse_norms(first), self._inverse_norms(second)
        scaled = weights * left[:, None] * right
        slope = self.kernel.gradient(first, second, scaled)
        return slope - self._slope_of_norm(first, np.einsum("ij,ij->i", scaled, self.kernel.gram(first, second)))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        scaled = self._inverse_norms(points)[:, None] * weights
        slope = self.kernel.feature_gradient(points, scaled)
        return slope - self._slope_of_norm(points, np.einsum("nf,nf->n", scaled, self.kernel.features(points)))

    def _slope_of_norm(self, points: Points, values: Vector) -> Matrix:
        """Gradient of ½ ln k(x, x), times these values; half the gradient of k(x, x) is that of k(x, z) at z = x."""
        return self.kernel.gradient(points, points, np.diag(values * self._inverse_norms(points) ** 2))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        inverse = self._inverse_norms(points)
        inner = weights * inverse[:, None] * inverse[None, :]
        through_norms = np.einsum("ij,ij->i", inner, self.kernel.gram(points)) * inverse**2
        return self.kernel.parameter_gradient(points, inner - np.diag(through_norms))

    def _inverse_norms(self, points: Points) -> Vector:
        norms = np.sqrt(np.maximum(self.kernel.diagonal(points), 0.0))
        return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)


@dataclass(frozen=True, repr=False)
class Columns(Around):
    """Kernel applied to some columns only."""

    columns: Sequence[int]

    def __post_init__(self) -> None:
        if not isinstance(check_kernel(self.kernel).kind, Rows):
            raise InvalidParameter(f"Only rows have columns; this kernel compares {describe_kind(self.kernel.kind)}.")
        try:
            columns = tuple(check_int(column, "A column", least=0) for column in check_list(self.columns, "Columns"))
            check_int(max(columns, default=-1), "The last column", least=0, most=MOST_IN_MEMORY)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"Columns must be whole numbers from 0, at least one, got {short_repr(self.columns)}."
            ) from error
        object.__setattr__(self, "columns", columns)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return self.kernel.gram(self._seen(first), None if second is None else self._seen(second))

    def diagonal(self, points: Points) -> Vector:
        return self.kernel.diagonal(self._seen(points))

    def n_features(self, points: Points) -> int | None:
        return self.kernel.n_features(self._seen(points))

    def features(self, points: Points) -> Matrix:
        return self.kernel.features(self._seen(points))

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        return self._spread(first, self.kernel.gradient(self._seen(first), self._seen(second), weights))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return self._spread(points, self.kernel.feature_gradient(self._seen(points), weights))

    def _spread(self, points: Points, gradient: Matrix) -> Matrix:
        """Gradient with respect to all columns; a column may be seen more than once."""
        spread = np.zeros(as_rows(points).shape)
        np.add.at(spread.T, list(self.columns), gradient.T)
        return spread

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        return self.kernel.parameter_gradient(self._seen(points), weights)

    def _seen(self, points: Points) -> Points:
        rows = as_rows(points)
        if max(self.columns) >= rows.shape[1]:
            raise InvalidContexts(
                f"The kernel reads column {max(self.columns)}, but the contexts have only {rows.shape[1]} "
                "(columns count from 0)."
            )
        return rows[:, list(self.columns)]


def add(first: Kernel, second: Kernel | float) -> Kernel:
    """First + second; a number is the constant kernel; nested sums are flattened."""
    if not isinstance(second, Kernel) and second == 0:  # the start value of `sum`
        return first
    other = second if isinstance(second, Kernel) else Constant(second)
    left = first.parts if isinstance(first, Sum) else (first,)
    right = other.parts if isinstance(other, Sum) else (other,)
    return Sum((*left, *right))


def multiply(first: Kernel, second: Kernel | float) -> Kernel:
    """First · second; a number scales; nested products are flattened."""
    if not isinstance(second, Kernel):
        return Scaled(first, second)
    left = first.parts if isinstance(first, Product) else (first,)
    right = second.parts if isinstance(second, Product) else (second,)
    return Product((*left, *right))
