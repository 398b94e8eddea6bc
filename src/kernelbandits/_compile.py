"""Background compilation of Numba kernels.

A kernel and the functions that it calls (`part`) are plain Python functions in one file, which ends with their group
(`Loops`): names, signatures and compiler flags. The on-disk cache is keyed by the content of that file and of this one.

Until a kernel is compiled, exhaustive scoring in NumPy is used, so the first rounds do not wait for the compiler, and
importing the library does not import Numba. Numba caches compiled kernels on disk, so that later processes only load
them. If Numba is missing or fails, NumPy stays in use, and one warning is logged.

The library uses Numba only while `_compiler` is held, one step at a time. A fork interrupts the step at the next
compiler pass and repeats it in the parent, so that no lock of Numba is held in the child by a thread that does not
exist there. The end of the program interrupts it in the same way.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from threading import Lock, Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kernelbandits.types import TIE_SLACK, TIE_TOLERANCE, Matrix

__all__ = [
    "FUSED",
    "IN_ANY_ORDER",
    "MATRIX",
    "SUMS_IN_ANY_ORDER",
    "VECTOR",
    "Loop",
    "Loops",
    "compile_ahead",
    "compiled",
    "exchange_cell",
    "groups",
    "load_cell",
    "matrix_at",
    "numba",
    "part",
    "uninterrupted",
]

VECTOR: Final = "float64[::1]"
MATRIX: Final = "float64[:, ::1]"

SUMS_IN_ANY_ORDER: Final = frozenset({"reassoc", "contract", "nsz"})
"""Fast-math flags that allow adding several terms of a sum at once; infinities and NaN keep their meaning."""

FUSED: Final = frozenset({"contract"})
"""Fast-math flags that allow fusing a product and a sum into one operation, which rounds once instead of twice."""

IN_ANY_ORDER: Final = frozenset({"reassoc", "contract"})
"""Fast-math flags that allow adding the terms of a sum in any order, which vector instructions need."""

LOOP_MODULES: Final = (
    "posterior._primal_loops",
    "posterior._projection_loops",
    "selection._catalog_loops",
    "selection._screening_loops",
)
"""Modules of compiled kernels."""

WORK_BEFORE_COMPILE: Final = 3_000_000
"""Array entries processed by NumPy, about 10 ms of work, before compilation starts."""

CALL: Final = 3_000
"""Entries that a call counts for at least, however small its arrays are: a thousand calls take a tenth of a second."""

FORK_PATIENCE: Final = 5.0
"""Seconds that a fork waits for the compiler, whose longest pass takes 0.7. A longer wait means a deadlock, and then
the child uses NumPy only."""

NUMBA_LOCKS: Final = (
    ("numba.core.compiler_lock", "global_compiler_lock._lock"),
    ("llvmlite.binding.ffi", "lib._lock._lock"),
)
"""Locks that a thread holds while it compiles: module, and attribute path of the lock."""

NO_COLORS: Final = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"

DIGEST: Final = sha256().digest_size

logger: Final = logging.getLogger(__name__)

groups: Final[list[Loops]] = []
"""All kernel groups of the process."""

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

_compiler = Lock()
"""Lock held while the library imports Numba or compiles."""

_forking: Final[set[int]] = set()
"""Threads that are about to fork or are forking."""

_held_for_fork: Final[set[int]] = set()
"""Threads among these that hold `_compiler`."""

_is_usable = True
"""Whether Numba may be used: not in a child that was forked while a thread was inside Numba."""


# -- forks and interpreter exit -------------------------------------------------------------------------------------


class _Interrupted(BaseException):
    """Aborts a compilation between two passes; not an Exception, which Numba may handle itself."""


def _before_fork() -> None:
    _forking.add(threading.get_ident())
    if _compiler.acquire(timeout=FORK_PATIENCE):
        _held_for_fork.add(threading.get_ident())


def _after_fork_in_parent() -> None:
    if threading.get_ident() in _held_for_fork:
        _held_for_fork.discard(threading.get_ident())
        _compiler.release()
    _forking.discard(threading.get_ident())


def _after_fork_in_child() -> None:
    global _compiler, _is_usable
    _is_usable = _is_usable and threading.get_ident() in _held_for_fork and _is_numba_whole()
    _compiler = Lock()
    _forking.clear()
    _held_for_fork.clear()
    for group in groups:
        group.begin_in_child()


def _is_numba_whole() -> bool:
    """Whether no thread of the parent, of this library or any other, was inside Numba at the fork."""
    if getattr(getattr(sys.modules.get("numba"), "__spec__", None), "_initializing", False):
        return False  # partially imported
    for module, path in NUMBA_LOCKS:
        try:
            lock = attrgetter(path)(sys.modules.get(module))
        except AttributeError:  # not imported
            continue
        if not lock.acquire(blocking=False):
            return False
        lock.release()
    return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _is_exiting() -> bool:
    """Whether the interpreter only waits for compilations."""
    if threading.main_thread().is_alive():
        return False
    ours = {group._thread for group in groups}
    return all(thread.daemon or thread in ours or not thread.is_alive() for thread in threading.enumerate())


def uninterrupted(step: Callable[[], Result]) -> Result:
    """Run one step that uses Numba, and repeat it if a fork interrupts it."""
    while True:
        while _forking:
            sleep(0.001)
        if _is_exiting():
            raise _Interrupted
        with _compiler, suppress(_Interrupted):
            return step()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let forks and interpreter exit abort this thread's compilation between two passes."""
    event, this_thread = import_module("numba.core.event"), threading.get_ident()

    class Watch(event.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, _: Any) -> None:
            if threading.get_ident() == this_thread and (_forking or _is_exiting()):
                raise _Interrupted

        def on_end(self, _: Any) -> None:
            pass

    with event.install_listener("numba:run_pass", Watch()):
        yield


