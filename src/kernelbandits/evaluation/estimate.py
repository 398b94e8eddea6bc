"""What an evaluation answers: a value, how sure it is, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite, nan, sqrt
from statistics import NormalDist
from typing import Any, Final, Protocol

import numpy as np

from kernelbandits.checks import a_confidence, counted
from kernelbandits.encodable import encodable
from kernelbandits.environments import Log
from kernelbandits.evaluation.arguments import a_log
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector

__all__ = ["CONFIDENCE", "Estimate", "Estimator", "mean_reward", "mean_with_error", "normal_interval"]

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
