"""The exact engine for a catalogue: it follows a posterior's record and knows the best action at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Final

import numpy as np

from kernelbandits.kernels import Kernel
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection.columns import NO_SCREEN, ColumnLog, Pull, Screen
from kernelbandits.selection.front import Front
from kernelbandits.selection.lookup import RowIndex
from kernelbandits.selection.loops import BLOCK, loops
from kernelbandits.selection.report import SelectionReport
from kernelbandits.selection.threads import for_each_part
from kernelbandits.selection.ties import tied_for_best, worst_tied
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector

__all__ = ["CatalogueEngine"]

LISTED_TIES: Final = 64
"""Tied actions that a compiled loop lists; more are found by a NumPy pass, as in a first round where all are tied."""

ROOM: Final = 512_000_000
"""Bytes for runs of points that have a later run, at most; beyond it the log is rebuilt with one run a point."""

LEAST_EXTRA: Final = 32
"""Such runs that are kept in any case, whatever their size."""

MOST_EXTRA: Final = 512
"""Such runs at most where there are fewer points: a rebuild costs about as much as m² columns are read, so it should
not come more often than every m runs."""

DRIFT: Final = 1e-11
"""Share of the largest k(x, x) by which the two values of v(x) that a log has may differ before it is rebuilt."""

UPDATES_PER_CHECK: Final = 16
"""Updates between two looks at whether the log is due for a rebuild."""

UPDATES_PER_REBUILD: Final = 5_000
"""Updates after which it is in any case at γ = 0.005 and below; proportionally more above. Measured on 150 points of a
line, 6,000 updates without a rebuild leave errors of 2e-15 in v and 1e-11 in the mean at γ = 0.001."""

BLOCK_OF_CHANGES: Final = 4
"""Changed points from which on they are taken in together, by matrix products."""

SLACK: Final = 1e-12
"""Share of a score, far above its rounding error, by which the bar of a screen is lowered."""

ITEMS_AT_ONCE: Final = 16_384
"""Rows that a kernel is given at a time: its temporary arrays then stay in cache."""

LEAST_ITEMS: Final = 4096
"""Fewer are always all kept up to date."""

MANY_ITEMS: Final = 200_000
"""From here on a front pays even where a pull is a single pass over all items."""

MANY_ENTRIES: Final = 1_000_000
"""Entries of columns read by a pull, about half a millisecond, from which on a front pays at any size; below a third of
it the front is given up."""

LEAST_FRONT: Final = 512
MOST_FRONT: Final = 8192
"""Items in a front: an eighth of all within these limits."""

LONG, SHORT = 8.0, 3.0
"""Pulls that a front is expected to last at first, and fewer than which it does not pay."""

PAUSE: Final = 64
"""Rounds without a front after fronts that did not last."""

FRONT_SLACK: Final = 1e-9
"""Share of a score by which the bound on the rest has to lie below the best: far above its rounding error."""


class CatalogueEngine:
    """Mean and width of every item of a catalogue, kept up to date with a posterior's record.

    It holds no data of its own: `catch_up` compares the record with what it saw last. More observations of a point are
    pulls (n of them with reward sum s are one update with noise γ/n), a changed sum alone moves the means, and whatever
    else happened (observations taken back, another record) is answered by beginning again from the counts. So late,
    amended and removed rewards, and points that are in no catalogue, need no care.

    Cost of a round: a pass over all N items, about 40 bytes each, where the item was pulled a moment ago; q columns
    more where q runs of other items lie between; all runs for a new item (`ColumnLog`). Where that is much, because new
    items are pulled all the time or N is large, a `Front` of an eighth of the items, at most 8,192, is kept instead,
    and all items catch up at matrix-matrix speed when the front's bound on the others no longer holds.

    Memory: N doubles a run, at least one run for each of the m distinct points and at most max(m, 512) more (64 more at
    a million items), and no N×N matrix: 2.9 GB for N = 1e6 and m = 300. When a log outgrows its room, it is there twice
    for a moment.

    Rounding errors of updates might add up, in proportion to 1/γ. The log checks itself in every round at no cost: a
    repeated point's own entry of its column has to be its variance. Where they part by more than 1e-11 of k(x, x), or
    after a number of updates that falls with γ, everything is computed anew from the counts.

    Reference: Valko et al. (2013), KernelUCB; the estimator is theirs, the order of the work is not.
    """

    def __init__(self, points: Points, kernel: Kernel, regularisation: float) -> None:
        self.kernel, self.regularisation = kernel, regularisation
        self._points = points
        self._n_items = kernel.kind.count(points)
        self._outside: Points | None = None  # points of the record that are no items; columns behind those of the items
        self._log = ColumnLog(kernel.diagonal(points), regularisation)
        self._largest = float(self._log.prior.max())
        self._index: RowIndex | None = None
        self._record: Observations | None = None
        self._version = -1
        self._counts: Vector = np.zeros(0)
        self._sums: Vector = np.zeros(0)
        self._positions: list[int] = []  # of the slots
        self._waiting: Pull | None = None  # seen, and taken in with the next question, in one pass with its answer
        self._n_updates, self._next_check = 0, UPDATES_PER_CHECK
        self._leader = -1
        self._tied: Indices = np.zeros(LISTED_TIES, dtype=np.int64)
        self._found: Indices = np.zeros(0, dtype=np.int64)
        self._front: Front | None = None
        self._front_rows: Matrix | None = None  # memory of the last front, for the next
        self._behind: dict[int, tuple[float, float]] = {}  # what the front has taken in and the whole has not
        self._columns_read = 0.0  # by a pull, a running mean
        self._period = LONG  # pulls that a front lasted, a running mean
        self._reach = 0.0
        self._rests_until = 0
        self._n_best = 0
        self._is_from_front = False
        self._updated = 0
        self._report_size = self._n_items
        self.checks_drift = True
        """For tests only: without it nothing is computed anew for the sake of rounding errors."""
        self.n_rebuilds = 0
        self.n_fronts = 0

    def __len__(self) -> int:
        return self._n_items

    # -- following the record --------------------------------------------------------------------------------------

    def catch_up(self, record: Observations) -> None:
        """Take in whatever has changed in the record since the last call."""
        if record is self._record and record.version == self._version:
            return
        if record is not self._record or record.n_slots < len(self._positions):
            self._start(record)
            return
        self._version = record.version
        n_known, n_slots = len(self._positions), record.n_slots
        if n_slots > n_known:
            self._meet(record, n_known, n_slots)
        counts, sums = record.counts, record.sums
        n_changed = loops.changes(counts, sums, self._counts[:n_slots], self._sums[:n_slots], self._found)
        if n_changed == 1:
            self._one_change(int(self._found[0]), counts, sums)
        elif n_changed:
            self._changes(self._found[:n_changed].tolist(), counts, sums)
        if self._n_updates >= self._next_check and self._front is None:
            self._next_check = self._n_updates + UPDATES_PER_CHECK
            if self._must_begin_again():
                self._begin_again()

    def _one_change(self, slot: int, counts: Vector, sums: Vector) -> None:
        count, total = counts.item(slot), sums.item(slot)
        more, change = count - self._counts.item(slot), total - self._sums.item(slot)
        if more > 0.0 and self._front is not None and self._pull_in_front(slot, more, change):
            self._counts[slot], self._sums[slot] = count, total
        elif more > 0.0:
            self._settle()
            self._counts[slot], self._sums[slot] = count, total
            self._waiting = Pull(slot, self._positions[slot], more, change)
        else:
            self._changes([slot], counts, sums)

    def _changes(self, slots: Sequence[int], counts: Vector, sums: Vector) -> None:
        if any(counts[slot] < self._counts[slot] for slot in slots):
            self._begin_again()
            return
        self._settle()
        own_counts, own_sums = self._counts[: len(counts)], self._sums[: len(sums)]
        pulls = [
            Pull(slot, self._positions[slot], more, change)
            for slot, more, change in zip(slots, (counts - own_counts)[slots], (sums - own_sums)[slots], strict=True)
            if more > 0.0
        ]
        amended = [(slot, float((sums - own_sums)[slot])) for slot in slots if counts[slot] == own_counts[slot]]
        self._counts[slots], self._sums[slots] = counts[slots], sums[slots]
        if len(pulls) > max(BLOCK_OF_CHANGES, self._log.n_runs):
            self._begin_again()
            return
        if len(pulls) >= BLOCK_OF_CHANGES:
            self._log.pull_many(pulls, self._similarities)
            self._after(len(pulls))
        else:
            for pull in pulls:
                self._pull(pull, NO_SCREEN)
        for slot, change in amended:
            self._log.change_sum(slot, self._positions[slot], change)
            self._updated = self._n_items

    def _start(self, record: Observations) -> None:
        """Follow another record."""
        self._record, self._version = record, record.version
        self._positions, self._waiting, self._front, self._behind = [], None, None, {}
        if self._outside is not None:
            self._outside = None
            self._log = ColumnLog(self._log.prior[: self._n_items], self.regularisation)
        self._counts, self._sums = np.zeros(0), np.zeros(0)
        if record.n_slots:
            self._log.rebuild([], self._similarities)
            self._meet(record, 0, record.n_slots)
        self._begin_again()

    def _meet(self, record: Observations, n_known: int, n_slots: int) -> None:
        """Find the places of new slots; a point that is no item gets one behind the items."""
        kind = self.kernel.kind
        if n_slots > len(self._counts):
            room = max(n_slots, 2 * len(self._counts), 64)
            self._counts, self._sums = _padded(self._counts, room), _padded(self._sums, room)
            self._found = np.zeros(room, dtype=np.int64)
        new = kind.take(record.points, np.arange(n_known, n_slots))
        if self._index is None:
            self._index = RowIndex(kind, self._points)
        places = self._index.find(new)
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            self._settle()
            outside = kind.take(new, unknown)
            places[unknown] = self._log.size + np.arange(len(unknown))
            self._insert(self._log.size, outside)
            self._outside = outside if self._outside is None else kind.stack(self._outside, outside)
        self._positions.extend(places.tolist())

    def _insert(self, place: int, points: Points) -> None:
        """Columns for more points."""
        gram, prior = self.kernel.gram, self.kernel.diagonal(points)
        self._log.insert(place, prior, lambda slots: gram(self._slot_points(slots), points))
        self._largest = max(self._largest, float(prior.max()))

    def _begin_again(self) -> None:
        """Everything from the counts of the record, points pulled last at the end."""
        record = self._record
        self._waiting, self._front, self._behind = None, None, {}
        if record is None:
            return
        n_slots = record.n_slots
        self._counts[:n_slots], self._sums[:n_slots] = record.counts, record.sums
        last_run = self._log.last_run
        live = sorted(np.flatnonzero(record.counts).tolist(), key=lambda slot: last_run.get(slot, inf))
        counts, sums = record.counts, record.sums
        pulls = [Pull(slot, self._positions[slot], float(counts[slot]), float(sums[slot])) for slot in live]
        self._log.rebuild(pulls, self._similarities)
        self._n_updates, self._next_check, self._updated = 0, UPDATES_PER_CHECK, self._n_items
        self.n_rebuilds += 1
        self._leader = -1

    def _pull_in_front(self, slot: int, more: float, change: float) -> bool:
        """Let the front alone take the pull in, where it holds the point."""
        front = self._front
        assert front is not None
        place = front.place(self._positions[slot])
        if place < 0:
            return False
        self._note_reading(front.log, slot)
        if self._n_items < MANY_ITEMS and 3 * self._n_items * self._columns_read < MANY_ENTRIES:
            return False
        times, total = self._behind.get(slot, (0.0, 0.0))
        self._behind[slot] = times + more, total + change
        front.pull(Pull(slot, place, more, change), self._front_similarities)
        self._updated = front.log.size
        return True

    def _catch_up_with_front(self) -> None:
        """Bring all items to where the front is, at matrix-matrix speed, and do without a front."""
        front, behind = self._front, self._behind
        if front is None:
            return
        self._front, self._behind = None, {}
        self.n_fronts += 1
        self._period += 0.25 * (front.n_pulls - self._period)
        self._reach += 0.5 * (front.reach - self._reach)
        pulls = [Pull(slot, self._positions[slot], times, total) for slot, (times, total) in behind.items()]
        if len(pulls) > 1:
            self._log.pull_many(pulls, self._similarities)
            self._after(len(pulls))
        elif pulls:
            self._pull(pulls[0], NO_SCREEN)

    def _settle(self) -> None:
        """Bring all items up to date: with the front, or by the pull that was waiting for a question."""
        self._catch_up_with_front()
        if self._waiting is not None:
            pull, self._waiting = self._waiting, None
            self._pull(pull, NO_SCREEN)

    def _pull(self, pull: Pull, screen: Screen) -> None:
        self._note_reading(self._log, pull.slot)
        self._log.pull(pull, self._similarities, screen)
        self._after(1)

    def _note_reading(self, log: ColumnLog, slot: int) -> None:
        self._columns_read += 0.05 * (log.n_runs - 1 - log.last_run.get(slot, -1) - self._columns_read)

    def _after(self, n_updates: int) -> None:
        self._n_updates += n_updates
        self._updated = self._n_items

    def _must_begin_again(self) -> bool:
        log = self._log
        n_points = len(log.last_run)
        extra = max(LEAST_EXTRA, min(ROOM // (8 * log.size), max(MOST_EXTRA, n_points)))
        if log.n_runs >= n_points + extra:
            return True
        if not self.checks_drift:
            return False
        return log.drift > DRIFT * self._largest or self._n_updates >= _updates_between(self.regularisation)

    # -- similarities ----------------------------------------------------------------------------------------------

    def _slot_points(self, slots: Indices) -> Points:
        assert self._record is not None
        return self.kernel.kind.take(self._record.points, np.asarray(slots))

    def _similarities(self, pulls: Sequence[Pull], out: Matrix) -> None:
        """Write k(·, x) of these points with all items and, behind them, the points outside."""
        points, items, n_items = self._slot_points(np.array([pull.slot for pull in pulls])), self._points, self._n_items
        if isinstance(items, np.ndarray) and n_items > ITEMS_AT_ONCE:
            for start in range(0, n_items, ITEMS_AT_ONCE):
                stop = min(n_items, start + ITEMS_AT_ONCE)
                out[:, start:stop] = self.kernel.gram(points, items[start:stop])
        else:
            out[:, :n_items] = self.kernel.gram(points, items)
        if self._outside is not None:
            out[:, n_items:] = self.kernel.gram(points, self._outside)

    def _front_similarities(self, pulls: Sequence[Pull], out: Matrix) -> None:
        """Likewise with the items of the front."""
        assert self._front is not None
        out[:] = self.kernel.gram(self._slot_points(np.array([pull.slot for pull in pulls])), self._front.points)

    # -- answers ---------------------------------------------------------------------------------------------------

    def best(self, exploration: float, rows: Indices | None = None) -> tuple[Indices, float]:
        """Items tied for the best mean + exploration · width, lowest row first, and the best score.

        `rows` restricts the choice; the answer is in rows of the whole catalogue all the same.
        """
        if rows is not None:
            return self._best_among(exploration, rows)
        beta = exploration / sqrt(self.regularisation)
        log = self._log
        self._report_size = self._n_items
        self._is_from_front = False
        if self._front is not None:
            answer = self._best_of_front(self._front, beta)
            if answer is not None:
                self._is_from_front = True
                return answer
        if self._waiting is not None and exploration >= 0.0:
            pull, self._waiting = self._waiting, None
            self._pull(pull, Screen(beta * beta, self._bar(pull, beta)))
        else:
            self._settle()
            self._screen(beta)
        best, n_tied = loops.best(log.mean, log.variance, beta, self._n_items, log.hits, self._tied)
        if 0 < n_tied <= LISTED_TIES:
            tied = self._tied[:n_tied].copy()
        else:
            tied = np.flatnonzero(self._scores(beta, slice(0, self._n_items)) >= worst_tied(best))
        self._leader = int(tied[0])
        self._n_best += 1
        if self._wants_front(beta):
            self._make_front(beta)
        return tied, float(best)

    def _best_of_front(self, front: Front, beta: float) -> tuple[Indices, float] | None:
        """The best, where it surely is in the front; otherwise all items are brought up to date."""
        answer = front.best(beta) if beta >= 0.0 else None
        if answer is not None:
            tied, best = answer
            if front.rest(front.factor(beta)) < worst_tied(best) - FRONT_SLACK * max(1.0, abs(best)):
                return answer
            self._leader = int(tied[0])
        self._catch_up_with_front()
        if self._must_begin_again():
            self._begin_again()
        if self._period < SHORT:
            self._rests_until, self._period = self._n_best + PAUSE, LONG
        return None

    def _wants_front(self, beta: float) -> bool:
        if beta < 0.0 or self._n_items < LEAST_ITEMS or self._n_best < self._rests_until or not self._log.n_runs:
            return False
        return self._n_items >= MANY_ITEMS or self._n_items * self._columns_read >= MANY_ENTRIES

    def _make_front(self, beta: float) -> None:
        size = min(self._n_items // 2, max(self._n_items // 8, LEAST_FRONT), MOST_FRONT)
        reach = max(self._reach, 0.02 * beta * beta, 1e-6)
        self._front = Front(self._log, self._n_items, size, beta, reach, self._front_rows)
        self._front_rows = self._front.log.rows
        self._front.points = self.kernel.kind.take(self._points, self._front.rows)

    def _bar(self, pull: Pull, beta: float) -> float:
        """A score that is surely reached after the pull: that of the pulled item, which is known beforehand.

        v(x) becomes v γ/(n v + γ), and μ(x) moves by v (s − n μ)/(n v + γ).
        """
        if pull.position >= self._n_items:
            return -inf
        mean, variance = self._log.mean.item(pull.position), self._log.variance.item(pull.position)
        scale = pull.times * variance + self.regularisation
        mean += variance * (pull.total - pull.times * mean) / scale
        score = mean + beta * sqrt(max(variance * self.regularisation / scale, 0.0))
        return worst_tied(score) - SLACK * max(1.0, abs(score))

    def _screen(self, beta: float) -> None:
        """Mark blocks that may hold the best when nothing has been pulled since."""
        log = self._log
        if beta < 0.0 or self._leader < 0:
            log.hits[:] = 1
            return
        score = log.mean.item(self._leader) + beta * sqrt(max(log.variance.item(self._leader), 0.0))
        bar, squared = worst_tied(score) - SLACK * max(1.0, abs(score)), beta * beta
        if not loops.is_compiled:
            loops.note(3 * self._n_items)
        for_each_part(
            lambda start, stop: loops.screen(log.mean, log.variance, start, stop, squared, bar, log.hits),
            self._n_items, align=BLOCK, n_bytes=16 * self._n_items,
        )  # fmt: skip

    def _best_among(self, exploration: float, rows: Indices) -> tuple[Indices, float]:
        self._settle()
        self._report_size = len(rows)
        scores = self._scores(exploration / sqrt(self.regularisation), rows)
        return np.asarray(rows)[tied_for_best(scores)], float(scores.max())

    def _scores(self, beta: float, rows: Indices | slice) -> Vector:
        scores = np.maximum(self._log.variance[rows], 0.0)
        np.sqrt(scores, out=scores)
        scores *= beta
        scores += self._log.mean[rows]
        return scores

    def estimate(self, rows: Indices | None = None) -> Prediction:
        """Mean and width of these items, of all where none are named."""
        if rows is not None and len(rows) == 1:
            mean, width = self.estimate_one(int(rows[0]))
            return Prediction(np.array([mean]), np.array([width]))
        self._settle()
        chosen: Indices | slice = slice(0, self._n_items) if rows is None else np.asarray(rows)
        widths = np.sqrt(np.maximum(self._log.variance[chosen], 0.0) / self.regularisation)
        return Prediction(self._log.mean[chosen].copy(), widths)

    def estimate_one(self, row: int) -> tuple[float, float]:
        """Mean and width of one item, without arrays: a round needs them for the item that was chosen."""
        log, place = self._log, row
        if self._front is not None:
            log, place = self._front.log, self._front.place(row)
        if self._front is None or place < 0:
            self._settle()
            log, place = self._log, row
        return log.mean.item(place), sqrt(max(log.variance.item(place), 0.0) / self.regularisation)

    def grow(self, points: Points) -> None:
        """The catalogue got more items: `points` are all of them, those known before first and unchanged."""
        n_items = self.kernel.kind.count(points)
        if n_items == self._n_items:
            return
        self._settle()
        new = self.kernel.kind.take(points, np.arange(self._n_items, n_items))
        n_new = n_items - self._n_items
        self._insert(self._n_items, new)
        self._positions = [place + n_new if place >= self._n_items else place for place in self._positions]
        self._points, self._n_items, self._index = points, n_items, None

    def report(self) -> SelectionReport:
        """How the last answer was found."""
        held = self._log.n_bytes + 16 * len(self._counts)
        held += 0 if self._index is None else self._index.n_bytes
        held += 0 if self._front is None else self._front.log.n_bytes
        return SelectionReport(
            engine="front" if self._is_from_front else "column log",
            n_actions=self._report_size,
            means_computed=self._updated,
            widths_computed=self._updated,
            bounds_scanned=1 if self._is_from_front else 0,
            bytes_held=held,
        )


def _updates_between(regularisation: float) -> float:
    """Updates after which everything is computed anew, whatever the drift looks like."""
    return UPDATES_PER_REBUILD * max(1.0, regularisation / 0.005)


def _padded(vector: Vector, length: int) -> Vector:
    padded = np.zeros(length)
    padded[: len(vector)] = vector
    return padded
