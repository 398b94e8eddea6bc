"""String kernels over character n-grams."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._saved_state import saved_array, saved_count
from kernelbandits._transactions import ForkedLock
from kernelbandits.errors import DamagedFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels._distances import Bag, Numbers, bag_products
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.sequences import Strings, pack_strings, unpack_strings
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import check_bool, check_int, check_positive

__all__ = ["NgramIndex", "Positionwise", "Spectrum", "TfIdf", "ngram_lengths", "ngrams"]

MOST_BYTES: Final = 256_000_000
"""Largest memory that an index holds between two calls, besides the initial n-grams; above it, the index is emptied.
Within a call it also holds what that call needs."""

WIDEST_CHARACTER: Final = getsizeof("\U00010000")
"""Largest size in bytes of a string of one character."""

NUMBER: Final = getsizeof(2**30)
"""Size in bytes of the integer of an n-gram."""

LEAST_DATA: Final = 16
"""Smallest allocation in bytes of NumPy for the data of an array."""


def ngram_lengths(n: int | tuple[int, int]) -> tuple[int, int]:
    """Shortest and longest n-gram defined by `n`; raises InvalidParameter."""
    if not isinstance(n, (tuple, list)):
        length = check_int(n, "The length n of n-grams")
        return length, length
    if len(n) != 2 or check_int(n[0], "The shortest n-gram") > check_int(n[1], "The longest n-gram"):
        raise InvalidParameter(f"n must be a whole number or (shortest, longest), as in (2, 5), got {n!r}.")
    return int(n[0]), int(n[1])


def ngrams(text: str, shortest: int, longest: int) -> list[str]:
    """All character n-grams of these lengths, with repeats.

    >>> ngrams("abab", 2, 3)
    ['ab', 'ba', 'ab', 'aba', 'bab']
    """
    sizes = range(shortest, min(longest, len(text)) + 1)
    return [text[start : start + size] for size in sizes for start in range(len(text) - size + 1)]


class NgramIndex:
    """Cache of integers for n-grams, and of the weighted n-grams of recent strings.

    The cache holds at most `MOST_BYTES`: it can be emptied at any moment, and its copies start empty. The integers are
    valid within one call only. It can be used in several threads at once.
    """

    def __init__(self, shortest: int, longest: int, known: Sequence[str] = ()) -> None:
        self._shortest, self._longest, self._known = shortest, longest, known
        self._guard = ForkedLock()  # a kernel may be shared by policies in different threads
        self._held = _Held(known, longest)

    def bags(
        self, *collections: Sequence[str], weigh: Callable[[Numbers, Vector], Vector]
    ) -> tuple[list[list[Bag]], int]:
        """Integers and weights of every string's n-grams, and the number of n-grams with an integer.

        `weigh` computes weights from integers and counts; it must be the same in every call.
        """
        with self._guard.lock:
            held = self._held
            try:
                found = [
                    [held.bags.get(text) or self._cut(text, held, weigh) for text in texts] for texts in collections
                ]
            except TypeError as error:  # an unhashable object is not a string
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
    """Contents of an index, and their memory."""

    def __init__(self, known: Sequence[str], longest: int) -> None:
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        self.bags: dict[str, Bag] = {}
        self._n_known, self._bytes_known = len(known), getsizeof(self.numbers)
        self._bytes_per_ngram = WIDEST_CHARACTER + 4 * (longest - 1) + NUMBER
        self._bytes_of_bags = 0

    def keep(self, text: str, bag: Bag) -> None:
        """Store a bag; its memory is counted first, so that an interrupt cannot leave it uncounted."""
        numbers, weights = bag
        arrays = getsizeof(numbers) + getsizeof(weights) + 2 * LEAST_DATA
        self._bytes_of_bags += getsizeof(text) + getsizeof(bag) + arrays
        self.bags[text] = bag

    @property
    def n_bytes(self) -> int:
        """Upper bound on the memory in bytes, besides the initial n-grams."""
        tables = getsizeof(self.bags) + getsizeof(self.numbers) - self._bytes_known
        return tables + self._bytes_of_bags + (len(self.numbers) - self._n_known) * self._bytes_per_ngram


class _Ngrams(Kernel):
    """Inner product of weighted n-gram counts."""

    kind = Strings()
    _index: NgramIndex

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        sides = (first,) if second is None else (first, second)
        for side in sides:
            self.kind.check_ordered(side)
        bags, n_ngrams = self._index.bags(*sides, weigh=self._weigh)
        return bag_products(bags[0], bags[-1], n_ngrams)

    def diagonal(self, points: Points) -> Vector:
        self.kind.check_ordered(points)
        (bags,), _ = self._index.bags(points, weigh=self._weigh)
        return np.array([weights @ weights for _, weights in bags], dtype=np.float64)

    @abstractmethod
    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        """Weights of the n-grams of one string, given their integers in the index and their counts."""


def _unit(weights: Vector) -> Vector:
    """Weights divided by their norm; empty weights stay empty."""
    return weights / np.sqrt(weights @ weights) if len(weights) else weights


@dataclass(frozen=True, kw_only=True)
class Spectrum(_Ngrams):
    """Spectrum kernel of two strings: Σ over n-grams of (count in x) · (count in z).

    Parameters
    ----------
    n
        Length of the n-grams, or (shortest, longest) for all lengths between.
    normalized
        Divide by the norms of both count vectors, so that k(x, x) = 1. A string too short to have an n-gram has
        similarity 0 to every string, including itself.

    >>> Spectrum(n=2).gram(["banana"], ["ananas", "cherry"]).round(3)
    array([[0.889, 0.   ]])

    Reference: Leslie, Eskin and Noble (2002), the spectrum kernel.
    """

    n: int | tuple[int, int] = 3
    normalized: bool = True
    _index: NgramIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shortest, longest = ngram_lengths(self.n)
        object.__setattr__(self, "n", (shortest, longest) if isinstance(self.n, (tuple, list)) else shortest)
        object.__setattr__(self, "normalized", check_bool(self.normalized, "`normalized`"))
        object.__setattr__(self, "_index", NgramIndex(shortest, longest))

    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        return _unit(counts) if self.normalized else counts


@dataclass(frozen=True, init=False, eq=False)
class TfIdf(_Ngrams):
    """Cosine similarity of tf-idf character n-grams: n-grams that are rare in a corpus have larger weights.

    An n-gram g of a string has weight (count of g) · (ln((1 + D) / (1 + D_g)) + 1), where D_g of the D documents of the
    corpus contain g; D_g = 0 if none does. So k(x, x) = 1 for new strings, too, except for a string too short to have
    an n-gram, which has similarity 0 to every string, including itself.

    Parameters
    ----------
    corpus
        The documents; a sample of the strings to be compared is sufficient. Only the D_g are stored.
    n
        Length of the n-grams, or (shortest, longest) for all lengths between.

    >>> kernel = TfIdf(["/news/politics", "/news/sport", "/shop/shoes"], n=(2, 3))
    >>> kernel.gram(["/news/weather"], ["/news/sport", "/shop/shoes"]).round(2)
    array([[0.24, 0.  ]])
    """

    n: tuple[int, int]
    n_documents: int
    _known: list[str] = field(repr=False)
    _holders: NDArray[np.int64] = field(repr=False)
    _rarity: Vector = field(repr=False)

    def __init__(self, corpus: Sequence[str], *, n: int | tuple[int, int] = (2, 5)) -> None:
        lengths = ngram_lengths(n)
        try:
            documents = Strings().check(corpus)
        except InvalidContexts as error:
            raise InvalidParameter(f"The corpus must be a sequence of strings. {error}") from error
        found: Counter[str] = Counter()
        for document in documents:
            found.update(set(ngrams(document, *lengths)))
        known = sorted(found)
        self._set(lengths, len(documents), known, np.array([found[ngram] for ngram in known], dtype=np.int64))

    def _set(self, n: tuple[int, int], n_documents: int, known: list[str], holders: NDArray[np.int64]) -> None:
        """Set all fields; `holders` of the documents contain each of the `known` n-grams."""
        rarity = np.log((1.0 + n_documents) / (1.0 + np.append(holders, 0))) + 1.0  # last entry: unknown n-grams
        values = {"n": n, "n_documents": n_documents, "_known": known, "_holders": holders, "_rarity": rarity}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_index", NgramIndex(*n, known))

    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        return _unit(counts * self._rarity[np.minimum(numbers, len(self._known))])

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the corpus: its n-grams and the number of documents that contain each."""
        content = hashlib.sha256(json.dumps([self.n, self.n_documents, len(self._known)]).encode())
        for array in pack_strings(self._known).values():
            content.update(array.tobytes())
        content.update(self._holders.tobytes())
        return content.hexdigest()

    def describe(self) -> Parameters:
        return {"class": "TfIdf", "n": list(self.n), "n_documents": self.n_documents, "digest": self.digest}

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        parameters = {"class": "TfIdf", "n": list(self.n), "n_documents": self.n_documents}
        return parameters, {**pack_strings(self._known), "holders": self._holders}

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> TfIdf:
        kernel = cls.__new__(cls)
        n_documents, known = saved_count(parameters, "n_documents", least=1), unpack_strings(arrays)
        if len(set(known)) != len(known):
            raise DamagedFile("An n-gram of a corpus is in the file twice.")
        holders = saved_array(arrays, "holders", "i", (len(known),), least=1, most=n_documents)
        kernel._set(ngram_lengths(parameters["n"]), n_documents, known, holders)
        return kernel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TfIdf) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True)
