"""Result folders: one schema of a result table, one writer, one reader.

A folder holds `study.json` and, for every finished job, a Parquet file in `jobs/` and one in `timings/`, named by the
job's id. Of a study from a file it also holds that file as it was given, `study.toml`, and in `sources/` the user's
files that it names. The columns of a trace are part of the schema by themselves: a new field of `Trace` is stored and
can be read.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._files import atomic_write, find_partial_files
from kernelbandits._optional import import_optional, versions
from kernelbandits.errors import DamagedFile, ForeignFile, InvalidParameter, NewerFile, NotSupported, SavedFileError
from kernelbandits.evaluation import Trace
from kernelbandits.evaluation.trace import NOT_COLUMNS, WHOLE_NUMBERS
from kernelbandits.experiments.study import FORMAT, Job, Study, canonical
from kernelbandits.types import Indices

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = [
    "SCHEMA",
    "SOURCES",
    "TOML_FILE",
    "JobFiles",
    "JobResult",
    "ResultFolder",
    "job_files",
    "job_table",
    "stored_rounds",
    "timing_table",
]

logger: Final = logging.getLogger(__name__)

TRACE_COLUMNS: Final = tuple(column.name for column in fields(Trace) if column.name not in (*NOT_COLUMNS, "seconds"))
"""Columns of a trace that are stored; times differ from run to run and have their own file."""

SCHEMA: Final[Mapping[str, type]] = {
    "environment": str,
    "policy": str,
    "seed": int,
    "round": int,
    **{name: int if name in WHOLE_NUMBERS else float for name in TRACE_COLUMNS},
    "total_reward": float,
    "regret": float,
    "potential": float,
    "n_covered": int,
    "effective_dimension": float,
}
"""Columns of a job's file. Those after the trace sum over all rounds up to theirs, stored or not."""

LATER_COLUMNS: Final = ("inflation",)
"""Columns that files of earlier versions may lack; their values are then unknown."""

TIMING_SCHEMA: Final[Mapping[str, type]] = {"round": int, "seconds": float}

UNKNOWN: Final = -1
"""Value in `n_covered` from the first round on whose expected reward or interval is unknown."""

METADATA_KEY: Final = b"kernelbandits"
"""Key of the job's description in the metadata of a file's schema."""

DIGEST_KEY: Final = b"kernelbandits.sha256"
DIGEST: Final = re.compile(re.escape(DIGEST_KEY) + rb"\x18\x40([0-9a-f]{64})", re.DOTALL)
"""Digest in a footer: the key, a field of bytes in Thrift's compact protocol, its length, and 64 hexadecimal digits."""

NO_DIGEST: Final = b"0" * 64

STUDY_FILE: Final = "study.json"
TOML_FILE: Final = "study.toml"
"""Name of the copy of the file that a study was read from."""

SOURCES: Final = "sources"
"""Folder with copies of the Python files that a study names classes from."""

JOBS: Final = "jobs"
TIMINGS: Final = "timings"
FAILURES: Final = "failures"

STUDY_HINT: Final = "Run the study again to repair it: finished jobs are not repeated."
JOB_HINT: Final = "Delete it and run the study again: finished jobs are not repeated."


