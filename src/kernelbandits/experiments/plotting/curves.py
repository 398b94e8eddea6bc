"""Curves with confidence bands, grids of panels, and the regret figure with proved bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits.experiments.plotting.style import (
    LIGHT,
    LegendEntry,
    Theme,
    add_legend,
    apply_theme,
    drawing_context,
    legend_height,
    new_figure,
    set_log_ticks,
)
from kernelbandits.experiments.results import Band
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Bound", "Curve", "Markers", "Panel", "curve_grid", "draw_curves", "panel_grid", "regret_figure", "thinned"]

MAX_POINTS: Final = 200
"""Points of a drawn curve: more cannot be distinguished at this size, and the file stays small."""

MARKED_POINTS: Final = 12
"""A curve of at most this many points has a marker at each, since the line between them is interpolated."""

ROW_HEIGHT, SINGLE_HEIGHT = 3.3, 4.0
"""Height in inches of a row of panels with curves, and of a figure with a single panel."""

POINTS_PER_INCH: Final = 72


@dataclass(frozen=True, kw_only=True)
class Markers:
    """Style of values that are known at some rounds only: markers with error bars instead of a line."""

    shape: str = "o"
    """A marker of matplotlib."""

    offset: float = 0.0
    """Shift to the right in points (1/72 inch), so that error bars at one round do not overlap."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Regret, or another number, of one policy after each round."""

    label: str
    color: str
    band: Band
    rounds: Indices | None = None
    """Rounds of the band's entries; None means every round from 1."""

    is_background: bool = False
    """Drawn thin, without interval and legend entry."""

    markers: Markers | None = None
    """Drawn as markers with error bars instead of a line with a band."""

    @property
    def at(self) -> Indices:
        """Rounds of the band's entries."""
        return np.arange(1, len(self.band.mean) + 1) if self.rounds is None else self.rounds


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """A proved bound on the regret of one policy, at some rounds."""

    label: str
    """May contain formulas between dollar signs; if empty, the color shows which policy it belongs to."""

    color: str
    rounds: Indices
    values: Vector


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of a figure: title, axis labels and a function that draws it."""

    title: str
    draw: Callable[[Axes, Theme], None]
    x_label: str = "Round"
    y_label: str = ""


def panel_grid(
    panels: Sequence[Panel],
    *,
    n_columns: int,
    height: float,
    caption: str,
    theme: Theme,
    legend: Sequence[LegendEntry] = (),
    share_y: bool = False,
) -> Figure:
    """Panels of equal size, row by row; in a narrow figure one below the other.

    Parameters
    ----------
    height
        Height of a row in inches.
    caption
        Written below the panels unless empty.
    legend
        Entries of a legend to the right of all panels.
    share_y
        Whether the panels of a row have one vertical axis.
    """
    with drawing_context():
        n_columns = 1 if theme.is_narrow else n_columns
        n_rows = ceil(len(panels) / n_columns)
        figure = new_figure(n_rows * height + legend_height(legend, theme), theme, caption=caption)
        places = figure.subplots(n_rows, n_columns, squeeze=False, sharey="row" if share_y else False).ravel()
        for axes, panel in zip(places, panels, strict=False):
            apply_theme(axes, panel.title, theme, x_label=panel.x_label, y_label=panel.y_label, has_labels=share_y)
            panel.draw(axes, theme)
        for axes in places[len(panels) :]:
            axes.remove()
        add_legend(figure, legend, theme)
    return figure


def curve_grid(
    by_title: Mapping[str, Sequence[Curve]],
    caption: str,
    theme: Theme,
    *,
    y_label: str,
    draw: Callable[..., None] | None = None,
    n_columns: int | None = None,
) -> Figure:
    """One panel of curves per title, with one legend for all of them.

    Parameters
    ----------
    draw
        Draws the curves of one panel; `draw_curves` by default.
    n_columns
        Panels per row; by default two, or one if there is a single panel.
    """
    draw_panel = draw or draw_curves

    def panel(title: str, curves: Sequence[Curve]) -> Panel:
        return Panel(title=title, y_label=y_label, draw=lambda axes, theme: draw_panel(axes, curves, theme))

    return panel_grid(
        [panel(title, curves) for title, curves in by_title.items()],
        n_columns=n_columns or min(2, len(by_title)),
        height=ROW_HEIGHT if len(by_title) > 1 else SINGLE_HEIGHT,
        caption=caption,
        theme=theme,
        legend=legend_entries(curve for curves in by_title.values() for curve in curves),
    )


def legend_entries(curves: Iterable[Curve]) -> list[LegendEntry]:
    """One entry per label, in the vertical order in which the curves end."""
    ends: dict[str, float] = {}
    entries: dict[str, LegendEntry] = {}
    for curve in curves:
        if not curve.is_background and curve.label not in entries:
            marker = None if curve.markers is None else curve.markers.shape
            entries[curve.label] = LegendEntry(curve.label, curve.color, marker, "none" if marker else "-")
            ends[curve.label] = float(curve.band.mean[-1])
    return [entries[label] for label in sorted(entries, key=lambda label: -ends[label])]


def draw_curves(
    axes: Axes,
    curves: Sequence[Curve],
    theme: Theme,
    *,
    from_zero: bool = True,
    log_x: bool = False,
    log_y: bool = False,
    top: float | None = None,
) -> None:
    """Draw means with their intervals; background curves first.

    Parameters
    ----------
    from_zero
        Whether the vertical axis begins at zero.
    log_x, log_y
        Whether the axes are logarithmic. The horizontal one then begins at the first round of a curve; values on the
        vertical one must be positive.
    top
        End of the vertical axis; by default slightly above everything drawn.
    """
    for curve in sorted(curves, key=lambda curve: not curve.is_background):
        if curve.markers is None:
            _draw_curve(axes, curve, theme)
        else:
            _draw_markers(axes, curve, curve.markers, theme)
    low, high = _limits(curves, from_zero=from_zero, logarithmic=log_y)
    if log_y:
        axes.set_yscale("log")
    axes.set_ylim(low, high if top is None else top)
    if log_y:
        set_log_ticks(axes.yaxis)
    _set_rounds(axes, curves, logarithmic=log_x)


def _set_rounds(axes: Axes, curves: Sequence[Curve], *, logarithmic: bool) -> None:
    last = max(int(curve.at[-1]) for curve in curves)
    if not logarithmic:
        axes.set_xlim(0, last)
        return
    first = min(int(curve.at[0]) for curve in curves)
    axes.set_xscale("log")
    axes.set_xlim(first, max(last, first + 1))
    set_log_ticks(axes.xaxis)


def _draw_curve(axes: Axes, curve: Curve, theme: Theme) -> None:
    rounds, mean, half_width = thinned(curve)
    color, line = theme.colors[curve.color], theme.layout.line
    marker = "o" if len(rounds) <= MARKED_POINTS else None
    if curve.is_background:
        axes.plot(rounds, mean, color=color, linewidth=0.9 * line, marker=marker, markersize=3 * line)
        return
    axes.fill_between(rounds, mean - half_width, mean + half_width, color=color, alpha=0.16, linewidth=0)
    axes.plot(
        rounds, mean, color=color, linewidth=1.8 * line, solid_capstyle="round", marker=marker, markersize=4 * line
    )


def _draw_markers(axes: Axes, curve: Curve, markers: Markers, theme: Theme) -> None:
    from matplotlib.transforms import ScaledTranslation

    offset = ScaledTranslation(markers.offset / POINTS_PER_INCH, 0.0, axes.figure.dpi_scale_trans)
    axes.errorbar(
        curve.at,
        curve.band.mean,
        yerr=np.nan_to_num(curve.band.half_width),
        fmt=markers.shape,
        color=theme.colors[curve.color],
        markerfacecolor=theme.background,
        markersize=5 * theme.layout.line,
        elinewidth=1.1 * theme.layout.line,
        capsize=2,
        clip_on=False,  # draws a marker at the edge completely
        zorder=3,
        transform=axes.transData + offset,
    )


def _limits(curves: Sequence[Curve], *, from_zero: bool, logarithmic: bool) -> tuple[float, float]:
    """Limits of the vertical axis: everything drawn, and a margin."""
    highest = max(float(np.max(curve.band.mean + _drawn_width(curve))) for curve in curves)
    lowest = min(float(np.min(curve.band.mean - _drawn_width(curve))) for curve in curves)
    if logarithmic:
        positive = [curve.band.mean[curve.band.mean > 0] for curve in curves]
        means = np.concatenate([*positive, [1.0]] if not any(map(len, positive)) else positive)
        return 0.7 * float(means.min()), 1.5 * max(highest, float(means.max()))
    if from_zero and all(np.min(curve.band.mean) >= 0 for curve in curves):  # an interval may be cut off
        return 0.0, 1.05 * highest if highest > 0 else 1.0
    margin = 0.05 * (highest - lowest) or 0.05 * abs(highest) or 1.0
    return lowest - margin if not from_zero else min(0.0, lowest - margin), highest + margin


def _drawn_width(curve: Curve) -> Vector:
    return np.zeros_like(curve.band.mean) if curve.is_background else np.nan_to_num(curve.band.half_width)


def thinned(curve: Curve, *, logarithmic: bool = False) -> tuple[Indices, Vector, Vector]:
    """Rounds, means and half-widths at no more than `MAX_POINTS` rounds, including the last."""
    rounds = curve.at
    if len(rounds) <= MAX_POINTS:
        return rounds, curve.band.mean, np.nan_to_num(curve.band.half_width)
    space = np.geomspace if logarithmic else np.linspace
    wanted = np.round(space(rounds[0], rounds[-1], MAX_POINTS)).astype(int)
    rows = np.unique(np.append(np.searchsorted(rounds, np.minimum(wanted, rounds[-1])), len(rounds) - 1))
    return rounds[rows], curve.band.mean[rows], np.nan_to_num(curve.band.half_width[rows])


def regret_figure(
    curves: Sequence[Curve],
    *,
    bounds: Sequence[Bound] = (),
    largest_gap: float | None = 1.0,
    caption: str = "",
    theme: Theme = LIGHT,
) -> Figure:
    """Two panels: regret with confidence intervals, and on logarithmic axes with its proved bounds.

    Parameters
    ----------
    largest_gap
        Largest regret of one round, or None if unknown. The region above this times the number of rounds is shaded: a
        bound there is vacuous.
    caption
        Written below: number of repeats, type of interval.
    """
    with drawing_context():
        entries = legend_entries(curves) + [
            LegendEntry(bound.label, bound.color, line="--", is_math=True) for bound in bounds if bound.label
        ]
        if theme.is_narrow:
            figure = new_figure(2 * ROW_HEIGHT + legend_height(entries, theme), theme, caption=caption)
            left, right = figure.subplots(2, 1)
        else:
            extra = legend_height(entries, theme)
            figure = new_figure(4.3 + extra, theme, caption=caption)
            left, right = figure.subplots(1, 2, width_ratios=(1.1, 1.0))
        apply_theme(left, "Cumulative regret", theme)
        draw_curves(left, curves, theme)
        has_bounds = bool(bounds) or largest_gap is not None
        apply_theme(right, "Logarithmic axes" + (", with proved bounds" if has_bounds else ""), theme)
        _draw_bounds(right, curves, bounds, largest_gap, theme)
        add_legend(figure, entries, theme)
    return figure


def _draw_bounds(
    axes: Axes, curves: Sequence[Curve], bounds: Sequence[Bound], largest_gap: float | None, theme: Theme
) -> None:
    first, horizon = min(int(curve.at[0]) for curve in curves), max(int(curve.at[-1]) for curve in curves)
    drawn = [thinned(curve, logarithmic=True) for curve in curves]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.autoscale(False)  # limits are set below; a regret of zero throughout would have none
    for in_background in (True, False):
        for curve, (rounds, mean, _) in zip(curves, drawn, strict=True):
            if curve.is_background == in_background:
                width = (0.8 if in_background else 1.6) * theme.layout.line
                axes.plot(rounds, mean, color=theme.colors[curve.color], linewidth=width, solid_capstyle="round")
    axes.set_xlim(first, max(horizon, first + 1))
    highest = [float(np.max(bound.values)) for bound in bounds]
    if largest_gap is None:
        means = np.concatenate([mean for _, mean, _ in drawn])
        top = max([float(means.max()), *highest]) or 1.0
        least = float(means[means > 0].min()) if np.any(means > 0) else 0.1 * top
        axes.set_ylim(max(0.7 * least, 1e-4 * top), 1.6 * top)
    else:
        _shade_vacuous(axes, largest_gap, horizon, 3.0 * max([largest_gap * horizon, *highest]), theme)
    for axis in (axes.xaxis, axes.yaxis):
        set_log_ticks(axis)
    for bound in bounds:
        color, width = theme.colors[bound.color], 1.5 * theme.layout.line
        axes.plot(bound.rounds, bound.values, color=color, linewidth=width, linestyle=(0, (4, 2)))


def _shade_vacuous(axes: Axes, largest_gap: float, horizon: int, highest: float, theme: Theme) -> None:
    """Shade the region that no policy can reach."""
    axes.set_ylim(0.2 * largest_gap, highest)
    every = np.geomspace(1, horizon, 100)
    axes.plot(every, largest_gap * every, color=theme.muted, linewidth=0.9)
    axes.fill_between(every, largest_gap * every, highest, color=theme.grid, alpha=0.55, linewidth=0, zorder=0)
    axes.text(
        0.98,
        0.03,
        f"Shaded: more than {largest_gap:g} per round,\nwhich no policy can lose.\nA bound there is vacuous.",
        transform=axes.transAxes,
        color=theme.muted,
        fontsize=theme.layout.note,
        ha="right",
        va="bottom",
    )
