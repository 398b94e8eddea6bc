"""Files of data sets: tables as CSV, images as NumPy archives."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import ForeignFile

__all__ = ["Path", "read_arrays", "read_header", "read_table"]

Path: TypeAlias = str | os.PathLike[str]

GZIP_MAGIC: Final = b"\x1f\x8b"


def read_table(
    path: Path, *, name: str, words: Sequence[str] = (), numbers: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Read columns of a CSV file, in its order; raise ForeignFile if it is not the expected file.

    Parameters
    ----------
    path
        A CSV file in UTF-8 with a header line, plain or gzip-compressed.
    name
        Name of the expected file, for error messages.
    words, numbers
        Columns to read as text and as float64; all others are ignored.
    """
    with _opened(path, name) as lines:
        reader = csv.reader(lines)
        header = next(reader, [])
        _reject_other_header(path, name, header, (*words, *numbers))
        records = [record for record in reader if record]
    for line, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise ForeignFile(
                f"Line {line} of {os.fspath(path)!r} has {len(record)} entries under {len(header)} names. The file is "
                f"damaged, or is not the {name!r} table."
            )
    if not records:
        raise ForeignFile(f"{os.fspath(path)!r} has the columns of the {name!r} table and no rows.")
    columns = dict(zip(header, zip(*records, strict=True), strict=True))
    used = [column for column in header if column in {*words, *numbers}]
    return {
        column: _numbers(columns[column], column, path)
        if column in numbers
        else np.array(columns[column], dtype=object)
        for column in used
    }


def read_header(path: Path, *, name: str) -> list[str]:
    """Return the column names of a CSV file."""
    with _opened(path, name) as lines:
        return next(csv.reader(lines), [])


def read_arrays(path: Path, *, name: str, arrays: Sequence[str]) -> list[NDArray[Any]]:
    """Read arrays of a NumPy archive (.npz); raise ForeignFile if it is not the expected file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:  # closed even if damaged
            return [archive[array] for array in arrays]
    except (AttributeError, BadZipFile, EOFError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise ForeignFile(
            f"{os.fspath(path)!r} is not the {name!r} archive: a NumPy file (.npz) with the arrays {list(arrays)} was "
            f"expected. {error}"
        ) from error


@contextmanager
def _opened(path: Path, name: str) -> Iterator[TextIO]:
    with open(path, "rb") as file:
        is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    opener: Any = gzip.open if is_compressed else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
            yield lines
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error, csv.Error) as error:
        raise ForeignFile(
            f"{os.fspath(path)!r} cannot be read as the {name!r} table: a CSV file in UTF-8, plain or gzip-compressed, "
            f"was expected. {error}"
        ) from error


def _reject_other_header(path: Path, name: str, header: Sequence[str], expected: Sequence[str]) -> None:
    lacking = [column for column in expected if column not in header]
    if lacking or len(set(header)) < len(header):
        raise ForeignFile(
            f"{os.fspath(path)!r} is not the {name!r} table: it lacks the columns {lacking}, and its first line reads "
            f"{','.join(header)[:200]!r}. A header line with {list(expected)} was expected."
        )


def _numbers(entries: Sequence[str], column: str, path: Path) -> NDArray[np.float64]:
    try:
        return np.array(entries, dtype=np.float64)
    except ValueError as error:
        raise ForeignFile(f"Column {column!r} of {os.fspath(path)!r} should hold numbers only: {error}.") from error
