"""Screening of action sets seen once: exact widths only for actions that can still be the best."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._threads import Pace, at_better_pace, for_each_part, limit_blas_threads, pays_off, with_helpers
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import ExactPosterior, Posterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.exact import Whitening
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection._screening_loops import (
    FEW,
    MEAN,
    N_CELLS,
    N_PANEL,
    N_ROWS,
    N_STATE,
    N_STRETCH,
    OLD_MEAN,
    PARTS,
    PRIOR,
    START,
    STEP,
    STRETCHES,
    UPPER,
    BoundTerms,
    screening_loops,
)
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.similarities import SIMILARITY_ERROR, Similarities, similarities_for
from kernelbandits.selection.ties import TieBreaker, lowered, tied_for_best, worst_tied
from kernelbandits.types import EMPTY, Indices, Matrix, Points, Selection, Vector, new_cost, new_selection

__all__ = ["BatchSizes", "DualWeights", "PanelTable", "Screening", "bound_terms", "screened", "tied_in_each"]

EPSILON: Final = float(np.finfo(np.float64).eps)

COLUMNS_AT_ONCE: Final = 256
"""Columns of a panel in the smallest part for a thread, and their multiple, so that vector loops have no remainder."""

PREFIX: Final = 4
"""Incumbents are determined after 1/PREFIX of the factor's rows."""

SAFETY: Final = 1e-9
"""See `BoundTerms.safety`."""

OLDEST: Final = 64
"""Observations after which the weights are recomputed in any case: the cost of the bound grows with their square."""

STALE: Final = 1.1
"""Bound factor F of old weights, in units of β, from which new weights are cheaper than the additional candidates."""

SCAN_COST: Final = 16
"""Rows of the factor that are read while one action is scanned over as many observations."""

LEAST_SIZE: Final = 8
"""Number of distinct points below which screening makes no difference."""

STORED: Final = 16
"""Tied actions whose solution is stored in case they are observed next."""


Batch = tuple[Matrix, Matrix, Indices]
Team = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Matrix]


