"""Seconds of a round, against the round and against the number of actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.cases import OURS_NAME
from benchmarks.results import CaseReport, Outcome, Report
from kernelbandits.experiments.plotting.curves import ROW_HEIGHT, Panel, panel_grid
from kernelbandits.experiments.plotting.style import VARIANTS, LegendEntry, Theme, set_log_ticks, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

COLORS: Final = {OURS_NAME: "blue", "Algorithm 1": "red", "scikit-learn": "green", "BoTorch": "purple"}

COMPARED_AT: Final = 300
"""The round at which sizes are compared: the last checkpoint that every exact method reaches."""

SECONDS: Final = "Seconds per round"


def draw(report: Report, into: Path) -> list[Path]:
    """Write the figures beside the table, in every variant; none where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return []
    curves = [case for case in report.cases if any(len(outcome.rounds) > 1 for outcome in case.outcomes)]
    curves = [case for case in curves if not case.name.startswith("w3")]  # their rounds do not get slower
    sized = [case for case in curves if case.name.startswith(("w1-b", "w2"))]
    shown = {"rounds": _rounds_panels(curves)} if curves else {}
    if len({case.n_actions for case in sized}) > 1:
        shown["actions"] = _actions_panels(sized)
    return [path for name, panels in shown.items() for path in _written(panels, into, name, _legend(curves))]


def _written(panels: Sequence[Panel], into: Path, name: str, legend: Sequence[LegendEntry]) -> Iterator[Path]:
    for variant, theme in VARIANTS.items():
        figure = panel_grid(
            panels, n_columns=min(3, len(panels)), height=ROW_HEIGHT, caption="", theme=theme, legend=legend
        )
        path = into.with_name(f"{into.stem}-{name}-{variant}.svg")
        path.write_text(svg(figure), encoding="utf-8")
        yield path


def _rounds_panels(cases: Sequence[CaseReport]) -> list[Panel]:
    return [Panel(title=case.title, y_label=SECONDS, draw=partial(_draw_rounds, case)) for case in cases]


def _draw_rounds(case: CaseReport, axes: Axes, theme: Theme) -> None:
    for outcome in case.outcomes:
        if outcome.rounds:
            color = theme.colors[COLORS.get(outcome.name, "black")]
            axes.loglog(outcome.rounds, outcome.seconds, _style(outcome), color=color, markersize=5)
    _set_ticks(axes)


def _actions_panels(cases: Sequence[CaseReport]) -> list[Panel]:
    families = {"w1": "Fixed set (W1, B)", "w2": "Fresh contexts (W2, B)"}
    found = {title: [case for case in cases if case.name.startswith(key)] for key, title in families.items()}
    return [
        Panel(
            title=title, x_label="Actions", y_label=f"Seconds of round {COMPARED_AT}", draw=partial(_draw_sizes, group)
        )
        for title, group in found.items()
        if group
    ]


def _draw_sizes(cases: Sequence[CaseReport], axes: Axes, theme: Theme) -> None:
    for name in dict.fromkeys(outcome.name for case in cases for outcome in case.outcomes):
        points = {}
        for case in cases:
            outcome = case.outcome(name)
            if outcome is not None and len(outcome.rounds) > 1 and outcome.rounds[-1] >= 0.9 * COMPARED_AT:
                points[case.n_actions] = _at(outcome, COMPARED_AT)
        if points:
            sizes = sorted(points)
            color = theme.colors[COLORS.get(name, "black")]
            axes.loglog(sizes, [points[size] for size in sizes], "o-", color=color, markersize=5)
    _set_ticks(axes)


def _set_ticks(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        set_log_ticks(axis)


def _at(outcome: Outcome, round_index: int) -> float:
    """Seconds of this round, between its neighbors on a double logarithmic scale."""
    return float(np.exp(np.interp(np.log(round_index), np.log(outcome.rounds), np.log(outcome.seconds))))


def _style(outcome: Outcome) -> str:
    return "-" if outcome.name == OURS_NAME else "o--"


def _legend(cases: Sequence[CaseReport]) -> list[LegendEntry]:
    names = dict.fromkeys(outcome.name for case in cases for outcome in case.outcomes if outcome.rounds)
    return [LegendEntry(name, COLORS.get(name, "black")) for name in names]
