"""Cross-similarities between actions and observations, computed in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from math import inf, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._threads import for_each_part, limit_blas_threads
from kernelbandits.kernels import Kernel, PairProduct, Scaled
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.kernels.stationary import Stationary, declares
from kernelbandits.posterior._chunks import blocks
from kernelbandits.selection._screening_loops import screening_loops
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = [
    "BYTES_PER_ENTRY",
    "FARTHEST",
    "SIMILARITY_ERROR",
    "AnyKernel",
    "Distances",
    "FixedPoints",
    "Scan",
    "SharedContext",
    "Similarities",
    "largest_norm",
    "profile_of",
    "similarities_for",
]

SMALLER_BLOCKS: Final = 32
"""Factor by which blocks of similarities are smaller than those of a posterior: 2 MB, which stay in cache."""

FARTHEST: Final = 1e3
"""Largest ‖x / ℓ‖ from the first observation for which single precision is used."""

SIMILARITY_ERROR: Final = 1e-11
"""Error bound of k(x, z) as a fraction of sqrt(k(x, x) k(z, z)): distances computed by products have errors up to
1e-12, others a few rounding errors."""

BYTES_PER_ENTRY: Final = 32
"""Bytes of memory traffic that take as long as one entry of a scan."""

WORK_PER_SIMILARITY: Final = 10.0
"""Multiplications per similarity, for `limit_blas_threads`: a distance over a few columns and a profile."""

WORTH_THREADS: Final = 100_000
"""Entries of a scan below which a single thread is used."""

UNIT: Final = 2.0**-24
"""Relative rounding error of single precision."""


class Scan(NamedTuple):
    """Sums over all observations, per action."""

    mean: Vector
    """Σ weight · k."""

    explained: Vector
    """Lower bound on max share · k²."""

    prior: Vector
    """k(x, x)."""

    error: float
    """Error bound of a mean, per unit of Σ |weight|."""


class Similarities(ABC):
    """Base class: similarities of a round's actions to the points of a record.

    `known` are the points of all slots of one record, of which there may be more in every call.
    """

    @abstractmethod
    def scan(self, points: Points, known: Points, weights: Vector, shares: Vector) -> Scan:
        """Scan of the actions over the first len(weights) known points."""

    @abstractmethod
    def rows(self, points: Points, known: Points, chosen: Indices, roots: Vector) -> Matrix:
        """Similarities of the chosen actions to the known points, times roots; one row per action.

        The caller may modify the result.
        """

    @property
    def n_bytes(self) -> int:
        """Memory in bytes held between rounds."""
        return 0


class AnyKernel(Similarities):
    """Similarities computed by the kernel itself, in blocks. Those of a few actions are cached until the next scan."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._stored: tuple[Points, Matrix] | None = None

    def scan(self, points: Points, known: Points, weights: Vector, shares: Vector) -> Scan:
        kind, n_known = self._kernel.kind, len(weights)
        n_actions, n_slots = kind.count(points), kind.count(known)
        self._stored = None
        mean, explained = np.empty(n_actions), np.empty(n_actions)
        with limit_blas_threads(WORK_PER_SIMILARITY * float(n_slots) * n_actions):
            for block, part in blocks(kind, points, SMALLER_BLOCKS * n_slots):
                similarity = self._kernel.gram(part, known)
                mean[block] = similarity[:, :n_known] @ weights
                squared = similarity[:, :n_known] * similarity[:, :n_known]
                squared *= shares
                explained[block] = squared.max(axis=1)
                if part is points:
                    self._stored = points, similarity
        prior = self._kernel.diagonal(points)
        largest = float(prior.max())
        known_largest = float((1.0 / shares[shares > 0.0]).max())  # at least k(z, z)
        error = SIMILARITY_ERROR * float(np.sqrt(largest * known_largest))
        return Scan(mean, np.maximum(explained - 1e-10 * largest, 0.0), prior, error)

    def rows(self, points: Points, known: Points, chosen: Indices, roots: Vector) -> Matrix:
        if self._stored is not None and self._stored[0] is points:
            return np.asarray(self._stored[1][chosen] * roots)
        part = self._kernel.kind.take(points, chosen)
        with limit_blas_threads(WORK_PER_SIMILARITY * float(len(roots)) * len(chosen)):
            return np.ascontiguousarray(self._kernel.gram(part, known) * roots)


