"""Base class of policies over a finite policy class, and the table of their picks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from math import nan
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import SUMS_TO_ONE, saved_array, saved_number
from kernelbandits._transactions import Journal
from kernelbandits.errors import DamagedFile, DecisionError
from kernelbandits.policies.base import UNIFORM_FACTOR
from kernelbandits.policies.experts.base import known_propensity, picks_of
from kernelbandits.policies.experts.expert_policy import ExpertPolicy
from kernelbandits.policies.randomized import ActionDistribution
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import SMALLEST_PROPENSITY, Decision, Indices, Matrix, Parameters, Vector
from kernelbandits.validation import check_int, check_probability, check_size

__all__ = ["SPREAD", "ClassMixture", "ClassPolicy", "PickTable", "is_power_of_two", "mixed_probabilities", "shares_of"]

SPREAD: Final = -1
"""Pick of a policy whose action is not eligible: it selects all eligible actions with equal probability."""

BLOCK: Final = 1 << 17
"""Number of table entries processed at once: more would only cost memory."""


def shares_of(picks: Indices, weights: Vector, rows: Indices) -> Vector:
    """Return the total weight of the policies that pick each of these rows: W(a) = Σ P(π) π(a).

    >>> shares_of(np.array([2, 0, 2, SPREAD]), np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 2]))
    array([0.4, 0.6])
    """
    spread = weights[picks == SPREAD].sum() / len(rows)
    shares: Vector = (picks == rows[:, None]) @ weights + spread
    return shares


def mixed_probabilities(shares: Vector, mixing: float) -> Vector:
    """Return action probabilities of a round of n actions, each at least the mixing m: W' = (1 − n m) W + m."""
    probabilities: Vector = (1.0 - len(shares) * mixing) * shares + mixing
    probabilities /= probabilities.sum()  # corrects rounding errors
    return probabilities