# -- compilation -----------------------------------------------------------------------------------------------------


def numba() -> Any:
    """Import Numba, with colored messages disabled unless it was imported before.

    Numba creates thousands of messages while it compiles, and coloring each of them (if colorama is installed) replaces
    `sys.stdout` for a moment: output that another thread prints or redirects at that moment would be lost.
    """
    if "numba" in sys.modules:
        return import_module("numba")  # waits if another thread is importing it
    before = os.environ.get(NO_COLORS)
    os.environ[NO_COLORS] = "1"  # read during the import
    try:
        found = import_module("numba")
    finally:
        if before is None:
            del os.environ[NO_COLORS]
        else:
            os.environ[NO_COLORS] = before
    # Otherwise the first compilation would notice the change, and discard what a user has set in `numba.config`.
    found.config.reload_config()
    return found


def compiled(loop: Callable[..., Any], signature: str, flags: frozenset[str] = frozenset()) -> Callable[..., Any]:
    """Kernel compiled for one signature, without the GIL, and cached on disk if possible."""

    def compile_now(*, is_cached: bool) -> Callable[..., Any]:
        ready = dispatcher(loop, flags, is_cached=is_cached)
        with _interruptible():
            ready.compile(signature)
        ready.disable_compile()
        return cast("Callable[..., Any]", ready)

    try:
        return uninterrupted(lambda: compile_now(is_cached=True))
    except Exception as error:
        _warn_once("A compiled loop cannot be loaded from disk, and is compiled again in memory: %r", error)
        return uninterrupted(lambda: compile_now(is_cached=False))


def dispatcher(loop: Callable[..., Any], flags: frozenset[str], *, is_cached: bool = True) -> Any:
    """Numba dispatcher, which compiles a kernel on call or on demand."""
    options = {"nogil": True, "fastmath": set(flags) or False}
    if is_cached:
        try:
            ready = numba().njit(cache=True, **options)(loop)
            file = ready._cache._cache_file
            file.__class__, file._source_stamp = _checked_file(), _source_stamp(loop.__code__.co_filename)
        except (AttributeError, OSError, RuntimeError) as error:
            _warn_once("Compiled loops cannot be cached on disk, each process compiles them again: %r", error)
        else:
            return ready
    return numba().njit(**options)(loop)


@cache
def _source_stamp(path: str) -> str:
    """Digest of everything that a kernel in this file is compiled from.

    That is the file, this one, which has `matrix_at`, and the constants that kernels take from `types`. Numba would use
    the time stamp of the file alone, and load a kernel after a change in another file.
    """
    constants = repr((TIE_TOLERANCE, TIE_SLACK)).encode()
    return sha256(Path(path).read_bytes() + Path(__file__).read_bytes() + constants).hexdigest()


