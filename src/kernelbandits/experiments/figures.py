"""Regret over time, and what is proved about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelbandits._optional import import_optional
from kernelbandits.experiments.curves import WIDTH, Curve, draw_curves, label_room, thinned, write_caption
from kernelbandits.experiments.images import pdf, png, svg
from kernelbandits.experiments.labels import spread
from kernelbandits.experiments.themes import DARK, LIGHT, Theme, dress
from kernelbandits.experiments.ticks import tick_logarithmically
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DARK",
    "LIGHT",
    "Bound",
    "Curve",
    "Theme",
    "dress",
    "pdf",
    "png",
    "regret_figure",
    "spread",
    "svg",
]

EDGES, GAP, LEFT_SHARE = (0.645, 0.208), 0.317, 0.5214
"""Inches left and right of the panels and, beside the names, between them; the left panel's share of the rest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What is proved about one policy: in the named rounds its regret is at most this."""

    label: str
    """May be empty: then the color alone tells whose it is."""

    color: str
    rounds: Indices
    values: Vector


def regret_figure(
    curves: Sequence[Curve],
    *,
    bounds: Sequence[Bound] = (),
    largest_gap: float | None = 1.0,
    caption: str = "",
    theme: Theme = LIGHT,
) -> Figure:
    """Two panels: regret as it is, with intervals, and on logarithmic axes under its bounds.

    Parameters
    ----------
    largest_gap
        Most that one round can cost; None where that is not known. What lies above this times the number of rounds is
        shaded: a bound up there is true and says nothing.
    caption
        Written below: the number of repeats, the kind of interval.
    """
    import_optional("matplotlib", "This part of experiments")
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"):  # whatever the user's own settings are, and without pyplot
        figure = Figure(figsize=(WIDTH, 4.9 if caption else 4.4), facecolor=theme.paper)
        floor = 0.24 if caption else 0.13
        room = label_room(curves)
        panels = (WIDTH - sum(EDGES) - GAP - room) / WIDTH
        left = figure.add_axes((EDGES[0] / WIDTH, floor, LEFT_SHARE * panels, 0.91 - floor))
        beginning = 1.0 - EDGES[1] / WIDTH - (1.0 - LEFT_SHARE) * panels
        right = figure.add_axes((beginning, floor, (1.0 - LEFT_SHARE) * panels, 0.91 - floor))
        dress(left, "Cumulative regret", theme)
        draw_curves(left, curves, theme, room=room)
        _draw_bounds(right, curves, bounds, largest_gap, theme)
        write_caption(figure, caption, theme)
    return figure


def _draw_bounds(
    axes: Axes, curves: Sequence[Curve], bounds: Sequence[Bound], largest_gap: float | None, theme: Theme
) -> None:
    proved = bool(bounds) or largest_gap is not None
    dress(axes, "On logarithmic axes" + (", under what is proved" if proved else ""), theme)
    first, horizon = min(int(curve.at[0]) for curve in curves), max(int(curve.at[-1]) for curve in curves)
    drawn = [thinned(curve, logarithmic=True) for curve in curves]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.autoscale(False)  # limits are set below, and a regret of zero throughout would have none
    for quiet in (True, False):
        for curve, (rounds, mean, _) in zip(curves, drawn, strict=True):
            if curve.is_quiet == quiet:
                width = 0.8 if quiet else 1.6
                axes.plot(rounds, mean, color=theme.colors[curve.color], linewidth=width, solid_capstyle="round")
    axes.set_xlim(first, max(horizon, first + 1))
    highest = [float(np.max(bound.values)) for bound in bounds]
    if largest_gap is None:
        means = np.concatenate([mean for _, mean, _ in drawn])
        top = max([float(means.max()), *highest]) or 1.0
        least = float(means[means > 0].min()) if np.any(means > 0) else 0.1 * top
        axes.set_ylim(max(0.7 * least, 1e-4 * top), 1.6 * top)
    else:
        _shade(axes, largest_gap, horizon, 3.0 * max([largest_gap * horizon, *highest]), theme)
    for axis in (axes.xaxis, axes.yaxis):
        tick_logarithmically(axis)
    for bound in bounds:
        _draw_bound(axes, bound, horizon, theme)


def _shade(axes: Axes, largest_gap: float, horizon: int, highest: float, theme: Theme) -> None:
    """Gray over what no policy can lose."""
    axes.set_ylim(0.2 * largest_gap, highest)
    every = np.geomspace(1, horizon, 100)
    axes.plot(every, largest_gap * every, color=theme.faint, linewidth=0.9)
    axes.fill_between(every, largest_gap * every, highest, color=theme.grid, alpha=0.55, linewidth=0, zorder=0)
    axes.text(
        0.98,
        0.03,
        f"Shaded: more than {largest_gap:g} a round,\nwhich no policy can lose.\nA bound up there says nothing yet.",
        transform=axes.transAxes,
        color=theme.faint,
        fontsize=8,
        ha="right",
        va="bottom",
    )


def _draw_bound(axes: Axes, bound: Bound, horizon: int, theme: Theme) -> None:
    color = theme.colors[bound.color]
    axes.plot(bound.rounds, bound.values, color=color, linewidth=1.5, linestyle=(0, (4, 2)))
    place = int(np.searchsorted(bound.rounds, horizon**0.62))  # where there is room to its left
    axes.annotate(
        bound.label,
        xy=(float(bound.rounds[place]), float(bound.values[place])),
        xytext=(-6, 6),
        textcoords="offset points",
        color=color,
        fontsize=8.5,
        ha="right",
    )
