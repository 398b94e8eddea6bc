"""The program of RandomizedUCB: which weights let all policies be estimated as well as they deserve."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from kernelbandits.policies.experts.picks import PickTable
from kernelbandits.types import Vector

__all__ = ["Breach", "VarianceProgram", "upper_hull"]


class Breach(NamedTuple):
    """The mixture Q of policies for which the constraint is broken most, or kept least."""

    excess: float
    """Σ Q(π) V_π less the limit: the constraint holds for all mixtures where this is not above zero."""

    mixture: Vector
    """Q: one policy, or two."""


@dataclass(frozen=True, eq=False)
class VarianceProgram:
    """Minimise Σ P(π) Δ_π such that Σ Q(π) V_π(P) ≤ max(floor, curvature · (Σ Q(π) Δ_π)²) for all mixtures Q.

    V_π(P) = mean_x 1 / W'(x, π(x)) is convex in P, so the program is convex too.
    """

    table: PickTable
    regrets: Vector
    """Δ, the estimated regret of each policy."""

    mixing: float
    floor: float
    curvature: float

    def regret(self, weights: Vector) -> float:
        """Σ P(π) Δ_π."""
        return float(weights @ self.regrets)

    def limit(self, regret: float) -> float:
        """What the variance of a mixture of this regret may be."""
        return max(self.floor, self.curvature * regret**2)

    def breach(self, variances: Vector) -> Breach:
        """Worst mixture, exactly.

        (Σ Q Δ, Σ Q V) runs through the convex hull of the points (Δ_π, V_π), so only its upper edge matters; there the
        excess is concave, and largest at a corner, at the kink of the limit, or where the edge is parallel to it.
        """
        corners = upper_hull(self.regrets, variances)
        kink = sqrt(self.floor / self.curvature) if self.curvature > 0.0 else inf
        excess, first, second, share = max(
            (float(variances[corner]) - self.limit(float(self.regrets[corner])), corner, corner, 0.0)
            for corner in corners
        )
        for left, right in pairwise(corners):
            start, length = self.regrets[left], self.regrets[right] - self.regrets[left]
            slope = (variances[right] - variances[left]) / length
            for regret in {kink, max(kink, slope / (2.0 * self.curvature)) if self.curvature > 0.0 else kink}:
                if start < regret < start + length:
                    here = float(variances[left] + slope * (regret - start)) - self.limit(regret)
                    if here > excess:
                        excess, first, second, share = here, left, right, float((regret - start) / length)
        mixture = np.zeros(len(variances))
        mixture[first] += 1.0 - share
        mixture[second] += share
        return Breach(excess, mixture)


def upper_hull(across: Vector, up: Vector) -> list[int]:
    """Corners of the upper edge of the convex hull of points in the plane, from left to right.

    >>> upper_hull(np.array([0.0, 1.0, 2.0, 1.0]), np.array([0.0, 3.0, 0.0, 1.0]))
    [0, 1, 2]
    """
    corners: list[int] = []
    for point in np.lexsort((-up, across)).tolist():  # from the left; of those above each other the highest first
        if corners and across[corners[-1]] == across[point]:
            continue
        while len(corners) >= 2 and not _is_above(corners[-1], corners[-2], point, across, up):
            corners.pop()
        corners.append(point)
    return corners


def _is_above(middle: int, left: int, right: int, across: Vector, up: Vector) -> bool:
    """Whether a point lies above the line through two others."""
    rise, run = up[right] - up[left], across[right] - across[left]
    return bool((up[middle] - up[left]) * run > rise * (across[middle] - across[left]))
