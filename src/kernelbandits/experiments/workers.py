"""Processes that work for this one, and end when it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final

from threadpoolctl import threadpool_limits

from kernelbandits.validation import check_int

__all__ = ["THREAD_VARIABLES", "n_workers_for", "one_thread_each", "worker_pool"]

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
