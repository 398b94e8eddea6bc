"""Numbers out of result folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.experiments import Results

__all__ = ["at_rounds", "by_policy", "signed", "spread", "spread_of", "spread_text"]


def by_policy(results: Results, column: str) -> dict[tuple[str, str], list[dict[int, float]]]:
    """Values of a column by round, of every run, by (environment, policy); runs in the order of their seeds."""
    frame = results.frame()
    runs: dict[tuple[str, str], list[dict[int, float]]] = {}
    for (environment, policy, _), rows in frame.groupby(["environment", "policy", "seed"], observed=True, sort=False):
        curve = dict(zip(rows["round"].tolist(), rows[column].tolist(), strict=True))
        runs.setdefault((str(environment), str(policy)), []).append(curve)
    return runs


def at_rounds(curves: Sequence[Mapping[int, float]], round_index: int) -> NDArray[np.float64]:
    """One value a run; of runs that end before, the last."""
    return np.array([curve[min(round_index, max(curve))] for curve in curves])


def spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Mean and standard deviation over runs, as plain values."""
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "deviation": deviation, "n_runs": len(values)}


def spread_text(found: Mapping[str, Any], form: str = ",.1f") -> str:
    """Mean ± standard deviation."""
    deviation = "" if found["deviation"] is None else f" ± {found['deviation']:{form}}"
    return f"{found['mean']:{form}}{deviation}"


def signed(value: float, decimals: int) -> str:
    """A number with its sign, a true minus sign.

    >>> signed(-0.25, 2), signed(0.5, 1)
    ('−0.25', '+0.5')
    """
    return f"{value:+.{decimals}f}".replace("-", "−")


def spread_of(text: str) -> tuple[float, float]:
    """Mean and standard deviation of a text as `spread_text` writes it.

    >>> spread_of("1,065.4 ± 34.7")
    (1065.4, 34.7)
    """
    mean, deviation = text.replace(",", "").split(" ± ")
    return float(mean), float(deviation)
