"""What is drawn against the rounds: numbers of every run of a policy, shape (n_runs, n_rounds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

import numpy as np

from kernelbandits.experiments.curves import Curve
from kernelbandits.experiments.reporting.looks import Look
from kernelbandits.experiments.results import PolicyRuns, mean_band
from kernelbandits.types import Indices, Matrix, Vector

__all__ = [
    "effective_dimension",
    "information_gain",
    "mean_reward",
    "regret",
    "seconds",
    "series_curve",
]

N_STRETCHES: Final = 24
"""Of the curve of times: enough to see it grow, few enough to even out what else the machine did."""


def series_curve(
    played: PolicyRuns, look: Look, series: Callable[[PolicyRuns], tuple[Indices, Matrix]]
) -> Curve | None:
    """Mean and interval at the rounds at which all runs know the number; None where there is no such round."""
    rounds, values = series(played)
    known = np.isfinite(values).all(axis=0)
    if not known.any():
        return None
    return Curve(
        label=played.label,
        color=look.color,
        band=mean_band(values[:, known]),
        rounds=rounds[known],
        is_quiet=look.is_quiet,
    )


def regret(played: PolicyRuns) -> tuple[Indices, Matrix]:
    """Cumulative pseudo-regret."""
    return played.rounds, played.curves("regret")


def mean_reward(played: PolicyRuns) -> tuple[Indices, Matrix]:
    """Reward so far divided by rounds so far."""
    return played.rounds, played.curves("total_reward") / played.rounds


def information_gain(played: PolicyRuns) -> tuple[Indices, Matrix]:
    """Half the log-determinant, ln det(I + K/γ) / 2."""
    return played.rounds, played.curves("log_det_gain") / 2.0


def effective_dimension(played: PolicyRuns) -> tuple[Indices, Matrix]:
    """Known at a few rounds."""
    return played.rounds, played.curves("effective_dimension")


def seconds(played: PolicyRuns) -> tuple[Indices, Matrix]:
    """Seconds a round, where every run kept them: means over not too many stretches of rounds, at their ends."""
    times = [run.seconds for run in played.runs if run.seconds is not None]
    if len(times) < played.n_runs:
        return np.empty(0, dtype=np.intp), np.empty((played.n_runs, 0))
    rounds = reduce(np.intersect1d, [time["round"] for time in times])
    ends = rounds[np.unique(np.linspace(0, len(rounds) - 1, N_STRETCHES + 1).round().astype(int))[-N_STRETCHES:]]
    return ends.astype(np.intp), np.array([_stretches(time, ends) for time in times])


def _stretches(time: Mapping[str, Vector], ends: Vector) -> Vector:
    """Mean seconds a round up to each end, from the end before."""
    total = np.cumsum(time["seconds"] * np.diff(time["round"], prepend=0))
    spent = total[np.searchsorted(time["round"], ends)]
    return np.asarray(np.diff(spent, prepend=0.0) / np.diff(ends, prepend=0))
