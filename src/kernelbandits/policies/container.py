"""The file format: a JSON head, raw arrays, and a checksum over every byte.

    magic (8 bytes) · format version (4) · length of the head (8) · head (JSON, UTF-8) · arrays · SHA-256 (32)

All numbers are little-endian. The head is any nesting of plain values; an array in it stands as {"$array": [dtype,
shape, offset]}. Nothing is ever unpickled, and nothing is imported by a name found in a file. Every version of the
format begins with the magic and ends with the checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.checks import a_path
from kernelbandits.durable import whole_file
from kernelbandits.errors import CannotSave, DamagedFile, ForeignFile, NewerFile

__all__ = ["read_container", "write_container"]

MAGIC: Final = b"KBANDITS"
VERSION: Final = 1
PREFIX: Final = struct.Struct("<8sIQ")
DIGEST_SIZE: Final = 32
DTYPES: Final = {"<f8", "<i8", "|u1"}


def write_container(content: Any, path: str | PathLike[str]) -> None:
    """Write nested plain values and arrays: a file that is there whole or not at all."""
    blocks: list[bytes] = []
    head = json.dumps(_without_arrays(content, blocks), allow_nan=False, sort_keys=True).encode()
    digest = hashlib.sha256()
    with whole_file(Path(a_path(path))) as file:
        for block in (PREFIX.pack(MAGIC, VERSION, len(head)), head, *blocks):
            digest.update(block)
            file.write(block)
        file.write(digest.digest())


def read_container(path: str | PathLike[str]) -> Any:
    """What `write_container` wrote; a clear error for any other file."""
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
    start = PREFIX.size + head_size
    try:
        return _with_arrays(json.loads(data[PREFIX.size : start]), memoryview(data)[start:-DIGEST_SIZE])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{os.fspath(path)!r} cannot be read: {error}.") from error


def _without_arrays(value: Any, blocks: list[bytes]) -> Any:
    """The value with every array replaced by a note of where it lies; the arrays' bytes go to `blocks`."""
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


def _with_arrays(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_with_arrays(part, data) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$array"}:
        dtype, shape, offset = value["$array"]
        if dtype not in DTYPES:
            raise ValueError(f"an array of {dtype!r}")
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=np.dtype(dtype), count=count, offset=offset) if count else np.zeros(0, dtype)
        return array.reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
    return {key: _with_arrays(part, data) for key, part in value.items()}
