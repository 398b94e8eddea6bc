"""Runner: runs the jobs of a study that are not finished yet, and stores each as soon as it is."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from time import monotonic, perf_counter
from typing import Any, Final, Literal, TypeAlias

from kernelbandits._files import locked, writable_folder
from kernelbandits._optional import import_optional
from kernelbandits._threads import one_blas_thread
from kernelbandits.errors import InvalidParameter, StudyIncomplete
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.backends import (
    Failure,
    Outcomes,
    check_address,
    n_workers_for,
    run_processes,
    run_ray,
    run_serial,
)
from kernelbandits.experiments.diagnostics import checkpoints, effective_dimensions, has_kernel
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.experiments.progress import study_progress
from kernelbandits.experiments.results import Results
from kernelbandits.experiments.store import JobFiles, ResultFolder, job_files, stored_rounds
from kernelbandits.experiments.study import Job, Study
from kernelbandits.selection import compile_ahead
from kernelbandits.validation import check_callable, check_instance, pluralize

__all__ = ["Engine", "TimeEstimator", "run", "run_job"]

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
    progress: Callable[[int, int], None] | bool | None = None,
    time_left: Callable[[float | None], None] | None = None,
) -> Results:
    """Run every job of a study that is not finished yet, and store each as soon as it is.

    The run can be interrupted or killed at any moment and started again: files are written atomically. A job is
    identified by what it runs, so a changed study keeps the jobs that did not change. The same job gives the same bytes
    with any number of workers and with either engine, on the same machine and with the same versions of packages. The
    first run on a machine compiles for some seconds.

    Parameters
    ----------
    study
        Study to run.
    results
        Result folder; it is created if it does not exist.
    workers
        Number of processes on this machine; None: one per processor; 1: run in this process.
    engine
        "local", or "ray" (extra `ray`) to run on a cluster.
    address
        HOST:PORT of a Ray cluster, or "auto" for one that runs on this machine; None starts one.
    progress
        What shows the progress. None: a bar on the terminal after two seconds, nothing where there is no terminal.
        True: a bar at once, and lines on the error stream where there is no terminal. False: nothing. Or a callback,
        called now and then with the number of finished rounds and the number of all rounds to run.
    time_left
        Callback, called before each call of `progress` with an estimate of the remaining seconds. The estimate uses the
        mean time of finished jobs and is None until the first job is finished.

    Raises
    ------
    StudyIncomplete
        If jobs failed, after all others were run and stored; `failures` has their tracebacks, and so have files
        in the folder, which the message names.
    FolderInUse
        If another run writes into the folder.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> study = kb.experiments.Study(
    ...     name="first",
    ...     environments={"smooth": kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)},
    ...     policies={"KernelUCB": kb.experiments.PolicySpec(kb.KernelUCB, kernel, exploration=0.1)},
    ...     horizon=20,
    ...     seeds=2,
    ... )
    >>> results = run(study, "results", workers=1)
    >>> results.is_complete, results.table().num_rows
    (True, 40)
    """
    check_instance(study, Study, "The study", "Study.from_toml reads one.")
    if not isinstance(progress, bool | None):
        check_callable(progress, "The progress", "Or True, False or None: a bar, nothing, or a bar on a terminal.")
    if time_left is not None:
        check_callable(time_left, "A progress callback")
    _check_engine(engine, address)
    import_optional("pyarrow", "This part of experiments")
    jobs = study.jobs
    n_workers = n_workers_for(len(jobs), workers)
    folder = ResultFolder(writable_folder(results))
    shown = progress if isinstance(progress, bool | None) else False
    with locked(folder.path) as is_alone, study_progress(shown) as display:
        folder.prepare(clean=is_alone)
        folder.write_study(study, jobs)
        remaining = tuple(job for job in jobs if not folder.has(job))
        folder.remove_failures(keep=remaining)
        moves = [progress] if callable(progress) else []
        expects = [] if time_left is None else [time_left]
        if display is not None:
            moves.append(display.move)
            expects.append(display.expect)
        reporter = _ProgressReporter(remaining, study.horizon, moves, expects)
        work = _StudyWork(study, remaining)
        failures: dict[Job, Failure] = {}
        if remaining:
            outcomes = _start(work, reporter, n_workers=n_workers, engine=engine, address=address)
            failures = _store_outcomes(outcomes, remaining, folder, reporter)
    if failures:
        raise StudyIncomplete(
            _failure_message(failures, len(jobs), folder), {str(job): failed.full for job, failed in failures.items()}
        )
    return Results(folder.path)


def run_job(study: Study, job: Job, on_round: Callable[[int], None] | None = None) -> JobFiles:
    """Run one job; `on_round` is called with the number of finished rounds.

    Compiled loops sum in another order than NumPy, so the last digits depend on which of them is used. All loops are
    compiled first: the bytes of a job must not depend on when the background compilation finishes.
    """
    compile_ahead()
    began = perf_counter()
    (variant,) = (variant for variant in study.variants if variant.label == job.policy)
    environment = study.environments[job.environment]
    policy = variant.build(job.seed, RunInfo(environment, job.horizon, job.seed))
    with one_blas_thread():
        trace = simulate(
            environment,
            policy,
            horizon=job.horizon,
            seed=job.seed,
            progress=on_round,
            learn_rounds=job.learn_rounds,
            keep_contexts=has_kernel(policy),
        )
        rounds = checkpoints(stored_rounds(len(trace), job.every))
        dimensions = effective_dimensions(trace, policy, rounds=rounds, horizon=job.horizon)
    return job_files(job, trace, dimensions, began=began)


@dataclass(frozen=True)
class _StudyWork:
    """Jobs of a study by number, for backends."""

    study: Study
    jobs: tuple[Job, ...]

    @property
    def n_jobs(self) -> int:
        return len(self.jobs)

    @property
    def n_rounds(self) -> int:
        return self.study.horizon

    def __call__(self, number: int, on_round: Callable[[int], None] | None = None) -> JobFiles:
        return run_job(self.study, self.jobs[number], on_round)


def _start(
    work: _StudyWork, reporter: _ProgressReporter, *, n_workers: int, engine: Engine, address: str | None
) -> Outcomes:
    if engine == "ray":
        check_picklable(work.study)
        return run_ray(work, reporter.update, address=address)
    if n_workers == 1:
        return run_serial(work, reporter.update)
    check_picklable(work.study)
    return run_processes(work, reporter.update, n_workers=n_workers)


def _store_outcomes(
    outcomes: Outcomes, jobs: Sequence[Job], folder: ResultFolder, reporter: _ProgressReporter
) -> dict[Job, Failure]:
    """Store every outcome as it arrives; return the failures."""
    failures: dict[Job, Failure] = {}
    with closing(outcomes):  # an interrupt ends all processes at once
        for number, outcome in outcomes:
            if isinstance(outcome, Failure):
                failures[jobs[number]] = outcome
                folder.save_failure(jobs[number], outcome.full)
            else:
                folder.save(jobs[number], outcome)
                reporter.finish(number, outcome.seconds)
    return failures


def _check_engine(engine: Engine, address: str | None) -> None:
    if not isinstance(engine, str) or engine not in ENGINES:
        raise InvalidParameter(f"The engine is 'local' or 'ray', got {engine!r}.")
    if address is not None and engine != "ray":
        raise InvalidParameter(f"An address is that of a Ray cluster, got {address!r} with engine={engine!r}.")
    check_address(address)


def check_picklable(study: Study) -> None:
    """Raise InvalidParameter that names what cannot be sent to another process."""
    named: dict[str, Any] = {f"environments.{name}": world for name, world in study.environments.items()}
    named |= {f"policies.{name}": policy for name, policy in study.policies.items()}
    for place, value in named.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # pickling runs any code that an object defines
            raise InvalidParameter(
                f"{place} cannot be sent to other processes: {error}. Use PolicySpec(KernelUCB, ...) or a function of "
                "a module instead of a lambda, or run in this process with workers=1."
            ) from error


class TimeEstimator:
    """Estimate of the remaining time of a study: mean time of finished jobs, per policy and environment.

    A job of a kind without a finished job counts as the mean over the other kinds. The remaining work divided by the
    throughput so far is the estimate. There is none until the first job is finished: rounds become slower with history,
    so the first rounds of a job say too little about the others.

    Parameters
    ----------
    kinds
        Kind of every job, in order.
    n_rounds
        Rounds of a job.
    clock
        Time in seconds from any origin.
    """

    def __init__(self, kinds: Sequence[Hashable], n_rounds: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._kinds, self._n_rounds, self._clock = kinds, n_rounds, clock
        self._shares = [0.0] * len(kinds)
        self._seconds: dict[Hashable, list[float]] = {}
        self._began: float | None = None

    def update(self, rounds: Sequence[int]) -> None:
        """Record the number of finished rounds of every job; negative for jobs that have not begun."""
        if self._began is None and max(rounds, default=0) >= 0:
            self._began = self._clock()
        self._shares = [max(0, finished) / self._n_rounds for finished in rounds]

    def finish(self, number: int, seconds: float) -> None:
        """Record the time of a finished job."""
        if self._began is None:
            self._began = self._clock() - seconds
        self._shares[number] = 1.0
        self._seconds.setdefault(self._kinds[number], []).append(seconds)

    def seconds_left(self) -> float | None:
        """Seconds until all jobs are finished; None if no job is finished yet."""
        if not self._seconds or self._began is None:
            return None
        means = {kind: sum(values) / len(values) for kind, values in self._seconds.items()}
        typical = sum(means.values()) / len(means)
        whole = [means.get(kind, typical) for kind in self._kinds]
        rest = [seconds * (1.0 - share) for seconds, share in zip(whole, self._shares, strict=True)]
        done = sum(whole) - sum(rest)
        elapsed = self._clock() - self._began
        n_parallel = max(1.0, done / elapsed) if elapsed > 0.0 else 1.0
        return max(max(rest), sum(rest) / n_parallel)


class _ProgressReporter:
    """Passes the progress of a backend to the callbacks of the user."""

    def __init__(
        self,
        jobs: Sequence[Job],
        horizon: int,
        progress: Sequence[Callable[[int, int], None]],
        time_left: Sequence[Callable[[float | None], None]],
    ) -> None:
        self._progress, self._time_left = progress, time_left
        self._total = len(jobs) * horizon
        self._estimator = TimeEstimator([(job.environment, job.policy) for job in jobs], horizon)
        self.finish = self._estimator.finish

    def update(self, rounds: Sequence[int]) -> None:
        """Report the number of finished rounds of every job."""
        self._estimator.update(rounds)
        for expect in self._time_left:
            expect(self._estimator.seconds_left())
        for move in self._progress:
            move(sum(max(0, finished) for finished in rounds), self._total)


def _failure_message(failures: dict[Job, Failure], n_jobs: int, folder: ResultFolder) -> str:
    """Number of failures, each cause once with its first job, and the file with its traceback."""
    causes: dict[str, list[Job]] = {}
    for job, failure in failures.items():
        causes.setdefault(failure.short, []).append(job)
    named = []
    for cause, jobs in list(causes.items())[:MOST_NAMED]:
        others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        path = str(folder.failure_file(jobs[0].id))
        named.append(f"{jobs[0]}{others}: {cause.rstrip('.')} (traceback in {path!r})")
    n_more = len(causes) - MOST_NAMED
    if n_more > 0:
        named.append(f"and {pluralize(n_more, 'other cause')}")
    stored = "none is finished" if len(failures) == n_jobs else "the others are finished and stored"
    return (
        f"{len(failures)} of {pluralize(n_jobs, 'job')} failed, {stored}. {'; '.join(named)}. Fix the cause and "
        "run the study again into the same folder: finished jobs are not repeated."
    )
