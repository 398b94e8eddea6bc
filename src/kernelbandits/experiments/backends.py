"""Backends: jobs in this process, in worker processes or on Ray."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from threadpoolctl import threadpool_limits

from kernelbandits._optional import import_optional
from kernelbandits._threads import one_blas_thread
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.diagnostics import checkpoints, effective_dimensions
from kernelbandits.experiments.store import JobFiles, job_table, kept_rounds, parquet, timing_table
from kernelbandits.experiments.study import Job, Study
from kernelbandits.selection import compile_ahead
from kernelbandits.validation import check_int

__all__ = [
    "THREAD_VARIABLES",
    "TOKENS",
    "Failure",
    "JobFiles",
    "Outcomes",
    "Told",
    "checked_address",
    "in_processes",
    "in_ray",
    "in_this_process",
    "n_workers_for",
    "one_thread_each",
    "play_job",
    "refuse_silence",
    "worker_pool",
]

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What libraries of linear algebra read when they are loaded, and never again."""


MOST_WORKERS: Final = 1024
"""Processes on one machine: more than most have processors, and fewer than they can start."""


def n_workers_for(n_jobs: int, workers: int | None) -> int:
    """So many processes as were asked for, None: one a processor; never more than jobs, never less than one."""
    asked = os.cpu_count() or 1 if workers is None else check_int(workers, "The number of workers", most=MOST_WORKERS)
    return max(1, min(n_jobs, asked))


@contextmanager
def worker_pool(
    n_workers: int, *, prepare: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """Fresh processes with one thread of linear algebra each; they end with this block, whatever they are doing.

    Leaving the block by an error or an interrupt ends them at once, and so does the death of this process: each of them
    watches a pipe whose other end is held here.

    Parameters
    ----------
    n_workers
        Processes.
    prepare, arguments
        Called once in each process before its first task: for what all tasks share and nobody wants to send each time.
    """
    context = get_context("spawn")  # a forked process would inherit locks that threads hold
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        n_workers, mp_context=context, initializer=_begin, initargs=(watched, prepare, arguments)
    )
    try:
        with one_thread_each():
            pool.submit(os.getpid)  # starts all processes, while the limits are in the environment
        yield pool
        pool.shutdown()
    finally:
        held.close()  # whoever is still at work ends now
        pool.shutdown(cancel_futures=True)
        watched.close()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that start meanwhile load their linear algebra with one thread."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(watched: Connection, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits for us
    Thread(target=_end_with, args=(watched,), daemon=True).start()
    threadpool_limits(limits=1)  # for what does not read the environment
    if prepare is not None:
        prepare(*arguments)


def _end_with(watched: Connection) -> None:
    """End this process when the other end of the pipe is closed: nothing is ever sent."""
    try:
        watched.recv()
    except (EOFError, OSError):
        os._exit(1)


WORK_BEFORE_COMPILE: Final = 5.0
"""Seconds that a connection may take; Ray itself tries for minutes."""

TOKENS: Final = (
    "A cluster that asks for a token tells nobody without one: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH where "
    "the token is not in Ray's own place."
)


def checked_address(address: str | None) -> str | None:
    """An address that Ray can connect to, None where none is given, or an error.

    >>> checked_address("127.0.0.1:6379"), checked_address("auto"), checked_address(None)
    ('127.0.0.1:6379', 'auto', None)
    """
    if address in (None, "auto", "local"):
        return address
    if isinstance(address, str) and address.startswith("ray://"):
        raise NotSupported(
            f"A study is played from a machine of the cluster, not through Ray's client, got {address!r}. Give the "
            "HOST:PORT that `ray start --head` said."
        )
    if not isinstance(address, str) or _host_and_port(address) is None:
        raise InvalidParameter(f"The address of a Ray cluster is HOST:PORT or 'auto', got {address!r}.")
    return address


def refuse_silence(address: str | None) -> None:
    """InvalidParameter where nobody takes a connection at HOST:PORT; other addresses are left to Ray."""
    place = _host_and_port(address or "")
    if place is None:
        return
    try:
        socket.create_connection(place, timeout=WORK_BEFORE_COMPILE).close()
    except OSError as error:
        raise InvalidParameter(
            f"Nobody answers at the address {address!r} ({error.strerror or error}). Start a cluster there with "
            "`ray start --head`, or leave the address out to play on this machine."
        ) from error


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, colon, port = address.rpartition(":")
    is_place = colon and host and "/" not in host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
    return (host.removeprefix("[").removesuffix("]"), int(port)) if is_place else None


