"""Precomputed kernel: similarities from a table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.points import NO_CONTEXT, Shared
from kernelbandits.kernels.rows import room
from kernelbandits.kernels.similarity_table import SimilarityTable
from kernelbandits.types import Indices, ItemId, Matrix, Parameters, Point, Points, Vector
from kernelbandits.validation import check_instance

__all__ = ["Precomputed", "TableIds", "TableRows"]


class TableRows:
    """Canonical items of a table: its row numbers, in a separate class so that they are not confused with ids."""

    __slots__ = ("rows", "table")

    def __init__(self, rows: Indices, table: SimilarityTable) -> None:
        self.rows, self.table = rows, table

    def __len__(self) -> int:
        return len(self.rows)


class TableIds(Shared):
    """Kind of ids in a similarity table; canonical: row numbers of the table, which stay valid when it grows."""

    def __init__(self, table: SimilarityTable) -> None:
        self.table = check_instance(table, SimilarityTable, "The table", "SimilarityTable(similarities) makes one.")

    def check(self, points: Points) -> TableRows:
        checked = self.lookup(points)
        if not len(checked):
            raise InvalidContexts(NO_CONTEXT)
        return checked

    def lookup(self, points: Points) -> TableRows:
        """Points in canonical form; may be empty."""
        if not isinstance(points, TableRows):
            return TableRows(self.table.rows(points), self.table)
        if points.table is not self.table:
            raise InvalidContexts("These are rows of another similarity table. Give the ids of the items instead.")
        return points

    def count(self, points: Points) -> int:
        return len(points)

    def take(self, points: TableRows, rows: Indices) -> TableRows:
        return TableRows(points.rows[rows], self.table)

    def one(self, points: TableRows, row: int) -> ItemId:
        return self.table.id(int(points.rows[row]))

    def as_collection(self, point: Point) -> TableRows:
        return self.check([point])

    def from_trusted(self, point: Point) -> TableRows:
        return self.check([point])

    def validate_comparable(self, known: TableRows, points: TableRows) -> None:
        """Accept anything: any two items of a table are compatible."""

    def stack(self, *collections: TableRows) -> TableRows:
        return TableRows(np.concatenate([points.rows for points in collections]), self.table)

    def keys(self, points: Points) -> list[Hashable]:
        return list(self.lookup(points).rows.tolist())

    def grow(self, store: Any, count: int, points: TableRows) -> Indices:
        buffer = room(np.zeros(0, dtype=np.intp) if store is None else store, count, len(points))
        buffer[count : count + len(points)] = points.rows
        return buffer

    def view(self, store: Any, count: int) -> TableRows:
        return TableRows(store[:count], self.table)

    def pack(self, points: TableRows) -> dict[str, NDArray[Any]]:
        return {"rows": points.rows.astype(np.int64)}

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> TableRows:
        rows = saved_array(arrays, "rows", "i", (None,), least=0).astype(np.intp)
        if rows.size and not rows.max() < len(self.table):
            raise UnknownItem(
                f"The points refer to row {rows.max()}, and the similarity table has {len(self.table)}. Add the items "
                "that are missing first."
            )
        return TableRows(rows, self.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableIds) and other.table is self.table

    def __hash__(self) -> int:
        return hash((TableIds, id(self.table)))

    def __repr__(self) -> str:
        return f"TableIds({self.table!r})"


@dataclass(frozen=True, init=False, repr=False)
class Precomputed(Kernel):
    """Similarities from a table: no features of the items are needed.

    Parameters
    ----------
    table
        A `SimilarityTable`, or a square matrix to build one from. The table may grow while the kernel is in use.
    ids
        Ids of the items of the matrix; row numbers by default.

    >>> kernel = Precomputed([[1.0, 0.5], [0.5, 1.0]], ids=["tea", "coffee"])
    >>> kernel.gram(["coffee"], ["tea", "coffee"])
    array([[0.5, 1. ]])
    """

    table: SimilarityTable

    def __init__(self, table: SimilarityTable | ArrayLike, ids: Sequence[ItemId] | None = None) -> None:
        if isinstance(table, SimilarityTable):
            if ids is not None:
                raise InvalidParameter("The table has ids already. Give ids with a matrix, or the table alone.")
        else:
            table = SimilarityTable(table, ids=ids)
        object.__setattr__(self, "table", table)

    @property
    def kind(self) -> TableIds:  # type: ignore[override]
        return TableIds(self.table)

    @property
    def is_certified(self) -> bool:
        """Always False: the entries of a table are arbitrary."""
        return False

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        rows = self.kind.lookup(first).rows
        columns = rows if second is None else self.kind.lookup(second).rows
        return self.table.values[np.ix_(rows, columns)]

    def diagonal(self, points: Points) -> Vector:
        rows = self.kind.lookup(points).rows
        return self.table.values[rows, rows]

    def describe(self) -> Parameters:
        return {"class": "Precomputed", "origin": self.table.origin}

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        parameters, arrays = self.table.pack()
        return {"class": "Precomputed", **parameters}, arrays

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> Precomputed:
        return cls(SimilarityTable.unpack(parameters, arrays))
