"""Who can win a round, and who does: upper bounds of scores, and forward substitution for those whose bound is high."""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.screening_loops import screening_loops
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Vector

__all__ = ["Group", "Terms", "contest", "rank"]

PREFIX: Final = 4
"""Leaders are looked for after one in so many rows of the factor."""

SAFETY: Final = 1e-9
"""Share of max(1, |score|) by which every upper bound is raised: far above what rounding does to a score."""


EPSILON: Final = float(np.finfo(np.float64).eps)


class Terms(NamedTuple):
    """What upper bounds and scores are made of, beside what differs from action to action."""

    reach: float
    drift: float
    """As in `DualWeights`."""

    floor: float
    """Share of k(x, x) below which no v(x) falls: γ/(γ + tr K)."""

    slack: float
    """Share of k(x, x) that rounding can take from v(x)."""

    allowance: float
    """By how much similarities that are not exact can change a mean."""

    rounding: float
    """As in `DualWeights`."""

    safety: float
    regularisation: float
    exploration: float

    @classmethod
    def vector(cls, posterior: ExactPosterior, weights: DualWeights, error: float, exploration: float) -> Vector:
        """All of them, with similarities that are off by no more than `error`."""
        regularisation, trace = posterior.regularisation, posterior.trace
        floor = regularisation / (regularisation + trace)
        # Substitution with s rows solves (L + E) w = b with |E| ≤ s ε |L|, and ‖L‖_F² / γ ≤ s + tr K / γ.
        spread = trace / regularisation
        slack = 1e-12 + EPSILON * (4.0 * spread + 2.0 * (weights.size + 16) * sqrt(weights.size + spread))
        allowance = error * weights.total
        given = weights.rounding, SAFETY, regularisation, exploration
        return np.array(cls(weights.reach, weights.drift, floor, slack, allowance, *given))


class Group(NamedTuple):
    """Actions that go through the factor together."""

    rows: Indices
    """Which actions of the round."""

    columns: Matrix
    """D^½ k of each, and w = L⁻¹ D^½ k in the end; an action a row."""

    state: Matrix
    """Of each its upper bound, Σ w² so far, k(x, x), old mean, mean, width."""

    @classmethod
    def of(cls, rows: Indices, columns: Matrix, upper: Vector, prior: Vector, mean: Vector) -> Group:
        """A group at the start."""
        state = np.zeros((len(rows), 6))
        state[:, 0], state[:, 2], state[:, 3] = upper[rows], prior[rows], mean[rows]
        return cls(rows, columns, state)


def rank(
    mean: Vector, explained: Vector, prior: Vector, terms: Vector, upper: Vector, leading: Indices
) -> tuple[float, int]:
    """As `contest_loop.rank_loop`, by whatever is there."""
    loop = screening_loops.rank
    return (rank_twin if loop is None else loop)(mean, explained, prior, terms, upper, leading)


def rank_twin(
    mean: Vector, explained: Vector, prior: Vector, terms: Vector, upper: Vector, leading: Indices
) -> tuple[float, int]:
    """`contest_loop.rank_loop` in NumPy."""
    reach, drift, floor, slack, allowance, rounding, safety = terms[:7]
    deviation = np.sqrt(np.maximum(prior - explained, prior * floor) + prior * slack)
    off = allowance + rounding * np.sqrt(prior)
    upper[:] = mean + reach * deviation + off
    upper += safety * np.maximum(1.0, np.abs(upper))
    if not np.isfinite(upper).all():
        return np.nan, 0
    lowest = mean - drift * deviation - off
    lowest -= safety * np.maximum(1.0, np.abs(lowest))
    bar = _bar(float(lowest.max()), safety)
    leading[:] = np.argsort(-upper, kind="stable")[: len(leading)]
    return bar, int(np.count_nonzero(upper >= bar))


def _bar(score: float, safety: float) -> float:
    return score - (TIE_TOLERANCE + safety) * max(1.0, abs(score))


def contest(
    factor: GrowingCholesky,
    table: NDArray[np.int64],
    group: Group,
    targets: Vector,
    terms: Vector,
    *,
    size: int,
    n_leaders: int,
    bar: float,
) -> tuple[float, Indices]:
    """Exact means and widths of all in the group who reach the bar; the bar they set, and their rows.

    Those are the first of `group.columns` and `group.state` afterwards, in this order. Bounds hold for the factor's
    rows before `size`.
    """
    loop = screening_loops.contest
    if loop is None:
        return contest_twin(factor, group, targets, terms, bar), group.rows
    order, n_first = np.arange(len(group.rows)), len(targets) // PREFIX // 64 * 64 if n_leaders else 0
    bar, n_done = loop(table, size, group.columns, group.state, order, targets, terms, n_first, n_leaders, bar)
    return bar, group.rows[order[:n_done]]


def contest_twin(factor: GrowingCholesky, group: Group, targets: Vector, terms: Vector, bar: float) -> float:
    """`contest_loop.contest_loop` in NumPy, where nobody is left behind."""
    columns, state = group.columns, group.state
    columns[:] = factor.solve(np.ascontiguousarray(columns.T)).T
    floor, safety, regularisation, exploration = terms[[2, 6, 7, 8]]
    state[:, 1] = np.einsum("nm,nm->n", columns, columns)
    state[:, 4] = columns @ targets
    left = np.maximum(state[:, 2] - state[:, 1], state[:, 2] * floor)
    state[:, 5] = np.sqrt(left / regularisation)
    return max(bar, _bar(float((state[:, 4] + exploration * state[:, 5]).max()), float(safety)))
