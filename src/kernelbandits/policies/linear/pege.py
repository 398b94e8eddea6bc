"""PEGE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelbandits.errors import DecisionError, NotLearnt
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.linear.spanning_policy import SpanningPolicy
from kernelbandits.restoring import saved_count
from kernelbandits.selection import tied_for_best
from kernelbandits.types import Decision, Indices, Parameters, Points, Vector

__all__ = ["PEGE"]


class PEGE(SpanningPolicy):
    """Phased exploration and greedy exploitation (Rusmevichientong and Tsitsiklis 2010); no width, nothing to tune.

    In cycle c = 1, 2, … each of d spanning actions b, chosen by greedy volume, is played once; then the action of
    highest x·θ̂ is played c times, where θ̂ = (1/c) (Σ b bᵀ)⁻¹ Σ b r averages the estimates of all cycles so far. The b
    are linearly independent, so b·θ̂ is simply the mean reward of b in its explorations. Exploiting teaches nothing.

    Which round explores follows from what was learnt or is awaited: with c the fewest explorations of a spanning
    action, the cycle exploits until it has done so c (c + 1) / 2 times in all. So rewards may come late and in any
    order. `decision.stage` is the cycle that explores; it is None where a decision exploits. Spanning actions that may
    not be taken in a round are passed over in it.

    Made for one fixed set whose best action moves smoothly with θ, such as points on a sphere: regret d sqrt(T) there.
    On a set with corners it pays for exploring when all is known. A round costs O(N d), whatever t.

    Parameters
    ----------
    actions
        The fixed set, one row an action; every round has to bring the same.
    reward_range
        Rewards outside it are refused; None takes any finite number.

    Examples
    --------
    >>> angles = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    >>> actions = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> policy = PEGE(actions)
    >>> for _ in range(40):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=float(decision.context @ [0.0, 1.0]))
    >>> actions[policy.greedy_action].round(1)
    array([0., 1.])
    """

    learns_from_any_action = True

    def __init__(self, actions: Points, *, reward_range: tuple[float, float] | None = None) -> None:
        super().__init__(actions, reward_range=reward_range)
        self._n_exploited = 0

    # -- choosing --------------------------------------------------------------------------------------------------

    @property
    def greedy_action(self) -> int:
        """Row of the action that looks best now."""
        return int(tied_for_best(self._means(np.arange(self.n_actions)))[0])

    def _means(self, rows: Indices) -> Vector:
        """x·θ̂: the combination of the spanning actions' mean rewards; 0 for one whose reward is not known yet."""
        counts, sums = self._tally.counts[self.spanning], self._tally.sums[self.spanning]
        return np.asarray(self._coordinates[rows] @ (sums / np.maximum(counts, 1)))

    def _pick(self, actions: Actions) -> Choice:
        rows = self._eligible(actions)
        explored, n_exploited = self._progress()
        open_to_us = np.flatnonzero(np.isin(self.spanning, rows))
        fewest = int(explored[open_to_us].min(initial=np.iinfo(np.int64).max))
        if open_to_us.size and n_exploited >= fewest * (fewest + 1) // 2:
            row = int(self.spanning[open_to_us[explored[open_to_us] == fewest][0]])
            return Choice(int(np.searchsorted(rows, row)), stage=fewest + 1)
        means = self._means(rows)
        place = int(tied_for_best(means)[0])
        return Choice(place, mean=float(means[place]), score=float(means[place]))

    def _progress(self) -> tuple[Indices, int]:
        """Explorations of each spanning action and exploitations, learnt or awaited."""
        explored, n_exploited = self._tally.counts.copy(), self._n_exploited
        for decision in self._ledger.pending.values():
            if self._explores(decision):
                explored[decision.action] += 1
            else:
                n_exploited += 1
        return explored[self.spanning], n_exploited

    # -- learning --------------------------------------------------------------------------------------------------

    def _explores(self, decision: Decision) -> bool:
        row = self._row_of(decision)
        if decision.stage is None:
            return False
        if row not in self.spanning:
            raise DecisionError(
                f"Only the spanning actions {self.spanning.tolist()} are explored, got action={decision.action} with "
                f"stage={decision.stage!r}."
            )
        return True

    def _take_in(self, decision: Decision, reward: float) -> None:
        if self._explores(decision):
            super()._take_in(decision, reward)
        else:
            self._n_exploited += 1

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if self._explores(decision):
            super()._correct(decision, was, now, number)

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        if self._explores(decision):
            super()._take_back(decision, reward, number)
        elif self._n_exploited:
            self._n_exploited -= 1
        else:
            raise NotLearnt("No exploiting decision has been learnt, so none can be taken back.")

    # -- describing and keeping ------------------------------------------------------------------------------------

    def _parameters(self) -> Parameters:
        return {**self._set_parameters(), "reward_range": self.reward_range}

    def _state(self) -> Parameters:
        return {**super()._state(), "n_exploited": self._n_exploited}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._n_exploited = saved_count(state, "n_exploited")
