"""contextualbandits' LinUCB with a weight vector per arm."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting
from benchmarks.workloads import Matrix

__all__ = ["PEER", "Disjoint"]


class Disjoint:
    """`online.LinUCB`: arms share one context of ten numbers (here the first row) and nothing else."""

    def __init__(self, setting: Setting) -> None:
        from contextualbandits.online import LinUCB

        self._policy: Any = LinUCB(
            setting.n_actions,
            alpha=setting.exploration,
            lambda_=setting.regularization,
            fit_intercept=False,
            use_float=False,
            random_state=1,
        )
        self._shared = np.zeros((1, setting.n_features))

    def choose(self, contexts: Matrix) -> Choice:
        self._shared = contexts[:1]
        row = int(self._policy.predict(self._shared)[0])
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        self._policy.partial_fit(self._shared, np.array([choice.action]), np.array([reward]))


PEER: Final = Peer(name="contextualbandits", package="contextualbandits", start=Disjoint, is_same_model=False)
