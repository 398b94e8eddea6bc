"""Screening of action sets seen once: exact widths only for actions that can still be the best."""

from __future__ import annotations

from math import inf, isnan, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._threads import limit_blas_threads
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
"""Leaders are determined after 1/PREFIX of the factor's rows."""

SAFETY: Final = 1e-9
"""Fraction of max(1, |score|) by which every upper bound is raised: far above the rounding error of a score."""


EPSILON: Final = float(np.finfo(np.float64).eps)


class Terms(NamedTuple):
    """Terms of the upper bounds and scores that are the same for all actions."""

    reach: float
    drift: float
    """See `DualWeights`."""

    floor: float
    """Fraction of k(x, x) that is a lower bound on v(x): γ/(γ + tr K)."""

    slack: float
    """Fraction of k(x, x) that bounds the rounding error of v(x)."""

    allowance: float
    """Bound on the effect of inexact similarities on a mean."""

    rounding: float
    """See `DualWeights`."""

    safety: float
    regularization: float
    exploration: float

    @classmethod
    def vector(cls, posterior: ExactPosterior, weights: DualWeights, error: float, exploration: float) -> Vector:
        """All terms as a vector, for similarities with errors of at most `error`."""
        regularization, trace = posterior.regularization, posterior.trace
        floor = regularization / (regularization + trace)
        # Substitution with s rows solves (L + E) w = b with |E| ≤ s ε |L|, and ‖L‖_F² / γ ≤ s + tr K / γ.
        spread = trace / regularization
        slack = 1e-12 + EPSILON * (4.0 * spread + 2.0 * (weights.size + 16) * sqrt(weights.size + spread))
        allowance = error * weights.total
        given = weights.rounding, SAFETY, regularization, exploration
        return np.array(cls(weights.reach, weights.drift, floor, slack, allowance, *given))


class Group(NamedTuple):
    """Batch of candidates that are solved with the factor together."""

    rows: Indices
    """Rows of the candidates in the round."""

    columns: Matrix
    """D^½ k of each candidate, finally w = L⁻¹ D^½ k; one row per candidate."""

    state: Matrix
    """Per candidate: upper bound, Σ w² so far, k(x, x), old mean, mean, width."""

    @classmethod
    def of(cls, rows: Indices, columns: Matrix, upper: Vector, prior: Vector, mean: Vector) -> Group:
        """Create a batch before substitution."""
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
    """Exact means and widths of the batch's candidates that reach the threshold; the raised threshold and their rows.

    These candidates are the first rows of `group.columns` and `group.state` afterwards, in this order. Bounds hold for
    the factor's rows before `size`.
    """
    order, n_first = np.arange(len(group.rows)), len(targets) // PREFIX // 64 * 64 if n_leaders else 0
    bar, n_done = screening_loops.contest(
        table, size, group.columns, group.state, order, targets, terms, n_first, n_leaders, bar
    )
    return bar, group.rows[order[:n_done]]


class PanelTable:
    """Cache of the addresses of a factor's panels: arrays of a panel do not move until its capacity is used up."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Matrix, Matrix]] = []  # keeps the arrays alive while their addresses are used
        self._rows: NDArray[np.int64] = np.zeros((0, 5), dtype=np.int64)

    def of(self, factor: GrowingCholesky) -> NDArray[np.int64]:
        """One row per panel: addresses of `left` and `corner`, start, number of rows, width of the corner.

        Valid until the factor grows or changes.
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
"""Number of distinct points below which screening makes no difference."""

FIRST: Final = 16
"""Size of the first batch: the actions with the highest bounds, which contain the leaders."""

LEADERS: Final = 3
"""Leaders that are solved completely before all others: reading the factor again costs more than two of them."""

PART: Final = 128
"""Size of a later batch."""

WORK_PER_SIMILARITY: Final = 10.0
"""Multiplications per similarity, for `limit_blas_threads`: a distance over a few columns and a profile."""

KEPT: Final = 16
"""Tied actions whose solution is stored in case they are observed next."""


def screened(posterior: Posterior, n_actions: int) -> ExactPosterior | None:
    """Posterior that is screened for a round with n_actions actions; None if all actions have to be scored."""
    exact = posterior.exact if isinstance(posterior, AutoPosterior) else posterior
    if (
        not isinstance(exact, ExactPosterior)
        or n_actions < 2
        or exact.record.size < LEAST_SIZE
        or not exact.is_well_posed
    ):
        return None
    if not screening_loops.is_compiled:
        screening_loops.note(n_actions * exact.record.size)
        return None
    return exact


