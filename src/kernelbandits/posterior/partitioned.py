"""One posterior a label, where labels have nothing in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.checks import shown
from kernelbandits.errors import InvalidParameter, NotLearnt
from kernelbandits.journal import Journal
from kernelbandits.kernels import Delta, Kernel, PairProduct
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior, checked_regularisation, checked_rewards, checked_times, saved_totals
from kernelbandits.posterior.pending import Pending
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector

__all__ = ["PartitionedPosterior", "falls_apart"]


def falls_apart(kernel: Kernel) -> bool:
    """Whether pairs of different labels have similarity zero, so that what is learnt of one says nothing of another."""
    return isinstance(kernel, PairProduct) and isinstance(kernel.action, Delta)


class PartitionedPosterior(Posterior):
    """The exact posterior of k((x, a), (z, b)) = k(x, z) · [a = b], kept as one posterior over x for every label.

    A Gram matrix of blocks has a factor of blocks: with t observations spread over N labels a question costs N (t/N)²
    instead of t², and each block takes the cheapest form it can have (`AutoPosterior`).

    >>> from kernelbandits.kernels import Gaussian
    >>> from kernelbandits.types import Pairs
    >>> posterior = PartitionedPosterior(PairProduct(Gaussian(length_scale=1.0), Delta()), regularisation=1.0)
    >>> posterior.observe(Pairs([0.0], ["left"]), [1.0])
    >>> posterior.predict(Pairs([0.0], ["left", "right"])).mean
    array([0.5, 0. ])
    """

    kernel: PairProduct

    def __init__(self, kernel: Kernel, *, regularisation: float) -> None:
        if not falls_apart(kernel):
            raise InvalidParameter(
                f"One posterior a label needs labels that have nothing in common: PairProduct(kernel, Delta()), got "
                f"{shown(kernel)}."
            )
        assert isinstance(kernel, PairProduct)
        self.kernel = kernel
        self.regularisation = checked_regularisation(regularisation)
        self._parts: dict[Hashable, AutoPosterior] = {}
        self._blank = AutoPosterior(kernel.context, regularisation=self.regularisation)
        self._blank._join(self._journal)
        self._labels: dict[Hashable, Points] = {}  # a collection of one each, to put pairs together again

    # -- taking apart ------------------------------------------------------------------------------------------------

    def _split(self, points: PairRows) -> Iterator[tuple[Hashable, Indices, Points]]:
        """Label, rows and contexts of the pairs of every label; of a context that all pairs share, the one context."""
        rows_of: dict[Hashable, list[int]] = {}
        for row, key in enumerate(self.kernel.action.kind.keys(points.actions)):
            rows_of.setdefault(key, []).append(row)
        for key, listed in rows_of.items():
            rows = np.array(listed, dtype=np.intp)
            contexts = points.contexts if points.is_shared else self.kernel.context.kind.take(points.contexts, rows)
            yield key, rows, contexts

    def _moved(self, points: Points) -> Iterator[tuple[Hashable, Indices, Points]]:
        """Likewise, a context for every row, since each counts on its own."""
        pairs = self.kernel.kind.check(points)
        spread = self.kernel.kind.take(pairs, np.arange(self.kernel.kind.count(pairs)))
        return self._split(spread)

    def _part(self, key: Hashable) -> AutoPosterior:
        """The label's posterior, or one without observations that is only read."""
        return self._parts.get(key, self._blank)

    def _own_part(self, key: Hashable) -> AutoPosterior:
        """The label's posterior, or a new one to learn with."""
        known = self._parts.get(key)
        if known is None:
            known = AutoPosterior(self.kernel.context, regularisation=self.regularisation)
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
            self._keep(key, part, pairs, int(rows[0]))

    def _observe_one(self, point: Points, reward: float) -> None:
        (key,) = self.kernel.action.kind.keys(point.actions)
        part = self._own_part(key)
        part._observe_one(point.contexts, reward)
        self._keep(key, part, point, 0)

    def _keep(self, key: Hashable, part: AutoPosterior, pairs: PairRows, row: int) -> None:
        if key not in self._parts:
            self._journal.note(self._parts.pop, key, None)
            self._labels[key] = self.kernel.action.kind.take(pairs.actions, np.array([row]))
            self._parts[key] = part

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        for part in (self._blank, *self._parts.values()):
            part._join(journal)

    def _note_change(self) -> None:
        """The parts note their changes by themselves."""

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

    # -- asking ------------------------------------------------------------------------------------------------------

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        pairs = self.kernel.kind.check(points)
        prediction = self._estimate(pairs)
        return prediction if pending is None else Pending(self, pending).narrowed(pairs, prediction)

    def _estimate(self, points: Points) -> Prediction:
        self._refuse_unlike(points)
        n_points = self.kernel.kind.count(points)
        mean, width = np.empty(n_points), np.empty(n_points)
        for key, rows, contexts in self._split(points):
            prediction = self._part(key)._estimate(contexts)
            mean[rows], width[rows] = prediction.mean, prediction.width
        return Prediction(mean, width)

    def _refuse_unlike(self, points: PairRows) -> None:
        """Contexts that cannot be compared with what was learnt are refused, whatever their label."""
        for part in self._parts.values():
            if part.record.n_slots:
                self.kernel.context.kind.refuse_unlike(part.record.points, points.contexts)
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
    def is_sure(self) -> bool:
        return all(part.is_sure for part in self._parts.values()) and self.kernel.is_certified

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
            part, kept = self._own_part(key), self.kernel.context.kind.pack(contexts)
            part.restore(
                {
                    "counts": counts[rows],
                    "sums": sums[rows],
                    "errors": errors[rows],
                    **{f"points.{name}": array for name, array in kept.items()},
                }
            )
            self._keep(key, part, pairs, int(rows[0]))