class Profile(NamedTuple):
    """Radial profile of a stationary kernel: factor · k of the distance in length scales."""

    number: int
    """0: Gaussian; 1, 2, 3: Matérn of smoothness 1/2, 3/2, 5/2."""

    scale: float | Vector
    factor: float


class Distances(Similarities):
    """Similarities of a Gaussian or Matérn kernel on numeric rows, by compiled kernels.

    Observations are stored by columns, relative to the first one and in length scales. With u the rounding unit of
    single precision, R the largest norm of such a row and d columns, a difference of rows has an error of 2uR + u times
    its length r, so a similarity has an error of at most u (0.4 (d + 3) + 1.3 R + 8): the largest values of k·r²/2 and
    k·r for the Gaussian are 0.37 and 0.61, a Matérn kernel changes by less than r does, and exp and its factors add at
    most 8 rounding errors. The code rounds these constants up.
    """

    def __init__(self, kernel: Kernel, profile: Profile, known: Matrix) -> None:
        self._profile = profile
        self._plain = AnyKernel(kernel)  # for rows that are too far away
        self._is_plain = True
        self._center = known[:1].copy()
        self._prior = kernel.diagonal(self._center).item()  # the same for all points
        self._columns: Matrix = np.zeros((self._center.shape[1], 0))
        self._narrow: NDArray[np.float32] = np.zeros(self._columns.shape, dtype=np.float32)
        self._n_known = 0
        self._farthest = 0.0
        self._shares: tuple[Vector | None, NDArray[np.float32]] = None, np.zeros(0, dtype=np.float32)

    @property
    def n_bytes(self) -> int:
        return self._columns.nbytes + self._narrow.nbytes

    def _relative(self, rows: Matrix) -> tuple[Matrix, float]:
        """Rows relative to the center, in length scales, and their largest norm."""
        relative: Matrix = rows - self._center
        relative /= self._profile.scale
        return relative, largest_norm(relative)

    def _append(self, known: Matrix) -> None:
        """Add the points that are new."""
        n_known, n_slots = self._n_known, len(known)
        new, farthest = self._relative(known[n_known:])
        self._n_known, self._farthest = n_slots, max(self._farthest, farthest)
        if self._farthest > FARTHEST:
            return
        if n_slots > self._columns.shape[1]:
            shape = len(self._columns), max(64, 2 * n_slots)
            columns, narrow = np.zeros(shape), np.zeros(shape, dtype=np.float32)
            columns[:, :n_known], narrow[:, :n_known] = self._columns[:, :n_known], self._narrow[:, :n_known]
            self._columns, self._narrow = columns, narrow
        self._columns[:, n_known:n_slots] = new.T
        self._narrow[:, n_known:n_slots] = new.T

    def scan(self, points: Points, known: Points, weights: Vector, shares: Vector) -> Scan:
        if self._n_known < len(known):
            self._append(known)
        rows, farthest = self._relative(points)
        farthest = max(self._farthest, farthest)
        n_known = len(weights)
        self._is_plain = farthest > FARTHEST
        if self._is_plain:
            return self._plain.scan(points, known, weights, shares)
        number, _, factor = self._profile
        n_actions, n_columns = rows.shape
        if shares is not self._shares[0]:  # unchanged for many rounds
            self._shares = shares, (factor * shares).astype(np.float32)
        narrow, columns, narrow_shares = rows.astype(np.float32), self._narrow, self._shares[1]
        mean, nearest, loop = np.empty(n_actions), np.empty(n_actions), screening_loops.scan
        if n_actions * n_known < WORTH_THREADS:
            loop(narrow, columns, n_known, weights, narrow_shares, number, mean, nearest, 0, n_actions)
        else:
            for_each_part(
                lambda start, stop: loop(
                    narrow, columns, n_known, weights, narrow_shares, number, mean, nearest, start, stop
                ),
                n_actions, align=1, n_bytes=BYTES_PER_ENTRY * n_actions * n_known,
            )  # fmt: skip
        error = UNIT * (0.5 * (n_columns + 3) + 2.0 * farthest + 10.0)
        # factor · share ≤ 1, so share · (factor · k)² has an error of at most factor · (2 error + rounding).
        explained = factor * np.maximum(nearest - (2.1 * error + 8.0 * UNIT), 0.0)
        return Scan(factor * mean, explained, np.full(n_actions, self._prior), factor * error)

    def rows(self, points: Points, known: Points, chosen: Indices, roots: Vector) -> Matrix:
        if self._is_plain:
            return self._plain.rows(points, known, chosen, roots)
        number, scale, factor = self._profile
        result = np.empty((len(chosen), self._n_known))
        relative = points[chosen] - self._center
        relative /= scale
        screening_loops.rows(relative, self._columns, self._n_known, factor * roots, number, result)
        return result


