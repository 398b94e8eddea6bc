"""Totals of whole runs estimated from a few checkpoints, and other arithmetic on times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np

from benchmarks.workloads import Vector

__all__ = ["PowerLaw", "end_of", "middle", "piecewise_total", "thinned"]


@dataclass(frozen=True)
class PowerLaw:
    """Seconds of round t: scale · t^exponent.

    >>> law = PowerLaw.fit([100, 1000], [0.01, 1.0])
    >>> round(law.exponent, 6), round(law.at(1000), 6)
    (2.0, 1.0)
    >>> round(law.total(1000), 3)                         # ∫ 1e-6 t² dt
    333.333
    """

    scale: float
    exponent: float
    worst: float
    """Largest relative distance of a measurement from the law: how far to trust it."""

    @classmethod
    def fit(cls, rounds: Sequence[int], seconds: Sequence[float]) -> PowerLaw:
        """Least squares on a double logarithmic scale; a single measurement is taken as constant."""
        logs = np.log(np.asarray(seconds, dtype=float))
        if len(rounds) == 1:
            return cls(float(seconds[0]), 0.0, 0.0)
        exponent, offset = np.polyfit(np.log(np.asarray(rounds, dtype=float)), logs, 1)
        law = cls(exp(offset), float(exponent), 0.0)
        worst = max(abs(law.at(t) / s - 1.0) for t, s in zip(rounds, seconds, strict=True))
        return cls(law.scale, law.exponent, worst)

    def at(self, round_index: float) -> float:
        """Seconds of this round."""
        return self.scale * exp(self.exponent * log(round_index))

    def total(self, horizon: float, *, after: float = 0.0) -> float:
        """Seconds of the rounds in (after, horizon]: the integral of the law."""
        power = self.exponent + 1.0
        if power <= 0.0:  # steeper than 1/t downwards: noise of very short rounds, and no integral from zero
            return self.at(horizon) * (horizon - after)
        return float(self.scale * (horizon**power - after**power) / power)


def piecewise_total(rounds: Sequence[int], seconds: Sequence[float], horizon: float) -> float:
    """Seconds of a run by a power law between each two neighboring checkpoints, the outer ones extended.

    Follows a curve that bends, as that of a method with a fixed cost per round does.

    >>> round(piecewise_total([10, 100, 1000], [1.0, 1.0, 10.0], 1000), 1)    # constant, then linear
    5050.0
    """
    total, reached = 0.0, 0.0
    for first in range(len(rounds) - 1):
        law = PowerLaw.fit(rounds[first : first + 2], seconds[first : first + 2])
        until = horizon if first == len(rounds) - 2 else float(rounds[first + 1])
        total += law.total(until, after=reached)
        reached = until
    return total


def middle(values: Sequence[float]) -> float:
    """Median: one disturbed repeat does not move it."""
    return float(np.median(values))


def end_of(seconds: Vector) -> float:
    """Seconds of a round at the end of a run: the median of its last tenth, of a hundred rounds at most."""
    return float(np.median(seconds[-max(1, min(100, len(seconds) // 10)) :]))


def thinned(seconds: Vector, n_points: int = 24) -> tuple[list[int], list[float]]:
    """A curve for a figure: medians over stretches of rounds that grow by a constant factor."""
    edges = np.unique(np.geomspace(1, len(seconds) + 1, n_points + 1).astype(int))
    rounds, medians = [], []
    for low, high in pairwise(edges):
        rounds.append(int((low + high - 1) // 2))
        medians.append(float(np.median(seconds[low - 1 : high - 1])))
    return rounds, medians
