"""Classes of rows: the labels that occur, and which row has which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.environments.missing import is_absent
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Indices, ItemId

__all__ = ["coded_labels"]


def coded_labels(labels: ArrayLike | Sequence[Any]) -> tuple[list[ItemId], Indices]:
    """The classes, sorted, and the place of each row's class among them.

    Whole numbers (also as floats, which tables with gaps make of them) and truth values become integers, all else is
    read as text.

    >>> coded_labels(["no", "yes", "no"])
    (['no', 'yes'], array([0, 1, 0]))
    """
    listed = _listed(labels)
    plain = listed if set(map(type, listed)) == {str} else [_plain(label, row) for row, label in enumerate(listed)]
    if any(isinstance(label, str) for label in plain):
        plain = [str(label) for label in plain]
    classes = sorted(set(plain))  # all are text, or all are numbers
    if len(classes) < 2:
        raise InvalidParameter(
            f"There have to be at least two classes to choose from, got {classes!r}. Each class is an action."
        )
    places = {label: place for place, label in enumerate(classes)}
    return classes, np.array([places[label] for label in plain], dtype=np.intp)


def _listed(labels: Any) -> list[Any]:
    for method in ("tolist", "to_pylist", "to_list"):  # NumPy and pandas, Arrow, polars
        if hasattr(labels, method):
            labels = getattr(labels, method)()
            break
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InvalidParameter(f"Labels are a sequence, one a row, got {type(labels).__name__}.")
    return list(labels)


def _plain(label: Any, row: int) -> ItemId:
    if is_absent(label):
        raise InvalidParameter(f"Every row has a class, and the label of row {row} is missing. Drop such rows first.")
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool | int | np.bool_ | np.integer):
        return int(label)
    if isinstance(label, float | np.floating):
        return int(label) if float(label).is_integer() else repr(float(label))
    raise InvalidParameter(
        f"A label is a string or a number, got {type(label).__name__}: {label!r:.60} in row {row}. Labels are one "
        "column, not several."
    )
