"""Backends: numbered jobs in this process, in worker processes or on Ray.

A backend does not depend on studies. It calls a `Work` with the number of each job and yields the outcomes as they
arrive, in any order. Worker processes run one thread of linear algebra each and end with the process that started them.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from threadpoolctl import threadpool_limits

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.experiments.store import JobFiles
from kernelbandits.selection import compile_ahead
from kernelbandits.validation import check_int

__all__ = [
    "NOT_STARTED",
    "THREAD_VARIABLES",
    "Failure",
    "Outcomes",
    "ProgressCallback",
    "Work",
    "check_address",
    "check_reachable",
    "n_workers_for",
    "one_thread_each",
    "run_processes",
    "run_ray",
    "run_serial",
    "worker_pool",
]

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Environment variables that libraries of linear algebra read once, when they are loaded."""

MOST_WORKERS: Final = 1024
"""Largest number of worker processes: more than most machines have processors, and fewer than they can start."""

POLL_SECONDS: Final = 0.2
"""Seconds between two reports of progress."""

NOT_STARTED: Final = -1
"""Number of finished rounds of a job that no worker has started."""

MOST_STARTS: Final = 3
"""Consecutive pools in which no job was started before the remaining jobs fail."""

CONNECTION_TIMEOUT: Final = 5.0
"""Seconds that a connection may take; Ray itself tries for minutes."""

NEVER_STARTED: Final = (
    "no worker process started a job. A script that calls run() needs "
    '`if __name__ == "__main__":` around it; memory may be short'
)
PROCESS_DIED: Final = (
    "its process ended without an error, also when it ran alone. It may be out of memory, or was killed"
)

TOKENS: Final = (
    "A cluster with token authentication rejects connections without a token: set RAY_AUTH_MODE=token, and "
    "RAY_AUTH_TOKEN_PATH if the token is not in Ray's default location."
)

ProgressCallback: TypeAlias = Callable[[Sequence[int]], None]
"""Called with the number of finished rounds of every job; `NOT_STARTED` for jobs that have not begun."""


class Work(Protocol):
    """Jobs by number; must be picklable for other processes."""

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""

    @property
    def n_rounds(self) -> int:
        """Rounds of each job."""

    def __call__(self, number: int, on_round: Callable[[int], None] | None = None) -> JobFiles:
        """Run one job; `on_round` is called with the number of finished rounds."""


