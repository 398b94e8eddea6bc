"""Active sets: exact scores of the candidates for the next rounds, and one bound for all inactive actions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np

from kernelbandits._threads import limit_blas_threads
from kernelbandits.selection import batch_updates
from kernelbandits.selection._catalog_loops import BEST, INNOVATION, LARGEST, MEAN_DRIFT, READ, UPDATES, loops
from kernelbandits.selection.batch_updates import SMALL_PRODUCT, mixed
from kernelbandits.selection.column_log import DRIFT_LIMIT, ColumnLog, Similarities, columns_for, part_of
from kernelbandits.selection.synchronized_columns import SynchronizedColumns
from kernelbandits.selection.ties import worst_tied
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["ActiveSet", "ActiveSetLimits", "ActiveSets"]

GRID: Final = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.25, 4.0])
"""Multiples of the expected innovation bound H at which the inactive bound is computed. The bound is convex in F, being
the maximum of many lines, so linear interpolation between two grid points is an upper bound."""

ALLOWANCE: Final = 1e-9
"""Relative allowance for rounding in sums."""

EPSILON: Final = float(np.finfo(np.float64).eps)

AHEAD: Final = 1.0
"""Multiple of the expected innovation bound H used to select the actions that join at a refresh: those whose bound
reaches the best score."""

BOUND_SLACK: Final = 1e-9
"""Fraction of a score by which the inactive bound must lie below the best: far above its rounding error."""


class ActiveSet:
    """Active set: actions with exact means and variances, and one bound on the scores of all inactive actions.

    When it is built, at time s, all actions are exact. Let B be the points observed since, with counts n, mean rewards
    y, covariance P at s, δ = y − μ_s(B), S = P + γ diag(1/n), u = S⁻¹ δ. For any action a, with V(a) the covariances of
    a with B at s,

        μ_t(a) = μ_s(a) + V(a)ᵀ u,      v_t(a) = v_s(a) − V(a)ᵀ S⁻¹ V(a),

    and by Cauchy–Schwarz, in the posterior covariance at s for the first and in S⁻¹ for the second,

        |V(a)ᵀ u| ≤ sqrt(v_s(a)) · D,                        D² = uᵀ P u,
        μ_t(a) + β sqrt(v_t(a)) ≤ μ_s(a) + sqrt(v_s(a)) · sqrt(β² + H),      H = δᵀ S⁻¹ δ.

    (For the second write V = S^½ w: wᵀ(S^-½ δ) + β sqrt(v_s − wᵀw) ≤ sqrt(v_s) sqrt(H + β²).) So no inactive action has
    a score above max_a μ_s(a) + sqrt(v_s(a)) F with F = min(β + D, sqrt(β² + H)), a function of F that is tabulated on
    a grid. While it lies below the best score of the active set, inactive actions need not be scored.

    A pull with gain g = (s − n μ(x))/d, d = n v(x) + γ, raises D by at most sqrt(v(x)) |g| (the same inequality at the
    time of the pull, where variances are smaller than at s) and H by at most g² d/n (the innovation; rewards of one
    point that scatter about their mean lower it). These sums, which the log maintains, are tested first; D and H are
    computed only if the sums do not suffice.

    When the bound fails, the means are the reason: variances change little. So the means of all actions are recomputed
    (`refresh`, one vector-matrix product), actions whose bound comes near the best join the active set, and s becomes
    the current time for everything but v_s, which stays an upper bound.
    """

    def __init__(
        self,
        base: ColumnLog,
        n_items: int,
        size: int,
        beta: float,
        innovation: float,
        gram: Callable[[Indices, Indices], Matrix],
        memory: Matrix | None = None,
    ) -> None:
        self._base, self._gram, self._n_items = base, gram, n_items
        self._noise = DRIFT_LIMIT * float(base.prior.max())  # error bound of a variance or covariance
        self._roots = np.sqrt(np.maximum(base.variance[:n_items], 0.0) + self._noise)
        bounds = self._roots * sqrt(beta * beta + innovation)
        bounds += base.mean[:n_items]
        self.rows: Indices = np.sort(np.argpartition(bounds, n_items - size)[n_items - size :])
        self._roots[self.rows] = 0.0
        self._places: Indices = np.full(base.size, -1)
        self._places[self.rows] = np.arange(size)
        self.log = part_of(base, self.rows, self.places_of(base.places), size + size // 2, memory)
        self.points: Points = None  # points of the rows, for similarities
        self.n_pulls = 0
        """Pulls applied to the active set when it was last refreshed."""
        self.filled = 0
        """Rows behind the runs of the full log that hold the similarities of points observed first since the active set
        was built."""
        self._refer(base.mean[:n_items].copy(), beta, innovation)

    def _refer(self, mean: Vector, beta: float, innovation: float) -> None:
        """Set s to the current time; `mean` are the means of all actions."""
        log = self.log
        mean[self.rows] = -inf
        factors, highest = np.sqrt(beta * beta + innovation * GRID), np.empty(len(GRID))
        loops.rest(mean, self._roots, factors, highest)
        self._factors: list[float] = factors.tolist()
        self._highest: list[float] = highest.tolist()
        log.frozen_runs = log.n_runs
        log.state[MEAN_DRIFT] = log.state[INNOVATION] = 0.0
        self._start_mean, self._start_taken, self._start_runs = log.mean.copy(), log.applied.copy(), log.last_run.copy()
        self._members: list[int] = []  # slots observed since s, in the order of P
        self._covariance: Matrix = np.zeros((16, 16))

    def refresh(self, beta: float, innovation: float, best: float, similarities: Similarities) -> None:
        """Recompute the means of all actions and set s to the current time; variances are left as upper bounds.

        Actions whose bound reaches the best score join the active set, up to its capacity.

        μ = Σ_r lift_r c_r over the runs of the active set's log. Every c_r since the active set was built is a linear
        combination of earlier columns, down to those stored for all actions, and of the similarities of new points. So
        the change of the means is one vector times the matrix of these.
        """
        base, log = self._base, self.log
        new = np.flatnonzero((base.last_run < 0) & (log.last_run >= 0))
        old, n_new = base.n_runs, len(new)
        if n_new > self.filled:
            base.reserve(n_new, self.filled)
            similarities(new[self.filled :], base.rows[old + self.filled : old + n_new, : base.size])
            self.filled = n_new
        loads = np.zeros(log.n_runs)  # coefficients of the columns
        loads[old:] = log.mean_coefficients[old : log.n_runs]
        fresh = np.zeros(n_new)  # coefficients of the similarities
        for run in range(log.n_runs - 1, old - 1, -1):
            before, load = int(log.before[run]), loads[run]
            if before >= 0:
                loads[before] += load * log.regularization / log.pivots[before]
            else:
                fresh[np.searchsorted(new, log.run_slots[run])] += load
            between = slice(before + 1, run)
            loads[between] -= load * log.weights[between] * log.rows[between, log.run_positions[run]]
        loads = np.concatenate([loads[:old], fresh])
        mean = base.mean[: self._n_items] + mixed(base, loads, self._n_items)
        # Upper bound on the rounding error of these sums, in which no factor exceeds the largest k(x, x).
        rounding = float(np.finfo(float).eps * len(loads) * np.abs(loads).sum() * base.prior.max())
        self.n_pulls = int(log.state[UPDATES])
        bounds = mean + self._roots * sqrt(beta * beta + AHEAD * innovation) + rounding
        bounds[self.rows] = -inf
        reaching = np.flatnonzero(bounds >= best)
        room = min(log.items.shape[1] - log.size, log.size // 4)
        if len(reaching) > room:
            reaching = reaching[np.argsort(bounds[reaching])[len(reaching) - room :]]
        if len(reaching):
            self._admit(reaching, new)
        self._refer(mean + rounding, beta, innovation)

    def _admit(self, rows: Indices, new: Indices) -> None:
        """Add actions to the active set, exactly; `new` are the slots whose similarities are stored behind the runs."""
        base, log, size = self._base, self.log, self.log.size
        old, last = base.n_runs, size + len(rows)
        similarities = base.rows[old : old + len(new), rows]
        columns = columns_for(log, base.rows[:old, rows], lambda slots: similarities[np.searchsorted(new, slots)])
        since = columns[old:]
        log.rows[: log.n_runs, size:last] = columns
        log.items[:, size:last] = base.items[:, rows]
        log.items[0, size:last] += log.mean_coefficients[old : log.n_runs] @ since
        log.items[1, size:last] -= log.weights[old : log.n_runs] @ since**2
        log.size = last
        log.name_items()
        self.rows = np.concatenate([self.rows, rows])
        self._places[rows] = np.arange(size, last)
        log.slots[0, : log.n_slots] = self.places_of(base.places)
        self._roots[rows] = 0.0

    @property
    def n_bytes(self) -> int:
        """Memory in bytes, without the columns, whose buffer successive active sets share."""
        arrays = (self._roots, self._places, self._covariance, self._start_mean, self.log.items, self.log.marks)
        return sum(array.nbytes for array in arrays) + self.log.runs.nbytes + getattr(self.points, "nbytes", 0)

    @property
    def innovation(self) -> float:
        """Current upper bound on H."""
        return self.log.state.item(INNOVATION)

    def place(self, position: int) -> int:
        """Index of an action in the active set; −1 if it is inactive."""
        return int(self._places.item(position)) if position < len(self._places) else -1

    def places_of(self, positions: Indices) -> Indices:
        """Vectorized `place`."""
        n_places = len(self._places)
        return np.where(positions < n_places, self._places[np.minimum(positions, n_places - 1)], -1)

    def holds_best(self, beta: float, best: float) -> bool:
        """Whether the inactive bound lies below `best`, the best score of the active set."""
        threshold = worst_tied(best) - BOUND_SLACK * max(1.0, abs(best))
        if self.inactive_bound(self.factor_by_sums(beta)) < threshold:
            return True
        with limit_blas_threads(SMALL_PRODUCT):
            return self.inactive_bound(self.factor(beta)) < threshold

    def inactive_bound(self, factor: float) -> float:
        """Upper bound on max μ_s + sqrt(v_s) · factor over the inactive actions."""
        place = bisect_right(self._factors, factor)
        if place == len(self._factors):
            return inf
        if place == 0:
            return self._highest[0]
        low, high = self._factors[place - 1], self._factors[place]
        share = (factor - low) / (high - low)
        return (1.0 - share) * self._highest[place - 1] + share * self._highest[place]

    def factor_by_sums(self, beta: float) -> float:
        """Upper bound on F from the running sums, at no cost."""
        state = self.log.state
        return min(beta + state.item(MEAN_DRIFT), sqrt(beta * beta + state.item(INNOVATION)))

    def factor(self, beta: float) -> float:
        """F, from D and H: no inactive score exceeds max μ_s + sqrt(v_s) · F."""
        log = self.log
        start = np.zeros((2, log.n_slots))  # slots may have been added since
        n_known = min(log.n_slots, self._start_taken.shape[1])
        start[:, :n_known] = self._start_taken[:, :n_known]
        more = log.applied[0, : log.n_slots] - start[0]
        fresh = np.setdiff1d(np.flatnonzero(more), self._members)
        if fresh.size:
            self._join(fresh.tolist())
        members = self._members
        size = len(members)
        if not size:
            return beta
        counts = more[members]
        covariance = self._covariance[:size, :size]
        gap = (log.applied[1, members] - start[1, members]) / counts - self._start_mean[log.slots[0, members]]
        system = covariance.copy()
        system[np.diag_indices(size)] += log.regularization / counts
        weights = np.linalg.solve(system, gap)
        # Solving perturbs S by up to 4 size ε tr S, and its entries have errors: uᵀ S u changes by ‖u‖² times that.
        off = size * (self._noise + 4.0 * EPSILON * size * float(np.trace(system))) * float(weights @ weights)
        innovation = max(0.0, float(gap @ weights)) * (1.0 + ALLOWANCE) + off + ALLOWANCE**2
        mean_drift = sqrt(
            max(0.0, float(weights @ covariance @ weights)) * (1.0 + ALLOWANCE) + off + ALLOWANCE * innovation
        )
        innovation, mean_drift = (
            min(innovation, log.state.item(INNOVATION)),
            min(mean_drift, log.state.item(MEAN_DRIFT)),
        )
        log.state[INNOVATION], log.state[MEAN_DRIFT] = innovation, mean_drift
        return min(beta + mean_drift, sqrt(beta * beta + innovation))

    def _join(self, slots: list[int]) -> None:
        """Add points to B, with their covariances at s."""
        size = len(self._members)
        self._members += slots
        members = np.array(self._members)
        last = len(members)
        if last > len(self._covariance):
            self._covariance = np.pad(self._covariance, (0, last))
        known = np.full(last - size, -1)
        is_old = members[size:] < len(self._start_runs)
        known[is_old] = self._start_runs[members[size:][is_old]]
        rows = self.log.sealed_covariances(self.log.slots[0, members], size, known)
        new = np.flatnonzero(known < 0)
        if new.size:
            rows[new] += self._gram(members[size:][new], members)
        self._covariance[size:last, :last] = rows
        self._covariance[:size, size:last] = rows[:, :size].T


MANY_ENTRIES: Final = 1_500_000
"""Column entries read per pull, nearly a millisecond, from which an active set pays off for any number of items. Below
a third of it the active set is dropped."""

SHARE: Final = 8
"""An active set begins with an eighth of all items, within its limits."""

MOST_BEHIND: Final = 96
"""Largest number of runs by which the full log may lag behind the active set. Then it is synchronized, in products
large enough to be fast."""

LONG: Final = 8.0
"""Initial guess of the pulls that an inactive bound lasts."""


@dataclass(frozen=True, slots=True)
class ActiveSetLimits:
    """When active sets are used, and how large they are."""

    least_items: int = 4096
    """Number of items below which no active set is used."""

    many_items: int = 200_000
    """Number of items from which an active set pays off even if a pull is a single pass over all items."""

    least_active: int = 512
    """Smallest initial size of an active set."""

    most_active: int = 8192
    """Largest initial size of an active set."""

    short: float = 3.0
    """Number of pulls that a bound must last for its active set to pay off."""

    pause: int = 64
    """Rounds without an active set after some that lasted too briefly or were dropped for a query of other items."""


class ActiveSets:
    """Builds and refreshes active sets, and synchronizes the full log with them."""

    def __init__(self, items: SynchronizedColumns, limits: ActiveSetLimits) -> None:
        self._items, self.limits = items, limits
        self._memory: Matrix | None = None  # buffer of the last active set, reused by the next
        self._period = LONG  # running mean of the pulls that a bound lasted
        self._innovation = 0.0  # running mean of H at the time of a refresh
        self._rests_until = 0

    @property
    def n_bytes(self) -> int:
        """Memory in bytes held for the next active set."""
        return 0 if self._memory is None else self._memory.nbytes

    def is_due(self, n_rounds: int) -> bool:
        """Whether an active set would pay off from now on."""
        items, limits = self._items, self.limits
        if items.n_items < limits.least_items or n_rounds < self._rests_until or not items.log.n_runs:
            return False
        return items.n_items >= limits.many_items or items.n_items * items.log.state.item(READ) >= MANY_ENTRIES

    def pays(self, active: ActiveSet) -> bool:
        """Whether this active set is still cheaper than a pass over all items."""
        n_items = self._items.n_items
        return n_items >= self.limits.many_items or 3 * n_items * active.log.state.item(READ) >= MANY_ENTRIES

    def make(self, beta: float) -> ActiveSet:
        """Build an active set of the items with the highest bounds; all items must be up to date."""
        items, limits = self._items, self.limits
        size = min(items.n_items // 2, max(items.n_items // SHARE, limits.least_active), limits.most_active)
        active = ActiveSet(
            items.log, items.n_items, size, beta, self._expected_innovation(beta), items.between, self._memory
        )
        active.points = items.kernel.kind.take(items.points, active.rows)
        self._memory = active.log.rows
        return active

    def refresh(self, active: ActiveSet, beta: float, n_rounds: int) -> bool:
        """Refresh an active set whose bound fails; False if it lasted too briefly or is too far ahead of the log."""
        items, log = self._items, active.log
        n_pulls = log.state.item(UPDATES) - active.n_pulls
        if not n_pulls:
            return False
        self._period += 0.25 * (n_pulls - self._period)
        self._innovation += 0.5 * (active.innovation - self._innovation)
        if self._period < self.limits.short:
            self.pause(n_rounds)
            self._period = LONG
        if n_pulls < self.limits.short or log.n_runs > items.log.n_runs + MOST_BEHIND:
            return False
        with limit_blas_threads(batch_updates.SMALL_PRODUCT):
            active.refresh(beta, self._expected_innovation(beta), log.state.item(BEST), items.similarities)
        active.points = items.kernel.kind.take(items.points, active.rows)
        return True

    def pause(self, n_rounds: int) -> None:
        """Use no active set for the next rounds."""
        self._rests_until = n_rounds + self.limits.pause

    def _expected_innovation(self, beta: float) -> float:
        return max(self._innovation, 0.02 * beta * beta, 1e-6)

    def synchronize_with(self, active: ActiveSet) -> None:
        """Synchronize the full log with an active set, by matrix-matrix products; the set is invalid afterwards."""
        items, log, taken = self._items, self._items.log, active.log.applied
        log.state[READ] = active.log.state[READ]
        log.state[LARGEST] = max(log.state.item(LARGEST), active.log.state.item(LARGEST))
        slots = np.flatnonzero(taken[0, : log.n_slots] != log.applied[0, : log.n_slots])
        slots = slots[np.argsort(active.log.last_run[slots])]  # most recent pull last
        if len(slots) > 1:
            batch_updates.pull_many(log, slots, taken[0, slots], taken[1, slots], items.similarities, active.filled)
        elif len(slots):
            log.pull(int(slots[0]), taken.item(0, slots[0]), taken.item(1, slots[0]), items.similarities)
        items.tidy()
