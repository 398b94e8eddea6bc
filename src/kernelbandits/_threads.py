"""Thread limits: BLAS threads per call, and the library's own thread pool."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, RLock, Thread, get_ident
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from threadpoolctl import threadpool_limits

from kernelbandits.validation import check_int

__all__ = [
    "Pace",
    "at_better_pace",
    "for_each_part",
    "limit_blas",
    "limit_blas_threads",
    "one_blas_thread",
    "pays_off",
    "set_threads",
    "threads_for",
    "with_helpers",
]

Result = TypeVar("Result")

SMALLEST: Final = 10_000
"""Multiplications below which BLAS itself uses one thread."""

LARGEST: Final = 1_000_000_000
"""Multiplications from which all threads pay off: about 30 ms of work on one core."""

NOTHING: Final = nullcontext()


class _Library(NamedTuple):
    """A loaded BLAS: getter and setter of its thread count, for the whole process or the calling thread."""

    get: Callable[[], int]
    set: Callable[[int], object]
    is_per_thread: bool


_lock = RLock()
_inside: Final[dict[int, int]] = {}
"""Active contexts by identity, and the threads that entered them."""

_outside: Final[list[int]] = []
"""Thread count of each library before the first of these contexts was entered."""

_defaults: Final[list[int]] = []
"""Thread count of each library before `limit_blas`; empty if there is no limit."""


def limit_blas_threads(n_multiplications: float) -> AbstractContextManager[Any]:
    """Context in which BLAS uses one thread if the work is small, and all allowed threads if it is large.

    Any number of threads may be inside at the same time; when the last one leaves, the thread count of BLAS is
    restored. Entering and leaving costs about 3 µs, and nothing if the work is tiny or the caller is already inside.
    Measured on two cores, 500 rounds of 30 actions: 2.1 s without this, 0.7 s with it.
    """
    if not SMALLEST < n_multiplications < LARGEST or (_inside and get_ident() in _inside.values()):
        return NOTHING
    if not _inside:
        for library in _libraries():
            if library.get() > 1:
                return _OneThread()
        return NOTHING  # every BLAS already has one thread, as with OMP_NUM_THREADS=1
    return _OneThread()


class _OneThread:
    """Context of `limit_blas_threads`; left at deletion if an interrupt prevents the call of `__exit__`."""

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
    """Limit every BLAS to this many threads; None restores the previous count."""
    libraries = _libraries()
    with _lock:
        now = _outside if _inside else [library.get() for library in libraries]
        defaults = _defaults or list(now)
        _outside[:] = defaults if most is None else [min(most, n_threads) for n_threads in defaults]
        _defaults[:] = [] if most is None else defaults
        if not _inside:
            _give_back()


def _after_fork_in_child() -> None:
    """Keep only contexts of the thread that forked: no other thread exists in the child."""
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
    """BLAS libraries of NumPy and SciPy, looked up once (about 1 ms)."""
    import scipy.linalg.blas  # noqa: F401 – SciPy has its own BLAS, and only loaded libraries can be limited
    from threadpoolctl import ThreadpoolController

    return tuple(map(_library, ThreadpoolController().select(user_api="blas").lib_controllers))


def _library(controller: Any) -> _Library:
    """Direct OpenBLAS functions if found, which avoids trying several names per call."""
    get, put = controller.get_num_threads, controller.set_num_threads
    if controller.internal_api == "openblas" and hasattr(controller, "_get_symbol"):
        get = controller._get_symbol("openblas_get_num_threads") or get
        put = controller._get_symbol("openblas_set_num_threads") or put
    return _Library(get, put, getattr(controller, "threading_layer", None) == "openmp")


BYTES_PER_THREAD: Final = 6_000_000
"""Bytes per part from which another thread certainly pays off: passing a part to the pool costs 30 to 100 µs, in which
one core moves up to two megabytes. Below it the calling thread does all the work."""

PARTS_PER_THREAD: Final = 4

_most: int | None = None
_bytes_per_thread = BYTES_PER_THREAD
_shared: tuple[int, Pool] | None = None  # process, pool


def set_threads(n: int | None, *, bytes_per_thread: int = BYTES_PER_THREAD) -> None:
    """Limit the threads of the library; None: choose by the size of the work and the cores of the machine.

    The limit also applies to all uses of BLAS in this process; None restores the previous count of BLAS.

    Choices do not depend on it: parts of a pass give the same results in any thread.

    Parameters
    ----------
    n
        Largest number of threads.
    bytes_per_thread
        Bytes that a pass must move per thread. Below twice as many, one thread does it. A smaller number makes small
        problems use threads, for tests.

    Examples
    --------
    >>> set_threads(1)
    >>> threads_for(10**9)
    1
    >>> set_threads(None)
    """
    global _most, _bytes_per_thread
    most = None if n is None else check_int(n, "The number of threads", hint="None decides by the size of the work.")
    _bytes_per_thread = check_int(bytes_per_thread, "bytes_per_thread")
    _most = most
    limit_blas(most)


def pays_off(n_bytes: int) -> bool:
    """Whether a second thread would pay off for a pass that moves n_bytes; it does not depend on the number allowed."""
    return n_bytes >= 2 * _bytes_per_thread


def threads_for(n_bytes: int, n_parts: int | None = None) -> int:
    """Number of threads for a pass that moves n_bytes and has n_parts parts: at least two parts per thread."""
    paying = n_bytes // _bytes_per_thread
    if n_parts is not None:
        paying = min(paying, n_parts // 2)
    if paying <= 1:
        return 1
    return max(1, min(_cores() if _most is None else _most, paying))


TRIALS: Final = 8
"""First passes, which alternate between one thread and several."""

PROBE_COST: Final = 0.02
"""Fraction of the time that passes in the slower way may take, which show whether it is still slower."""

LEAST_PROBES: Final = 8
"""Passes of which at least one is done in the slower way: nearly equal ways cost little, and may change places soon."""

PACE_WEIGHT: Final = 0.2
"""Weight of the latest pass in a mean of seconds."""

LONGEST: Final = 4.0
"""Multiple of the mean up to which a pass counts: a single interruption decides nothing."""


class Pace:
    """Whether helpers pay off for passes of one size, by the seconds that passes took with and without them.

    They do not where other programs use the processors: a helper that is kept from its processor at the wrong moment,
    as it holds the GIL, delays the leading thread.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._n_passes = self._since_probe = 0
        self._seconds: list[float] = [0.0, 0.0]  # per byte, without and with helpers; 0: unknown

    def next_has_helpers(self) -> bool:
        """Whether the next pass has helpers."""
        self._n_passes += 1
        if self._n_passes <= TRIALS:
            return self._n_passes % 2 == 1
        alone, helped = self._seconds
        pay = helped <= alone
        ratio = min(alone / helped, self._n_threads) if pay else helped / alone  # the gain cannot be larger
        self._since_probe += 1
        if self._since_probe < max(LEAST_PROBES, (ratio - 1.0) / PROBE_COST):
            return pay
        self._since_probe = 0
        return not pay

    def record(self, seconds: float, *, has_helpers: bool) -> None:
        """Record the seconds per byte of a pass."""
        mean, seconds = self._seconds[has_helpers], max(seconds, 1e-15)  # a coarse clock may show 0
        latest = min(seconds, LONGEST * mean) if mean else seconds
        self._seconds[has_helpers] = mean + PACE_WEIGHT * (latest - mean) if mean else latest