class SharedContext(Similarities):
    """Similarities k_context · k_action if all actions share the round's context.

    With κ_j the similarities of the contexts, computed once per round, both sums collapse over the distinct observed
    actions b:

        Σ_j α_j κ_j k(a, a_j) = Σ_b k(a, b) Σ_{j: a_j = b} α_j κ_j

    and likewise for the largest share · κ² k².
    """

    def __init__(self, kernel: PairProduct) -> None:
        self._kernel = kernel
        self._places: dict[Hashable, int] = {}
        self._firsts: list[int] = []  # one slot per distinct action
        self._place_of: Indices = np.zeros(0, dtype=np.intp)  # distinct action per slot
        self._distinct: Points = None
        self._context: Vector = np.zeros(0)  # similarities of the round's context

    def _append(self, known: PairRows, n_slots: int) -> None:
        """Add the points that are new."""
        done = len(self._place_of)
        if done < n_slots:
            kind = self._kernel.action.kind
            keys = kind.keys(kind.take(known.actions, np.arange(done, n_slots)))
            n_distinct = len(self._firsts)
            for slot, key in enumerate(keys, start=done):
                if self._places.setdefault(key, len(self._firsts)) == len(self._firsts):
                    self._firsts.append(slot)
            self._place_of = np.concatenate([self._place_of, [self._places[key] for key in keys]]).astype(np.intp)
            if len(self._firsts) > n_distinct:
                self._distinct = kind.take(known.actions, np.array(self._firsts))

    def scan(self, points: PairRows, known: PairRows, weights: Vector, shares: Vector) -> Scan:
        n_slots, n_known = self._kernel.kind.count(known), len(weights)
        self._append(known, n_slots)
        n_actions = self._kernel.action.kind.count(points.actions)
        with limit_blas_threads(WORK_PER_SIMILARITY * float(n_slots) * n_actions):
            return self._scan(points, known, n_known, weights, shares)

    def _scan(self, points: PairRows, known: PairRows, n_known: int, weights: Vector, shares: Vector) -> Scan:
        n_distinct = len(self._firsts)
        self._context = self._kernel.context.gram(points.contexts, known.contexts)[0]
        context, places = self._context[:n_known], self._place_of[:n_known]
        grouped = np.bincount(places, weights * context, n_distinct)
        largest = np.zeros(n_distinct)
        np.maximum.at(largest, places, shares * context * context)
        kind = self._kernel.action.kind
        n_actions = kind.count(points.actions)
        mean, explained = np.empty(n_actions), np.empty(n_actions)
        for block, part in blocks(kind, points.actions, SMALLER_BLOCKS * n_distinct):
            similarity = self._kernel.action.gram(part, self._distinct)
            mean[block] = similarity @ grouped
            similarity *= similarity
            similarity *= largest
            explained[block] = similarity.max(axis=1)
        prior = self._kernel.diagonal(points)
        largest_prior = float(prior.max())
        known_largest = float((1.0 / shares[shares > 0.0]).max())  # at least k(z, z)
        error = SIMILARITY_ERROR * float(np.sqrt(largest_prior * known_largest))
        return Scan(mean, np.maximum(explained - 1e-10 * largest_prior, 0.0), prior, error)

    def rows(self, points: PairRows, known: PairRows, chosen: Indices, roots: Vector) -> Matrix:
        part = self._kernel.action.kind.take(points.actions, chosen)
        with limit_blas_threads(WORK_PER_SIMILARITY * float(len(roots)) * len(chosen)):
            similarity = self._kernel.action.gram(part, self._distinct)
        return np.ascontiguousarray(similarity[:, self._place_of] * (self._context * roots))


