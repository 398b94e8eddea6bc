"""Text files of events: opened by their suffix, read with or without mercy, written whole or not at all."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TypeAlias, TypeVar

from kernelbandits.adapters.vowpal_wabbit import Event
from kernelbandits.checks import a_path, is_one_of, shown
from kernelbandits.durable import whole_file
from kernelbandits.errors import ForeignFile, InvalidParameter

__all__ = ["Malformed", "OnError", "Unused", "numbered_lines", "parsed", "write_lines"]

Chunk = TypeVar("Chunk")
OnError: TypeAlias = Literal["raise", "skip"]
Unused: TypeAlias = Literal["skip_learn", "unlabelled"]
"""Why a well-formed event is no round of a log."""


class Malformed(Exception):
    """A rule that a line breaks; `line` counts within what was parsed, from 0."""

    def __init__(self, rule: str, line: int = 0) -> None:
        super().__init__(rule)
        self.line = line


def numbered_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1; a name that ends in .gz is unpacked."""
    path = a_path(path)
    opener: Any = gzip.open if _is_packed(path) else open
    with opener(path, "rt", encoding="utf-8-sig") as file:  # some editors begin a file with a mark of its encoding
        try:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\r\n")
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ForeignFile(f"{fspath(path)!r} is no text file, or not packed as its name says: {error}.") from error


def parsed(
    chunks: Iterable[tuple[int, Chunk]],
    parse: Callable[[Chunk], Event | Unused],
    *,
    path: str | PathLike[str],
    on_error: OnError,
) -> tuple[list[Event], dict[str, int]]:
    """The events of a file, and how many were left out for which reason."""
    if not is_one_of(on_error, ("raise", "skip")):
        raise InvalidParameter(
            f"A malformed line is to 'raise' an error or to be left out ('skip'), got {shown(on_error)}."
        )
    events: list[Event] = []
    left_out = {"malformed": 0, "skip_learn": 0, "unlabelled": 0}
    for number, chunk in chunks:
        try:
            event = parse(chunk)
        except Malformed as error:
            if on_error == "raise":
                raise ForeignFile(
                    f"Line {number + error.line} of {fspath(path)!r}: {error} Mend it, or leave such events out: "
                    'on_error="skip".'
                ) from error
            left_out["malformed"] += 1
            continue
        if isinstance(event, Event):
            events.append(event)
        else:
            left_out[event] += 1
    return events, left_out


def write_lines(lines: Iterable[str], path: str | PathLike[str]) -> None:
    """One line each, in a file that is there whole or not at all: a refused event leaves no half of one."""
    path = a_path(path)
    with whole_file(Path(path)) as raw, _text(raw, packed=_is_packed(path)) as file:
        for line in lines:
            file.write(line + "\n")


@contextmanager
def _text(raw: BinaryIO, *, packed: bool) -> Iterator[IO[str]]:
    """Lines into bytes, which are left open."""
    # Neither name nor time go into a packed file, so that equal events give equal bytes.
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
