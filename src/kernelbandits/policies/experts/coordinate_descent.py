"""Sparse weights of low estimated regret under which every policy can be estimated well enough."""

from __future__ import annotations

from math import ceil, log
from typing import Final, NamedTuple

import numpy as np

from kernelbandits.policies.experts.picks import PickTable
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Vector

__all__ = ["Descent", "sparse_weights"]

ROUNDING: Final = 1e-12
"""By which fraction a constraint may be off: without it, rounding would undo and repeat the last step for ever."""


class Descent(NamedTuple):
    """Weights, and how they were come by."""

    weights: Vector
    """Q(π): not negative, at most 1 in sum."""

    n_steps: int
    """How often a policy's weight was raised."""


def sparse_weights(table: PickTable, penalties: Vector, mixing: float, start: Vector) -> Descent:
    """Weights Q with Σ Q(π) (2N + b_π) ≤ 2N and V_π ≤ 2N + b_π for every policy, by coordinate descent.

    b are the penalties, V_π = mean_x 1 / W'(x, π(x)) with W' = (1 − N m) Σ_π Q(π) 1[π(x) = a] + m, whatever the mass
    of Q. Q is shrunk to meet the first constraint with equality where it is broken; then the policy that breaks the
    second one most gains

        (V_π + D_π) / (2 (1 − N m) S_π),    D_π = V_π − (2N + b_π),   S_π = mean_x 1 / W'(x, π(x))²;

    and so on until none does. Each step lowers a potential, so that from Q = 0 there are at most 4 ln(1 / N m) / m of
    them; twice as many are allowed, as Q may start elsewhere.

    Reference: Agarwal et al. (2014), the coordinate descent of ILOVETOCONBANDITS.
    """
    double = 2.0 * table.n_actions
    limits = double + penalties
    most_steps = 1 + ceil(8.0 * log(1.0 / (table.n_actions * mixing)) / mixing)
    kept = table.kept(mixing)[:, None]  # 1 − n m
    weights, step = _shrunk(start, limits, double), 0
    while step < most_steps:
        odds = table.odds(weights, mixing)
        variances = table.variances(odds)
        excess = variances - limits
        worst = tied_for_best(excess)[:1]
        if excess[worst[0]] <= ROUNDING * double:
            break
        slope = table.mean_at_picks(kept / odds**2, power=2, policies=worst)[0]
        weights[worst] += (variances[worst] + excess[worst]) / (2.0 * slope)
        weights = _shrunk(weights, limits, double)
        step += 1
    return Descent(weights, step)


def _shrunk(weights: Vector, limits: Vector, most: float) -> Vector:
    """A copy with Σ Q(π) (2N + b_π) of 2N, where it was more."""
    total = float(weights @ limits)
    return weights * (most / total) if total > most * (1.0 + ROUNDING) else np.array(weights)
