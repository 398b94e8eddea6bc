"""Seconds of a round, against the round and against the number of actions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.cases import OURS_NAME
from benchmarks.results import CaseReport, Outcome, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

COLORS: Final = {OURS_NAME: "#0072B2", "Algorithm 1": "#D55E00", "scikit-learn": "#009E73", "BoTorch": "#CC79A7"}
"""Told apart also without seeing red and green."""

COMPARED_AT: Final = 300
"""The round at which sizes are compared: the last checkpoint that every exact method reaches."""


def draw(report: Report, into: Path) -> list[Path]:
    """Write the figures beside the table; none where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    mpl.use("Agg")
    curves = [case for case in report.cases if any(len(outcome.rounds) > 1 for outcome in case.outcomes)]
    curves = [case for case in curves if not case.name.startswith("w3")]  # their rounds do not get slower
    drawn = []
    if curves:
        drawn.append(_against_rounds(curves, into.with_name(f"{into.stem}-rounds.png")))
    sized = [case for case in curves if case.name.startswith(("w1-b", "w2"))]
    if len({case.n_actions for case in sized}) > 1:
        drawn.append(_against_actions(sized, into.with_name(f"{into.stem}-actions.png")))
    return drawn


def _against_rounds(cases: Sequence[CaseReport], path: Path) -> Path:
    from matplotlib import pyplot as plt

    n_columns = min(4, len(cases))
    n_rows = -(-len(cases) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 2.9 * n_rows), squeeze=False, layout="constrained"
    )
    for axes, case in zip(chain.from_iterable(grid), cases, strict=False):
        for outcome in case.outcomes:
            if outcome.rounds:
                axes.loglog(outcome.rounds, outcome.seconds, _style(outcome), color=COLORS.get(outcome.name))
        axes.set_title(case.title.replace(", N", "\nN"), fontsize=8)
        axes.grid(alpha=0.25)
    for axes in list(chain.from_iterable(grid))[len(cases) :]:
        axes.set_visible(False)
    figure.supxlabel("round t")
    figure.supylabel("seconds of one round (choose and learn)")
    _legend(figure, cases)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _against_actions(cases: Sequence[CaseReport], path: Path) -> Path:
    from matplotlib import pyplot as plt

    families = {"w1": "fixed set (W1, B)", "w2": "fresh contexts (W2, B)"}
    shown = [key for key in families if any(case.name.startswith(key) for case in cases)]
    figure, panels = plt.subplots(
        1, len(shown), figsize=(4.5 * len(shown), 3.8), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, key in zip(panels[0], shown, strict=True):
        _sizes(axes, [case for case in cases if case.name.startswith(key)])
        axes.set_title(families[key], fontsize=10)
        axes.grid(alpha=0.25)
        axes.set_xlabel("actions N")
    panels[0][0].set_ylabel(f"seconds of round {COMPARED_AT}")
    _legend(figure, cases)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _sizes(axes: Axes, cases: Sequence[CaseReport]) -> None:
    names = dict.fromkeys(outcome.name for case in cases for outcome in case.outcomes)
    for name in names:
        points = {}
        for case in cases:
            outcome = case.outcome(name)
            if outcome is not None and len(outcome.rounds) > 1 and outcome.rounds[-1] >= 0.9 * COMPARED_AT:
                points[case.n_actions] = _at(outcome, COMPARED_AT)
        if points:
            sizes = sorted(points)
            axes.loglog(sizes, [points[size] for size in sizes], "o-", color=COLORS.get(name))


def _at(outcome: Outcome, round_index: int) -> float:
    """Seconds of this round, between its neighbors on a double logarithmic scale."""
    return float(np.exp(np.interp(np.log(round_index), np.log(outcome.rounds), np.log(outcome.seconds))))


def _style(outcome: Outcome) -> str:
    return "-" if outcome.name == OURS_NAME else "o--"


def _legend(figure: object, cases: Sequence[CaseReport]) -> None:
    from matplotlib.lines import Line2D

    names = dict.fromkeys(outcome.name for case in cases for outcome in case.outcomes if outcome.rounds)
    handles = [Line2D([], [], color=COLORS.get(name), label=name) for name in names]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)  # type: ignore[attr-defined]
