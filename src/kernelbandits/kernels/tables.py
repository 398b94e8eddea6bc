"""Similarities that are known as numbers, and not as a function."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.checks import an_object
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.forking import ForkedLock
from kernelbandits.kernels.growing import GrowingMatrix, GrowingNames
from kernelbandits.kernels.growth import GrowthRule, RepairReport, unpack_rule
from kernelbandits.kernels.points import Shared
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.kernels.sequences import Ids
from kernelbandits.restoring import below, saved_array, saved_count, saved_value
from kernelbandits.types import Indices, ItemId, Matrix, Parameters, Points

__all__ = ["SimilarityTable", "symmetric"]

ASYMMETRY: Final = 1e-8
"""Largest difference between S and Sᵀ, as a share of the largest similarity, that passes as rounding: what single
precision or seven printed digits leave behind."""

CHUNK: Final = 256
"""Rows of a table that are compared with its columns at a time."""


class _Known(NamedTuple):
    """A table at one moment; never changed."""

    values: GrowingMatrix
    names: GrowingNames[ItemId]
    is_numbered: bool
    """Whether every id is its row number."""

    rule: GrowthRule | None


class SimilarityTable(Shared):
    """Symmetric similarities between items. Growth appends; entries once given never change.

    A table can be used and can grow in several threads at once: an answer is that of the table before or after a
    growth, and a growth that is interrupted adds nothing. `copy` gives the table itself, so that the copy of a policy
    goes on looking at it; `SimilarityTable(table.values, ids=table.ids)` is another one, and so is one that was
    pickled.

    Whether the similarities form a kernel is not checked here, because it costs the cube of the number of items: ask
    `detect`, and mend with `repair`. A posterior that meets a contradiction says so.

    Parameters
    ----------
    similarities
        Square and symmetric, shape (n_items, n_items).
    ids
        What the items are called: different integers or strings. Row numbers by default.
    rule
        How a repaired table takes new items; `repair` gives it.

    >>> table = SimilarityTable([[1.0, 0.5], [0.5, 1.0]], ids=["tea", "coffee"])
    >>> table.add(["cocoa"], to_known=[[0.2, 0.6]], among_new=[[1.0]])
    >>> len(table), "cocoa" in table
    (3, True)
    """

    def __init__(
        self, similarities: ArrayLike, *, ids: Sequence[ItemId] | None = None, rule: GrowthRule | None = None
    ) -> None:
        values = symmetric(similarities, "The similarities")
        if not len(values):
            raise InvalidParameter("A similarity table needs at least one item, got none. It can grow: table.add.")
        self._writing = ForkedLock()
        names = _new_ids(range(len(values)) if ids is None else ids, len(values), GrowingNames())
        _refuse_negative_diagonal(values, names)
        if rule is not None:
            an_object(rule, "The rule", "extend", "pack", way_out="`repair` gives it.")
        self._n_first = len(values)
        self._origin: str | None = None
        self._known = _Known(GrowingMatrix(values), GrowingNames(names), names == list(range(len(names))), rule)

    def add(self, ids: Sequence[ItemId], *, to_known: ArrayLike, among_new: ArrayLike) -> RepairReport | None:
        """Append new items; a repaired table repairs them the same way and says what that took.

        Parameters
        ----------
        ids
            What the new items are called.
        to_known
            Their similarities to the items of the table, in the table's order, shape (n_new, n_known).
        among_new
            Their similarities to each other, shape (n_new, n_new).
        """
        among = symmetric(among_new, "among_new")
        cross = _finite(to_known, "to_known")
        with self._writing.lock:
            before = self._known
            n_known = len(before.names)
            names = _new_ids(ids, len(among), before.names)
            if cross.shape != (len(names), n_known) or not names:
                raise InvalidParameter(
                    f"to_known has to have a row for each of the {len(names)} new items (at least one) and a column "
                    f"for each of the {n_known} known ones, got shape {cross.shape}."
                )
            rule, report = before.rule, None
            if rule is None:
                _refuse_negative_diagonal(among, names)
            else:
                cross, among, report, rule = rule.extend(before.values.values, cross, among)
            is_numbered = before.is_numbered and names == list(range(n_known, n_known + len(names)))
            values = before.values.grown(cross, cross.T, among)
            grown = _Known(values, before.names.grown(names), is_numbered, rule)
            if self._known is before:
                self._known = grown
                return report
        return self.add(names, to_known=to_known, among_new=among_new)  # a signal handler was faster, and is first

    def rows(self, ids: Points) -> Indices:
        """Row numbers of these items; UnknownItem for one the table does not hold."""
        known = self._known
        if known.is_numbered and isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
            outside = (ids < 0) | (ids >= len(known.names))
            if outside.any():
                raise _unknown(int(ids[np.argmax(outside)]), known.names)
            return ids.astype(np.intp)
        names = Ids().listed(ids)
        rows = np.array([known.names.row(name) for name in names], dtype=np.intp)
        if (rows < 0).any():
            raise _unknown(names[int(np.argmax(rows < 0))], known.names)
        return rows

    def id(self, row: int) -> ItemId:
        """What the item in this row is called."""
        names = self._known.names
        if not isinstance(row, int | np.integer) or not 0 <= row < len(names):
            raise UnknownItem(f"The similarity table has no row {row!r}; its rows are 0 to {len(names) - 1}.")
        return names[int(row)]

    @property
    def ids(self) -> tuple[ItemId, ...]:
        """What the items are called, in the order of the rows."""
        return tuple(self._known.names.listed())

    @property
    def values(self) -> Matrix:
        """The similarities, without a copy: for reading only."""
        return self._known.values.values

    @property
    def method(self) -> str:
        """The repair that the table went through, or "none"."""
        rule = self._known.rule
        return "none" if rule is None else rule.method

    @property
    def origin(self) -> str:
        """Fingerprint of the first block, its ids and its repair; the same however the table grows."""
        if self._origin is None:  # entries never change, so that later is as good as at once
            known = self._known
            head = json.dumps([self.method, known.names.listed()[: self._n_first]])
            content = hashlib.sha256(head.encode())
            for row in known.values.values[: self._n_first, : self._n_first]:
                content.update(row.astype("<f8").tobytes())
            self._origin = content.hexdigest()
        return self._origin

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        """Parameters and arrays: the whole table, and what repairing later items takes."""
        known = self._known
        parameters: Parameters = {"n_first": self._n_first, "rule": None}
        arrays = {"values": known.values.values, **Ids().pack(known.names.listed())}
        if known.rule is not None:
            parameters["rule"], state = known.rule.pack()
            arrays.update({f"rule.{name}": array for name, array in state.items()})
        return parameters, arrays

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> SimilarityTable:
        """Inverse of `pack`."""
        values = saved_array(arrays, "values", "f", (None, None))
        rule = None
        if saved_value(parameters, "rule") is not None:
            rule = unpack_rule(parameters["rule"], below("rule.", arrays), len(values))
        table = cls(values, ids=Ids().unpack(arrays), rule=rule)
        table._n_first = saved_count(parameters, "n_first", least=1, most=len(values))
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by value, as it is at this moment."""
        return SimilarityTable.unpack, self.pack()

    def __len__(self) -> int:
        return len(self._known.names)

    def __contains__(self, item: object) -> bool:
        try:
            return self._known.names.row(Ids().check_one(item)) >= 0
        except InvalidContexts:
            return False

    def __repr__(self) -> str:
        return f"SimilarityTable({len(self)} items, repair: {self.method})"


