"""Estimators that weigh logged rewards, and need no model of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import nan

import numpy as np

from kernelbandits.checks import a_confidence
from kernelbandits.environments import Log
from kernelbandits.evaluation.diagnosis import weight_warnings
from kernelbandits.evaluation.estimate import CONFIDENCE, Estimate, mean_with_error, normal_interval
from kernelbandits.evaluation.weights import Target, checked_clip, clipped, effective_sample_size
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector

__all__ = ["IPS", "SelfNormalisedIPS", "weighted_estimate"]


@dataclass(frozen=True)
class _Weighted(ABC):
    """What both share: weights, their largest one, a normal interval."""

    clip: float | None = None
    _: KW_ONLY
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checked_clip(self.clip))
        object.__setattr__(self, "confidence", a_confidence(self.confidence))

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""
        target = Target.of(log, policy)
        weights = clipped(target.weights, self.clip)
        value, error = self._value(weights, log.rewards)
        warnings = weight_warnings(log, target.weights, self.clip)
        return weighted_estimate(value, error, target, weights, self.confidence, warnings)

    @abstractmethod
    def _value(self, weights: Vector, rewards: Vector) -> tuple[float, float]:
        """The value and its standard error."""


@dataclass(frozen=True)
class IPS(_Weighted):
    """Inverse propensity scoring: value = (1/n) Σ w r, with weights w = π(a|x) / p.

    Right on average whatever the rewards, if the logged propensities are right and every action that the policy may
    take could be shown. Its standard error is s / sqrt(n) of the products w r, and grows with the weights; clipped
    weights, min(w, clip), trade some of it for a bias. Every different set of actions is asked about once.

    Reference: Horvitz and Thompson (1952); for bandits Dudík, Langford and Li (2011).

    Parameters
    ----------
    clip
        Largest weight; None clips none.
    confidence
        Of the interval, which is normal.

    Examples
    --------
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(IPS().estimate(log, UniformRandom()).value, 4)
    0.8333
    """

    def _value(self, weights: Vector, rewards: Vector) -> tuple[float, float]:
        return mean_with_error(weights * rewards)


@dataclass(frozen=True)
class SelfNormalisedIPS(_Weighted):
    """Weighted mean of the rewards: value = Σ w r / Σ w, with weights w = π(a|x) / p.

    Never outside the range of the rewards, and the same whether rewards are counted from 0 or from any other number:
    usually far less variance than `IPS`, for a bias that vanishes as 1/n. Its standard error is that of a ratio (delta
    method): sqrt(Σ w² (r − value)²) / Σ w.

    Reference: Swaminathan and Joachims (2015).

    Parameters
    ----------
    clip
        Largest weight; None clips none.
    confidence
        Of the interval, which is normal.

    Examples
    --------
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(SelfNormalisedIPS().estimate(log, UniformRandom()).value, 4)
    0.8333
    """

    def _value(self, weights: Vector, rewards: Vector) -> tuple[float, float]:
        total = float(weights.sum())
        if not total:
            return nan, nan
        value = float(weights @ rewards) / total
        error = float(np.linalg.norm(weights * (rewards - value))) / total
        return value, error if np.count_nonzero(weights) > 1 else nan


def weighted_estimate(
    value: float, error: float, target: Target, weights: Vector, confidence: float, warnings: tuple[str, ...]
) -> Estimate:
    """An estimate with its normal interval, from weights as they were used."""
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(weights), n_matched=target.n_matched,
        effective_sample_size=effective_sample_size(weights), confidence=confidence, warnings=warnings,
    )  # fmt: skip
