"""Peers whose rounds get slower: a few rounds at a time, from prepared histories."""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any, Final

from benchmarks.cases import Case, Pace
from benchmarks.peers import Peer, Setting
from benchmarks.results import Outcome
from benchmarks.runs import Run
from benchmarks.timing import PowerLaw, middle, piecewise_total
from benchmarks.workloads import Round

__all__ = ["AtCheckpoints", "DecisionsDiffer", "checkpoints"]

CHECKPOINTS: Final = (100, 300, 1000, 2000)

FIRST_GUESS: Final = 1.5
"""Growth expected after the first checkpoint: exact methods go from linear early on to quadratic late."""


class DecisionsDiffer(Exception):
    """A peer of the same model chose another action than ours."""

    def __init__(self, round_index: int) -> None:
        super().__init__(f"another action in round {round_index}")
        self.round_index = round_index


class _Follower:
    """A peer that plays along with ours from some round on, and has to choose what ours chose."""

    def __init__(self, peer: Peer, case: Case, history: Run, first: int) -> None:
        self._peer, self._history = peer, history
        self._player: Any = peer.start(Setting.of(case.world, case.regime))
        if first > 1:
            self._player.remember(history.contexts[: first - 1], history.rewards[: first - 1])
        self.round_index = first

    def step(self, shown: Round) -> float:
        """Seconds of this round."""
        start = perf_counter()
        choice = self._player.choose(shown.contexts)
        chosen = perf_counter()
        place = self.round_index - 1
        if choice.action != self._history.rows[place]:
            raise DecisionsDiffer(self.round_index)
        reward = float(self._history.rewards[place])
        paid = perf_counter()
        self._player.learn(choice, reward)
        end = perf_counter()
        self.round_index += 1
        return chosen - start + end - paid


def checkpoints(horizon: int, repeats: int) -> list[int]:
    """First rounds of the checkpoints: the usual ones well inside the horizon, and its last rounds.

    >>> checkpoints(3000, 3)
    [100, 300, 1000, 2000, 2998]
    >>> checkpoints(500, 3)
    [100, 300, 498]
    """
    last = max(1, horizon - repeats + 1)
    return [t for t in CHECKPOINTS if t < 0.9 * last] + [last]


class _Checkpoint:
    """A few rounds in the middle of a run."""

    def __init__(self, peer: Peer, case: Case, history: Run, first: int, repeats: int) -> None:
        self.first = first
        self._follower = _Follower(peer, case, history, first)
        self._rounds = list(islice(case.world.rounds(), first - 1, first - 1 + repeats))
        self.seconds: list[float] = []

    def repeat(self, patience: float) -> None:
        """One more round; after two, only where they are short."""
        done = len(self.seconds)
        if done < len(self._rounds) and (done < 2 or sum(self.seconds) < patience):
            self.seconds.append(self._follower.step(self._rounds[done]))


class AtCheckpoints:
    """A peer whose rounds get slower: plays along for a while, then a few rounds from prepared histories."""

    def __init__(self, peer: Peer, case: Case, history: Run, pace: Pace) -> None:
        self.name = peer.name
        self._peer, self._case, self._history, self._pace = peer, case, history, pace
        self._checkpoints: list[_Checkpoint] | None = None
        self._left_out: list[int] = []
        self._prefix = 0
        self._differs_at: int | None = None

    def repeat(self) -> None:
        if self._differs_at is not None:
            return
        try:
            if self._checkpoints is None:
                self._play_along()
                self._set_out()
            else:
                for checkpoint in self._checkpoints:
                    checkpoint.repeat(self._pace.patience)
        except DecisionsDiffer as difference:
            self._differs_at = difference.round_index

    def outcome(self) -> Outcome:
        measured = [checkpoint for checkpoint in self._checkpoints or [] if checkpoint.seconds]
        if self._differs_at is not None or not measured:
            return Outcome(name=self.name, how="no figures", differs_at=self._differs_at)
        rounds, seconds = self._curve()
        law = PowerLaw.fit(rounds, seconds)
        # Two readings of the same checkpoints; the smaller one counts, so that a poor fit cannot flatter us.
        totals = [law.total(self._case.horizon), piecewise_total(rounds, seconds, self._case.horizon)]
        totals = totals if len(rounds) > 1 else []
        n_equal = self._prefix + sum(len(checkpoint.seconds) for checkpoint in measured)
        return Outcome(
            name=self.name,
            how=self._how(law, rounds, totals),
            total=min(totals, default=None),
            last_round=seconds[-1] if self._reaches_the_end else None,
            choices=f"equal in {n_equal:,} rounds (1–{self._prefix} and the checkpoints)",
            rounds=rounds,
            seconds=seconds,
        )

    def _play_along(self) -> None:
        follower = _Follower(self._peer, self._case, self._history, 1)
        spent = 0.0
        for shown in islice(self._case.world.rounds(), min(self._pace.prefix, len(self._history.rows))):
            spent += follower.step(shown)
            self._prefix += 1
            if spent > self._pace.prefix_seconds:
                break

    def _set_out(self) -> None:
        self._checkpoints = []
        for first in checkpoints(len(self._history.rows), self._pace.repeats):
            if self._expected(first) > self._pace.patience:
                self._left_out.append(first)
                continue
            checkpoint = _Checkpoint(self._peer, self._case, self._history, first, self._pace.repeats)
            self._checkpoints.append(checkpoint)
            checkpoint.repeat(self._pace.patience)

    @property
    def _reaches_the_end(self) -> bool:
        return self._history.is_whole and not self._left_out

    def _curve(self) -> tuple[list[int], list[float]]:
        done = [checkpoint for checkpoint in self._checkpoints or [] if checkpoint.seconds]
        return [c.first for c in done], [middle(c.seconds) for c in done]

    def _expected(self, round_index: int) -> float:
        """Seconds to be expected of this round, going by the checkpoints so far."""
        rounds, seconds = self._curve()
        if not rounds:
            return 0.0
        if len(rounds) == 1:
            return float(seconds[-1] * (round_index / rounds[-1]) ** FIRST_GUESS)
        return PowerLaw.fit(rounds, seconds).at(round_index)

    def _how(self, law: PowerLaw, rounds: list[int], totals: list[float]) -> str:
        if len(rounds) == 1:
            return f"one checkpoint, round {rounds[0]}: too few for a total"
        text = f"from checkpoints {', '.join(map(str, rounds))}: t^{law.exponent:.2f}"
        if len(rounds) > 2:  # two measurements are always met
            text += f", fit within {law.worst:.0%}: {totals[0]:,.3g} s, by pieces {totals[1]:,.3g} s"
        if self._left_out:
            text += f"; extrapolated beyond round {rounds[-1]:,}"
        return text