@cache
def _checked_file() -> Any:
    """Numba cache file class with a checksum: a damaged file is treated as missing and written again.

    Numba would raise, or run the damaged code. A file that cannot be written is not cached.
    """

    class CheckedFile(import_module("numba.core.caching").IndexDataCacheFile):  # type: ignore[misc]
        def save(self, key: Any, data: Any) -> None:
            try:
                super().save(key, data)
            except OSError as error:
                _warn_once("Compiled loops cannot be cached on disk, each process compiles them again: %r", error)

        def _load_index(self) -> Any:
            return super()._load_index() if self._is_whole(self._index_path) else {}

        def _load_data(self, name: str) -> Any:
            if not self._is_whole(self._data_path(name)):
                raise FileNotFoundError(name)  # the error that Numba expects for a removed file
            return super()._load_data(name)

        def _is_whole(self, path: str) -> bool:
            try:
                content = Path(path).read_bytes()
            except FileNotFoundError:
                return False
            except OSError as error:
                _warn_once("A compiled loop cannot be read from disk, and is compiled again: %r", error)
                return False
            is_whole = sha256(content[:-DIGEST]).digest() == content[-DIGEST:]
            if not is_whole:
                _warn_once("A compiled loop on disk is damaged, and is compiled again: %s", path)
            return is_whole

        @contextmanager
        def _open_for_write(self, path: str) -> Iterator[BinaryIO]:
            with super()._open_for_write(path) as file:
                content = BytesIO()
                yield content
                file.write(content.getvalue() + sha256(content.getvalue()).digest())

    return CheckedFile


_warned: Final[set[str]] = set()


def _warn_once(message: str, *arguments: object) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning(message, *arguments)


# -- kernel groups ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Kernel: a function that Numba can compile, its signature, and its fast-math flags."""

    loop: Callable[..., Any]
    signature: str
    fast: frozenset[str] = frozenset()


_parts: Final[dict[Callable[..., Any], tuple[frozenset[str], bool]]] = {}
"""Functions that kernels call, their fast-math flags, and whether they are inlined."""

_registered: Final[set[Callable[..., Any]]] = set()
"""Those that Numba knows."""


def part(fast: frozenset[str] = frozenset(), *, is_inlined: bool = False) -> Callable[[Function], Function]:
    """Decorator of a function that kernels of the same file call; it is compiled as a part of them.

    An inlined part becomes a piece of its caller, whose flags it takes: a call with arrays costs about 50 ns.
    """

    def decorate(function: Function) -> Function:
        _parts[function] = fast, is_inlined
        return function

    return decorate


def matrix_at(address: int, n_rows: int, n_columns: int) -> Matrix:
    """View of the C-ordered matrix at an address, without a copy, so that one kernel can process many of them.

    The owner of the address must keep the matrix alive.
    """
    from ctypes import c_double

    entries = (c_double * int(n_rows * n_columns)).from_address(int(address))
    return np.asarray(np.ctypeslib.as_array(entries).reshape(n_rows, n_columns), dtype=np.float64)


def _register_matrix_at() -> None:
    """Compiled form of `matrix_at`."""
    compiler = numba()

    def pointer_to(typing_context: Any, address: Any) -> Any:
        """Numba intrinsic that casts an integer address to a pointer."""
        del typing_context

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del context, signature
            return builder.inttoptr(arguments[0], compiler.core.cgutils.voidptr_t)

        return compiler.types.voidptr(address), code

    pointer, carray = compiler.extending.intrinsic(pointer_to), compiler.carray

    def compiled_form(address: int, n_rows: int, n_columns: int) -> Any:
        del address, n_rows, n_columns

        def view(address: int, n_rows: int, n_columns: int) -> Matrix:
            matrix: Matrix = carray(pointer(address), (n_rows, n_columns), np.float64)
            return matrix

        return view

    compiler.extending.overload(matrix_at, jit_options={"fastmath": set(FUSED)})(compiled_form)


def load_cell(cells: NDArray[np.int64], place: int) -> int:
    """cells[place], with everything that its writer wrote before; the cell is shared by threads."""
    return int(cells[place])


def exchange_cell(cells: NDArray[np.int64], place: int, expected: int, new: int) -> bool:
    """Set cells[place] if it has the expected value, in one step for all threads; return whether it had."""
    if cells[place] != expected:
        return False
    cells[place] = new
    return True


def _register_cells() -> None:
    """Compiled forms of `load_cell` and `exchange_cell`."""
    compiler = numba()
    types, intrinsic = compiler.types, compiler.extending.intrinsic

    def pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cells = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.gep(cells.data, [arguments[1]])

    def load(typing_context: Any, cells: Any, place: Any) -> Any:
        """Numba intrinsic of `load_cell`."""
        del typing_context

        def code(*given: Any) -> Any:
            return given[1].load_atomic(pointer(*given), "acquire", 8)

        return types.int64(cells, place), code

    def exchange(typing_context: Any, cells: Any, place: Any, expected: Any, new: Any) -> Any:
        """Numba intrinsic of `exchange_cell`."""
        del typing_context, expected, new

        def code(*given: Any) -> Any:
            builder, (_, _, expected, new) = given[1], given[3]
            return builder.extract_value(builder.cmpxchg(pointer(*given), expected, new, "acq_rel", "acquire"), 1)

        return types.boolean(cells, place, types.int64, types.int64), code

    loaded, exchanged = intrinsic(load), intrinsic(exchange)
    overload = compiler.extending.overload
    overload(load_cell)(lambda cells, place: lambda cells, place: loaded(cells, place))  # noqa: ARG005
    overload(exchange_cell)(
        lambda cells, place, expected, new: lambda cells, place, expected, new: exchanged(cells, place, expected, new)  # noqa: ARG005
    )