class Positionwise(Kernel):
    """Gaussian in the Hamming distance of two strings of equal length: exp(−differences / 2ℓ²).

    For codes in which every position has a meaning: products, peptides, settings encoded as letters.

    >>> Positionwise(length_scale=1.0).gram(["red-s", "red-m"], ["red-s", "tan-s"]).round(3)
    array([[1.   , 0.223],
           [0.607, 0.135]])
    """

    length_scale: float
    kind = Strings()

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", check_positive(self.length_scale, "The length scale"))

    @property
    def is_certified(self) -> bool:
        """Always False: strings of different lengths are rejected."""
        return False

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        left = _code_points(self.kind.listed(first))
        right = left if second is None else _code_points(self.kind.listed(second))
        if len(left) and len(right) and left.shape[1] != right.shape[1]:
            raise _unequal(left.shape[1], right.shape[1])
        differences = np.zeros((len(left), len(right)))
        for here, there in zip(left.T, right.T, strict=False):  # one position at a time
            differences += here[:, None] != there[None, :]
        return np.exp(differences / (-2.0 * self.length_scale**2))

    def diagonal(self, points: Points) -> Vector:
        return np.ones(len(self.kind.listed(points)))


def _code_points(strings: Sequence[str]) -> NDArray[np.uint32]:
    """Characters as integers, one row per string, one column per position."""
    length = len(strings[0]) if len(strings) else 0
    for text in strings:
        if len(text) != length:
            raise _unequal(length, len(text))
    encoded = "".join(strings).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(encoded, dtype="<u4").reshape(len(strings), length)


def _unequal(length: int, other: int) -> InvalidContexts:
    return InvalidContexts(
        f"Strings can be compared position by position only when they are equally long, got {length} and {other} "
        "characters. Pad them, or take Spectrum, which compares strings of any length."
    )
