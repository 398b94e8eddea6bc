"""The service's clock: logged time, which never goes backwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

__all__ = ["JUMP", "Clock", "timestamp"]

JUMP: Final = 60.0
"""Seconds by which the wall clock may depart from the monotonic one before it counts as a jump."""


class Clock:
    """Time of events: the last logged time plus what has passed on the monotonic clock.

    A wall clock that jumps, back or forward, changes nothing but `drift`. After a restart, time continues at the wall
    clock, or at the last logged time if that is later.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._base, self._start = wall(), monotonic()
        self._wall_start = self._base

    def resume(self, last: float | None) -> float:
        """Continue after a row that was logged at this time; return the seconds since then."""
        wall = self._wall()
        self._base = wall if last is None else max(wall, last)
        self._start, self._wall_start = self._monotonic(), wall
        return 0.0 if last is None else max(0.0, wall - last)

    def now(self) -> float:
        """The time of an event now."""
        return self._base + (self._monotonic() - self._start)

    @property
    def drift(self) -> float:
        """Seconds by which the wall clock has departed from the monotonic clock since the start."""
        return (self._wall() - self._wall_start) - (self._monotonic() - self._start)

    def accept_drift(self) -> float:
        """Take the present wall clock as the reference of later jumps; return the drift so far."""
        drift = self.drift
        self._wall_start += drift
        return drift


def timestamp(at: float) -> str:
    """A time as RFC 3339 text."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
