"""When to explore: in every epoch once, or first of all."""

from __future__ import annotations

from bisect import bisect_right
from math import cbrt, ceil, floor, sqrt
from typing import Final

__all__ = ["EXPLORING", "Epochs"]

EXPLORING: Final = 1
"""The stage of decisions in uniform rounds, from which these policies learn."""


NEVER: Final = 2**60
"""Epochs that are not played to their end."""


class Epochs:
    """Which rounds are played uniformly, for a class of complexity C = N ln M.

    Without a horizon epoch l = 1, 2, … is one such round and max(1, ⌊sqrt(l / C) / factor⌋) others; with a horizon T
    the first ⌈factor · T^(2/3) C^(1/3)⌉ rounds are.

    >>> schedule = Epochs(0.2, horizon=None, factor=1.0)
    >>> [t for t in range(1, 14) if schedule.explores(t)]
    [1, 4, 8, 12]
    """

    def __init__(self, complexity: float, *, horizon: int | None, factor: float) -> None:
        self._complexity, self._factor = complexity, factor
        self.n_first: int | None = None
        """Rounds at the start, where the horizon is known."""
        if horizon is not None:
            self.n_first = min(horizon, ceil(factor * cbrt(horizon**2 * complexity)))
        self._run = (1, 1)
        """Round and number of the first of the epochs of one length among which the latest round was."""

    def greedy_rounds(self, epoch: int) -> int:
        """Rounds of an epoch after its first."""
        return max(1, floor(sqrt(epoch / self._complexity) / self._factor))

    def explores(self, round_index: int) -> bool:
        """Whether this round, counted from 1, is played uniformly."""
        if self.n_first is not None:
            return round_index <= self.n_first
        if round_index < self._run[0]:
            self._run = (1, 1)
        while True:
            start, epoch = self._run
            n_rounds, later = 1 + self.greedy_rounds(epoch), self._longer_epoch(epoch)
            if round_index < start + (later - epoch) * n_rounds:
                return (round_index - start) % n_rounds == 0
            self._run = (start + (later - epoch) * n_rounds, later)

    def _longer_epoch(self, epoch: int) -> int:
        """The first epoch after this one that has more rounds, or one so far off that it is never reached."""
        n_greedy, above = self.greedy_rounds(epoch), 2 * epoch
        while self.greedy_rounds(above) <= n_greedy and above < NEVER:
            above *= 2
        return epoch + bisect_right(range(epoch, above), n_greedy, key=self.greedy_rounds)
