"""Posteriors of recent observations: sliding window and exponential forgetting."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import floor, fsum, inf, log
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits._transactions import Journal
from kernelbandits.errors import DamagedFile, InvalidParameter, NotLearnt
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Capabilities, Posterior, checked_rewards, checked_times
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.posterior.recorded import RecordedPosterior, saved_totals
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector
from kernelbandits.validation import check_float, check_int, check_list, short_repr

__all__ = ["Entry", "ForgettingPosterior", "History", "Known", "OrderedPosterior", "WindowedPosterior", "exact_sum"]

SAME_REWARD: Final = 1e-9
"""Relative difference up to which a reward matches a stored one."""

Entry: TypeAlias = tuple[Hashable, float]  # key of a point, reward


class Known(NamedTuple):
    """Reference to an observation to be amended or removed: by its number, or else by its point and reward."""

    key: Hashable
    reward: float
    number: int | None


class History:
    """Keys of points and their rewards, oldest first; each observation has a unique number.

    A reference without a number means the latest observation of that point and reward.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._numbers: dict[Hashable, deque[int]] = {}  # per point, oldest first
        self.last = 0
        """Number of the latest observation."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Keys and rewards, oldest first."""
        return iter(self._entries.values())

    @property
    def size(self) -> int:
        """Number of distinct points."""
        return len(self._numbers)

    def append(self, entries: Sequence[Entry], *, skipped: int = 0) -> None:
        """Append the latest observations; `skipped` ones before them get numbers and are not stored."""
        self._journal.note(self._drop_after, self.last)
        self._put(range(self.last + skipped + 1, self.last + skipped + len(entries) + 1), entries)

    def _put(self, numbers: Sequence[int], entries: Sequence[Entry]) -> None:
        for number, entry in zip(numbers, entries, strict=True):
            self._entries[number] = entry
            own = self._numbers.get(entry[0])
            if own is None:
                own = self._numbers[entry[0]] = deque()
            own.append(number)
        self.last = numbers[-1] if numbers else self.last

    def oldest(self, n: int) -> dict[Hashable, int]:
        """Points of the n oldest observations, with the number of these per point."""
        if n >= len(self._entries):
            return {key: len(own) for key, own in self._numbers.items()}
        times: dict[Hashable, int] = {}
        for _, (key, _) in zip(range(n), self._entries.values(), strict=False):
            times[key] = times.get(key, 0) + 1
        return times

    def rest(self, key: Hashable, n: int) -> list[float]:
        """Rewards of a point without its n oldest."""
        return [self._entries[number][1] for number in list(self._numbers[key])[n:]]

    def forget(self, n: int) -> None:
        """Drop the n oldest observations."""
        self._journal.note(self._restore_oldest, [(number, self._entries[number]) for number in self._first(n)])
        for _ in range(n):
            number, (key, _) = self._entries.popitem(last=False)
            self._drop_number(key, number)

    def amended(self, known: Sequence[Known], rewards: Sequence[float]) -> History:
        """Copy with other rewards for some observations."""
        changed = self._copy(set())
        for one, reward in zip(known, rewards, strict=True):
            changed._entries[changed._find(one)] = (one.key, reward)
        return changed

    def without(self, known: Sequence[Known]) -> History:
        """Copy without some observations."""
        gone: set[int] = set()
        for one in known:
            gone.add(self._find(one, gone))
        return self._copy(gone)

    def totals(self, weights: Vector) -> dict[Hashable, tuple[float, float]]:
        """Count and reward sum of every point for these weights of the observations, oldest first."""
        counts: dict[Hashable, list[float]] = {}
        sums: dict[Hashable, list[float]] = {}
        for (key, reward), weight in zip(self, weights.tolist(), strict=True):
            counts.setdefault(key, []).append(weight)
            sums.setdefault(key, []).append(weight * reward)
        return {key: (exact_sum(counts[key]), exact_sum(sums[key])) for key in counts}

    def arrays(self, keys: Sequence[Hashable]) -> dict[str, NDArray[np.int64] | Vector]:
        """Arrays to be saved: numbers, indices of the points among these keys, rewards, and the latest number."""
        place_of = {key: place for place, key in enumerate(keys)}
        return {
            "numbers": np.array(list(self._entries), dtype=np.int64),
            "order": np.array([place_of[key] for key, _ in self], dtype=np.int64),
            "rewards": np.array([reward for _, reward in self], dtype=np.float64),
            "last": np.array([self.last], dtype=np.int64),
        }

    def restore(self, numbers: Sequence[int], entries: Sequence[Entry], last: int) -> None:
        """Restore a saved history; only before any observation."""
        self._put(numbers, entries)
        self.last = last

    def join(self, journal: Journal) -> None:
        """Record changes in this journal from now on."""
        self._journal = journal

    def _find(self, known: Known, gone: set[int] | frozenset[int] = frozenset()) -> int:
        """Number of an observation; raises NotLearnt."""
        key, reward, number = known
        if number is None:
            fits = (
                place
                for place in reversed(self._numbers.get(key, ()))
                if place not in gone and _is_same(self._entries[place][1], reward)
            )
            number = next(fits, None)
        if number is None or number in gone or self._entries.get(number, (None,))[0] != key:
            raise NotLearnt(
                f"No observation of this point with the reward {reward!r} is remembered, so there is nothing to "
                "change: it was never learned, or it has been forgotten since and does not count any more."
            )
        return number

    def _copy(self, gone: set[int]) -> History:
        remaining = [number for number in self._entries if number not in gone]
        copied = History(self._journal)
        copied.restore(remaining, [self._entries[number] for number in remaining], self.last)
        return copied

    def _first(self, n: int) -> list[int]:
        return [number for _, number in zip(range(n), self._entries, strict=False)]

    def _drop_number(self, key: Hashable, number: int) -> None:
        own = self._numbers.get(key)
        if own and number in (own[0], own[-1]):
            own.popleft() if own[0] == number else own.pop()
        if not own:
            self._numbers.pop(key, None)

    def _drop_after(self, last: int) -> None:
        """Roll `append` back."""
        while self._entries and next(reversed(self._entries)) > last:
            number, (key, _) = next(reversed(self._entries.items()))
            self._drop_number(key, number)
            del self._entries[number]
        self.last = last

    def _restore_oldest(self, forgotten: list[tuple[int, Entry]]) -> None:
        """Roll `forget` back."""
        for number, entry in reversed(forgotten):
            own = self._numbers.setdefault(entry[0], deque())
            if not own or own[0] > number:
                own.appendleft(number)
            self._entries[number] = entry
            self._entries.move_to_end(number, last=False)


