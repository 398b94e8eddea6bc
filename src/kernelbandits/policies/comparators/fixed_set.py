"""Base class of policies for one fixed action set, with counts and sums per action."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import isfinite
from typing import Any, Final

import numpy as np

from kernelbandits._parameters import ValueType
from kernelbandits._saved_state import saved_array, saved_sums
from kernelbandits._transactions import Journal
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidReward, NotLearnt, NotSupported
from kernelbandits.kernels import PointKind, Rows
from kernelbandits.kernels.points import digest_of
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.posterior.observations import two_sum
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Indices, Parameters, Points, Vector

__all__ = ["ACTIONS", "FixedActionsPolicy", "RowTally", "TallyPolicy"]


ACTIONS: Final = ValueType(lambda actions: actions)
"""The fixed set of a policy, stored as `_fixed_actions` and validated in `_setup`: its kernel defines the points."""


class FixedActionsPolicy(Policy):
    """Base class of policies for one fixed set of actions, the parameter `actions` that a subclass declares.

    Every round must pass the same set. A round may exclude some of them by `eligible`, or by `only` and `without` of a
    catalog. `actions.rows` in `_pick` are then rows of the whole set; `_eligible` returns them in any case.
    """

    needs_fixed_actions = True

    def _setup(self) -> None:
        super()._setup()
        self._own_kind = kind = self._fixed_kind()
        checked = kind.check(vars(self)["_fixed_actions"])
        if not kind.count(checked):
            raise InvalidContexts("A fixed set has at least one action, got none.")
        self._fixed_actions: Points = kind.take(checked, np.arange(kind.count(checked)))
        self._keys = kind.keys(self._fixed_actions)

    def _fixed_kind(self) -> PointKind:
        """Return the point type of the fixed set."""
        return Rows()

    @property
    def n_actions(self) -> int:
        """Number of actions of the fixed set."""
        return len(self._keys)

    def _kind(self, contexts: Points) -> PointKind:
        return self._own_kind

    def _eligible(self, actions: Actions) -> Indices:
        """Return the rows, in the fixed set, of the eligible actions; an index in `_pick` refers to these."""
        return np.arange(self.n_actions) if actions.rows is None else actions.rows

    def _row_of(self, decision: Decision) -> int:
        """Return the row of a decision in the fixed set, or raise DecisionError."""
        row = decision.action
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < self.n_actions:
            raise DecisionError(f"An action is a row of the {self.n_actions} of the fixed set, got action={row!r}.")
        if decision is not self._ledger.latest:
            point = super()._point(decision)
            if self._own_kind.keys(point)[0] != self._keys[row]:
                raise DecisionError(
                    f"Decision {decision.id!r} names row {row} of the fixed set, and its context is another one. Keep "
                    "the decision that `choose` gave."
                )
        return int(row)

    def _pending_group(self, decision: Decision) -> Hashable:
        """Return the group in which `_pending_rows` counts a pending decision."""
        return None

    def _pending_key(self, decision: Decision) -> Hashable:
        return self._pending_group(decision), int(decision.action)

    def _pending_rows(self, group: Hashable = None) -> Indices:
        """Return the number of pending decisions per row, of one `_pending_group`."""
        counts = np.zeros(self.n_actions, dtype=np.int64)
        for (own, row), count in self._pending_counts().items():
            if own == group:
                counts[row] = count
        return counts

    def _point(self, decision: Decision) -> Points:
        self._row_of(decision)
        return super()._point(decision)

    def _validate_action_set(self, points: Points) -> None:
        if isinstance(points, np.ndarray) and isinstance(self._fixed_actions, np.ndarray):
            is_same = np.array_equal(points, self._fixed_actions)
        else:
            is_same = self._own_kind.keys(points) == self._keys
        if not is_same:
            raise NotSupported(
                f"{type(self).__name__} is defined for one fixed set of actions: every round has to bring the same "
                f"{self.n_actions} that it was made with. Leave some out with `eligible`; for sets that change, take "
                "KernelUCB or LinUCB."
            )

    def _description(self) -> Parameters:
        digest = digest_of(self._own_kind, self._fixed_actions)
        return {**super()._description(), "actions": {"n_actions": self.n_actions, "digest": digest}}

    def _packed_parameters(self) -> Parameters:
        return {**super()._packed_parameters(), "actions": self._own_kind.pack(self._fixed_actions)}

    @classmethod
    def _saved_kind(cls, saved: Saved) -> PointKind:
        """Return the point type of a saved fixed set."""
        return Rows() if saved.kernel is None else saved.kernel.kind

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        actions = cls._saved_kind(saved).unpack(saved.structure["actions"])
        return super()._build(saved._replace(structure={**saved.structure, "actions": actions}))


class RowTally:
    """Count and sum of rewards per row; a rejected reward leaves both unchanged.

    >>> tally = RowTally(3)
    >>> tally.add(1, 0.5)
    >>> tally.counts, tally.sums
    (array([0, 1, 0]), array([0. , 0.5, 0. ]))
    """

    def __init__(self, n_rows: int, journal: Journal | None = None) -> None:
        self._journal = Journal() if journal is None else journal
        self.counts: Indices = np.zeros(n_rows, dtype=np.int64)
        """Number of rewards per row. Read-only."""
        self.sums: Vector = np.zeros(n_rows)
        """Sum of rewards per row. Read-only."""
        self._errors: Vector = np.zeros(n_rows)  # the exact sum is sums + _errors

    def add(self, row: int, reward: float) -> None:
        """Add a reward to a row."""
        self._put(row, self.counts.item(row) + 1, reward)

    def amend(self, row: int, was: float, now: float) -> None:
        """Replace a reward of a row; raise NotLearnt if the row has none."""
        self._require_learned(row)
        self._put(row, self.counts.item(row), -was, now)

    def remove(self, row: int, reward: float) -> None:
        """Remove a reward of a row; raise NotLearnt if the row has none."""
        self._require_learned(row)
        self._put(row, self.counts.item(row) - 1, -reward)

    def _put(self, row: int, count: int, *changes: float) -> None:
        total, error = self._total(row, *changes)
        self._journal.note(self._put_back, row, self.counts.item(row), self.sums.item(row), self._errors.item(row))
        self.counts[row] = count
        self.sums[row], self._errors[row] = (total, error) if count else (0.0, 0.0)

    def _put_back(self, row: int, count: int, total: float, error: float) -> None:
        self.counts[row], self.sums[row], self._errors[row] = count, total, error

    def _require_learned(self, row: int) -> None:
        if not self.counts[row]:
            raise NotLearnt(f"No reward of action {row} has been learned, so none can be amended or unlearned.")

    def _total(self, row: int, *changes: float) -> tuple[float, float]:
        """Return the sum of a row after these changes, and its rounding error; or raise InvalidReward."""
        total, error = self.sums.item(row), self._errors.item(row)
        for change in changes:
            total, error = two_sum(total, error, change)
        if not isfinite(total):
            raise InvalidReward(
                f"The rewards of action {row} add up to more than a float64 holds, with {changes[-1]:.3g}. Scale them "
                "down."
            )
        return total, error

    def state(self) -> Parameters:
        """Return arrays for `restore`."""
        return {"counts": self.counts.copy(), "sums": self.sums.copy(), "errors": self._errors.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.counts = saved_array(state, "counts", "i", self.counts.shape, least=0, most=2**53).copy()
        sums, errors = saved_sums(state, self.counts)
        self.sums, self._errors = sums.copy(), errors.copy()


class TallyPolicy(FixedActionsPolicy):
    """Base class of policies for one fixed set that learn a count and a sum of rewards per action."""

    def _setup(self) -> None:
        super()._setup()
        self._tally = RowTally(self.n_actions, self._journal)

    def _update(self, decision: Decision, reward: float) -> None:
        self._tally.add(self._row_of(decision), reward)

    def _note_model(self) -> None:
        """Do nothing: the tally records changes per row."""

    def _validate_decision(self, decision: Decision) -> None:
        self._row_of(decision)

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._tally.amend(self._row_of(decision), was, now)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._tally.remove(self._row_of(decision), reward)

    def _state(self) -> Parameters:
        return self._tally.state()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tally.restore(state)
