"""The folder of a study's results: what is written where, and what of it can be kept."""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernelbandits._files import atomic_write, find_partial_files
from kernelbandits._optional import versions
from kernelbandits.errors import DamagedFile, NewerFile
from kernelbandits.experiments.studies.jobs import FORMAT, Job, canonical
from kernelbandits.experiments.studies.playing import Played
from kernelbandits.experiments.studies.study import Study
from kernelbandits.experiments.studies.tables import COLUMNS, KEY, parquet, read_parquet, relabeled

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = ["ResultFolder", "check_format", "said_of", "sound_table"]

logger: Final = logging.getLogger(__name__)

STUDY: Final = "study.json"
JOBS: Final = "jobs"
TIMINGS: Final = "timings"
FAILURES: Final = "failures"

HINT: Final = "Run the study again to mend it: what is finished is not repeated."


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

    def save(self, job: Job, played: Played) -> None:
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
