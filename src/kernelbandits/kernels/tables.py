"""Similarities that are known as numbers, and not as a function."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.checks import an_object
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels.growing import GrowingMatrix
from kernelbandits.kernels.growth import GrowthRule, RepairReport, unpack_rule
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.kernels.sequences import Ids
from kernelbandits.types import Indices, ItemId, Matrix, Parameters, Points

__all__ = ["SimilarityTable", "symmetric"]

ASYMMETRY: Final = 1e-8
"""Largest difference between S and Sᵀ, as a share of the largest similarity, that passes as rounding: what single
precision or seven printed digits leave behind."""

CHUNK: Final = 256
"""Rows of a table that are compared with its columns at a time."""


class SimilarityTable:
    """Symmetric similarities between items. Growth appends; entries once given never change.

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
        self._ids: list[ItemId] = []
        self._row_of: dict[ItemId, int] = {}
        names = self._new_ids(range(len(values)) if ids is None else ids, len(values))
        _refuse_negative_diagonal(values, names)
        self._rule = (
            None if rule is None else an_object(rule, "The rule", "extend", "pack", way_out="`repair` gives it.")
        )
        self._n_first = len(values)
        self._origin: str | None = None
        self._values = GrowingMatrix(values)
        self._is_numbered = True  # every id is its row number
        self._enter(names)

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
        names = self._new_ids(ids, len(among))
        cross = _finite(to_known, "to_known")
        if cross.shape != (len(names), len(self)) or not names:
            raise InvalidParameter(
                f"to_known has to have a row for each of the {len(names)} new items (at least one) and a column for "
                f"each of the {len(self)} known ones, got shape {cross.shape}."
            )
        self._values.reserve(len(names), len(names))
        report = None
        if self._rule is None:
            _refuse_negative_diagonal(among, names)
        else:
            cross, among, report = self._rule.extend(self.values, cross, among)
        self._values.append(cross, cross.T, among)
        self._enter(names)
        return report

    def rows(self, ids: Points) -> Indices:
        """Row numbers of these items; UnknownItem for one the table does not hold."""
        if self._is_numbered and isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
            outside = (ids < 0) | (ids >= len(self))
            if outside.any():
                raise self._unknown(int(ids[np.argmax(outside)]))
            return ids.astype(np.intp)
        names = Ids().listed(ids)
        try:
            return np.array([self._row_of[name] for name in names], dtype=np.intp)
        except KeyError as error:
            raise self._unknown(error.args[0]) from None

    def id(self, row: int) -> ItemId:
        """What the item in this row is called."""
        return self._ids[row]

    @property
    def ids(self) -> tuple[ItemId, ...]:
        """What the items are called, in the order of the rows."""
        return tuple(self._ids)

    @property
    def values(self) -> Matrix:
        """The similarities, without a copy: for reading only."""
        view = self._values.values
        view.flags.writeable = False
        return view

    @property
    def method(self) -> str:
        """The repair that the table went through, or "none"."""
        return "none" if self._rule is None else self._rule.method

    @property
    def origin(self) -> str:
        """Fingerprint of the first block, its ids and its repair; the same however the table grows."""
        if self._origin is None:  # entries never change, so that later is as good as at once
            head = json.dumps([self.method, self._ids[: self._n_first]])
            content = hashlib.sha256(head.encode())
            for row in self._values.values[: self._n_first, : self._n_first]:
                content.update(row.astype("<f8").tobytes())
            self._origin = content.hexdigest()
        return self._origin

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        """Parameters and arrays: the whole table, and what repairing later items takes."""
        parameters: Parameters = {"n_first": self._n_first, "rule": None}
        arrays = {"values": self.values, **Ids().pack(self._ids)}
        if self._rule is not None:
            parameters["rule"], state = self._rule.pack()
            arrays.update({f"rule.{name}": array for name, array in state.items()})
        return parameters, arrays

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> SimilarityTable:
        """Inverse of `pack`."""
        rule = None
        if parameters["rule"] is not None:
            state = {name.removeprefix("rule."): array for name, array in arrays.items() if name.startswith("rule.")}
            rule = unpack_rule(parameters["rule"], state)
        table = cls(arrays["values"], ids=Ids().unpack(arrays), rule=rule)
        table._n_first = int(parameters["n_first"])
        return table

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, item: object) -> bool:
        try:
            return Ids().check_one(item) in self._row_of
        except InvalidContexts:
            return False

    def __repr__(self) -> str:
        return f"SimilarityTable({len(self)} items, repair: {self.method})"

    def _new_ids(self, ids: Sequence[ItemId], count: int) -> list[ItemId]:
        """The ids in canonical form, as many as there are items, none twice and none that is known."""
        try:
            names = Ids().listed(ids)
        except InvalidContexts as error:
            raise InvalidParameter(f"The ids of a similarity table cannot be used. {error}") from error
        if len(names) != count:
            raise InvalidParameter(f"There are {len(names)} ids for {count} items. Give every item an id of its own.")
        seen: set[ItemId] = set()
        for name in names:
            if name in seen or name in self._row_of:
                raise InvalidParameter(f"Every item of a similarity table has an id of its own, but {name!r} is twice.")
            seen.add(name)
        return names

    def _enter(self, names: list[ItemId]) -> None:
        start = len(self._ids)
        self._is_numbered = self._is_numbered and names == list(range(start, start + len(names)))
        self._row_of.update(zip(names, range(start, start + len(names)), strict=True))
        self._ids.extend(names)

    def _unknown(self, item: ItemId) -> UnknownItem:
        return UnknownItem(
            f"The similarity table holds no item {item!r}; it holds {len(self)} items, from {self._ids[0]!r} to "
            f"{self._ids[-1]!r}. Add it with table.add([{item!r}], to_known=..., among_new=...)."
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
    return values if worst == 0.0 else (values + values.T) / 2.0


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
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes an infinity
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
