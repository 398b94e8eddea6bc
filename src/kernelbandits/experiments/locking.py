"""One run at a time in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelbandits.errors import FolderInUse

__all__ = ["locked"]


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
