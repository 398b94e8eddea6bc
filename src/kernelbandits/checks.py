"""What is asked of the numbers and things that users give: the rule, the value and the way out, said once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite, nan
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Vector

__all__ = [
    "LARGEST",
    "MOST_IN_MEMORY",
    "a_confidence",
    "a_count",
    "a_function",
    "a_mapping",
    "a_number",
    "a_probability",
    "a_range",
    "a_seed",
    "a_vector",
    "an_array",
    "an_instance",
    "an_object",
    "counted",
    "not_negative",
    "positive",
]

LARGEST: Final = 1e150
"""Of the numbers that users give, and one over it the smallest: squares of larger ones are infinite, or nearly so."""

MOST_COUNTED: Final = 10**27
"""More than anyone counts; products of a few of them are still finite."""

MOST_IN_MEMORY: Final = 2**31 - 1
"""Of what is kept one by one, such as actions that are told apart by their rows."""

SMALLEST_PROBABILITY: Final = 1e-300
"""One over it is finite, with some room for a factor."""

Function = TypeVar("Function", bound=Callable[..., Any])
Table = TypeVar("Table", bound=Mapping[Any, Any])
Thing = TypeVar("Thing")


def a_number(value: float, name: str) -> float:
    """The value as a float; text, None, truth values and arrays are refused."""
    if isinstance(value, bool | np.bool_ | str | bytes) or np.ndim(value) != 0:
        raise InvalidParameter(f"{name} has to be one number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{name} has to be one number, got {value!r}.") from error
    except OverflowError as error:
        raise InvalidParameter(f"{name} has to be a number that a float can hold, got a larger one.") from error


def positive(value: float, name: str, way_out: str = "", *, may_be_tiny: bool = False) -> float:
    """The value as a float, or InvalidParameter when it is no finite number above zero whose square is one too."""
    number = a_number(value, name)
    if not 0.0 < number < inf:  # also catches NaN
        raise InvalidParameter(f"{name} has to be a finite number above zero, got {value!r}.{_tail(way_out)}")
    _refuse_large(number, name, way_out)
    if number < 1.0 / LARGEST and not may_be_tiny:
        raise InvalidParameter(f"{name} has to be at least {1.0 / LARGEST:g}, got {value!r}.{_tail(way_out)}")
    return number


def not_negative(value: float, name: str, way_out: str = "") -> float:
    """The value as a float, or InvalidParameter when it is no finite number from zero up."""
    number = a_number(value, name)
    if not 0.0 <= number < inf:
        raise InvalidParameter(f"{name} has to be a finite number, zero or above, got {value!r}.{_tail(way_out)}")
    _refuse_large(number, name, way_out)
    return number


def a_probability(
    value: float,
    name: str = "The failure probability",
    way_out: str = "It is the chance that the claim fails; 0.05 is a common choice.",
) -> float:
    """The value as a float, or InvalidParameter when it does not lie strictly between 0 and 1."""
    number = a_number(value, name)
    if not 0.0 < number < 1.0:
        raise InvalidParameter(f"{name} has to lie strictly between 0 and 1, got {value!r}.{_tail(way_out)}")
    if number < SMALLEST_PROBABILITY:
        raise InvalidParameter(f"{name} has to be at least {SMALLEST_PROBABILITY:g}, got {value!r}.{_tail(way_out)}")
    return number


def a_confidence(value: float) -> float:
    """The share of intervals that cover the truth, strictly between 0 and 1, or InvalidParameter."""
    way_out = "It is the share of intervals that cover the truth; 0.95 is a common choice."
    return a_probability(value, "The confidence", way_out)


def a_count(value: float, name: str, *, least: int = 1, most: float = MOST_COUNTED, way_out: str = "") -> int:
    """The value as an int, or InvalidParameter when it is no whole number of at least `least`, or none that counts."""
    number = a_number(value, name)
    if not (isfinite(number) and value == int(value) and int(value) >= least):
        raise InvalidParameter(f"{name} has to be a whole number of at least {least}, got {value!r}.{_tail(way_out)}")
    if int(value) > most:
        raise InvalidParameter(f"{name} has to be a whole number of at most {most}, got {value!r}.{_tail(way_out)}")
    return int(value)


def a_seed(value: float, name: str = "The seed") -> int:
    """The value as an int, or InvalidParameter when it is no whole number from 0; seeds may have hundreds of bits."""
    return a_count(value, name, least=0, most=inf)


def a_range(ends: tuple[float, float], name: str = "The reward range") -> tuple[float, float]:
    """Two finite numbers a finite length apart, the lower one first, or InvalidParameter."""
    try:
        low, high = a_vector(ends, name).tolist()
    except (TypeError, ValueError):  # no numbers, or not two of them
        low = high = nan
    if not (low < high and isfinite(high - low)):
        raise InvalidParameter(
            f"{name} is two finite numbers a finite length apart, the lower one first, got {ends!r}."
        )
    return low, high


def a_vector(values: ArrayLike, name: str) -> Vector:
    """The values as one row of finite numbers."""
    vector = an_array(values, name)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise InvalidParameter(
            f"{name} have to be one row of finite numbers, got shape {vector.shape}"
            f"{'' if vector.ndim != 1 else ' with NaN or infinite entries'}."
        )
    return vector


def an_array(values: ArrayLike, name: str) -> Vector:
    """The values as float64, of any shape, or InvalidParameter when they are no real numbers."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidParameter(f"{name} have to be an array of numbers: {error}.") from error
    if array.dtype.kind not in "buif":
        raise InvalidParameter(f"{name} have to be real numbers, got {type(values).__name__} with dtype {array.dtype}.")
    return array.astype(np.float64)


def a_function(value: Function, name: str, way_out: str = "") -> Function:
    """What can be called, or InvalidParameter."""
    if not callable(value):
        raise InvalidParameter(f"{name} has to be a function, got {value!r:.80}.{_tail(way_out)}")
    return value


def a_mapping(value: Table, name: str, way_out: str = "") -> Table:
    """Things by name, or InvalidParameter."""
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"{name} have to be given by name, got {value!r:.80}.{_tail(way_out)}")
    return value


def an_object(value: Thing, name: str, *methods: str, way_out: str = "") -> Thing:
    """What has all these methods and is no class, or InvalidParameter."""
    if isinstance(value, type):
        raise InvalidParameter(f"{name} has to be made already, got the class {value.__name__}.{_tail(way_out)}")
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing:
        raise InvalidParameter(
            f"{name} needs the {'method' if len(missing) == 1 else 'methods'} {', '.join(missing)}, got "
            f"{type(value).__name__}.{_tail(way_out)}"
        )
    return value


def an_instance(value: Any, kind: type[Thing], name: str, way_out: str = "") -> Thing:
    """What is of this class, or InvalidParameter."""
    if not isinstance(value, kind):
        raise InvalidParameter(f"{name} has to be a {kind.__name__}, got {type(value).__name__}.{_tail(way_out)}")
    return value


def counted(n: int, noun: str, many: str = "") -> str:
    """A number with its noun, which takes an s but after one; `many` is for nouns that take something else.

    >>> counted(1, "round"), counted(2_000, "round"), counted(0, "policy", "policies")
    ('1 round', '2,000 rounds', '0 policies')
    """
    return f"{n:,} {noun if n == 1 else many or f'{noun}s'}"


def _refuse_large(number: float, name: str, way_out: str) -> None:
    if number > LARGEST:
        raise InvalidParameter(f"{name} has to be at most {LARGEST:g}, got {number!r}.{_tail(way_out)}")


def _tail(way_out: str) -> str:
    return f" {way_out}" if way_out else ""
