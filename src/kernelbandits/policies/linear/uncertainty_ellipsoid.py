"""Uncertainty Ellipsoid."""

from __future__ import annotations

from math import log, sqrt
from typing import Final, NamedTuple

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.linear.spanning_policy import SpanningPolicy
from kernelbandits.selection import tied_for_best
from kernelbandits.theory.widths import Constant, as_exploration
from kernelbandits.types import Decision, Indices, Matrix, Parameters, Points, Vector

__all__ = ["UncertaintyEllipsoid"]

UNSEEN: Final = 1e-10
"""Eigenvalues of Σ z zᵀ up to this, relative to the largest and to 1, belong to directions that no play has shown."""


class _Fit(NamedTuple):
    """Least squares from the plays so far, for every action."""

    mean: Vector
    width: Vector
    unseen: Vector
    """Length of the part that lies in directions that no play has shown; zero once all spanning actions were played."""


class UncertaintyEllipsoid(SpanningPolicy):
    """Least squares without a ridge, after playing actions that span all (Rusmevichientong and Tsitsiklis 2010, UE).

    First each of d spanning actions, chosen by greedy volume, is played once. From then on, with C = (Σ x xᵀ)⁻¹ and
    θ̂ = C Σ r x over all plays, in round t among N actions:

        score = x·θ̂ + exploration · sqrt(ln t) · sqrt(min(d ln t, N)) · sqrt(xᵀ C x)

    Made for one fixed set of actions. A round costs O(N d² + d³), whatever t. The theory's exploration is large;
    0.1 to 0.5 learns, for noise of about 1. Decisions that are awaited count in C and not in θ̂. Actions that span only
    a part of the space are taken in that part: d is then its dimension. Where the spanning action whose turn it is may
    not be taken, the one that shows most of what is unseen is.

    Parameters
    ----------
    actions
        The fixed set, one row an action.
    exploration
        α: a number in units of the reward's noise, tuned.
    reward_range
        Rewards outside it are refused; None takes any finite number.

    Examples
    --------
    >>> actions = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    >>> policy = UncertaintyEllipsoid(actions, exploration=0.1)
    >>> for _ in range(30):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=float(decision.context @ [0.2, 0.5]))
    >>> policy.choose(actions).action
    1
    """

    learns_from_any_action = True

    def __init__(
        self,
        actions: Points,
        *,
        exploration: float | Constant = 1.0,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(actions, reward_range=reward_range)
        self._exploration = _constant(exploration)
        self._known: _Fit | None = None  # None when counts, sums or awaited decisions have changed

    # -- choosing --------------------------------------------------------------------------------------------------

    @property
    def exploration(self) -> Constant:
        """What the prescribed schedule is multiplied with; a number that is assigned becomes `Constant`."""
        return self._exploration

    @exploration.setter
    def exploration(self, value: float | Constant) -> None:
        self._exploration = _constant(value)

    @property
    def radius(self) -> float:
        """What widths are multiplied with in the next round."""
        logarithm = log(self.round_index)
        n_directions = min(len(self.spanning) * logarithm, self.n_actions)
        return self.exploration.value * sqrt(logarithm) * sqrt(n_directions)

    def _pick(self, actions: Actions) -> Choice:
        rows = self._eligible(actions)
        played = self._tally.counts
        if self._ledger.pending:
            played = played + np.bincount(self._awaited_rows(), minlength=self.n_actions)
        missing = self.spanning[played[self.spanning] == 0]
        to_play = missing[np.isin(missing, rows)] if missing.size else missing
        if to_play.size:
            return Choice(int(np.searchsorted(rows, to_play[0])))
        fit = self._fit(played)
        unseen = fit.unseen[rows]
        if unseen.any():
            return Choice(int(tied_for_best(unseen / unseen.max())[0]))
        scores = fit.mean[rows] + self.radius * fit.width[rows]
        place = int(tied_for_best(scores)[0])
        return Choice(place, float(fit.mean[rows[place]]), float(fit.width[rows[place]]), float(scores[place]))

    def _fit(self, played: Indices) -> _Fit:
        if self._known is None:
            values, directions, hidden = self._decomposed(self._tally.counts)
            # θ̂ of least length where rewards of spanning actions are still awaited.
            weights = directions @ ((directions.T @ (self._tally.sums @ self._coordinates)) / values)
            if played is not self._tally.counts:
                values, directions, hidden = self._decomposed(played)
            rotated = self._coordinates @ directions
            unseen = np.linalg.norm(self._coordinates @ hidden, axis=1)
            unseen[unseen <= UNSEEN * max(1.0, float(unseen.max(initial=0.0)))] = 0.0
            self._known = _Fit(self._coordinates @ weights, np.sqrt((rotated**2 / values).sum(axis=1)), unseen)
        return self._known

    def _decomposed(self, counts: Indices) -> tuple[Vector, Matrix, Matrix]:
        """Eigenvalues and -vectors of Σ n z zᵀ, and the directions in which it is zero."""
        seen = np.flatnonzero(counts)
        weighted = self._coordinates[seen] * np.sqrt(counts[seen])[:, None]
        values, directions = np.linalg.eigh(weighted.T @ weighted)
        is_seen = values > UNSEEN * max(1.0, float(values[-1]))
        return values[is_seen], directions[:, is_seen], directions[:, ~is_seen]

    # -- learning --------------------------------------------------------------------------------------------------

    def _take_in(self, decision: Decision, reward: float) -> None:
        super()._take_in(decision, reward)
        self._known = None

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        super()._correct(decision, was, now, number)
        self._known = None

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        super()._take_back(decision, reward, number)
        self._known = None

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self._known = None

    def _parameters(self) -> Parameters:
        return {
            **self._set_parameters(),
            "exploration": self.exploration.describe(),
            "reward_range": self.reward_range,
        }


def _constant(exploration: float | Constant) -> Constant:
    constant = as_exploration(exploration)
    if not isinstance(constant, Constant):
        raise InvalidParameter(
            f"The exploration multiplies a schedule that the algorithm prescribes, so it has to be a number, got "
            f"{exploration!r}."
        )
    return constant
