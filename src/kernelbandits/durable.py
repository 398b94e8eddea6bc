"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["leftovers", "remove_leftovers", "whole_file"]

ENDING: Final = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write beside the place, flush to the disk, rename: whoever looks sees all of it or what was there before.

    Whatever goes wrong meanwhile leaves nothing behind, and what the system has against the file names its place.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex}{ENDING}")
    try:
        with _locked_file(beside) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(beside)):
            raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names no file by itself
        raise
    _flush_folder(path.parent)


def _locked_file(beside: Path) -> BinaryIO:
    """A new file that is locked; where `remove_leftovers` took it before it was, another one in its place."""
    while True:
        file = beside.open("xb")
        _lock(file)
        if beside.exists():
            return file
        file.close()


def remove_leftovers(path: Path) -> None:
    """Remove what writes of this file have left behind when they were killed; one that is under way is left alone.

    A write holds a lock on its file, which ends with its process. Where the system has no such locks, an open file
    cannot be removed (Windows), or nothing is.
    """
    for file in leftovers(path.parent):
        if file.name.startswith(f".{path.name}."):
            with suppress(OSError):
                if fcntl is None:
                    file.unlink()
                    continue
                with file.open("rb") as held:
                    if _lock(held):
                        file.unlink()


def _lock(file: BinaryIO) -> bool:
    """Hold a lock on the file until it is closed; whether that was possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def leftovers(folder: Path) -> list[Path]:
    """Files that a write left behind when it was killed."""
    return sorted(folder.glob(f".*{ENDING}"))


def _flush_folder(folder: Path) -> None:
    """Make the renaming itself survive a power cut, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
