"""What posteriors share in which it matters when an observation was learnt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.errors import DamagedFile, KernelBanditError
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior, RecordedPosterior, checked_rewards, checked_times, saved_totals
from kernelbandits.posterior.history import Entry, History
from kernelbandits.restoring import saved_array
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector

__all__ = ["OrderedPosterior"]

ROUNDING: Final = 1e-6
"""Relative difference between the totals of a file and those of its observations that passes as rounding."""


class OrderedPosterior(Posterior):
    """A posterior over weighted observations, the weight given by their age: how many were learnt after them.

    Bookkeeping here; an inner posterior over distinct points with fractional counts does the algebra, and the subclass
    says what an age is worth. Widths can grow, so nothing that remembers widths from round to round may be built on
    it: there is no `record` to follow, and no `best` or `play`.
    """

    forgets = True

    def __init__(self, inner: RecordedPosterior | AutoPosterior) -> None:
        self.kernel: Kernel = inner.kernel
        self.regularisation = inner.regularisation
        self._inner = inner
        self._history = History()

    @property
    @abstractmethod
    def _most(self) -> float:
        """Observations that are remembered, at most."""

    @abstractmethod
    def _weights(self, n: int) -> Vector:
        """Of the n latest observations, oldest first."""

    @abstractmethod
    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> Callable[[], None]:
        """Let the inner posterior age by n observations, and forget so many of these points; gives what undoes it."""

    def _start(self, points: Points) -> None:
        """The first observations are about to come."""

    # -- learning ----------------------------------------------------------------------------------------------------

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        """Add observations in the order given; `times` is so many in a row."""
        kind = self.kernel.kind
        points = kind.check(points)
        n_points = kind.count(points)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        # Of more than are remembered only the last count, so that a million repeats need not be written down.
        rows = np.repeat(np.arange(n_points), np.minimum(repeats, self._most).astype(np.intp))
        n_new = len(rows)
        rows = rows[max(0, n_new - int(min(self._most, n_new))) :]
        self._enter(kind.take(points, rows), values[rows], n_new)

    def observe_one(self, point: Points, reward: float) -> None:
        (key,) = self.kernel.kind.keys(point)
        self._change(point, 1, lambda: self._inner.observe_one(point, reward))
        self._history.append(key, reward)

    def _enter(self, points: Points, values: Vector, n_new: int) -> None:
        """The last of so many new observations."""
        keys = self.kernel.kind.keys(points)
        self._change(points, n_new, lambda: self._inner.weigh_in(points, values, self._weights(len(values))))
        for key, value in zip(keys, values.tolist(), strict=True):
            self._history.append(key, value)

    def _change(self, points: Points, n_new: int, take_in: Callable[[], None]) -> None:
        """Forget what there is no room for, and take in what is new: both or neither."""
        if not len(self._history):
            self._start(points)
        n_leaving = int(max(0, min(len(self._history), len(self._history) + n_new - self._most)))
        undo = self._make_room(self._history.oldest(n_leaving) if n_leaving else {}, n_new)
        try:
            take_in()
        except KernelBanditError:
            undo()
            raise
        self._history.forget(n_leaving)

    def amend(self, points: Points, changes: ArrayLike) -> None:
        """Add to a reward; of several observations of a point, to the latest.

        NotLearnt where none is remembered: an observation that has been forgotten counts no more, right or wrong.
        """
        self._revise(self._history.amended(self._entries(points, changes)))

    def remove(self, points: Points, rewards: ArrayLike) -> None:
        """Take observations back; older ones are as old then as if it had never been. What was forgotten stays so.

        Of several observations of a point with this reward it is the latest; NotLearnt where none is remembered.
        """
        self._revise(self._history.without(self._entries(points, rewards)))

    def _entries(self, points: Points, values: ArrayLike) -> list[Entry]:
        points = self.kernel.kind.check(points)
        amounts = checked_rewards(values, self.kernel.kind.count(points))
        return list(zip(self.kernel.kind.keys(points), amounts.tolist(), strict=True))

    def _revise(self, history: History) -> None:
        """Another history of the same points, or of some of them."""
        totals = history.totals(self._weights(len(history)))
        keys = list(self._history.oldest(len(self._history)))
        both = np.array([totals.get(key, (0.0, 0.0)) for key in keys])
        self._inner.retotal(keys, both[:, 0], both[:, 1])
        self._history = history

    # -- asking ------------------------------------------------------------------------------------------------------

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """As described in `Posterior`; pending points make nothing older."""
        return self._inner.predict(points, pending=pending)

    def estimate(self, points: Points) -> Prediction:
        return self._inner.estimate(points)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        return self._inner.covariance(points, others)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        return self._inner.covariance_of_sum(points, weights, others)

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """As described in `Posterior`, with weighted counts and reward sums."""
        return self._inner.support()

    @property
    def log_det_gain(self) -> float:
        """Ln det(I + W^½ K W^½ / γ) over what is remembered, W the weights."""
        return self._inner.log_det_gain

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function."""
        return self._inner.norm

    @property
    def size(self) -> int:
        """Distinct points remembered."""
        return self._history.size

    @property
    def n_observations(self) -> int:
        """Observations remembered, repeats counted, whatever their weights."""
        return len(self._history)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        if not len(self._history):
            return {}
        keys = self.kernel.kind.keys(self._inner.record.kept()[0])
        return {**self._inner.state(), **self._history.arrays(keys)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if state:
            points, counts, sums = saved_totals(self.kernel.kind, state)
            order = saved_array(state, "order", "i", (None,), least=0, most=len(counts) - 1)
            rewards = saved_array(state, "rewards", "f", order.shape)
            self._refuse_other_totals(order, rewards, counts, sums)
            self._start(points)
            self._inner.restore(state)
            keys = self.kernel.kind.keys(points)
            entries = zip(order.tolist(), rewards.tolist(), strict=True)
            self._history = History([(keys[place], reward) for place, reward in entries])

    def _refuse_other_totals(self, order: Indices, rewards: Vector, counts: Vector, sums: Vector) -> None:
        """DamagedFile where a saved history does not make the saved counts and sums."""
        if not len(order) <= self._most:
            raise DamagedFile(f"The file holds {len(order)} observations in order, and {self._most:g} are remembered.")
        weights = self._weights(len(order))
        own_counts, own_sums, sizes = (
            np.bincount(order, weights * values, len(counts)) for values in (1.0, rewards, np.abs(rewards))
        )
        if not (
            np.allclose(counts, own_counts, rtol=ROUNDING, atol=0.0)
            and (np.abs(sums - own_sums) <= ROUNDING * (sizes + np.abs(sums))).all()
        ):
            raise DamagedFile("The observations in the file do not add up to the counts and the sums beside them.")