class JobFiles(NamedTuple):
    """Contents of the two files of a finished job, and its run time."""

    job: bytes
    timing: bytes
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class JobResult:
    """One finished job, as read from its files: one policy in one environment with one seed."""

    metadata: Mapping[str, Any]
    """Description of the job: `Job.metadata`."""

    columns: Mapping[str, NDArray[Any]]
    """Stored rounds and the numbers after each, by name of the column."""

    seconds: Mapping[str, NDArray[Any]] | None = None
    """`round` and mean `seconds` per round since the previous row; None if no times are stored."""

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return str(self.metadata["environment"])

    @property
    def policy(self) -> str:
        """Label of the policy."""
        return str(self.metadata["policy"])

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.metadata["seed"])

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the run."""
        return int(self.columns["round"][-1]) if len(self.columns["round"]) else 0


# Tables


def stored_rounds(n_rounds: int, every: int) -> Indices:
    """Rounds that are stored: every `every`-th, counted from 1, and the last one.

    >>> stored_rounds(10, 4)
    array([ 4,  8, 10])
    """
    rounds = np.arange(every, n_rounds + 1, every)
    return rounds if n_rounds % every == 0 else np.append(rounds, n_rounds)


def job_files(job: Job, trace: Trace, dimensions: Mapping[int, int], *, began: float) -> JobFiles:
    """Files of a job that began at this time of `perf_counter`."""
    job_content, timing = to_parquet(job_table(job, trace, dimensions)), to_parquet(timing_table(job, trace))
    return JobFiles(job_content, timing, perf_counter() - began)


def job_table(job: Job, trace: Trace, dimensions: Mapping[int, int]) -> pa.Table:
    """Stored rows of a run; `dimensions` holds effective dimensions by round."""
    rounds = stored_rounds(len(trace), job.every)
    rows = rounds - 1
    values: dict[str, Any] = {name: getattr(trace, name)[rows] for name in TRACE_COLUMNS}
    values |= {name: column[rows] for name, column in _cumulative(trace).items()}
    values |= {name: getattr(job, name) for name in ("environment", "policy")}
    values["seed"] = np.full(len(rounds), job.seed)
    values["round"] = rounds
    values["effective_dimension"] = np.array([dimensions.get(int(t), np.nan) for t in rounds], dtype=np.float64)
    return _table(values, SCHEMA, job.metadata())


def _cumulative(trace: Trace) -> dict[str, NDArray[Any]]:
    """Columns that sum over all rounds up to theirs."""
    # Without a width the multiplier is undefined, and half the interval is zero.
    half = np.where(trace.width == 0.0, 0.0, trace.exploration * trace.width)
    error = np.abs(trace.expected - trace.mean)
    is_known = np.logical_and.accumulate(~np.isnan(error) & ~np.isnan(half))
    covered = np.cumsum(error <= half)
    return {
        "total_reward": np.nancumsum(trace.reward),  # unknown rewards add nothing
        "regret": trace.regret,
        "potential": np.cumsum(half),
        "n_covered": np.where(is_known, covered, UNKNOWN),
    }


def timing_table(job: Job, trace: Trace) -> pa.Table:
    """Mean seconds per round since the previous row."""
    rounds = stored_rounds(len(trace), job.every)
    total = np.append(0.0, np.cumsum(trace.seconds))[np.append(0, rounds)]
    seconds = np.diff(total) / np.diff(np.append(0, rounds))
    return _table({"round": rounds, "seconds": seconds}, TIMING_SCHEMA, {"format": FORMAT, "id": job.id})


def _table(values: Mapping[str, Any], schema: Mapping[str, type], metadata: Mapping[str, Any]) -> pa.Table:
    """Arrow table of these columns; a text is a dictionary of one entry."""
    import_optional("pyarrow", "This part of experiments")
    import pyarrow as pa

    kinds = {str: pa.dictionary(pa.int32(), pa.string()), int: pa.int64(), float: pa.float64()}
    n_rows = len(values["round"])
    columns = [
        pa.DictionaryArray.from_arrays(np.zeros(n_rows, np.int32), pa.array([values[name]], pa.string()))
        if kind is str
        else pa.array(values[name], kinds[kind])
        for name, kind in schema.items()
    ]
    described = {METADATA_KEY: canonical(metadata).encode()}
    return pa.table(
        columns, schema=pa.schema([(name, kinds[kind]) for name, kind in schema.items()], metadata=described)
    )


# Files


def to_parquet(table: pa.Table) -> bytes:
    """Bytes of a Parquet file, the same for the same table.

    The footer holds the SHA-256 of the whole file, computed with zeros in the place of the digest.
    """
    import pyarrow as pa
    from pyarrow import parquet

    metadata = {**(table.schema.metadata or {}), DIGEST_KEY: NO_DIGEST}
    sink = pa.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd", write_page_checksum=True)
    content = bytes(sink.getvalue().to_pybytes())
    span = _digest_span(content)
    if span is None:
        raise NotSupported("This version of pyarrow writes footers in another form. Install another one: 16 or later.")
    return content[: span[0]] + _digest_of(content, *span) + content[span[1] :]


def read_parquet(path: Path) -> pa.Table:
    """Table in a file of a result folder; DamagedFile if it is damaged, ForeignFile if it has no checksum of ours."""
    import_optional("pyarrow", "This part of experiments")
    import pyarrow as pa
    from pyarrow import parquet

    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"The file {str(path)!r} cannot be read: {error.strerror}. {JOB_HINT}") from error
    span = _digest_span(content)
    if span is not None and _digest_of(content, *span) != content[slice(*span)]:
        raise DamagedFile(f"The file {str(path)!r} is damaged: its checksum does not match. {JOB_HINT}")
    try:
        # One thread: a thread of pyarrow's pool that still holds a buffer at interpreter exit aborts the process.
        table = parquet.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read(use_threads=False)
    except Exception as error:  # anything may be wrong in a file without a digest
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFile(f"The file {str(path)!r} cannot be read: {reason.rstrip('.')}. {JOB_HINT}") from error
    if span is None:
        raise ForeignFile(f"The file {str(path)!r} was not written by a study. Move it out of the folder.")
    return table


def _digest_span(content: bytes) -> tuple[int, int] | None:
    """First and last position of the digest; None if the file has none."""
    found = list(DIGEST.finditer(content))
    return found[-1].span(1) if found else None


def _digest_of(content: bytes, start: int, end: int) -> bytes:
    """SHA-256 of a file without its own digest, in hexadecimal digits."""
    digest = sha256(memoryview(content)[:start])
    digest.update(NO_DIGEST)
    digest.update(memoryview(content)[end:])
    return digest.hexdigest().encode()


def read_metadata(table: pa.Table, path: Path) -> dict[str, Any]:
    """Description that a file of this format holds."""
    try:
        metadata = json.loads((table.schema.metadata or {})[METADATA_KEY])
    except KeyError:
        raise ForeignFile(f"The file {str(path)!r} was not written by a study. Move it out of the folder.") from None
    except ValueError as error:
        raise DamagedFile(f"The metadata of {str(path)!r} is not JSON: {error}. {JOB_HINT}") from error
    if not isinstance(metadata, dict):
        raise DamagedFile(f"The metadata of {str(path)!r} must be a JSON object, got {metadata!r}. {JOB_HINT}")
    check_format(metadata.get("format"), path)
    return metadata


def check_format(found: Any, path: Path) -> None:
    """Raise NewerFile for a later format, DamagedFile for one that this version does not read."""
    if isinstance(found, int) and found > FORMAT:
        raise NewerFile(
            f"{str(path)!r} has format {found}, this version reads format {FORMAT}. Upgrade kernelbandits, or use "
            "another folder."
        )
    if found != FORMAT:
        raise DamagedFile(f"{str(path)!r} has format {found}, this version reads format {FORMAT}. {STUDY_HINT}")


def _with_later_columns(table: pa.Table) -> pa.Table:
    """The table with columns that did not exist when it was written."""
    for place, name in enumerate(SCHEMA):
        if name in LATER_COLUMNS and name not in table.column_names:
            table = table.add_column(min(place, table.num_columns), name, [np.full(table.num_rows, np.nan)])
    return table


def _columns(table: pa.Table, schema: Mapping[str, type], path: Path) -> dict[str, NDArray[Any]]:
    """All columns of numbers, checked."""
    columns: dict[str, NDArray[Any]] = {}
    for name, kind in schema.items():
        if name not in table.column_names:
            raise DamagedFile(f"The file {str(path)!r} lacks the column {name!r}. {JOB_HINT}")
        if kind is str:
            continue
        try:
            columns[name] = np.asarray(table.column(name).to_numpy(), np.int64 if kind is int else np.float64)
        except (TypeError, ValueError) as error:
            raise DamagedFile(f"The column {name!r} of {str(path)!r} is not numeric: {error}. {JOB_HINT}") from error
    if len(columns["round"]) > 1 and np.any(np.diff(columns["round"]) <= 0):
        raise DamagedFile(f"The rounds of {str(path)!r} do not increase. {JOB_HINT}")
    return columns


class ResultFolder:
    """Files of a result folder.

    A job that failed has its traceback in `failures/` instead, until it is finished or no longer part of the study.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def job_file(self, id: str) -> Path:
        """Rows of a job."""
        return self.path / JOBS / f"{id}.parquet"

    def timing_file(self, id: str) -> Path:
        """Seconds of a job."""
        return self.path / TIMINGS / f"{id}.parquet"

    def failure_file(self, id: str) -> Path:
        """Traceback of a job that failed."""
        return self.path / FAILURES / f"{id}.txt"

    def prepare(self, *, clean: bool) -> None:
        """Create the folders; `clean` removes partial files of a run that was killed."""
        for name in (JOBS, TIMINGS):
            (self.path / name).mkdir(exist_ok=True)
        if clean:
            for folder in (self.path, *(self.path / name for name in (JOBS, TIMINGS, FAILURES, SOURCES))):
                for file in find_partial_files(folder):
                    file.unlink(missing_ok=True)
                    logger.info("Removed a partial file of a run that was killed: %s", file)

    # study.json

    def write_study(self, study: Study, jobs: Sequence[Job]) -> None:
        """Write the description of the study, the ids of its jobs and the files that it was read from.

        Raises NewerFile over a later format, and InvalidParameter if a file of the user would be overwritten.
        """
        former: dict[str, Any] = {}
        with suppress(DamagedFile):
            former = self.read_study()
        files = self._replace_files(study, former.get("files"))
        metadata = {
            "format": FORMAT,
            "name": study.name,
            "study": study.describe(),
            "horizon": study.horizon,
            "seeds": list(study.seeds),
            "every": study.every,
            "versions": versions(),
            "machine": {
                "system": platform.system(),
                "processor": platform.machine(),
                "n_processors": os.cpu_count(),
            },
            "files": files,
            "jobs": [job.id for job in jobs],
        }
        _write(self.path / STUDY_FILE, (json.dumps(metadata, indent=2, ensure_ascii=False) + "\n").encode())

    def _replace_files(self, study: Study, former: Any) -> dict[str, str]:
        """Write the files of the study in place of those of the former one; return their digests by name."""
        contents = {} if study.toml is None else {TOML_FILE: study.toml}
        contents |= {f"{SOURCES}/{name}": file.content for name, file in study.files.items()}
        ours = {name: digest for name, digest in (former if isinstance(former, dict) else {}).items() if name in
                (TOML_FILE, f"{SOURCES}/{Path(name).name}")}  # fmt: skip
        new = {name: sha256(content).hexdigest() for name, content in contents.items()}
        found = {name: sha256(path.read_bytes()).hexdigest()
                 for name in {**ours, **new} if (path := self.path / name).is_file()}  # fmt: skip
        for name, digest in found.items():
            if digest not in (ours.get(name), new.get(name)) and name in new:
                raise InvalidParameter(
                    f"{str(self.path / name)!r} is not what a run wrote, so it is not overwritten. Move it away, or "
                    "take another folder."
                )
        for name, digest in found.items():
            if name not in new and digest == ours[name]:
                (self.path / name).unlink()
        for name, content in contents.items():
            if found.get(name) != new[name]:
                (self.path / name).parent.mkdir(exist_ok=True)
                _write(self.path / name, content)
        with suppress(OSError):  # there are files of the study in it, or there is no such folder
            (self.path / SOURCES).rmdir()
        return new

    def read_study(self) -> dict[str, Any]:
        """Return what `write_study` wrote; empty if there is no file, DamagedFile if it cannot be read."""
        path = self.path / STUDY_FILE
        try:
            metadata = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DamagedFile(f"The file {str(path)!r} cannot be read: {error}. {STUDY_HINT}") from error
        if isinstance(metadata, dict):
            check_format(metadata.get("format"), path)
        jobs = metadata.get("jobs") if isinstance(metadata, dict) else None
        if not isinstance(jobs, list) or not all(isinstance(job, str) for job in jobs):
            raise DamagedFile(f"The file {str(path)!r} does not list the jobs of a study. {STUDY_HINT}")
        return dict(metadata)

    # Jobs

    def save(self, job: Job, files: JobFiles) -> None:
        """Store a finished job: its timings first, so a job whose rows exist is complete."""
        _write(self.timing_file(job.id), files.timing)
        _write(self.job_file(job.id), files.job)
        self.remove_failure(job.id)

    def read_table(self, id: str) -> pa.Table:
        """Rows of a finished job with its metadata; DamagedFile or ForeignFile if they are not those of the job."""
        path = self.job_file(id)
        table = _with_later_columns(read_parquet(path))
        if read_metadata(table, path).get("id") != id:
            raise DamagedFile(f"The file {str(path)!r} holds another job. {JOB_HINT}")
        if table.column_names != list(SCHEMA):
            _columns(table, SCHEMA, path)
            raise DamagedFile(f"The file {str(path)!r} has other columns than {list(SCHEMA)}. {JOB_HINT}")
        return table

    def read_job(self, id: str) -> JobResult:
        """Read a finished job and, if they are stored, its times."""
        path, timing = self.job_file(id), self.timing_file(id)
        table = self.read_table(id)
        metadata = read_metadata(table, path)
        lacking = [key for key in ("environment", "policy", "spec_name", "parameters", "seed") if key not in metadata]
        if lacking:
            raise DamagedFile(f"The metadata of {str(path)!r} lacks {lacking[0]!r}. {JOB_HINT}")
        return JobResult(
            metadata=metadata,
            columns=_columns(table, SCHEMA, path),
            seconds=_columns(read_parquet(timing), TIMING_SCHEMA, timing) if timing.exists() else None,
        )

    def is_finished(self, id: str) -> bool:
        """Whether the job is finished and its file can be read."""
        try:
            self.read_table(id)
        except SavedFileError:
            return False
        return True

    def has(self, job: Job) -> bool:
        """Whether the job is finished and its files can be read; a job that was renamed gets its new names.

        Missing times are not a reason to run a job again, since no other result depends on them.
        """
        try:
            result = self.read_job(job.id)
        except SavedFileError:
            return False
        if result.metadata != json.loads(canonical(job.metadata())):
            names = {name: getattr(job, name) for name in ("environment", "policy")}
            _write(self.job_file(job.id), to_parquet(_table({**result.columns, **names}, SCHEMA, job.metadata())))
        return True

    # Failures

    def save_failure(self, job: Job, traceback: str) -> None:
        """Store the traceback of a failed job, in place of an earlier one."""
        self.failure_file(job.id).parent.mkdir(exist_ok=True)
        _write(self.failure_file(job.id), f"{job}\n\n{traceback.rstrip()}\n".encode(errors="replace"))

    def remove_failure(self, id: str) -> None:
        """Remove the traceback of a job, and the folder with the last of them."""
        self.failure_file(id).unlink(missing_ok=True)
        with suppress(OSError):  # there are others, or there was none
            (self.path / FAILURES).rmdir()

    def remove_failures(self, *, keep: Sequence[Job]) -> None:
        """Remove the tracebacks of all other jobs."""
        stored = {job.id for job in keep}
        for file in sorted((self.path / FAILURES).glob("*.txt")):
            if file.stem not in stored:
                self.remove_failure(file.stem)


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)
