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
from kernelbandits.validation import a_confidence, counted, positive

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
"""Of every interval, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Mean reward that is estimated, with its interval and what is to be known before it is believed.

    Parameters
    ----------
    value
        Mean reward a round; nan where the log says nothing about it.
    standard_error
        Of the value; nan where it is not known.
    low, high
        Interval that covers the truth with probability `confidence`, if what the method assumes is true.
    n_rounds
        Rounds of the log.
    n_matched
        Those whose action the policy might have taken: a small number is a warning.
    effective_sample_size
        Rounds of equal weight that would say as much: (Σw)² / Σw².
    confidence
        Of the interval.
    warnings
        What speaks against the value, as sentences.

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
        """Plain values, ready for JSON or a table row; what is not known is None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {
            name: None if isinstance(value, float) and not isfinite(value) else value for name, value in values.items()
        }
        return {**plain, "warnings": list(self.warnings)}

    def __str__(self) -> str:
        said = (
            f"{self.value:.4g} ± {self.standard_error:.2g} "
            f"({100 * self.confidence:.3g} %: {self.low:.4g} to {self.high:.4g}) from "
            f"{counted(self.n_rounds, 'round')}, "
            f"{self.n_matched:,} matched, effective {self.effective_sample_size:.1f}"
        )
        return encodable("\n".join([said, *(f"  ! {warning}" for warning in self.warnings)]))


class Estimator(Protocol):
    """Judges a policy by decisions that another rule made; the policy is left as it was."""

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""


def mean_with_error(values: Vector) -> tuple[float, float]:
    """Mean and its standard error s / sqrt(n); nan where there are too few values to tell.

    >>> import numpy as np
    >>> mean_with_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    if not len(values):
        return nan, nan
    with np.errstate(over="ignore"):  # rewards of 1e300: the error is infinite
        error = float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else nan
        return float(values.mean()), error


def normal_interval(value: float, standard_error: float, confidence: float) -> tuple[float, float]:
    """Value ± z · standard error, with z from the normal distribution."""
    margin = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * standard_error
    return value - margin, value + margin


def mean_reward(log: Log, *, confidence: float = CONFIDENCE) -> Estimate:
    """What the logging rule itself earned: the mean of the rewards.

    >>> log = Log([["a", "b"]] * 4, actions=[0, 1, 1, 0], propensities=[0.5] * 4, rewards=[0.0, 1.0, 1.0, 0.0])
    >>> mean_reward(log).value
    0.5
    """
    confidence = a_confidence(confidence)
    value, error = mean_with_error(a_log(log).rewards)
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(log), n_matched=len(log),
        effective_sample_size=float(len(log)), confidence=confidence,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What a policy would do in the rounds of a log; it is asked, and learns nothing.

    The weight of a round is π(a|x) / p: the policy's probability of the action shown over the logging rule's.

    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 2, actions=[0, 1], propensities=[0.25, 0.75], rewards=[1.0, 0.0])
    >>> Target.of(log, UniformRandom()).weights.round(3)
    array([2.   , 0.667])
    """

    rounds: DistinctRounds
    probabilities: list[Vector]
    """Of every action, for each different set of actions."""

    weights: Vector
    """Importance weight of each round of the log."""

    @classmethod
    def of(cls, log: Log, policy: Policy) -> Target:
        """Ask the policy about every different set of actions once."""
        a_policy(policy, "probabilities_many")
        if not len(a_log(log)):
            raise InvalidParameter("A log without rounds says nothing about a policy. Give one with at least one.")
        rounds = DistinctRounds.of_log(log)
        probabilities = rounds.probabilities(policy)
        shown = [probabilities[place][action] for place, action in zip(rounds.which, log.actions, strict=True)]
        return cls(rounds, probabilities, np.array(shown) / log.propensities)

    def taken(self, places: Indices) -> WeightedActions:
        """The actions that the policy may take in each of these different sets, weighted by its probabilities."""
        rows = [np.flatnonzero(self.probabilities[place]) for place in places]
        weights = [self.probabilities[place][row] for place, row in zip(places, rows, strict=True)]
        which = np.repeat(places, [len(row) for row in rows])
        return WeightedActions(self.rounds.contexts, which, np.concatenate(rows), np.concatenate(weights))

    @property
    def n_matched(self) -> int:
        """Rounds whose action the policy might have taken."""
        return int(np.count_nonzero(self.weights))


def effective_sample_size(weights: Vector) -> float:
    """Rounds of equal weight that would say as much: (Σw)² / Σw²; 0 where all weights are.

    >>> effective_sample_size(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def clipped(weights: Vector, clip: float | None) -> Vector:
    """Weights, none above `clip`: less variance, and a value that is too low where rewards are positive."""
    return weights if clip is None else np.minimum(weights, clip)


def checked_clip(clip: float | None) -> float | None:
    """The largest weight as a float, None where there is none, or InvalidParameter."""
    return None if clip is None else positive(clip, "The largest weight", "None clips no weight.")


FEW_ROUNDS: Final = 50
"""Below it a normal interval around a mean of skewed values is a guess."""

FAR_OFF: Final = 3.0
"""Standard errors: right weights have a mean further from 1 once in four hundred logs."""

MODEL_TRUSTED: Final = "The interval takes the kernel for the right one: a wrong one errs further than it says."

MODEL_UNKNOWN: Final = "The interval leaves out the error of the reward model, which no log tells."


def weight_warnings(log: Log, weights: Vector, clip: float | None = None) -> tuple[str, ...]:
    """What the weights, before they are clipped, and the log say against an estimate made of them."""
    of_weights = (*_of_overlap(weights), *_of_length(log), *_of_mean(weights))
    return (*of_weights, *log_warnings(log), *_of_clipping(weights, clip))


def log_warnings(log: Log) -> tuple[str, ...]:
    """What is to be said whatever the policy."""
    most = int(log.n_actions.max())
    said = []
    if len(log) < most:
        rounds = counted(len(log), "round")
        said.append(f"The log has {rounds} and up to {most:,} actions: most of them were never shown.")
    if shows_one_action_only(log):
        said.append(
            "Every propensity is 1: the logging rule left nothing to chance, so that the log says nothing about other "
            "actions, and the value may be wrong by any amount."
        )
    return tuple(said)


def shows_one_action_only(log: Log) -> bool:
    """Whether the rule never had a choice to make by chance, though there were other actions."""
    return bool(len(log) and np.all(log.propensities == 1.0) and np.any(log.n_actions > 1))


def _of_length(log: Log) -> tuple[str, ...]:
    if len(log) >= FEW_ROUNDS:
        return ()
    return (f"The log has {counted(len(log), 'round')} only: an interval from so few is a guess.",)


def _of_overlap(weights: Vector) -> tuple[str, ...]:
    n_matched, n_rounds = int(np.count_nonzero(weights)), len(weights)
    if n_matched < min(FEW_ROUNDS, n_rounds):
        return (f"Only {n_matched:,} of {counted(n_rounds, 'round')} had an action that the policy might have taken.",)
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
        "or the policy takes actions that the log hardly ever shows.",
    )


def _of_clipping(weights: Vector, clip: float | None) -> tuple[str, ...]:
    share = 0.0 if clip is None else float(np.mean(weights > clip))
    return (f"{100 * share:.2g} % of the weights were clipped at {clip:g}.",) if share else ()


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
class SelfNormalizedIPS(_Weighted):
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
    """An estimate with its normal interval, from weights as they were used."""
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(weights), n_matched=target.n_matched,
        effective_sample_size=effective_sample_size(weights), confidence=confidence, warnings=warnings,
    )  # fmt: skip
