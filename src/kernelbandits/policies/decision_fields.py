"""Types of the fields of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kernelbandits.checks import shown
from kernelbandits.errors import DecisionError
from kernelbandits.types import Decision

__all__ = ["check_decision"]

NUMBERS: Final = ("mean", "width", "score", "propensity")
COUNTS: Final = ("action", "n_actions", "round_index")
TEXTS: Final = ("id", "policy")


def check_decision(decision: Decision) -> None:
    """DecisionError where this is not a decision, or a field is of another type than `choose` gives it."""
    if not isinstance(decision, Decision):
        raise DecisionError(f"A decision as `choose` gives it is needed, got {type(decision).__name__}.")
    for name in COUNTS:
        if not _is_whole(getattr(decision, name)):
            raise _wrong(decision, name, "a whole number")
    for name in NUMBERS:
        value = getattr(decision, name)
        if not isinstance(value, float | np.floating) and not _is_whole(value):
            raise _wrong(decision, name, "one number")
    for name in TEXTS:
        if not isinstance(getattr(decision, name), str):
            raise _wrong(decision, name, "a string")
    if decision.stage is not None and not _is_whole(decision.stage):
        raise _wrong(decision, "stage", "a whole number, or None")
    if not isinstance(decision.item, int | np.integer | str | None) or isinstance(decision.item, np.timedelta64):
        raise _wrong(decision, "item", "a whole number, a string or None")
    if not isinstance(decision.memo, Mapping):
        raise _wrong(decision, "memo", "a mapping of names to arrays")


def _is_whole(value: object) -> bool:
    """Whether a value is a whole number of 64 bits; which of them make sense is for the policy to say."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.timedelta64):
        return False
    return -(2**63) <= int(value) < 2**63


def _wrong(decision: Decision, name: str, rule: str) -> DecisionError:
    return DecisionError(
        f"`{name}` of a decision has to be {rule}, got {shown(getattr(decision, name))}. Learn from decisions as "
        "`choose` gives them, or as `Decision.from_dict` reads them."
    )
