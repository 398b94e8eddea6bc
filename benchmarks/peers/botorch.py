"""BoTorch's upper confidence bound over a discrete set."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from benchmarks.peers.base import Choice, Peer, Setting, best_row
from benchmarks.workloads import Matrix, Vector

__all__ = ["PEER", "DiscreteUCB"]

BATCH: Final = 2048
"""Candidates evaluated at a time, as `optimize_acqf_discrete` does."""


class DiscreteUCB:
    """`SingleTaskGP` with fixed kernel and noise, `UpperConfidenceBound(beta = η²/γ)` at every action, in float64.

    Exact: gpytorch would use conjugate gradients for more than 800 observations, so Cholesky is set explicitly.
    """

    def __init__(self, setting: Setting) -> None:
        import torch
        from gpytorch.kernels import LinearKernel, RBFKernel
        from gpytorch.settings import max_cholesky_size

        self._torch: Any = torch
        self._with_cholesky: Any = max_cholesky_size
        if setting.kernel.family == "linear":
            self._kernel = LinearKernel().double()
            self._kernel.variance = 1.0
        else:
            self._kernel = RBFKernel().double()
            self._kernel.lengthscale = setting.kernel.length_scale
        self._kernel.requires_grad_(False)
        self._noise = setting.regularization
        self._beta = setting.exploration**2 / setting.regularization
        self._contexts: list[Vector] = []
        self._rewards: list[float] = []

    def choose(self, contexts: Matrix) -> Choice:
        if not self._contexts:  # a model of nothing cannot be built; every action has the prior's score
            own = self._kernel(self._torch.from_numpy(contexts), diag=True).numpy()
            row = best_row(np.sqrt(self._beta * own))
        else:
            row = best_row(self._scores(contexts))
        return Choice(row, contexts[row])

    def learn(self, choice: Choice, reward: float) -> None:
        self._contexts.append(choice.context)
        self._rewards.append(reward)

    def remember(self, contexts: Matrix, rewards: Vector) -> None:
        self._contexts, self._rewards = list(contexts), [float(reward) for reward in rewards]

    def _scores(self, contexts: Matrix) -> Vector:
        from botorch.acquisition import UpperConfidenceBound

        torch = self._torch
        with torch.no_grad(), self._with_cholesky(1_000_000), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on scaling, which a comparison of equal models cannot take
            acquisition = UpperConfidenceBound(self._model(), beta=self._beta)
            candidates = torch.from_numpy(np.ascontiguousarray(contexts)).unsqueeze(1)  # (n_actions, 1, n_features)
            scores = torch.cat([acquisition(batch) for batch in candidates.split(BATCH)])
        return np.asarray(scores.numpy())

    def _model(self) -> Any:
        from botorch.models import SingleTaskGP
        from gpytorch.means import ZeroMean

        contexts = self._torch.from_numpy(np.array(self._contexts))
        rewards = self._torch.from_numpy(np.array(self._rewards)).unsqueeze(-1)
        noise = self._torch.full_like(rewards, self._noise)
        return SingleTaskGP(
            contexts, rewards, noise, covar_module=self._kernel, mean_module=ZeroMean(), outcome_transform=None
        )


PEER: Final = Peer(name="BoTorch", package="botorch", start=DiscreteUCB, grows=True)
