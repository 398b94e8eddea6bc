"""KL-UCB."""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np

from kernelbandits.checks import not_negative
from kernelbandits.policies.index.index_policy import IndexPolicy
from kernelbandits.policies.ties import Ties
from kernelbandits.types import Parameters, Seed, Vector

__all__ = ["KLUCB", "upper_means"]

MOST_STEPS: Final = 60
"""Newton steps: 7 to 10 do, but where the divergence allowed is almost 0, the root is almost double and the error is
only halved each time; then 60 leave nothing that shows."""

STILL: Final = 1e-13
"""A step shorter than this, relative, ends the search."""


class KLUCB(IndexPolicy):
    """The highest mean that an action's rewards do not yet contradict (Garivier and Cappé 2011).

        index = max { q : n · kl(mean, q) ≤ max(0, ln t + c ln ln t) }

    where kl is the Kullback–Leibler divergence of two coins, n counts an action's own plays and t the rounds. What it
    adds to the mean is at most half of what UCB1 adds (c = 0), and far less for rare clicks; for rewards that are 0 or
    1 the number of plays of bad actions reaches the lower limit of Lai and Robbins (1985) as T grows. Rewards of
    another range are scaled to [0, 1]. Contexts are not looked at: `ids`, or the rows where there are none, say which
    action is which. A round costs O(N): a few Newton steps for all actions at once.

    The guarantee is for a fixed set of actions whose rewards are independent draws and come before the next choice.
    Sets may change all the same; an action that was never played is then played first. Awaited decisions count in n
    and t at once, and not in the mean.

    Parameters
    ----------
    log_log_factor
        c. 3 is what the proof needs; its authors advise 0 in practice.
    reward_range, ties, seed
        As in UCB1.

    Examples
    --------
    >>> policy = KLUCB(log_log_factor=0.0)
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).score
    1.0
    """

    def __init__(
        self,
        *,
        log_log_factor: float = 3.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        super().__init__(reward_range=reward_range, ties=ties, seed=seed)
        self._log_log_factor = not_negative(log_log_factor, "The factor of ln ln t", "3.0 is the paper's.")

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        if t < 2:  # ln ln 1 is no number, and nothing but the mean is known yet
            return means
        allowed = max(0.0, log(t) + self._log_log_factor * log(log(t)))
        return upper_means(means, allowed / plays)

    def _parameters(self) -> Parameters:
        return {"log_log_factor": self._log_log_factor, "reward_range": self.reward_range, "ties": self._ties}


def upper_means(means: Vector, divergence: Vector) -> Vector:
    """The largest q with kl(mean, q) ≤ divergence, where kl(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)).

    Newton's method in u = −ln(1 − q). In u the divergence is convex with derivative (q − p)/q, so that steps from a
    point above the root stay above it. Two such points: Pinsker's p + sqrt(divergence/2), and
    u = (divergence + H(p))/(1 − p), for −p ln q is not negative; H(p) = −p ln p − (1 − p) ln(1 − p).

    >>> upper_means(np.array([0.0, 0.5, 1.0]), np.array([0.7, 0.02, 0.7])).round(4)
    array([0.5034, 0.599 , 1.    ])
    """
    upper = np.ones_like(means)
    open_ended = means < 1.0
    p, allowed = means[open_ended], divergence[open_ended]
    rest = 1.0 - p
    entropy = -_x_log_x(p) - _x_log_x(rest)
    with np.errstate(divide="ignore"):  # ln 0: a bound of 1 says nothing
        pinsker = -np.log1p(-np.minimum(p + np.sqrt(allowed / 2.0), 1.0))
    u = np.minimum(pinsker, (allowed + entropy) / rest)
    lowest = -np.log1p(-p)
    for _ in range(MOST_STEPS):
        q = -np.expm1(-u)
        some = q > p  # elsewhere the mean itself is all that is allowed
        excess = rest * u - entropy - allowed - p * np.log(np.where(some, q, 1.0))
        step = np.where(some, excess * q / np.where(some, q - p, 1.0), 0.0)
        u = np.maximum(u - np.maximum(step, 0.0), lowest)  # below 0 is rounding
        if (step <= STILL * u).all():
            break
    upper[open_ended] = np.maximum(-np.expm1(-u), p)
    return upper


def _x_log_x(x: Vector) -> Vector:
    return x * np.log(np.where(x > 0.0, x, 1.0))
