"""Kernels between strings."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_flag, positive
from kernelbandits.errors import DamagedFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels.bags import Numbers, bag_products
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.ngrams import NgramIndex, ngram_lengths, ngrams
from kernelbandits.kernels.sequences import Strings, pack_strings, unpack_strings
from kernelbandits.restoring import saved_array, saved_count
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["Positionwise", "Spectrum", "TfIdf"]


class _Ngrams(Kernel):
    """Inner product of weighted n-gram counts."""

    kind = Strings()
    _index: NgramIndex

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        sides = (first,) if second is None else (first, second)
        for side in sides:
            self.kind.refuse_unordered(side)
        bags, n_ngrams = self._index.bags(*sides, weigh=self._weigh)
        return bag_products(bags[0], bags[-1], n_ngrams)

    def diagonal(self, points: Points) -> Vector:
        self.kind.refuse_unordered(points)
        (bags,), _ = self._index.bags(points, weigh=self._weigh)
        return np.array([weights @ weights for _, weights in bags], dtype=np.float64)

    @abstractmethod
    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        """Weights of the n-grams of one string, given their numbers in the index and their counts."""


def _unit(weights: Vector) -> Vector:
    """The weights divided by their length; no weights stay no weights."""
    return weights / np.sqrt(weights @ weights) if len(weights) else weights


@dataclass(frozen=True, kw_only=True)
class Spectrum(_Ngrams):
    """Shared character n-grams of two strings: Σ over n-grams of (count in x) · (count in z).

    Parameters
    ----------
    n
        Length of the n-grams, or (shortest, longest) for all lengths between.
    normalised
        Divide by the lengths of both count vectors, so that k(x, x) = 1. A string too short to have an n-gram is
        similar to nothing, itself included.

    >>> Spectrum(n=2).gram(["banana"], ["ananas", "cherry"]).round(3)
    array([[0.889, 0.   ]])

    Reference: Leslie, Eskin and Noble (2002), the spectrum kernel.
    """

    n: int | tuple[int, int] = 3
    normalised: bool = True
    _index: NgramIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shortest, longest = ngram_lengths(self.n)
        object.__setattr__(self, "n", (shortest, longest) if isinstance(self.n, (tuple, list)) else shortest)
        object.__setattr__(self, "normalised", a_flag(self.normalised, "`normalised`"))
        object.__setattr__(self, "_index", NgramIndex(shortest, longest))

    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        return _unit(counts) if self.normalised else counts


@dataclass(frozen=True, init=False, eq=False)
class TfIdf(_Ngrams):
    """Cosine of tf-idf character n-grams: n-grams that are rare in a corpus say more about what is alike.

    An n-gram g of a string weighs (count of g) · (ln((1 + D) / (1 + D_g)) + 1), where D_g of the D documents of the
    corpus hold g; where none does, D_g = 0. So k(x, x) = 1 for new strings too, except for a string too short to have
    an n-gram, which is similar to nothing, itself included.

    Parameters
    ----------
    corpus
        The documents: a sample of the strings that will be compared will do. Only the D_g are kept.
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
            raise InvalidParameter(f"The corpus has to be a sequence of strings. {error}") from error
        found: Counter[str] = Counter()
        for document in documents:
            found.update(set(ngrams(document, *lengths)))
        known = sorted(found)
        self._set(lengths, len(documents), known, np.array([found[ngram] for ngram in known], dtype=np.int64))

    def _set(self, n: tuple[int, int], n_documents: int, known: list[str], holders: NDArray[np.int64]) -> None:
        """All fields: `holders` of the documents hold each of the `known` n-grams."""
        rarity = np.log((1.0 + n_documents) / (1.0 + np.append(holders, 0))) + 1.0  # the last for n-grams not known
        values = {"n": n, "n_documents": n_documents, "_known": known, "_holders": holders, "_rarity": rarity}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_index", NgramIndex(*n, known))

    def _weigh(self, numbers: Numbers, counts: Vector) -> Vector:
        return _unit(counts * self._rarity[np.minimum(numbers, len(self._known))])

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the corpus: of its n-grams and the number of documents that hold each."""
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
            raise DamagedFile("An n-gram of a corpus stands in the file twice.")
        holders = saved_array(arrays, "holders", "i", (len(known),), least=1, most=n_documents)
        kernel._set(ngram_lengths(parameters["n"]), n_documents, known, holders)
        return kernel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TfIdf) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True)
class Positionwise(Kernel):
    """Gaussian in the number of positions at which two equally long strings differ: exp(−differences / 2ℓ²).

    For codes in which every position has a meaning: products, peptides, settings written as letters.

    >>> Positionwise(length_scale=1.0).gram(["red-s", "red-m"], ["red-s", "tan-s"]).round(3)
    array([[1.   , 0.223],
           [0.607, 0.135]])
    """

    length_scale: float
    kind = Strings()

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive(self.length_scale, "The length scale"))

    @property
    def is_certified(self) -> bool:
        """No: strings of different lengths are refused."""
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
    """Characters as numbers, a row a string, a column a position."""
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
