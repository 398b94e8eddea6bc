"""Thread limits: BLAS threads per call, and the library's own thread pool."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from threading import Lock, RLock, get_ident
from typing import Any, Final, NamedTuple

from threadpoolctl import threadpool_limits

from kernelbandits.validation import a_count

__all__ = ["few_threads", "for_each_part", "limit_blas", "one_blas_thread", "set_threads", "threads_for"]

SMALLEST: Final = 10_000
"""Multiplications below which BLAS keeps to one thread by itself."""

LARGEST: Final = 1_000_000_000
"""Multiplications from which all threads pay: about 30 ms of work on one core."""

NOTHING: Final = nullcontext()


class _Library(NamedTuple):
    """A BLAS that is loaded: how many threads it may use, for all threads of the process or for the one that asks."""

    get: Callable[[], int]
    set: Callable[[int], object]
    is_per_thread: bool


_lock = RLock()
_inside: Final[dict[int, int]] = {}
"""Entries that have not been left, by their identity, and the threads that entered."""

_outside: Final[list[int]] = []
"""How many threads each library had before the first of them entered."""

_defaults: Final[list[int]] = []
"""How many each library had before `limit_blas`; empty where that sets no limit."""


def few_threads(n_multiplications: float) -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread if the work is small, and as many as it may if it is large.

    Any number of threads may be inside at the same time; when the last one leaves, BLAS has what it had before.
    Entering and leaving costs about 3 µs, and nothing where the work is tiny or the caller is inside already. Measured
    on two cores, 500 rounds of 30 actions: 2.1 s with BLAS left to itself, 0.7 s with this.
    """
    if not SMALLEST < n_multiplications < LARGEST or (_inside and get_ident() in _inside.values()):
        return NOTHING
    if not _inside:
        for library in _libraries():
            if library.get() > 1:
                return _OneThread()
        return NOTHING  # every BLAS has one thread already, as with OMP_NUM_THREADS=1
    return _OneThread()


class _OneThread:
    """Left at the latest when it is deleted, as where an interrupt keeps `__exit__` from being called."""

    __slots__ = ("_own",)

    def __init__(self) -> None:
        self._own: list[int] = []

    def __enter__(self) -> None:
        libraries = _libraries()
        with _lock:
            if not _inside:
                _outside[:] = [library.get() for library in libraries]
            self._own = [library.get() for library in libraries if library.is_per_thread]
            _inside[id(self)] = get_ident()
            for library in libraries:
                library.set(1)

    def __exit__(self, *_: object) -> None:
        with _lock:
            if id(self) in _inside:
                if len(_inside) == 1:
                    _give_back()
                if self._own:
                    own = [library for library in _libraries() if library.is_per_thread]
                    for library, n_threads in zip(own, self._own, strict=True):
                        library.set(n_threads)
                del _inside[id(self)]

    __del__ = __exit__


def _give_back() -> None:
    for library, n_threads in zip(_libraries(), _outside, strict=True):
        library.set(n_threads)


def limit_blas(most: int | None) -> None:
    """Limit every BLAS to this many threads; None restores what it had before."""
    libraries = _libraries()
    with _lock:
        now = _outside if _inside else [library.get() for library in libraries]
        defaults = _defaults or list(now)
        _outside[:] = defaults if most is None else [min(most, n_threads) for n_threads in defaults]
        _defaults[:] = [] if most is None else defaults
        if not _inside:
            _give_back()


def _after_fork_in_child() -> None:
    """Only the thread that forked is left, and it may be inside."""
    global _lock
    _lock = RLock()
    gone = [entry for entry, thread in _inside.items() if thread != get_ident()]
    for entry in gone:
        del _inside[entry]
    if gone and not _inside:
        _give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


@cache
def _libraries() -> tuple[_Library, ...]:
    """Those of NumPy and SciPy, looked up once (about 1 ms)."""
    import scipy.linalg.blas  # noqa: F401 – SciPy brings a BLAS of its own, and only what is loaded can be told
    from threadpoolctl import ThreadpoolController

    return tuple(map(_library, ThreadpoolController().select(user_api="blas").lib_controllers))


def _library(controller: Any) -> _Library:
    """OpenBLAS's own functions where they are found, which saves the several names that are tried for each call."""
    get, put = controller.get_num_threads, controller.set_num_threads
    if controller.internal_api == "openblas" and hasattr(controller, "_get_symbol"):
        get = controller._get_symbol("openblas_get_num_threads") or get
        put = controller._get_symbol("openblas_set_num_threads") or put
    return _Library(get, put, getattr(controller, "threading_layer", None) == "openmp")


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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while this lasts.

    A bandit's matrices are small: threads that wait for each other cost more than they save, many times over where
    something else is running.
    """
    import_module("scipy.linalg.blas")  # SciPy brings a BLAS of its own, and only what is loaded can be told
    with threadpool_limits(limits=1, user_api="blas"):
        yield