def _new_ids(ids: Sequence[ItemId], count: int, known: GrowingNames[ItemId]) -> list[ItemId]:
    """The ids in canonical form, as many as there are items, none twice and none that is known."""
    try:
        names = Ids().listed(ids)
    except InvalidContexts as error:
        raise InvalidParameter(f"The ids of a similarity table cannot be used. {error}") from error
    if len(names) != count:
        raise InvalidParameter(f"There are {len(names)} ids for {count} items. Give every item an id of its own.")
    seen: set[ItemId] = set()
    for name in names:
        if name in seen or known.row(name) >= 0:
            raise InvalidParameter(f"Every item of a similarity table has an id of its own, but {name!r} is twice.")
        seen.add(name)
    return names


def _unknown(item: ItemId, names: GrowingNames[ItemId]) -> UnknownItem:
    return UnknownItem(
        f"The similarity table holds no item {item!r}; it holds {len(names)} items, from {names[0]!r} to "
        f"{names[len(names) - 1]!r}. Add it with table.add([{item!r}], to_known=..., among_new=...)."
    )


def symmetric(similarities: ArrayLike, name: str) -> Matrix:
    """The matrix as float64, or InvalidParameter when it is not square, finite and symmetric up to rounding.

    Entries that are symmetric stay what they are; where two differ by rounding, both become their mean.
    """
    values = _finite(similarities, name)
    if values.shape[0] != values.shape[1]:
        raise InvalidParameter(f"{name} have to be a square matrix, a row and a column an item, got {values.shape}.")
    allowed = ASYMMETRY * np.abs(values).max(initial=0.0)
    worst, place = 0.0, (0, 0)
    for start in range(0, len(values), CHUNK):
        with np.errstate(over="ignore"):  # an infinite difference is refused like any large one
            apart = np.abs(values[start : start + CHUNK] - values[:, start : start + CHUNK].T)
        row, column = np.unravel_index(np.argmax(apart), apart.shape)
        if apart[row, column] > worst:
            worst, place = float(apart[row, column]), (start + int(row), int(column))
    if worst > allowed:
        i, j = place
        raise InvalidParameter(
            f"{name} have to be symmetric, but those of rows {i} and {j} are {values[i, j]:.6g} one way and "
            f"{values[j, i]:.6g} the other. If both are meant alike, take the mean: (S + S.T) / 2."
        )
    return values if worst == 0.0 else values / 2.0 + values.T / 2.0


def _finite(similarities: ArrayLike, name: str) -> Matrix:
    """The numbers as a float64 matrix, or InvalidParameter."""
    if is_sparse(similarities):
        raise InvalidParameter(f"{name} have to be an ordinary matrix, got a sparse one. Write it out: S.toarray().")
    if isinstance(similarities, np.ma.MaskedArray) and np.ma.is_masked(similarities):
        raise InvalidParameter(f"{name} may not be masked, and some are. Fill the gaps, or leave the items out.")
    try:
        values = np.asarray(similarities)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"{name} have to be rows of equal length: {error}.") from error
    if values.dtype.kind not in "buif" or values.ndim != 2:
        raise InvalidParameter(
            f"{name} have to be a matrix of real numbers, got dtype {values.dtype} and shape {values.shape}."
        )
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes an infinity, which is refused
        values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidParameter(
            f"{name} have to be finite numbers, got {values[row, column]} in row {row}, column {column}. Fill the gap, "
            "or leave the item out."
        )
    return values


def _refuse_negative_diagonal(values: Matrix, names: list[ItemId]) -> None:
    diagonal = np.diagonal(values)
    if diagonal.min(initial=0.0) < 0.0:
        row = int(np.argmin(diagonal))
        raise InvalidParameter(
            f"Nothing can be less than not at all similar to itself, but {names[row]!r} has a self-similarity of "
            f"{diagonal[row]:.6g}. kb.kernels.repair makes a usable table of such similarities."
        )
