"""Result folders: one schema, one writer, one reader."""

from __future__ import annotations

import json
import logging
import os
import platform
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._files import atomic_write, find_partial_files
from kernelbandits._optional import import_optional, versions
from kernelbandits.errors import DamagedFile, ForeignFile, NewerFile, NotSupported
from kernelbandits.evaluation import Trace
from kernelbandits.experiments.study import FORMAT, Job, Study, canonical
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = [
    "COLUMNS",
    "KEY",
    "JobFiles",
    "ResultFolder",
    "Run",
    "check_format",
    "job_table",
    "kept_rounds",
    "parquet",
    "read_job",
    "read_parquet",
    "read_timings",
    "relabeled",
    "said_of",
    "sound_table",
    "timing_table",
]

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


logger: Final = logging.getLogger(__name__)

STUDY: Final = "study.json"
JOBS: Final = "jobs"
TIMINGS: Final = "timings"
FAILURES: Final = "failures"

HINT: Final = "Run the study again to mend it: what is finished is not repeated."


class JobFiles(NamedTuple):
    """Contents of the two files of a finished job, and how long it took."""

    job: bytes
    timing: bytes
    seconds: float


class ResultFolder:
    """`study.json`, and for every finished job a file in `jobs/` and one in `timings/`, named by the job's id.

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
        """Make the folders; `clean` away what a killed run left behind."""
        for name in (JOBS, TIMINGS):
            (self.path / name).mkdir(exist_ok=True)
        if clean:
            for folder in (self.path, *(self.path / name for name in (JOBS, TIMINGS, FAILURES))):
                for file in find_partial_files(folder):
                    file.unlink(missing_ok=True)
                    logger.info("Removed what a run that was killed had left behind: %s", file)

    def write_study(self, study: Study, jobs: Sequence[Job]) -> None:
        """Say what the study is, and which jobs it is made of; what a later version wrote is refused, not replaced."""
        with suppress(DamagedFile):
            self.read_study()
        said = {
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
            "jobs": [job.id for job in jobs],
        }
        _write(self.path / STUDY, (json.dumps(said, indent=2, ensure_ascii=False) + "\n").encode())

    def read_study(self) -> dict[str, Any]:
        """What `write_study` wrote; empty where nothing was, DamagedFile where it cannot be read."""
        path = self.path / STUDY
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DamagedFile(f"The file {str(path)!r} cannot be read: {error}. {HINT}") from error
        if isinstance(said, dict):
            check_format(said.get("format"), path)
        jobs = said.get("jobs") if isinstance(said, dict) else None
        if not isinstance(jobs, list) or not all(isinstance(job, str) for job in jobs):
            raise DamagedFile(f"The file {str(path)!r} does not say the jobs of a study. {HINT}")
        return dict(said)

    def save(self, job: Job, played: JobFiles) -> None:
        """Keep a finished job: its timings first, so that a job that is there is whole."""
        _write(self.timing_file(job.id), played.timing)
        _write(self.job_file(job.id), played.job)
        self.forget_failure(job.id)

    def save_failure(self, job: Job, traceback: str) -> None:
        """Keep what went wrong in a job, in place of what went wrong before."""
        self.failure_file(job.id).parent.mkdir(exist_ok=True)
        _write(self.failure_file(job.id), f"{job}\n\n{traceback.rstrip()}\n".encode(errors="replace"))

    def forget_failure(self, id: str) -> None:
        """Take away what went wrong in a job, and the folder with the last of them."""
        self.failure_file(id).unlink(missing_ok=True)
        with suppress(OSError):  # there are others, or there never was one
            (self.path / FAILURES).rmdir()

    def forget_failures(self, *, but: Sequence[Job]) -> None:
        """Take away what went wrong in all jobs but these."""
        kept = {job.id for job in but}
        for file in sorted((self.path / FAILURES).glob("*.txt")):
            if file.stem not in kept:
                self.forget_failure(file.stem)

    def is_sound(self, id: str) -> bool:
        """Whether the job is finished and its file can be read."""
        return sound_table(self.job_file(id), id) is not None

    def has(self, job: Job) -> bool:
        """Whether the job is finished and its files are sound; a job that was renamed since gets its new names.

        Times that were taken away are no reason to play a job again, since nobody else misses them.
        """
        table, timing = sound_table(self.job_file(job.id), job.id), self.timing_file(job.id)
        if table is None or (timing.exists() and _read(timing) is None):
            return False
        if said_of(table) != json.loads(canonical(job.metadata())):
            _write(self.job_file(job.id), parquet(relabeled(job, table)))
        return True


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def check_format(found: Any, path: Path) -> None:
    """Nothing for a form that is understood, NewerFile for a later one."""
    if isinstance(found, int) and found > FORMAT:
        raise NewerFile(
            f"{str(path)!r} has format {found}, this version reads up to {FORMAT}. Upgrade kernelbandits, or use "
            "another folder."
        )


def sound_table(path: Path, id: str) -> pa.Table | None:
    """The rows of a job's file; None where there is none, or what is there is damaged or another's."""
    table = _read(path)
    if table is None:
        return None
    said = said_of(table)
    is_ours = said.get("id") == id and said.get("format") in range(1, FORMAT + 1)
    return table if is_ours and table.column_names == list(COLUMNS) else None


def _read(path: Path) -> pa.Table | None:
    """As one file, compared with its checksum; None where it is damaged or not there."""
    try:
        return read_parquet(path)
    except (DamagedFile, OSError):
        return None


def said_of(table: pa.Table) -> dict[str, Any]:
    """What a job's file says of itself; empty where it says nothing."""
    try:
        said = json.loads((table.schema.metadata or {}).get(KEY, b"{}"))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


