"""Events and logs of Vowpal Wabbit, independent of the format."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelbandits._files import atomic_write
from kernelbandits._sparse import sound
from kernelbandits.environments import Log
from kernelbandits.errors import ForeignFile, InvalidContexts, InvalidParameter
from kernelbandits.types import Indices, ItemId, Pairs, Points, Vector
from kernelbandits.validation import check_bool, check_instance, check_list, check_path, is_one_of, short_repr

__all__ = [
    "Event",
    "Feature",
    "FeatureValues",
    "Layout",
    "Malformed",
    "OnError",
    "Unused",
    "Vocabulary",
    "VowpalLog",
    "events_of",
    "log_of",
    "numbered_lines",
    "parsed",
    "write_lines",
]

Feature: TypeAlias = tuple[str, str]  # namespace ("" if it has none) and name
FeatureValues: TypeAlias = dict[Feature, float]
Layout: TypeAlias = Literal["pairs", "joined"]


class Event(NamedTuple):
    """One logged decision, as in both formats."""

    shared: FeatureValues
    actions: Sequence[FeatureValues]
    tags: Sequence[str | None]
    chosen: Any  # a number in these three; in the event of a slate, a tuple with one for each place
    reward: Any
    propensity: Any
    probabilities: Vector | None = None


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Features of the columns: Vowpal Wabbit hashes names, here each feature has a separate column.

    Parameters
    ----------
    context
        Namespace and name of each column of the shared context; empty if there is none.
    action
        Namespace and name of each column of the actions.

    >>> Vocabulary(context=[("User", "age")], action=[("", "price"), ("Text", "word=cheap")]).action[0]
    ('', 'price')
    """

    context: tuple[Feature, ...] = ()
    action: tuple[Feature, ...] = ()

    def __post_init__(self) -> None:
        for half in ("context", "action"):
            features = tuple(
                _feature(feature) for feature in check_list(getattr(self, half), "The columns of a vocabulary")
            )
            if len(set(features)) < len(features):
                twice = next(feature for feature in features if features.count(feature) > 1)
                raise InvalidParameter(f"The names of a vocabulary must be unique, and {twice!r} occurs twice.")
            object.__setattr__(self, half, features)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VowpalLog(Log):
    """A log read from a file of Vowpal Wabbit, with the names of its columns.

    Parameters
    ----------
    vocabulary
        Features of the columns.
    left_out
        How many rounds of the file are not here and why: "malformed", "skip_learn" (flagged `_skipLearn`: Vowpal
        Wabbit does not learn from them either), "unlabeled" (no cost), "other_lengths" (slates of another length than
        the requested one); and under "unknown_features" how many feature values had no column in the vocabulary that
        was given.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, part: slice | Sequence[int] | Indices | NDArray[np.bool_]) -> VowpalLog:
        """Return some of the rounds, as of any log; names and counts are unchanged."""
        log = Log.__getitem__(self, part)
        columns = (log.rounds, log.actions, log.propensities, log.rewards, log.ids)
        return VowpalLog(*columns, self.vocabulary, self.left_out, probabilities=log.probabilities)


def log_of(
    events: Sequence[Event],
    left_out: Mapping[str, int],
    *,
    layout: Layout,
    vocabulary: Vocabulary | None,
    sparse: bool,
) -> VowpalLog:
    """Build a log from events."""
    if not is_one_of(layout, ("pairs", "joined")):
        raise InvalidParameter(f"The layout must be 'pairs' or 'joined', got {short_repr(layout)}.")
    if layout == "joined":
        events = [event._replace(shared={}, actions=_joined(event)) for event in events]
    _reject_other_vocabulary(vocabulary)
    sparse = check_bool(sparse, "`sparse`")
    names = vocabulary or Vocabulary(
        context=_sorted(feature for event in events for feature in event.shared),
        action=_sorted(feature for event in events for action in event.actions for feature in action),
    )
    if events and not names.action:
        raise InvalidContexts(
            "No action of the file has a feature, so all are the same point. Give every action one, such as its name."
        )
    context_columns, action_columns = _Columns(names.context, sparse), _Columns(names.action, sparse)
    rounds = [_round(event, context_columns, action_columns) for event in events]
    n_unknown = context_columns.n_unknown + action_columns.n_unknown
    probabilities = [event.probabilities for event in events if event.probabilities is not None]
    return VowpalLog(
        rounds,
        np.array([event.chosen for event in events], dtype=np.intp),
        np.array([event.propensity for event in events]),
        np.array([event.reward for event in events]),
        _ids(events),
        names,
        {**left_out, "unknown_features": n_unknown},
        probabilities=probabilities if events and len(probabilities) == len(events) else None,
    )


def events_of(log: Log, vocabulary: Vocabulary | None = None) -> Iterator[Event]:
    """Events of a log; columns without names are named by number, in the namespaces Context and Action."""
    _reject_other_vocabulary(vocabulary)
    check_instance(log, Log, "The log", "Build one: Log(rounds, actions, propensities, rewards).")
    names = vocabulary or (log.vocabulary if isinstance(log, VowpalLog) else None)
    for t in range(len(log)):
        points, ids = log.rounds[t], log.ids_of(t)
        shared: FeatureValues = {}
        if isinstance(points, Pairs):
            context = points.context if _is_sparse(points.context) else np.atleast_2d(points.context)
            (shared,) = _named(context, None if names is None else names.context, "Context", t)
            points = points.actions
        actions = _named(points, None if names is None else names.action, "Action", t)
        yield Event(
            shared,
            actions,
            [None] * len(actions) if ids is None else [str(name) for name in ids],
            *_decided(log, t),
            None if log.probabilities is None else log.probabilities[t],
        )


def _decided(log: Log, t: int) -> tuple[Any, Any, Any]:
    """Action, reward and propensity of a round; tuples of a slate."""
    values = [column[t].tolist() for column in (log.actions, log.rewards, log.propensities)]
    chosen, reward, propensity = values if log.k is None else map(tuple, values)
    return chosen, reward, propensity


def _feature(feature: Any) -> Feature:
    if not isinstance(feature, tuple | list) or len(feature) != 2:
        raise InvalidParameter(f"A column of a vocabulary must be (namespace, name), got {short_repr(feature)}.")
    return str(feature[0]), str(feature[1])


def _reject_other_vocabulary(vocabulary: Vocabulary | None) -> None:
    if vocabulary is not None:
        check_instance(vocabulary, Vocabulary, "The vocabulary", "`log.vocabulary` of a log that was read is one.")


class _Columns:
    """Rows of named values."""

    def __init__(self, names: Sequence[Feature], sparse: bool) -> None:
        self._column = {feature: column for column, feature in enumerate(names)}
        self._is_sparse = sparse
        self.n_unknown = 0

    def __len__(self) -> int:
        return len(self._column)

    def rows(self, described: Sequence[FeatureValues]) -> Points:
        known = [
            (row, self._column[feature], value)
            for row, values in enumerate(described)
            for feature, value in values.items()
            if feature in self._column
        ]
        self.n_unknown += sum(map(len, described)) - len(known)
        shape = len(described), len(self._column)
        row, column, value = zip(*known, strict=True) if known else ((), (), ())
        if self._is_sparse:
            from scipy.sparse import csr_array

            places = (np.array(row, dtype=np.int64), np.array(column, dtype=np.int64))
            return csr_array((np.array(value, dtype=np.float64), places), shape=shape)
        rows = np.zeros(shape)
        rows[list(row), list(column)] = value
        return rows


def _round(event: Event, contexts: _Columns, actions: _Columns) -> Points:
    rows = actions.rows(event.actions)
    if not len(contexts):
        return rows
    context = contexts.rows([event.shared])
    return Pairs(context if _is_sparse(context) else context[0], rows)


def _joined(event: Event) -> list[FeatureValues]:
    """Features of each action together with the shared ones."""
    joined = [dict(action) for action in event.actions]
    for values in joined:
        for feature, value in event.shared.items():
            values[feature] = values.get(feature, 0.0) + value
    return joined


def _ids(events: Sequence[Event]) -> list[list[ItemId]] | None:
    """Tags, if every action of the file has one."""
    ids: list[list[ItemId]] = [[tag for tag in event.tags if tag is not None] for event in events]
    is_complete = all(len(names) == len(event.tags) for names, event in zip(ids, events, strict=True))
    return ids if events and is_complete else None


def _sorted(features: Iterable[Feature]) -> tuple[Feature, ...]:
    """Distinct features sorted by namespace and name, numbers by size, independent of the order of lines."""
    return tuple(sorted(set(features), key=_place))


def _place(feature: Feature) -> tuple[str, bool, int, str]:
    namespace, name = feature
    is_number = name.isascii() and name.isdigit()
    return namespace, not is_number, int(name) if is_number else 0, name


def _named(points: Points, names: Sequence[Feature] | None, namespace: str, t: int) -> list[FeatureValues]:
    """Named values of every row: all of a dense row, the stored ones of a sparse row."""
    rows: Any = sound(points).tocsr() if _is_sparse(points) else np.asarray(points)
    if rows.ndim != 2 or rows.dtype.kind not in "buif":
        raise InvalidContexts(
            f"Rounds for Vowpal Wabbit must be rows of numbers with named columns, got {type(points).__name__} "
            f"in round {t}. Describe every action by features first."
        )
    if not np.isfinite(rows.data if _is_sparse(rows) else rows).all():
        raise InvalidContexts(
            f"Features must be finite numbers, and round {t} has NaN or infinite ones. Fill missing entries first."
        )
    if names is None:
        names = [(namespace, str(column)) for column in range(rows.shape[1])]
    if len(names) != rows.shape[1]:
        raise InvalidParameter(
            f"The vocabulary must name every column, and it names {len(names)} where round {t} has {rows.shape[1]}."
        )
    if not _is_sparse(rows):
        return [dict(zip(names, map(float, row), strict=True)) for row in rows]
    parts = [slice(rows.indptr[row], rows.indptr[row + 1]) for row in range(rows.shape[0])]
    return [
        {names[column]: float(value) for column, value in zip(rows.indices[part], rows.data[part], strict=True)}
        for part in parts
    ]


def _is_sparse(points: Points) -> bool:
    return hasattr(points, "tocsr")


Chunk = TypeVar("Chunk")
OnError: TypeAlias = Literal["raise", "skip"]
Unused: TypeAlias = Literal["skip_learn", "unlabeled"]
"""Reasons for which a well-formed event is not a round of a log."""


class Malformed(Exception):
    """Violated rule of a line; `line` is its index within the parsed lines, from 0."""

    def __init__(self, rule: str, line: int = 0) -> None:
        super().__init__(rule)
        self.line = line


def numbered_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1; decompressed if the name ends in .gz."""
    path = check_path(path)
    opener: Any = gzip.open if _is_packed(path) else open
    with opener(path, "rt", encoding="utf-8-sig") as file:  # some editors write a byte-order mark
        try:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\r\n")
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ForeignFile(
                f"{fspath(path)!r} is not a text file, or not compressed as its name says: {error}."
            ) from error


