"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

__all__ = ["leftovers", "whole_file"]

ENDING: Final = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write beside the place, flush to the disk, rename: whoever looks sees all of it or what was there before.

    Whatever goes wrong meanwhile leaves nothing behind, and what the system has against the file names its place.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex}{ENDING}")
    try:
        with beside.open("xb") as file:
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
