"""Nyström posterior: an approximation on a dictionary of points, with a certificate of its error."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import inf, isfinite, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array
from kernelbandits._transactions import handles_transaction, inside_transaction
from kernelbandits.errors import DamagedFile, InvalidParameter, InvalidReward, NotLearnt, NotSupported
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior._projection import SMALLEST_RESIDUAL, Located, Projection
from kernelbandits.posterior._projection_device import DeviceQueries
from kernelbandits.posterior.base import Capabilities, Sections, check_no_overflow, checked_rewards, checked_times
from kernelbandits.posterior.cholesky import GrowingCholesky, cholesky, solve_lower
from kernelbandits.posterior.device import Device
from kernelbandits.posterior.dictionaries import Dictionary, OnlineRowSampling, ResidualDictionary
from kernelbandits.posterior.observations import EMPTY_SHARE, NOTHING, Batch, Observations
from kernelbandits.posterior.recorded import RecordedPosterior, saved_totals
from kernelbandits.types import Certificate, Indices, Matrix, Points, Prediction, Vector
from kernelbandits.validation import check_int, short_repr

__all__ = ["NystroemPosterior"]

BLOCK: Final = 256
"""Points that enter at once."""

FEW: Final = 8
"""Observations added one by one; more are added together."""

REMEMBERED: Final = 64
"""Query points whose coordinates are kept, in case one of them is observed next. Of larger queries none are."""

HISTORY: Final = 8
"""Multiple of the largest size: at this number of distinct points the dictionary is filled up from them and fixed."""

MOST_DRAWN: Final = 2**62
"""Largest number of draws in a saved state: later ones must fit, too."""

LARGEST_SQUARE: Final = 1e300
"""Bound on the sum of squared rewards, so that it can be saved; with larger rewards the certificate says nothing."""


class _Queried(NamedTuple):
    """Coordinates of the last query points, in case one of them is observed next."""

    keys: list[Hashable]
    located: Located | None

    def find(self, keys: Sequence[Hashable]) -> Located | None:
        """Coordinates of a single point with this key, if it is among them."""
        if self.located is None or len(keys) != 1 or keys[0] not in self.keys:
            return None
        return self.located.column(self.keys.index(keys[0]))


NOT_QUERIED: Final = _Queried([], None)


class NystroemPosterior(RecordedPosterior):
    """Kernel ridge regression on a dictionary of m points: O(m²) per point and query, whatever was observed.

    With z(x) the coordinates of x in the span of the dictionary, counts n and reward sums s of the observed points,
    G = γI + Σ n z zᵀ and b = Σ s z:

        mean(x)  = zᵀ G⁻¹ b
        width²(x) = zᵀ G⁻¹ z + (k(x, x) − ‖z‖²) / γ.

    The second term of the width (DTC) is what the dictionary cannot explain; without it (SoR) the width would tend to
    zero far from the dictionary, where the error is the reward itself. For every dictionary, however it was chosen,

        |mean(x) − f(x)| ≤ width(x) · { R sqrt(L_t + 2 ln(1/δ)) + (sqrt(γ) + sqrt(ρ)) B },   ρ = ‖K − K̃‖,

    with probability 1 − δ (R noise scale, B ≥ ‖f‖). `residual` is an upper bound on ρ and `log_det_gain` one on L_t, so
    the schedules of `kernelbandits.theory` stay valid. `certificate` has all terms, and `Prediction.error` bounds the
    difference from the exact posterior. The width may be below the exact one: projection discards correlations.

    If the dictionary has a largest size and `drops_history`, it is filled up and fixed when it is full, or when eight
    times as many distinct points were observed. From then on no observation is stored; memory is O(m²). `amend` and
    `remove` then trust the caller that the observation was there: its coordinates follow from its point.

    Parameters
    ----------
    kernel
        Any kernel.
    regularization
        γ > 0.
    dictionary
        Rule by which points become atoms: ResidualDictionary (default), OnlineRowSampling, Resampling or
        BatchedResampling.
    seed
        Seed of the rules that draw; a whole number.
    device
        "cuda", "cuda:1", …: where queries of more than 64 points are answered; None: on the processor, as all others.
    array_library
        "torch", or the name of a module that implements the array API standard.

    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = NystroemPosterior(Gaussian(length_scale=0.5), regularization=0.1,
    ...                               dictionary=ResidualDictionary(size=6))
    >>> points = np.random.default_rng(0).uniform(size=(1000, 1))
    >>> posterior.observe(points, points[:, 0] ** 2)
    >>> posterior.n_observations, posterior.certificate.n_atoms, posterior.has_history
    (1000, 6, False)
    >>> posterior.predict([[0.5]]).mean.round(2)
    array([0.25])
    """

    capabilities = Capabilities()

    def __init__(
        self,
        kernel: Kernel,
        *,
        regularization: float,
        dictionary: Dictionary | None = None,
        seed: int = 0,
        device: str | None = None,
        array_library: str = "torch",
    ) -> None:
        super().__init__(kernel, regularization=regularization)
        self.dictionary: Dictionary = ResidualDictionary() if dictionary is None else dictionary
        if not isinstance(self.dictionary, Dictionary):
            raise InvalidParameter(
                f"A dictionary is a rule such as ResidualDictionary(size=1000), got {short_repr(dictionary)}."
            )
        self.seed = check_int(seed, "The seed", least=0, most=2**63 - 1)
        self._on_device = None if device is None else DeviceQueries(Device(device, array_library))
        self.has_history = True
        """Whether the observed points are stored. If not, the dictionary is fixed."""
        self.n_merged = 0
        self._n_drawn = 0  # calls of `uniforms`
        self._merged_squares = 0.0  # Σ reward² of the observations that are not stored, or more
        self._repeated_squares: float | None = None  # the part of points that were dropped with repeats; None: no such
        self._merged_trace = self._merged_residual = 0.0
        self._atom_counts: Vector = NOTHING  # of observations that are not stored, exactly at the atoms
        self._atom_sums: Vector = NOTHING
        self._start()

    def _start(self) -> None:
        """Begin without atoms."""
        self._projection = Projection(self.kernel, regularization=self.regularization)
        self._rows: Matrix = np.zeros((0, 0))  # z of the slots, in the corner of a buffer
        self._left: Vector = np.zeros(0)  # residuals of the slots, in a buffer
        self._prior: Vector = np.zeros(0)  # k(x, x) of the slots, in a buffer
        self._n_rows = 0
        self._atoms: dict[Hashable, int] = {}
        self._scales: Vector = np.zeros(0)  # 1/sqrt(p) of the atoms, for OnlineRowSampling
        self._sampler: GrowingCholesky | None = None  # factor of S K_ZZ S + μI; None if it must be computed
        self._batch_factor: GrowingCholesky | None = None  # F at the start of the batch
        self._batch_precision: Matrix = np.zeros((0, 0))  # G at the start of the batch
        self._batch_weights: Vector = NOTHING  # θ at the start of the batch
        self._spent = 0.0  # Σ width² of the batch, by the widths at its start
        self._queried = NOT_QUERIED

    # -- rolling back --------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Record how to undo the next change of everything but the record."""
        names = (
            "_projection", "_rows", "_left", "_prior", "_n_rows", "_scales", "_sampler", "_batch_factor",
            "_batch_precision", "_batch_weights", "_spent", "has_history", "n_merged", "_n_drawn", "_merged_squares",
            "_repeated_squares", "_merged_trace", "_merged_residual", "_atom_counts", "_atom_sums", "record",
            "_largest_similarity",
        )  # fmt: skip
        now = vars(self)
        before = {name: now[name] for name in names}
        self._journal.notes.append((self._put_back, (before, self._projection.mark(), len(self._atoms))))

    def _put_back(self, before: dict[str, Any], mark: tuple[Any, ...], n_atoms: int) -> None:
        has_same_atoms = before["_projection"] is self._projection
        vars(self).update(before)
        self._queried = NOT_QUERIED
        self._projection.put_back(mark)
        if self._sampler is not None:
            self._sampler.truncate(self._projection.size)
        if has_same_atoms:
            for key in list(self._atoms)[n_atoms:]:
                del self._atoms[key]
        else:
            self._name_atoms()

    def _name_atoms(self) -> None:
        size = self._projection.size
        self._atoms = {key: place for place, key in enumerate(self._keys(size))} if size else {}

    def _keys(self, size: int) -> list[Hashable]:
        return self.kernel.kind.keys(self._projection.points) if size else []

    def _undone(self, n_slots: int) -> None:
        """Nothing: `_mark` records how to restore what was derived."""

    # -- learning ------------------------------------------------------------------------------------------------------

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(points)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        if self.dictionary.size is None or not self.dictionary.drops_history:
            self._update(self.record.sort(points, values, repeats))
            return
        for first in range(0, n_points, BLOCK):  # the history may be dropped in between
            rows = np.arange(first, min(n_points, first + BLOCK))
            part, n = self.kernel.kind.take(points, rows), repeats[rows]
            if self.has_history:
                self._update(self.record.sort(part, values[rows], n))
            else:
                self._merge(part, n, values[rows])

    def _observe_one(self, point: Points, reward: float) -> None:
        if self.has_history:
            super()._observe_one(point, reward)
        else:
            self._merge(point, np.ones(1), np.array([reward]))

    def _merge(self, points: Points, counts: Vector, rewards: Vector) -> None:
        """Add observations that are not stored."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected below, or makes the error infinite
            sums = counts * rewards
            squares = float(sums @ rewards)
        keys = self.kernel.kind.keys(points)
        located = self._queried.find(keys) or self._locate(points)
        self._mark()
        self._queried = NOT_QUERIED
        self._warn_if_ill_conditioned(float(located.prior.max()))
        self._largest_similarity = max(self._largest_similarity, float(located.prior.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            if len(keys) <= FEW:
                for place in range(len(keys)):
                    one = located.column(place)
                    if place:  # the projection has changed
                        one = self._projection.at(one.coordinates, one.prior, one.residual)
                    self._projection.add(one, float(counts[place]), float(sums[place]))
            else:
                self._projection.add_many(located.coordinates, counts, sums)
        self._count(keys, located, counts, sums, squares)

    def _count(self, keys: list[Hashable], located: Located, counts: Vector, sums: Vector, squares: float) -> None:
        """Count observations that are not stored; negative counts for removed ones."""
        if not np.isfinite(self._projection.moments).all():
            raise InvalidReward("The rewards add up to more than a double can hold. Scale them down.")
        self.n_merged += int(counts.sum())
        self._merged_residual = max(0.0, self._merged_residual + float(counts @ located.residual))
        self._merged_trace = max(0.0, self._merged_trace + float(counts @ located.prior))
        if self._merged_squares < LARGEST_SQUARE:
            self._merged_squares = min(max(0.0, self._merged_squares + squares), LARGEST_SQUARE)
        at_atoms = [(place, self._atoms[key]) for place, key in enumerate(keys) if key in self._atoms]
        if at_atoms:
            self._atom_counts, self._atom_sums = self._atom_counts.copy(), self._atom_sums.copy()
            for place, atom in at_atoms:
                self._atom_counts[atom] = max(0.0, self._atom_counts[atom] + counts[place])
                self._atom_sums[atom] = self._atom_sums[atom] + sums[place] if self._atom_counts[atom] else 0.0

    def _apply(self, batch: Batch) -> None:
        self._mark()
        queried, self._queried = self._queried, NOT_QUERIED
        if self.dictionary.has_batches and self._batch_factor is None:
            self._begin_batch()
            queried = NOT_QUERIED
        if len(batch.slots) or len(batch.keys) > 1:
            queried = NOT_QUERIED
        if len(batch.slots):
            self._add(batch.slots, batch.slot_counts, batch.slot_sums)
            for slot in batch.slots.tolist():
                self._sample(slot)
        n_slots, step = self.record.n_slots, 1 if self.dictionary.samples_rows else BLOCK
        for first in range(self._n_rows, n_slots, step):
            self._enter(np.arange(first, min(n_slots, first + step)), queried)
        self._review()

    def _enter(self, slots: Indices, queried: _Queried) -> None:
        """Append the coordinates of the next slots, after those of them that should be atoms have become atoms."""
        points, least = self._stored(slots), self.dictionary.least_residual(self.regularization)
        located = queried.find(self.kernel.kind.keys(points)) or self._locate(points)
        wanted = np.flatnonzero(located.residual > np.maximum(least, SMALLEST_RESIDUAL * located.prior))
        if len(wanted) and self._room() > 0:
            if len(slots) == 1:
                self._admit(points, located)
            else:
                self._admit_some(self.kernel.kind.take(points, wanted), located.prior[wanted], least)
            located = self._locate(points)
        size, first, last = self._projection.size, int(slots[0]), int(slots[-1]) + 1
        self._make_room(last, size)
        self._rows[first:last, :size] = located.coordinates.T
        self._left[first:last], self._prior[first:last] = located.residual, located.prior
        self._n_rows = last
        self._add(slots, self.record.counts[slots], self.record.sums[slots], located)
        self._sample(first)

    def _stored(self, slots: Indices) -> Points:
        return self.kernel.kind.take(self.record.points, slots)

    def _room(self) -> float:
        """Number of atoms that the dictionary may still grow by."""
        return inf if self.dictionary.size is None else self.dictionary.size - self._projection.size

    def _make_room(self, n_rows: int, n_columns: int) -> None:
        rows, columns = self._rows.shape
        if n_rows > rows or n_columns > columns:
            more_rows = rows if n_rows <= rows else max(n_rows, 2 * rows, 16)
            more_columns = columns if n_columns <= columns else max(n_columns, 2 * columns, 16)
            larger = np.zeros((more_rows, more_columns))
            larger[:rows, :columns] = self._rows
            self._rows = larger
        if n_rows > len(self._left):
            more = np.zeros(len(self._rows) - len(self._left))
            self._left, self._prior = np.append(self._left, more), np.append(self._prior, more)

    def _add(self, slots: Indices, counts: Vector, sums: Vector, located: Located | None = None) -> None:
        """Add observations of slots whose coordinates are known."""
        if self._batch_factor is not None:
            self._spend(slots, counts)
        if len(slots) > FEW:
            self._projection.add_many(self._rows[slots, : self._projection.size].T, counts, sums)
            return
        for place in range(len(slots)):
            one = self._at(slots[place : place + 1]) if located is None or place else located.column(0)
            self._projection.add(one, float(counts[place]), float(sums[place]))

    def _at(self, slots: Indices) -> Located:
        """Slots with known coordinates."""
        return self._projection.at(self._rows[slots, : self._projection.size].T, self._prior[slots], self._left[slots])

    def _admit(self, point: Points, located: Located) -> None:
        """Make a point an atom, and extend the coordinates of the slots."""
        size, n_rows, residual = self._projection.size, self._n_rows, float(located.residual[0])
        column, known, counts, sums = np.zeros(0), self._rows[:n_rows, :size], *self._totals()
        if n_rows:
            column = self.kernel.gram(self._stored(np.arange(n_rows)), point)[:, 0] - known @ located.coordinates[:, 0]
            column /= sqrt(residual)
        weighted = counts * column
        self._projection.append_one(
            point, located, weighted @ known, float(weighted @ column), float(sums @ column)
        )  # fmt: skip
        self._extend(column[:, None])
        self._atoms[self.kernel.kind.keys(point)[0]] = size
        self._scales = np.append(self._scales, 1.0)

    def _admit_some(self, points: Points, prior: Vector, least: float) -> None:
        """Make some of the points atoms: those with the largest residuals."""
        projection, n_rows, size = self._projection, self._n_rows, self._projection.size
        most = int(min(self._room(), len(prior)))
        chosen, coordinates = projection.select(points, prior, least, most)
        if not len(chosen):
            return
        new, own = self.kernel.kind.take(points, chosen), coordinates[:, chosen]
        columns = np.zeros((0, len(chosen)))
        if n_rows:
            known = self._stored(np.arange(n_rows))
            left = self.kernel.gram(new, known) - own[:size].T @ self._rows[:n_rows, :size].T
            left = np.ascontiguousarray(left)
            solve_lower(np.ascontiguousarray(np.tril(own[size:].T)), left)
            columns = left.T
        projection.append(new, own)
        self._extend(columns)
        self._atoms.update({key: size + place for place, key in enumerate(self.kernel.kind.keys(new))})
        self._scales = np.append(self._scales, np.ones(len(chosen)))
        projection.replace(self._rows[:n_rows, : projection.size].T, *self._totals())

    def _extend(self, columns: Matrix) -> None:
        """Append coordinates of the slots along new atoms."""
        n_rows, n_new, size = *columns.shape, self._projection.size
        self._make_room(n_rows, size)
        self._rows[:n_rows, size - n_new : size] = columns
        self._left = self._left.copy()
        self._left[:n_rows] = np.maximum(self._left[:n_rows] - np.einsum("nm,nm->n", columns, columns), 0.0)

    def _totals(self) -> tuple[Vector, Vector]:
        """Counts and sums of the slots with coordinates."""
        return self.record.counts[: self._n_rows], self.record.sums[: self._n_rows]

    def _sample(self, slot: int) -> None:
        """Draw whether the point of a slot becomes an atom, for OnlineRowSampling."""
        rule = self.dictionary
        if not isinstance(rule, OnlineRowSampling) or self._room() <= 0:
            return
        point, prior = self._stored(np.array([slot])), float(self._prior[slot])
        size, penalty = self._projection.size, rule.projection * self.regularization
        if self._sampler is None:
            self._sampler = GrowingCholesky()
            if size:
                gram = self.kernel.gram(self._projection.points) * self._scales * self._scales[:, None]
                self._sampler.append(np.empty((0, size)), gram + penalty * np.eye(size), floor=penalty)
        row = np.zeros(0)
        if size:
            scaled = self._scales[:, None] * self.kernel.gram(self._projection.points, point)
            row = self._sampler.solve(np.ascontiguousarray(scaled))[:, 0]
        probability = rule.probability(prior - float(row @ row), self.regularization)
        if self.uniforms(1).item() >= probability or self._left[slot] <= SMALLEST_RESIDUAL * prior:
            return
        self._admit(point, self._locate(point))
        scale = 1.0 / sqrt(probability)
        self._scales[-1] = scale
        self._sampler.append_solved(
            scale * row, sqrt(max(prior * scale**2 + penalty - float(row @ row) * scale**2, penalty))
        )

    def _review(self) -> None:
        """Change the dictionary as its rule demands."""
        rule = self.dictionary
        most = rule.most_unexplained(self.regularization)
        if isfinite(most) and self.residual > most:
            self._explain(most / 2.0)
        if rule.selects_anew(1.0 + self._spent):
            self._rebuild(self._stored(rule.select(self)))
        if (
            rule.drops_history
            and rule.size is not None
            and (self._room() <= 0 or self.record.size >= HISTORY * rule.size)
        ):
            self._drop_history()

    def _explain(self, most: float) -> None:
        """Add atoms, the largest n · residual first, until the sum of all residuals is small enough."""
        while self.residual > most:
            weighted = self._totals()[0] * self._left[: self._n_rows]
            slot = int(np.argmax(weighted))
            point = self._stored(np.array([slot]))
            located = self._locate(point)
            if not located.residual[0] > SMALLEST_RESIDUAL * self._prior[slot]:
                return  # rounding
            self._admit(point, located)
            self._left[slot] = 0.0

    def _rebuild(self, atoms: Points) -> None:
        """Begin a new dictionary of some of these points, and a new batch."""
        kind = self.kernel.kind
        self._start()
        n_atoms = kind.count(atoms)
        if n_atoms:
            prior = self.kernel.diagonal(atoms)
            chosen, coordinates = self._projection.select(atoms, prior, 0.0, n_atoms)
            self._projection.append(kind.take(atoms, chosen), coordinates[:, chosen])
            self._name_atoms()
            self._scales = np.ones(len(chosen))
        self._find_rows()
        self.begin_batch()

    def _find_rows(self) -> None:
        """Compute the coordinates of all slots, and G and b from them."""
        n_slots, size = self.record.n_slots, self._projection.size
        self._make_room(n_slots, size)
        for block, part in blocks(self.kernel.kind, self.record.points, size):
            with np.errstate(over="ignore", invalid="ignore"):  # rejected with a clear error
                prior = self.kernel.diagonal(part)
                coordinates, self._left[block] = self._projection.coordinates(part, prior)
            self._rows[block, :size], self._prior[block] = coordinates.T, prior
        self._n_rows = n_slots
        self._projection.replace(self._rows[:n_slots, :size].T, *self._totals())

    def _begin_batch(self) -> None:
        self._projection.refactor()
        self._batch_factor, self._batch_precision = self._projection.factor, self._projection.precision
        self._batch_weights, self._spent = self._projection.weights, 0.0

    def _spend(self, slots: Indices, counts: Vector) -> None:
        """Add the widths of observed points at the start of the batch."""
        assert self._batch_factor is not None
        whitened = self._batch_factor.solve(np.ascontiguousarray(self._rows[slots, : self._projection.size].T))
        squares = np.einsum("mn,mn->n", whitened, whitened) + self._left[slots] / self.regularization
        self._spent += float(counts @ squares)

    def _drop_history(self) -> None:
        """Fill the dictionary up, fix it, and drop the points."""
        room, n_rows = int(self._room()), self._n_rows
        if room > 0:
            candidates = np.argsort(-self._totals()[0] * self._left[:n_rows])[: 2 * room]
            self._admit_some(self._stored(candidates), self._prior[candidates], 0.0)
        counts, sums = self._totals()
        self._merged_squares = min(self._squares, LARGEST_SQUARE)
        repeated = counts > 1.0
        if repeated.any():
            self._repeated_squares = min(float((sums[repeated] ** 2 / counts[repeated]).sum()), LARGEST_SQUARE)
        self._merged_residual, self._merged_trace = self.residual, self._trace
        self.n_merged = self.record.n_observations
        slots = {key: slot for slot, key in enumerate(self.kernel.kind.keys(self.record.points))}
        self._atom_counts, self._atom_sums = np.zeros(len(self._atoms)), np.zeros(len(self._atoms))
        for key, atom in self._atoms.items():
            if key in slots:
                self._atom_counts[atom], self._atom_sums[atom] = counts[slots[key]], sums[slots[key]]
        self._projection.refactor()
        self.record = Observations(self.kernel.kind, self._journal)
        self._rows, self._left, self._prior, self._n_rows = np.zeros((0, 0)), np.zeros(0), np.zeros(0), 0
        self.has_history = False

    # -- corrections ---------------------------------------------------------------------------------------------------

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        if self.has_history:
            super().amend(points, was=was, now=now)
            return
        points = self.kernel.kind.check(points)
        before, after = (checked_rewards(values, self.kernel.kind.count(points)) for values in (was, now))
        located = self._locate(points)
        self._mark()
        self._queried = NOT_QUERIED
        with np.errstate(over="ignore", invalid="ignore"):
            changes = after - before
            moments = self._projection.moments + located.coordinates @ changes
        self._projection.retarget(moments)
        with np.errstate(over="ignore", invalid="ignore"):
            grown = after**2 - before**2
            squares = float(grown.sum())
            if self._repeated_squares is not None:  # any of these may be of repeated or of other points
                squares = float(np.maximum(grown, 0.0).sum()) + self._widen_repeated(changes)
        self._count(self.kernel.kind.keys(points), located, np.zeros(len(changes)), changes, squares)

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        if self.has_history:
            super().remove(points, rewards)
            return
        points = self.kernel.kind.check(points)
        values = checked_rewards(rewards, self.kernel.kind.count(points))
        located = self._locate(points)
        self._mark()
        self._queried = NOT_QUERIED
        ones = np.ones(len(values))
        if len(values) > self.n_merged or not self._projection.subtract(located.coordinates, ones, values):
            raise NotLearnt(
                "These observations cannot all have been learned: without them, fewer than none would be left of some "
                "point. Only what was learned can be removed."
            )
        with np.errstate(over="ignore"):
            squares = -float(values @ values)
            if self._repeated_squares is not None:
                squares = self._widen_repeated(values, n_removed=len(values))
        self._count(self.kernel.kind.keys(points), located, -ones, -values, squares)

    def _widen_repeated(self, changes: Vector, *, n_removed: int = 0) -> float:
        """Bound the squared length of the mean rewards of repeated points after these changes; return its growth.

        Of s²/n only the sum over all points is known. With k of n observations removed s²/(n − k) ≤ (1 + k) s²/n.
        """
        before = self._repeated_squares
        assert before is not None
        largest = (sqrt((1.0 + n_removed) * before) + float(np.abs(changes).sum())) ** 2
        self._repeated_squares = min(largest, LARGEST_SQUARE)
        return self._repeated_squares - before

    def _observations_removed(self) -> None:
        self._mark()
        self._queried = NOT_QUERIED
        if not self.record.size:
            self.record = self.record.compacted()
            self._start()
            return
        if self.record.size < (1.0 - EMPTY_SHARE) * self.record.n_slots:
            live = np.flatnonzero(self.record.counts)
            self._rows, self._left, self._prior = self._rows[live], self._left[live], self._prior[live]
            self.record, self._n_rows = self.record.compacted(), len(live)
        self._projection.replace(self._rows[: self._n_rows, : self._projection.size].T, *self._totals())
        self.begin_batch()

    def _rewards_changed(self) -> None:
        self._mark()
        self._queried = NOT_QUERIED
        rows = self._rows[: self._n_rows, : self._projection.size]
        self._projection.retarget(self._totals()[1] @ rows)
        self.begin_batch()

    @inside_transaction
    def begin_batch(self) -> None:
        """Begin a new batch, if the rule has batches: its means include all that was learned or corrected."""
        if self.dictionary.has_batches:
            self._begin_batch()

    # -- what a rule may look at ---------------------------------------------------------------------------------------

    @property
    @handles_transaction
    def counts(self) -> Vector:
        """Observations of every stored point."""
        return self._totals()[0]

    @handles_transaction
    def squared_widths(self) -> Vector:
        """Width² of every stored point."""
        located = self._at(np.arange(self._n_rows))
        return located.explained + located.residual / self.regularization

    @handles_transaction
    def uniforms(self, n: int) -> Vector:
        """Uniform random numbers, each used once; part of the state, so that a rolled-back call can be repeated."""
        bits = np.random.Philox(key=self.seed, counter=[0, 0, 0, self._n_drawn])
        self._n_drawn += 1
        return np.random.Generator(bits).random(n)

    # -- predicting ----------------------------------------------------------------------------------------------------

    def _locate(self, points: Points) -> Located:
        with np.errstate(over="ignore", invalid="ignore"):
            prior = self.kernel.diagonal(points)
            return self._projection.locate(points, prior)

    def _locate_many(self, points: Points) -> Located:
        """As `_locate`, on the device if that is worth the way; then without coordinates."""
        is_small = self.kernel.kind.count(points) <= REMEMBERED or not self._projection.size
        if self._on_device is None or is_small or self.dictionary.delays_means:
            return self._locate(points)
        with np.errstate(over="ignore", invalid="ignore"):
            prior = self.kernel.diagonal(points)
            return self._on_device.locate(self._projection, points, prior)

    def _estimate(self, points: Points) -> Prediction:
        if self._projection.size:
            self.kernel.kind.validate_comparable(self._projection.points, points)
        mean, squared, prior = np.empty(0), np.empty(0), np.empty(0)
        for _, part in blocks(self.kernel.kind, points, self._projection.size):
            located = self._locate_many(part)
            some, squares = self._answer(located)
            if not len(mean):  # nearly always the only part
                mean, squared, prior = some, squares, located.prior
            else:
                mean, squared = np.append(mean, some), np.append(squared, squares)
                prior = np.append(prior, located.prior)
        if len(mean) <= REMEMBERED:
            self._queried = _Queried(self.kernel.kind.keys(points), located)
        check_no_overflow(mean, squared)
        width = np.sqrt(squared)
        certificate = self._certificate()
        return Prediction(mean, width, self._error(certificate, width, prior), certificate)

    def _answer(self, located: Located) -> tuple[Vector, Vector]:
        if self._batch_factor is not None and self.dictionary.delays_means:
            mean = self._batch_weights @ located.coordinates
        else:
            mean = located.mean
        squared = located.explained + located.residual / self.regularization
        return mean, np.maximum(squared, located.prior / (self.regularization + self._trace))

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        return self._answer(self._locate(points))

    def _error(self, certificate: Certificate, width: Vector, prior: Vector) -> Vector:
        """Bound on the difference of mean and width from those of the exact posterior.

        With C̃ = PΦᵀΦP + γI and E = Φ(I − P), C (θ̂ − θ̃) = Eᵀ(y − mean), so |difference of means| is at most the exact
        width times sqrt(residual/γ) · misfit. If the means are those of the start of the batch, θ₀, it is at most the
        exact width times sqrt(residual/γ) · misfit + ‖θ̃ − θ₀‖_G, since θᵀCθ = θᵀGθ in the span of the dictionary.
        """
        least, most = certificate.width_ratio
        largest = np.sqrt(prior / self.regularization)
        exact = np.minimum(largest, most * width)
        of_width = np.maximum(width - least * width, exact - width)
        factor = sqrt(certificate.residual / self.regularization) * certificate.misfit
        if self._batch_factor is not None and self.dictionary.delays_means:
            factor += self._projection.distance(self._batch_weights)
        return np.maximum(of_width, exact * factor)

    @property
    def certificate(self) -> Certificate:
        """Bounds on the difference from the exact posterior."""
        return self._certificate()

    def _certificate(self) -> Certificate:
        residual, gain = self.residual, self._projection.log_det_gain
        left = self._squares - self._projection.fit
        return Certificate(
            n_atoms=self._projection.size,
            residual=residual,
            regularization=self.regularization,
            log_det_gain=(gain, gain + residual / self.regularization),
            misfit=sqrt(max(left, 0.0)) if left < 0.5 * LARGEST_SQUARE else inf,  # also for NaN
            has_history=self.has_history,
        )

    @property
    @handles_transaction
    def residual(self) -> float:
        """Σ k(x, x) − ‖z(x)‖² over all observations: an upper bound on ‖K − K̃‖."""
        if not self.has_history:
            return self._merged_residual
        return float(self._totals()[0] @ self._left[: self._n_rows])

    @property
    @handles_transaction
    def inflation(self) -> float:
        """Factor on an interval around the mean: sqrt(1 + Σ width² of the batch) if that is of an earlier batch."""
        return sqrt(1.0 + self._spent) if self.dictionary.delays_means else 1.0

    @property
    def _trace(self) -> float:
        """Tr K over all observations."""
        if not self.has_history:
            return self._merged_trace
        return float(self._totals()[0] @ self._prior[: self._n_rows])

    @property
    def _squares(self) -> float:
        """Squared length of the rewards, or of the mean rewards of repeated points."""
        if not self.has_history:
            return self._merged_squares
        counts, sums = self._totals()
        live = counts > 0.0
        with np.errstate(over="ignore"):
            return float((sums[live] ** 2 / counts[live]).sum())

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        left = self._locate(points)
        if others is None:
            others, right = points, left
        else:
            others = self.kernel.kind.check(others)
            right = self._locate(others)
        outside = self.kernel.gram(points, others) - left.coordinates.T @ right.coordinates
        return outside / self.regularization + self._projection.covariance(left, right)

    def _sections(self, others: Points) -> Sections:
        projection, located = self._projection, self._locate(others)
        of_mean = projection.weights
        if self._batch_factor is not None and self.dictionary.delays_means:
            of_mean = np.append(self._batch_weights, np.zeros(projection.size - len(self._batch_weights)))
        return Sections(projection.points, *projection.dual(of_mean, located))

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """Atoms, their weights in the mean, and counts and reward sums of the observations exactly there.

        Stored points that are no atoms follow, with weight 0.
        """
        kind, projection = self.kernel.kind, self._projection
        if not (projection.size or self.record.size):
            raise NotSupported("No point supports the mean before any observation.")
        weights = projection.dual_weights
        if not self.has_history:
            atoms = kind.take(projection.points, np.arange(projection.size))
            return atoms, weights, self._atom_counts.copy(), self._atom_sums.copy()
        points, counts, sums = self.record.stored()
        places = [self._atoms.get(key, -1) for key in kind.keys(points)]
        known, others = [place for place in places if place >= 0], [row for row, at in enumerate(places) if at < 0]
        atom_counts, atom_sums = np.zeros((2, projection.size))
        rows = [row for row, at in enumerate(places) if at >= 0]
        atom_counts[known], atom_sums[known] = counts[rows], sums[rows]
        rest = kind.take(points, np.array(others, dtype=np.intp)) if others else None
        parts = ([projection.points] if projection.size else []) + ([] if rest is None else [rest])
        return (
            kind.stack(*parts),
            np.append(weights, np.zeros(len(others))),
            np.append(atom_counts, counts[others]),
            np.append(atom_sums, sums[others]),
        )

    def weights_for(self, values: Matrix) -> Matrix:
        """Not supported: the mean is a combination of atoms, which are not the observed points."""
        raise NotSupported(
            "A Nyström posterior has no dual weights for other rewards. For draws of functions take joint draws, or "
            "posterior='exact'."
        )

    @property
    def log_det_gain(self) -> float:
        """Upper bound on ln det(I + K/γ) over all observations."""
        return self._certificate().log_det_gain[1]

    @property
    def size(self) -> int:
        """Number of distinct points stored: all that were observed, or the atoms."""
        return self.record.size if self.has_history else self._projection.size

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function: the length of its weights."""
        return float(np.linalg.norm(self._projection.weights))

    # -- saving --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        projection = self._projection
        drawn = np.array([self.seed, self._n_drawn], dtype=np.int64)
        if not (self.record.size or self.n_merged):
            return {"dictionary.drawn": drawn}
        stored = super().state() if self.has_history else {}
        state = {**stored, "dictionary.drawn": drawn, "dictionary.scales": self._scales.copy()}
        if projection.size:
            atoms = self.kernel.kind.pack(self.kernel.kind.take(projection.points, np.arange(projection.size)))
            state |= {f"dictionary.points.{name}": array for name, array in atoms.items()}
        if not self.has_history:
            totals = [self._merged_residual, self._merged_trace, self._merged_squares, self._largest_similarity]
            state |= {
                "dictionary.count": np.array([self.n_merged], dtype=np.int64),
                "dictionary.totals": np.array(totals),
                "dictionary.repeated": np.array([] if self._repeated_squares is None else [self._repeated_squares]),
                "dictionary.precision": projection.precision,
                "dictionary.moments": projection.moments.copy(),
                "dictionary.atom_counts": self._atom_counts.copy(),
                "dictionary.atom_sums": self._atom_sums.copy(),
            }
        elif self._batch_factor is not None:
            state["dictionary.spent"] = np.array([self._spent])
            state["dictionary.batch_precision"] = self._batch_precision.copy()
            state["dictionary.batch_weights"] = self._batch_weights.copy()
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if not state:
            return
        self._mark()
        own = below("dictionary.", state)
        seed, drawn = saved_array(own, "drawn", "i", (2,), least=0)
        if drawn > MOST_DRAWN:
            raise DamagedFile(f"The file counts {drawn} draws; at most {MOST_DRAWN} are possible.")
        self.seed, self._n_drawn = int(seed), int(drawn)
        if len(state) == 1:  # nothing was learned
            return
        packed = below("points.", own)
        if packed:
            atoms = self.kernel.kind.check(self.kernel.kind.unpack(packed))
            self._adopt_atoms(atoms)
        scales, size = saved_array(own, "scales", "f", (None,), least=0.0), self._projection.size
        self._scales = scales.copy() if len(scales) == size else np.ones(size)
        if "count" in own:
            self._restore_sums(own)
        else:
            points, counts, sums, errors = saved_totals(self.kernel.kind, state)
            self._restore_history(points, counts, sums, errors)
        if "spent" in own:
            self._restore_batch(own)

    def _adopt_atoms(self, atoms: Points) -> None:
        """Make these points the atoms, in this order."""
        n_atoms = self.kernel.kind.count(atoms)
        gram = self.kernel.gram(atoms)
        check_no_overflow(gram)
        try:
            self._projection.append(atoms, cholesky(gram).T)
        except np.linalg.LinAlgError:  # under another kernel than the one they were selected by
            chosen, coordinates = self._projection.select(atoms, np.diagonal(gram).copy(), 0.0, n_atoms)
            self._projection.append(self.kernel.kind.take(atoms, chosen), coordinates[:, chosen])
            n_atoms = len(chosen)
        self._name_atoms()
        self._projection.replace(np.zeros((n_atoms, 0)), NOTHING, NOTHING)

    def _restore_history(self, points: Points, counts: Vector, sums: Vector, errors: Vector) -> None:
        record = self.record
        record.add(record.totals(points, counts, sums, errors))
        self._find_rows()
        self._largest_similarity = float(self._prior[: self._n_rows].max())

    def _restore_sums(self, own: Mapping[str, NDArray[Any]]) -> None:
        """Restore a posterior that stores no observations."""
        size = self._projection.size
        residual, trace, squares, largest = saved_array(own, "totals", "f", (4,), least=0.0).tolist()
        precision = saved_array(own, "precision", "f", (size, size)).copy()
        moments = saved_array(own, "moments", "f", (size,)).copy()
        self.n_merged = int(saved_array(own, "count", "i", (1,), least=1, most=2**53)[0])
        self._atom_counts = saved_array(own, "atom_counts", "f", (size,), least=0.0).copy()
        self._atom_sums = saved_array(own, "atom_sums", "f", (size,)).copy()
        self._merged_residual, self._merged_trace, self._merged_squares = residual, trace, squares
        # A file without this number may be of repeated points only.
        repeated = saved_array(own, "repeated", "f", (None,), least=0.0).tolist() if "repeated" in own else [squares]
        self._repeated_squares = repeated[0] if repeated else None
        self._largest_similarity, self.has_history = largest, False
        with self._clear_errors():
            self._projection.set_sums(precision, moments)

    def _restore_batch(self, own: Mapping[str, NDArray[Any]]) -> None:
        size = self._projection.size
        self._spent = float(saved_array(own, "spent", "f", (1,), least=0.0)[0])
        self._batch_weights = saved_array(own, "batch_weights", "f", (size,)).copy()
        self._batch_precision = saved_array(own, "batch_precision", "f", (size, size)).copy()
        factor = GrowingCholesky()
        if size:
            with self._clear_errors():
                factor.append(np.empty((0, size)), self._batch_precision.copy(), floor=self.regularization)
        self._batch_factor = factor
