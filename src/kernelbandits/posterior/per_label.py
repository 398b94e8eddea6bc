"""Posteriors with one model per label: partitioned kernels, disjoint and hybrid LinUCB."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import repeat
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array
from kernelbandits._transactions import Journal
from kernelbandits.errors import DamagedFile, InvalidContexts, InvalidParameter, NotLearnt
from kernelbandits.kernels import Delta, Ids, Kernel, PairProduct
from kernelbandits.kernels._distances import dense
from kernelbandits.kernels.labeled import LabeledLinear
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import (
    Capabilities,
    Posterior,
    check_no_overflow,
    checked_regularization,
    checked_rewards,
    checked_times,
)
from kernelbandits.posterior.observations import Batch
from kernelbandits.posterior.pending import Pending
from kernelbandits.posterior.recorded import RecordedPosterior, saved_totals
from kernelbandits.types import Indices, ItemId, Matrix, Points, Prediction, Vector
from kernelbandits.validation import check_instance, check_int, short_repr

__all__ = ["PartitionedPosterior", "PerActionPosterior", "is_block_diagonal"]


def is_block_diagonal(kernel: Kernel) -> bool:
    """Whether pairs of different labels have similarity zero, so that the Gram matrix is block diagonal."""
    return isinstance(kernel, PairProduct) and isinstance(kernel.action, Delta)


class PartitionedPosterior(Posterior):
    """Exact posterior of k((x, a), (z, b)) = k(x, z) · [a = b], stored as one posterior over x per label.

    A block-diagonal Gram matrix has a block-diagonal factor: with t observations spread over N labels a query costs
    N (t/N)² instead of t², and each block uses its cheapest form (`AutoPosterior`).

    >>> from kernelbandits.kernels import Gaussian
    >>> from kernelbandits.types import Pairs
    >>> posterior = PartitionedPosterior(PairProduct(Gaussian(length_scale=1.0), Delta()), regularization=1.0)
    >>> posterior.observe(Pairs([0.0], ["left"]), [1.0])
    >>> posterior.predict(Pairs([0.0], ["left", "right"])).mean
    array([0.5, 0. ])
    """

    kernel: PairProduct

    capabilities = Capabilities(is_exact=True)

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        if not is_block_diagonal(kernel):
            raise InvalidParameter(
                f"One posterior a label needs labels that have nothing in common: PairProduct(kernel, Delta()), got "
                f"{short_repr(kernel)}."
            )
        assert isinstance(kernel, PairProduct)
        self.kernel = kernel
        self.regularization = checked_regularization(regularization)
        self._parts: dict[Hashable, AutoPosterior] = {}
        self._blank = AutoPosterior(kernel.context, regularization=self.regularization)
        self._blank._join(self._journal)
        self._labels: dict[Hashable, Points] = {}  # one collection of one per label, to rebuild pairs

    # -- splitting by label --------------------------------------------------------------------------------------------

    def _split(self, points: PairRows) -> Iterator[tuple[Hashable, Indices, Points]]:
        """Label, rows and contexts of the pairs per label; a context shared by all pairs is given once."""
        rows_of: dict[Hashable, list[int]] = {}
        for row, key in enumerate(self.kernel.action.kind.keys(points.actions)):
            rows_of.setdefault(key, []).append(row)
        for key, listed in rows_of.items():
            rows = np.array(listed, dtype=np.intp)
            contexts = points.contexts if points.is_shared else self.kernel.context.kind.take(points.contexts, rows)
            yield key, rows, contexts

    def _moved(self, points: Points) -> Iterator[tuple[Hashable, Indices, Points]]:
        """The same with one context per row, since each counts separately."""
        pairs = self.kernel.kind.check(points)
        spread = self.kernel.kind.take(pairs, np.arange(self.kernel.kind.count(pairs)))
        return self._split(spread)

    def _part(self, key: Hashable) -> AutoPosterior:
        """The label's posterior, or an empty one for reading only."""
        return self._parts.get(key, self._blank)

    def _own_part(self, key: Hashable) -> AutoPosterior:
        """The label's posterior, or a new one to learn with."""
        known = self._parts.get(key)
        if known is None:
            known = AutoPosterior(self.kernel.context, regularization=self.regularization)
            known._join(self._journal)
        return known

    # -- learning ----------------------------------------------------------------------------------------------------

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        pairs = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(pairs)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        for key, rows, contexts in self._moved(pairs):
            part = self._own_part(key)
            part.observe(contexts, values[rows], times=repeats[rows])
            self._store(key, part, pairs, int(rows[0]))

    def _observe_one(self, point: Points, reward: float) -> None:
        (key,) = self.kernel.action.kind.keys(point.actions)
        part = self._own_part(key)
        part._observe_one(point.contexts, reward)
        self._store(key, part, point, 0)

    def _store(self, key: Hashable, part: AutoPosterior, pairs: PairRows, row: int) -> None:
        if key not in self._parts:
            self._journal.note(self._parts.pop, key, None)
            self._labels[key] = self.kernel.action.kind.take(pairs.actions, np.array([row]))
            self._parts[key] = part

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        for part in (self._blank, *self._parts.values()):
            part._join(journal)

    def _note_change(self) -> None:
        """Record nothing: the parts record their own changes."""

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        pairs = self.kernel.kind.check(points)
        before, after = (checked_rewards(values, self.kernel.kind.count(pairs)) for values in (was, now))
        for key, rows, contexts in self._moved(pairs):
            self._part(key).amend(contexts, was=before[rows], now=after[rows])

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        pairs = self.kernel.kind.check(points)
        values = checked_rewards(rewards, self.kernel.kind.count(pairs))
        for key, rows, contexts in self._moved(pairs):
            self._part(key).remove(contexts, values[rows])

    # -- queries -----------------------------------------------------------------------------------------------------

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        pairs = self.kernel.kind.check(points)
        return self._estimate(pairs) if pending is None else Pending(self, pending).estimate(pairs)

    def _estimate(self, points: Points) -> Prediction:
        self._validate_comparable(points)
        n_points = self.kernel.kind.count(points)
        mean, width = np.empty(n_points), np.empty(n_points)
        for key, rows, contexts in self._split(points):
            prediction = self._part(key)._estimate(contexts)
            mean[rows], width[rows] = prediction.mean, prediction.width
        return Prediction(mean, width)

    def _validate_comparable(self, points: PairRows) -> None:
        """Reject contexts that cannot be compared with the learned ones, whatever their label."""
        for part in self._parts.values():
            if part.record.n_slots:
                self.kernel.context.kind.validate_comparable(part.record.points, points.contexts)
                return

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        left = self.kernel.kind.check(points)
        right = left if others is None else self.kernel.kind.check(others)
        covariance = np.zeros((self.kernel.kind.count(left), self.kernel.kind.count(right)))
        columns_of = {key: (columns, contexts) for key, columns, contexts in self._split(right)}
        for key, rows, contexts in self._split(left):
            if key in columns_of:
                columns, other_contexts = columns_of[key]
                covariance[np.ix_(rows, columns)] = self._part(key).covariance(contexts, other_contexts)
        return covariance

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        kind = self.kernel.kind
        found = [(key, part.support()) for key, part in self._parts.items() if part.size]
        if not found:
            raise NotLearnt("Nothing was observed yet, so nothing supports the mean.")
        pairs = [
            PairRows(points, kind.action.take(self._labels[key], np.zeros(len(counts), dtype=np.intp)), is_shared=False)
            for key, (points, _, counts, _) in found
        ]
        weights, counts, sums = (np.concatenate([support[i] for _, support in found]) for i in (1, 2, 3))
        return kind.stack(*pairs), weights, counts, sums

    @property
    def is_well_posed(self) -> bool:
        return all(part.is_well_posed for part in self._parts.values()) and self.kernel.is_certified

    @property
    def log_det_gain(self) -> float:
        return float(sum(part.log_det_gain for part in self._parts.values()))

    @property
    def size(self) -> int:
        return sum(part.size for part in self._parts.values())

    @property
    def n_observations(self) -> int:
        return sum(part.n_observations for part in self._parts.values())

    # -- files -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        if not self.size:
            return {}
        points, _, counts, sums = self.support()
        packed = self.kernel.kind.pack(points)
        errors = np.concatenate([part.record.errors() for part in self._parts.values() if part.size])
        totals = {"counts": counts, "sums": sums, "errors": errors}
        return {**totals, **{f"points.{name}": array for name, array in packed.items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if not state:
            return
        pairs, counts, sums, errors = saved_totals(self.kernel.kind, state)
        for key, rows, contexts in self._split(pairs):
            part, stored = self._own_part(key), self.kernel.context.kind.pack(contexts)
            part.restore(
                {
                    "counts": counts[rows],
                    "sums": sums[rows],
                    "errors": errors[rows],
                    **{f"points.{name}": array for name, array in stored.items()},
                }
            )
            self._store(key, part, pairs, int(rows[0]))


BLOCKS: Final = ("_labels", "_own_precision", "_links", "_own_moments", "_shared_precision", "_shared_moments")
"""Names of the attributes that sum over all observations."""


class PerActionPosterior(RecordedPosterior):
    """Ridge regression r = z·β + x·θ_a: β for the shared columns z, θ_a for the other columns x under label a.

    The exact posterior of the kernel `LabeledLinear`, at O((dim z + dim x)³) per query for any number of observations.
    The per-label blocks A_a = γI + Σxxᵀ, B_a = Σxzᵀ, b_a = Σrx and the shared A₀, b₀ (β's normal equations after
    elimination of the θ_a) give, with u = z − B_aᵀA_a⁻¹x and β = A₀⁻¹b₀,

        mean = u·β + xᵀA_a⁻¹b_a,   width² = xᵀA_a⁻¹x + uᵀA₀⁻¹u

    (Li et al. 2010, hybrid LinUCB; both terms of width² are squares, so nothing cancels.)

    Parameters
    ----------
    kernel
        Defines which columns are shared.
    regularization
        γ > 0.
    keep
        As in `PrimalPosterior`: number of points stored; of more, the oldest are merged into the blocks.
    """

    kernel: LabeledLinear

    def __init__(self, kernel: LabeledLinear, *, regularization: float, keep: int | None = None) -> None:
        check_instance(kernel, LabeledLinear, "The kernel of a model per action", "LabeledLinear() is one.")
        super().__init__(kernel, regularization=regularization)
        self.keep = None if keep is None else check_int(keep, "The number of points to keep")
        self._merged: dict[str, Any] | None = None  # blocks of the merged observations
        self._blank(None)

    def _start_over(self) -> None:
        """Reset the blocks to those without the observations in the record."""
        self._blank(self._n_columns)
        if self._merged is not None:
            vars(self).update(copy.deepcopy(self._merged))

    def _merge_oldest(self, keep: int) -> None:
        """Merge the points that were seen first into the blocks, until an eighth of the capacity is free."""
        n_oldest = self.record.size - keep + keep // 8
        oldest = self.record.oldest(n_oldest)
        self._note()
        self._journal.note(vars(self).update, {"_merged": self._merged, "n_merged": self.n_merged})
        now = {name: vars(self)[name] for name in BLOCKS}
        self._start_over()
        self._absorb_rows(*oldest)
        merged = {name: vars(self)[name] for name in BLOCKS}
        vars(self).update(now)
        self.record = self.record.compacted(without=n_oldest)
        self._merged, self.n_merged = merged, self.n_merged + round(float(oldest[1].sum()))

    def _blank(self, n_columns: int | None) -> None:
        """Blocks without observations; block 0 is used for labels never seen."""
        shared, own = self.kernel.columns(n_columns) if n_columns else (np.zeros(0, np.intp), np.zeros(0, np.intp))
        self._n_columns = n_columns
        self._shared, self._own = shared, own
        self._labels: dict[ItemId, int] = {}
        self._own_precision: Matrix = self.regularization * np.eye(len(own))[None]  # A_a
        self._links: Matrix = np.zeros((1, len(own), len(shared)))  # B_a
        self._own_moments: Matrix = np.zeros((1, len(own)))  # b_a
        self._shared_precision: Matrix = self.regularization * np.eye(len(shared))  # A₀
        self._shared_moments: Vector = np.zeros(len(shared))  # b₀

    def _apply(self, batch: Batch) -> None:
        parts: list[tuple[PairRows, Vector, Vector]] = []
        if batch.keys:
            parts.append((batch.points, batch.counts, batch.sums))
        if len(batch.slots):
            known = self.kernel.kind.take(self.record.points, batch.slots)
            parts.append((known, batch.slot_counts, batch.slot_sums))
        for points, _, _ in parts:
            rows = self._rows(points)
            self.kernel.columns(rows.shape[1])
            check_no_overflow(rows * rows)
        for points, counts, sums in parts:
            self._absorb_rows(points, counts, sums)
            if not self._is_well_posed:
                self._predict(points)  # now, while the observation can still be rejected
        if self.keep is not None and self.record.size > self.keep:
            self._merge_oldest(self.keep)

    def _absorb_rows(self, points: PairRows, counts: Vector, sums: Vector) -> None:
        rows = self._rows(points)
        if self._n_columns is None:
            self._blank(rows.shape[1])
        for label, row, count, total in zip(points.contexts, rows, counts, sums, strict=True):
            self._absorb_one(self._block(label), row[self._own], row[self._shared], count, total)

    def _absorb_one(self, block: int, x: Vector, z: Vector, count: float, total: float) -> None:
        """Add `count` observations of one point with this reward sum: positive rank-one updates, in a fixed order."""
        solved = np.linalg.solve(self._own_precision[block], x)  # A_a⁻¹x
        u = z - solved @ self._links[block]
        room = 1.0 + count * (x @ solved)
        self._shared_precision = self._shared_precision + np.outer(u, u) * (count / room)
        self._shared_moments = self._shared_moments + u * ((total - count * (solved @ self._own_moments[block])) / room)
        self._own_precision[block] += count * np.outer(x, x)
        self._links[block] += count * np.outer(x, z)
        self._own_moments[block] += total * x

    def _block(self, label: ItemId) -> int:
        """Index of the label's block, which is created if needed."""
        if label not in self._labels:
            block = 1 + len(self._labels)
            if block == len(self._own_precision):  # double the capacity, so that a new label does not copy all others
                self._own_precision = np.concatenate([self._own_precision, _repeated(self._own_precision[0], block)])
                self._links = np.concatenate([self._links, np.zeros_like(self._links)])
                self._own_moments = np.concatenate([self._own_moments, np.zeros_like(self._own_moments)])
            self._labels[label] = block
        return self._labels[label]

    def _observations_removed(self) -> None:
        """Recompute the sums over what remains: subtracting would leave rounding errors of removed rewards behind."""
        self.record = self.record.compacted()
        self._rewards_changed()

    def _undone(self, n_slots: int) -> None:
        """Mark the sums as stale: single observations cannot be undone in them, so they are recomputed when needed."""
        self._is_stale = True

    def _synchronize(self) -> None:
        if self._is_stale:
            if not self.record.size and self._merged is None:
                self._n_columns = None
            self._rewards_changed()
            self._is_stale = False

    def _rewards_changed(self) -> None:
        self._start_over()
        if self.size:
            self._absorb_rows(*self.record.stored())

    def state(self) -> dict[str, NDArray[Any]]:
        if self._merged is None:
            return super().state()
        labels = Ids().pack(list(self._merged["_labels"]))
        n_blocks = 1 + len(self._merged["_labels"])
        arrays = {name: np.asarray(self._merged[name])[:n_blocks] for name in BLOCKS if name.startswith("_own_")}
        return {
            **super().state(),
            **{f"merged.{name}": array for name, array in arrays.items()},
            "merged._links": self._merged["_links"][:n_blocks],
            "merged._shared_precision": self._merged["_shared_precision"],
            "merged._shared_moments": self._merged["_shared_moments"],
            "merged.count": np.array([self.n_merged], dtype=np.int64),
            "merged.largest": np.array([self._largest_similarity]),
            **{f"merged.labels.{name}": array for name, array in labels.items()},
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if "merged.count" in state:
            merged = below("merged.", state)
            count = int(saved_array(merged, "count", "i", (1,), least=1, most=2**53)[0])
            largest = float(saved_array(merged, "largest", "f", (1,), least=0.0)[0])
            own = saved_array(merged, "_own_moments", "f", (None, None))
            labels, (n_blocks, n_own) = Ids().unpack(below("labels.", merged)), own.shape
            moments = saved_array(merged, "_shared_moments", "f", (None,))
            if n_blocks != 1 + len(labels) or len(set(labels)) < len(labels):
                raise DamagedFile("The file holds blocks of other labels than it names.")
            names = ("n_merged", "_merged", "_largest_similarity", "_n_columns", "_shared", "_own", *BLOCKS)
            self._journal.note(vars(self).update, {name: getattr(self, name) for name in names})
            self._n_columns, self.n_merged, self._largest_similarity = n_own + len(moments), count, largest
            self._blank(self._n_columns)
            if (n_own, len(moments)) != (len(self._own), len(self._shared)):
                raise DamagedFile("The file holds blocks of other columns than the model has.")
            self._merged = {
                "_labels": {label: 1 + place for place, label in enumerate(labels)},
                "_own_precision": saved_array(merged, "_own_precision", "f", (n_blocks, n_own, n_own)).copy(),
                "_links": saved_array(merged, "_links", "f", (n_blocks, n_own, len(moments))).copy(),
                "_own_moments": own.copy(),
                "_shared_precision": saved_array(merged, "_shared_precision", "f", (len(moments),) * 2).copy(),
                "_shared_moments": moments.copy(),
            }
            for name in ("_own_precision", "_shared_precision"):
                _check_positive_definite(self._merged[name])
            self._start_over()
            state = {name: array for name, array in state.items() if not name.startswith("merged.")}
        super().restore(state)

    def _predict(self, points: Points) -> tuple[Vector, Vector]:
        rows = self._rows(points)
        if self._n_columns is None:
            return np.zeros(len(rows)), np.einsum("nd,nd->n", rows, rows) / self.regularization
        x, solved, u, blocks = self._eliminated(points)
        own_mean = np.einsum("nd,nd->n", solved, self._own_moments[blocks])
        squared = np.einsum("nd,nd->n", x, solved)
        if not len(self._shared):
            return own_mean, squared
        weighted = np.linalg.solve(self._shared_precision, u.T)  # A₀⁻¹u
        return own_mean + self._shared_moments @ weighted, squared + np.einsum("nd,dn->n", u, weighted)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        points = self.kernel.kind.check(points)
        others = points if others is None else self.kernel.kind.check(others)
        self._synchronize()
        if self._n_columns is None:
            return self.kernel.gram(points, others) / self.regularization
        _, solved, u, _ = self._eliminated(points)
        other_x, _, other_u, _ = self._eliminated(others)
        labels, other_labels = self._label_list(points), self._label_list(others)
        same = np.array([[a == b for b in other_labels] for a in labels])
        covariance = same * (solved @ other_x.T)
        if len(self._shared):
            covariance = covariance + u @ np.linalg.solve(self._shared_precision, other_u.T)
        return covariance

    @property
    def log_det_gain(self) -> float:
        self._synchronize()
        _, own = np.linalg.slogdet(self._own_precision[: 1 + len(self._labels)] / self.regularization)
        _, shared = np.linalg.slogdet(self._shared_precision / self.regularization)
        return float(own.sum() + shared)

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function: the norm of β and θ_a = A_a⁻¹(b_a − B_a β)."""
        self._synchronize()
        if self._n_columns is None:
            return 0.0
        shared = np.linalg.solve(self._shared_precision, self._shared_moments)
        used = slice(1, 1 + len(self._labels))
        right = self._own_moments[used] - self._links[used] @ shared
        own = np.linalg.solve(self._own_precision[used], right[:, :, None])
        return sqrt(float(shared @ shared + (own**2).sum()))

    def _eliminated(self, points: PairRows) -> tuple[Matrix, Matrix, Matrix, Indices]:
        """x, A_a⁻¹x and u = z − B_aᵀA_a⁻¹x of every point, and its label's block."""
        rows = self._rows(points)
        x, z = rows[:, self._own], rows[:, self._shared]
        blocks = np.array([self._labels.get(label, 0) for label in self._label_list(points)], dtype=np.intp)
        solved = np.asarray(np.linalg.solve(self._own_precision[blocks], x[:, :, None])[:, :, 0], dtype=np.float64)
        return x, solved, z - np.einsum("nd,nds->ns", solved, self._links[blocks]), blocks

    def _label_list(self, points: PairRows) -> list[ItemId]:
        if points.is_shared:
            return list(repeat(points.contexts[0], self.kernel.kind.count(points)))
        return list(points.contexts)

    def _rows(self, points: PairRows) -> Matrix:
        rows = dense(points.actions)
        if self._n_columns is not None and rows.shape[1] != self._n_columns:
            raise InvalidContexts(
                f"These contexts have {rows.shape[1]} columns; those learned before have {self._n_columns}. Describe "
                "every action with the same columns."
            )
        return rows


def _check_positive_definite(matrices: Matrix) -> None:
    """Raise DamagedFile unless all matrices are symmetric and positive definite."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError as error:
        raise DamagedFile("A matrix in the file must be positive definite.") from error
    if not np.allclose(matrices, np.swapaxes(matrices, -1, -2)):
        raise DamagedFile("A matrix in the file must be symmetric.")


def _repeated(matrix: Matrix, times: int) -> Matrix:
    return np.repeat(matrix[None], times, axis=0)
