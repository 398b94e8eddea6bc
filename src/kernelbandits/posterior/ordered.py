"""What posteriors share in which it matters when an observation was learnt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.checks import a_list, shown
from kernelbandits.errors import DamagedFile, InvalidParameter
from kernelbandits.journal import Journal
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior, RecordedPosterior, checked_rewards, checked_times, saved_totals
from kernelbandits.posterior.history import History, Known
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
        self._history = History(self._journal)
        inner._join(self._journal)

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        self._history.join(journal)
        self._inner._join(journal)

    def _note_change(self) -> None:
        """The history and the inner posterior note their changes by themselves."""

    @property
    def last_number(self) -> int | None:
        return self._history.last

    @property
    @abstractmethod
    def _most(self) -> float:
        """Observations that are remembered, at most."""

    @abstractmethod
    def _weights(self, n: int) -> Vector:
        """Of the n latest observations, oldest first."""

    @abstractmethod
    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        """Let the inner posterior age by n observations, and forget this many of these points."""

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

    def _observe_one(self, point: Points, reward: float) -> None:
        (key,) = self.kernel.kind.keys(point)
        self._change(point, 1, lambda: self._inner._observe_one(point, reward))
        self._history.append([(key, reward)])

    def _enter(self, points: Points, values: Vector, n_new: int) -> None:
        """The last of this many new observations."""
        keys = self.kernel.kind.keys(points)
        self._change(points, n_new, lambda: self._inner.weigh_in(points, values, self._weights(len(values))))
        entries = list(zip(keys, values.tolist(), strict=True))
        self._history.append(entries, skipped=n_new - len(entries))

    def _change(self, points: Points, n_new: int, take_in: Callable[[], None]) -> None:
        """Forget what there is no room for, and take in what is new."""
        if not len(self._history):
            self._journal.note(setattr, self, "_inner", self._inner)
            self._start(points)
        n_leaving = int(max(0, min(len(self._history), len(self._history) + n_new - self._most)))
        self._make_room(self._history.oldest(n_leaving) if n_leaving else {}, n_new)
        take_in()
        if n_leaving:
            self._history.forget(n_leaving)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        """Replace rewards; without `numbers`, of the latest observation of the point with the reward that was.

        NotLearnt where it is not remembered: an observation that has been forgotten counts no more, right or wrong.
        """
        known = self._known(points, was, numbers)
        self._revise(self._history.amended(known, checked_rewards(now, len(known)).tolist()))

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        """Take observations back; older ones are as old then as if it had never been. What was forgotten stays so.

        Without `numbers`, the latest observation of the point with this reward; NotLearnt where it is not remembered.
        """
        self._revise(self._history.without(self._known(points, rewards, numbers)))

    def _known(self, points: Points, rewards: ArrayLike, numbers: Sequence[int | None]) -> list[Known]:
        points = self.kernel.kind.check(points)
        values = checked_rewards(rewards, self.kernel.kind.count(points)).tolist()
        named = a_list(numbers, "Numbers of observations") or [None] * len(values)
        is_right = all(one is None or (isinstance(one, int) and not isinstance(one, bool)) for one in named)
        if len(named) != len(values) or not is_right:
            raise InvalidParameter(
                f"`numbers` are those that `last_number` gave, or None, one per point ({len(values)}), got "
                f"{shown(numbers)}."
            )
        return [Known(*one) for one in zip(self.kernel.kind.keys(points), values, named, strict=True)]

    def _revise(self, history: History) -> None:
        """Another history of the same points, or of some of them."""
        totals = history.totals(self._weights(len(history)))
        keys = list(self._history.oldest(len(self._history)))
        both = np.array([totals.get(key, (0.0, 0.0)) for key in keys])
        self._journal.note(setattr, self, "_history", self._history)
        self._inner.retotal(keys, both[:, 0], both[:, 1])
        self._history = history

    # -- asking ------------------------------------------------------------------------------------------------------

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """As described in `Posterior`; pending points make nothing older."""
        return self._inner.predict(points, pending=pending)

    def _estimate(self, points: Points) -> Prediction:
        return self._inner._estimate(points)

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
        if not self._history.last:
            return {}
        keys = self.kernel.kind.keys(self._inner.record.kept()[0]) if self._inner.size else []
        return {**self._inner.state(), **self._history.arrays(keys)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if not state:
            return
        self._journal.note(vars(self).update, {"_inner": self._inner, "_history": self._history})
        self._history = History(self._journal)
        numbers = saved_array(state, "numbers", "i", (None,), least=1)
        last = int(saved_array(state, "last", "i", (1,), least=0, most=2**62)[0])
        if (np.diff(numbers) <= 0).any() or (len(numbers) and numbers[-1] > last):
            raise DamagedFile("The numbers of the observations in the file do not rise up to the latest.")
        rewards = saved_array(state, "rewards", "f", numbers.shape)
        order = saved_array(state, "order", "i", numbers.shape, least=0)
        keys: list[Hashable] = []
        if len(order):
            points, counts, sums, _ = saved_totals(self.kernel.kind, state)
            if order.max() >= len(counts):
                raise DamagedFile(f"The file orders point {order.max()} of {len(counts)}.")
            self._refuse_other_totals(order, rewards, counts, sums)
            self._start(points)
            self._inner.restore(state)
            keys = self.kernel.kind.keys(points)
        entries = [(keys[place], reward) for place, reward in zip(order.tolist(), rewards.tolist(), strict=True)]
        self._history.restore(numbers.tolist(), entries, last)

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
