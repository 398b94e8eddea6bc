"""Traces: one row per round, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits._text import repr_of_fields
from kernelbandits.environments.base import Round, place_of, single_action
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Decision, Indices, Parameters, Points, Vector

__all__ = ["NOT_COLUMNS", "NO_STAGE", "WHOLE_NUMBERS", "Recorder", "Trace"]

NO_STAGE: Final = -1
"""Value in the `stage` column if no level learns from the round."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Record of one run: columns of equal length, one row per round.

    It contains no ids and, except for `seconds`, nothing that differs between equal runs: the same environment, policy
    and seed give the same columns, and `equals` compares them.
    """

    __repr__ = repr_of_fields

    action: Indices
    """Row of the chosen context."""

    reward: Vector
    """Reward of the chosen action."""

    expected: Vector
    """Expected reward of the chosen action; nan if unknown."""

    best: Vector
    """Highest expected reward of the round; nan if unknown."""

    propensity: Vector
    """Probability of the chosen action under the policy."""

    mean: Vector
    """Reward estimated by the policy; nan if it makes no estimate (likewise `width`)."""

    width: Vector
    """Confidence width of that estimate."""

    exploration: Vector
    """Multiplier of the width in the score, (score − mean) / width; nan if undefined."""

    stage: NDArray[np.int64]
    """SupKernelUCB level that learned from the round; −1 for none."""

    n_actions: NDArray[np.int64]
    """Number of actions of the round."""

    log_det_gain: Vector
    """ln det(I + K/γ) after the round was learned; nan if the policy has no posterior."""

    inflation: Vector
    """1 + sqrt(residual/γ) after the round was learned, the factor by which an approximate posterior widens the term
    sqrt(γ) B of its intervals: 1 for an exact posterior; nan if the policy has no posterior."""

    seconds: Vector
    """Time of the policy to choose and to learn; excluded from comparisons."""

    spec: Parameters
    """Specification of the run, as plain values: environment, policy, horizon, seed."""

    contexts: tuple[Points, ...] | None = None
    """Chosen context of every round, each as a set of one action; None unless `simulate` has to store them."""

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.to_columns().items()}
        if len(set(lengths.values())) > 1:
            raise InvalidParameter(f"The columns of a trace must be equally long, got {lengths}.")

    def __len__(self) -> int:
        return len(self.action)

    @property
    def regret(self) -> Vector:
        """Cumulative pseudo-regret after each round, Σ (best − expected); nan once expectations are unknown."""
        return np.cumsum(self.best - self.expected)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return columns by name, for pandas, polars or Arrow: `pandas.DataFrame(trace.to_columns())`."""
        return {column.name: getattr(self, column.name) for column in fields(self) if column.name not in NOT_COLUMNS}

    def equals(self, other: Trace) -> bool:
        """Whether all columns except `seconds` are equal, with nan equal to nan."""
        ours, theirs = self.to_columns(), other.to_columns()
        return all(np.array_equal(ours[name], theirs[name], equal_nan=True) for name in ours if name != "seconds")


NOT_COLUMNS: Final = ("spec", "contexts")
"""Fields of a trace that are not columns of numbers."""

WHOLE_NUMBERS: Final[dict[str, Any]] = {"action": np.intp, "stage": np.int64, "n_actions": np.int64}
"""Types of the integer columns; all others are float64."""


class Recorder:
    """Recorder of rows; `trace` converts them to columns.

    Parameters
    ----------
    keep_contexts
        Whether to store the chosen context of every round.
    """

    def __init__(self, *, keep_contexts: bool = False) -> None:
        self._columns: dict[str, list[Any]] = {
            column.name: [] for column in fields(Trace) if column.name not in NOT_COLUMNS
        }
        self._contexts: list[Points] | None = [] if keep_contexts else None

    def record(
        self,
        observed: Round,
        decision: Decision,
        reward: float,
        *,
        log_det_gain: float = nan,
        inflation: float = nan,
        seconds: float = nan,
    ) -> None:
        """Record one round, after the policy has learned from it."""
        expected = observed.expected
        ours = best = nan
        if expected is not None:
            place = place_of(observed.contexts, decision.action)
            if expected.ndim != 1 or place >= len(expected):
                raise InvalidParameter(
                    f"A round has one expected reward per action, got shape {expected.shape} for action {place}."
                )
            ours, best = expected[place], expected.max()
        row = {
            "action": decision.action,
            "reward": reward,
            "expected": ours,
            "best": best,
            "propensity": decision.propensity,
            "mean": decision.mean,
            "width": decision.width,
            "exploration": (decision.score - decision.mean) / decision.width if decision.width > 0 else nan,
            "stage": NO_STAGE if decision.stage is None else decision.stage,
            "n_actions": decision.n_actions,
            "log_det_gain": log_det_gain,
            "inflation": inflation,
            "seconds": seconds,
        }
        for name, column in self._columns.items():
            column.append(row[name])
        if self._contexts is not None:
            self._contexts.append(single_action(observed.contexts, decision.action))

    def trace(self, spec: Parameters) -> Trace:
        """Return everything recorded so far, as columns."""
        columns = {
            name: np.array(column, dtype=WHOLE_NUMBERS.get(name, np.float64)) for name, column in self._columns.items()
        }
        return Trace(**columns, spec=spec, contexts=None if self._contexts is None else tuple(self._contexts))
