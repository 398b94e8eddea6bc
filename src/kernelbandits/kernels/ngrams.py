"""Character n-grams as whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np

from kernelbandits.checks import a_count
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels.bags import Bag, Numbers
from kernelbandits.types import Vector

__all__ = ["NgramIndex", "ngram_lengths", "ngrams"]

REMEMBERED: Final = 10_000_000
"""Most n-grams of remembered strings, some 120 MB; when there are more, the strings seen first are forgotten."""

VOCABULARY: Final = 1_000_000
"""Most n-grams that are numbered besides those known from the start, some 150 MB; then numbering starts again."""


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

    A cache: it can be dropped at any moment, and its copies start empty. Numbers mean something within one call only.
    """

    def __init__(self, shortest: int, longest: int, known: Sequence[str] = ()) -> None:
        self._shortest, self._longest, self._known = shortest, longest, known
        self._lock = Lock()  # a kernel may be shared by policies in different threads
        self._forget()

    def _forget(self) -> None:
        self._numbers = {ngram: number for number, ngram in enumerate(self._known)}
        self._bags: dict[str, Bag] = {}
        self._size = 0

    def bags(
        self, *collections: Sequence[str], weigh: Callable[[Numbers, Vector], Vector]
    ) -> tuple[list[list[Bag]], int]:
        """Numbers and weights of every string's n-grams, and how many n-grams have a number.

        `weigh` makes weights of numbers and counts; it has to be the same in every call.
        """
        with self._lock:
            self._make_room()
            return [[self._bag(text, weigh) for text in texts] for texts in collections], len(self._numbers)

    def _bag(self, text: str, weigh: Callable[[Numbers, Vector], Vector]) -> Bag:
        bag = self._bags.get(text)
        if bag is None:
            counted = Counter(ngrams(text, self._shortest, self._longest))
            known = self._numbers
            numbers = np.array([known.setdefault(ngram, len(known)) for ngram in counted], dtype=np.int32)
            bag = numbers, weigh(numbers, np.array(list(counted.values()), dtype=np.float64))
            self._bags[text] = bag
            self._size += len(numbers)
        return bag

    def _make_room(self) -> None:
        if len(self._numbers) > len(self._known) + VOCABULARY:
            self._forget()
        while self._size > REMEMBERED:
            numbers, _ = self._bags.pop(next(iter(self._bags)))
            self._size -= len(numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        return NgramIndex, (self._shortest, self._longest, self._known)
