"""The disjoint encoding without the zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels.base import Kernel, a_kernel
from kernelbandits.kernels.combine import Normalised, Product, Scaled, Sum
from kernelbandits.kernels.identity import Delta
from kernelbandits.kernels.linear import Constant, Cosine, Linear, Polynomial
from kernelbandits.kernels.pairs import PairPoints, PairRows
from kernelbandits.kernels.pairwise import squared_norms
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids
from kernelbandits.kernels.stationary import Gaussian, Matern, RationalQuadratic
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["Blocks"]

ROUND: Final = (Constant, Cosine, Gaussian, Linear, Matern, Polynomial, RationalQuadratic)
MADE_OF_ROUND: Final = (Normalised, Product, Scaled, Sum)


@dataclass(frozen=True)
class Blocks(Kernel):
    """k between rows of which each lies in its label's own block of columns, all other columns being zero.

    The disjoint encoding of a context x for N actions has N·d columns, all but d of them zero. This is the same kernel
    over `Pairs(x, labels)`: k(x, z) for equal labels, and k of two rows that share no column for different ones. A
    kernel that sees only lengths and angles need not see those rows: it is k((‖x‖, 0), (0, ‖z‖)).

    Parameters
    ----------
    kernel
        Of rows, and blind to rotations: `Gaussian`, `Matern`, `RationalQuadratic` with one length scale, `Linear`,
        `Polynomial`, `Cosine`, and what is made of these.

    >>> from kernelbandits.types import Pairs
    >>> kernel = Blocks(Matern(smoothness=0.5, length_scale=1.0))
    >>> kernel.gram(Pairs([0.6, 0.8], ["left", "right"])).round(3)
    array([[1.   , 0.243],
           [0.243, 1.   ]])
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        a_kernel(self.kernel)
        _refuse_directions(self.kernel)

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


def _lengths(points: PairRows) -> Vector:
    return np.sqrt(squared_norms(points.contexts))


def _refuse_directions(kernel: Any) -> None:
    """InvalidParameter for a kernel that can tell directions apart."""
    if isinstance(kernel, MADE_OF_ROUND):
        for part in kernel._parts():
            _refuse_directions(part)
    elif not isinstance(kernel, ROUND) or not isinstance(getattr(kernel, "length_scale", 1.0), float):
        raise InvalidParameter(
            f"Blocks need a kernel of rows that sees lengths and angles only, with one length scale, got {kernel!r}. "
            "Encode the rows yourself, or take PairProduct(kernel, Delta()) for labels that have nothing in common."
        )