class PanelTable:
    """Cache of the addresses of a factor's panels: arrays of a panel do not move until its capacity is used up."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Matrix, Matrix]] = []  # keeps the arrays alive while their addresses are used
        self._rows: NDArray[np.int64] = np.zeros((0, N_PANEL), dtype=np.int64)
        self._paces: dict[int, dict[int, Pace]] = {}  # by the number of candidates, in powers of two

    def of(self, factor: GrowingCholesky) -> NDArray[np.int64]:
        """One row per panel, with the columns that `_screening_loops` defines.

        Valid until the factor grows or changes.
        """
        arrays, rows = self._arrays, self._rows
        for place, panel in enumerate(factor.panels):
            left, corner = panel.left, panel.corner
            if place < len(arrays) and arrays[place][0] is left and arrays[place][1] is corner:
                rows[place, N_ROWS] = panel.n_rows
                continue
            if place >= len(arrays):
                arrays.append((left, corner))
                rows = self._rows = np.concatenate([rows, np.zeros((1, N_PANEL), dtype=np.int64)])
            arrays[place] = left, corner
            rows[place] = left.ctypes.data, corner.ctypes.data, panel.start, panel.n_rows, corner.shape[1]
        n_panels = len(factor.panels)
        if n_panels < len(arrays):
            del arrays[n_panels:]
            rows = self._rows = rows[:n_panels].copy()
        return rows

    def eliminate_together(self, panels: NDArray[np.int64], size: int, batch: Batch, *given: Any) -> tuple[float, int]:
        """`_screening_loops.eliminate_loop` in several threads."""
        columns, n_rows = batch[0], batch[0].shape[1]
        # A helper may be late by rounds: what it reads then must exist, and what it writes must not be used.
        panels, arrays, team = panels.copy(), self._arrays.copy(), _new_team(n_rows)
        found: tuple[float, int] = with_helpers(
            lambda: screening_loops.eliminate(panels, size, batch, *given, team),
            lambda: (screening_loops.help(panels, columns, team), arrays),
            n_bytes=4 * n_rows * n_rows,
            paces=self._paces.setdefault(len(columns).bit_length(), {}),
        )
        return found


def _new_team(n_rows: int) -> Team:
    """A `_screening_loops.Team` for a factor with n_rows rows."""
    n_steps = n_rows // STEP + 2
    return (
        np.zeros(N_CELLS, dtype=np.int64),
        np.zeros(PARTS * n_steps, dtype=np.int64),
        np.zeros((STRETCHES, N_STRETCH), dtype=np.int64),
        np.empty((FEW, n_rows)),
    )


ALONE: Final[Team] = (
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int64),
    np.zeros((0, N_STRETCH), dtype=np.int64),
    np.zeros((0, 0)),
)
"""Arrays of a `_screening_loops.Team` that has no other threads, nor parts for them."""


class DualWeights:
    """Dual weights α = D^½ L⁻ᵀ z of the first s points, mean_s(x) = Σ α_j k(x, z_j), and bounds for later points.

    Computing α reads the whole factor, so it is not done every round. With the factor's rows B of the points after s,
    w = L⁻¹ D^½ k(x) and v_s = k(x, x) − Σ_{i < s} w_i²,

        mean_t − mean_s = Σ_B w_i z_i,    v_s − v_t = Σ_B w_i²,    H = Σ_B z_i²

    so by Cauchy–Schwarz mean_t + β √v_t ≤ mean_s + √v_s · √(β² + H). Also, w_B = L_BB⁻¹ c for the posterior
    covariances c of x with B, hence mean_t − mean_s = cᵀb with b = L_BB⁻ᵀ z_B, which is at most √v_s · D with

        D² = bᵀ (L_BB L_BBᵀ − γI) b = H − γ‖b‖².
    """

    def __init__(self, *, stale: float = STALE) -> None:
        self._stale = stale
        self.size = 0
        """s: the number of slots that the weights cover."""
        self.weights: Vector = np.zeros(0)
        self.shares: Vector = np.zeros(0)
        """n/(n k(z, z) + γ): share · k(x, z)² is the part of k(x, x) that one point alone explains."""
        self.total = 0.0
        """Σ |α|."""
        self.rounding = 0.0
        """Bound on the effect of rounding in α on a mean, divided by sqrt(k(x, x))."""
        self.mean_drift = 0.0
        """D: a mean has changed by at most this times √v_s."""
        self.innovation_bound = 0.0
        """F: no score exceeds mean_s + F √v_s."""
        self.is_stale = False
        """Whether new weights would give tighter bounds."""
        self.is_shared = False
        """Whether helpers paid off for a pass over the factor when the weights were computed."""
        self._factor: GrowingCholesky | None = None
        self._factor_version = 0
        self._paces: dict[int, Pace] = {}

    def synchronize(
        self,
        whitening: Whitening,
        panels: NDArray[np.int64],
        regularization: float,
        exploration: float,
        *,
        may_be_stale: bool = False,
    ) -> None:
        """Synchronize with the current factor; recompute the weights if their bound has become too loose.

        If they may be stale, they are recomputed only if rows of the factor have changed; `is_stale` says that new ones
        would give tighter bounds.
        """
        beta, known = exploration / sqrt(regularization), self.size  # score = mean + β √v, with v in kernel units
        size = len(whitening.targets)
        if whitening.factor is not self._factor or whitening.factor_version != self._factor_version:
            self.recompute(whitening, panels, regularization, exploration)
        elif size > known:
            new = whitening.targets[known:]
            innovation = float(new @ new)  # H
            drift, n_new = sqrt(innovation) * (1.0 + 1e-12), size - known
            if n_new <= OLDEST:
                squared = screening_loops.trailing(panels, known, new)
                # The difference cancels when D is small; a bound on its rounding error is added: a substitution with
                # |B| rows has an error of |B| ε cond(L_BB), and cond² ≤ |B| + tr K / γ.
                loss = 1e-12 + 4.0 * n_new * EPSILON * sqrt(n_new + whitening.trace / regularization)
                drift = sqrt(max(0.0, innovation - regularization * squared) + loss * innovation)
            bound = min(beta + drift, sqrt(beta * beta + innovation) * (1.0 + 1e-12))
            self.is_stale = bound > self._stale * beta or n_new > OLDEST
            self.mean_drift, self.innovation_bound = drift, bound
            if self.is_stale and not may_be_stale:
                self.recompute(whitening, panels, regularization, exploration)
        else:
            self.mean_drift, self.innovation_bound, self.is_stale = 0.0, beta, False

    def recompute(
        self, whitening: Whitening, panels: NDArray[np.int64], regularization: float, exploration: float
    ) -> None:
        """Compute α from the whole factor."""
        counts, diagonal, size = whitening.counts, whitening.diagonal, len(whitening.targets)
        solved = whitening.targets.copy()
        n_bytes = 4 * size * size
        self.is_shared = pays_off(n_bytes)
        if self.is_shared:
            at_better_pace(
                lambda: screening_loops.back(panels, solved),
                lambda _: _back_together(panels, solved, n_bytes),
                n_bytes=n_bytes, paces=self._paces,
            )  # fmt: skip
        else:
            screening_loops.back(panels, solved)
        # (L + E)ᵀ u = z with |E| ≤ s ε |L|, so wᵀz has an error of at most s ε ‖w‖ ‖L‖ ‖u‖, and ‖L‖² ≤ tr M; the same
        # again for the substitution that gives w.
        trace = float(counts @ diagonal) + size * regularization
        self.rounding = 2.0 * EPSILON * (size + 16) * sqrt(trace * float(solved @ solved))
        self.weights = whitening.roots * solved
        self.shares = counts / (counts * diagonal + regularization)
        self.total = float(np.abs(self.weights).sum())
        self.size, self._factor, self._factor_version = size, whitening.factor, whitening.factor_version
        self.mean_drift, self.innovation_bound, self.is_stale = 0.0, exploration / sqrt(regularization), False


def _back_together(panels: NDArray[np.int64], right: Vector, n_bytes: int) -> None:
    """`_screening_loops.back_loop` in several threads, which share the columns of each panel."""

    def subtract(first: int, last: int) -> None:
        screening_loops.subtract_back(panels, p, first, last, right)

    for p in range(len(panels) - 1, -1, -1):
        screening_loops.solve_back(panels, p, right)
        start = panels.item(p, START)
        if start:
            for_each_part(subtract, start, align=COLUMNS_AT_ONCE, n_bytes=n_bytes)


def bound_terms(
    whitening: Whitening, weights: DualWeights, regularization: float, error: float, exploration: float
) -> BoundTerms:
    """Terms of all bounds, for similarities with errors of at most `error`."""
    floor = regularization / (regularization + whitening.trace)
    # Substitution with s rows solves (L + E) w = b with |E| ≤ s ε |L|, and ‖L‖_F² / γ ≤ s + tr K / γ.
    spread, size = whitening.trace / regularization, weights.size
    slack = 1e-12 + EPSILON * (4.0 * spread + 2.0 * (size + 16) * sqrt(size + spread))
    return BoundTerms(
        weights.innovation_bound, weights.mean_drift, floor, slack, error * weights.total, weights.rounding, SAFETY,
        regularization, exploration,
    )  # fmt: skip


def screened(posterior: Posterior, n_actions: int) -> ExactPosterior | None:
    """Posterior that is screened for a round with n_actions actions; None if all actions must be scored."""
    if not posterior.capabilities.has_factor or n_actions < 2:
        return None
    exact: Any = posterior._current_form() if posterior.changes_form else posterior  # with a factor
    if not screening_loops.is_compiled:
        screening_loops.record_work(n_actions * exact.size)
        return None
    whitening = exact.whitening()
    if whitening is None or not whitening.is_well_posed or len(whitening.counts) < LEAST_SIZE:
        return None
    found: ExactPosterior = exact
    return found


class Solved(NamedTuple):
    """Exact result of one action."""

    score: float
    mean: float
    width: float
    column: Vector | None
    """Solution of its triangular system; None if it is not stored."""

    prior: float
    """k(x, x)."""


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Numbers of actions that are solved together."""

    first: int = 16
    """Size of the first batch: the actions with the highest bounds, which contain the incumbents."""

    later: int = 128
    """Size of a later batch."""

    incumbents: int = 3
    """Incumbents that are solved completely before all others: reading the factor again costs more than two of them."""

    team_incumbents: int = 1
    """The same if several threads may take part: they solve every incumbent to the end, although the exact score of the
    first one eliminates nearly all others."""


