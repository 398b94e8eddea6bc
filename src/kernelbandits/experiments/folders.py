"""Where results are written."""

from __future__ import annotations

from os import W_OK, PathLike, access
from pathlib import Path

from kernelbandits.errors import InvalidParameter

__all__ = ["a_path", "writable_folder"]


def a_path(value: str | PathLike[str]) -> Path:
    """The path, or InvalidParameter."""
    if not isinstance(value, str | PathLike):
        raise InvalidParameter(f"A file or a folder is named by a text or a path, got {value!r:.80}.")
    return Path(value)


def writable_folder(into: str | PathLike[str]) -> Path:
    """The folder, made where it is not there, or InvalidParameter."""
    folder = a_path(into)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be made: {error.strerror}. Name another.") from error
    if not access(folder, W_OK):
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be written to. Name another.")
    return folder