class Loops:
    """Group of kernels by name, compiled together in a background thread once NumPy has done enough work.

    Each attribute is None until then.
    """

    def __init__(self, *, work_before_compile: int = WORK_BEFORE_COMPILE, **loops: Loop) -> None:
        self.is_compiled = False
        self.has_failed = False
        self._work, self._work_before_compile = 0, work_before_compile
        self._lock = Lock()
        self._compiling = Lock()
        self._thread: Thread | None = None
        self._loops = loops
        for name in loops:
            setattr(self, name, None)
        groups.append(self)

    if TYPE_CHECKING:  # `__init__` sets the names; a method would slow every lookup down

        def __getattr__(self, name: str) -> Any: ...

    @property
    def names(self) -> str:
        """Names of the kernels, for the log."""
        return ", ".join(loop.loop.__name__ for loop in self._loops.values())

    def ensure(self) -> None:
        """Compile unless that is done; on failure NumPy stays in use and a warning is logged."""
        with self._compiling:
            if self.is_compiled or self.has_failed:
                return
            if not _is_usable:
                self.has_failed = True
                _warn_once("This process was forked while another thread used Numba: it stays with NumPy.")
                return
            names, start = self.names, perf_counter()
            logger.info("Compiling loops or loading them from disk: %s", names)
            try:
                self.compile()
            except _Interrupted:
                logger.info("The program ends: not compiled: %s", names)
            except Exception as error:
                self.has_failed = True
                logger.warning("Compiling failed, so NumPy is used instead of %s: %r", names, error)
                logger.debug("Where compiling failed", exc_info=True)
            else:
                logger.info("Compiled or loaded in %.1f s: %s", perf_counter() - start, names)

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache; takes seconds the first time."""
        uninterrupted(self._register_parts)
        ready = {name: compiled(loop.loop, loop.signature, loop.fast) for name, loop in self._loops.items()}
        for name, function in ready.items():
            setattr(self, name, function)
        self.is_compiled = True

    def _register_parts(self) -> None:
        register, modules = numba().extending.register_jitable, {loop.loop.__module__ for loop in self._loops.values()}
        for function, (fast, is_inlined) in _parts.items():
            if function.__module__ in modules and function not in _registered:
                register(fastmath=set(fast) or False, inline="always" if is_inlined else "never")(function)
                _registered.add(function)
        if matrix_at not in _registered:
            _register_matrix_at()
            _register_cells()
            _registered.add(matrix_at)

    def begin_in_child(self) -> None:
        """Reset after a fork: the compiling thread does not exist in the child, and its locks stay locked."""
        self._lock, self._compiling = Lock(), Lock()
        if not self.is_compiled:
            self._thread = None

    def record_work(self, entries: int) -> None:
        """Record array entries processed without compiled kernels; starts compilation once there are enough."""
        self._work += entries + CALL
        if self._work > self._work_before_compile and self._thread is None:
            with self._lock:
                if self._thread is None:
                    # Not a daemon: a thread inside LLVM would crash at interpreter exit. It stops by itself.
                    thread = Thread(target=self.ensure, name="kernelbandits-compile")
                    try:
                        thread.start()
                    except RuntimeError as error:  # too many threads, or the interpreter is exiting
                        self._work = 0
                        _warn_once("Compiling in the background could not begin: %r", error)
                    else:
                        self._thread = thread


def compile_ahead() -> None:
    """Compile all kernels now, instead of in the background after enough work.

    Use it if the first rounds must be as fast as later ones: in a service before it answers requests, or in a
    benchmark. Takes seconds once per machine, and a fraction of a second in later processes. Results do not depend on
    it.

    If Numba cannot be imported or fails, nothing is raised: all actions are scored in NumPy, more slowly, and a warning
    is logged by the logger "kernelbandits._compile".
    """
    for name in LOOP_MODULES:
        import_module(f"kernelbandits.{name}")
    for group in groups:
        group.ensure()