def parsed(
    chunks: Iterable[tuple[int, Chunk]],
    parse: Callable[[Chunk], Iterable[Event | Unused]],
    *,
    path: str | PathLike[str],
    on_error: OnError,
) -> tuple[list[Event], dict[str, int]]:
    """Events of a file, and the number of omitted events by reason; raises ForeignFile if none is left.

    A chunk may hold several events. With `on_error="skip"` none may be left.
    """
    if not is_one_of(on_error, ("raise", "skip")):
        raise InvalidParameter(
            f"`on_error` must be 'raise' or 'skip', which omits malformed lines, got {short_repr(on_error)}."
        )
    events: list[Event] = []
    left_out = {"malformed": 0, "skip_learn": 0, "unlabeled": 0}
    for number, chunk in chunks:
        try:
            found = list(parse(chunk))
        except Malformed as error:
            if on_error == "raise":
                raise ForeignFile(
                    f"Line {number + error.line} of {fspath(path)!r}: {error} Correct it, or omit such events: "
                    'on_error="skip".'
                ) from error
            left_out["malformed"] += 1
            continue
        for event in found:
            if isinstance(event, Event):
                events.append(event)
            else:
                left_out[event] += 1
    if not events and any(left_out.values()) and on_error == "raise":
        counts = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
        raise ForeignFile(
            f"{fspath(path)!r} holds no decision with a cost: {counts} (of flagged and unlabeled lines nothing can be "
            'learned). Join it with its rewards first, or accept an empty log: on_error="skip".'
        )
    return events, left_out


def write_lines(lines: Iterable[str], path: str | PathLike[str]) -> None:
    """Write one line per event, atomically: if an event is rejected, no file is written."""
    path = check_path(path)
    with atomic_write(Path(path)) as raw, _text(raw, packed=_is_packed(path)) as file:
        for line in lines:
            file.write(line + "\n")


@contextmanager
def _text(raw: BinaryIO, *, packed: bool) -> Iterator[IO[str]]:
    """Write lines to a binary file, which stays open."""
    # A compressed file contains neither name nor time, so that equal events give equal bytes.
    packer = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else None
    text = TextIOWrapper(packer or raw, encoding="utf-8", newline="\n")
    try:
        yield text
    finally:
        text.detach()
        if packer is not None:
            packer.close()


def _is_packed(path: str | PathLike[str]) -> bool:
    return fspath(path).endswith(".gz")