def play_job(study: Study, job: Job, progress: Callable[[int], None] | None = None) -> JobFiles:
    """Play the job, whatever was played in this process before; `progress` is told finished rounds.

    Compiled loops add numbers in another order than NumPy does, so the last digits depend on which of them answers.
    All are compiled beforehand: the bytes of a job may not depend on when a compiler in the background gets ready.
    """
    compile_ahead()
    began = perf_counter()
    environment = study.environments[job.environment]
    (entrant,) = (entrant for entrant in study.entrants if entrant.label == job.policy)
    policy = entrant.fresh(job.seed)
    with one_blas_thread():
        trace = simulate(
            environment,
            policy,
            horizon=job.horizon,
            seed=job.seed,
            progress=progress,
            learn_rounds=job.learn_rounds,
        )
        dimensions = effective_dimensions(
            environment,
            job.seed,
            policy,
            trace.action,
            rounds=checkpoints(kept_rounds(len(trace), job.every)),
            horizon=job.horizon,
        )
    files = parquet(job_table(job, trace, dimensions)), parquet(timing_table(job, trace))
    return JobFiles(*files, seconds=perf_counter() - began)


GLANCE: Final = 0.2
"""Seconds between two looks at how far jobs have come."""

NOT_BEGUN: Final = -1
"""Stands in the notes of workers for a job that none of them has touched."""

MOST_STARTS: Final = 3
"""Times that processes are started without one of them beginning a job: one that is killed by chance is not."""

NEVER_STARTED: Final = (
    "no process came as far as playing. A script that calls run() needs "
    '`if __name__ == "__main__":` around it; memory may be short'
)
GONE: Final = "its process ended without a word, when it was played alone too. It may be out of memory, or was killed"

Told: TypeAlias = Callable[[Sequence[int]], None]
"""Takes the rounds that each job has finished so far; below zero where it was not begun."""


class Failure(NamedTuple):
    """What went wrong in a job."""

    short: str
    full: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """In a line, and as a traceback."""
        return cls(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


Outcomes: TypeAlias = Generator[tuple[Job, JobFiles | Failure], None, None]
"""Jobs as they are finished, in any order."""


def in_this_process(study: Study, jobs: Sequence[Job], told: Told) -> Outcomes:
    """One after the other."""
    due, rounds = monotonic(), [NOT_BEGUN] * len(jobs)
    for place, job in enumerate(jobs):

        def note(finished: int, place: int = place) -> None:
            nonlocal due
            if monotonic() >= due:
                due = monotonic() + GLANCE
                rounds[place] = finished
                told(rounds)

        yield job, _tried(study, job, note)
        rounds[place] = study.horizon
        told(rounds)


def in_processes(study: Study, jobs: Sequence[Job], told: Told, *, n_workers: int) -> Outcomes:
    """In processes of their own; the study is sent to each of them once.

    When a process dies, its pool is lost. Jobs that were not begun go on in a new one; those that were being played are
    played again one at a time, so that only the one that kills its process fails. Processes that die before they begin
    a job are started again, up to `MOST_STARTS` times in a row.
    """
    refuse_unpicklable(study)
    compile_ahead()  # here first, so that the others find compiled loops on disk
    kept = _Kept(study, tuple(jobs), get_context("spawn").Array("q", [NOT_BEGUN] * len(jobs), lock=False))
    left, n_starts = list(range(len(jobs))), 0
    while left:
        finished, n_starts = set(), n_starts + 1
        with closing(_pooled(kept, left, told, n_workers=n_workers)) as outcomes:
            for place, outcome in outcomes:
                finished.add(place)
                yield jobs[place], outcome
        left = [place for place in left if place not in finished]
        suspects = [place for place in left if kept.notes[place] != NOT_BEGUN]
        for place in suspects:
            yield jobs[place], _played_alone(kept, place, told)
            kept.notes[place] = study.horizon
        left = [place for place in left if place not in suspects]
        if finished or suspects:
            n_starts = 0
        elif n_starts == MOST_STARTS:
            yield from ((jobs[place], Failure(NEVER_STARTED, NEVER_STARTED)) for place in left)
            return


def _played_alone(kept: _Kept, place: int, told: Told) -> JobFiles | Failure:
    """Outcome of a job that was being played when a process died: it fails where it is begun and its own one dies."""
    for _ in range(MOST_STARTS):
        kept.notes[place] = NOT_BEGUN
        outcome = dict(_pooled(kept, [place], told, n_workers=1)).get(place)
        if outcome is not None:
            return outcome
        if kept.notes[place] != NOT_BEGUN:
            return Failure(GONE, GONE)
    return Failure(NEVER_STARTED, NEVER_STARTED)


def _pooled(
    kept: _Kept, places: Sequence[int], told: Told, *, n_workers: int
) -> Generator[tuple[int, JobFiles | Failure], None, None]:
    """Outcomes by the job's place; ends early, with some left out, where a process died."""
    horizon = kept.study.horizon
    with suppress(BrokenProcessPool), worker_pool(min(n_workers, len(places)), prepare=_keep, arguments=kept) as pool:
        futures = {pool.submit(_play_numbered, place): place for place in places}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=GLANCE, return_when=FIRST_COMPLETED)
            for future in done:
                if not isinstance(future.exception(), BrokenProcessPool):
                    yield futures[future], future.result()
                    kept.notes[futures[future]] = horizon
            told(list(kept.notes))


