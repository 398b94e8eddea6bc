"""Curves over rounds as plain numbers: a few rounds, mean and standard deviation over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.experiments.plotting.curves import Curve, Markers
from kernelbandits.experiments.results import Band
from studies.numbers import at_rounds

__all__ = ["as_curve", "curve_numbers", "ends_in_words", "few_rounds", "repeats", "thinned", "values_at"]

N_PLACES: Final = 25
"""Rounds of a curve that are kept."""

DIGITS: Final = 4
"""Of a kept number: more than can be seen."""


def few_rounds(runs: Sequence[Mapping[int, float]], *, first: int = 1, logarithmic: bool = False) -> list[int]:
    """Some of the rounds that all runs know, evenly spread over the axis on which they are drawn, the last among them.

    >>> few_rounds([{t: 0.0 for t in range(10, 1_010, 10)}], logarithmic=True)[:4]
    [10, 20, 30, 40]
    """
    known = np.array(sorted(t for t in set(runs[0]).intersection(*runs[1:]) if t >= first))
    wanted = (np.geomspace if logarithmic else np.linspace)(known[0], known[-1], N_PLACES)
    nearest = np.abs(known[:, None] - wanted).argmin(axis=0)
    return [int(t) for t in np.unique(known[nearest])]


def values_at(runs: Sequence[Mapping[int, float]], rounds: Sequence[int]) -> NDArray[np.float64]:
    """Shape (n_runs, n_rounds)."""
    return np.column_stack([at_rounds(runs, t) for t in rounds])


def curve_numbers(values: NDArray[np.float64], rounds: Sequence[int]) -> dict[str, Any]:
    """Plain values of a curve, from those of its runs, shape (n_runs, n_rounds)."""
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return {
        "n_runs": len(values),
        "rounds": list(rounds),
        "mean": [_rounded(value) for value in values.mean(axis=0)],
        "deviation": [_rounded(value) for value in deviation],
    }


def thinned(runs: Sequence[Mapping[int, float]]) -> dict[str, Any]:
    """Plain values of the curve of some runs at a few rounds."""
    rounds = few_rounds(runs)
    return curve_numbers(values_at(runs, rounds), rounds)


def as_curve(found: Mapping[str, Any], *, label: str, color: str, markers: Markers | None = None) -> Curve:
    """What is drawn of it: the mean, and one standard deviation on either side."""
    band = Band(np.array(found["mean"], dtype=np.float64), np.array(found["deviation"], dtype=np.float64))
    rounds = np.array(found["rounds"], dtype=np.intp)
    return Curve(label=label, color=color, band=band, rounds=rounds, markers=markers)


def repeats(found: Sequence[Mapping[str, Any]], looks: Mapping[str, tuple[str, str]] | None = None) -> str:
    """Number of runs and kind of interval, for a caption.

    Parameters
    ----------
    looks
        Label and color by policy, where policies differ in their number of runs.

    Examples
    --------
    >>> repeats([{"n_runs": 3}, {"n_runs": 3}])
    'Mean over 3 runs; bands are one standard deviation over runs to either side.'
    """
    numbers = {curve["n_runs"] for curve in found}
    if len(numbers) == 1:
        over = f"{numbers.pop()} runs"
    else:
        named = {(looks or {})[curve["policy"]][0]: curve["n_runs"] for curve in found}
        over = "runs (" + ", ".join(f"{label}: {n_runs}" for label, n_runs in named.items()) + ")"
    return f"Mean over {over}; bands are one standard deviation over runs to either side."


def ends_in_words(shown: Mapping[str, Sequence[Curve]], form: str = ",.0f") -> str:
    """Where the curves of each panel end, for those who cannot see them: "bump (γ = 1 at 40, γ = 10 at 39)"."""
    return "; ".join(
        f"{title} (" + ", ".join(f"{curve.label} at {curve.band.mean[-1]:{form}}" for curve in curves) + ")"
        for title, curves in shown.items()
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
