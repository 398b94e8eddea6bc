"""Runs a study into a folder; what is finished is never done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from os import PathLike
from typing import Final, Literal, TypeAlias

from kernelbandits._files import locked, writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter, StudyIncomplete
from kernelbandits.experiments.studies.engines import Failure, Outcomes, in_processes, in_ray, in_this_process
from kernelbandits.experiments.studies.jobs import Job
from kernelbandits.experiments.studies.outlook import Outlook
from kernelbandits.experiments.studies.playing import Played
from kernelbandits.experiments.studies.ray_address import checked_address
from kernelbandits.experiments.studies.result_folder import ResultFolder
from kernelbandits.experiments.studies.results import Results
from kernelbandits.experiments.studies.study import Study
from kernelbandits.experiments.workers import n_workers_for
from kernelbandits.validation import check_callable, check_instance, pluralize

__all__ = ["Engine", "run"]

Engine: TypeAlias = Literal["local", "ray"]
ENGINES: Final = ("local", "ray")

MOST_NAMED: Final = 5
"""Causes of failures that a message names."""


def run(
    study: Study,
    results: str | PathLike[str],
    *,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_left: Callable[[float | None], None] | None = None,
) -> Results:
    """Play every job of a study that is not finished yet, and keep each as soon as it is.

    It can be interrupted or killed at any moment and run again: files are there whole or not at all. A job is known by
    what is run, so that a changed study keeps the jobs that did not change. The same job gives the same bytes with any
    number of workers and either engine, on the same machine and with the same versions of packages. The first run on
    a machine compiles for some seconds.

    Parameters
    ----------
    study
        What to play.
    results
        The folder; it is made when it is not there.
    workers
        Processes on this machine, None: one a processor; 1 plays in this process.
    engine
        "local", or "ray" (extra `ray`) to play on a cluster.
    address
        HOST:PORT of a Ray cluster, or "auto" for one that runs on this machine; None starts one.
    progress
        Called now and then with rounds finished and rounds to be played in all.
    time_left
        Called before each call of `progress` with the seconds that the rest will take, None where nobody can tell yet:
        as long as finished jobs of the same policy in the same environment did; before there is one, as its own rounds
        let expect, which may become slower with history.

    Raises
    ------
    StudyIncomplete
        When jobs failed, after all others were played and kept; `failures` has their tracebacks, and so have files
        in the folder, which the message names.
    FolderInUse
        While another run writes into the folder.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> study = kb.experiments.Study(
    ...     name="first",
    ...     environments={"smooth": kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)},
    ...     policies={"KernelUCB": kb.experiments.Contender(kb.KernelUCB, kernel, exploration=0.1)},
    ...     horizon=20,
    ...     seeds=2,
    ... )
    >>> results = run(study, "results", workers=1)
    >>> results.is_complete, results.table().num_rows
    (True, 40)
    """
    check_instance(study, Study, "The study", "Study.from_toml reads one.")
    for told in (progress, time_left):
        if told is not None:
            check_callable(told, "What is told of progress")
    _check_engine(engine, address)
    import_optional("pyarrow", "This part of experiments")
    jobs = study.jobs
    n_workers = n_workers_for(len(jobs), workers)
    folder = ResultFolder(writable_folder(results))
    with locked(folder.path) as is_alone:
        folder.prepare(clean=is_alone)
        folder.write_study(study, jobs)
        left = [job for job in jobs if not folder.has(job)]
        folder.forget_failures(but=left)
        watch = _Watch(left, study.horizon, progress, time_left)
        failures = _play(study, left, folder, watch, n_workers=n_workers, engine=engine, address=address)
    if failures:
        raise StudyIncomplete(
            _message(failures, len(jobs), folder), {str(job): failed.full for job, failed in failures.items()}
        )
    return Results(folder.path)


def _check_engine(engine: Engine, address: str | None) -> None:
    if not isinstance(engine, str) or engine not in ENGINES:
        raise InvalidParameter(f"The engine is 'local' or 'ray', got {engine!r}.")
    if address is not None and engine != "ray":
        raise InvalidParameter(f"An address is that of a Ray cluster, got {address!r} with engine={engine!r}.")
    checked_address(address)


def _play(
    study: Study,
    jobs: Sequence[Job],
    folder: ResultFolder,
    watch: _Watch,
    *,
    n_workers: int,
    engine: Engine,
    address: str | None,
) -> dict[Job, Failure]:
    """Play and keep; those that failed."""
    failures: dict[Job, Failure] = {}
    if not jobs:
        return failures
    outcomes: Outcomes
    if engine == "ray":
        outcomes = in_ray(study, jobs, watch.told, address=address)
    elif n_workers == 1:
        outcomes = in_this_process(study, jobs, watch.told)
    else:
        outcomes = in_processes(study, jobs, watch.told, n_workers=n_workers)
    with closing(outcomes):  # an interrupt ends all processes at once
        for job, outcome in outcomes:
            watch.finished(job, outcome)
            if isinstance(outcome, Failure):
                failures[job] = outcome
                folder.save_failure(job, outcome.full)
            else:
                folder.save(job, outcome)
    return failures


class _Watch:
    """Passes on what engines tell: how far the study has come, and how long it will take."""

    def __init__(
        self,
        jobs: Sequence[Job],
        horizon: int,
        progress: Callable[[int, int], None] | None,
        time_left: Callable[[float | None], None] | None,
    ) -> None:
        self._progress, self._time_left = progress, time_left
        self._total = len(jobs) * horizon
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._outlook = Outlook([(job.environment, job.policy) for job in jobs], horizon)

    def told(self, rounds: Sequence[int]) -> None:
        """So many rounds each job has finished."""
        self._outlook.look(rounds)
        if self._time_left is not None:
            self._time_left(self._outlook.seconds_left())
        if self._progress is not None:
            self._progress(sum(max(0, finished) for finished in rounds), self._total)

    def finished(self, job: Job, outcome: Played | Failure) -> None:
        """A job that needs no more time."""
        self._outlook.finish(self._places[job.id], outcome.seconds if isinstance(outcome, Played) else None)


def _message(failures: dict[Job, Failure], n_jobs: int, folder: ResultFolder) -> str:
    """How many failed, each cause once with the first job that it struck, and where its traceback is."""
    causes: dict[str, list[Job]] = {}
    for job, failure in failures.items():
        causes.setdefault(failure.short, []).append(job)
    named = "; ".join(_struck(cause, jobs, folder) for cause, jobs in list(causes.items())[:MOST_NAMED])
    n_more = len(causes) - MOST_NAMED
    more = f"; and {pluralize(n_more, 'other cause')}" if n_more > 0 else ""
    kept = "none is finished" if len(failures) == n_jobs else "the others are finished and kept"
    return (
        f"{len(failures)} of {pluralize(n_jobs, 'job')} failed, {kept}. {named}{more}. Mend the cause and "
        "run the study again into the same folder: what is finished is not repeated."
    )


def _struck(cause: str, jobs: Sequence[Job], folder: ResultFolder) -> str:
    others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"{jobs[0]}{others}: {cause.rstrip('.')} (traceback in {str(folder.failure_file(jobs[0].id))!r})"
