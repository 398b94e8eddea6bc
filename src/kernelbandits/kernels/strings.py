"""String kernels over n-grams of characters or words."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from sys import getsizeof
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits._saved_state import saved_array, saved_count
from kernelbandits._transactions import ForkedLock
from kernelbandits.errors import DamagedFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels._distances import Bag, Numbers, bag_products
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.sequences import Strings, pack_strings, unpack_strings
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import check_bool, check_int, check_positive, short_repr

__all__ = ["Analyzer", "NgramIndex", "Ngrams", "Positionwise", "Spectrum", "TfIdf", "ngram_lengths"]

Analyzer: TypeAlias = Literal["char", "word"]

WORD: Final = re.compile(r"\w+")
"""A word: the longest run of letters, digits and underscores of any script."""

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


class Ngrams(NamedTuple):
    """What the n-grams of a text are: all runs of `shortest` to `longest` characters or words, with repeats.

    >>> Ngrams(2, 3).of("abab")
    ['ab', 'ba', 'ab', 'aba', 'bab']
    >>> Ngrams(1, 2, "word", lowercase=True).of("Flights to Rome!")
    ['flights', 'to', 'rome', 'flights to', 'to rome']
    """

    shortest: int
    longest: int
    analyzer: Analyzer = "char"
    lowercase: bool = False

    def of(self, text: str) -> list[str]:
        """All n-grams of a text."""
        if self.lowercase:
            text = text.lower()
        tokens = WORD.findall(text) if self.analyzer == "word" else text
        sizes = range(self.shortest, min(self.longest, len(tokens)) + 1)
        runs = (tokens[start : start + size] for size in sizes for start in range(len(tokens) - size + 1))
        return list(map(" ".join, runs)) if self.analyzer == "word" else list(runs)  # type: ignore[arg-type]


def _checked_ngrams(
    n: int | tuple[int, int] | None,
    analyzer: Analyzer,
    lowercase: bool,
    usual: Mapping[Analyzer, int | tuple[int, int]],
) -> Ngrams:
    """Validate the parameters of a kernel; `usual` are the lengths for n=None."""
    if not isinstance(analyzer, str) or analyzer not in ("char", "word"):
        raise InvalidParameter(f"The analyzer must be 'char' or 'word', got {short_repr(analyzer)}.")
    lengths = ngram_lengths(usual[analyzer] if n is None else n)
    return Ngrams(*lengths, analyzer, check_bool(lowercase, "`lowercase`"))


class NgramIndex:
    """Cache of integers for n-grams, and of the weighted n-grams of recent strings.

    The cache holds at most `most_bytes`: it can be emptied at any moment, and its copies start empty. The integers are
    valid within one call only. It can be used in several threads at once.
    """

    def __init__(self, ngrams: Ngrams, known: Sequence[str] = ()) -> None:
        self._ngrams, self._known = ngrams, known
        self.most_bytes = MOST_BYTES
        self._guard = ForkedLock()  # a kernel may be shared by policies in different threads
        self._held = _Held(known, ngrams)

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
            if held.n_bytes > self.most_bytes:
                self._held = _Held(self._known, self._ngrams)
        return found, n_ngrams

    def _cut(self, text: str, held: _Held, weigh: Callable[[Numbers, Vector], Vector]) -> Bag:
        if not isinstance(text, str):
            raise InvalidContexts(f"This kernel compares strings, got {type(text).__name__}: {text!r:.60}.")
        counted = Counter(self._ngrams.of(text))
        known = held.numbers
        if self._ngrams.analyzer == "word":
            held.measure(counted)
        numbers = np.array([known.setdefault(ngram, len(known)) for ngram in counted], dtype=np.int32)
        bag = numbers, weigh(numbers, np.array(list(counted.values()), dtype=np.float64))
        held.store(text, bag)
        return bag

    def __reduce__(self) -> tuple[Any, ...]:
        return NgramIndex, (self._ngrams, self._known)


class _Held:
    """Contents of an index, and their memory."""

    def __init__(self, known: Sequence[str], ngrams: Ngrams) -> None:
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        self.bags: dict[str, Bag] = {}
        self._n_known, self._bytes_known = len(known), getsizeof(self.numbers)
        is_of_words = ngrams.analyzer == "word"  # of any length, so they are measured one by one
        self._bytes_per_ngram = NUMBER if is_of_words else WIDEST_CHARACTER + 4 * (ngrams.longest - 1) + NUMBER
        self._bytes_of_bags = self._bytes_of_words = 0

    def measure(self, ngrams: Iterable[str]) -> None:
        """Count the memory of new n-grams of words before they are stored."""
        self._bytes_of_words += sum(getsizeof(ngram) for ngram in ngrams if ngram not in self.numbers)

    def store(self, text: str, bag: Bag) -> None:
        """Store a bag; its memory is counted first, so that an interrupt cannot leave it uncounted."""
        numbers, weights = bag
        arrays = getsizeof(numbers) + getsizeof(weights) + 2 * LEAST_DATA
        self._bytes_of_bags += getsizeof(text) + getsizeof(bag) + arrays
        self.bags[text] = bag

    @property
    def n_bytes(self) -> int:
        """Upper bound on the memory in bytes, besides the initial n-grams."""
        tables = getsizeof(self.bags) + getsizeof(self.numbers) - self._bytes_known
        ngrams = self._bytes_of_words + (len(self.numbers) - self._n_known) * self._bytes_per_ngram
        return tables + self._bytes_of_bags + ngrams


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


CHARACTERS: Final[Mapping[str, Any]] = {"analyzer": "char", "lowercase": False}
"""Values of parameters that a description or a file does not name, such as one written before they existed."""


def _without_usual(description: Parameters) -> Parameters:
    """A description without these parameters if they have the values that their absence means."""
    is_usual = all(description[name] == value for name, value in CHARACTERS.items())
    return {name: value for name, value in description.items() if not is_usual or name not in CHARACTERS}


def _unit(weights: Vector) -> Vector:
    """Weights divided by their norm; empty weights stay empty."""
    return weights / np.sqrt(weights @ weights) if len(weights) else weights


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectrum(_Ngrams):
    """Spectrum kernel of two strings: Σ over n-grams of (count in x) · (count in z).

    Case matters unless `lowercase` is True.

    Parameters
    ----------
    n
        Length of the n-grams, or (shortest, longest) for all lengths between. None: 3 characters, or 1 word.
    normalized
        Divide by the norms of both count vectors, so that k(x, x) = 1. A string too short to have an n-gram has
        similarity 0 to every string, including itself.
    analyzer
        "char": n-grams of characters, across word boundaries. "word": n-grams of words, which are runs of letters,
        digits and underscores of any script; punctuation and white space only separate them.
    lowercase
        Convert strings by `str.lower` first. Not for codes in which case has a meaning.

    >>> Spectrum(n=2).gram(["banana"], ["ananas", "cherry"]).round(3)
    array([[0.889, 0.   ]])
    >>> Spectrum(analyzer="word", lowercase=True).gram(["Cheap flights"], ["flights to Oslo", "cheap tricks"]).round(3)
    array([[0.408, 0.5  ]])

    Reference: Leslie, Eskin and Noble (2002), the spectrum kernel.
    """

    n: int | tuple[int, int] | None = None
    normalized: bool = True
    analyzer: Analyzer = "char"
    lowercase: bool = False
    _index: NgramIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ngrams = _checked_ngrams(self.n, self.analyzer, self.lowercase, {"char": 3, "word": 1})
        is_range = isinstance(self.n, (tuple, list))
        object.__setattr__(self, "n", (ngrams.shortest, ngrams.longest) if is_range else ngrams.shortest)
        object.__setattr__(self, "normalized", check_bool(self.normalized, "`normalized`"))
        object.__setattr__(self, "lowercase", ngrams.lowercase)
        object.__setattr__(self, "_index", NgramIndex(ngrams))

    def describe(self) -> Parameters:
        return _without_usual(super().describe())

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> Kernel:
        return super().unpack({**CHARACTERS, **parameters}, arrays)

    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        return _unit(counts) if self.normalized else counts


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TfIdf(_Ngrams):
    """Cosine similarity of tf-idf n-grams: n-grams that are rare in a corpus have larger weights.

    An n-gram g of a string has weight (count of g) · (ln((1 + D) / (1 + D_g)) + 1), where D_g of the D documents of the
    corpus contain g; D_g = 0 if none does. So k(x, x) = 1 for new strings, too, except for a string too short to have
    an n-gram, which has similarity 0 to every string, including itself. Case matters unless `lowercase` is True.

    Parameters
    ----------
    corpus
        The documents; a sample of the strings to be compared is sufficient. Only the D_g are stored.
    n
        Length of the n-grams, or (shortest, longest) for all lengths between. None: 2 to 5 characters, or 1 to 2 words.
    analyzer, lowercase
        As in `Spectrum`.

    >>> kernel = TfIdf(["/news/politics", "/news/sport", "/shop/shoes"], n=(2, 3))
    >>> kernel.gram(["/news/weather"], ["/news/sport", "/shop/shoes"]).round(2)
    array([[0.24, 0.  ]])
    """

    n: tuple[int, int]
    n_documents: int
    analyzer: Analyzer
    lowercase: bool
    _known: list[str] = field(repr=False)
    _holders: NDArray[np.int64] = field(repr=False)
    _rarity: Vector = field(repr=False)

    def __init__(
        self,
        corpus: Sequence[str],
        *,
        n: int | tuple[int, int] | None = None,
        analyzer: Analyzer = "char",
        lowercase: bool = False,
    ) -> None:
        ngrams = _checked_ngrams(n, analyzer, lowercase, {"char": (2, 5), "word": (1, 2)})
        try:
            documents = Strings().check(corpus)
        except InvalidContexts as error:
            raise InvalidParameter(f"The corpus must be a sequence of strings. {error}") from error
        found: Counter[str] = Counter()
        for document in documents:
            found.update(set(ngrams.of(document)))
        known = sorted(found)
        self._set(ngrams, len(documents), known, np.array([found[ngram] for ngram in known], dtype=np.int64))

    def _set(self, ngrams: Ngrams, n_documents: int, known: list[str], holders: NDArray[np.int64]) -> None:
        """Set all fields; `holders` of the documents contain each of the `known` n-grams."""
        rarity = np.log((1.0 + n_documents) / (1.0 + np.append(holders, 0))) + 1.0  # last entry: unknown n-grams
        values = {
            "n": (ngrams.shortest, ngrams.longest),
            "n_documents": n_documents,
            "analyzer": ngrams.analyzer,
            "lowercase": ngrams.lowercase,
            "_known": known,
            "_holders": holders,
            "_rarity": rarity,
            "_index": NgramIndex(ngrams, known),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

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
        return _without_usual({**self._parameters(), "digest": self.digest})

    def _parameters(self) -> Parameters:
        names = ("n_documents", "analyzer", "lowercase")
        return {"class": "TfIdf", "n": list(self.n), **{name: getattr(self, name) for name in names}}

    def pack(self) -> tuple[Parameters, dict[str, NDArray[Any]]]:
        return self._parameters(), {**pack_strings(self._known), "holders": self._holders}

    @classmethod
    def unpack(cls, parameters: Parameters, arrays: Mapping[str, NDArray[Any]]) -> TfIdf:
        kernel = cls.__new__(cls)
        n_documents, known = saved_count(parameters, "n_documents", least=1), unpack_strings(arrays)
        if len(set(known)) != len(known):
            raise DamagedFile("An n-gram of a corpus is in the file twice.")
        holders = saved_array(arrays, "holders", "i", (len(known),), least=1, most=n_documents)
        analyzer, lowercase = ({**CHARACTERS, **parameters}[name] for name in CHARACTERS)
        kernel._set(_checked_ngrams(parameters["n"], analyzer, lowercase, {}), n_documents, known, holders)
        return kernel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TfIdf) and other.describe() == self.describe()

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True, repr=False)
class Positionwise(Kernel):
    """Gaussian in the Hamming distance of two strings of equal length: exp(−differences / 2ℓ²).

    For codes in which every position has a meaning: products, peptides, settings encoded as letters. Case matters:
    "a" and "A" differ.

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
