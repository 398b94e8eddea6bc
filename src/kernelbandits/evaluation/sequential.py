"""Anytime-valid inference: confidence sequences and A/B comparison."""

from __future__ import annotations

from math import log, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter, InvalidReward, NotSupported
from kernelbandits.evaluation._inputs import check_log
from kernelbandits.evaluation.off_policy import Estimate, Target, effective_sample_size, log_warnings
from kernelbandits.evaluation.propensities import propensity_warnings
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector
from kernelbandits.validation import check_positive, check_probability, check_range, check_vector

__all__ = ["ABComparison", "ConfidenceSequence", "compare_on_log"]

LARGEST_BET: Final = 0.5
"""Largest λ: any number below 1 is valid, and its authors recommend this one."""


class ConfidenceSequence:
    """Anytime-valid interval for the mean of bounded values, with optional stopping and inspection at any time.

    With probability 1 − δ the mean lies in the interval after every value simultaneously, so a stopping rule may depend
    on the interval. A fixed-sample interval that is inspected after every value eventually fails almost surely. For
    values x scaled to [0, 1], with earlier mean m and bets λ that depend on earlier values only:

        Σ λ x / Σ λ  ±  (ln(2/δ) + Σ 4 (x − m)² (−ln(1 − λ) − λ) / 4) / Σ λ,
        λ_t = min(1/2, sqrt(2 ln(2/δ) / (v t ln(1 + t)))),  v the earlier variance,

    intersected over all times so far. It narrows like s · sqrt(ln ln t / t) up to constants, with s the standard
    deviation of the values: a wide range with small variance costs little. Time per value and memory are O(1).

    Assumptions: every value lies in the range, and its conditional mean given all earlier values is constant. Values
    need not be independent.

    Reference: Waudby-Smith and Ramdas (2024), predictable plug-in empirical Bernstein confidence sequence.

    Parameters
    ----------
    failure_probability
        Probability that the interval misses the mean at any time.
    reward_range
        Smallest and largest possible value.

    Examples
    --------
    >>> sequence = ConfidenceSequence(failure_probability=0.05, reward_range=(0.0, 1.0))
    >>> low, high = sequence.interval
    >>> (low, high)
    (0.0, 1.0)
    >>> estimate = sequence.add(np.tile([0.0, 1.0, 1.0, 1.0], 500))
    >>> estimate.value, estimate.low < 0.75 < estimate.high, estimate.high - estimate.low < 0.15
    (0.75, True, True)
    """

    def __init__(self, *, failure_probability: float, reward_range: tuple[float, float]) -> None:
        self.failure_probability = check_probability(failure_probability)
        self.reward_range = check_range(reward_range)
        self.n_values = 0
        """Number of values so far."""
        self._sum = 0.0  # sum of the values, scaled to [0, 1]
        self._squares = 0.0  # Σ (x − mean)², with the mean of all values so far
        self._distances = 0.0  # Σ (x − running mean)²
        self._bets = self._gains = self._costs = 0.0  # Σ λ, Σ λ x, Σ v ψ(λ)
        self._latest = self._running = (0.0, 1.0)

    def __repr__(self) -> str:
        low, high = self.interval
        return f"ConfidenceSequence({self.n_values} values, {low:.4g} to {high:.4g})"

    @property
    def interval(self) -> tuple[float, float]:
        """Current lower and upper end; if the intersection of all intervals is empty, the latest interval alone."""
        low, high = self._running if not self.is_contradicted else self._latest
        return self._unscaled(low), self._unscaled(high)

    @property
    def is_contradicted(self) -> bool:
        """Whether the intersection of all intervals is empty: the mean has changed, or a rare failure has occurred."""
        return self._running[0] > self._running[1]

    def add(self, values: ArrayLike) -> Estimate:
        """Add one or many values, and return the current estimate."""
        self.follow(values)
        return self.estimate()

    def follow(self, values: ArrayLike) -> tuple[Vector, Vector]:
        """Add values, and return the lower and the upper end after each of them."""
        start, width = self.reward_range[0], self.reward_range[1] - self.reward_range[0]
        scaled = (self.checked(values) - start) / width
        low, high = self._bounds(scaled)
        lows = np.maximum.accumulate(np.concatenate([[self._running[0]], low]))[1:]
        highs = np.minimum.accumulate(np.concatenate([[self._running[1]], high]))[1:]
        if len(scaled):
            self._latest, self._running = (float(low[-1]), float(high[-1])), (float(lows[-1]), float(highs[-1]))
        return start + width * lows, start + width * highs

    def estimate(self) -> Estimate:
        """Return the mean of the values with the interval, which is valid at any time."""
        n, (low, high) = self.n_values, self.interval
        variance = self._squares / (n - 1) if n > 1 else np.nan
        return Estimate(
            value=self._unscaled(self._sum / n) if n else np.nan,
            standard_error=(self.reward_range[1] - self.reward_range[0]) * sqrt(variance / n) if n > 1 else np.nan,
            low=low, high=high, n_rounds=n, n_matched=n, effective_sample_size=float(n),
            confidence=1.0 - self.failure_probability, warnings=self._warnings(),
        )  # fmt: skip

    def _bounds(self, x: Vector) -> tuple[Vector, Vector]:
        """Return the interval after each value, in [0, 1], and update the sums."""
        n = self.n_values + np.arange(1, len(x) + 1)
        sums = self._sum + np.cumsum(x)
        means = np.concatenate([[(0.5 + self._sum) / (1 + self.n_values)], (0.5 + sums) / (1 + n)])
        distances = np.concatenate([[self._distances], self._distances + np.cumsum((x - means[1:]) ** 2)])
        variances = (0.25 + distances[:-1]) / n  # variance before each value
        evidence = log(2.0 / self.failure_probability)
        bets = np.minimum(LARGEST_BET, np.sqrt(2.0 * evidence / (variances * n * np.log1p(n))))
        costs = self._costs + np.cumsum((x - means[:-1]) ** 2 * (-np.log1p(-bets) - bets))
        total, gains = self._bets + np.cumsum(bets), self._gains + np.cumsum(bets * x)
        if len(x):
            self._squares = self._joint_squares(x)
            self.n_values, self._sum, self._distances = int(n[-1]), float(sums[-1]), float(distances[-1])
            self._bets, self._gains, self._costs = float(total[-1]), float(gains[-1]), float(costs[-1])
        center, radius = gains / total, (evidence + costs) / total
        return np.maximum(center - radius, 0.0), np.minimum(center + radius, 1.0)

    def _joint_squares(self, x: Vector) -> float:
        """Return Σ (x − mean)² of all values; a difference of sums of squares would lose precision for small ones."""
        own = float(np.sum((x - x.mean()) ** 2))
        if not self.n_values:
            return own
        apart = float(x.mean()) - self._sum / self.n_values
        return self._squares + own + apart**2 * self.n_values * len(x) / (self.n_values + len(x))

    def checked(self, values: ArrayLike) -> Vector:
        """Return the values as one row; raise InvalidReward for a value outside the range."""
        checked = check_vector(np.atleast_1d(values), "Values")
        low, high = self.reward_range
        for bad in checked[(checked < low) | (checked > high)][:1].tolist():
            raise InvalidReward(f"A value must lie between {low} and {high}, got {bad!r}. Declare a wider range.")
        return checked

    def _unscaled(self, x: float) -> float:
        low, high = self.reward_range
        return float(low + (high - low) * x)

    def _warnings(self) -> tuple[str, ...]:
        if not self.is_contradicted:
            return ()
        return ("The intervals so far have nothing in common: the mean has moved, or this is the rare failure.",)


