"""Ridge regression on the features, in plain NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting
from benchmarks.workloads import Matrix

__all__ = ["PEER", "Ridge"]


class Ridge:
    """KernelUCB with the linear kernel as one would write it in an afternoon: θ, an inverse, a rank-one update."""

    def __init__(self, setting: Setting) -> None:
        self._inverse = np.eye(setting.n_features) / setting.regularization
        self._moments = np.zeros(setting.n_features)
        self._exploration = setting.exploration

    def choose(self, contexts: Matrix) -> Choice:
        mean = contexts @ (self._inverse @ self._moments)
        width = np.sqrt(np.einsum("nd,nd->n", contexts @ self._inverse, contexts))
        row = int(np.argmax(mean + self._exploration * width))
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        g = self._inverse @ choice.context
        self._inverse -= np.outer(g, g) / (1.0 + choice.context @ g)  # Sherman–Morrison
        self._moments += reward * choice.context


PEER: Final = Peer(name="plain NumPy", start=Ridge)
