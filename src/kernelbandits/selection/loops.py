"""The compiled passes, with a NumPy twin of each for small problems and for the first rounds.

Numba is imported, and the loops are compiled, in the background once an engine has done so much work that it will
pay; until then the twins answer. So a newcomer's first rounds wait for no compiler, and importing the library does not
import Numba. A compiled loop is kept on disk by Numba, so that later processes only load it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import Lock, Thread
from types import FunctionType
from typing import Any, Final

from kernelbandits.selection import passes, twins

__all__ = ["Loops", "loops"]

PATIENCE: Final = 3_000_000
"""Array entries that the twins handle, about 10 ms of work, before compiling begins."""


class Loops:
    """The passes, as twins until `compile` has run."""

    def __init__(self) -> None:
        self.pull: Callable[..., None] = twins.pull_twin
        self.screen: Callable[..., None] = twins.screen_twin
        self.best: Callable[..., tuple[float, int]] = twins.best_twin
        self.changes: Callable[..., int] = twins.changes_twin
        self.rest: Callable[..., None] = twins.rest_twin
        self.round: Callable[..., int] | None = None
        """A whole round in one call; there is none before compiling, when the other passes are called one by one."""
        self.is_compiled = False
        self._work = 0
        self._lock = Lock()
        self._thread: Thread | None = None

    def note(self, entries: int) -> None:
        """So many array entries were handled by the twins; enough of them begin the compiling."""
        self._work += entries
        if self._work > PATIENCE and self._thread is None:
            with self._lock:
                if self._thread is None:
                    # Not a daemon: the interpreter waits for a compiler that is at work, and does not pull the
                    # ground from under it.
                    self._thread = Thread(target=self.compile, name="kernelbandits-compile")
                    self._thread.start()

    def compile(self) -> None:
        """Compile, or load what an earlier process compiled; takes seconds the first time."""
        compiled = _compiled()
        for name in NAMES:
            setattr(self, name, compiled[name])
        self.is_compiled = True


NAMES: Final = ("pull", "screen", "best", "changes", "rest", "round")


def _compiled() -> dict[str, Any]:
    """The loops with fixed signatures. No sum is reordered, so threads change nothing; a maximum may be."""
    numba = import_module("numba")
    vector, matrix, flags = "float64[::1]", "float64[:, ::1]", "uint8[::1]"
    places, table = "int64[::1]", "int64[:, ::1]"
    part = f"{matrix}, int64, int64"
    signatures = {
        "pull": f"void({matrix}, int64, float64, int64, int64, {vector}, int64, float64, float64, {part}, float64, "
        f"float64, {flags})",
        "screen": f"void({part}, float64, float64, {flags})",
        "best": f"Tuple((float64, int64))({matrix}, float64, int64, {flags}, {places})",
        "changes": f"int64({vector}, {vector}, {matrix}, {places})",
        "rest": f"void({vector}, {vector}, {vector}, {vector})",
        "round": f"int64({vector}, {vector}, {matrix}, {table}, {table}, {matrix}, {matrix}, {matrix}, {flags}, "
        f"{places}, {vector}, int64, int64, int64, int64, int64, boolean, float64, float64)",
    }
    loose = {"rest": {"reassoc", "nnan"}}
    compiled: dict[str, Any] = {}
    for name in NAMES:
        source = getattr(passes, f"{name}_loop")
        # A loop that calls another has to find the compiled one under its name.
        names = {**source.__globals__, **{f"{other}_loop": loop for other, loop in compiled.items()}}
        function = FunctionType(source.__code__, names, source.__name__)
        function.__qualname__, function.__module__ = source.__qualname__, source.__module__
        compile_ = numba.njit(signatures[name], cache=True, nogil=True, fastmath=loose.get(name, False))
        compiled[name] = compile_(function)
    return compiled


loops: Final = Loops()
"""Shared by all engines of the process."""
