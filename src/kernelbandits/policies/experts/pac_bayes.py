"""PAC-Bayes policy: one action distribution per state, close to a common prior."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import Parameter, ValueType, parameter
from kernelbandits._saved_state import SUMS_TO_ONE, saved_array, saved_shares
from kernelbandits.errors import DamagedFile, DecisionError, InvalidContexts, InvalidParameter
from kernelbandits.policies.base import LEARNING_FACTOR, UNIFORM_FACTOR
from kernelbandits.policies.experts.base import known_propensity, memo_array, memo_shares, shared_row, shares
from kernelbandits.policies.experts.expert_policy import UnitRewardPolicy
from kernelbandits.policies.randomized import ActionDistribution
from kernelbandits.selection.actions import Actions
from kernelbandits.types import SMALLEST_PROPENSITY, Decision, Indices, Matrix, Parameters, Points, Seed, Vector
from kernelbandits.validation import as_generator, check_array, check_int, check_size

__all__ = ["PACBayes", "checked_centers", "k_means_centers"]


def k_means_centers(contexts: ArrayLike, *, n_centers: int, seed: Seed = None) -> Matrix:
    """Return k-means centers, for contexts that are not discrete states; fewer if cells would be empty.

    >>> k_means_centers([[0.0], [0.2], [5.0], [5.2]], n_centers=2, seed=0).ravel().round(3).tolist()
    [0.1, 5.1]
    """
    from scipy.cluster.vq import kmeans2

    rows = checked_centers(contexts)
    unit = float(np.abs(rows).max()) or 1.0  # squares of very large or small numbers overflow or underflow
    rows = rows / unit
    distinct = np.unique(rows, axis=0)
    n_centers = min(check_int(n_centers, "The number of centers"), len(distinct))
    start = distinct[as_generator(seed).permutation(len(distinct))[:n_centers]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about empty cells, which are removed here
        centers, cells = kmeans2(rows, start, minit="matrix", iter=50)
    centers_of_cells: Matrix = unit * np.unique(centers[np.unique(cells)], axis=0)
    return centers_of_cells


def checked_centers(centers: ArrayLike) -> Matrix:
    """Return rows of finite numbers, or raise InvalidParameter."""
    rows = check_array(centers, "Centers")
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise InvalidParameter(
            f"Centers are at least one row of finite numbers each (states × columns), got shape {rows.shape}."
        )
    return rows


MARGINAL_ROUNDING: Final = 0.01
"""Tolerance of the sum of the marginal, which should be 1: the distributions in decisions may be off by 1e-6."""

TINIEST = 1e-300
"""Lower bound of the marginal inside the logarithm, so that an underflow gives a finite value."""


MOST_ACTIONS: Final = 10_000_000
"""Largest number of actions identified by their row: each takes 8 bytes per state."""


def _own_centers(centers: ArrayLike) -> Matrix:
    rows = checked_centers(centers).copy()
    rows.setflags(write=False)
    return rows


CENTERS: Final = ValueType(_own_centers, np.ndarray.tolist)


class PACBayes(UnitRewardPolicy):
    """Action distribution per state, regularized toward the marginal action distribution; for finitely many states.

    The state s of a round is the center nearest to the features that its actions share: its first row, or the context
    of `Pairs`. With N actions, n_s states, the round t, and R(a, s) the importance-weighted mean reward of action a in
    state s:

        ρ(a | s) ∝ ρ̄(a) exp(g_t R(a, s))                      g_t = learning_factor · (N t)^(1/3)
        draw from (1 − N e_t) ρ(· | s) + e_t                    e_t = min(1/(2N), uniform_factor · (N t)^(-1/3))
        ρ̄ ← (1 − 1/n_s) ρ̄ + (1/n_s) ρ(· | s)                   the `marginal` of each action, initially 1/N

    This is the fixed point of maximizing the mean reward over equally likely states minus (1/g)·I(S; A), the mutual
    information of states and actions: states with the same best action share it. Regret is of order T^(2/3). The two
    rates are reconstructed from the order of the bound, not taken from the paper's text.

    Actions are identified by their row. A round may have fewer than `n_actions` rows, or ineligible rows; the marginal
    then changes only among the available ones. More rows are rejected.

    A round costs O(n_s d + N), independent of the number of rounds, and a decision's memo holds 2N + 1 numbers. Rewards
    may be delayed; they cannot be amended, since the marginal depends on the order.

    Parameters
    ----------
    centers
        One row per state (states × columns), for instance from `k_means_centers`; for states that are numbers 0, 1, 2…
        in one column: [[0], [1], [2], …].
    n_actions
        N: the number of actions.
    uniform_factor
        Factor of e_t. "theory" is 1.
    learning_factor
        Factor of g_t. "theory" is 1.
    reward_range
        Lowest and highest reward.
    seed
        Seed of the draws.

    Examples
    --------
    >>> policy = PACBayes([[0.0], [1.0]], n_actions=2, seed=0)
    >>> for t in range(600):
    ...     state = float(t % 2)
    ...     decision = policy.choose([[state], [state]])
    ...     policy.learn(decision, 1.0 if decision.action == state else 0.0)
    >>> policy.probabilities([[0.0], [0.0]]).argmax(), policy.probabilities([[1.0], [1.0]]).argmax()
    (np.int64(0), np.int64(1))

    References
    ----------
    Seldin, Auer, Laviolette, Shawe-Taylor and Ortner (2011), PAC-Bayesian analysis of contextual bandits.
    """

    centers: Parameter[ArrayLike, Matrix] = parameter(CENTERS, kw_only=False)
    n_actions: int = parameter(partial(check_int, name="The number of actions", most=MOST_ACTIONS))
    uniform_factor: Parameter[float | Literal["theory"], float] = parameter(UNIFORM_FACTOR, default=1.0, theory=1.0)
    learning_factor: Parameter[float | Literal["theory"], float] = parameter(LEARNING_FACTOR, default=1.0, theory=1.0)

    def _setup(self) -> None:
        super()._setup()
        check_size("Sums of rewards per state and action", len(self.centers), self.n_actions)
        self._marginal: Vector = np.full(self.n_actions, 1.0 / self.n_actions)
        self._sums: Matrix = np.zeros((len(self.centers), self.n_actions))  # Σ r/p of each state and action
        self._visits: Vector = np.zeros(len(self.centers))

    @property
    def marginal(self) -> Vector:
        """ρ̄: approximate marginal probability of each action over all states."""
        return self._marginal.copy()

    @property
    def estimates(self) -> Matrix:
        """R: importance-weighted mean reward (states × actions), 0 in states never observed."""
        return self._sums / np.maximum(self._visits, 1.0)[:, None]

    def state_of(self, contexts: Points) -> int:
        """Return the state of a round: its nearest center, the first among ties."""
        row = shared_row(contexts)
        if len(row) != self.centers.shape[1]:
            raise InvalidContexts(
                f"The centers have {self.centers.shape[1]} columns; what the actions of this round share has "
                f"{len(row)}."
            )
        away = np.abs(self.centers / 2.0 - np.asarray(row) / 2.0)  # halved: avoids overflow of the difference
        unit = float(away.max()) or 1.0  # squares of very large or small numbers overflow or underflow
        return int(np.argmin(((away / unit) ** 2).sum(axis=1)))

    def _distribution(self, actions: Actions) -> ActionDistribution:
        rows, state, n_actions = self._rows(actions), self.state_of(actions.whole), actions.n_actions
        scale = (n_actions * self.round_index) ** (1.0 / 3.0)
        estimates = self._sums[state, rows] / max(self._visits[state], 1.0)
        marginal = np.log(np.maximum(self._marginal[rows], TINIEST))
        rule = shares(marginal + self.learning_factor * scale * estimates)

        floor = min(1.0 / (2.0 * n_actions), self.uniform_factor / scale)
        played = (1.0 - n_actions * floor) * rule + floor
        return ActionDistribution(
            played / played.sum(),
            memo={"state": np.array([state]), "rows": rows, "rule": rule},
        )

    def _n_limited(self, actions: Actions) -> int:
        return actions.n_rows  # it knows actions by their row

    def _rows(self, actions: Actions) -> Indices:
        return np.arange(actions.n_rows) if actions.rows is None else np.asarray(actions.rows)

    def _note_model(self) -> None:
        self._note_references()

    def _validate_decision(self, decision: Decision) -> None:
        rows, _ = self._noted_places(decision)
        rule = memo_shares(decision, "rule", len(rows))
        if not abs(rule.sum() - 1.0) <= 1e-6 or len(np.unique(rows)) < len(rows):
            raise DecisionError(
                f"Decision {decision.id!r} has to bring a probability for each of its actions, 1 in sum. Keep the "
                "decision that `choose` gave."
            )

    def _update(self, decision: Decision, reward: float) -> None:
        earned = self._rewards.unit(reward) / known_propensity(decision)
        rows, state = self._noted_places(decision)
        rule = memo_array(decision, "rule", len(rows))
        sums, marginal, visits = self._sums.copy(), self._marginal.copy(), self._visits.copy()
        sums[state, decision.action] += earned
        visits[state] += 1.0
        share = 1.0 / len(self.centers)
        marginal[rows] = (1.0 - share) * marginal[rows] + share * marginal[rows].sum() * rule
        self._sums, self._marginal, self._visits = sums, marginal, visits

    def _noted_places(self, decision: Decision) -> tuple[Indices, int]:
        rows = np.asarray(decision.memo.get("rows", ()))
        state = int(memo_array(decision, "state", 1)[0])
        is_known = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) and 0 <= state < len(self.centers)
        if not is_known or rows.min() < 0 or rows.max() >= self.n_actions or decision.action not in rows:
            raise DecisionError(f"Decision {decision.id!r} refers to actions or states that do not exist.")
        return rows, state

    def _state(self) -> Parameters:
        return {"habit": self._marginal, "sums": self._sums, "visits": self._visits}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._marginal = saved_shares(state, "habit", self.n_actions, rounding=MARGINAL_ROUNDING)
        self._visits = saved_array(state, "visits", "f", self._visits.shape, least=0.0, most=2.0**53)
        self._sums = saved_array(state, "sums", "f", self._sums.shape, least=0.0)
        if (self._sums > self._visits[:, None] / SMALLEST_PROPENSITY * (1.0 + SUMS_TO_ONE)).any():
            raise DamagedFile("A sum of rewards in the file is larger than that many visits of its state can have.")
