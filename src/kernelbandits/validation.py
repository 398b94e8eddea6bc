"""Argument validation: each check states the rule, the value and a hint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from math import inf, isfinite, nan, prod
from os import PathLike, fsencode
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import short_repr
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Seed, Vector

__all__ = [
    "LARGEST",
    "MOST_IN_MEMORY",
    "MOST_NUMBERS",
    "MOST_ROUNDS",
    "MOST_RUNS",
    "as_generator",
    "as_iterable",
    "as_list",
    "check_array",
    "check_bool",
    "check_callable",
    "check_confidence",
    "check_float",
    "check_has_methods",
    "check_instance",
    "check_int",
    "check_list",
    "check_mapping",
    "check_nonnegative",
    "check_path",
    "check_positive",
    "check_probability",
    "check_range",
    "check_seed",
    "check_size",
    "check_vector",
    "is_number",
    "is_one_of",
    "length_of",
    "pluralize",
    "short_repr",
]

LARGEST: Final = 1e150
"""Largest magnitude of user-supplied numbers, and the inverse of the smallest: squares beyond it overflow or nearly
so."""

MOST_COUNTED: Final = 10**27
"""Largest count; products of a few counts of this size are still finite."""

MOST_IN_MEMORY: Final = 2**31 - 1
"""Largest number of objects stored one by one, such as actions distinguished by their rows."""

MOST_NUMBERS: Final = 500_000_000
"""Largest number of entries of an array created on a user's request: 4 GB."""

MOST_ROUNDS: Final = 100_000_000
"""Largest number of rounds of a run that stores them, at about 100 bytes each."""

MOST_RUNS: Final = 1_000_000
"""Largest number of runs of a study, each with a seed and two files."""

SMALLEST_PROBABILITY: Final = 1e-300
"""Smallest valid probability: its inverse is finite, with some room for a factor."""

SEEDS: Final = (np.random.SeedSequence, np.random.BitGenerator, np.random.Generator)
"""Types, besides integers, from which a random generator can be created."""

Function = TypeVar("Function", bound=Callable[..., Any])
Table = TypeVar("Table", bound=Mapping[Any, Any])
Thing = TypeVar("Thing")


def check_float(value: float, name: str) -> float:
    """The value as a float; rejects text, None, booleans, complex numbers, dates, masked values and arrays."""
    if type(value) is float:
        return value
    if not is_number(value):
        raise InvalidParameter(f"{name} must be one number, got {short_repr(value)}.")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{name} must be one number, got {short_repr(value)}.") from error
    except OverflowError as error:
        raise InvalidParameter(f"{name} must be a number that a float can hold, got a larger one.") from error


