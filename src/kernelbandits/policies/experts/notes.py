"""What a decision notes down so that its reward can be learnt later."""

from __future__ import annotations

import numpy as np

from kernelbandits.errors import DecisionError
from kernelbandits.types import Decision, Vector

__all__ = ["known_propensity", "noted", "noted_shares"]


def noted(decision: Decision, name: str, size: int) -> Vector:
    """An array of the memo, or DecisionError where it is missing or of another length."""
    numbers = np.asarray(decision.memo.get(name, ()))
    if numbers.shape != (size,) or numbers.dtype.kind not in "biuf":
        raise DecisionError(
            f"Decision {decision.id!r} has to bring {size} numbers as memo[{name!r}], got {numbers.size}. Keep the "
            "decision that `choose` gave, memo included: to_dict() has it all."
        )
    return numbers.astype(np.float64)


def noted_shares(decision: Decision, name: str, size: int) -> Vector:
    """Likewise one of probabilities."""
    shares = noted(decision, name, size)
    if not ((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all():
        raise DecisionError(
            f"Decision {decision.id!r} has to bring probabilities as memo[{name!r}], got {shares!r:.80}. Keep the "
            "decision that `choose` gave."
        )
    return shares


def known_propensity(decision: Decision) -> float:
    """The probability of the action that was taken, or DecisionError where it is none to divide by."""
    if not 0.0 < decision.propensity <= 1.0:
        raise DecisionError(
            f"Rewards are divided by the decision's propensity, which lies above 0 and at most at 1; decision "
            f"{decision.id!r} has {decision.propensity!r}. Learn from decisions as `choose` gives them."
        )
    return float(decision.propensity)