class Screening(Selector):
    """Finds the best of actions that were never seen before, with the same result as exhaustive scoring.

    1. One pass over the similarities gives the mean of every action and, from the nearest observation alone, an upper
       bound on its variance: for any single z_j, v(x) ≤ k(x, x) − k(x, z_j)² / (k(z_j, z_j) + γ/n_j).
    2. Forward substitution with the factor tightens the bound from row to row: v ≤ k(x, x) − Σ w_i² over the rows so
       far. The actions with the highest bounds after a part of the rows are solved completely.
    3. All others whose bound reaches the best of these scores continue, until they are eliminated or known exactly.

    Derived state: never saved, never copied. An interrupt or an error may leave an update incomplete: then
    `is_finished` stays false, and the owner replaces the object.
    """

    def __init__(self) -> None:
        self.is_finished = True
        """Whether every query so far has completed."""
        self.posterior: Posterior | None = None
        """Posterior whose upper confidence bounds are compared."""
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
        """Copy as a new object: the cached state belongs to one particular factor."""
        return Screening, ()

    def select(self, actions: Actions, exploration: float) -> Selection | None:
        if self.posterior is None:
            raise TypeError("Screening needs a posterior.")
        points, n_actions = actions.points, actions.n_actions
        if self._exact or self._columns:
            self._exact, self._columns = {}, {}  # of the previous selection
        selection = self.posterior._best(points, exploration)  # a finite feature space has its own bounds
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
        """Rows tied for the highest mean + exploration · width, lowest first; None if all actions have to be scored."""
        self._exact = {}
        exact = screened(posterior, n_actions)
        if exact is None:
            return None
        exact.kernel.kind.refuse_unlike(exact.record.points, points)
        self.is_finished = False
        self._posterior, self._points, self._n_actions = exact, points, n_actions
        self._scores, self._columns = {}, {}
        exact.whitening()  # may use many threads
        work = WORK_PER_SIMILARITY * float(exact.record.size) * n_actions
        with limit_blas_threads(work), np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected elsewhere
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
        if not self._scores:  # no candidate survived rounding; fall back to exhaustive scoring
            return None
        worst = worst_tied(max(self._scores.values()))
        return np.array(sorted(row for row, score in self._scores.items() if score >= worst), dtype=np.intp)

    def _note(self, done: Indices, group: Group, exploration: float) -> None:
        """Store the exact means and widths of the solved candidates."""
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
        if not self._columns:
            return
        column = self._columns.get(row)
        if column is not None and self._posterior is not None:
            point = self._posterior.kernel.kind.take(self._points, np.array([row]))
            self._posterior.expect(point, column.copy(), float(self._prior[row]))
        self._columns, self._points = {}, None

    def cost(self) -> SelectionCost:
        """Cost of the last selection."""
        return new_cost(("screened", self._n_actions, self._n_actions, len(self._exact), self._n_actions))


FIRST_ROWS: Final = 64
"""Rows of the factor that are applied to every action; each further step doubles them and repeats no work."""


def tied_in_each(
    posterior: ExactPosterior, points: Points, sizes: Indices, exploration: Vector
) -> list[Indices] | None:
    """Rows of each round tied for its highest mean + exploration · width, lowest first, as by exhaustive scoring.

    Forward substitution with the first rows of the factor bounds every width from above: v ≤ k(x, x) − Σ w_i² over the
    rows so far, and the mean is known beforehand. The incumbent of each round, the action with the highest bound, is
    solved completely. Of the others, those whose bound reaches its score continue, with twice as many rows each time.

    Parameters
    ----------
    posterior
        A posterior with a PSD-certified kernel and at least one observation.
    points
        Validated actions of all rounds, one round after the other.
    sizes
        Number of actions of each round.
    exploration
        Exploration factor of each round.

    Returns
    -------
    list of arrays, or None if something overflows; exhaustive scoring then raises a clear error.
    """
    posterior.kernel.kind.refuse_unlike(posterior.record.points, points)
    posterior.whitening()  # may use many threads
    work = float(posterior.size) ** 2 * len(sizes)
    with limit_blas_threads(work), np.errstate(over="ignore", invalid="ignore"):
        contest = _Contest(posterior, points, np.repeat(exploration, sizes))
        if not np.isfinite(contest.upper).all():
            return None
        starts = np.cumsum(sizes) - sizes
        round_of = np.repeat(np.arange(len(sizes)), sizes)
        contest.resume(np.arange(len(round_of)), 0, FIRST_ROWS)
        leaders = _leaders(contest.upper, starts, round_of)
        n_rows = min(FIRST_ROWS, contest.size)
        contest.resume(leaders, n_rows, contest.size)
        bars = np.array([lowered(score) for score in contest.upper[leaders]])[round_of]
        others = np.setdiff1d(np.arange(len(round_of)), leaders)
        while n_rows < contest.size and len(others):
            others = others[contest.upper[others] >= bars[others]]
            contest.resume(others, n_rows, min(2 * n_rows, contest.size))
            n_rows = min(2 * n_rows, contest.size)
        contest.upper[contest.upper < bars] = -np.inf
    return [tied_for_best(scores) for scores in np.split(contest.upper, starts[1:])]


class _Contest:
    """Upper bounds on the scores of many points; they become the scores once all rows of the factor are applied."""

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
        """Upper bound of every point; its score once all rows of the factor are applied."""

    def resume(self, places: Indices, first: int, last: int) -> None:
        """Continue the substitution of some points from row `first` to row `last` of the factor."""
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
        """Upper bounds on the scores, including rounding errors."""
        terms, prior = self._terms, self._prior[places]
        left = np.maximum(prior - self._explained[places], terms.floor * prior) + terms.slack * prior
        width = np.sqrt(left / terms.regularization)
        rounding = terms.allowance + terms.rounding * np.sqrt(prior)
        return np.asarray(self._mean[places] + rounding + self._exploration[places] * width)


def _leaders(bounds: Vector, starts: Indices, round_of: Indices) -> Indices:
    """Place of the highest bound of each round; the lowest place if several are equal."""
    highest = np.maximum.reduceat(bounds, starts)
    places = np.flatnonzero(bounds == highest[round_of])
    return places[np.unique(round_of[places], return_index=True)[1]]
