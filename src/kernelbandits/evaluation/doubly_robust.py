"""Estimators that correct a model of the rewards by the rewards that were paid."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from kernelbandits.checks import a_confidence, a_count, a_number
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.diagnosis import weight_warnings
from kernelbandits.evaluation.estimate import CONFIDENCE, Estimate, mean_with_error
from kernelbandits.evaluation.importance import weighted_estimate
from kernelbandits.evaluation.model_errors import error_with_model
from kernelbandits.evaluation.reward_models import ModelValues, RewardModel, model_values
from kernelbandits.evaluation.weights import Target, checked_clip, clipped
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector

__all__ = ["DoublyRobust", "Switch"]


@dataclass(frozen=True)
class DoublyRobust:
    """A model corrected by what it got wrong: value = (1/n) Σ_t [Σ_a π(a|x_t) r̂(x_t, a) + w_t (r_t − r̂(x_t, a_t))].

    Right on average if either the propensities or the model is right; the better the model, the smaller the variance.
    Cross-fitting keeps it so when the model is learnt from the same log: each round is judged by a model of the other
    folds (round t belongs to fold t mod `folds`), so that no reward corrects a model that has seen it. The standard
    error is s / sqrt(n) of the terms.

    Reference: Dudík, Langford and Li (2011); cross-fitting as in Chernozhukov et al. (2018).

    Parameters
    ----------
    model
        `DirectMethod`, or anything with `fit(log)` whose answer has `predict(rounds)`.
    clip
        Largest weight; None clips none.
    folds
        Parts of the log; 1 learns the model from all of it, without cross-fitting.
    confidence
        Of the interval, which is normal.

    Examples
    --------
    >>> from kernelbandits.evaluation import DirectMethod
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(DoublyRobust(DirectMethod(Delta()), folds=1).estimate(log, UniformRandom()).value, 4)
    0.8333
    """

    model: RewardModel
    _: KW_ONLY
    clip: float | None = None
    folds: int = 2
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        _refuse_no_model(self.model)
        object.__setattr__(self, "clip", checked_clip(self.clip))
        object.__setattr__(self, "folds", a_count(self.folds, "The number of folds"))
        object.__setattr__(self, "confidence", a_confidence(self.confidence))

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""
        target = Target.of(log, policy)
        warnings = weight_warnings(log, target.weights, self.clip)
        weights = clipped(target.weights, self.clip)
        value, error = _corrected(model_values(self.model, log, target, self.folds), log, weights)
        return weighted_estimate(value, error, target, weights, self.confidence, warnings)


@dataclass(frozen=True)
class Switch:
    """`DoublyRobust` where weights are modest, the model alone where they are not:

        value = (1/n) Σ_t [Σ_a π(a|x_t) r̂(x_t, a) + w_t 1(w_t ≤ threshold) (r_t − r̂(x_t, a_t))].

    Rounds of enormous weight, which decide a doubly robust value, are left to the model: less variance, for the
    model's bias there. A threshold of infinity is `DoublyRobust`; 0 is the model alone, learnt in folds.

    Where some rounds are left to `DirectMethod`, the standard error is made of the posterior, as it is there: the value
    is linear in the rewards, Σ c_t r_t, and errs by the noise, σ² Σ c², and by what the weights leave of the reward
    function. Folds that share rewards and one function are not taken for independent. A model that states no errors
    leaves the standard error of the terms, s / sqrt(n), with a warning.

    Reference: Wang, Agarwal and Dudík (2017), in the doubly robust form, which needs the propensity of the action
    shown only.

    Parameters
    ----------
    model
        `DirectMethod`, or anything with `fit(log)` whose answer has `predict(rounds)`.
    threshold
        Largest weight that is trusted.
    folds
        Parts of the log; 1 learns the model from all of it, without cross-fitting.
    confidence
        Of the interval, which is normal.

    Examples
    --------
    >>> from kernelbandits.evaluation import DirectMethod
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(Switch(DirectMethod(Delta()), threshold=1.5, folds=1).estimate(log, UniformRandom()).value, 4)
    0.5833
    """  # noqa: D400 – a formula follows

    model: RewardModel
    threshold: float
    _: KW_ONLY
    folds: int = 2
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        _refuse_no_model(self.model)
        threshold = a_number(self.threshold, "The threshold")
        if not threshold >= 0.0:  # also catches NaN; infinity trusts every weight
            raise InvalidParameter(
                f"The threshold is a weight, zero or above, got {self.threshold!r}. 10.0 is a common choice, infinity "
                "trusts all weights."
            )
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "folds", a_count(self.folds, "The number of folds"))
        object.__setattr__(self, "confidence", a_confidence(self.confidence))

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""
        target = Target.of(log, policy)
        is_trusted = target.weights <= self.threshold
        warnings = weight_warnings(log, target.weights)
        weights = np.where(is_trusted, target.weights, 0.0)
        said = model_values(self.model, log, target, self.folds)
        value, error = _corrected(said, log, weights)
        if not is_trusted.all():
            share = 100.0 * float(np.mean(~is_trusted))
            warnings += (f"{share:.2g} % of the weights exceed {self.threshold:g}: there the model has the last word.",)
            error, trust = error_with_model(error, said, log, target, weights)
            warnings += (trust,)
        return weighted_estimate(value, error, target, weights, self.confidence, warnings)


def _corrected(said: ModelValues, log: Log, weights: Vector) -> tuple[float, float]:
    """The value and its standard error, that of a mean of independent terms."""
    return mean_with_error(said.of_policy + weights * (log.rewards - said.of_shown))


def _refuse_no_model(model: RewardModel) -> None:
    if not callable(getattr(model, "fit", None)):
        raise InvalidParameter(
            f"A model learns rewards from a log with fit(log), got {type(model).__name__}. "
            "DirectMethod(kernel, regularisation=1.0) is one."
        )