class Screening(Selector):
    """Finds the best of actions that were never seen before, with the same result as exhaustive scoring.

    1. One pass over the similarities gives the mean of every action and, from the nearest observation alone, an upper
       bound on its variance: for any single z_j, v(x) ≤ k(x, x) − k(x, z_j)² / (k(z_j, z_j) + γ/n_j).
    2. Forward substitution with the factor tightens the bound from row to row: v ≤ k(x, x) − Σ w_i² over the rows so
       far. The actions with the highest bounds after a part of the rows are solved completely.
    3. All others whose bound reaches the best of these scores continue, until they are eliminated or known exactly.
    """

    def __init__(self) -> None:
        super().__init__()
        self._record: Observations | None = None
        self._similarities: dict[bool, Similarities] = {}
        self._weights = DualWeights()
        self._panels = PanelTable()
        self._sizes = BatchSizes()

    def __reduce__(self) -> tuple[type[Screening], tuple[()]]:
        """Copy as a new object: the cached state belongs to one particular factor."""
        return Screening, ()

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection | None:
        exact: ExactPosterior = self.posterior
        points, n_actions, whitening = actions.points, actions.n_actions, exact.whitening()
        if whitening is None:
            return None
        exact.kernel.kind.validate_comparable(whitening.points, points)
        self.is_finished = False
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected elsewhere
            solved = self._search(exact, whitening, actions, exploration)
        self.is_finished = True
        if not solved:  # no candidate survived rounding; fall back to exhaustive scoring
            return None
        worst = worst_tied(max([action.score for action in solved.values()]))
        tied = sorted([row for row, action in solved.items() if action.score >= worst])
        row, propensity = (tied[0], 1.0) if len(tied) == 1 else break_tie(np.array(tied, dtype=np.intp))
        score, mean, width, column, prior = solved[row]
        if column is not None:  # the posterior needs it if the row is observed next
            exact.expect(exact.kernel.kind.take(points, np.array([row])), column.copy(), prior)
        cost = new_cost(("screened", n_actions, n_actions, len(solved), n_actions))
        return new_selection((row, mean, width, score, propensity, None, EMPTY, cost, None, 0.0))

    def _search(
        self, posterior: ExactPosterior, whitening: Whitening, actions: Actions, exploration: float
    ) -> dict[int, Solved] | None:
        """All rows that may be the best; None if a bound is not finite."""
        panels, weights, gamma = self._panels.of(whitening.factor), self._weights, posterior.regularization
        points, sizes = actions.points, self._sizes
        # New weights read the whole factor: where scanning twice costs less, old ones are tried first.
        may_be_stale = SCAN_COST * actions.n_actions <= len(whitening.targets)
        weights.synchronize(whitening, panels, gamma, exploration, may_be_stale=may_be_stale)
        if self._record is not posterior.record:
            self._record, self._similarities = posterior.record, {}
        is_shared = type(points) is PairRows and points.is_shared
        similarities = self._similarities.get(is_shared)
        if similarities is None:
            similarities = similarities_for(posterior.kernel, whitening.points, points)
            self._similarities[is_shared] = similarities
        while True:
            mean, explained, prior, error = similarities.scan(points, whitening.points, weights.weights, weights.shares)
            terms = tuple(bound_terms(whitening, weights, gamma, error, exploration))
            upper, highest = np.empty(len(prior)), np.empty(min(sizes.first, len(prior)), dtype=np.intp)
            threshold, n_candidates = screening_loops.rank(mean, explained, prior, terms, upper, highest)
            if isnan(threshold):
                return None
            if n_candidates <= sizes.incumbents or not weights.is_stale:
                break
            weights.recompute(whitening, panels, gamma, exploration)
        targets, roots, known = whitening.targets, whitening.roots, whitening.points
        solved: dict[int, Solved] = {}

        def eliminate(rows: Indices, n_incumbents: int, threshold: float) -> float:
            """Add the exact results of the rows that reach the threshold; return the raised threshold."""
            columns, state = similarities.rows(points, known, rows, roots), np.zeros((len(rows), N_STATE))
            state[:, UPPER], state[:, PRIOR], state[:, OLD_MEAN] = upper[rows], prior[rows], mean[rows]
            order, n_first = np.arange(len(rows)), len(targets) // PREFIX // STEP * STEP if n_incumbents else 0
            given = panels, weights.size, (columns, state, order), targets, terms, n_first, n_incumbents, threshold
            if weights.is_shared and n_incumbents:  # others than incumbents are eliminated soon
                threshold, n_left = self._panels.eliminate_together(*given)
            else:
                threshold, n_left = screening_loops.eliminate(*given, ALONE)
            estimates = state[:n_left, MEAN:].tolist()
            for place, row in enumerate(rows[order[:n_left]].tolist()):
                own_mean, width = estimates[place]
                column = columns[place] if len(solved) < STORED else None
                solved[row] = Solved(own_mean + exploration * width, own_mean, width, column, prior.item(row))
            return threshold

        first = highest[:n_candidates]
        threshold = eliminate(first, sizes.team_incumbents if weights.is_shared else sizes.incumbents, threshold)
        if n_candidates > sizes.first:
            upper[first] = -inf
            others = np.flatnonzero(upper >= threshold)
            others = others[np.argsort(-upper[others], kind="stable")]
            for begin in range(0, len(others), sizes.later):
                part = others[begin : begin + sizes.later]
                part = part[upper[part] >= threshold]
                if len(part):
                    threshold = eliminate(part, 0, threshold)
        return solved


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
    whitening = posterior.whitening()  # may use many threads
    if whitening is None:
        return None
    posterior.kernel.kind.validate_comparable(whitening.points, points)
    work = float(posterior.size) ** 2 * len(sizes)
    with limit_blas_threads(work), np.errstate(over="ignore", invalid="ignore"):
        candidates = _Candidates(posterior, whitening, points, np.repeat(exploration, sizes))
        if not np.isfinite(candidates.upper).all():
            return None
        starts = np.cumsum(sizes) - sizes
        round_of = np.repeat(np.arange(len(sizes)), sizes)
        candidates.resume(np.arange(len(round_of)), 0, FIRST_ROWS)
        incumbents = _incumbents(candidates.upper, starts, round_of)
        n_rows = min(FIRST_ROWS, candidates.size)
        candidates.resume(incumbents, n_rows, candidates.size)
        thresholds = np.array([lowered(score) for score in candidates.upper[incumbents]])[round_of]
        others = np.setdiff1d(np.arange(len(round_of)), incumbents)
        while n_rows < candidates.size and len(others):
            others = others[candidates.upper[others] >= thresholds[others]]
            candidates.resume(others, n_rows, min(2 * n_rows, candidates.size))
            n_rows = min(2 * n_rows, candidates.size)
        candidates.upper[candidates.upper < thresholds] = -np.inf
    return [tied_for_best(scores) for scores in np.split(candidates.upper, starts[1:])]