WHOLE_NUMBERS: Final = ("round", "n_covered")

REPORT_COLUMNS: Final = (
    "round",
    "reward",
    "total_reward",
    "regret",
    "potential",
    "n_covered",
    "log_det_gain",
    "effective_dimension",
)
"""What a report reads of a job; the other columns are for those who look closer."""

JOB_HINT: Final = "Delete it and run the study again: what is finished is not repeated."


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One policy in one environment under one seed."""

    environment: str
    policy: str
    contender: str
    """The policy's name without the values of its grid."""

    parameters: Mapping[str, Any]
    """Values of its grid."""

    seed: int
    claims: Mapping[str, Any] | None
    """What its exploration promises: `assumes`, `failure_probability`."""

    described: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]
    """Recorded rounds and what stood after each, by name (REPORT_COLUMNS)."""

    seconds: Mapping[str, Vector] | None = None
    """`round` and mean `seconds` a round since the row before; None where no time was kept."""

    @property
    def n_rounds(self) -> int:
        """Rounds that were played."""
        return int(self.columns["round"][-1]) if len(self.columns["round"]) else 0


def read_job(path: Path, timings: Path) -> Run:
    """A job and, where they are there, its times."""
    table = _checked_table(path)
    head = _job_head(path, table)
    columns = {name: _column(path, table, name) for name in REPORT_COLUMNS}
    if len(columns["round"]) > 1 and np.any(np.diff(columns["round"]) <= 0):
        raise DamagedFile(f"The rounds of {str(path)!r} do not grow from row to row. {JOB_HINT}")
    try:
        return Run(
            environment=str(head["environment"]),
            policy=str(head["policy"]),
            contender=str(head.get("contender") or head["policy"]),
            parameters=dict(head.get("parameters") or {}),
            seed=int(head["seed"]),
            claims=head.get("claims"),
            described=dict(head.get("described") or {}),
            columns=columns,
            seconds=read_timings(timings) if timings.exists() else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"The head of {str(path)!r} does not say what was played: {error!r}. {JOB_HINT}") from error


def read_timings(path: Path) -> dict[str, Vector]:
    """Rounds and seconds a round."""
    table = _checked_table(path)
    return {name: _column(path, table, name) for name in ("round", "seconds")}


def _checked_table(path: Path) -> Any:
    try:
        return read_parquet(path)
    except DamagedFile as error:
        raise DamagedFile(f"{error} {JOB_HINT}") from error
    except OSError as error:
        raise DamagedFile(f"The file {str(path)!r} cannot be read: {error.strerror}. {JOB_HINT}") from error


def _job_head(path: Path, table: Any) -> dict[str, Any]:
    metadata = (table.schema.metadata or {}).get(KEY)
    if metadata is None:
        raise ForeignFile(f"The file {str(path)!r} was not written by a study. Move it out of the folder.")
    try:
        head = json.loads(metadata)
    except ValueError as error:
        raise DamagedFile(f"The head of {str(path)!r} is no JSON: {error}. {JOB_HINT}") from error
    if not isinstance(head, dict):
        raise DamagedFile(f"The head of {str(path)!r} has to be a JSON object, got {head!r}. {JOB_HINT}")
    check_format(head.get("format"), path)
    return head


def _column(path: Path, table: Any, name: str) -> NDArray[Any]:
    if name not in table.column_names:
        raise DamagedFile(f"The file {str(path)!r} lacks the column {name!r}. {JOB_HINT}")
    try:
        return np.asarray(table.column(name).to_numpy(), np.int64 if name in WHOLE_NUMBERS else np.float64)
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"The column {name!r} of {str(path)!r} holds no numbers: {error}. {JOB_HINT}") from error