def similarities_for(kernel: Kernel, known: Points, points: Points) -> Similarities:
    """Cheapest `Similarities` for such points. It belongs to the record of the known points."""
    if type(kernel) is PairProduct and isinstance(points, PairRows) and points.is_shared:
        return SharedContext(kernel)
    profile = profile_of(kernel)
    if profile is not None and isinstance(points, np.ndarray) and isinstance(known, np.ndarray):
        return Distances(kernel, profile, known)
    return AnyKernel(kernel)


def profile_of(kernel: Kernel) -> Profile | None:
    """Profile of this kernel for the compiled kernels; None if they do not support it."""
    factor = 1.0
    while type(kernel) is Scaled:
        factor *= kernel.factor
        kernel = kernel.kernel
    if not (isinstance(kernel, Stationary) and declares(kernel, "radial_profile")):
        return None
    number, scale = kernel.radial_profile, kernel.length_scale
    if number is None:
        return None
    return Profile(number, scale if isinstance(scale, float) else np.asarray(scale), factor)


def largest_norm(rows: Matrix) -> float:
    """Largest ‖x‖; infinity if it is not finite."""
    largest = float(np.vdot(rows, rows) if len(rows) == 1 else np.einsum("nd,nd->n", rows, rows).max())
    return sqrt(largest) if largest < inf else inf


ITEMS_AT_ONCE: Final = 16_384
"""Items passed to a kernel or compiled loop at a time: temporary arrays stay in cache, and threads share the parts."""


class FixedPoints:
    """Fixed points, such as the items of a catalog, and k(x, ·) with all of them.

    For Gaussian and Matérn kernels on numeric rows a compiled kernel computes k(x, ·). It needs a second copy of the
    rows, stored by columns, and takes a quarter of the time of `kernel.gram` for few points. Otherwise, and until it is
    compiled, the kernel object is used.
    """

    def __init__(self, kernel: Kernel, points: Points, *, items_at_once: int = ITEMS_AT_ONCE) -> None:
        self._kernel, self._points, self._step = kernel, points, items_at_once
        self._count = kernel.kind.count(points)
        self._profile = profile_of(kernel) if isinstance(points, np.ndarray) else None
        self._columns: list[Matrix] = []  # one part of the items each; relative to the first item, in length scales
        self._factors: Vector = np.zeros(0)

    @property
    def n_bytes(self) -> int:
        """Memory in bytes, without the points."""
        return sum(part.nbytes for part in self._columns)

    def write(self, points: Points, out: Matrix) -> None:
        """Write k(x, ·) of these points, one row per point."""
        if self._profile is not None and not screening_loops.is_compiled:
            screening_loops.record_work(out.size)
        relative = self._relative(points)
        if relative is None:
            self._write_plainly(points, out)
            return
        loop, number = screening_loops.rows, 0 if self._profile is None else self._profile.number

        def part(first: int, last: int) -> None:
            for place in range(first, last):
                columns, begin = self._columns[place], place * self._step
                n_items = columns.shape[1]
                for row in range(len(relative)):
                    result = out[row : row + 1, begin : begin + n_items]
                    loop(relative[row : row + 1], columns, n_items, self._factors, number, result)

        for_each_part(part, len(self._columns), align=1, n_bytes=BYTES_PER_ENTRY * out.size)

    def _relative(self, points: Points) -> Matrix | None:
        """Points in the form of the compiled kernel; None if it cannot be used."""
        if self._profile is None or not screening_loops.is_compiled:
            return None
        if not self._columns:
            whole = (self._points - self._points[0]) / self._profile.scale
            if largest_norm(whole) > FARTHEST:
                self._profile = None
                return None
            starts = range(0, self._count, self._step)
            self._columns = [np.ascontiguousarray(whole[start : start + self._step].T) for start in starts]
            self._factors = np.full(min(self._count, self._step), self._profile.factor)
        relative: Matrix = (points - self._points[0]) / self._profile.scale
        return relative if largest_norm(relative) <= FARTHEST else None

    def _write_plainly(self, points: Points, out: Matrix) -> None:
        if not isinstance(self._points, np.ndarray):
            out[:] = self._kernel.gram(points, self._points)
            return
        for start in range(0, self._count, self._step):
            stop = min(self._count, start + self._step)
            out[:, start:stop] = self._kernel.gram(points, self._points[start:stop])
