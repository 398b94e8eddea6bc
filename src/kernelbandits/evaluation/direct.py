"""Judging a policy by a model of the rewards."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from kernelbandits.checks import a_confidence, positive
from kernelbandits.environments import Log
from kernelbandits.evaluation.arguments import a_log
from kernelbandits.evaluation.diagnosis import log_warnings
from kernelbandits.evaluation.estimate import CONFIDENCE, Estimate, mean_with_error
from kernelbandits.evaluation.importance import weighted_estimate
from kernelbandits.evaluation.kernel_rewards import GaussianRewards, KernelRewards, learn_log
from kernelbandits.evaluation.model_errors import error_with_model
from kernelbandits.evaluation.reward_models import model_values
from kernelbandits.evaluation.weights import Target
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import PosteriorFactory, posterior_factory
from kernelbandits.posterior.base import checked_regularisation
from kernelbandits.posterior.factory import make_posterior

__all__ = ["DirectMethod"]


@dataclass(frozen=True)
class DirectMethod:
    """The policy's reward as a model sees it: value = (1/n) Σ_t Σ_a π(a|x_t) r̂(x_t, a).

    r̂ is the mean of the posterior after every (action shown, reward) of the log: kernel ridge regression, so that
    actions never shown are judged by those they resemble. Propensities are not used. Little variance; ridge regression
    shrinks towards 0, and a constant added to the kernel learns an offset.

    The value is a weighted sum of predicted rewards, Σ_i w_i r̂(z_i), and the posterior knows its error. The square of
    the standard error is s²/n, with s² the variance of the rounds' values, plus

        σ² Σ_ij w_i w_j Cov(z_i, z_j),   Cov = (k(z_i, z_j) − k_iᵀ(K + γI)⁻¹k_j)/γ,

    the posterior variance of the sum if the reward function is drawn from a Gaussian process of covariance (σ²/γ) k.
    The kernel is taken for right, of which a warning reminds: one that is too smooth errs where no width tells. Nor is
    the bias of a fixed function in the interval, but for what such a process expects of it. Where actions were drawn
    uniformly, simulated intervals of 95 % held in 95 % of 200 logs; where a policy that learns had chosen most of them,
    in 90 %, with values too low by 0.6 standard errors (`studies/off_policy.py`). A posterior that forgets states no
    error, and the interval is that of the rounds alone, with a warning.

    Learning costs what the posterior costs for m distinct points, O(m³) where it is exact; a prediction O(m). The error
    of the model takes about (n + m)² similarities for n actions that the policy may take, at most 10,000 of which stand
    for all; O(n) where the kernel has few features. Two thousand widths tell how many parameters the fit has used.

    Reference: the regression baseline of Dudík, Langford and Li (2011); the variance of a linear functional of a
    Gaussian process, Rasmussen and Ghahramani (2003).

    Parameters
    ----------
    kernel
        Similarity of actions, or what can be made one; `Delta` learns every action on its own.
    regularisation
        Added to the diagonal of the Gram matrix.
    posterior
        "auto", "exact", "primal" or a function (kernel, regularisation) → posterior.
    noise_variance
        σ², variance of a reward around its expectation; None estimates it from the residuals, Σ(r − r̂)² over what n
        leaves when the parameters used, tr K(K + γI)⁻¹, are taken off; Σr(r − r̂)/n where these leave less than one.
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
    noise_variance: float | None = None
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "regularisation", checked_regularisation(self.regularisation))
        object.__setattr__(self, "posterior", posterior_factory(self.posterior))
        if self.noise_variance is not None:
            variance = positive(self.noise_variance, "The noise variance", "None estimates it from the residuals.")
            object.__setattr__(self, "noise_variance", variance)
        object.__setattr__(self, "confidence", a_confidence(self.confidence))

    def fit(self, log: Log) -> KernelRewards:
        """Learn every reward of the log in one call."""
        posterior = make_posterior(posterior_factory(self.posterior), self.kernel, self.regularisation)
        shown = learn_log(posterior, a_log(log))
        if posterior.forgets:  # its widths are no statement about all rounds of a log
            return KernelRewards(posterior)
        return GaussianRewards(posterior, shown, log.rewards, self.noise_variance)

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Mean reward a round of the policy, had it decided instead."""
        target = Target.of(log, policy)
        said = model_values(self, log, target, folds=1)
        value, of_rounds = mean_with_error(said.of_policy)
        error, warning = error_with_model(of_rounds, said, log, target, np.zeros(len(log)))
        return weighted_estimate(value, error, target, target.weights, self.confidence, (warning, *log_warnings(log)))