class _Candidates:
    """Upper bounds on the scores of many points; they become the scores once all rows of the factor are applied."""

    def __init__(self, posterior: ExactPosterior, whitening: Whitening, points: Points, exploration: Vector) -> None:
        weights, gamma = DualWeights(), posterior.regularization
        weights.synchronize(whitening, PanelTable().of(whitening.factor), gamma, 1.0)
        self._posterior, self._factor, self._targets = posterior, whitening.factor, whitening.targets
        self._exploration, self.size = exploration, whitening.factor.size
        similarity = posterior.kernel.gram(whitening.points, points)
        self._prior = posterior.kernel.diagonal(points)
        largest = float(np.sqrt(self._prior.max() * whitening.diagonal.max()))
        self._terms = bound_terms(whitening, weights, gamma, SIMILARITY_ERROR * largest, 1.0)
        self._mean = weights.weights @ similarity
        self._columns: Matrix = np.ascontiguousarray(whitening.roots[:, None] * similarity)
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


def _incumbents(bounds: Vector, starts: Indices, round_of: Indices) -> Indices:
    """Place of the highest bound of each round; the lowest place if several are equal."""
    highest = np.maximum.reduceat(bounds, starts)
    places = np.flatnonzero(bounds == highest[round_of])
    return places[np.unique(round_of[places], return_index=True)[1]]
