"""Loops that are compiled in the background, once they have so much to do that it will be worth it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Lock, Thread
from typing import Final

__all__ = ["PATIENCE", "Background"]

PATIENCE: Final = 3_000_000
"""Array entries that NumPy handles, about 10 ms of work, before compiling begins."""


class Background(ABC):
    """Counts the work, and calls `compile` in a thread when it has become enough."""

    def __init__(self) -> None:
        self.is_compiled = False
        self._work = 0
        self._lock = Lock()
        self._thread: Thread | None = None

    @abstractmethod
    def compile(self) -> None:
        """Compile, or load what an earlier process compiled; takes seconds the first time."""

    def note(self, entries: int) -> None:
        """So many array entries were handled without compiled loops; enough of them begin the compiling."""
        self._work += entries
        if self._work > PATIENCE and self._thread is None:
            with self._lock:
                if self._thread is None:
                    # Not a daemon: the interpreter waits for a compiler that is at work, and does not pull the
                    # ground from under it.
                    self._thread = Thread(target=self.compile, name="kernelbandits-compile")
                    self._thread.start()
