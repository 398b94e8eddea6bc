"""Values of items on the scale of rewards."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from kernelbandits.checks import a_vector
from kernelbandits.environments.columns import one_of, scaled
from kernelbandits.types import Vector

__all__ = ["ValueScale", "scaled_values"]

ValueScale: TypeAlias = Literal["unit", "rank", "none"]


def scaled_values(values: Vector, scale: ValueScale) -> Vector:
    """Values as rewards.

    Parameters
    ----------
    values
        One number an item.
    scale
        "unit": (v − lowest) / (highest − lowest). "rank": place among all in [0, 1], equal values the mean of their
        places: for values so skewed that all but a few would be 0. "none": as they are.

    Examples
    --------
    >>> scaled_values(np.array([1.0, 5.0, 1.0, 900.0]), "rank").round(3)
    array([0.167, 0.667, 0.167, 1.   ])
    """
    one_of(scale, ValueScale, "The scale of values")
    values = a_vector(values, "Values")
    if scale != "rank" or len(values) < 2:
        return values if scale == "none" else scaled(values, "minmax")
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    return np.asarray(((first + (counts - 1) / 2) / (len(values) - 1))[places.reshape(-1)])
