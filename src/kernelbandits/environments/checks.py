"""Rules that descriptions of worlds and runs hold their numbers to."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from kernelbandits.errors import InvalidParameter

__all__ = ["not_negative", "whole"]


def whole(value: Any, name: str, *, least: int = 1) -> int:
    """The value as an int, or InvalidParameter when it is no whole number from `least` on.

    >>> whole(np.int64(3), "n_actions")
    3
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidParameter(f"{name} has to be a whole number from {least} on, got {value!r}.")
    return int(value)


def not_negative(value: float, name: str) -> float:
    """The value as a float, or InvalidParameter when it is no finite number from zero on."""
    number = float(value)
    if not 0.0 <= number < inf:  # also catches NaN
        raise InvalidParameter(f"{name} has to be a finite number, zero or above, got {value!r}.")
    return number
