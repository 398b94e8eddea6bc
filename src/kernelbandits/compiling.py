"""Loops that are compiled in the background, once they have so much to do that it will pay.

Until then NumPy answers in their place, so a newcomer's first rounds wait for no compiler, and importing the library
does not import Numba. A compiled loop is kept on disk by Numba, so that later processes only load it.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from threading import Lock, Thread
from typing import Any, Final

__all__ = ["MATRIX", "SUMS_IN_ANY_ORDER", "VECTOR", "Background", "Loop", "Loops", "compiled", "groups", "numba"]

VECTOR: Final = "float64[::1]"
MATRIX: Final = "float64[:, ::1]"

SUMS_IN_ANY_ORDER: Final = frozenset({"reassoc", "contract", "nsz"})
"""Lets a compiler add several terms of a sum at once; infinities and NaN mean what they mean."""

PATIENCE: Final = 3_000_000
"""Array entries that NumPy handles, about 10 ms of work, before compiling begins."""

CALL: Final = 3_000
"""Entries that a call counts for, however small its arrays are: a thousand calls take a tenth of a second."""


NO_COLOURS: Final = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"

groups: Final[list[Background]] = []
"""All loops of the process."""


def _begin_in_child() -> None:
    for group in groups:
        group.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


def numba() -> Any:
    """Numba, without colours in its messages, where nobody has imported it yet.

    It makes thousands of messages while it compiles, and colouring each of them (where colorama is installed) puts
    another `sys.stdout` in place for a moment: what another thread prints or redirects just then would be lost.
    """
    if "numba" in sys.modules:
        return import_module("numba")  # waits where another thread is at it
    before = os.environ.get(NO_COLOURS)
    os.environ[NO_COLOURS] = "1"  # read while it is imported
    try:
        return import_module("numba")
    finally:
        if before is None:
            del os.environ[NO_COLOURS]
        else:
            os.environ[NO_COLOURS] = before


def compiled(loop: Callable[..., Any], signature: str, flags: frozenset[str] = frozenset()) -> Callable[..., Any]:
    """A loop compiled for one signature, outside the interpreter's lock, and kept on disk where that can be written."""
    options = {"nogil": True, "fastmath": set(flags) or False}
    try:
        ready: Callable[..., Any] = numba().njit(signature, cache=True, **options)(loop)
    except RuntimeError:  # there is no folder to keep it in
        ready = numba().njit(signature, **options)(loop)
    return ready


class Background(ABC):
    """Counts the work, and calls `compile` in a thread when it has become enough."""

    def __init__(self, *, patience: int = PATIENCE) -> None:
        self.is_compiled = False
        self._work, self._patience = 0, patience
        self._lock = Lock()
        self._compiling = Lock()
        self._thread: Thread | None = None
        groups.append(self)

    def ensure(self) -> None:
        """Compile, unless that was done before."""
        with self._compiling:
            if not self.is_compiled:
                self.compile()

    def begin_in_child(self) -> None:
        """After a fork: a thread that was compiling is gone, and what it had locked stays locked."""
        self._lock, self._compiling = Lock(), Lock()
        if not self.is_compiled:
            self._thread = None

    @abstractmethod
    def compile(self) -> None:
        """Compile, or load what an earlier process compiled; takes seconds the first time."""

    def note(self, entries: int) -> None:
        """So many array entries were handled without compiled loops; enough of them begin the compiling."""
        self._work += entries + CALL
        if self._work > self._patience and self._thread is None:
            with self._lock:
                if self._thread is None:
                    # Not a daemon: the interpreter waits for a compiler that is at work, and does not pull the
                    # ground from under it.
                    self._thread = Thread(target=self.ensure, name="kernelbandits-compile")
                    self._thread.start()


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A function in the form that Numba likes, the same in NumPy, and how to compile the first."""

    loop: Callable[..., Any]
    twin: Callable[..., Any] | None
    signature: str
    fast: frozenset[str] = frozenset()
    parts: Sequence[Callable[..., Any]] = ()
    """Plain functions that the loop calls; they stay in its file, or a change to them would not reach the disk."""


class Loops(Background):
    """A group of loops by name: the attribute of that name is the twin until compiling has finished."""

    def __init__(self, **loops: Loop) -> None:
        super().__init__()
        self._loops = loops
        for name, loop in loops.items():
            setattr(self, name, loop.twin)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # for type checkers: the names are set in __init__

    def compile(self) -> None:
        extending = numba().extending
        for part, fast in {part: loop.fast for loop in self._loops.values() for part in loop.parts}.items():
            extending.register_jitable(fastmath=set(fast) or False)(part)
        ready = {name: compiled(loop.loop, loop.signature, loop.fast) for name, loop in self._loops.items()}
        for name, function in ready.items():
            setattr(self, name, function)
        self.is_compiled = True
