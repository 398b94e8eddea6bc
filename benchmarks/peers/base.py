"""What a contestant is: something that chooses and learns, as a policy of ours does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from benchmarks.workloads import KernelSpec, Matrix, Regime, Vector, World

__all__ = ["Choice", "Peer", "Player", "Remembering", "Setting", "best_row"]

TIE_TOLERANCE: Final = 1e-10
"""Scores this close are tied, and the lowest row wins: the library's rule, so that rounding decides nothing."""


class Setting(NamedTuple):
    """What a contestant knows before the first round."""

    kernel: KernelSpec
    regularization: float
    exploration: float
    n_actions: int
    n_features: int

    @classmethod
    def of(cls, world: World, regime: Regime) -> Setting:
        """The setting of a world under a regime."""
        return cls(world.kernel, regime.regularization, regime.exploration, world.n_actions, world.n_features)


class Choice(NamedTuple):
    """A peer's answer in one round."""

    action: int
    context: Vector


class Player(Protocol):
    """Plays one run. `choose` may answer anything that has an `action`; `learn` gets that answer back."""

    def choose(self, contexts: Any) -> Any:
        """The action of this round."""

    def learn(self, choice: Any, reward: float) -> None:
        """Take in the reward."""


class Remembering(Player, Protocol):
    """A player that can be put into the middle of a run."""

    def remember(self, contexts: Matrix, rewards: Vector) -> None:
        """Be as if these had been chosen and learned."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A program to compare with."""

    name: str
    start: Callable[[Setting], Any]
    """A fresh `Player`; heavy imports wait until here."""

    package: str | None = None
    """What must be importable; None where NumPy is enough."""

    is_same_model: bool = True
    """Whether it has to choose what we choose."""

    grows: bool = False
    """Whether its rounds get slower, so that it is timed at checkpoints (and can `remember`)."""

    fixed: Callable[[Matrix], Any] = np.asarray
    """What `choose` is given where the set is fixed; made once, before the first round, and timed with it."""

    def missing(self) -> str:
        """Why it cannot take part; empty when it can."""
        if self.package is None:
            return ""
        if find_spec(self.package) is None:
            return "not installed"
        try:
            import_module(self.package)
        except Exception as failure:  # a broken installation of another library can raise anything
            return f"installed, but does not import ({type(failure).__name__}: {failure})"
        return ""


def best_row(scores: Vector) -> int:
    """Lowest row whose score is tied with the best."""
    best = float(scores.max())
    return int(np.argmax(scores >= best - TIE_TOLERANCE * max(1.0, abs(best))))