class Failure(NamedTuple):
    """Error of a job."""

    short: str
    full: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """One line, and the traceback."""
        return cls(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


Outcomes: TypeAlias = Generator[tuple[int, JobFiles | Failure], None, None]
"""Numbers of finished jobs with their outcomes, in any order."""


def _attempt(work: Work, number: int, on_round: Callable[[int], None] | None = None) -> JobFiles | Failure:
    try:
        return work(number, on_round)
    except (Exception, SystemExit) as error:  # anything that a user's policy raises: the other jobs continue
        return Failure.of(error)


def run_serial(work: Work, on_progress: ProgressCallback, *, poll_seconds: float = POLL_SECONDS) -> Outcomes:
    """Run the jobs one after the other in this process."""
    due, rounds = monotonic(), [NOT_STARTED] * work.n_jobs
    for number in range(work.n_jobs):

        def on_round(finished: int, number: int = number) -> None:
            nonlocal due
            if monotonic() >= due:
                due = monotonic() + poll_seconds
                rounds[number] = finished
                on_progress(rounds)

        yield number, _attempt(work, number, on_round)
        rounds[number] = work.n_rounds
        on_progress(rounds)


# Worker processes


def n_workers_for(n_jobs: int, workers: int | None) -> int:
    """Number of worker processes: at most one per job and at least one; None: one per processor."""
    wanted = os.cpu_count() or 1 if workers is None else check_int(workers, "The number of workers", most=MOST_WORKERS)
    return max(1, min(n_jobs, wanted))


@contextmanager
def worker_pool(
    n_workers: int, *, prepare: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """Pool of new processes with one thread of linear algebra each; they end with this block.

    If the block is left by an error or an interrupt, the processes end at once. They also end if this process dies:
    each watches a pipe whose other end is held here.

    Parameters
    ----------
    n_workers
        Number of processes.
    prepare, arguments
        Called once in each process before its first task, to pass on what all tasks share.
    """
    context = get_context("spawn")  # a forked process would inherit locks that threads hold
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        n_workers, mp_context=context, initializer=_set_up, initargs=(watched, prepare, arguments)
    )
    try:
        with one_thread_each():
            pool.submit(os.getpid)  # starts all processes while the limits are in the environment
        yield pool
        pool.shutdown()
    finally:
        held.close()  # processes that are still busy end now
        pool.shutdown(cancel_futures=True)
        watched.close()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that start inside this block load their linear algebra with one thread."""
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


def _set_up(watched: Connection, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is handled by the parent process
    Thread(target=_exit_with_parent, args=(watched,), daemon=True).start()
    threadpool_limits(limits=1)  # for libraries that do not read the environment
    if prepare is not None:
        prepare(*arguments)


def _exit_with_parent(watched: Connection) -> None:
    """End this process when the other end of the pipe is closed; nothing is ever sent."""
    try:
        watched.recv()
    except (EOFError, OSError):
        os._exit(1)


@dataclass(frozen=True)
class _Shared:
    """Objects that every worker process receives once."""

    work: Work
    rounds: Any  # a shared array of ctypes, which has no public class

    def install(self) -> None:
        _shared.append(self)


_shared: list[_Shared] = []
"""Values that a worker process received when it started; empty in other processes."""


def _run_number(number: int) -> JobFiles | Failure:
    shared = _shared[-1]
    shared.rounds[number] = 0

    def on_round(finished: int) -> None:
        shared.rounds[number] = finished

    return _attempt(shared.work, number, on_round)


def run_processes(work: Work, on_progress: ProgressCallback, *, n_workers: int) -> Outcomes:
    """Run the jobs in worker processes.

    If a process dies, its pool is lost. Jobs that were not started continue in a new pool. Jobs that were running are
    repeated one at a time, so only the job that kills its process fails. Pools whose processes die before they start a
    job are replaced up to `MOST_STARTS` times in a row.
    """
    compile_ahead()  # here first: the workers then load compiled loops from disk
    rounds = get_context("spawn").Array("q", [NOT_STARTED] * work.n_jobs, lock=False)
    shared = _Shared(work, rounds)
    remaining, n_starts = list(range(work.n_jobs)), 0
    while remaining:
        finished, n_starts = set(), n_starts + 1
        with closing(_pooled(shared, remaining, on_progress, n_workers=n_workers)) as outcomes:
            for number, outcome in outcomes:
                finished.add(number)
                yield number, outcome
        remaining = [number for number in remaining if number not in finished]
        suspects = [number for number in remaining if rounds[number] != NOT_STARTED]
        for number in suspects:
            yield number, _run_alone(shared, number, on_progress)
            rounds[number] = work.n_rounds
            on_progress(list(rounds))
        remaining = [number for number in remaining if number not in suspects]
        if finished or suspects:
            n_starts = 0
        elif n_starts == MOST_STARTS:
            yield from ((number, Failure(NEVER_STARTED, NEVER_STARTED)) for number in remaining)
            return


def _run_alone(shared: _Shared, number: int, on_progress: ProgressCallback) -> JobFiles | Failure:
    """Repeat a job that was running when a process died; it fails if its own process dies after starting it."""
    for _ in range(MOST_STARTS):
        shared.rounds[number] = NOT_STARTED
        outcome = dict(_pooled(shared, [number], on_progress, n_workers=1)).get(number)
        if outcome is not None:
            return outcome
        if shared.rounds[number] != NOT_STARTED:
            return Failure(PROCESS_DIED, PROCESS_DIED)
    return Failure(NEVER_STARTED, NEVER_STARTED)


def _pooled(shared: _Shared, numbers: Sequence[int], on_progress: ProgressCallback, *, n_workers: int) -> Outcomes:
    """Outcomes of these jobs; some are left out if a process died."""
    with suppress(BrokenProcessPool), worker_pool(min(n_workers, len(numbers)), prepare=shared.install) as pool:
        futures = {pool.submit(_run_number, number): number for number in numbers}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                if not isinstance(future.exception(), BrokenProcessPool):
                    yield futures[future], future.result()
                    shared.rounds[futures[future]] = shared.work.n_rounds
            on_progress(list(shared.rounds))


# Ray


def run_ray(work: Work, on_progress: ProgressCallback, *, address: str | None) -> Outcomes:
    """Run the jobs as Ray tasks with one processor each, on this machine or on the cluster at `address`."""
    ray = import_optional("ray", 'engine="ray"', extra="experiments,ray")
    was_running = ray.is_initialized()
    if not was_running:
        _connect(ray, address)
    try:
        task = ray.remote(num_cpus=1, max_retries=1)(_attempt)  # a job that kills its process does so again and fails
        shared = ray.put(work)
        tasks: dict[Any, int] = {task.remote(shared, number): number for number in range(work.n_jobs)}
        waiting, rounds = list(tasks), [NOT_STARTED] * work.n_jobs
        while waiting:
            (done, *_), waiting = ray.wait(waiting)
            try:
                yield tasks[done], ray.get(done)
            except ray.exceptions.RayError as error:
                yield tasks[done], Failure.of(error)
            rounds[tasks[done]] = work.n_rounds
            on_progress(rounds)
    finally:
        if not was_running:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    check_reachable(address)
    limits = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
    try:
        ray.init(address=address or "local", runtime_env=limits, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        raise InvalidParameter(f"Connecting to a Ray cluster at {address!r} failed: {error} {TOKENS}") from error


def check_address(address: str | None) -> str | None:
    """Return an address that Ray can connect to, None if none is given, or raise.

    >>> check_address("127.0.0.1:6379"), check_address("auto"), check_address(None)
    ('127.0.0.1:6379', 'auto', None)
    """
    if address in (None, "auto", "local"):
        return address
    if isinstance(address, str) and address.startswith("ray://"):
        raise NotSupported(
            f"A study runs from a machine of the cluster, not through Ray's client, got {address!r}. Give the "
            "HOST:PORT that `ray start --head` printed."
        )
    if not isinstance(address, str) or _host_and_port(address) is None:
        raise InvalidParameter(f"The address of a Ray cluster is HOST:PORT or 'auto', got {address!r}.")
    return address


def check_reachable(address: str | None) -> None:
    """Raise InvalidParameter if HOST:PORT accepts no connection; other addresses are left to Ray."""
    target = _host_and_port(address or "")
    if target is None:
        return
    try:
        socket.create_connection(target, timeout=CONNECTION_TIMEOUT).close()
    except OSError as error:
        raise InvalidParameter(
            f"The address {address!r} does not answer ({error.strerror or error}). Start a cluster there with "
            "`ray start --head`, or leave the address out to run on this machine."
        ) from error


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, colon, port = address.rpartition(":")
    is_valid = colon and host and "/" not in host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
    return (host.removeprefix("[").removesuffix("]"), int(port)) if is_valid else None
