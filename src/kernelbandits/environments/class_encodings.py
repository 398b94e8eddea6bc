"""What a policy sees of a row and the classes it may belong to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from kernelbandits.environments.columns import in_reach_of_squares
from kernelbandits.types import ItemId, Matrix, Pairs, Point, Points, Vector

__all__ = ["Encoding", "encoded", "of_length_one"]

Encoding: TypeAlias = Literal["disjoint", "pairs", "shared"]


def encoded(point: Point, classes: tuple[ItemId, ...], encoding: Encoding) -> Points:
    """A row for each class: see `Classification`.

    >>> encoded(np.array([0.5, 2.0]), ("cat", "dog"), "disjoint")
    array([[0.5, 2. , 0. , 0. ],
           [0. , 0. , 0.5, 2. ]])
    """
    if encoding == "pairs":
        return Pairs(point, classes)
    return np.tile(point, (len(classes), 1)) if encoding == "shared" else _blocks(point, len(classes))


def of_length_one(row: Vector) -> Vector:
    """The row divided by its length; rows of zeros as they are."""
    within_reach = in_reach_of_squares(row)
    length = np.linalg.norm(within_reach)
    return np.asarray(within_reach / length) if length > 0.0 else row


def _blocks(row: Vector, n_blocks: int) -> Matrix:
    """The row in block a of row a, zero elsewhere."""
    blocks = np.zeros((n_blocks, n_blocks, len(row)))
    places = np.arange(n_blocks)
    blocks[places, places] = row
    return blocks.reshape(n_blocks, -1)
