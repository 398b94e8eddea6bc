"""Index policies: UCB1 and KL-UCB."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from math import log
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array, saved_count
from kernelbandits.errors import DamagedFile, NotLearnt
from kernelbandits.kernels import Ids, PairPoints, PointKind, kind_of
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.policies.base import Policy
from kernelbandits.posterior.base import checked_times
from kernelbandits.selection import CatalogView, tied_for_best
from kernelbandits.selection.actions import Actions, one_id_per_action, plain_points
from kernelbandits.selection.ties import Ties, checked_ties, pick_tied, tie_probabilities
from kernelbandits.types import Decision, Indices, ItemId, Matrix, Parameters, Point, Points, Seed, Selection, Vector
from kernelbandits.validation import not_negative, positive

__all__ = ["KLUCB", "UCB1", "IndexPolicy", "Tally", "upper_means"]


class Tally:
    """A count and a sum for each item; an item never counted has zeros.

    >>> tally = Tally()
    >>> tally.add("a", 2, 0.5)
    >>> tally.of(["b", "a"])
    array([[0. , 2. ],
           [0. , 0.5]])
    """

    def __init__(self) -> None:
        self._slots: dict[ItemId, int] = {}
        self._totals: Matrix = np.zeros((2, 16))  # counts over sums; the first slot is that of items never counted

    def of(self, items: Sequence[ItemId]) -> Matrix:
        """Counts over sums of these items, shape (2, n)."""
        slots = np.fromiter(map(self._slots.get, items, repeat(0)), dtype=np.intp, count=len(items))
        return self._totals[:, slots]

    def totals(self, item: ItemId) -> tuple[float, float]:
        """Count and sum of one item."""
        slot = self._slots.get(item, 0)
        return self._totals.item(0, slot), self._totals.item(1, slot)

    def add(self, item: ItemId, count: int, total: float) -> None:
        """Add to both; what is down to no count has no sum either, whatever the rounding."""
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
        """Arrays that `restore` needs."""
        kept = [item for item, slot in self._slots.items() if self._totals[0, slot]]
        counts, sums = self.of(kept)
        return {"counts": counts, "sums": sums, **{f"items.{key}": array for key, array in Ids().pack(kept).items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved state; only before anything was counted."""
        items = Ids().unpack(below("items.", state))
        if len(set(items)) != len(items):
            raise DamagedFile("An action stands in the file twice.")
        counts = saved_array(state, "counts", "f", (len(items),), least=1.0, most=2.0**53)
        if (counts != np.floor(counts)).any():
            raise DamagedFile("'counts' in the file has to hold whole numbers.")
        sums = saved_array(state, "sums", "f", (len(items),))
        for item, count, total in zip(items, counts.tolist(), sums.tolist(), strict=True):
            self.add(item, int(count), total)


class _Standing(NamedTuple):
    """The eligible actions as they stand in a round."""

    tied: Indices
    """Places of those that may be taken, lowest first."""

    plays: Vector
    """Learnt and awaited."""

    means: Vector
    """Of the rewards scaled to [0, 1]; 0 where there is none."""

    scores: Vector | None
    """Indices of the scaled rewards; None while there are actions without a reward."""


