"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from kernelbandits.errors import FolderInUse

__all__ = ["leftovers", "locked", "write_durably"]

ENDING = ".partial"


def write_durably(path: Path, content: bytes) -> None:
    """Write beside the place, flush to the disk, rename: whoever looks sees all of it or what was there before."""
    beside = path.with_name(f".{path.name}.{uuid4().hex}{ENDING}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # a full disk names no file by itself
        raise
    _flush_folder(path.parent)


def leftovers(folder: Path) -> list[Path]:
    """Files that a write left behind when it was killed."""
    return sorted(folder.glob(f".*{ENDING}"))


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock, which ends with this process whatever happens; FolderInUse where another one holds it.

    Gives False where the system knows no such locks.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = True
        except BlockingIOError as error:
            raise FolderInUse(
                f"Another run is writing into {str(folder)!r}. Wait for it, or name another folder."
            ) from error
        except OSError:  # a file system without locks
            is_held = False
        yield is_held


def _flush_folder(folder: Path) -> None:
    """Make the renaming itself survive a power cut, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
