"""Inner-product kernels, which have finite feature maps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._arrays import array_namespace, is_foreign
from kernelbandits.kernels._distances import as_rows, dense, dense_pair, inner_products, row_pair, squared_norms
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.points import PointKind, check_kind
from kernelbandits.kernels.rows import Rows, is_sparse
from kernelbandits.types import Matrix, Points, Vector
from kernelbandits.validation import check_int, check_nonnegative

__all__ = ["Constant", "Cosine", "Linear", "Polynomial"]

REMEMBERED_BYTES: Final = 4_000_000
"""Largest table of monomials that is cached; at most 8 tables are cached per process."""


MOST_DEGREE: Final = 1000
"""Largest degree of a polynomial: beyond it every similarity is 0 or infinite unless it is about 1."""


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    """x · z. KernelUCB with this kernel is LinUCB.

    >>> Linear().gram([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    is_rotation_invariant = True
    takes_any_array = True

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        return inner_products(*row_pair(first, second))

    def diagonal(self, points: Points) -> Vector:
        return squared_norms(as_rows(points))

    def n_features(self, points: Points) -> int:
        return int(as_rows(points).shape[1])

    def features(self, points: Points) -> Matrix:
        return dense(as_rows(points))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return weights


@dataclass(frozen=True, kw_only=True, repr=False)
class Polynomial(Kernel):
    """(x · z + offset)^degree. For unit vectors k(x, x) = (1 + offset)^degree: divide by it if a bound requires k ≤ 1.

    >>> Polynomial(degree=2).gram([[1.0]], [[2.0]])
    array([[9.]])
    """

    is_rotation_invariant = True
    takes_any_array = True

    degree: int
    offset: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", check_int(self.degree, "The degree", most=MOST_DEGREE))
        object.__setattr__(self, "offset", check_nonnegative(self.offset, "The offset"))

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        products = inner_products(*row_pair(first, second))
        result: Matrix = (products + self.offset) ** self.degree
        return result

    def diagonal(self, points: Points) -> Vector:
        return np.asarray((squared_norms(as_rows(points)) + self.offset) ** self.degree)

    def n_features(self, points: Points) -> int:
        n_variables = int(as_rows(points).shape[1]) + (self.offset > 0)
        return comb(n_variables + self.degree - 1, self.degree)

    def features(self, points: Points) -> Matrix:
        """Monomials of x extended by sqrt(offset), each times the root of its multinomial coefficient."""
        rows = dense(as_rows(points))
        if self.offset > 0:
            rows = np.column_stack([np.full(len(rows), sqrt(self.offset)), rows])
        factors, weights = _monomials(rows.shape[1], self.degree)
        result = np.tile(weights, (len(rows), 1))
        for place in factors:  # one factor of every monomial at a time
            result *= rows[:, place]
        return result

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        first, second = dense_pair(first, second)
        slopes = self.degree * (first @ second.T + self.offset) ** (self.degree - 1)
        gradient: Matrix = (weights * slopes) @ second
        return gradient

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        rows = dense(as_rows(points))
        if self.offset > 0:
            rows = np.column_stack([np.full(len(rows), sqrt(self.offset)), rows])
        factors, roots = _monomials(rows.shape[1], self.degree)
        gradient = np.zeros_like(rows)
        for number, place in enumerate(factors):  # the product rule: all factors of every monomial but this one
            others = roots * weights
            for other in np.delete(factors, number, axis=0):
                others *= rows[:, other]
            np.add.at(gradient.T, place, others.T)
        return gradient[:, 1:] if self.offset > 0 else gradient


def _monomials(
    n_variables: int, degree: int, *, remembered_bytes: int = REMEMBERED_BYTES
) -> tuple[NDArray[np.intp], Vector]:
    """Variables of each monomial, one row per factor, and the roots of the multinomial coefficients."""
    is_small = 8 * (degree + 1) * comb(n_variables + degree - 1, degree) <= remembered_bytes
    return (_remembered_monomials if is_small else _computed_monomials)(n_variables, degree)


def _computed_monomials(n_variables: int, degree: int) -> tuple[NDArray[np.intp], Vector]:
    monomials = list(combinations_with_replacement(range(n_variables), degree))
    ways = [factorial(degree) / prod(map(factorial, Counter(monomial).values())) for monomial in monomials]
    factors, weights = np.array(monomials, dtype=np.intp).T, np.sqrt(ways)
    factors.flags.writeable = weights.flags.writeable = False  # shared by all threads
    return factors, weights


_remembered_monomials = lru_cache(maxsize=8)(_computed_monomials)


@dataclass(frozen=True, repr=False)
class Cosine(Kernel):
    """x · z / ‖x‖‖z‖; a zero row has similarity 0 to every row, including itself.

    >>> Cosine().gram([[3.0, 4.0]], [[6.0, 8.0], [0.0, 0.0]])
    array([[1., 0.]])
    """

    is_rotation_invariant = True

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        first, second = row_pair(first, second)
        return inner_products(_unit(first), _unit(second))

    def diagonal(self, points: Points) -> Vector:
        return (_largest_entries(as_rows(points)) > 0).astype(np.float64)

    def n_features(self, points: Points) -> int:
        return int(as_rows(points).shape[1])

    def features(self, points: Points) -> Matrix:
        return dense(_unit(as_rows(points)))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        rows = dense(as_rows(points))
        unit = _unit(rows)
        across = weights - np.einsum("nd,nd->n", weights, unit)[:, None] * unit
        lengths = np.sqrt(squared_norms(rows))[:, None]
        gradient: Matrix = np.divide(across, lengths, out=np.zeros_like(across), where=lengths > 0.0)
        return gradient


def _moving_rows(points: Points) -> Matrix:
    """Rows with respect to which gradients are: those of the actions, of pairs."""
    actions = getattr(points, "actions", None)
    return dense(as_rows(points)) if actions is None else _moving_rows(actions)


def _unit(rows: Points) -> Points:
    """Rows normalized to length one; zero rows stay zero."""
    # Divide by the largest entry first: squares of very large or very small numbers overflow or underflow.
    rows = _divided_by(_largest_entries(rows), rows)
    return _divided_by(np.sqrt(squared_norms(rows)), rows)


def _largest_entries(rows: Points) -> Vector:
    """Largest absolute value of every row."""
    return dense(abs(rows).max(axis=1)).ravel()


def _divided_by(lengths: Vector, rows: Points) -> Points:
    """Rows divided by these lengths; rows of length zero are unchanged."""
    divisors = np.where(lengths > 0, lengths, 1.0)
    if not is_sparse(rows):
        return rows / divisors[:, None]
    divided = rows.copy()
    divided.data /= np.repeat(divisors, np.diff(rows.indptr))
    return divided


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    """Constant kernel: `kernel + Constant(c)` lets the model learn an offset."""

    is_rotation_invariant = True
    takes_any_array = True

    value: float = 1.0
    kind: PointKind = field(default=Rows(), repr=False)  # any kind of point is accepted

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_nonnegative(self.value, "A constant kernel"))
        check_kind(self.kind)

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        second = first if second is None else second
        if is_foreign(first):
            shape = first.shape[0], second.shape[0]
            filled: Matrix = array_namespace(first).full(shape, self.value, dtype=first.dtype, device=first.device)
            return filled
        return np.full((self.kind.count(first), self.kind.count(second)), self.value)

    def diagonal(self, points: Points) -> Vector:
        return np.full(self.kind.count(points), self.value)

    def n_features(self, points: Points) -> int:
        return 1

    def features(self, points: Points) -> Matrix:
        return np.full((self.kind.count(points), 1), sqrt(self.value))

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        return np.zeros(_moving_rows(points).shape)