class IndexPolicy(Policy):
    """Highest index, made of an action's own number of plays and mean reward; a subclass writes `_indices`.

    Actions are told apart by their ids, or by their rows where there are none. Their contexts are of any kind and are
    not looked at. Actions that were never played come first, the lowest row before others. One whose first reward is
    awaited is left out until it comes, unless no action has a reward: then those played least are next.
    """

    needs_reward_range = True
    learns_from_any_action = True

    def __init__(self, *, reward_range: tuple[float, float], ties: Ties, seed: Seed) -> None:
        super().__init__(reward_range=reward_range, seed=seed)
        self._ties = checked_ties(ties)
        self._tally = Tally()
        self._n_history = 0  # plays that no decision of ours made

    @abstractmethod
    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        """Indices in round t of actions with these means of rewards in [0, 1], each played at least once."""

    # -- what the points are -----------------------------------------------------------------------------------------

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
        context = kind_of(decision.context).single(decision.context)
        return PairRows([Ids().check_one(decision.item)], context, is_shared=False)

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        tied, plays, means, scores = self._standing(actions)
        place, propensity = pick_tied(tied, self._ties, self._rng)
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
        return tie_probabilities(self._standing(actions).tied, self._ties, actions.n_actions)

    def _standing(self, actions: Actions) -> _Standing:
        items = actions.points.contexts
        learnt, sums = self._tally.of(items)
        awaited = self._pending_counts()
        plays = learnt + np.fromiter(map(awaited.get, items, repeat(0)), np.float64, len(items)) if awaited else learnt
        means = np.clip(sums / np.maximum(learnt, 1.0), 0.0, 1.0)  # rounding of the sums may lead outside
        is_known = learnt > 0.0
        if not (is_known.any() and plays.all()):
            return _Standing(np.flatnonzero(plays == plays.min()), plays, means, None)
        scores = self._indices(means, plays, self._ledger.round_index + self._n_history)
        scores[~is_known] = -np.inf  # of these nothing is known until their first reward is there
        return _Standing(tied_for_best(scores), plays, means, scores)

    def _pending_key(self, decision: Decision) -> Hashable:
        return Ids().check_one(decision.item)

    # -- learning --------------------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        """The tally notes every item that changes."""

    def _validate_decision(self, decision: Decision) -> None:
        Ids().check_one(decision.item)

    def _take_in(self, decision: Decision, reward: float) -> None:
        self._add(Ids().check_one(decision.item), 1, self._rewards.unit(reward))

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._add(self._known(decision), 0, self._rewards.unit_change(now - was))

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        self._add(self._known(decision), -1, -self._rewards.unit(reward))

    def _add(self, item: ItemId, count: int, total: float) -> None:
        self._journal.note(self._tally.put, item, *self._tally.totals(item))
        self._tally.add(item, count, total)

    def _known(self, decision: Decision) -> ItemId:
        """The item of a decision that was learnt."""
        item = Ids().check_one(decision.item)
        if not self._tally.of([item])[0].item():
            raise NotLearnt(f"No reward of action {item!r} has been learnt, so none can be corrected or taken back.")
        return item

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        items = points.contexts
        repeats = [int(count) for count in checked_times(times, len(items)).tolist()]
        for item, reward, n_plays in zip(items, rewards, repeats, strict=True):
            self._add(item, n_plays, n_plays * self._rewards.unit(float(reward)))
        self._journal.note(setattr, self, "_n_history", self._n_history)
        self._n_history += sum(repeats)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _state(self) -> Parameters:
        return {"tally": self._tally.state(), "n_history": self._n_history}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tally.restore(state["tally"])
        self._n_history = saved_count(state, "n_history")