class ABComparison:
    """Anytime-valid A/B comparison of two live policies: difference of their mean rewards per round.

    Each policy has a confidence sequence at half the failure probability. The difference lies between low₁ − high₂ and
    high₁ − low₂ at all times simultaneously, so the test may stop as soon as there is a winner, or continue
    indefinitely.

    Both streams must satisfy the assumptions of `ConfidenceSequence`; rounds are assigned independently of rewards.

    Parameters
    ----------
    failure_probability
        Probability that the interval misses the difference at any time.
    reward_range
        Smallest and largest possible reward.

    Examples
    --------
    >>> test = ABComparison(failure_probability=0.05, reward_range=(0.0, 1.0))
    >>> test.add(first=np.tile([1.0, 1.0, 0.0, 1.0], 100), second=np.tile([0.0, 0.0, 1.0, 0.0], 100))
    >>> test.winner
    'first'
    """

    def __init__(self, *, failure_probability: float, reward_range: tuple[float, float]) -> None:
        self.failure_probability = check_probability(failure_probability)
        self.first, self.second = (
            ConfidenceSequence(failure_probability=self.failure_probability / 2.0, reward_range=reward_range)
            for _ in range(2)
        )

    def __repr__(self) -> str:
        low, high = self.interval
        values = f"{self.first.n_values} and {self.second.n_values} values"
        return f"ABComparison({values}, difference {low:.4g} to {high:.4g}, winner {self.winner!r})"

    def add(self, *, first: ArrayLike = (), second: ArrayLike = ()) -> None:
        """Add one or many rewards of either policy; a rejected call changes nothing."""
        ours, theirs = self.first.checked(first), self.second.checked(second)
        self.first.follow(ours)
        self.second.follow(theirs)

    @property
    def interval(self) -> tuple[float, float]:
        """Current lower and upper end of the difference, first minus second."""
        (low, high), (other_low, other_high) = self.first.interval, self.second.interval
        return low - other_high, high - other_low

    @property
    def winner(self) -> Literal["first", "second"] | None:
        """The policy with the higher mean reward, if the interval excludes zero; otherwise None."""
        low, high = self.interval
        return "first" if low > 0.0 else "second" if high < 0.0 else None

    def estimate(self) -> Estimate:
        """Return the difference of the mean rewards, first minus second, with the interval."""
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
    """Estimate the difference in mean reward per round of two policies from one log; valid for a growing log.

    The estimate is the mean of (w₁ − w₂)(r − c), with weights w = π(a|x) / p and c the middle of the reward range,
    which does not change the expectation since both weights have mean 1. As no weight exceeds 1 / smallest_propensity,
    the terms are bounded, and `ConfidenceSequence` gives their interval: the log may be inspected after every round.

    Assumptions: both policies are fixed, the propensities are correct, and rounds have the same distribution.

    Parameters
    ----------
    log
        Decisions of any logging policy with positive probability for every action.
    first, second
        Policies with their current models; they are queried and do not learn.
    smallest_propensity
        Lower bound on the probability of every action under the logging policy, known in advance.
    reward_range
        Smallest and largest possible reward.
    failure_probability
        Probability that the interval misses the difference at any time.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB, UniformRandom
    >>> log = Log([["a", "b"]] * 400, actions=[0, 1] * 200, propensities=[0.5] * 400, rewards=[0.0, 1.0] * 200)
    >>> lead = compare_on_log(log, UniformRandom(), KernelUCB(Delta()), smallest_propensity=0.5, reward_range=(0, 1))
    >>> lead.value, lead.low > 0.0
    (0.5, True)
    """
    smallest = check_positive(smallest_propensity, "The smallest propensity")
    if propensity_warnings(check_log(log)):
        raise NotSupported(
            "An interval that holds at all times needs known propensities, and those of this log are estimated. Take "
            "the lift of DoublyRobust, whose interval holds their error."
        )
    if len(log) and log.propensities.min() < smallest:
        raise InvalidParameter(
            f"No propensity lies below the smallest, {smallest!r}, but the log has {float(log.propensities.min())!r}. "
            "State the floor of the logging rule."
        )
    low, high = check_range(reward_range)
    rewards = ConfidenceSequence(failure_probability=failure_probability, reward_range=(low, high)).checked(log.rewards)
    ours, theirs = Target.of(log, first), Target.of(log, second)
    largest = (high - low) / (2.0 * smallest)
    sequence = ConfidenceSequence(failure_probability=failure_probability, reward_range=(-largest, largest))
    difference = ours.weights - theirs.weights
    terms = difference * (rewards - (low + high) / 2.0)
    lead = sequence.add(np.clip(terms, -largest, largest))  # rounding may push terms slightly beyond
    return Estimate(
        value=lead.value, standard_error=lead.standard_error, low=lead.low, high=lead.high, n_rounds=len(log),
        n_matched=int(np.count_nonzero(difference)), effective_sample_size=effective_sample_size(np.abs(difference)),
        confidence=lead.confidence, warnings=lead.warnings + log_warnings(log),
    )  # fmt: skip
