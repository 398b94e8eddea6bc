"""Text files of events: opened by their suffix, read with or without mercy, written whole or not at all."""

from __future__ import annotations

import gzip
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, TypeVar

from kernelbandits.adapters.vowpal_wabbit import Event
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
    if on_error not in ("raise", "skip"):
        raise InvalidParameter(f"A malformed line is to 'raise' an error or to be left out ('skip'), got {on_error!r}.")
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
    """Write beside the target and rename: a refused event leaves no half of a file."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _new_file(temporary, _is_packed(path)) as file:
            for line in lines:
                file.write(line + "\n")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _new_file(path: Path, packed: bool) -> Iterator[IO[str]]:
    if not packed:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            yield file
        return
    # Neither name nor time go into the file, so that equal events give equal bytes.
    with (
        path.open("xb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packer,
        TextIOWrapper(packer, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def _is_packed(path: str | PathLike[str]) -> bool:
    return fspath(path).endswith(".gz")
