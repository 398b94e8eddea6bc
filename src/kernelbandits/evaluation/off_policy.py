"""Off-policy estimators by importance weighting, estimates, and overlap diagnostics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields
from math import isfinite, isnan, nan, sqrt
from statistics import NormalDist
from typing import Any, Final, Protocol

import numpy as np

from kernelbandits._text import encodable
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import DistinctRounds, WeightedActions, a_log, a_policy
from kernelbandits.policies.base import Policy
from kernelbandits.types import Indices, Vector
from kernelbandits.validation import check_confidence, check_positive, pluralize

__all__ = [
    "CONFIDENCE",
    "FEW_ROUNDS",
    "IPS",
    "MODEL_TRUSTED",
    "MODEL_UNKNOWN",
    "Estimate",
    "Estimator",
    "SelfNormalizedIPS",
    "Target",
    "checked_clip",
    "clipped",
    "effective_sample_size",
    "log_warnings",
    "mean_reward",
    "mean_with_error",
    "normal_interval",
    "shows_one_action_only",
    "weight_warnings",
    "weighted_estimate",
]

CONFIDENCE: Final = 0.95
"""Default confidence level of all intervals."""


@dataclass(frozen=True, kw_only=True)
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
        Number of rounds whose action has positive probability under the policy; a small number is a warning sign.
    effective_sample_size
        Equivalent number of equally weighted rounds: (Σw)² / Σw².
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
        summary = (
            f"{self.value:.4g} ± {self.standard_error:.2g} "
            f"({100 * self.confidence:.3g} %: {self.low:.4g} to {self.high:.4g}) from "
            f"{pluralize(self.n_rounds, 'round')}, "
            f"{self.n_matched:,} matched, effective {self.effective_sample_size:.1f}"
        )
        return encodable("\n".join([summary, *(f"  ! {warning}" for warning in self.warnings)]))


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
    """Estimate the value of the logging policy: the mean of the rewards.

    >>> log = Log([["a", "b"]] * 4, actions=[0, 1, 1, 0], propensities=[0.5] * 4, rewards=[0.0, 1.0, 1.0, 0.0])
    >>> mean_reward(log).value
    0.5
    """
    confidence = check_confidence(confidence)
    value, error = mean_with_error(a_log(log).rewards)
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(log), n_matched=len(log),
        effective_sample_size=float(len(log)), confidence=confidence,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Probabilities of a target policy in the rounds of a log; the policy is queried and does not learn.

    The weight of a round is π(a|x) / p: the policy's probability of the action shown, divided by the logging policy's.

    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[0.25, 0.75], rewards=[1.0, 0.0])
    >>> Target.of(log, UniformRandom()).weights.round(3)
    array([2.   , 0.667])
    """

    rounds: DistinctRounds
    probabilities: list[Vector]
    """Probabilities of all actions, for each distinct set of actions."""

    weights: Vector
    """Importance weight of each round of the log."""

    @classmethod
    def of(cls, log: Log, policy: Policy) -> Target:
        """Query the policy once for every distinct set of actions."""
        a_policy(policy, "probabilities_many")
        if not len(a_log(log)):
            raise InvalidParameter("The log must have at least one round, got none.")
        rounds = DistinctRounds.of_log(log)
        probabilities = rounds.probabilities(policy)
        shown = [probabilities[place][action] for place, action in zip(rounds.which, log.actions, strict=True)]
        return cls(rounds, probabilities, np.array(shown) / log.propensities)

    def taken(self, places: Indices) -> WeightedActions:
        """Return the actions with positive probability in these sets, weighted by their probabilities."""
        rows = [np.flatnonzero(self.probabilities[place]) for place in places]
        weights = [self.probabilities[place][row] for place, row in zip(places, rows, strict=True)]
        which = np.repeat(places, [len(row) for row in rows])
        return WeightedActions(self.rounds.contexts, which, np.concatenate(rows), np.concatenate(weights))

    @property
    def n_matched(self) -> int:
        """Number of rounds whose action has positive probability under the policy."""
        return int(np.count_nonzero(self.weights))


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
    return (*of_weights, *log_warnings(log), *_of_clipping(weights, clip))


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


@dataclass(frozen=True)
class _Weighted(ABC):
    """Base class of IPS estimators: weights, clipping, and a normal interval."""

    clip: float | None = None
    _: KW_ONLY
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checked_clip(self.clip))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Estimate the mean reward per round of the policy, had it made the decisions."""
        target = Target.of(log, policy)
        weights = clipped(target.weights, self.clip)
        value, error = self._value(weights, log.rewards)
        warnings = weight_warnings(log, target.weights, self.clip)
        return weighted_estimate(value, error, target, weights, self.confidence, warnings)

    @abstractmethod
    def _value(self, weights: Vector, rewards: Vector) -> tuple[float, float]:
        """Return the value and its standard error."""


@dataclass(frozen=True)
class IPS(_Weighted):
    """Inverse propensity scoring: value = (1/n) Σ w r, with weights w = π(a|x) / p.

    Unbiased for any rewards, if the logged propensities are correct and positive for every action that the policy may
    take. Its standard error is s / sqrt(n) of the products w r, and grows with the weights; clipped weights,
    min(w, clip), reduce the variance and add bias. The policy is queried once for every distinct set of actions.

    Reference: Horvitz and Thompson (1952); for bandits Dudík, Langford and Li (2011).

    Parameters
    ----------
    clip
        Largest weight; None disables clipping.
    confidence
        Confidence level of the normal interval.

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
class SelfNormalizedIPS(_Weighted):
    """Weighted mean of the rewards: value = Σ w r / Σ w, with weights w = π(a|x) / p.

    Always within the range of the rewards, and equivariant to a constant added to all rewards: usually far less
    variance than `IPS`, with a bias that vanishes as 1/n. Its standard error is that of a ratio (delta method):
    sqrt(Σ w² (r − value)²) / Σ w.

    Reference: Swaminathan and Joachims (2015).

    Parameters
    ----------
    clip
        Largest weight; None disables clipping.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(SelfNormalizedIPS().estimate(log, UniformRandom()).value, 4)
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
    """Return an estimate with its normal interval, from the weights that were used."""
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(weights), n_matched=target.n_matched,
        effective_sample_size=effective_sample_size(weights), confidence=confidence, warnings=warnings,
    )  # fmt: skip
