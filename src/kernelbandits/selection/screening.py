"""Screening of action sets seen once: exact widths only for actions that can still win."""

from __future__ import annotations

from math import inf, isnan, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._threads import few_threads
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import AutoPosterior, ExactPosterior, Posterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.screening_loops import screening_loops
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.similarities import SIMILARITY_ERROR, Similarities, similarities_for
from kernelbandits.selection.ties import lowered, tied_for_best, worst_tied
from kernelbandits.types import TIE_TOLERANCE, Indices, Matrix, Points, Selection, SelectionCost, Vector, new_cost

__all__ = ["Group", "PanelTable", "Screening", "Terms", "contest", "screened", "tied_in_each"]

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
    regularization: float
    exploration: float

    @classmethod
    def vector(cls, posterior: ExactPosterior, weights: DualWeights, error: float, exploration: float) -> Vector:
        """All of them, with similarities that are off by no more than `error`."""
        regularization, trace = posterior.regularization, posterior.trace
        floor = regularization / (regularization + trace)
        # Substitution with s rows solves (L + E) w = b with |E| ≤ s ε |L|, and ‖L‖_F² / γ ≤ s + tr K / γ.
        spread = trace / regularization
        slack = 1e-12 + EPSILON * (4.0 * spread + 2.0 * (weights.size + 16) * sqrt(weights.size + spread))
        allowance = error * weights.total
        given = weights.rounding, SAFETY, regularization, exploration
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


def _bar(score: float, safety: float) -> float:
    return score - (TIE_TOLERANCE + safety) * max(1.0, abs(score))


def contest(
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
    order, n_first = np.arange(len(group.rows)), len(targets) // PREFIX // 64 * 64 if n_leaders else 0
    bar, n_done = screening_loops.contest(
        table, size, group.columns, group.state, order, targets, terms, n_first, n_leaders, bar
    )
    return bar, group.rows[order[:n_done]]


class PanelTable:
    """Addresses, kept from round to round: a panel's arrays stay where they are until it runs out of room."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Matrix, Matrix]] = []  # alive as long as their addresses are used
        self._rows: NDArray[np.int64] = np.zeros((0, 5), dtype=np.int64)

    def of(self, factor: GrowingCholesky) -> NDArray[np.int64]:
        """A row a panel: addresses of `left` and `corner`, start, number of rows, width of the corner.

        Good until the factor grows or changes.
        """
        arrays, place = self._arrays, -1
        for place, (start, n_rows, left, corner) in enumerate(factor.panels()):
            if place < len(arrays) and arrays[place][0] is left and arrays[place][1] is corner:
                self._rows[place, 3] = n_rows
                continue
            if place >= len(arrays):
                arrays.append((left, corner))
                self._rows = np.concatenate([self._rows, np.zeros((1, 5), dtype=np.int64)])
            arrays[place] = left, corner
            self._rows[place] = left.ctypes.data, corner.ctypes.data, start, n_rows, corner.shape[1]
        if place + 1 < len(arrays):
            del arrays[place + 1 :]
            self._rows = self._rows[: place + 1].copy()
        return self._rows


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
    if not screening_loops.is_compiled:
        screening_loops.note(n_actions * exact.record.size)
        return None
    return exact


class Screening(Selector):
    """Finds the best of actions that were never seen before, as scoring all of them would.

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
        self.posterior: Posterior | None = None
        """The one whose upper confidence bounds are compared."""
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

    def select(self, actions: Actions, exploration: float) -> Selection | None:
        if self.posterior is None:
            raise TypeError("Screening needs a posterior.")
        points, n_actions = actions.points, actions.n_actions
        self._exact, self._columns = {}, {}  # of the selection before
        selection = self.posterior._best(points, exploration)  # a finite feature space has bounds of its own
        if selection is not None:
            return selection
        tied = self.best(self.posterior, points, n_actions, exploration)
        if tied is None:
            return None
        row = int(tied[0])
        mean, width = self._exact[row]
        score, cost = mean + exploration * width, self.cost()
        return Selection(row, mean, width, score, cost=cost, tied=tied if len(tied) > 1 else None)

    def estimate_of(self, actions: Actions, row: int) -> tuple[float, float]:
        if row in self._exact:
            mean, width = self._exact[row]
            return mean, width
        if self.posterior is None:
            raise TypeError("Screening needs a posterior.")
        kind = self.posterior.kernel.kind
        prediction = self.posterior._estimate(kind.take(actions.points, np.array([row])))
        return prediction.mean.item(), prediction.width.item()

    def best(self, posterior: Posterior, points: Points, n_actions: int, exploration: float) -> Indices | None:
        """Rows tied for the highest mean + exploration · width, lowest first; None where all have to be scored."""
        self._exact = {}
        exact = screened(posterior, n_actions)
        if exact is None:
            return None
        exact.kernel.kind.refuse_unlike(exact.record.points, points)
        self.is_finished = False
        self._posterior, self._points, self._n_actions = exact, points, n_actions
        self._scores, self._columns = {}, {}
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
        bar, n_able = screening_loops.rank(scan.mean, scan.explained, prior, terms, upper, leading)
        if isnan(bar):
            return None
        roots = np.sqrt(posterior.record.counts)

        def meet(rows: Indices, n_leaders: int) -> float:
            group = Group.of(rows, way.rows(points, rows, roots), upper, prior, scan.mean)
            higher, done = contest(table, group, targets, terms, size=weights.size, n_leaders=n_leaders, bar=bar)
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

    def note_chosen(self, row: int) -> None:
        column = self._columns.get(row) if self._columns else None
        if column is not None and self._posterior is not None:
            point = self._posterior.kernel.kind.take(self._points, np.array([row]))
            self._posterior.expect(point, column.copy(), float(self._prior[row]))
        self._columns, self._points = {}, None

    def cost(self) -> SelectionCost:
        """What the last choice has cost."""
        return new_cost(("screened", self._n_actions, self._n_actions, len(self._exact), self._n_actions))


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
        width = np.sqrt(left / terms.regularization)
        rounding = terms.allowance + terms.rounding * np.sqrt(prior)
        return np.asarray(self._mean[places] + rounding + self._exploration[places] * width)


def _leaders(bounds: Vector, starts: Indices, round_of: Indices) -> Indices:
    """The place of the highest bound of each round, the lowest of equal ones."""
    highest = np.maximum.reduceat(bounds, starts)
    places = np.flatnonzero(bounds == highest[round_of])
    return places[np.unique(round_of[places], return_index=True)[1]]
