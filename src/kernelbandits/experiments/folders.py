"""Where results are written."""

from __future__ import annotations

from os import W_OK, PathLike, access
from pathlib import Path

from kernelbandits.errors import InvalidParameter

__all__ = ["writable_folder"]


def writable_folder(into: str | PathLike[str]) -> Path:
    """The folder, made where it is not there, or InvalidParameter."""
    folder = Path(into)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be made: {error.strerror}. Name another.") from error
    if not access(folder, W_OK):
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be written to. Name another.")
    return folder
