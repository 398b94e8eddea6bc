"""The result folder of a study, as a report needs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from kernelbandits.errors import DamagedFile, ForeignFile, InvalidParameter
from kernelbandits.experiments.reporting.job_file import Run, read_job
from kernelbandits.experiments.reporting.played import Played
from kernelbandits.experiments.studies.result_folder import ResultFolder
from kernelbandits.validation import check_path, pluralize

__all__ = ["Recorded", "read_results"]

HOW_TO_MAKE_ONE: Final = "A study writes one: kernelbandits run study.toml --into results"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """What a study has left so far."""

    folder: Path
    head: Mapping[str, Any]
    """study.json."""

    environments: Mapping[str, Mapping[str, Played]]
    """Runs by environment and by policy, in the order of the study."""

    n_missing: int
    """Jobs of the study that are not finished."""

    n_foreign: int
    """Files of jobs that are not, or no longer, part of the study; they are not read."""

    n_empty: int = 0
    """Finished jobs whose world showed no round at all."""

    @property
    def name(self) -> str:
        """Of the study."""
        return str(self.head.get("name") or self.folder.resolve().name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the study; where it does not list them, those that were played."""
        listed = self.head.get("seeds")
        if isinstance(listed, list):
            return tuple(listed)
        if isinstance(listed, int):
            return tuple(range(listed))
        return tuple(sorted({run.seed for played in self.all_played for run in played.runs}))

    @property
    def all_played(self) -> list[Played]:
        """Every policy in every environment."""
        return [played for policies in self.environments.values() for played in policies.values()]


def read_results(folder: str | PathLike[str]) -> Recorded:
    """Read a result folder; what is missing is counted, what is damaged is named.

    Raises
    ------
    InvalidParameter
        There is no such folder, or no job of its study is finished yet.
    ForeignFile, NewerFile, DamagedFile
        The folder holds no study, one of a later version, or a file that cannot be read.
    """
    place = Path(check_path(folder))
    head = _head(place)
    written = {path.stem: path for path in sorted((place / "jobs").glob("*.parquet"))}
    planned = list(dict.fromkeys(head["jobs"]))
    runs = [read_job(written[job], place / "timings" / f"{job}.parquet") for job in planned if job in written]
    environments = _arranged(runs, place)
    if not environments:
        raise InvalidParameter(
            f"Nothing of the study in {str(place)!r} is finished yet: it has {pluralize(len(planned), 'job')} and no "
            "result. Let it run, and come back."
        )
    return Recorded(
        folder=place,
        head=head,
        environments=environments,
        n_missing=sum(job not in written for job in planned),
        n_foreign=sum(job not in set(planned) for job in written),
        n_empty=sum(run.n_rounds == 0 for run in runs),
    )


def _head(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InvalidParameter(f"There is no folder {str(folder)!r}. {HOW_TO_MAKE_ONE}")
    head = ResultFolder(folder).read_study()
    if not head:
        raise ForeignFile(f"{str(folder)!r} is no result folder: it has no study.json. {HOW_TO_MAKE_ONE}")
    return head


def _arranged(runs: Sequence[Run], folder: Path) -> dict[str, dict[str, Played]]:
    found: dict[str, dict[str, dict[int, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        seeds = found[run.environment][run.policy]
        if run.seed in seeds:
            raise DamagedFile(
                f"The folder {str(folder)!r} holds two results of {run.policy!r} in {run.environment!r} under seed "
                f"{run.seed}. Give policies labels of their own, and run the study again."
            )
        if run.n_rounds > 0:
            seeds[run.seed] = run
    return {
        environment: {
            label: Played([seeds[seed] for seed in sorted(seeds)]) for label, seeds in policies.items() if seeds
        }
        for environment, policies in found.items()
        if any(policies.values())
    }
