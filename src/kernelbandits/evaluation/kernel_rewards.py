"""Rewards as a posterior sees them, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.evaluation.distinct_rounds import DistinctRounds
from kernelbandits.evaluation.stacking import gathered, parts, sizes_of, stacked
from kernelbandits.evaluation.weighted_actions import WeightedActions
from kernelbandits.posterior import Posterior
from kernelbandits.posterior.blocks import blocks
from kernelbandits.types import Points, Vector

__all__ = ["GaussianRewards", "KernelRewards", "learn_log", "residual_variance"]

WIDTHS: Final = 2_000
"""Points whose widths are averaged to count the degrees of freedom that a fit has used."""


class KernelRewards:
    """Means of a posterior: the ridge estimate in the feature space of its kernel."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    def predict(self, rounds: Sequence[Points]) -> list[Vector]:
        """Expected reward of every action of each of these sets of actions, a few rounds at a time."""
        sizes, means = sizes_of(rounds), []
        for part in parts(sizes):
            ends = np.cumsum(sizes[part])[:-1]
            means += np.split(_means_of(self.posterior, stacked(self.posterior.kernel.kind, rounds[part])), ends)
        return means

    def predict_at(self, actions: WeightedActions) -> Vector:
        """Expected reward of each of these actions."""
        kind = self.posterior.kernel.kind
        return _means_of(self.posterior, gathered(kind, actions.rounds, actions.which, actions.actions))


class GaussianRewards(KernelRewards):
    """Means of a posterior and their errors, had the rewards been drawn from a Gaussian process.

    The process has the covariance (σ²/γ) k and the rewards noise of variance σ². Its posterior has the ridge estimate
    as its mean, whatever σ is, and σ² times `Posterior.covariance` as its covariance.

    Parameters
    ----------
    posterior
        After learning.
    shown
        The points that it has learnt from, a reward each.
    rewards
        What was paid for each of them.
    noise_variance
        σ²; None estimates it from the residuals.
    """

    def __init__(self, posterior: Posterior, shown: Points, rewards: Vector, noise_variance: float | None) -> None:
        super().__init__(posterior)
        self._shown, self._rewards, self._given = shown, rewards, noise_variance

    @cached_property
    def noise_variance(self) -> float:
        """σ², as given or from the residuals."""
        return residual_variance(self.posterior, self._shown, self._rewards) if self._given is None else self._given

    def error_covariance(self, summed: WeightedActions, others: WeightedActions) -> Vector:
        """Covariance of the error of a weighted sum of rewards with that at each other action, divided by σ²."""
        kind = self.posterior.kernel.kind
        points, theirs = (gathered(kind, one.rounds, one.which, one.actions) for one in (summed, others))
        return self.posterior.covariance_of_sum(points, summed.weights, theirs)


def _means_of(posterior: Posterior, points: Points) -> Vector:
    """Means alone: widths would take as long as the number of points squared, and nobody asks for them."""
    kernel = posterior.kernel
    n_features = kernel.n_features(points)
    if n_features is not None and n_features <= posterior.size:
        return posterior.predict(points).mean
    known, weights, _, _ = posterior.support()
    means = [kernel.gram(part, known) @ weights for _, part in blocks(kernel.kind, points, posterior.size)]
    return np.concatenate(means)


def residual_variance(posterior: Posterior, points: Points, rewards: Vector) -> float:
    """Variance of the noise, from what the fit leaves: Σ (r − r̂)² / (n − Σ width²), sums over what was learnt.

    Σ width² = tr K(K + γI)⁻¹ is the number of parameters that the fit has used; of more than 2,000 observations it is
    estimated from as many, evenly spread. Where the fit leaves less than one of n observations, the residuals are too
    small to tell, and the size of the rewards does: Σ r (r − r̂) / n = γ rᵀ(K + γI)⁻¹r / n. Both are unbiased where the
    rewards are drawn from the process that the posterior assumes, and too high where the regularisation flattens what
    is there.

    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.posterior import ExactPosterior
    >>> posterior = ExactPosterior(Delta(), regularisation=1.0)
    >>> posterior.observe(["a", "a", "a"], [0.0, 1.0, 2.0])
    >>> round(residual_variance(posterior, ["a", "a", "a"], np.array([0.0, 1.0, 2.0])), 4)  # 2.1875 / (3 − 3/4)
    0.9722
    """
    n_rewards = len(rewards)
    some = np.linspace(0, n_rewards - 1, min(n_rewards, WIDTHS)).round().astype(np.intp)
    widths = posterior.predict(posterior.kernel.kind.take(posterior.kernel.kind.check(points), some)).width
    left = n_rewards * (1.0 - float(np.mean(widths**2)))
    residuals = rewards - _means_of(posterior, points)
    if left < 1.0:
        return max(0.0, float(rewards @ residuals)) / n_rewards
    return float(residuals @ residuals) / left


def learn_log(posterior: Posterior, log: Log) -> Points:
    """Let a posterior observe every action shown with its reward, in the order of the log, in one call; gives them."""
    rounds = DistinctRounds.of_log(log)
    shown = gathered(posterior.kernel.kind, rounds.contexts, rounds.which, log.actions)
    posterior.observe(shown, log.rewards)
    return shown
