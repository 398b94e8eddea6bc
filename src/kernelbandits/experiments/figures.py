"""Regret over time, and what is proved about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernelbandits.experiments.extras import require
from kernelbandits.experiments.summary import Band
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DARK", "LIGHT", "Bound", "Curve", "Theme", "dress", "png", "regret_figure", "spread", "svg"]

MOST_POINTS: Final = 200
"""Of a drawn curve: more than the eye can tell apart at this size, and a small file."""

LABEL_GAP: Final = 0.062
"""Least distance of two labels beside a panel, as a share of its height."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours of one appearance; curves name theirs by a word."""

    paper: str
    ink: str
    faint: str
    grid: str
    colours: Mapping[str, str]


# Both after the palette of Okabe and Ito, which people of any common colour vision can tell apart: the light ones made
# darker on white paper so that labels can be read, all of them lighter on dark paper.
LIGHT: Final = Theme(
    paper="#ffffff",
    ink="#1a1a1a",
    faint="#666666",
    grid="#e6e6e6",
    colours={
        "blue": "#0072b2",
        "sky": "#3d9fdb",
        "orange": "#d98e00",
        "red": "#d55e00",
        "purple": "#b4588e",
        "green": "#009e73",
        "grey": "#808080",
    },
)
DARK: Final = Theme(
    paper="#14161a",
    ink="#e8e8e8",
    faint="#a0a4ab",
    grid="#2b2f36",
    colours={
        "blue": "#4aa8e8",
        "sky": "#a5dcff",
        "orange": "#f2b53c",
        "red": "#f47f3e",
        "purple": "#e69ac9",
        "green": "#3fcfa6",
        "grey": "#9a9a9a",
    },
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Regret of one policy after each round."""

    label: str
    colour: str
    band: Band


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What is proved about one policy: in the named rounds its regret is at most this."""

    label: str
    colour: str
    rounds: Indices
    values: Vector


def regret_figure(
    curves: Sequence[Curve],
    *,
    bounds: Sequence[Bound] = (),
    largest_gap: float = 1.0,
    caption: str = "",
    theme: Theme = LIGHT,
) -> Figure:
    """Two panels: regret as it is, with intervals, and on logarithmic axes under its bounds.

    Parameters
    ----------
    largest_gap
        Most that one round can cost. What lies above this times the number of rounds is shaded: a bound up there is
        true and says nothing.
    caption
        Written below: the number of repeats, the kind of interval.
    """
    require("matplotlib")
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"):  # whatever the user's own settings are, and without pyplot
        figure = Figure(figsize=(10.4, 4.9 if caption else 4.4), facecolor=theme.paper)
        floor = 0.24 if caption else 0.13
        left = figure.add_axes((0.062, floor, 0.365, 0.91 - floor))
        right = figure.add_axes((0.645, floor, 0.335, 0.91 - floor))
        _draw_regret(left, curves, theme)
        _draw_bounds(right, curves, bounds, largest_gap, theme)
        figure.text(0.008, 0.025, fill(caption, 172), color=theme.faint, fontsize=8, va="bottom", linespacing=1.35)
    return figure


def png(figure: Figure, *, dots_per_inch: int = 200) -> bytes:
    """The figure as the bytes of a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """The figure as SVG, letters drawn as shapes; equal figures give equal text."""
    from matplotlib import rc_context

    buffer = StringIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "kernelbandits"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def spread(positions: Sequence[float], gap: float) -> Vector:
    """Positions as close as possible to the given ones, in the same order, at least `gap` apart.

    Least squares under order constraints: shift each position down by its rank times the gap, make the result
    non-decreasing by pooling neighbours, and shift back.

    >>> spread([1.0, 1.0, 5.0], 0.5)
    array([0.75, 1.25, 5.  ])
    """
    order = np.argsort(positions, kind="stable")
    shifts = gap * np.arange(len(order))
    pools: list[tuple[float, int]] = []  # mean and size of neighbours that were pooled
    for value in np.asarray(positions, dtype=np.float64)[order] - shifts:
        mean, size = float(value), 1
        while pools and pools[-1][0] > mean:
            below, n_below = pools.pop()
            mean, size = (mean * size + below * n_below) / (size + n_below), size + n_below
        pools.append((mean, size))
    placed = np.empty(len(order))
    placed[order] = np.concatenate([[mean] * size for mean, size in pools]) + shifts if pools else 0.0
    return placed


def _draw_regret(axes: Axes, curves: Sequence[Curve], theme: Theme) -> None:
    dress(axes, "Cumulative regret", theme)
    horizon = max(len(curve.band.mean) for curve in curves)
    top = 1.05 * max(float(np.nanmax(curve.band.mean + np.nan_to_num(curve.band.half_width))) for curve in curves)
    for curve in curves:
        rounds, mean, half_width = _thinned(curve.band)
        colour = theme.colours[curve.colour]
        axes.fill_between(rounds, mean - half_width, mean + half_width, color=colour, alpha=0.16, linewidth=0)
        axes.plot(rounds, mean, color=colour, linewidth=1.8, solid_capstyle="round")
    axes.set_xlim(0, horizon)
    axes.set_ylim(0, top)
    ends = [float(curve.band.mean[-1]) for curve in curves]
    for curve, end, place in zip(curves, ends, spread(ends, LABEL_GAP * top), strict=True):
        colour = theme.colours[curve.colour]
        axes.annotate(
            curve.label,
            xy=(1.0, end / top),
            xytext=(1.055, place / top),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0.0, 0.5),  # the leader meets the label at its left
            },
        )


def _draw_bounds(
    axes: Axes, curves: Sequence[Curve], bounds: Sequence[Bound], largest_gap: float, theme: Theme
) -> None:
    dress(axes, "On logarithmic axes, under what is proved", theme)
    horizon = max(len(curve.band.mean) for curve in curves)
    for curve in curves:
        rounds, mean, _ = _thinned(curve.band, logarithmic=True)
        axes.plot(rounds, mean, color=theme.colours[curve.colour], linewidth=1.6, solid_capstyle="round")
    highest = 3.0 * max([largest_gap * horizon, *(float(bound.values.max()) for bound in bounds)])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, horizon)
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
    for bound in bounds:
        colour = theme.colours[bound.colour]
        axes.plot(bound.rounds, bound.values, color=colour, linewidth=1.5, linestyle=(0, (4, 2)))
        place = int(np.searchsorted(bound.rounds, horizon**0.62))  # where there is room to its left
        axes.annotate(
            bound.label,
            xy=(float(bound.rounds[place]), float(bound.values[place])),
            xytext=(-6, 6),
            textcoords="offset points",
            color=colour,
            fontsize=8.5,
            ha="right",
        )


def dress(axes: Axes, title: str, theme: Theme) -> None:
    """Thin grid, two spines, quiet ticks."""
    axes.set_facecolor(theme.paper)
    axes.set_title(title, loc="left", fontsize=10.5, color=theme.ink, pad=9)
    axes.set_xlabel("Round", fontsize=9, color=theme.ink)
    axes.grid(visible=True, color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.faint, labelsize=8.5, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)
        spine.set_linewidth(0.6)


def _thinned(band: Band, *, logarithmic: bool = False) -> tuple[Any, Vector, Vector]:
    """Rounds (from 1), mean and half width at not too many places, the last among them."""
    horizon = len(band.mean)
    space = np.geomspace if logarithmic else np.linspace
    rows = np.unique(np.round(space(1, horizon, min(MOST_POINTS, horizon))).astype(int)) - 1
    return rows + 1, band.mean[rows], np.nan_to_num(band.half_width[rows])