def is_number(value: object) -> bool:
    """Whether a value is one real number, of Python, NumPy or another library, and not a boolean."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "iuf" and value.ndim == 0 and not isinstance(value, np.ma.MaskedArray)
    return (
        hasattr(type(value), "__float__") and not isinstance(value, bool | complex) and getattr(value, "ndim", 0) == 0
    )


def check_positive(value: float, name: str, hint: str = "", *, may_be_tiny: bool = False) -> float:
    """Validate a positive finite number with a positive finite square; raise InvalidParameter otherwise."""
    number = check_float(value, name)
    if not 0.0 < number < inf:  # also rejects NaN
        raise InvalidParameter(f"{name} must be a finite number above zero, got {short_repr(value)}.{_tail(hint)}")
    _check_moderate(number, name, hint)
    if number < 1.0 / LARGEST and not may_be_tiny:
        raise InvalidParameter(f"{name} must be at least {1.0 / LARGEST:g}, got {short_repr(value)}.{_tail(hint)}")
    return number


def check_nonnegative(value: float, name: str, hint: str = "") -> float:
    """Validate a finite number of at least zero; raise InvalidParameter otherwise."""
    number = check_float(value, name)
    if not 0.0 <= number < inf:
        raise InvalidParameter(f"{name} must be a finite number, zero or above, got {short_repr(value)}.{_tail(hint)}")
    _check_moderate(number, name, hint)
    return number


def check_probability(
    value: float,
    name: str = "The failure probability",
    hint: str = "It is the probability that the claim fails; 0.05 is a common choice.",
) -> float:
    """Validate a number strictly between 0 and 1; raise InvalidParameter otherwise."""
    number = check_float(value, name)
    if not 0.0 < number < 1.0:
        raise InvalidParameter(f"{name} has to lie strictly between 0 and 1, got {short_repr(value)}.{_tail(hint)}")
    if number < SMALLEST_PROBABILITY:
        raise InvalidParameter(
            f"{name} must be at least {SMALLEST_PROBABILITY:g}, got {short_repr(value)}.{_tail(hint)}"
        )
    return number


def check_confidence(value: float) -> float:
    """Validate a confidence level strictly between 0 and 1; raise InvalidParameter otherwise."""
    hint = "It is the share of intervals that cover the truth; 0.95 is a common choice."
    return check_probability(value, "The confidence", hint)


def check_int(value: float, name: str, *, least: int = 1, most: float = MOST_COUNTED, hint: str = "") -> int:
    """Validate an integer between `least` and `most`; raise InvalidParameter otherwise."""
    number = check_float(value, name)
    if not (isfinite(number) and value == int(value) and int(value) >= least):
        raise InvalidParameter(
            f"{name} must be a whole number of at least {least}, got {short_repr(value)}.{_tail(hint)}"
        )
    if int(value) > most:
        raise InvalidParameter(
            f"{name} must be a whole number of at most {most}, got {short_repr(value)}.{_tail(hint)}"
        )
    return int(value)


def check_seed(value: float, name: str = "The seed") -> int:
    """Validate a nonnegative integer, possibly of hundreds of bits; raise InvalidParameter otherwise."""
    return check_int(value, name, least=0, most=inf)


def check_range(ends: tuple[float, float], name: str = "The reward range") -> tuple[float, float]:
    """Validate two finite numbers in increasing order with a finite difference; raise InvalidParameter otherwise."""
    try:
        low, high = check_vector(ends, name).tolist()
    except (TypeError, ValueError):  # not numbers, or not two of them
        low = high = nan
    if not (low < high and isfinite(high - low)):
        raise InvalidParameter(
            f"{name} is two finite numbers a finite length apart, the lower one first, got {short_repr(ends)}."
        )
    if max(-low, high) > LARGEST or high - low < 1.0 / LARGEST:
        raise InvalidParameter(
            f"{name} has to lie within ±{LARGEST:g} and be at least {1.0 / LARGEST:g} long, got "
            f"{short_repr(ends)}. Rescale the rewards."
        )
    return low, high


def check_vector(values: ArrayLike, name: str) -> Vector:
    """The values as a vector of finite numbers."""
    vector = check_array(values, name)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise InvalidParameter(
            f"{name} must be one row of finite numbers, got shape {vector.shape}"
            f"{'' if vector.ndim != 1 else ' with NaN or infinite entries'}."
        )
    return vector


def check_array(values: ArrayLike, name: str) -> Vector:
    """The values as float64, of any shape; raises InvalidParameter unless they are real and unmasked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidParameter(f"{name} may not be masked, and some are. Leave out what is not known, or fill it in.")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"{name} must be an array of numbers: {error}.") from error
    if array.dtype.kind not in "buif":
        raise InvalidParameter(f"{name} must be real numbers, got {type(values).__name__} with dtype {array.dtype}.")
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        return array.astype(np.float64)


def check_size(name: str, *lengths: int) -> None:
    """Raise InvalidParameter if an array of this shape would have more entries than fit into memory.

    >>> check_size("Features", 100, 2_000)
    """
    if prod(lengths) > MOST_NUMBERS:
        sizes = " × ".join(f"{length:,}" for length in lengths)
        raise InvalidParameter(f"{name} must be at most {MOST_NUMBERS:,} numbers, got {sizes}.")


def length_of(values: Sized) -> float:
    """Number of values; infinity where it exceeds what `len` can return.

    >>> length_of([7, 8]), length_of(range(10**30))
    (2, inf)
    """
    try:
        return len(values)
    except OverflowError:
        return inf


