"""Weights under which the values of all policies of a class can be estimated about equally well."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kernelbandits.policies.experts.picks import PickTable
from kernelbandits.types import Indices, Vector

__all__ = ["Balance", "balanced_weights"]

ROUNDING: Final = 1e-9
"""By which fraction of the bound a variance may be above it: where the mixing is almost 1 / 2N, it is met only so."""

MOST_STEPS: Final = 10_000
"""More than ever needed: a few are usual."""


class Balance(NamedTuple):
    """Weights, and how they were come by."""

    weights: Vector
    """Probability of each policy, zero for those that are not active."""

    n_steps: int
    """How often the weights were moved."""


def balanced_weights(table: PickTable, active: Indices, mixing: float) -> Balance:
    """Weights P on the active policies with mean_x 1 / W'(x, π(x)) ≤ 2N for each of these.

    The step P(π) ← P(π) · mean_x 1 / W'(x, π(x)), renormalised, is one of expectation-maximisation for
    Σ_x Σ_a ln W'(x, a). No policy's value exceeds the mean over P at the maximum, which is at most N / (1 − N m) ≤ 2N
    for m ≤ 1 / 2N; so the bound is met after finitely many steps. They start from equal weights.

    Reference: Dudík et al. (2011), PolicyElimination, the distribution whose existence they prove.
    """
    bound = 2.0 * table.n_actions * (1.0 + ROUNDING)
    weights = np.zeros(table.n_policies)
    weights[active] = 1.0 / len(active)
    if not table.n_rounds:
        return Balance(weights, 0)
    policies = None if len(active) == table.n_policies else active
    n_steps = 0
    while n_steps < MOST_STEPS:
        variances = table.variances(table.odds(weights, mixing), policies)
        if variances.max() <= bound:
            break
        weights[active] *= variances
        weights /= weights.sum()
        n_steps += 1
    return Balance(weights, n_steps)
