"""Validation of values and arrays read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import DamagedFile

__all__ = [
    "below",
    "saved_array",
    "saved_count",
    "saved_number",
    "saved_part",
    "saved_shares",
    "saved_sums",
    "saved_value",
]

ROUNDED: Final = 2.0**-52
"""Largest rounding error of a sum, relative to it."""

SUMS_TO_ONE: Final = 1e-9
"""Largest deviation from 1 of probabilities that were divided by their sum."""

NAMES = {"f": "float64", "i": "int64", "u": "uint8"}


def saved_value(state: Any, name: str) -> Any:
    """Value by name; raises DamagedFile."""
    if not isinstance(state, Mapping) or name not in state:
        raise DamagedFile(f"The file does not hold {name!r} where it belongs.")
    return state[name]


def saved_part(state: Any, name: str) -> Mapping[str, Any]:
    """Mapping by name; raises DamagedFile."""
    value = saved_value(state, name)
    if not isinstance(value, Mapping):
        raise DamagedFile(f"{name!r} in the file must be a mapping, got {value!r:.60}.")
    return value


def saved_array(
    state: Any,
    name: str,
    kind: str,
    shape: tuple[int | None, ...],
    *,
    least: float = -inf,
    most: float = inf,
) -> NDArray[Any]:
    """Array by name; raises DamagedFile if it violates a rule.

    Parameters
    ----------
    kind
        "f" for float64, whose numbers must be finite, "i" for int64, "u" for bytes.
    shape
        None for an arbitrary length.
    least, most
        Bounds of every entry, inclusive.
    """
    array = saved_value(state, name)
    if not isinstance(array, np.ndarray) or array.dtype != NAMES[kind]:
        raise DamagedFile(f"{name!r} in the file must be an array of {NAMES[kind]}, got {array!r:.60}.")
    free = (size is None or size == length for size, length in zip(shape, array.shape, strict=False))
    if array.ndim != len(shape) or not all(free):
        wanted = tuple("any" if size is None else size for size in shape)
        raise DamagedFile(f"{name!r} in the file must have the shape {wanted}, got {array.shape}.")
    if array.size and kind == "f" and not np.isfinite(array).all():
        raise DamagedFile(f"{name!r} in the file must hold finite numbers.")
    if array.size and not (least <= array.min() and array.max() <= most):
        raise DamagedFile(
            f"{name!r} in the file must hold numbers from {least} to {most}, got {array.min()} to {array.max()}."
        )
    return array


def saved_shares(
    state: Any, name: str, n_shares: int, *, is_whole: bool = True, rounding: float = SUMS_TO_ONE
) -> NDArray[np.float64]:
    """Probabilities by name; raises DamagedFile unless all are nonnegative with sum 1, or at most 1.

    Parameters
    ----------
    is_whole
        Whether the sum is 1.
    rounding
        Largest deviation of the sum.
    """
    shares = saved_array(state, name, "f", (n_shares,), least=0.0, most=1.0 + rounding)
    total = float(shares.sum())
    if total > 1.0 + rounding or (is_whole and total < 1.0 - rounding):
        rule = "1" if is_whole else "at most 1"
        raise DamagedFile(f"{name!r} in the file must hold probabilities whose sum is {rule}, got {total:.6g}.")
    return shares


def saved_sums(state: Any, counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reward sums for these counts, and their rounding errors; raises DamagedFile.

    An entry without rewards has sum zero, one with rewards a finite mean. Errors must be possible rounding errors.
    """
    sums, errors = (saved_array(state, name, "f", counts.shape) for name in ("sums", "errors"))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        is_right = np.where(counts > 0, np.isfinite(sums / counts), sums == 0.0)
    if not is_right.all():
        raise DamagedFile("A sum of rewards in the file is larger than its count allows.")
    if (np.abs(errors) > np.abs(sums) * ROUNDED + np.finfo(float).tiny).any():
        raise DamagedFile("A rounding error in the file is larger than the sum that it belongs to can have.")
    return sums, errors


def saved_number(state: Any, name: str, *, least: float = -inf, most: float = inf) -> float:
    """Finite number by name; raises DamagedFile."""
    value = saved_value(state, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DamagedFile(f"{name!r} in the file must be a number from {least} to {most}, got {value!r:.60}.")
    return float(value)


def saved_count(state: Any, name: str, *, least: int = 0, most: float = 2**53) -> int:
    """Integer by name; raises DamagedFile."""
    value = saved_value(state, name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DamagedFile(f"{name!r} in the file must be a whole number from {least} to {most}, got {value!r:.60}.")
    return value


def below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Entries named `<prefix>…`, without the prefix."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