def exact_sum(values: Sequence[float]) -> float:
    """Sum rounded once, independent of the order of additions and removals; infinite on overflow."""
    try:
        return fsum(values)
    except OverflowError:
        return inf


def _is_same(reward: float, other: float) -> bool:
    return abs(reward - other) <= SAME_REWARD * max(1.0, abs(reward), abs(other))


ROUNDING: Final = 1e-6
"""Relative difference between saved totals and those of the saved observations that counts as rounding."""


class OrderedPosterior(Posterior):
    """Base class of posteriors over observations weighted by age: the number of observations learned after them.

    It does the bookkeeping; an inner posterior over distinct points with fractional counts does the algebra, and the
    subclass defines the weight of an age. Widths can grow, so nothing that caches widths between rounds may use it: it
    has no `record` to synchronize with, and no fast search.
    """

    capabilities = Capabilities(forgets=True)

    def __init__(self, inner: RecordedPosterior | AutoPosterior) -> None:
        self.kernel: Kernel = inner.kernel
        self.regularization = inner.regularization
        self._inner = inner
        self._history = History(self._journal)
        inner._join(self._journal)

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        self._history.join(journal)
        self._inner._join(journal)

    def _note_change(self) -> None:
        """Record nothing: the history and the inner posterior record their own changes."""

    @property
    def last_number(self) -> int | None:
        return self._history.last

    @property
    @abstractmethod
    def _most(self) -> float:
        """Largest number of observations stored."""

    @abstractmethod
    def _weights(self, n: int) -> Vector:
        """Weights of the n latest observations, oldest first."""

    @abstractmethod
    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        """Age the inner posterior by n observations, and drop the given number of observations per point."""

    def _start(self, points: Points) -> None:
        """Prepare for the first observations."""

    # -- learning ----------------------------------------------------------------------------------------------------

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        """Add observations in the given order; `times` is the number of successive repeats."""
        kind = self.kernel.kind
        points = kind.check(points)
        n_points = kind.count(points)
        values, repeats = checked_rewards(rewards, n_points), checked_times(times, n_points)
        # Of more observations than are stored only the last count, so that a million repeats need not be stored.
        rows = np.repeat(np.arange(n_points), np.minimum(repeats, self._most).astype(np.intp))
        n_new = len(rows)
        rows = rows[max(0, n_new - int(min(self._most, n_new))) :]
        self._enter(kind.take(points, rows), values[rows], n_new)

    def _observe_one(self, point: Points, reward: float) -> None:
        (key,) = self.kernel.kind.keys(point)
        self._change(point, 1, lambda: self._inner._observe_one(point, reward))
        self._history.append([(key, reward)])

    def _enter(self, points: Points, values: Vector, n_new: int) -> None:
        """Add the last of `n_new` new observations."""
        keys = self.kernel.kind.keys(points)
        self._change(points, n_new, lambda: self._inner.observe_weighted(points, values, self._weights(len(values))))
        entries = list(zip(keys, values.tolist(), strict=True))
        self._history.append(entries, skipped=n_new - len(entries))

    def _change(self, points: Points, n_new: int, apply: Callable[[], None]) -> None:
        """Drop what exceeds the capacity, and add the new observations."""
        if not len(self._history):
            self._journal.note(setattr, self, "_inner", self._inner)
            self._start(points)
        n_leaving = int(max(0, min(len(self._history), len(self._history) + n_new - self._most)))
        self._make_room(self._history.oldest(n_leaving) if n_leaving else {}, n_new)
        apply()
        if n_leaving:
            self._history.forget(n_leaving)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        """Replace rewards; without `numbers`, of the latest observation of the point with the old reward.

        Raises NotLearnt if it is not stored: a dropped observation does not count any more, whatever its reward.
        """
        known = self._known(points, was, numbers)
        self._revise(self._history.amended(known, checked_rewards(now, len(known)).tolist()))

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        """Remove observations; older ones get the age they would have without them. Dropped ones are not restored.

        Without `numbers`, the latest observation of the point with this reward is meant. Raises NotLearnt if it is not
        stored.
        """
        self._revise(self._history.without(self._known(points, rewards, numbers)))

    def _known(self, points: Points, rewards: ArrayLike, numbers: Sequence[int | None]) -> list[Known]:
        points = self.kernel.kind.check(points)
        values = checked_rewards(rewards, self.kernel.kind.count(points)).tolist()
        named = check_list(numbers, "Numbers of observations") or [None] * len(values)
        is_right = all(one is None or (isinstance(one, int) and not isinstance(one, bool)) for one in named)
        if len(named) != len(values) or not is_right:
            raise InvalidParameter(
                f"`numbers` are those that `last_number` gave, or None, one per point ({len(values)}), got "
                f"{short_repr(numbers)}."
            )
        return [Known(*one) for one in zip(self.kernel.kind.keys(points), values, named, strict=True)]

    def _revise(self, history: History) -> None:
        """Replace the history by another one of the same points, or of some of them."""
        totals = history.totals(self._weights(len(history)))
        keys = list(self._history.oldest(len(self._history)))
        both = np.array([totals.get(key, (0.0, 0.0)) for key in keys])
        self._journal.note(setattr, self, "_history", self._history)
        self._inner.set_totals(keys, both[:, 0], both[:, 1])
        self._history = history

    # -- queries -----------------------------------------------------------------------------------------------------

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """See `Posterior`; pending points do not age observations."""
        return self._inner.predict(points, pending=pending)

    def _estimate(self, points: Points) -> Prediction:
        return self._inner._estimate(points)

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        return self._inner.covariance(points, others)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        return self._inner.covariance_of_sum(points, weights, others)

    def gradient(self, points: Points, others: Points, weights: Matrix) -> Matrix:
        return self._inner.gradient(points, others, weights)

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """See `Posterior`; counts and reward sums are weighted."""
        return self._inner.support()

    @property
    def log_det_gain(self) -> float:
        """Ln det(I + W^½ K W^½ / γ) over the stored observations, W the weights."""
        return self._inner.log_det_gain

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function."""
        return self._inner.norm

    @property
    def size(self) -> int:
        """Number of distinct points stored."""
        return self._history.size

    @property
    def n_observations(self) -> int:
        """Number of observations stored, including repeats, regardless of their weights."""
        return len(self._history)

    # -- copies and files --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        if not self._history.last:
            return {}
        keys = self.kernel.kind.keys(self._inner.record.stored()[0]) if self._inner.size else []
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
            self._check_totals(order, rewards, counts, sums)
            self._start(points)
            self._inner.restore(state)
            keys = self.kernel.kind.keys(points)
        entries = [(keys[place], reward) for place, reward in zip(order.tolist(), rewards.tolist(), strict=True)]
        self._history.restore(numbers.tolist(), entries, last)

    def _check_totals(self, order: Indices, rewards: Vector, counts: Vector, sums: Vector) -> None:
        """Raise DamagedFile if a saved history does not yield the saved counts and sums."""
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


FEW_FEATURES: Final = 16.0
"""Multiple of the length: up to this many squared features it is cheaper to recompute sums over the window when an
observation leaves it, at matrix-matrix speed, than to update a factor over its points."""


class WindowedPosterior(OrderedPosterior):
    """Exact posterior of the last `length` observations; older observations have no effect.

    For rewards that change with time. The oldest observation leaves when a new one exceeds the capacity: its point's
    count falls by one, and at 0 its row leaves the factor. Widths grow again where nothing was observed lately, so such
    actions are explored again.

    No interval of `kernelbandits.theory` is proved for it: within a window the function may have changed, and
    which data remain depends on the time. Tune a constant exploration.

    Observing costs O(m²) for the m ≤ `length` distinct points of the window, amortized: a rank-one downdate for the
    observation that leaves, a row for the new one, and a new factor after every m/3 points that have left. A query
    costs O(m²) per point, and every action of a round is evaluated: algorithms that find the best one without that rely
    on widths that never grow. With D features, D² ≤ 16·length, it is m·D² ≤ 16·m·length per observation and D² per
    query. Memory is up to 7·m² bytes. Cost and memory do not depend on how much was observed before.

    Parameters
    ----------
    kernel
        Any kernel.
    regularization
        γ > 0.
    length
        Number of observations that count. Doubling it halves the variance of the noise and doubles the time until a
        change is detected.

    Notes
    -----
    The order of observations is that of learning. `amend` and `remove` identify an observation by its number, as a
    policy passes it, or by its point and reward; of several matches, the latest is meant. For one that has left the
    window they raise NotLearnt and change nothing. `remove` leaves a free place in the window; observations that have
    left do not return to it.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = WindowedPosterior(Gaussian(length_scale=0.5), regularization=0.1, length=2)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[0.0], [1.0]]).mean.round(3)
    array([0.103, 0.762])
    >>> posterior.n_observations, posterior.size
    (2, 1)
    """

    def __init__(self, kernel: Kernel, *, regularization: float, length: int) -> None:
        super().__init__(ExactPosterior(kernel, regularization=regularization))
        self.length = check_int(length, "The length of the window", hint="200 is a good start.")

    @property
    def _most(self) -> float:
        return self.length

    def _weights(self, n: int) -> Vector:
        return np.ones(n)

    def _start(self, points: Points) -> None:
        n_features = self.kernel.n_features(points)
        is_few = n_features is not None and n_features <= self.length and n_features**2 <= FEW_FEATURES * self.length
        form = PrimalPosterior if is_few else ExactPosterior
        self._inner = form(self.kernel, regularization=self.regularization)
        self._inner._join(self._journal)

    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        if not leaving:
            return
        left = [self._history.rest(key, times) for key, times in leaving.items()]
        # Sums over what remains: subtracting would leave rounding errors of removed observations behind.
        counts, sums = np.array([float(len(part)) for part in left]), np.array([exact_sum(part) for part in left])
        self._inner.set_totals(list(leaving), counts, sums)


LEAST_WEIGHT: Final = 1e-8
"""Weight below which observations are dropped; `ForgettingPosterior` states the effect."""


class ForgettingPosterior(OrderedPosterior):
    """Ridge regression in which an observation has weight rateᵍ once g others have been learned after it.

    For rewards that change slowly all the time. With W the weights of all observations, which are fractional counts,

        mean   = kᵀ (K + γ W⁻¹)⁻¹ y
        width² = (k(x, x) − kᵀ (K + γ W⁻¹)⁻¹ k) / γ.

    The regularization is not discounted, so widths grow back to sqrt(k(x, x)/γ) where nothing is observed any more. The
    sum of the weights approaches 1/(1 − rate), the effective number of observations.

    No interval of `kernelbandits.theory` is proved for weighted data (the noise term needs the squared weights):
    tune a constant exploration.

    All weights change with every observation, so the factor over points must be recomputed for the next query: O(m³), m
    the distinct points stored, at most about 18/(1 − rate). If the kernel has fewer features D than that, it is
    O(D² + D³) by the recursion

        C ← rate·C + (1 − rate)·γI + φφᵀ,   b ← rate·b + reward·φ;

    if the points have a low numerical rank r, O(m·r² + r³). Observing alone costs O(m), or O(m + D²). A query costs
    O(m²), O(D²) or O(r²) per point. The cost does not depend on how much was observed before. If points are new every
    round and neither D nor r is small, m³ dominates: at rate 0.99 a round takes thirty times as long as with a window
    of 400.

    Observations of weight below 1e-8 are dropped: their total weight is ε < 1e-8/(1 − rate). With κ the largest k(x,
    x), width² is too large by at most the factor 1 + εκ/γ, and the mean has an error of at most εκ/γ times the largest
    residual |reward − mean| of the dropped observations; both apart from rounding.

    Parameters
    ----------
    kernel
        Any kernel.
    regularization
        γ > 0.
    rate
        0 < rate ≤ 1, the factor by which a weight decreases per observation. 0.99 remembers about 100 observations, 0.9
        about 10; 1 forgets nothing.

    Notes
    -----
    The order of observations, hence their age, is that of learning. `amend` and `remove` identify an observation by its
    number, as a policy passes it, or by its point and reward; of several matches, the latest is meant. For one that has
    been dropped they raise NotLearnt and change nothing. Removing one reduces the age of all earlier observations by
    one.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = ForgettingPosterior(Gaussian(length_scale=0.5), regularization=0.1, rate=0.5)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[0.0], [1.0]]).mean.round(3)
    array([0.17 , 0.719])
    >>> posterior.support()[2]
    array([0.25, 1.5 ])
    """

    def __init__(self, kernel: Kernel, *, regularization: float, rate: float) -> None:
        super().__init__(AutoPosterior(kernel, regularization=regularization))
        self.rate = check_float(rate, "The rate")
        if not 0.0 < self.rate <= 1.0:
            raise InvalidParameter(
                f"The rate has to lie above 0 and be at most 1, got {rate!r}. It is what is left of a weight from one "
                "observation to the next; 0.99 remembers about 100 observations."
            )

    @property
    def _most(self) -> float:
        return inf if self.rate == 1.0 else 1.0 + floor(log(LEAST_WEIGHT) / log(self.rate))

    def _weights(self, n: int) -> Vector:
        return self.rate ** np.arange(n - 1, -1, -1.0)

    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        if self.rate == 1.0 or not len(self._history):
            return
        gone = [key for key, times in leaving.items() if not self._history.rest(key, times)]
        self._inner.discount(self.rate**n, gone)
