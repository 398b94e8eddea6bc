"""Adapter for text encoders: embeddings as rows, cached by text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from kernelbandits._sparse import sound
from kernelbandits._transactions import ForkedLock
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Strings
from kernelbandits.types import Matrix
from kernelbandits.validation import check_array, check_bool, check_int, check_size, short_repr

__all__ = ["CachedEncoder"]


class CachedEncoder:
    """Embeddings of texts by any encoder; those of the texts used last are kept.

    An encoder takes seconds where a decision takes less than a millisecond, and prompts come back: on retries, for
    several decisions, and when the decision is learned from. Each text is passed to the encoder once while it is kept;
    all missing texts of a call are passed together. Calls are thread-safe; two threads that miss the same text at the
    same time may both compute it.

    Parameters
    ----------
    encoder
        A function (list of strings) → one row of numbers per string, or an object with such a method `encode`
        (sentence-transformers) or `transform` (a fitted vectorizer of scikit-learn; sparse rows are made dense).
    size
        Largest number of kept embeddings; those used longest ago go first. 10,000 of 384 columns are 31 MB.
    normalized
        Whether rows are scaled to length 1, so that a Gaussian kernel on them is a function of the cosine. A row of
        zeros stays.

    Examples
    --------
    >>> def lengths(texts):
    ...     print("encoding", texts)
    ...     return [[len(text), text.count(" ")] for text in texts]
    >>> encoder = CachedEncoder(lengths, size=100)
    >>> encoder(["a prompt", "another one", "a prompt"])
    encoding ['a prompt', 'another one']
    array([[ 8.,  1.],
           [11.,  1.],
           [ 8.,  1.]])
    >>> encoder.one("another one")
    array([11.,  1.])
    """

    def __init__(self, encoder: Any, *, size: int = 10_000, normalized: bool = False) -> None:
        self._encode = _encode_of(encoder)
        self.size = check_int(size, "The number of kept embeddings", least=0)
        self.normalized = check_bool(normalized, "`normalized`")
        self._rows: OrderedDict[str, Matrix] = OrderedDict()
        self._n_columns: int | None = None
        self._guard = ForkedLock()
        self.n_encoded = 0
        """Number of texts that were passed to the encoder."""

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text."""
        listed = _texts(texts)
        found: dict[str, Matrix] = {}
        with self._guard.lock:
            for text in listed:
                if text in self._rows:
                    self._rows.move_to_end(text)
                    found[text] = self._rows[text]
        missing = list(dict.fromkeys(text for text in listed if text not in found))
        if missing:
            rows = self._rows_of(missing)  # outside the lock: other threads read what is kept
            with self._guard.lock:
                self._keep(missing, rows)
            found.update(zip(missing, rows, strict=True))
        return np.array([found[text] for text in listed])

    def one(self, text: str) -> Matrix:
        """Return the row of one text."""
        row: Matrix = self([text])[0]
        return row

    def __len__(self) -> int:
        """Return the number of kept embeddings."""
        return len(self._rows)

    def _rows_of(self, texts: list[str]) -> Matrix:
        """Return new rows for these texts, or raise InvalidContexts if the encoder gives none."""
        given = self._encode(list(texts))
        try:
            if hasattr(given, "tocsr"):
                given = sound(given)
                check_size("Embeddings", *given.shape)
                given = given.toarray()
            rows = check_array(given, "Embeddings")
        except InvalidParameter as error:
            raise InvalidContexts(f"An encoder gives one row of numbers per text. {error}") from error
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            bad = " with NaN or infinite entries" if rows.ndim == 2 and len(rows) == len(texts) else ""
            raise InvalidContexts(
                f"An encoder gives one row of finite numbers per text ({len(texts)}), got shape {rows.shape}{bad}."
            )
        if self.normalized:
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(lengths > 0.0, lengths, 1.0)
        return rows

    def _keep(self, texts: list[str], rows: Matrix) -> None:
        if self._n_columns not in (None, rows.shape[1]):
            raise InvalidContexts(
                f"An encoder gives rows of the same length, got {rows.shape[1]} columns after {self._n_columns}. Make "
                "a new CachedEncoder for another encoder."
            )
        self._n_columns = rows.shape[1]
        self.n_encoded += len(texts)
        for text, row in zip(texts, rows, strict=True):
            self._rows[text] = row
            self._rows.move_to_end(text)
        while len(self._rows) > self.size:
            self._rows.popitem(last=False)

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy, which has a lock of its own."""
        with self._guard.lock:
            return {**vars(self), "_rows": self._rows.copy()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.size} texts)"


def _texts(texts: Any) -> list[str]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise InvalidContexts(
            f"An encoder takes a list of texts, got {type(texts).__name__}. One text: encoder.one(text)."
        )
    listed = list(texts)
    for text in listed:
        if not isinstance(text, str):
            raise InvalidContexts(
                f"An encoder takes texts, got {type(text).__name__}: {short_repr(text)}. Rows of numbers need no "
                "encoder: pass them to the policy as they are."
            )
    if not listed:
        raise InvalidContexts("An encoder takes at least one text, got none.")
    return Strings().check(listed)


def _encode_of(encoder: Any) -> Callable[[list[str]], Any]:
    if not isinstance(encoder, type | str):  # a string has a method encode
        for name in ("encode", "transform"):
            if callable(method := getattr(encoder, name, None)):
                return method  # type: ignore[no-any-return]
        if callable(encoder):
            return encoder  # type: ignore[no-any-return]
    raise InvalidParameter(
        "An encoder is a function of a list of strings, or an object with a method encode or transform, got "
        f"{short_repr(encoder)}."
    )
