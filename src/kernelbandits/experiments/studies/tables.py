"""Results as tables: the columns of a job, and the bytes of its files."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._optional import import_optional
from kernelbandits.errors import DamagedFile, NotSupported
from kernelbandits.evaluation import Trace
from kernelbandits.experiments.studies.jobs import FORMAT, Job, canonical
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = ["COLUMNS", "KEY", "job_table", "kept_rounds", "parquet", "read_parquet", "relabeled", "timing_table"]

KEY: Final = b"kernelbandits"
"""Where a file's schema says what the file is."""

DIGEST_KEY: Final = b"kernelbandits.sha256"
DIGEST: Final = re.compile(re.escape(DIGEST_KEY) + rb"\x18\x40([0-9a-f]{64})", re.DOTALL)
"""In a footer: the key, a field of bytes in Thrift's compact protocol, its length, and 64 hexadecimal digits."""

NO_DIGEST: Final = b"0" * 64

TEXT: Final = ("environment", "policy")
WHOLE: Final = ("seed", "round", "action", "stage", "n_actions", "n_covered")
OF_THE_TRACE: Final = (
    "action", "reward", "expected", "best", "propensity", "mean", "width", "exploration", "stage", "n_actions",
    "log_det_gain",
)  # fmt: skip
COLUMNS: Final = (
    *TEXT, "seed", "round", *OF_THE_TRACE, "total_reward", "regret", "potential", "n_covered", "effective_dimension"
)  # fmt: skip

UNKNOWN: Final = -1
"""Stands in `n_covered` from the first round on whose expected reward or interval nobody knows."""


def kept_rounds(n_rounds: int, every: int) -> Indices:
    """Every so many rounds, counted from 1, and the last one.

    >>> kept_rounds(10, 4)
    array([ 4,  8, 10])
    """
    rounds = np.arange(every, n_rounds + 1, every)
    return rounds if n_rounds % every == 0 else np.append(rounds, n_rounds)


def job_table(job: Job, trace: Trace, dimensions: Mapping[int, int]) -> pa.Table:
    """The kept rows of a run, with sums over all its rounds."""
    rounds = kept_rounds(len(trace), job.every)
    rows = rounds - 1
    values: dict[str, NDArray[Any]] = {name: getattr(trace, name)[rows] for name in OF_THE_TRACE}
    values |= {name: column[rows] for name, column in _sums(trace).items()}
    values["seed"] = np.full(len(rounds), job.seed)
    values["round"] = rounds
    values["effective_dimension"] = np.array([dimensions.get(int(t), np.nan) for t in rounds], dtype=np.float64)
    return _table(job, values)


def _sums(trace: Trace) -> dict[str, NDArray[Any]]:
    """Columns that sum over all rounds up to theirs."""
    # Without a width the multiplier is not defined, and half the interval is zero.
    half = np.where(trace.width == 0.0, 0.0, trace.exploration * trace.width)
    error = np.abs(trace.expected - trace.mean)
    is_known = np.logical_and.accumulate(~np.isnan(error) & ~np.isnan(half))
    covered = np.cumsum(error <= half)
    return {
        "total_reward": np.nancumsum(trace.reward),  # a reward that nobody knows adds nothing
        "regret": trace.regret,
        "potential": np.cumsum(half),
        "n_covered": np.where(is_known, covered, UNKNOWN),
    }


def timing_table(job: Job, trace: Trace) -> pa.Table:
    """Mean seconds a round since the previous row: what differs from run to run is kept apart."""
    import_optional("pyarrow", "This part of experiments")
    import pyarrow as pa

    rounds = kept_rounds(len(trace), job.every)
    total = np.append(0.0, np.cumsum(trace.seconds))[np.append(0, rounds)]
    seconds: Vector = np.diff(total) / np.diff(np.append(0, rounds))
    said = {KEY: canonical({"format": FORMAT, "id": job.id}).encode()}
    return pa.table({"round": pa.array(rounds, pa.int64()), "seconds": pa.array(seconds, pa.float64())}, metadata=said)


def relabeled(job: Job, table: pa.Table) -> pa.Table:
    """The rows of the same job under the names that it has now."""
    return _table(job, {name: table[name].to_numpy() for name in COLUMNS if name not in TEXT})


def _table(job: Job, values: Mapping[str, NDArray[Any]]) -> pa.Table:
    import_optional("pyarrow", "This part of experiments")
    import pyarrow as pa

    text, n_rows = pa.dictionary(pa.int32(), pa.string()), len(values["round"])
    columns: dict[str, Any] = {
        name: pa.DictionaryArray.from_arrays(np.zeros(n_rows, np.int32), pa.array([getattr(job, name)], pa.string()))
        for name in TEXT
    }
    for name in COLUMNS[len(TEXT) :]:
        columns[name] = pa.array(values[name], pa.int64() if name in WHOLE else pa.float64())
    kinds = {name: text if name in TEXT else column.type for name, column in columns.items()}
    schema = pa.schema(list(kinds.items()), metadata={KEY: canonical(job.metadata()).encode()})
    return pa.table(columns, schema=schema)


def parquet(table: pa.Table) -> bytes:
    """The bytes of a Parquet file, the same for the same table.

    Its footer holds the SHA-256 of the whole file, computed with zeros in the place of the digest.
    """
    import pyarrow as pa
    from pyarrow import parquet as files

    said = {**(table.schema.metadata or {}), DIGEST_KEY: NO_DIGEST}
    sink = pa.BufferOutputStream()
    files.write_table(table.replace_schema_metadata(said), sink, compression="zstd", write_page_checksum=True)
    content = bytes(sink.getvalue().to_pybytes())
    span = _digest_span(content)
    if span is None:
        raise NotSupported("This version of pyarrow writes footers in another form. Install another one: 16 or later.")
    return content[: span[0]] + _digest_of(content, *span) + content[span[1] :]


def read_parquet(path: Path) -> pa.Table:
    """The table in a file that `parquet` made, or DamagedFile where it is not whole; OSError where it is not there.

    Files of earlier versions have no digest of the whole; of these every page is compared with its checksum.
    """
    import_optional("pyarrow", "This part of experiments")
    import pyarrow as pa
    from pyarrow import parquet as files

    content = path.read_bytes()
    span = _digest_span(content)
    if span is not None and _digest_of(content, *span) != content[slice(*span)]:
        raise DamagedFile(f"The file {str(path)!r} is damaged: its checksum does not match.")
    try:
        file = files.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        schema = (file.metadata.metadata or {}).get(b"ARROW:schema", b"")
        if span is None and DIGEST_KEY in b64decode(schema):  # the second place that names the digest
            raise ValueError("its checksum is missing")
        return file.read()
    except Exception as error:  # of a file without a digest anything may be wrong
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFile(f"The file {str(path)!r} cannot be read: {reason.rstrip('.')}.") from error


def _digest_span(content: bytes) -> tuple[int, int] | None:
    """Where the digest begins and ends; None where it does not exist."""
    found = list(DIGEST.finditer(content))
    return found[-1].span(1) if found else None


def _digest_of(content: bytes, start: int, end: int) -> bytes:
    """SHA-256 of a file without its own digest, in hexadecimal digits."""
    digest = sha256(memoryview(content)[:start])
    digest.update(NO_DIGEST)
    digest.update(memoryview(content)[end:])
    return digest.hexdigest().encode()
