"""Kernels over (label, row) pairs: separate weights per label, and the disjoint encoding without its zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels._distances import dense, squared_norms
from kernelbandits.kernels.base import Kernel, check_kernel
from kernelbandits.kernels.composite import Around, Normalized, Product, Scaled, Sum
from kernelbandits.kernels.discrete import Delta
from kernelbandits.kernels.pairs import PairPoints, PairRows
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, Matrix, Points, Vector
from kernelbandits.validation import MOST_IN_MEMORY, check_int, check_list

__all__ = ["Blocks", "LabeledLinear"]

LABELED_ROWS: Final = PairPoints(Ids(), Rows())


@dataclass(frozen=True, repr=False)
class LabeledLinear(Kernel):
    """k((a, x), (b, z)) = x_S · z_S + 1[a = b] x_O · z_O, with S the shared columns and O all others.

    KernelUCB with this kernel is LinUCB: disjoint without shared columns, hybrid with some. Points are pairs of a
    label and a row.
    """

    shared_columns: Sequence[int] = ()

    def __post_init__(self) -> None:
        columns = tuple(
            check_int(c, "A shared column", least=0, most=MOST_IN_MEMORY)
            for c in check_list(self.shared_columns, "Shared columns")
        )
        if any(column < 0 for column in columns) or len(set(columns)) < len(columns):
            raise InvalidParameter(f"Shared columns must be different numbers from 0, got {list(columns)!r}.")
        object.__setattr__(self, "shared_columns", columns)

    @property
    def kind(self) -> PointKind:  # type: ignore[override]
        return LABELED_ROWS

    def columns(self, n_columns: int) -> tuple[Indices, Indices]:
        """Shared and label-specific columns of rows with n_columns columns."""
        shared = np.array(self.shared_columns, dtype=np.intp)
        if shared.size and shared.max() >= n_columns:
            raise InvalidContexts(
                f"Column {shared.max()} is shared, but the contexts have only {n_columns} (columns count from 0)."
            )
        return shared, np.setdiff1d(np.arange(n_columns), shared)

    def gram(self, first: PairRows, second: PairRows | None = None) -> Matrix:
        first = self.kind.check(first)
        second = first if second is None else self.kind.check(second)
        left, right = dense(first.actions), dense(second.actions)
        if left.shape[1] != right.shape[1]:
            raise InvalidContexts(f"Rows of {left.shape[1]} and of {right.shape[1]} columns cannot be compared.")
        shared, own = self.columns(left.shape[1])
        numbers: dict[object, int] = {}
        codes = [
            np.array([numbers.setdefault(label, len(numbers)) for label in side.contexts]) for side in (first, second)
        ]
        same = codes[0][:, None] == codes[1][None, :]
        return np.asarray(left[:, shared] @ right[:, shared].T + same * (left[:, own] @ right[:, own].T))

    def diagonal(self, points: PairRows) -> Vector:
        rows = dense(self.kind.check(points).actions)
        return np.asarray(np.einsum("nd,nd->n", rows, rows))


COMPOSITES: Final = (Normalized, Product, Scaled, Sum)


@dataclass(frozen=True, repr=False)
class Blocks(Around):
    """Kernel on rows in the disjoint encoding, where each label has its own block of columns and the rest are zero.

    The disjoint encoding of a context x for N actions has N·d columns, all but d of them zero. This is the same kernel
    over `Pairs(x, labels)`: k(x, z) for equal labels, and k of two rows without a common nonzero column for different
    ones. A kernel that depends on lengths and angles only does not need those rows: it is k((‖x‖, 0), (0, ‖z‖)).

    Parameters
    ----------
    kernel
        A rotation-invariant kernel on rows: `Gaussian`, `Matern`, `RationalQuadratic` with one length scale, `Linear`,
        `Polynomial`, `Cosine`, and kernels composed of these.

    >>> from kernelbandits.types import Pairs
    >>> from kernelbandits.kernels import Matern
    >>> kernel = Blocks(Matern(smoothness=0.5, length_scale=1.0))
    >>> kernel.gram(Pairs([0.6, 0.8], ["left", "right"])).round(3)
    array([[1.   , 0.243],
           [0.243, 1.   ]])
    """

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        _reject_directions(self.kernel)

    @property
    def kind(self) -> PairPoints:  # type: ignore[override]
        return PairPoints(Rows(), Ids())

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        left = self.kind.check(first)
        right = left if second is None else self.kind.check(second)
        is_same = Delta().gram(left.actions, right.actions) > 0.0
        lengths, others = _lengths(left), _lengths(right)
        across = self.kernel.gram(np.outer(lengths, [1.0, 0.0]), np.outer(others, [0.0, 1.0]))
        return np.where(is_same, self.kernel.gram(left.contexts, right.contexts), across)

    def diagonal(self, points: Points) -> Vector:
        pairs = self.kind.check(points)
        return np.broadcast_to(self.kernel.diagonal(pairs.contexts), (self.kind.count(pairs),)).copy()

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        pairs = self.kind.spread(self.kind.check(points))
        is_same = Delta().gram(pairs.actions) > 0.0
        within = self.kernel.parameter_gradient(pairs.contexts, np.where(is_same, weights, 0.0))
        # Of different labels: the off-diagonal blocks of the Gram matrix of both forms.
        lengths, across = _lengths(pairs), np.where(is_same, 0.0, 0.5 * weights)
        both = np.vstack([np.outer(lengths, [1.0, 0.0]), np.outer(lengths, [0.0, 1.0])])
        zero = np.zeros_like(across)
        return within + self.kernel.parameter_gradient(both, np.block([[zero, across], [across, zero]]))


def _lengths(points: PairRows) -> Vector:
    return np.sqrt(squared_norms(points.contexts))


def _reject_directions(kernel: Any) -> None:
    """Raise InvalidParameter for a kernel that is not rotation invariant."""
    if isinstance(kernel, COMPOSITES):
        for part in kernel._parts():
            _reject_directions(part)
    elif not kernel.is_rotation_invariant or not isinstance(getattr(kernel, "length_scale", 1.0), float):
        raise InvalidParameter(
            f"Blocks need a kernel of rows that sees lengths and angles only, with one length scale, got {kernel!r}. "
            "Encode the rows yourself, or use PairProduct(kernel, Delta()) for independent labels."
        )
