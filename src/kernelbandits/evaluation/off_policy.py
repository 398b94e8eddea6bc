"""Off-policy estimators by importance weighting, estimates, and overlap diagnostics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields, replace
from math import inf, isfinite, isnan, nan, sqrt
from statistics import NormalDist
from typing import Any, Final, Protocol

import numpy as np

from kernelbandits._text import encodable, html_table
from kernelbandits.environments import Log
from kernelbandits.evaluation._inputs import check_any_log
from kernelbandits.evaluation.propensities import propensity_error, propensity_warnings
from kernelbandits.evaluation.targets import Behavior, Place, Target, checked_behavior, places_of
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector
from kernelbandits.validation import check_confidence, check_positive, pluralize

__all__ = [
    "CONFIDENCE",
    "FEW_ROUNDS",
    "IPS",
    "MODEL_TRUSTED",
    "MODEL_UNKNOWN",
    "Estimate",
    "Estimator",
    "Judged",
    "OffPolicyEstimator",
    "SelfNormalizedIPS",
    "Target",
    "checked_clip",
    "clipped",
    "effective_sample_size",
    "least_matched",
    "log_warnings",
    "mean_reward",
    "mean_with_error",
    "normal_interval",
    "rewards_of_rounds",
    "shows_one_action_only",
    "weight_warnings",
]

CONFIDENCE: Final = 0.95
"""Default confidence level of all intervals."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate:
    """Estimated mean reward with its interval and warnings.

    Parameters
    ----------
    value
        Mean reward per round; nan if the log contains no information about it.
    standard_error
        Standard error of the value; nan if unknown.
    low, high
        Interval that covers the truth with probability `confidence`, if the assumptions of the method hold.
    n_rounds
        Number of rounds of the log.
    n_matched
        Number of rounds whose action has positive probability under the policy; a small number is a warning sign. In
        slates, of the place with the fewest.
    effective_sample_size
        Equivalent number of equally weighted rounds: (Σw)² / Σw². In slates, of the place with the smallest.
    confidence
        Confidence level of the interval.
    warnings
        Reasons to doubt the value, as sentences.

    Examples
    --------
    >>> print(Estimate(value=0.5, standard_error=0.05, low=0.402, high=0.598, n_rounds=100, n_matched=40,
    ...                effective_sample_size=31.2))
    0.5 ± 0.05 (95 %: 0.402 to 0.598) from 100 rounds, 40 matched, effective 31.2
    """

    value: float
    standard_error: float
    low: float
    high: float
    n_rounds: int
    n_matched: int
    effective_sample_size: float
    confidence: float = CONFIDENCE
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON or a table row; unknown values are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {
            name: None if isinstance(value, float) and not isfinite(value) else value for name, value in values.items()
        }
        return {**plain, "warnings": list(self.warnings)}

    def __str__(self) -> str:
        return encodable("\n".join([self._summary(), *(f"  ! {warning}" for warning in self.warnings)]))

    def __repr__(self) -> str:
        warnings = f", {pluralize(len(self.warnings), 'warning')}" if self.warnings else ""
        return encodable(f"Estimate({self._summary()}{warnings})")

    def _repr_html_(self) -> str:
        return html_table(self._summary(), ([warning] for warning in self.warnings))

    def _summary(self) -> str:
        return (
            f"{self.value:.4g} ± {self.standard_error:.2g} "
            f"({100 * self.confidence:.3g} %: {self.low:.4g} to {self.high:.4g}) from "
            f"{pluralize(self.n_rounds, 'round')}, "
            f"{self.n_matched:,} matched, effective {self.effective_sample_size:.1f}"
        )


class Estimator(Protocol):
    """Interface of estimators, which evaluate a policy on decisions of another policy; the policy does not change."""

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Estimate the mean reward per round of the policy, had it made the decisions."""


def mean_with_error(values: Vector) -> tuple[float, float]:
    """Return the mean and its standard error s / sqrt(n); nan if there are too few values.

    >>> import numpy as np
    >>> mean_with_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    if not len(values):
        return nan, nan
    with np.errstate(over="ignore"):  # for rewards of 1e300 the error is infinite
        error = float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else nan
        return float(values.mean()), error