def check_bool(value: bool, name: str) -> bool:
    """Validate a bool; raise InvalidParameter otherwise: a string such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(f"{name} must be True or False, got {short_repr(value)}.")
    return bool(value)


def is_one_of(value: object, choices: Collection[str]) -> bool:
    """Whether a value is one of these strings; False for an array, which compares elementwise.

    >>> is_one_of("lowest", ("lowest", "random")), is_one_of(np.zeros(2), ("lowest", "random"))
    (True, False)
    """
    return isinstance(value, str) and value in choices


def check_list(values: Iterable[Thing], name: str, hint: str = "") -> list[Thing]:
    """The values of an iterable as a list; raises InvalidParameter. A string is one value, not many."""
    try:
        if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
            return as_list(values)
    except TypeError:
        pass
    raise InvalidParameter(f"{name} must be a list, got {short_repr(values)}.{_tail(hint)}")


def as_list(values: Iterable[Thing]) -> list[Thing]:
    """The values of an iterable as a list; raises TypeError, for callers that raise their own error.

    A sparse matrix is rejected: iterating over it would use unchecked index arrays.

    >>> as_list(memoryview(np.eye(2)))
    [array([1., 0.]), array([0., 1.])]
    """
    if hasattr(values, "tocsr"):
        raise TypeError("a sparse matrix is not a list")
    try:
        return list(as_iterable(values))
    except NotImplementedError as error:  # a class that only appears to be iterable
        raise TypeError(str(error)) from error


def as_iterable(values: Any) -> Any:
    """A memoryview as an array, since only one-dimensional views can be iterated; other values unchanged."""
    if not isinstance(values, memoryview):
        return values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidParameter(f"A memoryview has to show numbers: {error}. Make an array of them.") from error


def as_generator(seed: Seed, name: str = "A seed") -> np.random.Generator:
    """Random generator of `numpy.random.default_rng` for a seed; raises InvalidParameter."""
    try:
        if seed is None or isinstance(seed, SEEDS) or _are_whole_numbers(seed):
            return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:  # negative numbers
        raise InvalidParameter(f"{name} is a whole number from 0, got {short_repr(seed)}.") from error
    raise InvalidParameter(
        f"{name} is a whole number from 0, a SeedSequence, a Generator or None, got {short_repr(seed)}."
    )


def _are_whole_numbers(seed: object) -> bool:
    """Whether this is an integer or a flat list of integers; NumPy crashes on a list that contains itself."""
    if isinstance(seed, list | tuple):
        return all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in seed)
    if isinstance(seed, np.ndarray | np.generic):
        return seed.dtype.kind in "iu"
    return isinstance(seed, int) and not isinstance(seed, bool)


def check_path(value: str | PathLike[str], name: str = "The path") -> str:
    """Path as text; raises InvalidParameter if it cannot name a file."""
    path = value.__fspath__() if isinstance(value, PathLike) else value
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidParameter(f"{name} must be the name of a file, as text or a Path, got {short_repr(value)}.")
    try:
        fsencode(path)
    except UnicodeEncodeError as error:
        raise InvalidParameter(
            f"{name} has a character that no file name can have, got {short_repr(value)}."
        ) from error
    return path


def check_callable(value: Function, name: str, hint: str = "") -> Function:
    """Validate a callable; raise InvalidParameter otherwise."""
    if not callable(value):
        raise InvalidParameter(f"{name} must be a function, got {short_repr(value)}.{_tail(hint)}")
    return value


def check_mapping(value: Table, name: str, hint: str = "") -> Table:
    """Validate a mapping; raise InvalidParameter otherwise."""
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"{name} must be given by name, got {short_repr(value)}.{_tail(hint)}")
    return value


def check_has_methods(value: Thing, name: str, *methods: str, hint: str = "") -> Thing:
    """Validate an instance (not a class) with all these methods; raise InvalidParameter otherwise."""
    if isinstance(value, type):
        raise InvalidParameter(f"{name} must be made already, got the class {value.__name__}.{_tail(hint)}")
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing:
        raise InvalidParameter(
            f"{name} needs the {'method' if len(missing) == 1 else 'methods'} {', '.join(missing)}, got "
            f"{type(value).__name__}.{_tail(hint)}"
        )
    return value


def check_instance(value: Any, kind: type[Thing], name: str, hint: str = "") -> Thing:
    """Validate an instance of this class; raise InvalidParameter otherwise."""
    if not isinstance(value, kind):
        raise InvalidParameter(f"{name} must be a {kind.__name__}, got {type(value).__name__}.{_tail(hint)}")
    return value


def pluralize(n: int, noun: str, many: str = "") -> str:
    """A number with its noun, in the plural except for one; `many` is an irregular plural.

    >>> pluralize(1, "round"), pluralize(2_000, "round"), pluralize(0, "policy", "policies")
    ('1 round', '2,000 rounds', '0 policies')
    """
    return f"{n:,} {noun if n == 1 else many or f'{noun}s'}"


def _check_moderate(number: float, name: str, hint: str) -> None:
    if number > LARGEST:
        raise InvalidParameter(f"{name} must be at most {LARGEST:g}, got {short_repr(number)}.{_tail(hint)}")


def _tail(hint: str) -> str:
    return f" {hint}" if hint else ""
