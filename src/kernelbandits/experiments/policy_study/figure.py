"""The study's figure: a panel a problem, a row a policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits._optional import import_optional
from kernelbandits.experiments.figures import LIGHT, dress
from kernelbandits.experiments.policy_study.problems import PROBLEMS
from kernelbandits.experiments.policy_study.table import Standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["standings_figure"]

COLORS: Final = ("blue", "orange", "green", "red", "purple", "sky", "gray")
"""Of the families, in the order in which they appear."""


def standings_figure(standings: Sequence[Standing], caption: str) -> Figure:
    """Mean regret and its interval on each problem, best on average over the problems at the top."""
    import_optional("matplotlib", "This part of experiments")
    from matplotlib import style
    from matplotlib.figure import Figure

    theme, problems = LIGHT, list(standings[0].regret)
    worst = {problem: max(standing.regret[problem] for standing in standings) for problem in problems}
    ordered = sorted(
        standings, key=lambda row: -float(np.mean([row.regret[p] / max(worst[p], 1e-9) for p in problems]))
    )
    families = list(dict.fromkeys(standing.family for standing in standings))
    color_of = {family: theme.colors[name] for family, name in zip(families, cycle(COLORS), strict=False)}
    color_of["baseline"] = theme.ink
    heights = np.arange(len(ordered))
    with style.context("default"):  # whatever the user's own settings are, and without pyplot
        figure = Figure(figsize=(10.4, 1.7 + 0.22 * len(ordered)), facecolor=theme.paper, layout="constrained")
        panels = figure.subplots(1, len(problems), sharey=True, squeeze=False)[0]
        for axes, problem in zip(panels, problems, strict=True):
            dress(axes, PROBLEMS[problem].title.split(":")[0], theme)
            axes.set_xlabel("Cumulative regret", fontsize=9, color=theme.ink)
            for height, standing in zip(heights, ordered, strict=True):
                half = standing.half_width[problem]
                axes.errorbar(
                    standing.regret[problem], height, xerr=None if np.isnan(half) else half, fmt="o", markersize=4,
                    color=color_of[standing.family], elinewidth=1.2, capsize=0,
                )  # fmt: skip
            axes.set_xlim(
                0, 1.03 * max(row.regret[problem] + np.nan_to_num(row.half_width[problem]) for row in ordered)
            )
            axes.set_ylim(-0.8, len(ordered) - 0.2)
        panels[0].set_yticks(heights, [standing.name for standing in ordered])
        for label, standing in zip(panels[0].get_yticklabels(), ordered, strict=True):
            label.set_color(color_of[standing.family])
        figure.supxlabel(f"{caption}. Colors: families of policies.", fontsize=8, color=theme.faint)
    return figure
