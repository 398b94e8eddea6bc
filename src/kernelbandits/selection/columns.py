"""Means and variances of many actions, kept by a log of the columns of the posterior covariance that moved them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import NotPositiveSemidefinite
from kernelbandits.selection.loops import BLOCK, loops
from kernelbandits.selection.threads import for_each_part
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["ColumnLog", "Pull", "Screen"]

FIRST_ROWS: Final = 2112
"""Columns that a new log has room for, unless they would be more than `FIRST_BYTES`. Room costs nothing until it is
used, since the system gives memory when it is first written to; moving columns to a larger buffer costs a lot."""

FIRST_BYTES: Final = 3_000_000_000

TAILS: Final = (32, 64, 128)
"""Lengths of a log's end that may be shortened; it is looked at whenever it has grown by the first of them."""

COLUMNS_AT_ONCE: Final = 8192
"""Actions in a part of a product, so that the result of a part stays in cache."""

PART_ROOM: Final = 64
"""Runs that a part has room for beyond those it begins with."""


class Pull(NamedTuple):
    """So many more observations of one point, with the sum of their rewards."""

    slot: int
    """Where the point stands in the record."""

    position: int
    """Where it stands among the actions of the log."""

    times: float
    total: float


class Screen(NamedTuple):
    """What a pass looks for: blocks with a score mean + sqrt(squared · variance) of at least `bar`."""

    squared: float = 0.0
    bar: float = np.inf


NO_SCREEN: Final = Screen()

Similarities = Callable[[Sequence[Pull], Matrix], None]
"""Writes k(·, x) of the points of these pulls with all actions of a log, one row a point."""