class UCB1(IndexPolicy):
    """Play every action once, then the highest mean + sqrt(2 ln t / n) (Auer, Cesa-Bianchi and Fischer 2002).

    n counts an action's own plays and t the rounds, for rewards in [0, 1]; those of another range are scaled to it.
    The same as KernelUCB with the `Delta` kernel, regularization → 0 and exploration sqrt(2 ln t). Contexts are not
    looked at: `ids`, or the rows where there are none, say which action is which. A round costs O(N).

    The guarantee (each suboptimal action is played O(ln T / gap²) times) is for a fixed set of actions whose rewards
    are independent draws and come before the next choice. Sets may change all the same; an action that was never
    played is then played first. Awaited decisions count in n and t at once, and not in the mean.

    Parameters
    ----------
    exploration_factor
        Multiplies sqrt(2 ln t / n). 1 is the paper's; 0.2 to 0.5 usually learns faster and proves nothing.
    reward_range
        Smallest and largest reward; others are refused.
    ties
        "lowest" row, or one at "random" drawn from `seed`, with its propensity in the decision.

    Examples
    --------
    >>> policy = UCB1()
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).context
    'red'
    """

    def __init__(
        self,
        *,
        exploration_factor: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        super().__init__(reward_range=reward_range, ties=ties, seed=seed)
        self._exploration_factor = positive(exploration_factor, "The exploration factor", "1.0 is the paper's.")

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        return means + self._exploration_factor * np.sqrt(2.0 * log(t) / plays)

    def _parameters(self) -> Parameters:
        return {
            "exploration_factor": self._exploration_factor,
            "reward_range": self.reward_range,
            "ties": self._ties,
        }


MOST_STEPS: Final = 60
"""Newton steps: 7 to 10 do, but where the divergence allowed is almost 0, the root is almost double and the error is
only halved each time; then 60 leave nothing that shows."""

STILL: Final = 1e-13
"""A step shorter than this, relative, ends the search."""


class KLUCB(IndexPolicy):
    """The highest mean that an action's rewards do not yet contradict (Garivier and Cappé 2011).

        index = max { q : n · kl(mean, q) ≤ max(0, ln t + c ln ln t) }

    where kl is the Kullback–Leibler divergence of two coins, n counts an action's own plays and t the rounds. What it
    adds to the mean is at most half of what UCB1 adds (c = 0), and far less for rare clicks; for rewards that are 0 or
    1 the number of plays of bad actions reaches the lower limit of Lai and Robbins (1985) as T grows. Rewards of
    another range are scaled to [0, 1]. Contexts are not looked at: `ids`, or the rows where there are none, say which
    action is which. A round costs O(N): a few Newton steps for all actions at once.

    The guarantee is for a fixed set of actions whose rewards are independent draws and come before the next choice.
    Sets may change all the same; an action that was never played is then played first. Awaited decisions count in n
    and t at once, and not in the mean.

    Parameters
    ----------
    log_log_factor
        c. 3 is what the proof needs; its authors advise 0 in practice.
    reward_range, ties, seed
        As in UCB1.

    Examples
    --------
    >>> policy = KLUCB(log_log_factor=0.0)
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).score
    1.0
    """

    def __init__(
        self,
        *,
        log_log_factor: float = 3.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        super().__init__(reward_range=reward_range, ties=ties, seed=seed)
        self._log_log_factor = not_negative(log_log_factor, "The factor of ln ln t", "3.0 is the paper's.")

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        if t < 2:  # ln ln 1 is no number, and nothing but the mean is known yet
            return means
        allowed = max(0.0, log(t) + self._log_log_factor * log(log(t)))
        return upper_means(means, allowed / plays)

    def _parameters(self) -> Parameters:
        return {"log_log_factor": self._log_log_factor, "reward_range": self.reward_range, "ties": self._ties}


def upper_means(means: Vector, divergence: Vector) -> Vector:
    """The largest q with kl(mean, q) ≤ divergence, where kl(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)).

    Newton's method in u = −ln(1 − q). In u the divergence is convex with derivative (q − p)/q, so that steps from a
    point above the root stay above it. Two such points: Pinsker's p + sqrt(divergence/2), and
    u = (divergence + H(p))/(1 − p), for −p ln q is not negative; H(p) = −p ln p − (1 − p) ln(1 − p).

    >>> upper_means(np.array([0.0, 0.5, 1.0]), np.array([0.7, 0.02, 0.7])).round(4)
    array([0.5034, 0.599 , 1.    ])
    """
    upper = np.ones_like(means)
    open_ended = means < 1.0
    p, allowed = means[open_ended], divergence[open_ended]
    rest = 1.0 - p
    entropy = -_x_log_x(p) - _x_log_x(rest)
    with np.errstate(divide="ignore"):  # ln 0: a bound of 1 says nothing
        pinsker = -np.log1p(-np.minimum(p + np.sqrt(allowed / 2.0), 1.0))
    u = np.minimum(pinsker, (allowed + entropy) / rest)
    lowest = -np.log1p(-p)
    for _ in range(MOST_STEPS):
        q = -np.expm1(-u)
        some = q > p  # elsewhere the mean itself is all that is allowed
        excess = rest * u - entropy - allowed - p * np.log(np.where(some, q, 1.0))
        step = np.where(some, excess * q / np.where(some, q - p, 1.0), 0.0)
        u = np.maximum(u - np.maximum(step, 0.0), lowest)  # below 0 is rounding
        if (step <= STILL * u).all():
            break
    upper[open_ended] = np.maximum(-np.expm1(-u), p)
    return upper


def _x_log_x(x: Vector) -> Vector:
    return x * np.log(np.where(x > 0.0, x, 1.0))