def at_better_pace(
    alone: Callable[[], Result], together: Callable[[int], Result], *, n_bytes: int, paces: dict[int, Pace]
) -> Result:
    """Result of `alone()`, or of `together(n_threads)` if that pays off for a pass that moves n_bytes.

    `paces` has an entry per number of threads and power of two of the size; the caller keeps it for passes that are
    alike.
    """
    n_threads = threads_for(n_bytes)
    if n_threads == 1:
        return alone()
    pace = paces.setdefault(64 * n_threads + n_bytes.bit_length(), Pace(n_threads))
    has_helpers = pace.next_has_helpers()
    began = perf_counter()
    found = together(n_threads) if has_helpers else alone()
    pace.record((perf_counter() - began) / n_bytes, has_helpers=has_helpers)
    return found


def with_helpers(
    lead: Callable[[], Result], help_out: Callable[[], object], *, n_bytes: int, paces: dict[int, Pace]
) -> Result:
    """Result of `lead()`, while other threads run `help_out()` if that pays off (`at_better_pace`).

    Helpers are not waited for. So `lead` must be able to do everything alone, and `help_out` must return soon after
    `lead` has, and change nothing that is used then. Both must release the GIL while they compute.
    """
    return at_better_pace(
        lead, lambda n_threads: _with_helpers(lead, help_out, n_threads), n_bytes=n_bytes, paces=paces
    )


