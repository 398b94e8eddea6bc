"""What speaks against an estimate, as sentences."""

from __future__ import annotations

from math import isnan
from typing import Final

import numpy as np

from kernelbandits.checks import counted
from kernelbandits.environments import Log
from kernelbandits.evaluation.estimate import mean_with_error
from kernelbandits.evaluation.weights import effective_sample_size
from kernelbandits.types import Vector

__all__ = ["FEW_ROUNDS", "MODEL_TRUSTED", "MODEL_UNKNOWN", "log_warnings", "shows_one_action_only", "weight_warnings"]

FEW_ROUNDS: Final = 50
"""Below it a normal interval around a mean of skewed values is a guess."""

FAR_OFF: Final = 3.0
"""Standard errors: right weights have a mean further from 1 once in four hundred logs."""

MODEL_TRUSTED: Final = "The interval takes the kernel for the right one: a wrong one errs further than it says."

MODEL_UNKNOWN: Final = "The interval leaves out the error of the reward model, which no log tells."


def weight_warnings(log: Log, weights: Vector, clip: float | None = None) -> tuple[str, ...]:
    """What the weights, before they are clipped, and the log say against an estimate made of them."""
    of_weights = (*_of_overlap(weights), *_of_length(log), *_of_mean(weights))
    return (*of_weights, *log_warnings(log), *_of_clipping(weights, clip))


def log_warnings(log: Log) -> tuple[str, ...]:
    """What is to be said whatever the policy."""
    most = int(log.n_actions.max())
    said = []
    if len(log) < most:
        rounds = counted(len(log), "round")
        said.append(f"The log has {rounds} and up to {most:,} actions: most of them were never shown.")
    if shows_one_action_only(log):
        said.append(
            "Every propensity is 1: the logging rule left nothing to chance, so that the log says nothing about other "
            "actions, and the value may be wrong by any amount."
        )
    return tuple(said)


def shows_one_action_only(log: Log) -> bool:
    """Whether the rule never had a choice to make by chance, though there were other actions."""
    return bool(len(log) and np.all(log.propensities == 1.0) and np.any(log.n_actions > 1))


def _of_length(log: Log) -> tuple[str, ...]:
    if len(log) >= FEW_ROUNDS:
        return ()
    return (f"The log has {counted(len(log), 'round')} only: an interval from so few is a guess.",)


def _of_overlap(weights: Vector) -> tuple[str, ...]:
    n_matched, n_rounds = int(np.count_nonzero(weights)), len(weights)
    if n_matched < min(FEW_ROUNDS, n_rounds):
        return (f"Only {n_matched:,} of {counted(n_rounds, 'round')} had an action that the policy might have taken.",)
    effective = effective_sample_size(weights)
    if effective < min(FEW_ROUNDS, n_rounds / 2):
        return (
            f"The effective sample is {effective:.1f} of {n_rounds:,} rounds: a few heavy weights decide the value.",
        )
    return ()


def _of_mean(weights: Vector) -> tuple[str, ...]:
    mean, error = mean_with_error(weights)
    if isnan(error) or abs(mean - 1.0) <= FAR_OFF * error + 1e-9:  # equal weights may differ from 1 by rounding
        return ()
    return (
        f"The mean weight is {mean:.3g} ± {error:.2g}, and 1 is expected: the propensities are not those of the log, "
        "or the policy takes actions that the log hardly ever shows.",
    )


def _of_clipping(weights: Vector, clip: float | None) -> tuple[str, ...]:
    share = 0.0 if clip is None else float(np.mean(weights > clip))
    return (f"{100 * share:.2g} % of the weights were clipped at {clip:g}.",) if share else ()
