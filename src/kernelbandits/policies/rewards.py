"""The rewards that a policy takes: finite numbers, within the range it was told."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.checks import a_range
from kernelbandits.errors import InvalidReward
from kernelbandits.posterior.base import checked_rewards
from kernelbandits.types import Matrix, Vector

__all__ = ["Rewards"]

LARGEST: Final = 1e300
"""Up to here a plain number needs no closer look."""


class Rewards:
    """Checks rewards against a range; None: any finite number will do."""

    def __init__(self, reward_range: tuple[float, float] | None) -> None:
        self.range = None if reward_range is None else a_range(reward_range, "A reward range")
        self._low, self._high = (-LARGEST, LARGEST) if self.range is None else self.range

    def one(self, reward: float) -> float:
        """One reward as a number, or InvalidReward."""
        if type(reward) is float and self._low <= reward <= self._high:
            return reward
        if isinstance(reward, float | int) and self._low <= reward <= self._high:
            return float(reward)
        return float(self.many(reward, 1)[0])

    def many(self, rewards: ArrayLike, n_rewards: int) -> Vector:
        """As many as there have to be, or InvalidReward."""
        values = checked_rewards(rewards, n_rewards)
        if self.range is not None and n_rewards:
            outside = (values < self._low) | (values > self._high)
            if outside.any():
                raise InvalidReward(
                    f"Rewards have to lie in reward_range = [{self._low}, {self._high}], got {values[outside][0]}. "
                    "Rescale them, or declare a wider range."
                )
        return values

    def table(self, rewards: NDArray[Any]) -> Matrix:
        """A table of rewards, or InvalidReward; one that is fine as it is is not copied."""
        is_usual = rewards.dtype == np.float64 and type(rewards) is np.ndarray and rewards.flags.c_contiguous
        # Fresh memory is dear: the sum of squares, the least and the largest need none.
        is_finite = is_usual and rewards.size > 0 and isfinite(np.vdot(rewards, rewards))
        if is_finite and self._low <= rewards.min() and rewards.max() <= self._high:
            return rewards
        return self.many(rewards.reshape(-1), rewards.size).reshape(rewards.shape)

    @property
    def span(self) -> float:
        """Length of the declared range."""
        return self._high - self._low

    def unit(self, reward: float) -> float:
        """A reward of the declared range as a share of it, from 0 to 1."""
        return (reward - self._low) / self.span

    def from_unit(self, share: float) -> float:
        """Inverse of `unit`."""
        return self._low + share * self.span

    def unit_change(self, change: float) -> float:
        """A difference of two rewards as a share of the declared range."""
        return change / self.span
