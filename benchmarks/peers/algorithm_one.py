"""Algorithm 1 of Valko et al. (2013), corrected, in NumPy."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting, best_row
from benchmarks.workloads import Matrix, Vector, similarity

__all__ = ["PEER", "AlgorithmOne"]

BLOCK: Final = 2048
"""Actions scored at a time: large enough for matrix-matrix speed, small enough to stay near the cache."""


class AlgorithmOne:
    """KernelUCB with online updates: the inverse of K + γI grows by a Schur complement, and every action is scored.

    Follows the print except where it is wrong (docs/errata.md, E2 to E4): contexts of the round at hand, first inverse
    1/(k + γ), and γ inside. All actions are scored at once, by blocks, so this is the algorithm at matrix-matrix speed
    and not a loop in Python. As printed, it knows neither that a set is fixed nor that an action is repeated.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._bonus = setting.exploration / sqrt(setting.regularization)
        self._contexts: Matrix = np.empty((0, setting.n_features))
        self._rewards: Vector = np.empty(0)
        self._inverse: Matrix = np.empty((0, 0))

    def choose(self, contexts: Matrix) -> Choice:
        scores = np.concatenate(
            [self._scores(contexts[first : first + BLOCK]) for first in range(0, len(contexts), BLOCK)]
        )
        row = best_row(scores)
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        row = choice.context[None]
        b = similarity(self._setting.kernel, self._contexts, row)[:, 0]
        g = self._inverse @ b
        k22 = 1.0 / (self._own(row)[0] + self._setting.regularization - b @ g)
        n_seen = len(g)
        inverse = np.empty((n_seen + 1, n_seen + 1))
        np.multiply(g[:, None], k22 * g, out=inverse[:n_seen, :n_seen])
        inverse[:n_seen, :n_seen] += self._inverse
        inverse[:n_seen, n_seen] = inverse[n_seen, :n_seen] = -k22 * g
        inverse[n_seen, n_seen] = k22
        self._inverse = inverse
        self._contexts = np.vstack([self._contexts, row])
        self._rewards = np.append(self._rewards, reward)

    def remember(self, contexts: Matrix, rewards: Vector) -> None:
        gram = similarity(self._setting.kernel, contexts, contexts)
        gram[np.diag_indices_from(gram)] += self._setting.regularization
        self._inverse = np.asarray(np.linalg.inv(gram), dtype=np.float64)
        self._contexts, self._rewards = contexts.copy(), rewards.copy()

    def _scores(self, contexts: Matrix) -> Vector:
        similar = similarity(self._setting.kernel, self._contexts, contexts)  # (n_seen, n_block)
        solved = self._inverse @ similar
        mean = self._rewards @ solved
        unexplained = self._own(contexts) - np.einsum("tn,tn->n", similar, solved)
        return np.asarray(mean + self._bonus * np.sqrt(np.maximum(unexplained, 0.0)))

    def _own(self, contexts: Matrix) -> Vector:
        if self._setting.kernel.family == "linear":
            return np.asarray(np.einsum("nd,nd->n", contexts, contexts))
        return np.ones(len(contexts))


PEER: Final = Peer(name="Algorithm 1", start=AlgorithmOne, grows=True)
