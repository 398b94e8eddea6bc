"""Judging a policy by a model of the rewards."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from kernelbandits.checks import a_confidence
from kernelbandits.environments import Log
from kernelbandits.evaluation.diagnosis import MODEL_UNKNOWN, log_warnings
from kernelbandits.evaluation.estimate import CONFIDENCE, Estimate, mean_with_error
from kernelbandits.evaluation.importance import weighted_estimate
from kernelbandits.evaluation.parts import a_log
from kernelbandits.evaluation.reward_models import KernelRewards, learn_log, model_values
from kernelbandits.evaluation.weights import Target
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import PosteriorFactory, posterior_factory
from kernelbandits.posterior.base import checked_regularisation

__all__ = ["DirectMethod"]


@dataclass(frozen=True)
class DirectMethod:
    """The policy's reward as a model sees it: value = (1/n) Σ_t Σ_a π(a|x_t) r̂(x_t, a).

    r̂ is the mean of the posterior after every (action shown, reward) of the log: kernel ridge regression, so that
    actions never shown are judged by those they resemble. Propensities are not used. Little variance, and a bias that
    the log cannot tell: the standard error, s / sqrt(n) of the rounds' values, is that of the rounds alone, and the
    interval says nothing about the model. Ridge regression shrinks towards 0: a constant added to the kernel learns an
    offset.

    Learning costs what the posterior costs for m distinct points, O(m³) where it is exact; a prediction O(m).

    Reference: the regression baseline of Dudík, Langford and Li (2011).

    Parameters
    ----------
    kernel
        Similarity of actions, or what can be made one; `Delta` learns every action on its own.
    regularisation
        Added to the diagonal of the Gram matrix.
    posterior
        "auto", "exact", "primal" or a function (kernel, regularisation) → posterior.
    confidence
        Of the interval, which is normal.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import UniformRandom
    >>> log = Log([["a", "b"]] * 4, actions=[0, 0, 0, 1], propensities=[0.75] * 3 + [0.25], rewards=[1, 0, 1, 1])
    >>> round(DirectMethod(Delta(), regularisation=1.0).estimate(log, UniformRandom()).value, 6)  # (2/4 + 1/2) / 2
    0.5
    """

    kernel: Kernel
    regularisation: float = 1.0
    _: KW_ONLY
    posterior: str | PosteriorFactory = "auto"
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "regularisation", checked_regularisation(self.regularisation))
        object.__setattr__(self, "posterior", posterior_factory(self.posterior))
        object.__setattr__(self, "confidence", a_confidence(self.confidence))

    def fit(self, log: Log) -> KernelRewards:
        """Learn every reward of the log in one call."""
        posterior = posterior_factory(self.posterior)(self.kernel, self.regularisation)
        learn_log(posterior, a_log(log))
        return KernelRewards(posterior)

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""
        target = Target.of(log, policy)
        value, error = mean_with_error(model_values(self, log, target, folds=1).of_policy)
        warnings = (MODEL_UNKNOWN, *log_warnings(log))
        return weighted_estimate(value, error, target, target.weights, self.confidence, warnings)
