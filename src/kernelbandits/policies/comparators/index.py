"""Index policies: UCB1 and KL-UCB."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import repeat
from math import log
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import below, saved_array, saved_count
from kernelbandits.errors import DamagedFile, NotLearnt
from kernelbandits.kernels import Ids, PairPoints, PointKind, kind_of
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.policies.base import REWARD_RANGE, SEED, Policy
from kernelbandits.posterior.base import checked_times
from kernelbandits.selection import CatalogView, tied_for_best
from kernelbandits.selection.actions import Actions, one_id_per_action, plain_points
from kernelbandits.selection.ties import Ties, checked_ties, pick_tied, tie_probabilities
from kernelbandits.types import Decision, Indices, ItemId, Matrix, Parameters, Point, Points, Seed, Selection, Vector
from kernelbandits.validation import check_nonnegative, check_positive

__all__ = ["KLUCB", "UCB1", "IndexPolicy", "Tally", "upper_means"]


class Tally:
    """Count and sum per item; zero for an unknown item.

    >>> tally = Tally()
    >>> tally.add("a", 2, 0.5)
    >>> tally.of(["b", "a"])
    array([[0. , 2. ],
           [0. , 0.5]])
    """

    def __init__(self) -> None:
        self._slots: dict[ItemId, int] = {}
        self._totals: Matrix = np.zeros((2, 16))  # counts over sums; the first slot is that of unknown items

    def of(self, items: Sequence[ItemId]) -> Matrix:
        """Return counts over sums of these items, shape (2, n)."""
        slots = np.fromiter(map(self._slots.get, items, repeat(0)), dtype=np.intp, count=len(items))
        return self._totals[:, slots]

    def totals(self, item: ItemId) -> tuple[float, float]:
        """Return count and sum of one item."""
        slot = self._slots.get(item, 0)
        return self._totals.item(0, slot), self._totals.item(1, slot)

    def add(self, item: ItemId, count: int, total: float) -> None:
        """Add to both; an item whose count drops to zero has sum zero, without a rounding error."""
        counted, summed = self.totals(item)
        self.put(item, counted + count, summed + total if counted + count else 0.0)

    def put(self, item: ItemId, count: float, total: float) -> None:
        """Set both."""
        slot = self._slots.get(item)
        if slot is None:
            slot = len(self._slots) + 1
            if slot >= self._totals.shape[1]:
                self._totals = np.concatenate([self._totals, np.zeros_like(self._totals)], axis=1)
            self._slots[item] = slot
        self._totals[0, slot] = count
        self._totals[1, slot] = total

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for `restore`."""
        live = [item for item, slot in self._slots.items() if self._totals[0, slot]]
        counts, sums = self.of(live)
        return {"counts": counts, "sums": sums, **{f"items.{key}": array for key, array in Ids().pack(live).items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; only before anything was counted."""
        items = Ids().unpack(below("items.", state))
        if len(set(items)) != len(items):
            raise DamagedFile("An action stands in the file twice.")
        counts = saved_array(state, "counts", "f", (len(items),), least=1.0, most=2.0**53)
        if (counts != np.floor(counts)).any():
            raise DamagedFile("'counts' in the file has to hold whole numbers.")
        sums = saved_array(state, "sums", "f", (len(items),))
        for item, count, total in zip(items, counts.tolist(), sums.tolist(), strict=True):
            self.add(item, int(count), total)


class _Statistics(NamedTuple):
    """Statistics of the eligible actions in a round."""

    tied: Indices
    """Indices of the actions tied for the best, lowest first."""

    plays: Vector
    """Number of learned and pending decisions per action."""

    means: Vector
    """Means of the rewards scaled to [0, 1]; 0 for an action without rewards."""

    scores: Vector | None
    """Indices of the scaled rewards; None while some action was never selected, or none has a reward."""


class IndexPolicy(Policy):
    """Base class of index policies: the index depends on an action's own count and mean reward (`_indices`).

    Actions are identified by their ids, or by their rows if there are no ids. Contexts may have any type and are
    ignored. Actions that were never selected come first, lowest row first. An action whose first reward is pending is
    excluded until it arrives, unless no action has a reward: then the least selected ones are next.
    """

    needs_reward_range = True
    learns_from_any_action = True
    keeps_data_only = True  # a count and a sum of rewards in units of the range, per action

    reward_range: tuple[float, float] = parameter(REWARD_RANGE, default=(0.0, 1.0))
    ties: Ties = parameter(checked_ties, default="lowest")
    seed: Seed = parameter(SEED, default=None, is_described=False)

    def _setup(self) -> None:
        super()._setup()
        self._tally = Tally()
        self._n_history = 0  # observations of `warm_start`

    @abstractmethod
    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        """Return the indices in round t of actions with these mean rewards in [0, 1], each selected at least once."""

    # -- point type --------------------------------------------------------------------------------------------------

    def _kind(self, contexts: Points) -> PointKind:
        return PairPoints(Ids(), kind_of(contexts.actions if isinstance(contexts, PairRows) else contexts))

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        kind = kind_of(contexts)
        points = kind.check(contexts)
        n_actions = kind.count(points)
        one_id_per_action(ids, n_actions)
        return PairRows(list(range(n_actions) if ids is None else ids), points, is_shared=False)

    def _catalog_points(self, view: CatalogView) -> Points:
        return PairRows(list(view.ids), plain_points(view), is_shared=False)

    def _context(self, points: Points, row: int) -> Point:
        return kind_of(points.actions).one(points.actions, row)

    def _point(self, decision: Decision) -> Points:
        context = kind_of(decision.context).as_collection(decision.context)
        return PairRows([Ids().check_one(decision.item)], context, is_shared=False)

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        tied, plays, means, scores = self._statistics(actions)
        place, propensity = pick_tied(tied, self.ties, self._rng)
        if scores is None:
            return Selection(place, propensity=propensity)
        return Selection(
            place,
            mean=self._rewards.from_unit(float(means[place])),
            width=self._rewards.span / float(np.sqrt(plays[place])),
            score=self._rewards.from_unit(float(scores[place])),
            propensity=propensity,
        )

    def _probabilities(self, actions: Actions) -> Vector:
        return tie_probabilities(self._statistics(actions).tied, self.ties, actions.n_actions)

    def _statistics(self, actions: Actions) -> _Statistics:
        items = actions.points.contexts
        learned, sums = self._tally.of(items)
        pending = self._pending_counts()
        plays = (
            learned + np.fromiter(map(pending.get, items, repeat(0)), np.float64, len(items)) if pending else learned
        )
        means = np.maximum(learned, 1.0)
        np.divide(sums, means, out=means)
        np.minimum(np.maximum(means, 0.0, out=means), 1.0, out=means)  # corrects rounding errors of the sums
        if not (learned.any() and plays.all()):
            return _Statistics(np.flatnonzero(plays == plays.min()), plays, means, None)
        scores = self._indices(means, plays, self._ledger.round_index + self._n_history)
        if pending:
            scores[learned == 0.0] = -np.inf  # unknown until their first reward arrives
        return _Statistics(tied_for_best(scores), plays, means, scores)

    def _pending_key(self, decision: Decision) -> Hashable:
        return Ids().check_one(decision.item)

    # -- learning --------------------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        """Do nothing: the tally records changes per item."""

    def _validate_decision(self, decision: Decision) -> None:
        Ids().check_one(decision.item)

    def _update(self, decision: Decision, reward: float) -> None:
        self._add(Ids().check_one(decision.item), 1, self._rewards.unit(reward))

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._add(self._known(decision), 0, self._rewards.unit_change(now - was))

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._add(self._known(decision), -1, -self._rewards.unit(reward))

    def _add(self, item: ItemId, count: int, total: float) -> None:
        counted, summed = self._tally.totals(item)
        self._journal.note(self._tally.put, item, counted, summed)
        self._tally.put(item, counted + count, summed + total if counted + count else 0.0)

    def _known(self, decision: Decision) -> ItemId:
        """Return the item of a learned decision."""
        item = Ids().check_one(decision.item)
        if not self._tally.of([item])[0].item():
            raise NotLearnt(f"No reward of action {item!r} has been learned, so none can be amended or unlearned.")
        return item

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        items = points.contexts
        repeats = [int(count) for count in checked_times(times, len(items)).tolist()]
        for item, reward, n_plays in zip(items, rewards, repeats, strict=True):
            self._add(item, n_plays, n_plays * self._rewards.unit(float(reward)))
        self._journal.note(setattr, self, "_n_history", self._n_history)
        self._n_history += sum(repeats)

    # -- serialization -----------------------------------------------------------------------------------------------

    def _state(self) -> Parameters:
        return {"tally": self._tally.state(), "n_history": self._n_history}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tally.restore(state["tally"])
        self._n_history = saved_count(state, "n_history")


class UCB1(IndexPolicy):
    """Select every action once, then the highest mean + η sqrt(2 ln t / n) (Auer, Cesa-Bianchi and Fischer 2002).

    n is the number of times that the action was selected and t the round, for rewards in [0, 1]; rewards of another
    range are scaled to it. Equivalent to KernelUCB with the `Delta` kernel, regularization → 0 and exploration
    η sqrt(2 ln t). Contexts are ignored: actions are identified by `ids`, or by their rows if there are no ids. A round
    costs O(N).

    The guarantee (each suboptimal action is selected O(ln T / gap²) times) holds for a fixed set of actions whose
    rewards are independent draws and arrive before the next choice. Sets may still change; an action that was never
    selected is then selected first. Pending decisions count in n and t at once, and not in the mean.

    Parameters
    ----------
    exploration
        Factor of sqrt(2 ln t / n). "theory" is the published 1; the default learns faster, without a guarantee.
    reward_range
        Smallest and largest reward; others are rejected.
    ties
        "lowest" selects the lowest row; "random" draws one using `seed` and records its propensity in the decision.

    Examples
    --------
    >>> policy = UCB1()
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).context
    'red'
    """

    exploration: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The exploration", hint="1.0 is the paper's."),
        default=0.2,
        theory=1.0,
        is_assignable=True,
    )

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        return means + self.exploration * np.sqrt(2.0 * log(t) / plays)


MOST_STEPS: Final = 60
"""Largest number of Newton steps.

7 to 10 are typical. If the allowed divergence is almost 0, the root is almost double and the error is only halved per
step; then 60 steps leave no visible error.
"""

STILL: Final = 1e-13
"""Relative step length at which the search ends."""


class KLUCB(IndexPolicy):
    """KL-UCB: the highest mean consistent with an action's rewards (Garivier and Cappé 2011).

        index = max { q : n · kl(mean, q) ≤ max(0, ln t + c ln ln t) }

    where kl is the Kullback–Leibler divergence of two Bernoulli distributions, n is the number of times that the action
    was selected and t the round. The bonus over the mean is at most half of that of UCB1 (c = 0), and far less for rare
    clicks. For rewards that are 0 or 1 the number of suboptimal selections reaches the lower bound of Lai and Robbins
    (1985) as T grows. Rewards of another range are scaled to [0, 1]. Contexts are ignored: actions are identified by
    `ids`, or by their rows if there are no ids. A round costs O(N): a few Newton steps for all actions at once.

    The guarantee holds for a fixed set of actions whose rewards are independent draws and arrive before the next
    choice. Sets may still change; an action that was never selected is then selected first. Pending decisions count in
    n and t at once, and not in the mean.

    Parameters
    ----------
    log_log_factor
        c. "theory" is the 3 of the proof; the authors recommend 0 in practice, the default.
    reward_range, ties, seed
        As in `UCB1`.

    Examples
    --------
    >>> policy = KLUCB(log_log_factor=0.0)
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).score
    1.0
    """

    log_log_factor: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_nonnegative, name="The factor of ln ln t", hint="3.0 is the paper's."), default=0.0, theory=3.0
    )

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        if t < 2:  # ln ln 1 is undefined, and only the mean is known yet
            return means
        allowed = max(0.0, log(t) + self.log_log_factor * log(log(t)))
        return upper_means(means, allowed / plays)


def upper_means(means: Vector, divergence: Vector) -> Vector:
    """Return the largest q with kl(mean, q) ≤ divergence, where kl(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)).

    Newton's method in u = −ln(1 − q). In u the divergence is convex with derivative (q − p)/q, so steps from a point
    above the root stay above it. Two such points: Pinsker's p + sqrt(divergence/2), and
    u = (divergence + H(p))/(1 − p), since −p ln q is not negative; H(p) = −p ln p − (1 − p) ln(1 − p).

    >>> upper_means(np.array([0.0, 0.5, 1.0]), np.array([0.7, 0.02, 0.7])).round(4)
    array([0.5034, 0.599 , 1.    ])
    """
    upper = np.ones_like(means)
    open_ended = means < 1.0
    p, allowed = means[open_ended], divergence[open_ended]
    rest = 1.0 - p
    entropy = -_x_log_x(p) - _x_log_x(rest)
    with np.errstate(divide="ignore"):  # ln 0: a bound of 1 is vacuous
        pinsker = -np.log1p(-np.minimum(p + np.sqrt(allowed / 2.0), 1.0))
    u = np.minimum(pinsker, (allowed + entropy) / rest)
    for _ in range(MOST_STEPS):
        q = -np.expm1(-u)
        some = q > p  # elsewhere the result is the mean itself
        excess = rest * u - entropy - allowed - p * np.log(np.where(some, q, 1.0))
        step = np.where(some, excess * q / np.where(some, q - p, 1.0), 0.0)
        u = u - np.maximum(step, 0.0)  # negative values are rounding errors
        if (step <= STILL * u).all():
            break
    upper[open_ended] = np.maximum(-np.expm1(-u), p)
    return upper


def _x_log_x(x: Vector) -> Vector:
    return x * np.log(np.where(x > 0.0, x, 1.0))
