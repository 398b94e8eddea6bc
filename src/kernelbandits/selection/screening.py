"""The best of a set of actions that was never seen before: exact widths only for those that can still win."""

from __future__ import annotations

from math import inf, isnan
from typing import Final

import numpy as np

from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import AutoPosterior, ExactPosterior, Posterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.posterior.threads import few_threads
from kernelbandits.selection.contest import Group, Terms, contest, rank
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.panel_table import PanelTable
from kernelbandits.selection.similarities import Similarities, similarities_for
from kernelbandits.selection.ties import worst_tied
from kernelbandits.types import Indices, Points, SelectionCost, Vector, new_cost

__all__ = ["Screening", "screened"]

LEAST_SIZE: Final = 8
"""Distinct points below which it makes no difference."""

FIRST: Final = 16
"""Actions of the highest bounds, among which the leader is looked for."""

LEADERS: Final = 3
"""Of these, how many are solved to the end before all others: reading the factor again costs more than two of them."""

PART: Final = 128
"""Other actions that are solved side by side."""

WORK_PER_SIMILARITY: Final = 10.0
"""Multiplications, for `few_threads`: a distance of a few columns and a profile."""

KEPT: Final = 16
"""Tied actions whose solution is kept for the case that they are observed next."""


def screened(posterior: Posterior, n_actions: int) -> ExactPosterior | None:
    """What would be screened for a round of so many actions; None where all have to be scored."""
    exact = posterior.exact if isinstance(posterior, AutoPosterior) else posterior
    if not isinstance(exact, ExactPosterior) or n_actions < 2 or exact.record.size < LEAST_SIZE or not exact.is_sure:
        return None
    return exact


class Screening:
    """Follows one posterior and finds the tied best of any actions, as scoring all of them would.

    1. One pass over the similarities gives the mean of every action and, from the nearest observation alone, an upper
       bound of its variance: for any single z_j, v(x) ≤ k(x, x) − k(x, z_j)² / (k(z_j, z_j) + γ/n_j).
    2. Forward substitution with the factor tightens the bound from row to row: v ≤ k(x, x) − Σ w_i² over the rows so
       far. Those of the highest bounds after a part of the rows are solved to the end.
    3. All others whose bound reaches their scores go on, until they fall below or are known exactly.

    Derived state: never saved, never copied. An interrupt or an error may leave half of an update behind: then
    `is_finished` stays false, and its owner replaces it.
    """

    def __init__(self) -> None:
        self.is_finished = True
        """Whether every question so far has come to its end."""
        self._record: Observations | None = None
        self._ways: dict[bool, Similarities] = {}
        self._weights = DualWeights()
        self._table = PanelTable()
        self._posterior: ExactPosterior | None = None
        self._points: Points = None
        self._prior: Vector = np.zeros(0)
        self._exact: dict[int, list[float]] = {}  # mean and width
        self._scores: dict[int, float] = {}
        self._columns: dict[int, Vector] = {}
        self._n_actions = 0

    def __reduce__(self) -> tuple[type[Screening], tuple[()]]:
        """A copy begins anew: what is known of a factor belongs to that very one."""
        return Screening, ()

    def best(self, posterior: Posterior, points: Points, n_actions: int, exploration: float) -> Indices | None:
        """Rows tied for the highest mean + exploration · width, lowest first; None where all have to be scored."""
        exact = screened(posterior, n_actions)
        if exact is None:
            return None
        exact.kernel.kind.refuse_unlike(exact.record.points, points)
        self.is_finished = False
        self._posterior, self._points, self._n_actions = exact, points, n_actions
        self._exact, self._scores, self._columns = {}, {}, {}
        exact.whitening()  # which may take many threads
        work = WORK_PER_SIMILARITY * float(exact.record.size) * n_actions
        with few_threads(work), np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused elsewhere
            tied = self._tied(exact, points, exploration)
        self.is_finished = True
        return tied

    def _tied(self, posterior: ExactPosterior, points: Points, exploration: float) -> Indices | None:
        whitening = posterior.whitening()
        factor, targets, _ = whitening
        table, weights = self._table.of(factor), self._weights
        weights.follow(posterior, whitening, table, exploration)
        way = self._way(posterior, points)
        scan = way.scan(points, weights.weights, weights.shares)
        prior = self._prior = posterior.kernel.diagonal(points)
        terms = Terms.vector(posterior, weights, scan.error, exploration)
        upper, leading = np.empty(len(prior)), np.empty(min(FIRST, len(prior)), dtype=np.intp)
        bar, n_able = rank(scan.mean, scan.explained, prior, terms, upper, leading)
        if isnan(bar):
            return None
        roots = np.sqrt(posterior.record.counts)

        def meet(rows: Indices, n_leaders: int) -> float:
            group = Group.of(rows, way.rows(points, rows, roots), upper, prior, scan.mean)
            higher, done = contest(
                factor, table, group, targets, terms, size=weights.size, n_leaders=n_leaders, bar=bar
            )
            self._note(done, group, exploration)
            return higher

        first = leading[:n_able]
        bar = meet(first, LEADERS)
        if n_able > FIRST:
            upper[first] = -inf
            others = np.flatnonzero(upper >= bar)
            others = others[np.argsort(-upper[others], kind="stable")]
            for begin in range(0, len(others), PART):
                part = others[begin : begin + PART]
                part = part[upper[part] >= bar]
                if len(part):
                    bar = meet(part, 0)
        if not self._scores:  # rounding left nobody: those who score all know better
            return None
        worst = worst_tied(max(self._scores.values()))
        return np.array(sorted(row for row, score in self._scores.items() if score >= worst), dtype=np.intp)

    def _note(self, done: Indices, group: Group, exploration: float) -> None:
        """Keep what became exact."""
        estimates = group.state[: len(done), 4:].tolist()
        for place, row in enumerate(done.tolist()):
            mean, width = self._exact[row] = estimates[place]
            self._scores[row] = mean + exploration * width
            if len(self._columns) < KEPT:
                self._columns[row] = group.columns[place]

    def _way(self, posterior: ExactPosterior, points: Points) -> Similarities:
        if self._record is not posterior.record:
            self._record, self._ways = posterior.record, {}
        is_shared = isinstance(points, PairRows) and points.is_shared
        way = self._ways.get(is_shared)
        if way is None:
            way = self._ways[is_shared] = similarities_for(posterior.kernel, posterior.record, points)
        return way

    def estimate_one(self, row: int) -> tuple[float, float]:
        """Mean and width of a row that `best` gave."""
        mean, width = self._exact[row]
        return mean, width

    def expect(self, row: int) -> None:
        """Say that a row was chosen and may well be observed next: what is known of it makes that cheap."""
        column = self._columns.get(row)
        if column is not None and self._posterior is not None:
            point = self._posterior.kernel.kind.take(self._points, np.array([row]))
            self._posterior.expect(point, column.copy(), float(self._prior[row]))
        self._columns, self._points = {}, None

    def cost(self) -> SelectionCost:
        """What the last choice has cost."""
        return new_cost(("screened", self._n_actions, self._n_actions, len(self._exact), self._n_actions))
