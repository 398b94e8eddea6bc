"""MABWiser's LinUCB with a weight vector per arm."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting
from benchmarks.workloads import Matrix

__all__ = ["PEER", "Disjoint"]


class Disjoint:
    """`LearningPolicy.LinUCB`: arms share one context of ten numbers (here the first row) and nothing else.

    It answers only once it was fitted, so it begins with one observation of nothing.
    """

    def __init__(self, setting: Setting) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        learning = LearningPolicy.LinUCB(alpha=setting.exploration, l2_lambda=setting.regularization)
        self._policy: Any = MAB(list(range(setting.n_actions)), learning)
        self._policy.fit([0], [0.0], np.zeros((1, setting.n_features)))
        self._shared = np.zeros((1, setting.n_features))

    def choose(self, contexts: Matrix) -> Choice:
        self._shared = contexts[:1]
        row = int(self._policy.predict(self._shared))
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        self._policy.partial_fit([choice.action], [reward], self._shared)


PEER: Final = Peer(name="MABWiser", package="mabwiser", start=Disjoint, is_same_model=False)