class PickTable:
    """Table of the learned rounds: which policies pick the same action. Equal rounds are stored once, with a count.

    Action numbers are replaced by their order of first pick, which does not change any variance and makes more rounds
    equal. With M policies a distinct round takes M small integers: memory is bounded for few policies or few different
    contexts, and otherwise grows with the rounds.

    Parameters
    ----------
    n_policies
        M, the number of policies of the class.
    n_actions
        N, the largest number of actions of a round.
    """

    def __init__(self, n_policies: int, n_actions: int, journal: Journal | None = None, *, block: int = BLOCK) -> None:
        self.n_policies, self.n_actions, self._block = n_policies, n_actions, block
        self._journal = Journal() if journal is None else journal
        self.n_rounds = 0
        """Number of rounds added."""
        self._dtype = np.dtype(np.int16 if n_actions < np.iinfo(np.int16).max else np.int32)
        self._start(0, np.empty((0, n_policies), dtype=self._dtype))

    def _start(self, n_distinct: int, labels: NDArray[Any]) -> None:
        self._n_distinct, self._labels = n_distinct, labels
        self._sizes = np.zeros(len(labels), dtype=np.int64)
        self._counts = np.zeros(len(labels), dtype=np.int64)
        self._places: dict[tuple[int, bytes], int] = {}

    @property
    def n_distinct(self) -> int:
        """Number of distinct rounds."""
        return self._n_distinct

    @property
    def sizes(self) -> Indices:
        """Number of actions of each distinct round."""
        return self._sizes[: self._n_distinct]

    @property
    def counts(self) -> Indices:
        """Number of occurrences of each distinct round."""
        return self._counts[: self._n_distinct]

    @property
    def labels(self) -> NDArray[Any]:
        """Action of each policy in each distinct round, n_actions for SPREAD, shape (n_distinct, M)."""
        return self._labels[: self._n_distinct]

    def add(self, picks: Indices, size: int) -> None:
        """Add one round of `size` actions; `picks` are rows, or SPREAD."""
        labels = self._agreement(picks)
        key = (size, labels.tobytes())
        place = self._places.get(key)
        if place is None:
            place = self._n_distinct
            self._journal.note(self._put_back, self.n_rounds, place, key)
            self._make_room()
            self._labels[place], self._sizes[place] = labels, size
            self._counts[place] = 0
            self._places[key] = place
            self._n_distinct += 1
        else:
            self._journal.note(self._put_back_count, self.n_rounds, place, self._counts.item(place))
        self._counts[place] += 1
        self.n_rounds += 1

    def _put_back(self, n_rounds: int, n_distinct: int, key: tuple[int, bytes]) -> None:
        self.n_rounds, self._n_distinct = n_rounds, n_distinct
        self._places.pop(key, None)

    def _put_back_count(self, n_rounds: int, place: int, count: int) -> None:
        self.n_rounds = n_rounds
        self._counts[place] = count

    def shares(self, weights: Vector) -> Matrix:
        """Return W(x, a) = Σ P(π) π(a | x) in each distinct round, shape (n_distinct, n_actions)."""
        support = np.flatnonzero(weights)
        shares = np.empty((self._n_distinct, self.n_actions + 1))
        for rows, cells in self._blocks(support):
            n_rows = rows.stop - rows.start
            each = np.broadcast_to(weights[support], (n_rows, len(support))).ravel()
            shares[rows] = np.bincount(cells, each, n_rows * (self.n_actions + 1)).reshape(n_rows, -1)
        return shares[:, :-1] + shares[:, -1:] / self.sizes[:, None]

    def probabilities(self, weights: Vector, mixing: float) -> Matrix:
        """Return W'(x, a) = (1 − n m) W(x, a) + m in each distinct round of n actions."""
        return self.remaining(mixing)[:, None] * self.shares(weights) + mixing

    def remaining(self, mixing: float) -> Vector:
        """Return 1 − n m of each distinct round: the probability left to the policies."""
        return 1.0 - self.sizes.astype(np.float64) * mixing

    def mean_at_picks(self, of_action: Matrix, *, power: int = 1, policies: Indices | None = None) -> Vector:
        """Return the mean over the rounds of Σ_a π(a | x)^power · f(x, a), for all or some policies."""
        spread = np.where(np.arange(self.n_actions) < self.sizes[:, None], of_action, 0.0).sum(axis=1)
        table = np.column_stack([of_action, spread / np.power(self.sizes, power)])
        total = np.zeros(self.n_policies if policies is None else len(policies))
        for rows, cells in self._blocks(policies):
            total += self.counts[rows] @ table[rows].ravel().take(cells).reshape(-1, len(total))
        return total / self.n_rounds

    def variances(self, probabilities: Matrix, policies: Indices | None = None) -> Vector:
        """Return V(π) = mean over rounds of 1 / W'(x, π(x)): a bound on the variance of a policy's estimated value."""
        return self.mean_at_picks(1.0 / probabilities, policies=policies)

    def state(self) -> Parameters:
        """Return arrays for `restore`."""
        return {"labels": self.labels.astype(np.int64), "sizes": self.sizes.copy(), "counts": self.counts.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        labels = saved_array(state, "labels", "i", (None, self.n_policies), least=0, most=self.n_actions)
        labels = labels.astype(self._dtype)
        sizes = saved_array(state, "sizes", "i", (len(labels),), least=1, most=self.n_actions)
        counts = saved_array(state, "counts", "i", (len(labels),), least=1, most=2**53)
        n_rounds = sum(counts.tolist())  # may exceed an int64
        if n_rounds > 2**53:
            raise DamagedFile(f"The rounds in the file add up to {n_rounds}, which is more than can be counted.")
        self._start(len(labels), labels)
        self._sizes[:], self._counts[:] = sizes, counts
        self._places = {(int(self._sizes[place]), row.tobytes()): place for place, row in enumerate(labels)}
        self.n_rounds = n_rounds

    def _agreement(self, picks: Indices) -> NDArray[Any]:
        """Renumber the picked actions in the order of first pick; n_actions for SPREAD."""
        labels = np.full(self.n_policies, self.n_actions, dtype=self._dtype)
        is_pick = picks != SPREAD
        if is_pick.any():
            _, first, group = np.unique(picks[is_pick], return_index=True, return_inverse=True)
            labels[is_pick] = np.argsort(np.argsort(first))[group]
        return labels

    def _make_room(self) -> None:
        used = self._n_distinct
        if used == len(self._counts):  # `_counts` is assigned last: an interrupt leaves the others longer
            more = max(16, used)
            empty = np.empty((more, self.n_policies), dtype=self._dtype)
            self._labels = np.concatenate([self._labels[:used], empty])
            self._sizes = np.concatenate([self._sizes[:used], np.zeros(more, dtype=np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])

    def _blocks(self, policies: Indices | None) -> Iterator[tuple[slice, Indices]]:
        """Yield blocks of rounds, with indices of the picks into a flat table (round of the block, n_actions + 1)."""
        step = max(1, self._block // self.n_policies)
        offsets = np.arange(step)[:, None] * (self.n_actions + 1)
        for start in range(0, self._n_distinct, step):
            rows = slice(start, min(start + step, self._n_distinct))
            labels = self._labels[rows] if policies is None else self._labels[rows, policies]
            yield rows, (labels + offsets[: len(labels)]).ravel()


MOST_ACTIONS: Final = 100_000
"""Largest number of actions of a round: each distinct round takes 8 bytes per action."""


class ClassMixture(NamedTuple):
    """Distribution of the next action: policies with these weights, mixed with the uniform distribution."""

    weights: Vector
    """Probability of each policy of the class."""

    mixing: float
    """Lower bound of the probability of each action."""


class ClassPolicy(ExpertPolicy):
    """Base class of policies that draw from a policy class, with uniform mixing.

    Each reward is used to estimate the values of all policies of the class.

    With weights P(π) and the mixing m, the probability of an action of a round of n is

        W'(x, a) = (1 − n m) Σ_π P(π) 1[π(x) = a] + m,

    and the value of a policy is estimated without bias by the mean of r 1[π(x) = a] / W'(x, a) over the learned rounds,
    each with the probability with which its action was drawn. Rewards are scaled from `reward_range` to [0, 1].

    A policy whose action is not eligible selects the eligible ones with equal probability. A round may have fewer than
    `n_actions` eligible actions, not more. Rewards cannot be amended: the weights depend on the data at the time of
    their computation.

    A subclass defines the weights (`_mixture`) and the update after each round (`_after_round`).
    """

    n_actions: int = parameter(partial(check_int, name="The number of actions", most=MOST_ACTIONS))
    failure_probability: float = parameter(check_probability, default=0.05)
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=0.03, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        check_size("Probabilities of actions", self.n_policies, self.n_actions)
        self._table = PickTable(self.n_policies, self.n_actions, self._journal)
        self._sums = np.zeros(self.n_policies)  # Σ r 1[π(x) = a] / W'(x, a), r scaled to [0, 1]

    @abstractmethod
    def _mixture(self) -> ClassMixture:
        """Return the distribution of the next action, a function of the learned data."""

    @abstractmethod
    def _after_round(self) -> None:
        """Update after a round was added to the table and the sums; must not raise."""

    @property
    def n_policies(self) -> int:
        """Number of policies of the class."""
        return len(self.experts)

    @property
    def weights(self) -> Vector:
        """Probability of each policy in the next round."""
        return self._mixture().weights.copy()

    @property
    def mixing(self) -> float:
        """Lower bound of the probability of each action of the next round."""
        return self._mixture().mixing

    @property
    def values(self) -> Vector:
        """Unbiased estimate of the mean reward of each policy; nan before the first reward."""
        if not self._table.n_rounds:
            return np.full(self.n_policies, nan)
        return np.array([self._rewards.from_unit(value) for value in self._estimates().tolist()])

    @property
    def best_policy(self) -> int:
        """Index, among the experts, of the policy with the highest estimated value."""
        return int(tied_for_best(self._estimates())[0])

    def _estimates(self) -> Vector:
        """Return the estimated value of each policy, rewards scaled to [0, 1]."""
        return self._sums / max(1, self._table.n_rounds)

    def _regrets(self) -> Vector:
        """Return the difference between the best estimated value and that of each policy."""
        estimates = self._estimates()
        regrets: Vector = estimates.max() - estimates
        return regrets

    def _distribution(self, actions: Actions) -> ActionDistribution:
        picks, rows = self._picks(actions), np.arange(actions.n_actions) if actions.rows is None else actions.rows
        weights, mixing = self._mixture()
        return ActionDistribution(mixed_probabilities(shares_of(picks, weights, rows), mixing), memo={"picks": picks})

    def _picks(self, actions: Actions) -> Indices:
        """Return the row that each policy selects, or SPREAD if it is not eligible."""
        picks = picks_of(self._panel.advice_on(actions.whole, actions.n_rows))
        return picks if actions.rows is None else np.where(np.isin(picks, actions.rows), picks, SPREAD)

    def _validate_decision(self, decision: Decision) -> None:
        self._picks_in(decision)

    def _update(self, decision: Decision, reward: float) -> None:
        picks, propensity = self._picks_in(decision), known_propensity(decision)
        takes = np.where(picks == SPREAD, 1.0 / decision.n_actions, picks == decision.action)  # π(a | x)
        self._sums = self._sums + self._rewards.unit(reward) * takes / propensity
        self._table.add(picks, decision.n_actions)
        self._after_round()

    def _picks_in(self, decision: Decision) -> Indices:
        """Return the picks of all policies in the round of a decision; raise DecisionError if they are missing."""
        picks = np.asarray(decision.memo.get("picks", ()))
        if picks.shape != (self.n_policies,) or picks.dtype.kind not in "iu" or picks.min() < SPREAD:
            raise DecisionError(
                f"A decision for {type(self).__name__} has in memo['picks'] the row that each of the {self.n_policies} "
                f"policies picked, got {picks!r:.80}. Learn from decisions as `choose` gives them."
            )
        n_picked = len(np.unique(picks[picks != SPREAD]))
        if not 1 <= max(1, n_picked) <= decision.n_actions <= self.n_actions:
            raise DecisionError(
                f"A decision for {type(self).__name__} has the number of eligible actions (at most {self.n_actions}, "
                f"and no fewer than were picked), got n_actions={decision.n_actions}. Learn from decisions as `choose` "
                "gives them."
            )
        return picks

    def _state(self) -> Parameters:
        return {"table": self._table.state(), "sums": self._sums.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._table.restore(state["table"])
        most = self._table.n_rounds / SMALLEST_PROPENSITY * (1.0 + SUMS_TO_ONE)
        self._sums = saved_array(state, "sums", "f", self._sums.shape, least=0.0, most=most).copy()

    def _saved_mixing(self, state: Mapping[str, Any], name: str) -> float:
        """Return the lower bound of an action's probability, which leaves at least half of the mass to the policies."""
        return saved_number(state, name, least=0.0, most=0.5 / self.n_actions)


def is_power_of_two(n_rounds: int) -> bool:
    """Whether weights that are computed at rounds 2^j are due for recomputation."""
    return n_rounds & (n_rounds - 1) == 0
