"""How long the rest of a study will take, judged by what was played of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from typing import Final

__all__ = ["Outlook", "Pace"]

FEW_LOOKS: Final = 5
"""Looks at a job up to which its rounds count as equally slow: a curve through less would be noise."""


class Pace:
    """Seconds of a job by the rounds it has finished: a t + c t², so that rounds may become slower with history.

    Least squares over all looks, with a ≥ 0 and c ≥ 0, counted from the first look: when the job began is not known.

    >>> pace = Pace(0, 0.0)
    >>> for t in range(1, 11):
    ...     pace.look(t, 2.0 * t + 0.5 * t**2)
    >>> round(pace.seconds(10, 20))  # 40 + 200, without the 20 + 50 of the first ten rounds
    170
    """

    def __init__(self, finished: int, now: float) -> None:
        self.finished, self.now = finished, now
        self._first = finished, now
        self._n_looks = 0
        self._uu = self._uv = self._vv = self._us = self._vs = 0.0  # sums of products of t, t² and seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the first look."""
        return self.now - self._first[1]

    def look(self, finished: int, now: float) -> None:
        """The job has finished so many rounds by now; a look without a new round only moves the time."""
        is_new, self.now = finished > self.finished, now
        if not is_new:
            return
        self.finished = finished
        u, v, seconds = finished - self._first[0], finished**2 - self._first[0] ** 2, self.elapsed
        self._n_looks += 1
        self._uu, self._uv, self._vv = self._uu + u * u, self._uv + u * v, self._vv + v * v
        self._us, self._vs = self._us + u * seconds, self._vs + v * seconds

    def seconds(self, begin: int, end: int) -> float | None:
        """What rounds begin + 1 to end take; None before anything was seen."""
        if not self._n_looks:
            return None
        a, c = self._fit()
        return a * (end - begin) + c * (end**2 - begin**2)

    def _fit(self) -> tuple[float, float]:
        determinant = self._uu * self._vv - self._uv**2
        if self._n_looks <= FEW_LOOKS or determinant <= 0.0:
            return self._us / self._uu, 0.0
        a = (self._vv * self._us - self._uv * self._vs) / determinant
        c = (self._uu * self._vs - self._uv * self._us) / determinant
        if c < 0.0:
            return self._us / self._uu, 0.0
        return (a, c) if a >= 0.0 else (0.0, self._vs / self._vv)


class Outlook:
    """Looks at the jobs of a study while they are played, and says how long the others will take.

    A job is expected to take as long as finished ones of its kind did on average, one policy in one environment. Where
    none is finished, it is judged by those that are being played, whose rounds may become slower; where none of its
    kind was begun, by the mean over the other kinds. Together they take the seconds of all jobs over the number of jobs
    that were played at once so far, and no less than the longest of them.

    Parameters
    ----------
    kinds
        Of every job, in their order.
    horizon
        Rounds of a job.
    clock
        Seconds from any beginning.
    """

    def __init__(self, kinds: Sequence[Hashable], horizon: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._kinds, self._horizon, self._clock = kinds, horizon, clock
        self._left = dict.fromkeys(range(len(kinds)))
        self._paces: dict[int, Pace] = {}
        self._taken: dict[Hashable, list[float]] = {}
        self._began: float | None = None

    def look(self, rounds: Sequence[int]) -> None:
        """So many rounds each job has finished by now; below zero where it was not begun."""
        now = self._clock()
        for place in self._left:
            finished = rounds[place]
            if finished < 0:
                continue
            self._began = now if self._began is None else self._began
            pace = self._paces.get(place)
            if pace is None or finished < pace.finished:  # a job that was lost begins again
                self._paces[place] = Pace(finished, now)
            else:
                pace.look(finished, now)

    def finish(self, place: int, seconds: float | None) -> None:
        """A job is finished; None where it failed, which says nothing about others."""
        if self._began is None:
            self._began = self._clock() - (seconds or 0.0)
        self._left.pop(place, None)
        self._paces.pop(place, None)
        if seconds is not None:
            self._taken.setdefault(self._kinds[place], []).append(seconds)

    def seconds_left(self) -> float | None:
        """Seconds until all jobs are finished; None where nothing can be told yet."""
        if not self._left:
            return 0.0
        known = self._by_kind()
        if not known:
            return None
        typical = sum(known.values()) / len(known)
        rest = [self._rest(place, known.get(self._kinds[place], typical)) for place in self._left]
        return max(max(rest), sum(rest) / self._n_at_once())

    def _by_kind(self) -> dict[Hashable, float]:
        """Seconds of a whole job of each kind of which something was seen."""
        seen: dict[Hashable, list[float]] = {}
        for place, pace in self._paces.items():
            seconds = pace.seconds(0, self._horizon)
            if seconds is not None:
                seen.setdefault(self._kinds[place], []).append(seconds)
        return {kind: sum(values) / len(values) for kind, values in {**seen, **self._taken}.items()}

    def _rest(self, place: int, whole: float) -> float:
        """Seconds that one job will still take; one that is overdue is judged by its own pace."""
        pace = self._paces.get(place)
        if pace is None:
            return whole
        own = pace.seconds(pace.finished, self._horizon)
        if self._kinds[place] in self._taken and (own is None or whole > pace.elapsed):
            return max(whole - pace.elapsed, 0.0)
        return whole if own is None else own

    def _n_at_once(self) -> float:
        """Jobs that were played at once so far, on average; never more than are left."""
        busy = sum(map(sum, self._taken.values())) + sum(pace.elapsed for pace in self._paces.values())
        elapsed = 0.0 if self._began is None else self._clock() - self._began
        measured = busy / elapsed if elapsed > 0.0 else 1.0
        return min(max(1.0, measured), float(len(self._left)))