def normal_interval(value: float, standard_error: float, confidence: float) -> tuple[float, float]:
    """Return value ± z · standard error, with z from the normal distribution."""
    margin = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * standard_error
    return value - margin, value + margin


def mean_reward(log: Log, *, confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the value of the logging policy: the mean of the rewards, of slates summed over the places.

    >>> log = Log([["a", "b"]] * 4, actions=[0, 1, 1, 0], propensities=[0.5] * 4, rewards=[0.0, 1.0, 1.0, 0.0])
    >>> mean_reward(log).value
    0.5
    """
    confidence = check_confidence(confidence)
    value, error = mean_with_error(rewards_of_rounds(check_any_log(log)))
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(log), n_matched=len(log),
        effective_sample_size=float(len(log)), confidence=confidence,
    )  # fmt: skip


def effective_sample_size(weights: Vector) -> float:
    """Return the equivalent number of equally weighted rounds, (Σw)² / Σw²; 0 if all weights are 0.

    >>> effective_sample_size(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def clipped(weights: Vector, clip: float | None) -> Vector:
    """Clip the weights at `clip`: lower variance, and a negative bias if rewards are positive."""
    return weights if clip is None else np.minimum(weights, clip)


def checked_clip(clip: float | None) -> float | None:
    """Return the largest weight as a float, or None for no clipping; or raise InvalidParameter."""
    return None if clip is None else check_positive(clip, "The largest weight", "None clips no weight.")


FEW_ROUNDS: Final = 50
"""Number of rounds below which a normal interval of a mean of skewed values is unreliable."""

FAR_OFF: Final = 3.0
"""Warning threshold in standard errors: the mean of correct weights is further from 1 once in four hundred logs."""

MODEL_TRUSTED: Final = "The interval assumes that the kernel is right; otherwise errors can be larger."

MODEL_UNKNOWN: Final = "The interval ignores the error of the reward model, which is unknown."


def weight_warnings(log: Log, weights: Vector, clip: float | None = None) -> tuple[str, ...]:
    """Return warnings from the log and the weights before clipping."""
    of_weights = (*_of_overlap(weights), *_of_length(log), *_of_mean(weights))
    return (*propensity_warnings(log), *of_weights, *log_warnings(log), *_of_clipping(weights, clip))


def log_warnings(log: Log) -> tuple[str, ...]:
    """Return warnings that do not depend on the policy."""
    most = int(log.n_actions.max())
    found = []
    if len(log) < most:
        rounds = pluralize(len(log), "round")
        found.append(f"The log has {rounds} and up to {most:,} actions: most of them were never chosen.")
    if shows_one_action_only(log):
        found.append(
            "Every propensity is 1: the logging policy was deterministic, so the log contains no information about "
            "other actions, and the value may be wrong by any amount."
        )
    return tuple(found)


def shows_one_action_only(log: Log) -> bool:
    """Whether the logging policy was always deterministic, although there were other actions."""
    return bool(len(log) and np.all(log.propensities == 1.0) and np.any(log.n_actions > 1))


def _of_length(log: Log) -> tuple[str, ...]:
    if len(log) >= FEW_ROUNDS:
        return ()
    return (f"The log has {pluralize(len(log), 'round')} only: an interval from so few is a guess.",)


def _of_overlap(weights: Vector) -> tuple[str, ...]:
    n_matched, n_rounds = int(np.count_nonzero(weights)), len(weights)
    if n_matched < min(FEW_ROUNDS, n_rounds):
        return (
            f"Only {n_matched:,} of {pluralize(n_rounds, 'round')} had an action that the policy might have taken.",
        )
    effective = effective_sample_size(weights)
    if effective < min(FEW_ROUNDS, n_rounds / 2):
        return (
            f"The effective sample is {effective:.1f} of {n_rounds:,} rounds: a few heavy weights decide the value.",
        )
    return ()


def _of_mean(weights: Vector) -> tuple[str, ...]:
    mean, error = mean_with_error(weights)
    if isnan(error) or abs(mean - 1.0) <= FAR_OFF * error + 1e-9:  # equal weights may differ from 1 by rounding
        return ()
    return (
        f"The mean weight is {mean:.3g} ± {error:.2g}, and 1 is expected: the propensities are not those of the log, "
        "or the policy chooses actions that are rare in the log.",
    )


def _of_clipping(weights: Vector, clip: float | None) -> tuple[str, ...]:
    share = 0.0 if clip is None else float(np.mean(weights > clip))
    return (f"{100 * share:.2g} % of the weights were clipped at {clip:g}.",) if share else ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Judged:
    """What an estimator finds: the value, and one term per round whose variance over n is that of the value."""

    value: float
    error: float
    """Standard error of the value."""

    terms: Vector
    places: list[Place]
    weights: list[Vector]
    """Weights that were used, of each place."""

    warnings: tuple[str, ...]
    model_variance: float = 0.0
    """Variance of the error of a model, beyond that of the terms."""

    model_covariance: float = 0.0
    """Covariance of the error of a model with the mean of the logged rewards."""

    def with_propensity_error(self, log: Log, corrections: Vector) -> Judged:
        """Add the error of estimated propensities, given the part of each round's term that is divided by p.

        The derivative of a term w · c by ln p is −w · c.
        """
        error = propensity_error(log, corrections / len(log))
        if not error:
            return self
        variance = self.model_variance + error**2
        return replace(self, error=sqrt(self.error**2 + error**2), model_variance=variance)


class OffPolicyEstimator(ABC):
    """Base class of estimators of the value of a fixed policy from a log."""

    confidence: float

    @abstractmethod
    def _judge(self, log: Log, policy: Policy) -> Judged:
        """Return the value, its standard error and its terms."""

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Estimate the mean reward per round of the policy, had it made the decisions.

        In a log of slates, the reward of a round is the sum over the places.
        """
        judged = self._judge(log, policy)
        return self._estimate(judged, judged.value, judged.error)

    def lift(self, log: Log, policy: Policy) -> Estimate:
        """Estimate by how much the mean reward per round of the policy exceeds that of the logging policy.

        The value is that of `estimate` minus that of `mean_reward`. Both use the same rewards, so they are correlated:
        the standard error is s / sqrt(n) of the differences per round, (term of the estimate) − (logged reward), which
        is smaller than that of two independent estimates if the policies are similar. For `SelfNormalizedIPS` the terms
        are those of the delta method; the error of a model is added, with its covariance with the logged rewards.
        """
        judged = self._judge(log, policy)
        rewards = rewards_of_rounds(log)
        _, error = mean_with_error(judged.terms - rewards)
        variance = error**2 + judged.model_variance - 2.0 * judged.model_covariance
        value = judged.value - float(rewards.mean())
        return self._estimate(judged, value, nan if isnan(judged.error) else sqrt(max(0.0, variance)))

    def _estimate(self, judged: Judged, value: float, error: float) -> Estimate:
        low, high = normal_interval(value, error, self.confidence)
        return Estimate(
            value=value, standard_error=error, low=low, high=high, n_rounds=len(judged.terms),
            n_matched=min(place.target.n_matched for place in judged.places),
            effective_sample_size=min(effective_sample_size(weights) for weights in judged.weights),
            confidence=self.confidence, warnings=judged.warnings,
        )  # fmt: skip


def rewards_of_rounds(log: Log) -> Vector:
    """Return the reward of each round, for a slate the sum over its places."""
    return log.rewards if log.k is None else np.asarray(log.rewards.sum(axis=1))


def least_matched(places: list[Place]) -> Vector:
    """Return the weights of the place with the smallest effective sample."""
    return min((place.target.weights for place in places), key=effective_sample_size)


@dataclass(frozen=True)
class _Weighted(OffPolicyEstimator):
    """Base class of IPS estimators: weights, clipping, and a normal interval."""

    clip: float | None = None
    _: KW_ONLY
    behavior: Behavior = "cascade"
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checked_clip(self.clip))
        object.__setattr__(self, "behavior", checked_behavior(self.behavior))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))

    def _judge(self, log: Log, policy: Policy) -> Judged:
        places = places_of(log, policy, self.behavior, has_model=False)
        weights = [clipped(place.target.weights, self.clip) for place in places]
        value, error, terms = self._value(weights, [place.log.rewards for place in places])
        warnings = weight_warnings(log, least_matched(places), self.clip)
        judged = Judged(value=value, error=error, terms=terms, places=places, weights=weights, warnings=warnings)
        is_free = least_matched(places) <= (inf if self.clip is None else self.clip)  # a clipped weight is constant
        return judged.with_propensity_error(log, np.where(is_free, terms - self._center(value), 0.0))

    def _center(self, value: float) -> float:
        """Return what is subtracted from the terms: a normalized value depends on the deviations from it."""
        return 0.0

    @abstractmethod
    def _value(self, weights: list[Vector], rewards: list[Vector]) -> tuple[float, float, Vector]:
        """Return the value, its standard error and its terms, from weights and rewards of each place."""


@dataclass(frozen=True)
class IPS(_Weighted):
    """Inverse propensity scoring: value = (1/n) Σ w r, with weights w = π(a|x) / p.

    Unbiased for any rewards, if the logged propensities are correct and positive for every action that the policy may
    take. Its standard error is s / sqrt(n) of the products w r, and grows with the weights; clipped weights,
    min(w, clip), reduce the variance and add bias. The policy is queried once for every distinct set of actions.

    The value of slates is (1/n) Σ_t Σ_l w_tl r_tl over places l, with weights by what a reward depends on:

    - "standard", all actions of the slate: w_l = Π_j π(a_j | above) / p(a_j | above) over all places j;
    - "cascade", the actions down to the place, as when a user reads from the top: the product over j ≤ l, the
      reward-interaction IPS of McInerney et al. (2020);
    - "independent", the action at the place alone: the ratio of P(a_l at place l) under both policies, the
      item-position IPS of Li et al. (2018).

    Each is unbiased if its assumption holds, and the weaker the assumption, the larger the variance.

    Reference: Horvitz and Thompson (1952); for bandits Dudík, Langford and Li (2011).

    Parameters
    ----------
    clip
        Largest weight; None disables clipping.
    behavior
        For slates: what the reward at a place depends on.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(IPS().estimate(log, UniformRandom()).value, 4)
    0.8333
    """

    def _value(self, weights: list[Vector], rewards: list[Vector]) -> tuple[float, float, Vector]:
        terms = np.sum([own * earned for own, earned in zip(weights, rewards, strict=True)], axis=0)
        return *mean_with_error(terms), terms


@dataclass(frozen=True)
class SelfNormalizedIPS(_Weighted):
    """Weighted mean of the rewards: value = Σ w r / Σ w, with weights w = π(a|x) / p.

    Always within the range of the rewards, and equivariant to a constant added to all rewards: usually far less
    variance than `IPS`, with a bias that vanishes as 1/n. Its standard error is that of a ratio (delta method):
    sqrt(Σ w² (r − value)²) / Σ w. For slates each place is normalized by itself, and the places are added.

    Reference: Swaminathan and Joachims (2015).

    Parameters
    ----------
    clip
        Largest weight; None disables clipping.
    behavior
        For slates: what the reward at a place depends on, as in `IPS`.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(SelfNormalizedIPS().estimate(log, UniformRandom()).value, 4)
    0.8333
    """

    def _center(self, value: float) -> float:
        return value

    def _value(self, weights: list[Vector], rewards: list[Vector]) -> tuple[float, float, Vector]:
        n_rounds, value, deviations = len(weights[0]), 0.0, np.zeros(len(weights[0]))
        for own, earned in zip(weights, rewards, strict=True):
            total = float(own.sum())
            if not total:
                return nan, nan, np.full(n_rounds, nan)
            at_place = float(own @ earned) / total
            value += at_place
            deviations += own * (earned - at_place) / total
        is_known = all(np.count_nonzero(own) > 1 for own in weights)
        return value, float(np.linalg.norm(deviations)) if is_known else nan, value + n_rounds * deviations
