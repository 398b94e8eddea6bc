"""Files on disk: atomic writes, the container format of saved policies, result folders and their locks.

    magic (8 bytes) · format version (4) · length of the head (8) · head (JSON, UTF-8) · arrays · SHA-256 (32)

All numbers are little-endian. The head is any nesting of plain values; an array in it is represented as {"$array":
[dtype, shape, offset]}. Nothing is ever unpickled, and nothing is imported by a name found in a file. Every version of
the format begins with the magic and ends with the checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isfinite, prod
from os import W_OK, PathLike, access
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import CannotSave, DamagedFile, FolderInUse, ForeignFile, InvalidParameter, NewerFile
from kernelbandits.validation import MOST_IN_MEMORY, check_path

__all__ = ["locked", "read_container", "writable_folder", "write_container"]

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["atomic_write", "find_partial_files", "remove_leftovers"]

ENDING: Final = ".partial"


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Atomic write: write a temporary file, flush it to disk, rename it. Readers see the old or the new file.

    An error leaves no partial file behind, and an error of the operating system names the file.
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
    """Create a new locked file; create another one if `remove_leftovers` removes it before it is locked."""
    while True:
        file = beside.open("xb")
        _lock(file)
        if beside.exists():
            return file
        file.close()


def remove_leftovers(path: Path) -> None:
    """Remove partial files of this file left by killed processes; a write in progress is not affected.

    A write holds a lock on its file, which ends with its process. On systems without such locks, an open file cannot be
    removed (Windows), or nothing is removed.
    """
    for file in find_partial_files(path.parent):
        if file.name.startswith(f".{path.name}."):
            with suppress(OSError):
                if fcntl is None:
                    file.unlink()
                    continue
                with file.open("rb") as held:
                    if _lock(held):
                        file.unlink()


def _lock(file: BinaryIO) -> bool:
    """Lock the file until it is closed; return whether that was possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def find_partial_files(folder: Path) -> list[Path]:
    """Partial files left in a folder by killed processes."""
    return sorted(folder.glob(f".*{ENDING}"))


def _flush_folder(folder: Path) -> None:
    """Flush the folder, so that the rename survives a power failure, if the system supports it."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


MAGIC: Final = b"KBANDITS"
VERSION: Final = 3
PREFIX: Final = struct.Struct("<8sIQ")
DIGEST_SIZE: Final = 32
DTYPES: Final = {"<f8", "<i8", "|u1"}

DEEPEST: Final = 100
"""Largest nesting depth of a head. A nested kernel and a wrapped policy take two levels each; Python's stack has
1,000."""

MOST_AXES: Final = 4
"""Largest number of axes of an array in a file; those of the library have one or two."""


def write_container(content: Any, path: str | PathLike[str]) -> None:
    """Write nested plain values and arrays atomically."""
    blocks: list[bytes] = []
    plain = _without_arrays(content, blocks)
    try:
        _extents(plain)
    except ValueError as error:
        raise CannotSave(f"This cannot be written into a file that could be read again: {error}.") from error
    head = json.dumps(plain, allow_nan=False, sort_keys=True).encode()
    digest = hashlib.sha256()
    target = Path(check_path(path))
    remove_leftovers(target)
    with atomic_write(target) as file:
        for block in (PREFIX.pack(MAGIC, VERSION, len(head)), head, *blocks):
            digest.update(block)
            file.write(block)
        file.write(digest.digest())


def read_container(path: str | PathLike[str]) -> Any:
    """Read what `write_container` wrote; raise a clear error for any other file.

    The arrays in a file are contiguous and fill it, so that reading takes memory in proportion to its length.
    """
    data = Path(path).read_bytes()
    if len(data) < PREFIX.size + DIGEST_SIZE or not data.startswith(MAGIC):
        raise ForeignFile(f"{os.fspath(path)!r} is not a file that kernelbandits has saved.")
    if hashlib.sha256(memoryview(data)[:-DIGEST_SIZE]).digest() != data[-DIGEST_SIZE:]:
        raise DamagedFile(f"{os.fspath(path)!r} is damaged: its checksum does not match. Restore it from a copy.")
    _, version, head_size = PREFIX.unpack_from(data)
    if version > VERSION:
        raise NewerFile(
            f"{os.fspath(path)!r} has format {version}; this version of kernelbandits reads up to {VERSION}. Upgrade: "
            "pip install -U kernelbandits"
        )
    if version < VERSION:
        raise ForeignFile(
            f"{os.fspath(path)!r} has format {version}, of a development version that was never released. Build the "
            "policy again from its log."
        )
    start = PREFIX.size + head_size
    try:
        if start > len(data) - DIGEST_SIZE:
            raise ValueError(f"a head of {head_size} bytes is longer than the file")
        head = json.loads(data[PREFIX.size : start])
        body = memoryview(data)[start:-DIGEST_SIZE]
        _check_no_overlap(_extents(head), len(body))
        return _with_arrays(head, body)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"{os.fspath(path)!r} cannot be read: {error}.") from error


def _without_arrays(value: Any, blocks: list[bytes]) -> Any:
    """The value with every array replaced by a reference; the arrays' bytes are appended to `blocks`."""
    if isinstance(value, np.ndarray):
        return {"$array": _put(value, blocks)}
    if isinstance(value, dict):
        return {str(key): _without_arrays(part, blocks) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(part, blocks) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _put(array: NDArray[Any], blocks: list[bytes]) -> list[Any]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise CannotSave(f"A file holds arrays of {', '.join(sorted(DTYPES))}, got {array.dtype.str}.")
    offset = sum(map(len, blocks))
    blocks.append(np.ascontiguousarray(little).tobytes())
    return [little.dtype.str, list(array.shape), offset]


def _extents(head: Any) -> list[tuple[int, int]]:
    """Start and end of every array; raises ValueError for a head that is too deep or invalid."""
    extents: list[tuple[int, int]] = []
    level = [head]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, float) and not isfinite(value):
                raise ValueError("its head holds a number that is not finite")
            if isinstance(value, list):
                below.extend(value)
            elif isinstance(value, dict) and "$array" in value:
                dtype, shape, offset = _checked_note(value)
                extents.append((offset, offset + prod(shape) * np.dtype(dtype).itemsize))
            elif isinstance(value, dict):
                below.extend(value.values())
        if not below:
            return extents
        level = below
    raise ValueError(f"its head is nested more than {DEEPEST} levels deep")