class ColumnLog:
    """Mean μ and variance v (so that width² = v/γ) of n actions, and how they came about.

    Observing x n more times with reward sum s moves every action a by its posterior covariance c(a) with x:

        v(a) −= n c(a)² / (n v(x) + γ),    μ(a) += c(a) (s − n μ(x)) / (n v(x) + γ).

    Successive observations of one point are a *run*. For each run the log keeps the column c at its start, its count n
    and d = n v(x) + γ. So the posterior covariance is the kernel less Σ_j (n_j/d_j) c_j c_jᵀ, and a column is

        new point:            c = k(·, x)      − Σ_{all runs j}      (n_j/d_j) c_j(x) c_j
        seen before, run i:   c = (γ/d_i) c_i  − Σ_{runs j after i}  (n_j/d_j) c_j(x) c_j

    because within a run a column shrinks by γ/d. A point that was pulled a moment ago costs nothing but the pass over
    μ and v, one pulled q runs ago reads q columns, a new one reads all. A Cholesky factor of γI + D^½ K D^½ (D the
    counts) is such a log with one run per point, c_j = l_jj n_j^(-½) · (row j of L⁻¹ D^½ k) and d_j = l_jj²: `rebuild`
    makes it from the counts, with fresh rounding errors. In exact arithmetic all of this is the posterior of Valko et
    al. (2013), KernelUCB, whatever the order.

    Holds (runs + 3) · n doubles.
    """

    def __init__(self, prior: Vector, regularisation: float) -> None:
        self.regularisation = regularisation
        self.size = len(prior)
        self.prior = prior.copy()
        self.mean: Vector = np.zeros(self.size)
        self.variance = prior.copy()
        self.hits: NDArray[np.uint8] = np.ones(-(-self.size // BLOCK), dtype=np.uint8)
        self.n_runs = 0
        self.drift = 0.0
        """Largest difference seen between the two values that the log has for v(x) of a repeated x."""
        self.last_run: dict[int, int] = {}
        self._next_look = TAILS[0]
        self.sealed = 0
        """Runs before this one are not continued, so that the state they make up can still be read."""
        self._make_room(np.empty((max(16, min(FIRST_ROWS, FIRST_BYTES // (8 * self.size))), self.size)))

    def _make_room(self, rows: Matrix) -> None:
        """A buffer for the columns, and what is known of each, with the same capacity."""
        capacity, used = len(rows), self.n_runs
        self.rows = rows
        for name, kind in (("slots", np.intp), ("positions", np.intp), ("before", np.intp)):
            self._extend(name, np.zeros(capacity, dtype=kind), used)
        for name in ("counts", "totals", "starts", "scales", "weights", "lifts"):
            self._extend(name, np.zeros(capacity), used)
        self._coefficients = np.zeros(capacity)

    def _extend(self, name: str, fresh: NDArray[np.generic], used: int) -> None:
        if used:
            fresh[:used] = getattr(self, f"_{name}")[:used]
        setattr(self, f"_{name}", fresh)

    _slots: Indices  # of each run
    _positions: Indices
    _before: Indices  # the run of the same point before, −1 for its first
    _counts: Vector
    _starts: Vector  # v(x) when the run began
    _scales: Vector  # d
    _weights: Vector  # n/d
    _lifts: Vector  # μ = Σ_j lifts_j c_j

    _totals: Vector  # reward sums

    @property
    def n_bytes(self) -> int:
        """Memory in use; capacity that was never written to is not counted."""
        return int(8 * (self.n_runs + 3) * self.size)

    def reserve(self, more: int) -> None:
        """Room for so many runs more."""
        needed = self.n_runs + more
        if needed > len(self.rows):
            larger = np.empty((max(needed, 2 * len(self.rows)), self.size))
            larger[: self.n_runs] = self.rows[: self.n_runs]
            self._make_room(larger)

    # -- one pull --------------------------------------------------------------------------------------------------

    def pull(self, pull: Pull, similarities: Similarities, screen: Screen = NO_SCREEN) -> None:
        """Take observations of one point in; `similarities` writes k(·, x) where it was never seen."""
        known = self.last_run.get(pull.slot, -1)
        position, gamma = pull.position, self.regularisation
        if known == self.n_runs - 1 and known >= self.sealed:
            self._continue(pull, known, screen)
            return
        if self.n_runs >= self._next_look:
            self._shorten()
            known = self.last_run.get(pull.slot, -1)
        if self.n_runs == len(self.rows):
            self.reserve(1)
        run = self.n_runs
        if known < 0:
            similarities([pull], self.rows[run : run + 1])
            base, factor = run, 1.0
        else:
            base, factor = known, gamma / float(self._scales[known])
        start = float(self.variance[position])
        scale = self._checked_scale(pull.times * start + gamma, position)
        gain = (pull.total - pull.times * float(self.mean[position])) / scale
        coefficients = self._coefficients
        if known + 1 < run:
            later = slice(known + 1, run)
            np.multiply(self._weights[later], self.rows[later, position], coefficients[later])
        self._pass(base, factor, known + 1, run, run, gain, pull.times / scale, screen)
        if known >= 0:
            self.drift = max(self.drift, abs(float(self.rows[run, position]) - start))
        self.n_runs = run + 1
        self._describe(run, pull, known, start, scale, gain)
        self.variance[position] = start * gamma / scale  # exactly what is left, where a difference would cancel

    def _continue(self, pull: Pull, run: int, screen: Screen) -> None:
        """More of the point that was pulled last: its column shrinks, and no other is read."""
        gamma, position = self.regularisation, pull.position
        factor = gamma / float(self._scales[run])
        start = float(self._starts[run]) * factor
        scale = pull.times * start + gamma
        gain = (pull.total - pull.times * float(self.mean[position])) / scale
        self._pass(run, factor, run, run, -1, gain, pull.times / scale, screen)
        count = float(self._counts[run]) + pull.times
        whole = count * float(self._starts[run]) + gamma
        self._counts[run], self._scales[run], self._weights[run] = count, whole, count / whole
        self._lifts[run] += factor * gain
        self._totals[run] += pull.total
        self.variance[position] = start * gamma / scale

    def _describe(self, run: int, pull: Pull, known: int, start: float, scale: float, gain: float) -> None:
        self._slots[run], self._positions[run], self._before[run] = pull.slot, pull.position, known
        self._counts[run], self._starts[run], self._scales[run] = pull.times, start, scale
        self._weights[run], self._lifts[run], self._totals[run] = pull.times / scale, gain, pull.total
        self.last_run[pull.slot] = run

    def _pass(
        self, base: int, factor: float, first: int, last: int, target: int, gain: float, shrink: float, screen: Screen
    ) -> None:
        """`pull_loop` over all actions, in threads where it pays."""
        rows, coefficients, mean, variance, hits = self.rows, self._coefficients, self.mean, self.variance, self.hits
        squared, bar = screen
        if not loops.is_compiled:
            loops.note((last - first + 6) * self.size)
        n_bytes = 8 * (last - first + 6) * self.size
        if n_bytes < 4_000_000:
            loops.pull(
                rows, base, factor, first, last, coefficients, target, gain, shrink,
                mean, variance, 0, self.size, squared, bar, hits,
            )  # fmt: skip
            return
        pull = loops.pull
        for_each_part(
            lambda start, stop: pull(
                rows, base, factor, first, last, coefficients, target, gain, shrink,
                mean, variance, start, stop, squared, bar, hits,
            ),
            self.size, align=BLOCK, n_bytes=n_bytes,
        )  # fmt: skip

    def _checked_scale(self, scale: float, position: int) -> float:
        if not scale > 0.0:
            raise NotPositiveSemidefinite(
                "These similarities are not positive semi-definite: what is left of k(x, x) after explaining it by the "
                f"data falls below zero at action {position}. Repair them: kb.kernels.repair(table, method='clip')."
            )
        return scale

    # -- many at once ----------------------------------------------------------------------------------------------

    def pull_many(self, pulls: Sequence[Pull], similarities: Similarities) -> None:
        """Take in several points, each named once, at matrix-matrix speed.

        What the log explains of all their columns is one product; among themselves they are then taken one by one.
        """
        pulls = sorted(
            pulls, key=lambda pull: pull.slot not in self.last_run
        )  # known ones first, otherwise as they come
        old, n_pulls = self.n_runs, len(pulls)
        self.reserve(n_pulls)
        known = [self.last_run.get(pull.slot, -1) for pull in pulls]
        block = self.rows[old : old + n_pulls]
        n_known = sum(run >= 0 for run in known)
        for place in range(n_known):
            np.multiply(self.rows[known[place]], self.regularisation / self._scales[known[place]], out=block[place])
        if n_known < n_pulls:
            similarities(pulls[n_known:], block[n_known:])
        first = min(known) + 1
        if first < old:
            positions = np.array([pull.position for pull in pulls])
            coefficients = self.rows[first:old, positions].T * self._weights[first:old]  # (pulls, runs)
            for place, run in enumerate(known):
                coefficients[place, : run + 1 - first] = 0.0
            for begin in range(0, self.size, COLUMNS_AT_ONCE):
                part = slice(begin, begin + COLUMNS_AT_ONCE)
                block[:, part] -= coefficients @ self.rows[first:old, part]
        for place, pull in enumerate(pulls):
            run, position = old + place, pull.position
            start = float(self.variance[position])
            scale = self._checked_scale(pull.times * start + self.regularisation, position)
            gain = (pull.total - pull.times * float(self.mean[position])) / scale
            self._coefficients[old:run] = self._weights[old:run] * self.rows[old:run, position]
            self._pass(run, 1.0, old, run, run, gain, pull.times / scale, NO_SCREEN)
            self.n_runs = run + 1
            self._describe(run, pull, known[place], start, scale, gain)
            self.variance[position] = start * self.regularisation / scale

    def change_sum(self, slot: int, position: int, change: float) -> None:
        """The reward sum of a point was off: μ += c · change/γ; variances do not depend on rewards and stay."""
        run, last = self.last_run[slot], self.n_runs
        step = change / self.regularisation
        lifts = np.zeros(last - run)
        lifts[0] = step * self.regularisation / self._scales[run]
        lifts[1:] = -step * self._weights[run + 1 : last] * self.rows[run + 1 : last, position]
        self.mean += lifts @ self.rows[run:last]
        self._lifts[run:last] += lifts
        self._totals[run] += change

    def covariances_at(self, position: int, positions: Indices, known: int, column: Vector | None) -> Vector:
        """Posterior covariances of one action with others, by the sealed runs only.

        `known` is the action's last run, which has to be among them; where there is none, `column` is k(·, x).
        """
        end = self.sealed
        if column is None:
            covariances = self.regularisation / self._scales[known] * self.rows[known, positions]
        else:
            covariances = column[positions]
        if known + 1 < end:
            weights = self._weights[known + 1 : end] * self.rows[known + 1 : end, position]
            covariances -= weights @ self.rows[known + 1 : end, positions]
        return np.asarray(covariances)

    # -- fewer runs ------------------------------------------------------------------------------------------------

    def _shorten(self) -> None:
        """Where few points take turns, make one run a point of the many that end the log.

        The longest tail that is worth it is taken: half its runs have to be of points with a later run.
        """
        slots = self._slots[: self.n_runs]
        for length in reversed(TAILS):
            first = self.n_runs - length
            if first >= self.sealed and 2 * len(np.unique(slots[first:])) <= length:
                self._merge(first)
                break
        self._next_look = self.n_runs + TAILS[0]

    def _merge(self, first: int) -> None:
        """One run a point from run `first` on; the means and variances are what they were.

        With P the covariance before those runs, and i the first of them that is of x, P(·, x) = c_i + Σ_{first ≤ j < i}
        (n_j/d_j) c_j(x) c_j. So the new columns are combinations of the old ones, found by elimination among the few
        points, and formed in one product.
        """
        runs = np.arange(first, self.n_runs)
        slots, weights = self._slots[runs], self._weights[runs]
        order = sorted(set(slots.tolist()), key=self.last_run.__getitem__)  # pulled last, placed last
        begins = [int(np.argmax(slots == slot)) for slot in order]
        positions, before = self._positions[runs][begins], self._before[runs][begins]
        counts = np.array([self._counts[runs][slots == slot].sum() for slot in order])
        totals = np.array([self._totals[runs][slots == slot].sum() for slot in order])
        at_points = self.rows[first : self.n_runs, positions]  # (runs, points)
        mean = self.mean[positions] - self._lifts[runs] @ at_points

        size = len(order)
        mixture = np.zeros((size, len(runs)))
        scales, starts, lifts = np.empty(size), np.empty(size), np.empty(size)
        reduced = np.empty((size, size))  # the new columns at the points
        for place, begin in enumerate(begins):
            mixture[place, :begin] = weights[:begin] * at_points[:begin, place]
            mixture[place, begin] = 1.0
            known = counts[:place] / scales[:place] * reduced[:place, place]
            mixture[place] -= known @ mixture[:place]
            reduced[place] = mixture[place] @ at_points
            starts[place] = max(reduced[place, place], 0.0)
            scales[place] = counts[place] * starts[place] + self.regularisation
            lifts[place] = (totals[place] - counts[place] * mean[place]) / scales[place]
            mean += lifts[place] * reduced[place]
        last = first + size
        for begin in range(0, self.size, COLUMNS_AT_ONCE):
            part = slice(begin, begin + COLUMNS_AT_ONCE)
            self.rows[first:last, part] = mixture @ self.rows[first : self.n_runs, part]
        self.n_runs = last
        self._slots[first:last], self._positions[first:last], self._before[first:last] = order, positions, before
        self._counts[first:last], self._totals[first:last] = counts, totals
        self._starts[first:last], self._scales[first:last] = starts, scales
        self._weights[first:last], self._lifts[first:last] = counts / scales, lifts
        self.last_run.update(zip(order, range(first, last), strict=True))

    # -- from nothing ----------------------------------------------------------------------------------------------

    def rebuild(self, pulls: Sequence[Pull], similarities: Similarities) -> None:
        """Begin again with these points, each named once, in this order: fresh rounding errors, one run a point.

        With D the counts and L Lᵀ = γI + D^½ K D^½, all columns are one triangular solve.
        """
        from scipy.linalg import cholesky
        from scipy.linalg.blas import dtrsm

        self.n_runs, self.last_run, self.drift, self.sealed = 0, {}, 0.0, 0
        n_pulls = len(pulls)
        self.mean[:] = 0.0
        self.variance[:] = self.prior
        if not n_pulls:
            return
        if len(self.rows) < n_pulls:
            del self.rows  # let go of the old columns first: the new ones may be as large
            self._make_room(np.empty((n_pulls + n_pulls // 2, self.size)))
        positions = np.array([pull.position for pull in pulls])
        counts, totals = np.array([pull.times for pull in pulls]), np.array([pull.total for pull in pulls])
        rows, roots = self.rows[:n_pulls], np.sqrt(counts)
        step = max(1, 8_000_000 // self.size)
        for begin in range(0, n_pulls, step):
            similarities(pulls[begin : begin + step], rows[begin : begin + step])
        gram = rows[:, positions] * roots[:, None] * roots
        gram[np.diag_indices(n_pulls)] = self.prior[positions] * counts + self.regularisation
        try:
            factor = np.asarray(cholesky(gram, lower=True, check_finite=False), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise NotPositiveSemidefinite(
                "These similarities are not positive semi-definite: their Gram matrix has no Cholesky factor. Repair "
                "them first: kb.kernels.repair(table, method='clip')."
            ) from error
        rows *= roots[:, None]
        # In C order the rows are the transpose of what BLAS sees, so L X = B is Xᵀ Lᵀ = Bᵀ, solved in place.
        solved = dtrsm(1.0, factor, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        if not np.shares_memory(solved, rows):
            rows[:] = solved.T
        pivots = np.diagonal(factor).copy()
        targets = dtrsm(1.0, factor, (totals / roots)[:, None], lower=1)[:, 0]
        self.mean += targets @ rows
        for begin in range(0, self.size, BLOCK):
            part = rows[:, begin : begin + BLOCK]
            self.variance[begin : begin + BLOCK] -= np.einsum("ma,ma->a", part, part)
        rows *= (pivots / roots)[:, None]
        self.n_runs = n_pulls
        self._next_look = n_pulls + TAILS[0]
        scales = pivots**2
        self._slots[:n_pulls] = [pull.slot for pull in pulls]
        self._positions[:n_pulls], self._before[:n_pulls] = positions, -1
        self._counts[:n_pulls], self._totals[:n_pulls], self._scales[:n_pulls] = counts, totals, scales
        self._starts[:n_pulls] = np.maximum(scales - self.regularisation, 0.0) / counts
        self._weights[:n_pulls], self._lifts[:n_pulls] = counts / scales, targets * roots / pivots
        self.last_run = {pull.slot: run for run, pull in enumerate(pulls)}

    # -- more or fewer actions -------------------------------------------------------------------------------------

    def insert(self, place: int, prior: Vector, to_points: Callable[[Indices], Matrix]) -> None:
        """New actions from `place` on; `to_points(slots)` gives their similarities to points of the record.

        The log tells their columns, too: one entry of each after the other.
        """
        n_new, runs = len(prior), self.n_runs
        columns = np.empty((runs, n_new))
        first_runs = np.flatnonzero(self._before[:runs] < 0)
        if runs:
            columns[first_runs] = to_points(self._slots[first_runs])
        for run in range(runs):
            before = int(self._before[run])
            if before >= 0:
                columns[run] = self.regularisation / self._scales[before] * columns[before]
            if before + 1 < run:
                weights = self._weights[before + 1 : run] * self.rows[before + 1 : run, self._positions[run]]
                columns[run] -= weights @ columns[before + 1 : run]
        variance = prior - self._weights[:runs] @ columns**2
        rows = np.empty((len(self.rows), self.size + n_new))
        rows[:runs, :place], rows[:runs, place + n_new :] = self.rows[:runs, :place], self.rows[:runs, place:]
        rows[:runs, place : place + n_new] = columns
        self.rows = rows
        self.mean = np.insert(self.mean, [place] * n_new, self._lifts[:runs] @ columns)
        self.variance = np.insert(self.variance, [place] * n_new, variance)
        self.prior = np.insert(self.prior, [place] * n_new, prior)
        self.size += n_new
        self._positions[:runs] += n_new * (self._positions[:runs] >= place)
        self.hits = np.ones(-(-self.size // BLOCK), dtype=np.uint8)

    def part(self, positions: Indices, memory: Matrix | None = None) -> ColumnLog:
        """The same for some of the actions, as a log of their own; `memory` of an earlier part is used if it fits."""
        part = ColumnLog.__new__(ColumnLog)
        part.__dict__.update(self.__dict__)
        part.size, part.prior = len(positions), self.prior[positions]
        part.mean, part.variance = self.mean[positions], self.variance[positions]
        part.hits = np.ones(-(-part.size // BLOCK), dtype=np.uint8)
        part.last_run, part.drift = dict(self.last_run), 0.0
        if memory is None or memory.shape[1] != part.size or len(memory) < self.n_runs + PART_ROOM:
            memory = np.empty((2 * self.n_runs + 4 * PART_ROOM, part.size))
        # Clipping changes nothing, as all positions are valid, and spares NumPy a second buffer.
        np.take(self.rows[: self.n_runs], positions, axis=1, out=memory[: self.n_runs], mode="clip")
        part._make_room(memory)
        return part
