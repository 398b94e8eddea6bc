"""Linear policies that learn from a spanning set of actions: UncertaintyEllipsoid and PEGE."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits._parameters import Parameter, ValueType, described, parameter
from kernelbandits._saved_state import saved_count
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter, NotLearnt
from kernelbandits.kernels import Linear
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.policies.base import REWARD_RANGE
from kernelbandits.policies.comparators.fixed_set import ACTIONS, TallyPolicy
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.theory.exploration import Constant, as_exploration, exploration_from
from kernelbandits.types import Decision, Indices, Matrix, Parameters, Points, Selection, Vector

__all__ = ["PEGE", "SpanningPolicy", "UncertaintyEllipsoid", "coordinates_of", "spanning_rows", "to_one", "unit_rows"]

SPAN_TOLERANCE: Final = 1e-10
"""Relative tolerance of linear dependence.

An action whose residual is at most this fraction of the longest action counts as a combination of the chosen ones. Far
above rounding errors, far below any intended feature.
"""


def to_one(points: Matrix) -> Matrix:
    """Scale the points so that the largest absolute number is 1, to avoid over- and underflow of squares.

    Raises InvalidContexts if all numbers are zero: there is no direction to learn in.
    """
    largest = float(np.abs(points).max())
    if largest == 0.0:
        raise InvalidContexts(
            f"All {len(points)} actions are zero, so that no linear reward distinguishes them. Add a column of ones."
        )
    return points / largest


def spanning_rows(points: Matrix) -> Indices:
    """Return rows of linearly independent points that span all points, by greedy volume maximization.

    The first is the longest point, the next the one furthest from the line through it, then from the plane through
    both, and so on; ties go to the lowest row. The volume is at least 1/r! of the largest that r points can have.
    O(N d r).

    >>> spanning_rows(np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 1.0]])).tolist()
    [1, 2]
    """
    left = to_one(points)
    chosen: list[int] = []
    directions: list[Matrix] = []
    longest = 0.0
    for _ in range(min(points.shape)):
        lengths = np.linalg.norm(left, axis=1)
        most = float(lengths.max())
        longest = longest or most
        if most <= SPAN_TOLERANCE * longest:
            break
        row = int(tied_for_best(lengths / most)[0])
        direction = left[row] / lengths[row]
        for earlier in directions:  # reorthogonalization: the division has amplified the residual
            direction = direction - (direction @ earlier) * earlier
        direction = direction / np.linalg.norm(direction)
        left = left - np.outer(left @ direction, direction)
        chosen.append(row)
        directions.append(direction)
    return np.array(chosen, dtype=np.intp)


def coordinates_of(points: Matrix, rows: Indices) -> Matrix:
    """Express every point in spanning ones: z with x = Σ z_i · points[rows[i]]; a spanning point is a unit vector.

    >>> coordinates_of(np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]]), np.array([0, 1]))
    array([[1.  , 0.  ],
           [0.  , 1.  ],
           [0.5 , 0.25]])
    """
    scaled = to_one(points)
    coordinates = np.ascontiguousarray(np.linalg.lstsq(scaled[rows].T, scaled.T, rcond=None)[0].T)
    coordinates[rows] = np.eye(len(rows))
    return coordinates


class SpanningPolicy(TallyPolicy):
    """Base class of policies that learn from a spanning subset of a fixed set.

    Coordinates are those of the spanning actions: a spanning action is a unit vector. By linearity, the coordinates of
    an action are also the coefficients of its reward in the rewards of the spanning actions.
    """

    actions: Points = parameter(ACTIONS, kw_only=False, attribute="_fixed_actions")
    reward_range: tuple[float, float] | None = parameter(REWARD_RANGE, default=None)

    def _setup(self) -> None:
        super()._setup()
        features = Linear().features(self.actions)
        self.spanning: Indices = spanning_rows(features)
        """Rows of the spanning actions, chosen by greedy volume, in the order of exploration."""
        self._coordinates: Matrix = coordinates_of(features, self.spanning)

    def _note_model(self) -> None:
        self._note_references()


def unit_rows(like: Points) -> Points:
    """Return one row per axis, dense or sparse like `like`: at these, a posterior gives C⁻¹ and θ̂.

    >>> unit_rows(np.array([[3.0, 4.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    axes = np.eye(like.shape[1])
    if not is_sparse(like):
        return axes
    from scipy.sparse import csr_array

    return csr_array(axes)


UNSEEN: Final = 1e-10
"""Eigenvalues of Σ z zᵀ up to this, relative to the largest and to 1, belong to unobserved directions."""


class _Fit(NamedTuple):
    """Least-squares fit to all rounds so far, evaluated for every action."""

    mean: Vector
    width: Vector
    unseen: Vector
    """Length of the component in unobserved directions; zero once all spanning actions were selected."""


def _constant(exploration: float | Constant) -> Constant:
    constant = as_exploration(exploration)
    if not isinstance(constant, Constant):
        raise InvalidParameter(
            f"The exploration multiplies a schedule that the algorithm prescribes, so it must be a number, got "
            f"{exploration!r}."
        )
    return constant


CONSTANT: Final = ValueType(_constant, described, None, exploration_from)


class UncertaintyEllipsoid(SpanningPolicy):
    """Least squares without a ridge, after spanning actions were selected (Rusmevichientong and Tsitsiklis 2010, UE).

    First, each of d spanning actions, chosen by greedy volume, is selected once. From then on, with C = (Σ x xᵀ)⁻¹ and
    θ̂ = C Σ r x over all rounds, in round t among N actions:

        score = x·θ̂ + exploration · sqrt(ln t) · sqrt(min(d ln t, N)) · sqrt(xᵀ C x)

    Defined for one fixed set of actions. A round costs O(N d² + d³) for any t. The exploration of the theory is large.
    Pending decisions count in C and not in θ̂. If the actions span only a
    subspace, the policy works in that subspace: d is then its dimension. If the next spanning action is not eligible,
    the action with the largest component in unobserved directions is selected.

    Parameters
    ----------
    actions
        The fixed set, one row per action.
    exploration
        α: a number in units of the reward noise. Its authors give no value; the default is the best of a grid.
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.

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

    exploration: Parameter[float | Constant, Constant] = parameter(CONSTANT, default=0.1, is_assignable=True)

    def _setup(self) -> None:
        super()._setup()
        self._known: _Fit | None = None  # None: counts, sums or pending decisions have changed

    @property
    def radius(self) -> float:
        """Factor of the widths in the next round."""
        logarithm = log(self.round_index)
        n_directions = min(len(self.spanning) * logarithm, self.n_actions)
        return self.exploration.value * sqrt(logarithm) * sqrt(n_directions)

    def _pick(self, actions: Actions) -> Selection:
        rows = self._eligible(actions)
        played, pending = self._tally.counts, self._pending_rows()
        if pending.any():
            played = played + pending
        missing = self.spanning[played[self.spanning] == 0]
        to_play = missing[np.isin(missing, rows)] if missing.size else missing
        if to_play.size:
            return Selection(int(np.searchsorted(rows, to_play[0])))
        fit = self._fit(played)
        unseen = fit.unseen[rows]
        if unseen.any():
            return Selection(int(tied_for_best(unseen / unseen.max())[0]))
        scores = fit.mean[rows] + self.radius * fit.width[rows]
        place = int(tied_for_best(scores)[0])
        return Selection(place, float(fit.mean[rows[place]]), float(fit.width[rows[place]]), float(scores[place]))

    def _fit(self, played: Indices) -> _Fit:
        if self._known is None:
            values, directions, hidden = self._decomposed(self._tally.counts)
            # Minimum-norm θ̂ while rewards of spanning actions are still pending.
            weights = directions @ ((directions.T @ (self._tally.sums @ self._coordinates)) / values)
            if played is not self._tally.counts:
                values, directions, hidden = self._decomposed(played)
            rotated = self._coordinates @ directions
            unseen = np.linalg.norm(self._coordinates @ hidden, axis=1)
            unseen[unseen <= UNSEEN * max(1.0, float(unseen.max(initial=0.0)))] = 0.0
            self._known = _Fit(self._coordinates @ weights, np.sqrt((rotated**2 / values).sum(axis=1)), unseen)
        return self._known

    def _decomposed(self, counts: Indices) -> tuple[Vector, Matrix, Matrix]:
        """Return eigenvalues and eigenvectors of Σ n z zᵀ, and a basis of its null space."""
        seen = np.flatnonzero(counts)
        weighted = self._coordinates[seen] * np.sqrt(counts[seen])[:, None]
        values, directions = np.linalg.eigh(weighted.T @ weighted)
        is_seen = values > UNSEEN * max(1.0, float(values[-1]))
        return values[is_seen], directions[:, is_seen], directions[:, ~is_seen]

    # -- learning --------------------------------------------------------------------------------------------------

    def _update(self, decision: Decision, reward: float) -> None:
        super()._update(decision, reward)
        self._known = None

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        super()._amend_reward(decision, was, now, number)
        self._known = None

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        super()._remove_reward(decision, reward, number)
        self._known = None

    def _pending_changed(self, decision: Decision, change: int) -> None:
        super()._pending_changed(decision, change)
        self._known = None


EXPLORES: Final = "explores"
EXPLOITS: Final = "exploits"


class PEGE(SpanningPolicy):
    """Phased exploration and greedy exploitation (Rusmevichientong and Tsitsiklis 2010), without widths or tuning.

    In cycle c = 1, 2, … each of d spanning actions b, chosen by greedy volume, is selected once; then the action with
    the highest x·θ̂ is selected c times, where θ̂ = (1/c) (Σ b bᵀ)⁻¹ Σ b r averages the estimates of all cycles so far.
    The b are linearly independent, so b·θ̂ is the mean reward of b in its explorations. The policy does not learn from
    exploitation.

    Which round explores depends on the learned and pending decisions: with c the fewest explorations of a spanning
    action, the cycle exploits until the total number of exploitations is c (c + 1) / 2. So rewards may be delayed and
    arrive in any order. `decision.stage` is the cycle of an exploration, and None for an exploitation. Ineligible
    spanning actions are skipped in that round.

    Designed for one fixed set whose best action varies smoothly with θ, such as points on a sphere: regret d sqrt(T)
    there. On a set with corners it continues to explore when the best action is already known. A round costs O(N d) for
    any t.

    Parameters
    ----------
    actions
        The fixed set, one row per action; every round must pass the same set.
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.

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

    def _setup(self) -> None:
        super()._setup()
        self._n_exploited = 0

    # -- choosing --------------------------------------------------------------------------------------------------

    @property
    def greedy_action(self) -> int:
        """Row of the action with the highest current estimate."""
        return int(tied_for_best(self._means(np.arange(self.n_actions)))[0])

    def _means(self, rows: Indices) -> Vector:
        """Return x·θ̂: the combination of the spanning actions' mean rewards; 0 for those without a reward yet."""
        counts, sums = self._tally.counts[self.spanning], self._tally.sums[self.spanning]
        return np.asarray(self._coordinates[rows] @ (sums / np.maximum(counts, 1)))

    def _pick(self, actions: Actions) -> Selection:
        rows = self._eligible(actions)
        explored, n_exploited = self._progress()
        open_to_us = np.flatnonzero(np.isin(self.spanning, rows))
        fewest = int(explored[open_to_us].min(initial=np.iinfo(np.int64).max))
        if open_to_us.size and n_exploited >= fewest * (fewest + 1) // 2:
            row = int(self.spanning[open_to_us[explored[open_to_us] == fewest][0]])
            return Selection(int(np.searchsorted(rows, row)), stage=fewest + 1)
        means = self._means(rows)
        place = int(tied_for_best(means)[0])
        return Selection(place, mean=float(means[place]), score=float(means[place]))

    def _progress(self) -> tuple[Indices, int]:
        """Return the number of explorations per spanning action and of exploitations, learned or pending."""
        explored = self._tally.counts + self._pending_rows(EXPLORES)
        return explored[self.spanning], self._n_exploited + int(self._pending_rows(EXPLOITS).sum())

    def _pending_group(self, decision: Decision) -> Hashable:
        return EXPLOITS if decision.stage is None else EXPLORES

    # -- learning --------------------------------------------------------------------------------------------------

    def _validate_decision(self, decision: Decision) -> None:
        self._explores(decision)

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

    def _update(self, decision: Decision, reward: float) -> None:
        if self._explores(decision):
            super()._update(decision, reward)
        else:
            self._n_exploited += 1

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if self._explores(decision):
            super()._amend_reward(decision, was, now, number)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        if self._explores(decision):
            super()._remove_reward(decision, reward, number)
        elif self._n_exploited:
            self._n_exploited -= 1
        else:
            raise NotLearnt("No exploiting decision has been learned, so none can be unlearned.")

    # -- description and serialization -----------------------------------------------------------------------------

    def _state(self) -> Parameters:
        return {**super()._state(), "n_exploited": self._n_exploited}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._n_exploited = saved_count(state, "n_exploited")