def _checked_note(value: dict[str, Any]) -> tuple[str, list[int], int]:
    """Dtype, shape and offset of an array; raises ValueError."""
    note = value["$array"]
    if not isinstance(note, list) or len(note) != 3:
        raise ValueError(f"it names an array by {note!r:.60} instead of dtype, shape and offset")
    dtype, shape, offset = note
    if len(value) != 1 or not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"it names an array of {dtype!r:.60}")
    sizes = [*shape, offset] if isinstance(shape, list) else [None]
    if any(type(size) is not int or not size >= 0 for size in sizes):
        raise ValueError(f"it names an array of shape {shape!r:.60} at {offset!r:.60}")
    if len(shape) > MOST_AXES or any(size > MOST_IN_MEMORY for size in shape):
        raise ValueError(f"it names an array of shape {shape!r:.60}, which is too large")
    return dtype, shape, offset


def _check_no_overlap(extents: list[tuple[int, int]], length: int) -> None:
    """Raise ValueError unless the arrays fill the file without gaps or overlaps."""
    end = 0
    for first, last in sorted(extents):
        if first == last:
            continue
        if first != end:
            raise ValueError(f"its arrays do not lie one behind the other: one begins at {first} and not at {end}")
        end = last
    if end != length:
        raise ValueError(f"its arrays end at {end}, and the file has {length} bytes for them")


def _with_arrays(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_with_arrays(part, data) for part in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        dtype, shape, offset = value["$array"]
        count = prod(shape)
        array = np.frombuffer(data, dtype=np.dtype(dtype), count=count, offset=offset) if count else np.zeros(0, dtype)
        return array.reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
    return {key: _with_arrays(part, data) for key, part in value.items()}


def writable_folder(into: str | PathLike[str]) -> Path:
    """The folder, created if it does not exist; raises InvalidParameter."""
    folder = Path(check_path(into, "The folder"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be made: {error.strerror}. Name another.") from error
    if not access(folder, W_OK):
        raise InvalidParameter(f"The folder {str(folder)!r} cannot be written to. Name another.")
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock, which ends with this process; raises FolderInUse if another process holds it.

    Yields False if the system does not support such locks.
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
