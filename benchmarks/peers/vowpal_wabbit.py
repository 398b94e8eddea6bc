"""Vowpal Wabbit's SquareCB over actions with features."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.peers.base import Peer, Setting
from benchmarks.workloads import Matrix

__all__ = ["PEER", "SquareCB"]


class _Played:
    """The chosen action with the text that it was chosen from."""

    __slots__ = ("action", "lines", "probability")

    def __init__(self, action: int, lines: list[str], probability: float) -> None:
        self.action, self.lines, self.probability = action, lines, probability


class SquareCB:
    """`--cb_explore_adf --squarecb` with text examples, the way its tutorials feed it; writing the text is timed."""

    def __init__(self, setting: Setting) -> None:
        import vowpalwabbit

        self._workspace: Any = vowpalwabbit.Workspace("--cb_explore_adf --squarecb --quiet")
        self._rng = np.random.default_rng(0)

    def choose(self, contexts: Matrix) -> _Played:
        lines = ["|a " + " ".join(f"{name}:{value:.6g}" for name, value in enumerate(row)) for row in contexts.tolist()]
        probabilities = self._workspace.predict("\n".join(lines))
        row = int(np.searchsorted(np.cumsum(probabilities), self._rng.random() * sum(probabilities)))
        row = min(row, len(lines) - 1)
        return _Played(row, lines, probabilities[row])

    def learn(self, choice: _Played, reward: float) -> None:
        lines = list(choice.lines)
        lines[choice.action] = f"0:{-reward:.6g}:{choice.probability:.6g} {lines[choice.action]}"
        self._workspace.learn("\n".join(lines))


PEER: Final = Peer(name="Vowpal Wabbit", package="vowpalwabbit", start=SquareCB, is_same_model=False)
