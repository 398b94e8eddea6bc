"""One contestant through one world, against the clock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from time import perf_counter, process_time
from typing import Final

import numpy as np
from numpy.typing import NDArray

import kernelbandits as kb
from benchmarks.cases import Case
from benchmarks.peers import Peer, Setting
from benchmarks.workloads import Matrix, Vector

__all__ = ["Run", "play_through", "warm_up"]

WARM_UP: Final = 300
"""Rounds before the clock counts: enough that whatever is loaded on first use has been used."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """What was chosen and paid, and how long each round took."""

    rows: NDArray[np.intp]
    contexts: Matrix
    """The chosen ones."""

    rewards: Vector
    seconds: Vector
    """Of `choose` and `learn` together, per round."""

    preparation: float
    """Seconds spent on a fixed set before the first round."""

    cpu_share: float
    horizon: int
    """Rounds that were requested; more than `len(rows)` where the run was stopped."""

    @property
    def is_whole(self) -> bool:
        """Whether it reached its horizon."""
        return len(self.rows) == self.horizon

    @property
    def total(self) -> float:
        """Seconds of the rounds played, preparation included."""
        return self.preparation + float(self.seconds.sum())


def warm_up(peer: Peer, case: Case, *, limit: float) -> float:
    """Seconds of the first rounds in this process: what a newcomer waits for, and no total contains."""
    began = perf_counter()
    kb.compile_ahead()
    play_through(peer, case, limit=limit, horizon=min(WARM_UP, case.horizon))
    return perf_counter() - began


def play_through(peer: Peer, case: Case, *, limit: float, horizon: int | None = None) -> Run:
    """Play until the horizon or the limit in seconds; contexts and rewards are drawn outside the clock."""
    horizon = horizon or case.horizon
    player = peer.start(Setting.of(case.world, case.regime))
    choose, learn = player.choose, player.learn
    rows = np.empty(horizon, dtype=np.intp)
    contexts = np.empty((horizon, case.world.n_features))
    rewards, seconds = np.empty(horizon), np.empty(horizon)

    rounds = case.world.rounds()
    first = next(rounds)
    is_fixed = case.world.is_fixed
    began, cpu_began = perf_counter(), process_time()
    offered = peer.fixed(first.contexts) if is_fixed else first.contexts
    preparation = perf_counter() - began
    played = 0
    spent = preparation
    for played, shown in enumerate(islice(chain([first], rounds), horizon), start=1):
        if not is_fixed:
            offered = shown.contexts
        start = perf_counter()
        choice = choose(offered)
        chosen = perf_counter()
        row = choice.action
        reward = shown.reward(row)
        paid = perf_counter()
        learn(choice, reward)
        end = perf_counter()
        now = played - 1
        seconds[now] = chosen - start + end - paid
        rows[now], contexts[now], rewards[now] = row, shown.contexts[row], reward
        spent += seconds[now]
        if spent > limit:
            break
    wall = perf_counter() - began
    return Run(
        rows=rows[:played],
        contexts=contexts[:played],
        rewards=rewards[:played],
        seconds=seconds[:played],
        preparation=preparation,
        cpu_share=(process_time() - cpu_began) / max(wall, 1e-9),
        horizon=horizon,
    )
