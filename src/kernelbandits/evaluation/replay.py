"""Replay: evaluation of a learning policy on a log, by rejection sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.environments.base import row_of
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import check_log, check_log_to_judge, check_policy
from kernelbandits.evaluation.off_policy import (
    CONFIDENCE,
    FEW_ROUNDS,
    Estimate,
    log_warnings,
    mean_with_error,
    normal_interval,
)
from kernelbandits.evaluation.propensities import propensity_warnings
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector
from kernelbandits.validation import check_bool, check_confidence, check_positive, check_seed, pluralize

__all__ = ["Replay"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Run the policy through the rounds of the log; it learns when its choice matches the logged action.

    The value is the mean reward of the matched rounds: the mean reward of the policy while it learns, over that many
    rounds. Other estimators evaluate the policy with its current model; this one evaluates its learning.

    A match is accepted with probability smallest / p, where p is the propensity of the logged action. Under a uniform
    logging policy over a constant number of actions all are accepted, and the method is that of Li et al. (2011). Under
    any other logging policy this is rejection sampling: a round with choice a is used with probability
    p(a) · smallest / p(a) = `smallest`, independent of the round, so the rounds used are an unbiased sample of rounds
    (Dudík et al., 2012). The number of rounds used is about `smallest` times the length of the log: if some action is
    almost never shown, very few remain.

    The standard error is s / sqrt(n_matched). Rewards of a learning policy are dependent, so it describes this run, not
    the variability of the policy over other logs.

    Parameters
    ----------
    smallest_propensity
        Lower bound on the probability of any action under the logging policy; None uses the smallest logged propensity.
    on_a_copy
        Whether to run a copy, so that the policy does not change; with False the policy itself learns.
    seed
        Seed of the rejection sampling; unused for a uniform log.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB
    >>> log = Log([["a", "b"]] * 4, actions=[0, 1, 1, 0], propensities=[0.5] * 4, rewards=[0.0, 1.0, 1.0, 0.0])
    >>> estimate = Replay().estimate(log, KernelUCB(Delta()))
    >>> estimate.n_matched, round(estimate.value, 4)
    (3, 0.6667)
    """

    smallest_propensity: float | None = None
    on_a_copy: bool = True
    seed: int = 0
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.smallest_propensity is not None:
            smallest = check_positive(
                self.smallest_propensity, "The smallest propensity", "None uses the smallest of the log."
            )
            object.__setattr__(self, "smallest_propensity", smallest)
        object.__setattr__(self, "on_a_copy", check_bool(self.on_a_copy, "`on_a_copy`"))
        object.__setattr__(self, "seed", check_seed(self.seed))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))

    def estimate(self, log: Log, policy: Policy) -> Estimate:
        """Estimate the mean reward per round of the policy while it learns."""
        check_policy(policy, "choose", "learn", *(["copy"] if self.on_a_copy else []))
        check_log(check_log_to_judge(log))
        smallest = self._smallest(log)
        rewards = self._play(log, policy.copy() if self.on_a_copy else policy, smallest)
        value, error = mean_with_error(rewards)
        low, high = normal_interval(value, error, self.confidence)
        return Estimate(
            value=value, standard_error=error, low=low, high=high, n_rounds=len(log), n_matched=len(rewards),
            effective_sample_size=float(len(rewards)), confidence=self.confidence,
            warnings=_warnings(log, len(rewards), smallest),
        )  # fmt: skip

    def _play(self, log: Log, policy: Policy, smallest: float) -> Vector:
        """Return the rewards of the rounds that were used."""
        rng, rewards = np.random.default_rng(self.seed), []
        for t, (action, propensity) in enumerate(zip(log.actions, log.propensities, strict=True)):
            contexts = log.rounds[t]
            decision = policy.choose(contexts, ids=log.ids_of(t))
            if decision.action != row_of(contexts, int(action)):
                continue
            if propensity > smallest and rng.random() >= smallest / propensity:
                continue
            policy.learn(decision, float(log.rewards[t]))
            rewards.append(float(log.rewards[t]))
        return np.array(rewards)

    def _smallest(self, log: Log) -> float:
        seen = float(log.propensities.min())
        if self.smallest_propensity is None:
            return seen
        if self.smallest_propensity > seen:
            raise InvalidParameter(
                f"No propensity lies below the smallest, {self.smallest_propensity!r}, but the log has {seen!r}. "
                "None uses the smallest of the log."
            )
        return float(self.smallest_propensity)


def _warnings(log: Log, n_used: int, smallest: float) -> tuple[str, ...]:
    warnings = []
    if n_used < min(FEW_ROUNDS, len(log)):
        warnings.append(f"Only {n_used:,} of {pluralize(len(log), 'round')} could be used.")
    if log.propensities.max() > smallest * (1.0 + 1e-9):
        warnings.append(
            f"The logging rule was not uniform: matches were thinned out to a propensity of {smallest:.3g}, so that "
            "the rounds used are an unbiased sample."
        )
    return (*propensity_warnings(log), *warnings, *log_warnings(log))