def in_ray(study: Study, jobs: Sequence[Job], told: Told, *, address: str | None) -> Outcomes:
    """As tasks of Ray, one processor each: on this machine, or on the cluster at `address`."""
    ray = import_optional("ray", 'engine="ray"', extra="experiments,ray")
    refuse_unpicklable(study)
    was_running = ray.is_initialized()
    if not was_running:
        _connect(ray, address)
    try:
        task = ray.remote(num_cpus=1, max_retries=1)(_tried)  # one that kills its process does so again and fails
        shared = ray.put(study)
        tasks: dict[Any, int] = {task.remote(shared, job): place for place, job in enumerate(jobs)}
        waiting, rounds = list(tasks), [NOT_BEGUN] * len(jobs)
        while waiting:
            (done, *_), waiting = ray.wait(waiting)
            try:
                yield jobs[tasks[done]], ray.get(done)
            except ray.exceptions.RayError as error:
                yield jobs[tasks[done]], Failure.of(error)
            rounds[tasks[done]] = study.horizon
            told(rounds)
    finally:
        if not was_running:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    refuse_silence(address)
    limits = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
    try:
        ray.init(address=address or "local", runtime_env=limits, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        raise InvalidParameter(f"There is no Ray cluster to be had at {address!r}: {error} {TOKENS}") from error


def refuse_unpicklable(study: Study) -> None:
    """InvalidParameter that names what cannot be sent to another process."""
    named: dict[str, Any] = {f"environments.{name}": world for name, world in study.environments.items()}
    named |= {f"policies.{name}": policy for name, policy in study.policies.items()}
    for place, value in named.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # pickling runs whatever code an object brings
            raise InvalidParameter(
                f"{place} cannot be sent to other processes: {error}. Use Contender(KernelUCB, ...) or a function of a "
                "module instead of a lambda, or play in this process with workers=1."
            ) from error


def _tried(study: Study, job: Job, note: Callable[[int], None] | None = None) -> JobFiles | Failure:
    try:
        return play_job(study, job, note)
    except (Exception, SystemExit) as error:  # whatever a policy of the user's raises: the other jobs go on
        return Failure.of(error)


class _Kept(NamedTuple):
    study: Study
    jobs: tuple[Job, ...]
    notes: Any  # a shared array of ctypes, which has no public class


_kept: list[_Kept] = []
"""In a worker: what it was sent when it began."""


def _keep(study: Study, jobs: tuple[Job, ...], notes: Any) -> None:
    _kept.append(_Kept(study, jobs, notes))


def _play_numbered(place: int) -> JobFiles | Failure:
    study, jobs, notes = _kept[-1]
    notes[place] = 0

    def note(finished: int) -> None:
        notes[place] = finished

    return _tried(study, jobs[place], note)
