"""Runner of studies: jobs, remaining time, failures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from os import PathLike
from time import monotonic
from typing import Final, Literal, TypeAlias

from kernelbandits._files import locked, writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter, StudyIncomplete
from kernelbandits.experiments.backends import (
    Failure,
    Outcomes,
    checked_address,
    in_processes,
    in_ray,
    in_this_process,
    n_workers_for,
)
from kernelbandits.experiments.results import Results
from kernelbandits.experiments.store import JobFiles, ResultFolder
from kernelbandits.experiments.study import Job, Study
from kernelbandits.validation import check_callable, check_instance, pluralize

__all__ = ["Engine", "Outlook", "Pace", "run"]

FEW_LOOKS: Final = 5
"""Looks at a job up to which its rounds count as equally slow: a curve through less would be noise."""


class Pace:
    """Seconds of a job by the rounds it has finished: a t + c t², so that rounds may become slower with history.

    Least squares over all looks, with a ≥ 0 and c ≥ 0, counted from the first look: when the job began is not known.

    >>> pace = Pace(0, 0.0)
    >>> for t in range(1, 11):
    ...     pace.look(t, 2.0 * t + 0.5 * t**2)
    >>> round(pace.seconds(10, 20))  # 40 + 200, without the 20 + 50 of the first ten rounds
    170
    """

    def __init__(self, finished: int, now: float) -> None:
        self.finished, self.now = finished, now
        self._first = finished, now
        self._n_looks = 0
        self._uu = self._uv = self._vv = self._us = self._vs = 0.0  # sums of products of t, t² and seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the first look."""
        return self.now - self._first[1]

    def look(self, finished: int, now: float) -> None:
        """The job has finished so many rounds by now; a look without a new round only moves the time."""
        is_new, self.now = finished > self.finished, now
        if not is_new:
            return
        self.finished = finished
        u, v, seconds = finished - self._first[0], finished**2 - self._first[0] ** 2, self.elapsed
        self._n_looks += 1
        self._uu, self._uv, self._vv = self._uu + u * u, self._uv + u * v, self._vv + v * v
        self._us, self._vs = self._us + u * seconds, self._vs + v * seconds

    def seconds(self, begin: int, end: int) -> float | None:
        """What rounds begin + 1 to end take; None before anything was seen."""
        if not self._n_looks:
            return None
        a, c = self._fit()
        return a * (end - begin) + c * (end**2 - begin**2)

    def _fit(self) -> tuple[float, float]:
        determinant = self._uu * self._vv - self._uv**2
        if self._n_looks <= FEW_LOOKS or determinant <= 0.0:
            return self._us / self._uu, 0.0
        a = (self._vv * self._us - self._uv * self._vs) / determinant
        c = (self._uu * self._vs - self._uv * self._us) / determinant
        if c < 0.0:
            return self._us / self._uu, 0.0
        return (a, c) if a >= 0.0 else (0.0, self._vs / self._vv)


class Outlook:
    """Looks at the jobs of a study while they are played, and says how long the others will take.

    A job is expected to take as long as finished ones of its kind did on average, one policy in one environment. Where
    none is finished, it is judged by those that are being played, whose rounds may become slower; where none of its
    kind was begun, by the mean over the other kinds. Together they take the seconds of all jobs over the number of jobs
    that were played at once so far, and no less than the longest of them.

    Parameters
    ----------
    kinds
        Of every job, in their order.
    horizon
        Rounds of a job.
    clock
        Seconds from any beginning.
    """

    def __init__(self, kinds: Sequence[Hashable], horizon: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._kinds, self._horizon, self._clock = kinds, horizon, clock
        self._left = dict.fromkeys(range(len(kinds)))
        self._paces: dict[int, Pace] = {}
        self._taken: dict[Hashable, list[float]] = {}
        self._began: float | None = None

    def look(self, rounds: Sequence[int]) -> None:
        """So many rounds each job has finished by now; below zero where it was not begun."""
        now = self._clock()
        for place in self._left:
            finished = rounds[place]
            if finished < 0:
                continue
            self._began = now if self._began is None else self._began
            pace = self._paces.get(place)
            if pace is None or finished < pace.finished:  # a job that was lost begins again
                self._paces[place] = Pace(finished, now)
            else:
                pace.look(finished, now)

    def finish(self, place: int, seconds: float | None) -> None:
        """A job is finished; None where it failed, which says nothing about others."""
        if self._began is None:
            self._began = self._clock() - (seconds or 0.0)
        self._left.pop(place, None)
        self._paces.pop(place, None)
        if seconds is not None:
            self._taken.setdefault(self._kinds[place], []).append(seconds)

    def seconds_left(self) -> float | None:
        """Seconds until all jobs are finished; None where nothing can be told yet."""
        if not self._left:
            return 0.0
        known = self._by_kind()
        if not known:
            return None
        typical = sum(known.values()) / len(known)
        rest = [self._rest(place, known.get(self._kinds[place], typical)) for place in self._left]
        return max(max(rest), sum(rest) / self._n_at_once())

    def _by_kind(self) -> dict[Hashable, float]:
        """Seconds of a whole job of each kind of which something was seen."""
        seen: dict[Hashable, list[float]] = {}
        for place, pace in self._paces.items():
            seconds = pace.seconds(0, self._horizon)
            if seconds is not None:
                seen.setdefault(self._kinds[place], []).append(seconds)
        return {kind: sum(values) / len(values) for kind, values in {**seen, **self._taken}.items()}

    def _rest(self, place: int, whole: float) -> float:
        """Seconds that one job will still take; one that is overdue is judged by its own pace."""
        pace = self._paces.get(place)
        if pace is None:
            return whole
        own = pace.seconds(pace.finished, self._horizon)
        if self._kinds[place] in self._taken and (own is None or whole > pace.elapsed):
            return max(whole - pace.elapsed, 0.0)
        return whole if own is None else own

    def _n_at_once(self) -> float:
        """Jobs that were played at once so far, on average; never more than are left."""
        busy = sum(map(sum, self._taken.values())) + sum(pace.elapsed for pace in self._paces.values())
        elapsed = 0.0 if self._began is None else self._clock() - self._began
        measured = busy / elapsed if elapsed > 0.0 else 1.0
        return min(max(1.0, measured), float(len(self._left)))


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

    def finished(self, job: Job, outcome: JobFiles | Failure) -> None:
        """A job that needs no more time."""
        self._outlook.finish(self._places[job.id], outcome.seconds if isinstance(outcome, JobFiles) else None)


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
