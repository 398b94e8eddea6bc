"""What several repeats say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Trace
from kernelbandits.types import Vector
from kernelbandits.validation import check_array, check_mapping

__all__ = ["CONFIDENCE", "Band", "Row", "mean_band", "summarize"]

CONFIDENCE: Final = 0.95
"""Of every interval in tables and figures."""


@dataclass(frozen=True, eq=False)
class Band:
    """Mean over repeats and half the length of its confidence interval, at one place or along a curve."""

    mean: Vector
    half_width: Vector
    """nan where there is a single repeat."""


def mean_band(values: ArrayLike) -> Band:
    """Mean over the first axis with Student's t interval: mean ± t_{n−1} · s / sqrt(n).

    >>> band = mean_band([1.0, 2.0, 3.0])
    >>> float(band.mean), round(float(band.half_width), 3)
    (2.0, 2.484)
    """
    repeats = check_array(values, "Values of repeats")
    if not repeats.ndim or not len(repeats):
        raise InvalidParameter("A mean needs at least one repeat, got none.")
    n = len(repeats)
    if n == 1:
        return Band(repeats[0], np.full_like(repeats[0], np.nan))
    quantile = float(stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0))
    return Band(repeats.mean(axis=0), np.asarray(quantile * repeats.std(axis=0, ddof=1) / np.sqrt(n)))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One policy in the table."""

    name: str
    regret: float
    """Mean cumulative regret over seeds at the end."""

    half_width: float
    """Half the length of its confidence interval; nan with one seed."""

    share: float
    """Regret as a share of the reference policy's; nan where that has none."""

    seconds_per_round: float
    """To choose and to learn, on average over all rounds and seeds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        return {
            name: None if isinstance(value, float) and isnan(value) else value for name, value in vars(self).items()
        }


def summarize(traces: Mapping[str, Sequence[Trace]], *, reference: str) -> tuple[Row, ...]:
    """The table, lowest regret first; shares are of the policy called `reference`."""
    for name, runs in check_mapping(traces, "The traces", "Comparison.run gives them.").items():
        if not runs or not all(len(getattr(run, "regret", ())) for run in runs):
            raise InvalidParameter(f"The policy {name!r} needs at least one trace, and none without rounds.")
    if reference not in traces:
        raise InvalidParameter(f"There is no policy {reference!r} to compare with, only {', '.join(map(str, traces))}.")
    final = {name: mean_band([run.regret[-1] for run in runs]) for name, runs in traces.items()}
    whole = float(final[reference].mean)
    rows = [
        Row(
            name=name,
            regret=float(final[name].mean),
            half_width=float(final[name].half_width),
            share=float(final[name].mean) / whole if whole > 0 else nan,
            seconds_per_round=float(np.mean([run.seconds.mean() for run in runs])),
        )
        for name, runs in traces.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.regret))
