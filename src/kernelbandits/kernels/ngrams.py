"""Character n-grams as whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import Any, Final

import numpy as np

from kernelbandits.checks import a_count
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.forking import ForkedLock
from kernelbandits.kernels.bags import Bag, Numbers
from kernelbandits.types import Vector

__all__ = ["NgramIndex", "ngram_lengths", "ngrams"]

MOST_BYTES: Final = 256_000_000
"""Most memory that an index keeps between two calls, besides the n-grams known from the start; when it has more, it
starts again empty. Within a call it also holds what the call asks for."""

WIDEST_CHARACTER: Final = getsizeof("\U00010000")
"""Bytes of a string of one character, at most."""

NUMBER: Final = getsizeof(2**30)
"""Bytes of the number of an n-gram."""

LEAST_DATA: Final = 16
"""Bytes that NumPy allocates for the data of an array at least."""


def ngram_lengths(n: int | tuple[int, int]) -> tuple[int, int]:
    """Shortest and longest n-gram that `n` speaks of, or InvalidParameter."""
    if not isinstance(n, (tuple, list)):
        length = a_count(n, "The length n of n-grams")
        return length, length
    if len(n) != 2 or a_count(n[0], "The shortest n-gram") > a_count(n[1], "The longest n-gram"):
        raise InvalidParameter(f"n has to be a whole number or (shortest, longest), as in (2, 5), got {n!r}.")
    return int(n[0]), int(n[1])


def ngrams(text: str, shortest: int, longest: int) -> list[str]:
    """Every run of characters of these lengths, repeats included.

    >>> ngrams("abab", 2, 3)
    ['ab', 'ba', 'ab', 'aba', 'bab']
    """
    sizes = range(shortest, min(longest, len(text)) + 1)
    return [text[start : start + size] for size in sizes for start in range(len(text) - size + 1)]


class NgramIndex:
    """Numbers for n-grams, and the weighted n-grams of the strings seen lately, so that none is cut up twice.

    A cache of at most `MOST_BYTES`: it can be dropped at any moment, and its copies start empty. Numbers mean something
    within one call only. It can be used in several threads at once.
    """

    def __init__(self, shortest: int, longest: int, known: Sequence[str] = ()) -> None:
        self._shortest, self._longest, self._known = shortest, longest, known
        self._guard = ForkedLock()  # a kernel may be shared by policies in different threads
        self._held = _Held(known, longest)

    def bags(
        self, *collections: Sequence[str], weigh: Callable[[Numbers, Vector], Vector]
    ) -> tuple[list[list[Bag]], int]:
        """Numbers and weights of every string's n-grams, and how many n-grams have a number.

        `weigh` makes weights of numbers and counts; it has to be the same in every call.
        """
        with self._guard.lock:
            held = self._held
            try:
                found = [
                    [held.bags.get(text) or self._cut(text, held, weigh) for text in texts] for texts in collections
                ]
            except TypeError as error:  # what cannot be hashed is no string
                raise InvalidContexts(f"This kernel compares strings: {error}.") from error
            n_ngrams = len(held.numbers)
            if held.n_bytes > MOST_BYTES:
                self._held = _Held(self._known, self._longest)
        return found, n_ngrams

    def _cut(self, text: str, held: _Held, weigh: Callable[[Numbers, Vector], Vector]) -> Bag:
        if not isinstance(text, str):
            raise InvalidContexts(f"This kernel compares strings, got {type(text).__name__}: {text!r:.60}.")
        counted = Counter(ngrams(text, self._shortest, self._longest))
        known = held.numbers
        numbers = np.array([known.setdefault(ngram, len(known)) for ngram in counted], dtype=np.int32)
        bag = numbers, weigh(numbers, np.array(list(counted.values()), dtype=np.float64))
        held.keep(text, bag)
        return bag

    def __reduce__(self) -> tuple[Any, ...]:
        return NgramIndex, (self._shortest, self._longest, self._known)


class _Held:
    """What an index keeps, and the memory that it takes."""

    def __init__(self, known: Sequence[str], longest: int) -> None:
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        self.bags: dict[str, Bag] = {}
        self._n_known, self._bytes_known = len(known), getsizeof(self.numbers)
        self._bytes_per_ngram = WIDEST_CHARACTER + 4 * (longest - 1) + NUMBER
        self._bytes_of_bags = 0

    def keep(self, text: str, bag: Bag) -> None:
        """Keep a bag; it counts before it is kept, lest an interrupt keeps it uncounted."""
        numbers, weights = bag
        arrays = getsizeof(numbers) + getsizeof(weights) + 2 * LEAST_DATA
        self._bytes_of_bags += getsizeof(text) + getsizeof(bag) + arrays
        self.bags[text] = bag

    @property
    def n_bytes(self) -> int:
        """Memory held, besides the n-grams known from the start; not less than it is."""
        tables = getsizeof(self.bags) + getsizeof(self.numbers) - self._bytes_known
        return tables + self._bytes_of_bags + (len(self.numbers) - self._n_known) * self._bytes_per_ngram
