"""How many threads the library may use, and one pool for all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kernelbandits.checks import a_count

__all__ = ["for_each_part", "set_threads", "threads_for"]

BYTES_PER_THREAD: Final = 2_000_000
"""Memory that a part has to move for another thread to pay: handing a part to the pool costs about 30 µs, in which one
core moves about half a megabyte. Below it the caller's thread does all."""

_most: int | None = None
_pool: ThreadPoolExecutor | None = None
_pool_key: tuple[int, int] = (0, 0)


def set_threads(n: int | None) -> None:
    """Most threads the library may use; None: decide by the size of the work and the cores of the machine.

    What is chosen does not depend on it: parts of a pass are computed alike, whoever computes them.

    >>> set_threads(1)
    >>> threads_for(10**9)
    1
    >>> set_threads(None)
    """
    global _most
    _most = None if n is None else a_count(n, "The number of threads", way_out="None decides by the size of the work.")


def threads_for(n_bytes: int) -> int:
    """Threads for a pass that moves so many bytes."""
    most = _cores() if _most is None else _most
    return max(1, min(most, n_bytes // BYTES_PER_THREAD))


def for_each_part(work: Callable[[int, int], object], n: int, *, align: int, n_bytes: int) -> None:
    """Call `work(start, stop)` for parts of range(n) that begin at multiples of `align`, in threads where it pays.

    `work` has to leave the interpreter's lock while it computes, as compiled loops do.
    """
    n_threads = threads_for(n_bytes)
    if n_threads == 1 or n <= align:
        work(0, n)
        return
    step = -(-n // (n_threads * align)) * align
    futures = [_shared_pool(n_threads).submit(work, start, min(n, start + step)) for start in range(step, n, step)]
    work(0, step)
    for future in futures:
        future.result()


def _shared_pool(n_threads: int) -> ThreadPoolExecutor:
    """The one pool; made anew in a forked process, whose threads are gone, and where more are wanted."""
    global _pool, _pool_key
    process, held = _pool_key
    if _pool is None or process != os.getpid() or held < n_threads:
        _pool, _pool_key = ThreadPoolExecutor(n_threads, "kernelbandits"), (os.getpid(), n_threads)
    return _pool


def _cores() -> int:
    """Cores this process may run on; OMP_NUM_THREADS is respected as the usual word of a worker process."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, int(told)) if told.isdigit() and int(told) > 0 else available
