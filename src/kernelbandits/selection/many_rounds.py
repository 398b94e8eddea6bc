"""The tied best of many rounds on the same model, at matrix-matrix speed and without the widths of all."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.threads import few_threads
from kernelbandits.selection.contest import Terms
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.panel_table import PanelTable
from kernelbandits.selection.similarities import SIMILARITY_ERROR
from kernelbandits.selection.ties import lowered, tied_for_best
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["tied_in_each"]

FIRST_ROWS: Final = 64
"""Of the factor, that every action goes through; each further look doubles them, so that nothing is done twice."""


def tied_in_each(
    posterior: ExactPosterior, points: Points, sizes: Indices, exploration: Vector
) -> list[Indices] | None:
    """Rows of each round tied for its highest mean + exploration · width, lowest first, as scoring all would say.

    Forward substitution with the first rows of the factor bounds every width from above: v ≤ k(x, x) − Σ w_i² over the
    rows so far, and the mean is known beforehand. The leader of each round by that bound is solved to the end; of the
    others those go on whose bound reaches its score, through twice as many rows each time.

    Parameters
    ----------
    posterior
        One that is sure of its kernel and has learnt something.
    points
        Checked actions of all rounds, one round after the other.
    sizes
        Actions of each round.
    exploration
        Of each round.

    Returns
    -------
    list of arrays, or None where something overflows, which those who score all refuse in words.
    """
    posterior.kernel.kind.refuse_unlike(posterior.record.points, points)
    posterior.whitening()  # which may take many threads
    work = float(posterior.size) ** 2 * len(sizes)
    with few_threads(work), np.errstate(over="ignore", invalid="ignore"):
        contest = _Contest(posterior, points, np.repeat(exploration, sizes))
        if not np.isfinite(contest.upper).all():
            return None
        starts = np.cumsum(sizes) - sizes
        round_of = np.repeat(np.arange(len(sizes)), sizes)
        contest.go_on(np.arange(len(round_of)), 0, FIRST_ROWS)
        leaders = _leaders(contest.upper, starts, round_of)
        n_rows = min(FIRST_ROWS, contest.size)
        contest.go_on(leaders, n_rows, contest.size)
        bars = np.array([lowered(score) for score in contest.upper[leaders]])[round_of]
        others = np.setdiff1d(np.arange(len(round_of)), leaders)
        while n_rows < contest.size and len(others):
            others = others[contest.upper[others] >= bars[others]]
            contest.go_on(others, n_rows, min(2 * n_rows, contest.size))
            n_rows = min(2 * n_rows, contest.size)
        contest.upper[contest.upper < bars] = -np.inf
    return [tied_for_best(scores) for scores in np.split(contest.upper, starts[1:])]


class _Contest:
    """Upper bounds of the scores of many points, which become the scores once all rows were gone through."""

    def __init__(self, posterior: ExactPosterior, points: Points, exploration: Vector) -> None:
        whitening, self._weights = posterior.whitening(), DualWeights()
        self._weights.follow(posterior, whitening, PanelTable().of(whitening.factor), 1.0)
        self._posterior, self._factor, self._targets = posterior, whitening.factor, whitening.targets
        self._exploration, self.size = exploration, whitening.factor.size
        similarity = posterior.kernel.gram(posterior.record.points, points)
        self._prior = posterior.kernel.diagonal(points)
        largest = float(np.sqrt(self._prior.max() * whitening.diagonal.max()))
        self._terms = Terms(*Terms.vector(posterior, self._weights, SIMILARITY_ERROR * largest, 1.0))
        self._mean = self._weights.weights @ similarity
        self._columns: Matrix = np.ascontiguousarray(np.sqrt(posterior.record.counts)[:, None] * similarity)
        self._explained = np.zeros(len(self._prior))
        self.upper: Vector = self._bound(np.arange(len(self._prior)))
        """Of every point; its score where all rows of the factor were gone through."""

    def go_on(self, places: Indices, first: int, last: int) -> None:
        """Take some points from one row of the factor to another."""
        last = min(last, self.size)
        if first >= last or not len(places):
            return
        columns = self._columns[:last] if len(places) == len(self._prior) else self._columns[:last, places]
        solved = self._factor.solve(np.ascontiguousarray(columns), solved=first, until=last)
        self._explained[places] += np.einsum("mn,mn->n", solved[first:], solved[first:])
        if last == self.size:
            self._mean[places] = self._targets @ solved
            width = np.sqrt(self._posterior.squared_width(self._prior[places], self._explained[places]))
            self.upper[places] = self._mean[places] + self._exploration[places] * width
        else:
            self._columns[first:last, places] = solved[first:]
            self.upper[places] = self._bound(places)

    def _bound(self, places: Indices) -> Vector:
        """Above any score, whatever the rounding."""
        terms, prior = self._terms, self._prior[places]
        left = np.maximum(prior - self._explained[places], terms.floor * prior) + terms.slack * prior
        width = np.sqrt(left / terms.regularisation)
        rounding = terms.allowance + terms.rounding * np.sqrt(prior)
        return np.asarray(self._mean[places] + rounding + self._exploration[places] * width)


def _leaders(bounds: Vector, starts: Indices, round_of: Indices) -> Indices:
    """The place of the highest bound of each round, the lowest of equal ones."""
    highest = np.maximum.reduceat(bounds, starts)
    places = np.flatnonzero(bounds == highest[round_of])
    return places[np.unique(round_of[places], return_index=True)[1]]
