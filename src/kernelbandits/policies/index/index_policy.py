"""What policies share that judge every action by its own rewards alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import NotLearnt
from kernelbandits.kernels import Ids, PairPoints, PointKind, kind_of
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.policies.action_set import Actions, one_id_per_action, plain_points
from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.index.tally import Tally
from kernelbandits.policies.ties import Ties, checked_ties, pick_tied, tie_probabilities
from kernelbandits.posterior.base import checked_times
from kernelbandits.restoring import saved_count
from kernelbandits.selection import CatalogueView, tied_for_best
from kernelbandits.types import Decision, Indices, ItemId, Parameters, Point, Points, Seed, Vector

__all__ = ["IndexPolicy"]


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
        self._awaited: Tally | None = None  # derived from the pending decisions; None when to be made anew

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

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return PairRows(list(view.ids), plain_points(view), is_shared=False)

    def _context(self, points: Points, row: int) -> Point:
        return kind_of(points.actions).one(points.actions, row)

    def _point(self, decision: Decision) -> Points:
        context = kind_of(decision.context).single(decision.context)
        return PairRows([Ids().check_one(decision.item)], context, is_shared=False)

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Choice:
        tied, plays, means, scores = self._standing(actions)
        place, propensity = pick_tied(tied, self._ties, self._rng)
        if scores is None:
            return Choice(place, propensity=propensity)
        return Choice(
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
        plays = learnt + self._waiting().of(items)[0] if self._ledger.pending else learnt
        means = np.clip(sums / np.maximum(learnt, 1.0), 0.0, 1.0)  # rounding of the sums may lead outside
        is_known = learnt > 0.0
        if not (is_known.any() and plays.all()):
            return _Standing(np.flatnonzero(plays == plays.min()), plays, means, None)
        scores = self._indices(means, plays, self._ledger.round_index + self._n_history)
        scores[~is_known] = -np.inf  # of these nothing is known until their first reward is there
        return _Standing(tied_for_best(scores), plays, means, scores)

    def _waiting(self) -> Tally:
        if self._awaited is None:
            self._awaited = Tally()
            for decision in self._ledger.pending.values():
                self._awaited.add(Ids().check_one(decision.item), 1, 0.0)
        return self._awaited

    def _pending_changed(self, decision: Decision, change: int) -> None:
        if self._awaited is not None:
            self._journal.note(setattr, self, "_awaited", None)  # one that is interrupted is computed again
            self._awaited.add(Ids().check_one(decision.item), change, 0.0)

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
