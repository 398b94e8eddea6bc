"""river's LinUCB with a weight vector per arm."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.peers.base import Choice, Peer, Setting
from benchmarks.workloads import Matrix

__all__ = ["PEER", "Disjoint"]


class Disjoint:
    """`LinUCBDisjoint`: arms share one context of ten numbers (here the first row) and nothing else."""

    def __init__(self, setting: Setting) -> None:
        from river.bandit import LinUCBDisjoint

        self._arms = list(range(setting.n_actions))
        self._policy: Any = LinUCBDisjoint(alpha=setting.exploration, beta=1.0 / setting.regularization, seed=0)
        self._shared: dict[int, float] = {}

    def choose(self, contexts: Matrix) -> Choice:
        self._shared = dict(enumerate(contexts[0].tolist()))
        row = self._policy.pull(self._arms, context=self._shared)
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        self._policy.update(choice.action, self._shared, reward)


PEER: Final = Peer(name="river", package="river", start=Disjoint, is_same_model=False)
