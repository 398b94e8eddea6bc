"""Exact selection engine of a catalog, synchronized with the observations of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import inf, log1p, sqrt
from typing import Concatenate, Final, ParamSpec, TypeVar

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import batch_updates
from kernelbandits.selection._catalog_loops import BEST, LEADER, UPDATES, loops
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.active_set import ActiveSet, ActiveSetLimits, ActiveSets
from kernelbandits.selection.catalog import Generation
from kernelbandits.selection.column_log import LISTED_TIES, ColumnLog, Screen, Similarities
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.synchronized_columns import SynchronizedColumns
from kernelbandits.selection.ties import TieBreaker, lowered, pick_lowest, tied_for_best, worst_tied
from kernelbandits.types import (
    EMPTY,
    Indices,
    Matrix,
    Points,
    Prediction,
    Selection,
    SelectionCost,
    Vector,
    new_cost,
    new_selection,
)

__all__ = ["CatalogEngine"]

OVERHEAD: Final = 20_000
"""Memory in bytes of an engine without items: Python objects and small arrays."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _finished(
    method: Callable[Concatenate[CatalogEngine, Arguments], Answer],
) -> Callable[Concatenate[CatalogEngine, Arguments], Answer]:
    """Decorate an engine method so that `is_finished` is false while it runs; an interrupted engine is not reused."""

    @wraps(method)
    def run(engine: CatalogEngine, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        was_finished, engine.is_finished = engine.is_finished, False
        answer = method(engine, *arguments, **named)
        engine.is_finished = was_finished
        return answer

    return run


class CatalogEngine(Selector):
    """Mean and width of every item of a catalog, synchronized with the observations of a posterior.

    It stores no observations: a query compares the record with what was applied (`SynchronizedColumns`). So delayed,
    amended and removed rewards, and points that are in no catalog, need no special handling.

    Cost per round: a pass over all N items, about 40 bytes each, if the item was also pulled last; q more columns if q
    runs of other items lie between; all runs for a new item (`ColumnLog`). Where that is expensive, because new items
    are pulled all the time or N is large, an `ActiveSet` of an eighth of the items, at most 8,192 at first, is updated
    instead. When its bound on the inactive items fails, their means are recomputed and some of them join; after
    about a hundred pulls all items are synchronized by matrix-matrix products.

    Memory: N doubles per run, at least one run for each of the m distinct points and at most max(m, 512) more (64 more
    at a million items), and no N×N matrix: 2.9 GB for N = 1e6 and m = 300. While a log grows beyond its capacity, two
    copies of it exist.

    An interrupt or an error may leave an update incomplete: then `is_finished` stays false, and the owner of the engine
    must create a new one.

    Rounding errors of updates may accumulate, in proportion to 1/γ. The log checks itself in every round at no cost: a
    repeated point's own entry of its column must equal its variance. If they differ by more than 1e-11 of k(x, x), or
    after a number of updates that decreases with γ, everything is recomputed from the counts.

    Reference: Valko et al. (2013), KernelUCB; the estimator is theirs, the order of the computation is not.
    """

    def __init__(self, points: Points, kernel: Kernel, regularization: float) -> None:
        super().__init__()
        self.kernel, self.regularization = kernel, regularization
        self._root = sqrt(regularization)
        self._items = SynchronizedColumns(points, kernel, regularization)
        self.n_items = self._items.n_items
        """Number of items that the engine covers; the catalog may have grown since."""
        self.generation = Generation()
        """Generation of the catalog whose rows these are."""
        self._record = self._items.record
        self._version = self._record.version
        self._active_set: ActiveSet | None = None
        self._active_sets = ActiveSets(self._items, ActiveSetLimits())
        self._n_rounds = 0
        self._is_from_active_set = False
        self._report_size = self.n_items

    @property
    def n_bytes(self) -> int:
        """Memory in bytes, without the points."""
        active = 0 if self._active_set is None else self._active_set.n_bytes
        return OVERHEAD + self._items.n_bytes + self._active_sets.n_bytes + active

    @property
    def n_rebuilds(self) -> int:
        """Number of times everything was recomputed from the counts."""
        return self._items.n_rebuilds

    @property
    def checks_drift(self) -> bool:
        """Whether rounding errors trigger a rebuild; tests switch it off."""
        return self._items.checks_drift

    @checks_drift.setter
    def checks_drift(self, value: bool) -> None:
        self._items.checks_drift = value

    # -- synchronization -------------------------------------------------------------------------------------------

    def synchronize(self, record: Observations) -> None:
        """Use this record from now on; each query reads its current state."""
        if record is not self._record or record.n_slots < self._items.log.n_slots:
            self.is_finished = False
            self._active_set = None
            self._items.start(record)
            self._record, self._version = record, record.version
            self.is_finished = True

    def _meet(self) -> None:
        """Find the items of new slots, also in the active set."""
        items, active = self._items, self._active_set
        state = items.log.state if active is None else active.log.state
        guess = int(state.item(LEADER))
        if active is not None and guess >= 0:
            guess = int(active.rows[guess])
        places = items.find_new(guess)
        if active is not None and (places < 0).any():
            self._drop_active_set()
        elif active is not None:
            active.log.meet(active.places_of(places))
        items.meet(places)

    def _update_all(self) -> None:
        """Bring all items up to date; drops the active set, which would not pay off if this is needed often."""
        if self._active_set is not None:
            self._drop_active_set()
            self._active_sets.pause(self._n_rounds)
        record = self._record
        if record.version != self._version:
            if record.n_slots > self._items.log.n_slots:
                self._meet()
            changed = self._items.changed(self._items.log)
            if changed:
                self._items.update(changed)
            self._version = record.version

    def _drop_active_set(self) -> None:
        """Synchronize all items with the active set and drop it."""
        if self._active_set is not None:
            active, self._active_set = self._active_set, None
            self._active_sets.synchronize_with(active)

    # -- selection -------------------------------------------------------------------------------------------------

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection:
        if actions.catalog is None:
            raise TypeError("A catalog engine selects among the items of its catalog.")
        # Another thread may have added items to the catalog since this round began.
        rows = actions.view.rows if self.n_items > actions.n_rows else actions.rows
        selection = self.choose(exploration, rows, break_tie)
        if actions.rows is None:
            return selection
        return selection._replace(row=int(np.searchsorted(actions.rows, selection.row)))

    def choose(self, exploration: float, rows: Indices | None = None, break_tie: TieBreaker = pick_lowest) -> Selection:
        """Selection of the item with the best mean + exploration · width; several tied ones go to `break_tie`.

        `rows` restricts the choice; the returned row is that of the whole catalog in any case.
        """
        beta = exploration / self._root
        self.is_finished = False  # inlined `_finished`
        n_tied = self._play(beta)
        if rows is None and n_tied == 1:
            self.is_finished = True
            active = self._active_set
            log = self._items.log if active is None else active.log
            place = log.tied.item(0)
            row = place if active is None else active.rows.item(place)
            mean, width = log.items.item(0, place), sqrt(max(log.items.item(1, place), 0.0)) / self._root
            score, n_items = mean + exploration * width, self.n_items
            cost = new_cost(("column log", n_items, n_items, n_items, 0)) if active is None else self.cost()
            return new_selection((row, mean, width, score, 1.0, None, EMPTY, cost, None, 0.0))
        tied, _ = self._collect(beta, n_tied) if rows is None else self._best_among(beta, rows)
        row, propensity = break_tie(tied)
        mean, width = self.estimate_one(row)
        self.is_finished = True
        return Selection(row, mean, width, mean + exploration * width, propensity, cost=self.cost())

    @_finished
    def best(self, exploration: float, rows: Indices | None = None) -> tuple[Indices, float]:
        """Items tied for the best mean + exploration · width, lowest row first, and the best score.

        `rows` restricts the choice; the returned rows are those of the whole catalog in any case.
        """
        beta = exploration / self._root
        n_tied = self._play(beta)
        return self._collect(beta, n_tied) if rows is None else self._best_among(beta, rows)

    def _collect(self, beta: float, n_tied: int) -> tuple[Indices, float]:
        """Tied items and best score found by `_play`."""
        active, log = self._active_set, self._items.log
        if active is not None:
            return np.sort(active.rows[active.log.tied[:n_tied]]), active.log.state.item(BEST)
        best = log.state.item(BEST)
        if n_tied <= LISTED_TIES:
            return log.tied[:n_tied].copy(), best
        return np.flatnonzero(_scores(log, beta, slice(0, self.n_items)) >= worst_tied(best)), best

    def _play(self, beta: float) -> int:
        """Apply changes and find the best, in the active set if its bound holds, otherwise among all items.

        Returns the number of tied items; they are in `tied` of the log that was searched, unless they exceed its size.
        """
        record, items, log = self._record, self._items, self._items.log
        counts, sums, n_slots = record.current_totals()
        if n_slots > log.n_slots:
            self._meet()
        is_large = self.n_items >= self._active_sets.limits.least_items
        if is_large and self._active_set is None and beta >= 0.0 and self._active_sets.is_due(self._n_rounds):
            self._active_set = self._active_sets.make(beta)
        if self._active_set is not None:
            n_tied = self._play_in_active_set(self._active_set, beta)
            if n_tied > 0:
                return n_tied
        if log.n_runs >= log.next_look or log.state.item(UPDATES) >= items.next_check:
            items.tidy()
        n_tied = log.round(counts, sums, items.similarities, beta, self.n_items) if beta >= 0.0 else -1
        if n_tied < 0:
            changed = items.changed(log)
            if len(changed) != 1 or not self._pull(log, changed[0], items.similarities, beta):
                if changed:
                    items.update(changed)
                self._screen(log, beta)
            n_tied = _find_best(log, beta, self.n_items)
        if not n_tied:  # rounding put the best below its own threshold
            log.flags[:] = 1
            n_tied = _find_best(log, beta, self.n_items)
        self._version, self._is_from_active_set, self._report_size = record.version, False, self.n_items
        self._n_rounds += 1
        return n_tied

    def _pull(self, log: ColumnLog, slot: int, similarities: Similarities, beta: float) -> bool:
        """Apply one pull and mark the candidate blocks in one pass; False if this slot was not pulled."""
        count, total = self._record.counts.item(slot), self._record.sums.item(slot)
        place = log.slots.item(0, slot)
        if count <= log.applied.item(0, slot) or place < 0 or log.has_fallen(self._record.sums):
            return False
        bar = lowered(log.score_after(slot, count, total, beta)) if beta >= 0.0 and place < self.n_items else -inf
        log.pull(slot, count, total, similarities, Screen(beta * beta, bar))
        return True

    def _screen(self, log: ColumnLog, beta: float) -> None:
        """Mark blocks that may hold the best if nothing was pulled since."""
        leader = int(log.state.item(LEADER))
        if beta < 0.0 or leader < 0:
            log.flags[:] = 1
        else:
            log.screen(beta, log.mean.item(leader) + beta * sqrt(max(log.variance.item(leader), 0.0)))

    def _best_among(self, beta: float, rows: Indices) -> tuple[Indices, float]:
        self._report_size = len(rows)
        if self._active_set is not None:
            places = self._active_set.places_of(rows)
            inside = np.flatnonzero(places >= 0)
            if inside.size:
                scores = _scores(self._active_set.log, beta, places[inside])
                if self._active_set.holds_best(beta, float(scores.max())):
                    return rows[inside[tied_for_best(scores)]], float(scores.max())
        self._update_all()
        self._is_from_active_set = False
        scores = _scores(self._items.log, beta, rows)
        return rows[tied_for_best(scores)], float(scores.max())

    def _play_in_active_set(self, active: ActiveSet, beta: float) -> int:
        """Number of items tied for the best if it is certainly in the active set; otherwise drop the set, return 0."""
        log = active.log
        if log.n_runs >= log.next_look:
            batch_updates.shorten(log)
        n_tied = self._round_in_active_set(log, beta) if beta >= 0.0 and self._active_sets.pays(active) else -1
        while 0 < n_tied <= LISTED_TIES:
            if active.holds_best(beta, log.state.item(BEST)):
                self._version, self._is_from_active_set, self._report_size = self._record.version, True, self.n_items
                self._n_rounds += 1
                return n_tied
            is_refreshed = self._active_sets.refresh(active, beta, self._n_rounds)
            n_tied = self._round_in_active_set(log, beta) if is_refreshed else 0
        self._drop_active_set()
        return 0

    def _round_in_active_set(self, log: ColumnLog, beta: float) -> int:
        n_tied = log.round(self._record.counts, self._record.sums, self._active_similarities, beta, log.size)
        if n_tied < 0:
            changed = self._items.changed(log)
            if not changed or (len(changed) == 1 and self._pull(log, changed[0], self._active_similarities, beta)):
                log.flags[:] = 1
                n_tied = _find_best(log, beta, log.size)
        return n_tied

    def _active_similarities(self, slots: Indices, out: Matrix) -> None:
        """Write k(·, x) of these slots' points with the items of the active set."""
        assert self._active_set is not None
        out[:] = self.kernel.gram(self._items.slot_points(slots), self._active_set.points)

    # -- other queries ---------------------------------------------------------------------------------------------

    @_finished
    def log_det_gain(self) -> float | None:
        """Ln det(I + K/γ) over the record, or None if more has changed than one pull.

        A run of n observations with initial variance v multiplies the determinant by d/γ, d = n v + γ.
        """
        if self._record.n_slots > self._items.log.n_slots:
            self._meet()
        log, gamma = self._items.log if self._active_set is None else self._active_set.log, self.regularization
        gain = float(np.log(log.pivots[: log.n_runs] / gamma).sum())
        changed = self._items.changed(log)
        if not changed:
            return gain
        slot = changed[0]
        place, more = log.slots.item(0, slot), self._record.counts.item(slot) - log.applied.item(0, slot)
        if len(changed) > 1 or more < 0.0 or place < 0:
            return None
        return gain + log1p(more * max(log.variance.item(place), 0.0) / gamma)

    @_finished
    def estimate(self, rows: Indices | None = None) -> Prediction:
        """Mean and width of these items, or of all items if `rows` is None."""
        if rows is not None and len(rows) == 1:
            mean, width = self.estimate_one(int(rows[0]))
            return Prediction(np.array([mean]), np.array([width]))
        self._update_all()
        log, chosen = self._items.log, slice(0, self.n_items) if rows is None else np.asarray(rows)
        widths = np.sqrt(np.maximum(log.variance[chosen], 0.0) / self.regularization)
        return Prediction(log.mean[chosen].copy(), widths)

    @_finished
    def estimate_one(self, row: int) -> tuple[float, float]:
        """Mean and width of one item as floats, without arrays; used for the chosen item of a round."""
        active, place = self._active_set, row
        if active is not None:
            place = active.place(row) if self._record.version == self._version else -1
        if place < 0 or active is None:
            self._update_all()
            log, place = self._items.log, row
        else:
            log = active.log
        return log.mean.item(place), sqrt(max(log.variance.item(place), 0.0)) / self._root

    @_finished
    def grow(self, points: Points) -> None:
        """Add catalog items: `points` are all items, the previous ones first and unchanged."""
        if self.kernel.kind.count(points) > self.n_items:
            self._update_all()
            self._items.grow(points)
            self.n_items = self._items.n_items

    @_finished
    def follow(self, generation: Generation, points: Points) -> bool:
        """Remove what was removed from the catalog up to a later generation; False if no item would remain.

        `points` are all items of the catalog in that generation.
        """
        current, kept = self.generation, np.arange(self.n_items)
        while current is not generation and current.end is not None:
            removed, current = current.end
            kept = np.delete(kept, removed[removed < len(kept)])
        if current is not generation or not len(kept):
            return False
        if current is self.generation:
            return True
        self._update_all()
        self._items.keep(kept, points)
        self.n_items, self.generation = self._items.n_items, generation
        return True

    def cost(self) -> SelectionCost:
        """Cost of the last selection."""
        active = self._active_set if self._is_from_active_set else None
        if active is None:
            return new_cost(("column log", self._report_size, self.n_items, self.n_items, 0))
        return new_cost(("active set", self._report_size, active.log.size, active.log.size, 1))


def _find_best(log: ColumnLog, beta: float, n_items: int) -> int:
    """Find the best item in the marked blocks; return the number of items tied with it."""
    log.state[BEST], n_tied = loops.best(log.items, beta, n_items, log.flags, log.tied)
    log.state[LEADER] = log.tied[0]
    return int(n_tied)


def _scores(log: ColumnLog, beta: float, places: Indices | slice) -> Vector:
    scores = np.maximum(log.variance[places], 0.0)
    np.sqrt(scores, out=scores)
    scores *= beta
    scores += log.mean[places]
    return np.asarray(scores)
