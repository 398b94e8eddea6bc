"""Comparing two policies while they are watched."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_probability, a_range, positive
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.arguments import a_log
from kernelbandits.evaluation.confidence_sequences import ConfidenceSequence
from kernelbandits.evaluation.diagnosis import log_warnings
from kernelbandits.evaluation.estimate import Estimate
from kernelbandits.evaluation.weights import Target, effective_sample_size
from kernelbandits.policies.base import Policy

__all__ = ["ABComparison", "compare_on_log"]


class ABComparison:
    """Two policies that are live side by side: how much more the first earns a round, at any time.

    Each has a confidence sequence at half the failure probability; the difference lies between low₁ − high₂ and
    high₁ − low₂ at all times at once, so the test may stop as soon as there is a winner, or be looked at for ever.

    Assumes of either stream what `ConfidenceSequence` does; rounds are split between them without looking at rewards.

    Parameters
    ----------
    failure_probability
        Chance that the interval misses the difference at any time.
    reward_range
        Smallest and largest reward that can occur.

    Examples
    --------
    >>> test = ABComparison(failure_probability=0.05, reward_range=(0.0, 1.0))
    >>> test.add(first=np.tile([1.0, 1.0, 0.0, 1.0], 100), second=np.tile([0.0, 0.0, 1.0, 0.0], 100))
    >>> test.winner
    'first'
    """

    def __init__(self, *, failure_probability: float, reward_range: tuple[float, float]) -> None:
        self.failure_probability = a_probability(failure_probability)
        self.first, self.second = (
            ConfidenceSequence(failure_probability=self.failure_probability / 2.0, reward_range=reward_range)
            for _ in range(2)
        )

    def add(self, *, first: ArrayLike = (), second: ArrayLike = ()) -> None:
        """Take in rewards of either policy, one or many; a refused call changes nothing."""
        ours, theirs = self.first.checked(first), self.second.checked(second)
        self.first.follow(ours)
        self.second.follow(theirs)

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high end of the difference, first minus second, now."""
        (low, high), (other_low, other_high) = self.first.interval, self.second.interval
        return low - other_high, high - other_low

    @property
    def winner(self) -> Literal["first", "second"] | None:
        """Whose mean reward is surely higher, if it can be told."""
        low, high = self.interval
        return "first" if low > 0.0 else "second" if high < 0.0 else None

    def estimate(self) -> Estimate:
        """Difference of the mean rewards, first minus second, with the interval."""
        first, second, (low, high) = self.first.estimate(), self.second.estimate(), self.interval
        n_rounds = first.n_rounds + second.n_rounds
        return Estimate(
            value=first.value - second.value,
            standard_error=float(np.hypot(first.standard_error, second.standard_error)),
            low=low, high=high, n_rounds=n_rounds, n_matched=n_rounds, effective_sample_size=float(n_rounds),
            confidence=1.0 - self.failure_probability, warnings=first.warnings + second.warnings,
        )  # fmt: skip


def compare_on_log(
    log: Log,
    first: Policy,
    second: Policy,
    *,
    smallest_propensity: float,
    reward_range: tuple[float, float],
    failure_probability: float = 0.05,
) -> Estimate:
    """How much more the first policy earns a round than the second, from one log; true however long the log is to grow.

    The mean of (w₁ − w₂)(r − c), with weights w = π(a|x) / p and c the middle of the reward range, which changes
    nothing since both weights have mean 1. As no weight exceeds 1 / smallest_propensity, the terms are bounded, and
    `ConfidenceSequence` gives their interval: the log may be looked at after every round.

    Assumes that neither policy changes along the log, that propensities are right, and that rounds are alike.

    Parameters
    ----------
    log
        Decisions of any rule that leaves every action a chance.
    first, second
        Policies as they are; they are asked, and learn nothing.
    smallest_propensity
        Below which the logging rule lets no action fall, known beforehand.
    reward_range
        Smallest and largest reward that can occur.
    failure_probability
        Chance that the interval misses the difference at any time.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB, UniformRandom
    >>> log = Log([["a", "b"]] * 400, actions=[0, 1] * 200, propensities=[0.5] * 400, rewards=[0.0, 1.0] * 200)
    >>> said = compare_on_log(log, UniformRandom(), KernelUCB(Delta()), smallest_propensity=0.5, reward_range=(0, 1))
    >>> said.value, said.low > 0.0
    (0.5, True)
    """
    smallest = positive(smallest_propensity, "The smallest propensity")
    if len(a_log(log)) and log.propensities.min() < smallest:
        raise InvalidParameter(
            f"No propensity lies below the smallest, {smallest!r}, but the log has {float(log.propensities.min())!r}. "
            "State the floor of the logging rule."
        )
    low, high = a_range(reward_range)
    rewards = ConfidenceSequence(failure_probability=failure_probability, reward_range=(low, high)).checked(log.rewards)
    ours, theirs = Target.of(log, first), Target.of(log, second)
    largest = (high - low) / (2.0 * smallest)
    sequence = ConfidenceSequence(failure_probability=failure_probability, reward_range=(-largest, largest))
    difference = ours.weights - theirs.weights
    terms = difference * (rewards - (low + high) / 2.0)
    said = sequence.add(np.clip(terms, -largest, largest))  # rounding can push the largest terms a little further
    return Estimate(
        value=said.value, standard_error=said.standard_error, low=said.low, high=said.high, n_rounds=len(log),
        n_matched=int(np.count_nonzero(difference)), effective_sample_size=effective_sample_size(np.abs(difference)),
        confidence=said.confidence, warnings=said.warnings + log_warnings(log),
    )  # fmt: skip