def _with_helpers(lead: Callable[[], Result], help_out: Callable[[], object], n_threads: int) -> Result:
    pool, jobs = _shared_pool(n_threads), [help_out] * (n_threads - 1)

    def help_once() -> None:
        with suppress(IndexError):  # the pass is over
            jobs.pop()()

    def call_the_others() -> None:  # while the calling thread already leads
        for _ in range(n_threads - 2):
            pool.submit(help_once)
        help_once()

    with suppress(RuntimeError):  # no more threads, or the interpreter is exiting
        pool.submit(call_the_others)
    try:
        return lead()
    finally:
        jobs.clear()


def for_each_part(work: Callable[[int, int], object], n: int, *, align: int, n_bytes: int) -> None:
    """Call `work(start, stop)` for parts of range(n) aligned to `align`, in several threads if that pays off.

    `work` must release the GIL while it computes, as compiled kernels do. There are more parts than threads, and each
    thread takes the next remaining part: a thread that is delayed leaves its work to the others, and one that has not
    started when all parts are done is not waited for. If no threads are available, the calling thread does all the
    work.
    """
    n_threads = threads_for(n_bytes, -(-n // align))
    if n_threads == 1:
        work(0, n)
        return
    step = -(-n // (PARTS_PER_THREAD * n_threads * align)) * align
    starts = iter(range(0, n, step))  # taking the next is atomic under the GIL, so no part is taken twice

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
        except RuntimeError:  # no more threads, or the interpreter is exiting
            pass
    try:
        share()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


SECONDS_TO_END: Final = 1.0
"""Longest wait for a thread when the process ends."""


class Pool:
    """Threads that run calls from a queue, and end with the process.

    Passing a call on is one atomic operation of the queue. `ThreadPoolExecutor.submit` takes locks in Python code: an
    interrupt there can leave one held, and then every later call waits forever.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        atexit.register(self._end)

    def grow(self, n_threads: int) -> None:
        """Start threads until there are this many, or as many as the system allows."""
        with suppress(RuntimeError):
            while len(self._threads) < n_threads:
                thread = Thread(target=self._run, name=f"kernelbandits_{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Let one of the threads run this; raise RuntimeError if there is none."""
        if not self._threads:
            raise RuntimeError("No thread could be started.")
        future: Future[Result] = Future()
        self._calls.put((future, call))
        return future

    def _run(self) -> None:
        while (given := self._calls.get()) is not None:
            future, call = given
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del given, future, call  # what they refer to need not live until the next call

    def _end(self) -> None:
        """Let threads finish before the interpreter is taken down; one that does not is left behind."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join(SECONDS_TO_END)


def _shared_pool(n_threads: int) -> Pool:
    """The shared pool with at least this many threads; a new one in a forked process, whose threads are gone."""
    global _shared
    shared = _shared
    if shared is None or shared[0] != os.getpid():
        shared = _shared = os.getpid(), Pool()
    if len(shared[1]._threads) < n_threads:
        shared[1].grow(n_threads)
    return shared[1]


def _cores() -> int:
    """Cores this process may run on; OMP_NUM_THREADS, the usual setting of worker processes, is respected."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in this context.

    The matrices of a bandit are small: thread synchronization costs more than it saves, many times over if other
    processes are running.
    """
    import_module("scipy.linalg.blas")  # SciPy has its own BLAS, and only loaded libraries can be limited
    with threadpool_limits(limits=1, user_api="blas"):
        yield
