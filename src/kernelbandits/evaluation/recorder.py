"""How a trace grows: whoever drives the loop writes a row a round."""

from __future__ import annotations

from dataclasses import fields
from math import nan
from typing import Any, Final

import numpy as np

from kernelbandits.environments.action_rows import place_of
from kernelbandits.environments.base import Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.trace import NO_STAGE, Trace
from kernelbandits.types import Decision, Parameters

__all__ = ["Recorder"]

WHOLE_NUMBERS: Final[dict[str, Any]] = {"action": np.intp, "stage": np.int64, "n_actions": np.int64}
"""Types of the columns that count; all others are float64."""


class Recorder:
    """Rows so far; `trace` makes columns of them."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {column.name: [] for column in fields(Trace) if column.name != "spec"}

    def record(
        self, shown: Round, decision: Decision, reward: float, *, log_det_gain: float = nan, seconds: float = nan
    ) -> None:
        """Write one round down, after the policy has learnt from it."""
        expected = shown.expected
        ours = best = nan
        if expected is not None:
            place = place_of(shown.contexts, decision.action)
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
            "seconds": seconds,
        }
        for name, column in self._columns.items():
            column.append(row[name])

    def trace(self, spec: Parameters) -> Trace:
        """Everything recorded so far, as columns."""
        columns = {
            name: np.array(column, dtype=WHOLE_NUMBERS.get(name, np.float64)) for name, column in self._columns.items()
        }
        return Trace(**columns, spec=spec)
