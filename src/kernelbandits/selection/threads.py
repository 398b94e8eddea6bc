"""How many threads the library may use, and one pool for all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from kernelbandits.checks import a_count
from kernelbandits.posterior.threads import limit_blas

__all__ = ["for_each_part", "set_threads", "threads_for"]

BYTES_PER_THREAD: Final = 6_000_000
"""Memory that a part has to move for another thread to pay for sure: handing a part to the pool costs 30 to 100 µs, in
which one core moves up to two megabytes. Below it the caller's thread does all."""

PARTS_PER_THREAD: Final = 4

_most: int | None = None
_shared: tuple[int, int, ThreadPoolExecutor] | None = None  # process, number of threads, pool


def set_threads(n: int | None) -> None:
    """Most threads the library may use; None: decide by the size of the work and the cores of the machine.

    It also is the most that BLAS may use in this process, also where others call it, and None gives BLAS back what it
    had before.

    What is chosen does not depend on it: parts of a pass are computed alike, whoever computes them.

    >>> set_threads(1)
    >>> threads_for(10**9)
    1
    >>> set_threads(None)
    """
    global _most
    _most = None if n is None else a_count(n, "The number of threads", way_out="None decides by the size of the work.")
    limit_blas(_most)


def threads_for(n_bytes: int, n_parts: int | None = None) -> int:
    """Threads for a pass that moves so many bytes and can be cut into so many parts: two or more for each thread."""
    paying = n_bytes // BYTES_PER_THREAD
    if n_parts is not None:
        paying = min(paying, n_parts // 2)
    if paying <= 1:
        return 1
    return max(1, min(_cores() if _most is None else _most, paying))


def for_each_part(work: Callable[[int, int], object], n: int, *, align: int, n_bytes: int) -> None:
    """Call `work(start, stop)` for parts of range(n) that begin at multiples of `align`, in threads where it pays.

    `work` has to leave the interpreter's lock while it computes, as compiled loops do. There are more parts than
    threads, and each thread takes the next that is left: one that is kept from its work by something else on the
    machine leaves it to the others, and one that has not begun when all is done is not waited for. Where threads cannot
    be had, the caller's does all.
    """
    n_threads = threads_for(n_bytes, -(-n // align))
    if n_threads == 1:
        work(0, n)
        return
    step = -(-n // (PARTS_PER_THREAD * n_threads * align)) * align
    starts = iter(range(0, n, step))  # to take the next is one step of the interpreter, so no part is taken twice

    def share() -> None:
        for start in starts:
            work(start, min(n, start + step))

    are_all_there, gate = False, Lock()

    def help_out() -> None:
        with gate:
            if not are_all_there:
                return
        share()

    pool, futures = _shared_pool(n_threads), []
    with gate:
        try:
            futures = [pool.submit(help_out) for _ in range(n_threads - 1)]
            are_all_there = True
        except RuntimeError:  # no more threads, or the interpreter is about to end
            pass
    try:
        share()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


def _shared_pool(n_threads: int) -> ThreadPoolExecutor:
    """The one pool; another one in a forked process, whose threads are gone, and where more are wanted."""
    global _shared
    shared = _shared
    if shared is None or shared[0] != os.getpid() or shared[1] < n_threads:
        shared = _shared = os.getpid(), n_threads, ThreadPoolExecutor(n_threads, "kernelbandits")
    return shared[2]


def _cores() -> int:
    """Cores this process may run on; OMP_NUM_THREADS is respected as the usual word of a worker process."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, int(told)) if told.isdigit() and int(told) > 0 else available
