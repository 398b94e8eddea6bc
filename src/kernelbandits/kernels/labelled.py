"""Linear models with weights of their own for every label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernelbandits.checks import MOST_IN_MEMORY, a_count, a_list
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.pairs import PairPoints, PairRows
from kernelbandits.kernels.pairwise import dense
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["LabelledLinear"]


LABELLED_ROWS: Final = PairPoints(Ids(), Rows())


@dataclass(frozen=True)
class LabelledLinear(Kernel):
    """k((a, x), (b, z)) = x_S · z_S + 1[a = b] x_O · z_O, with S the shared columns and O all others.

    KernelUCB with this kernel is LinUCB: disjoint without shared columns, hybrid with some. Points are pairs of a
    label and a row.
    """

    shared_columns: Sequence[int] = ()

    def __post_init__(self) -> None:
        columns = tuple(
            a_count(c, "A shared column", least=0, most=MOST_IN_MEMORY)
            for c in a_list(self.shared_columns, "Shared columns")
        )
        if any(column < 0 for column in columns) or len(set(columns)) < len(columns):
            raise InvalidParameter(f"Shared columns have to be different numbers from 0, got {list(columns)!r}.")
        object.__setattr__(self, "shared_columns", columns)

    @property
    def kind(self) -> PointKind:  # type: ignore[override]
        return LABELLED_ROWS

    def columns(self, n_columns: int) -> tuple[Indices, Indices]:
        """Shared and own columns of rows that have so many."""
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
