"""How a contestant is measured inside a case: in whole runs, in one call, or not at all; at checkpoints: `checkpoints`.

A session is begun once and then used for every repeat, so that the contestants of a case take turns.
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from benchmarks.cases import OURS_NAME, PLAY_NAME, Case, Pace
from benchmarks.peers import OURS, Peer, Setting
from benchmarks.results import Outcome
from benchmarks.runs import Run, play_through, warm_up
from benchmarks.timing import PowerLaw, end_of, middle, thinned

__all__ = ["Absent", "InOneCall", "Ours", "Session", "WholeRuns"]


class Session(Protocol):
    """One contestant in one case."""

    name: str

    def repeat(self) -> None:
        """One more repeat; the first one too."""

    def outcome(self) -> Outcome:
        """What was found."""


class Absent:
    """A contestant that cannot take part."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self._why = name, why

    def repeat(self) -> None:
        pass

    def outcome(self) -> Outcome:
        return Outcome(name=self.name, how=self._why)


class Ours:
    """Whole runs of ours; the first one is the history that the others are compared with."""

    name = OURS_NAME

    def __init__(self, case: Case, pace: Pace) -> None:
        self._case, self._pace = case, pace
        self.warm_up = warm_up(OURS, case, limit=pace.run_seconds / 4.0)
        self.runs = [play_through(OURS, case, limit=pace.run_seconds)]
        self._differs_at: int | None = None

    @property
    def history(self) -> Run:
        """The first run."""
        return self.runs[0]

    def repeat(self) -> None:
        spent = sum(run.total for run in self.runs)
        if not self.history.is_whole or spent + self.history.total > self._pace.run_seconds:
            return
        self.runs.append(play_through(OURS, self._case, limit=self._pace.run_seconds))
        if not np.array_equal(self.runs[-1].rows, self.history.rows):
            self._differs_at = 1 + int(np.argmax(self.runs[-1].rows != self.history.rows))

    def outcome(self) -> Outcome:
        rounds, seconds = thinned(self.runs[-1].seconds)
        return Outcome(
            name=self.name,
            how=_how(self.runs),
            total=middle([_whole(run) for run in self.runs]),
            last_round=middle([end_of(run.seconds) for run in self.runs]) if self.history.is_whole else None,
            choices=f"{len(np.unique(self.history.rows)):,} distinct" if self._case.world.is_fixed else "",
            differs_at=self._differs_at,
            rounds=rounds,
            seconds=seconds,
        )


def _whole(run: Run) -> float:
    """Seconds of the whole horizon; for a run that was stopped, the rest by the law of its last nine tenths."""
    if run.is_whole:
        return run.total
    played = len(run.seconds)
    rounds, seconds = thinned(run.seconds)
    late = [place for place, t in enumerate(rounds) if t > played / 10] or [len(rounds) - 1]
    law = PowerLaw.fit([rounds[place] for place in late], [seconds[place] for place in late])
    return run.total + law.total(run.horizon, after=played)


def _how(runs: list[Run]) -> str:
    if not runs[0].is_whole:
        return f"stopped at round {len(runs[0].rows):,} of {runs[0].horizon:,}, the rest from a fitted power law"
    if len(runs) == 1:
        return "one run"
    totals = [run.total for run in runs]
    return f"median of {len(runs)} runs, {min(totals):.3g} to {max(totals):.3g} s"


class WholeRuns:
    """A peer whose rounds do not get slower: played from the start for as long as there is time."""

    def __init__(self, peer: Peer, case: Case, history: Run, pace: Pace) -> None:
        self.name = peer.name
        self._peer, self._case, self._history, self._pace = peer, case, history, pace
        self._runs: list[Run] = []
        self._differs_at: int | None = None

    def repeat(self) -> None:
        run = play_through(self._peer, self._case, limit=self._pace.run_seconds / 20.0)
        self._runs.append(run)
        both = min(len(run.rows), len(self._history.rows))
        differs = run.rows[:both] != self._history.rows[:both]
        if self._peer.is_same_model and differs.any():
            self._differs_at = 1 + int(np.argmax(differs))

    def outcome(self) -> Outcome:
        rates = [float(run.seconds.mean()) for run in self._runs]
        played = min(len(run.rows) for run in self._runs)
        how = f"median of {len(rates)} runs"
        if played < self._case.horizon:
            how += f", stopped after {played:,} rounds"
        return Outcome(
            name=self.name,
            how=how,
            total=middle(rates) * self._case.horizon,
            last_round=middle([end_of(run.seconds) for run in self._runs]),
            choices=f"equal in {played:,} rounds" if self._peer.is_same_model else "another model",
            differs_at=self._differs_at,
        )


class InOneCall:
    """Ours through `policy.play`: all rounds and all rewards known beforehand, columns instead of decisions."""

    name = PLAY_NAME

    def __init__(self, case: Case, history: Run) -> None:
        self._case, self._history = case, history
        rounds = list(islice(case.world.rounds(), len(history.rows)))
        self._contexts = np.array([shown.contexts for shown in rounds])
        self._rewards = np.array([shown.rewards() for shown in rounds])
        self._seconds: list[float] = []
        self._differs_at: int | None = None

    def repeat(self) -> None:
        policy: Any = OURS.start(Setting.of(self._case.world, self._case.regime))  # `play` is younger than this file
        began = perf_counter()
        plays = policy.play(self._contexts, self._rewards)
        self._seconds.append(perf_counter() - began)
        differs = np.asarray(plays.action) != self._history.rows
        if differs.any():
            self._differs_at = 1 + int(np.argmax(differs))

    def outcome(self) -> Outcome:
        n_rounds = len(self._history.rows)
        return Outcome(
            name=self.name,
            how=f"median of {len(self._seconds)} calls",
            total=middle(self._seconds) * self._case.horizon / n_rounds,
            choices=f"equal in {n_rounds:,} rounds",
            differs_at=self._differs_at,
        )
