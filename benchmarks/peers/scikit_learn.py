"""scikit-learn's Gaussian process regression, refitted in every round."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting, best_row
from benchmarks.workloads import Matrix, Vector

__all__ = ["PEER", "RefittedRegressor"]


class RefittedRegressor:
    """`GaussianProcessRegressor(alpha=γ, optimizer=None)`: our mean, and sqrt(γ) times our width."""

    def __init__(self, setting: Setting) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, DotProduct

        if setting.kernel.family == "linear":
            kernel = DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")
        else:
            kernel = RBF(setting.kernel.length_scale, length_scale_bounds="fixed")
        self._model = GaussianProcessRegressor(kernel, alpha=setting.regularization, optimizer=None)
        self._bonus = setting.exploration / sqrt(setting.regularization)
        self._contexts: list[Vector] = []
        self._rewards: list[float] = []

    def choose(self, contexts: Matrix) -> Choice:
        if self._contexts:
            self._model.fit(np.array(self._contexts), np.array(self._rewards))
        mean, deviation = self._model.predict(contexts, return_std=True)
        row = best_row(mean + self._bonus * deviation)
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        self._contexts.append(choice.context)
        self._rewards.append(reward)

    def remember(self, contexts: Matrix, rewards: Vector) -> None:
        self._contexts, self._rewards = list(contexts), [float(reward) for reward in rewards]


PEER: Final = Peer(name="scikit-learn", package="sklearn", start=RefittedRegressor, grows=True)
