"""Numbers that change from round to round, drawn with their intervals and named at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits.experiments.labels import POINTS_PER_INCH, EndLabel, label_ends, shortened, text_width
from kernelbandits.experiments.results import Band
from kernelbandits.experiments.themes import Theme
from kernelbandits.experiments.ticks import tick_logarithmically
from kernelbandits.types import Indices, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WIDTH", "Curve", "Points", "draw_curves", "label_room", "thinned", "write_caption"]

MOST_POINTS: Final = 200
"""Of a drawn curve: more than the eye can tell apart at this size, and a small file."""

FEW_POINTS: Final = 12
"""Up to so many, each is marked: the line between them is a guess."""

WIDTH: Final = 10.4
"""Of a figure, in inches."""

LEAST_ROOM, MOST_ROOM = 1.95, 3.6
"""Inches beside a panel for the names of its curves."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """How the numbers of a curve look that is known at some rounds and not between them."""

    shape: str = "o"
    """A marker of matplotlib."""

    aside: float = 0.0
    """Points of print to the right of the round, so that bars at one round do not hide one another."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Regret, or another number, of one policy after each round."""

    label: str
    color: str
    band: Band
    rounds: Indices | None = None
    """Rounds of the band's entries; None: every round, from 1."""

    is_quiet: bool = False
    """In the background: thin, without interval and name."""

    points: Points | None = None
    """Drawn as points with bars instead of a line with a band."""

    @property
    def at(self) -> Indices:
        """Rounds of the band's entries."""
        return np.arange(1, len(self.band.mean) + 1) if self.rounds is None else self.rounds


def label_room(
    curves: Sequence[Curve], *, font_size: float = 9.0, least: float = LEAST_ROOM, most: float = MOST_ROOM
) -> float:
    """Inches to leave beside a panel for the names of its curves."""
    widest = max((text_width(curve.label, font_size) for curve in curves if not curve.is_quiet), default=0.0)
    return float(np.clip(widest + 0.45, least, most))


def write_caption(figure: Figure, caption: str, theme: Theme) -> None:
    """Small print along the foot of the figure."""
    figure.text(0.008, 0.1 / figure.get_figheight(), fill(caption, 172), color=theme.faint, fontsize=8, va="bottom",
                linespacing=1.35, parse_math=False)  # fmt: skip


def draw_curves(
    axes: Axes,
    curves: Sequence[Curve],
    theme: Theme,
    *,
    room: float = LEAST_ROOM,
    font_size: float = 9.0,
    from_zero: bool = True,
    logarithmic: bool = False,
    logarithmic_rounds: bool = False,
    top: float | None = None,
) -> None:
    """Means with their intervals, each named at its end; the quiet ones behind.

    Parameters
    ----------
    room
        Inches to the right of the panel that names may take.
    from_zero
        Whether the axis begins at zero; otherwise where the data do.
    logarithmic
        Whether the vertical axis is; then numbers have to be positive.
    logarithmic_rounds
        Whether the horizontal axis is; it then begins at the first round of a curve.
    top
        Where the vertical axis ends; None: a little above all that is drawn.
    """
    for curve in sorted(curves, key=lambda curve: not curve.is_quiet):
        if curve.points is None:
            _draw_curve(axes, curve, theme)
        else:
            _draw_points(axes, curve, curve.points, theme)
    low, high = _limits(curves, from_zero=from_zero, logarithmic=logarithmic)
    if logarithmic:
        axes.set_yscale("log")
    axes.set_ylim(low, high if top is None else top)
    if logarithmic:
        tick_logarithmically(axes.yaxis)
    _set_rounds(axes, curves, logarithmic=logarithmic_rounds)
    named = [
        EndLabel(
            text=shortened(curve.label, room - 0.4, font_size), color=curve.color, height=float(curve.band.mean[-1])
        )
        for curve in curves
        if not curve.is_quiet
    ]
    label_ends(axes, named, theme, font_size=font_size)


def _set_rounds(axes: Axes, curves: Sequence[Curve], *, logarithmic: bool) -> None:
    """The horizontal axis: from no round, or from the first that is known where the axis has no zero."""
    last = max(int(curve.at[-1]) for curve in curves)
    if not logarithmic:
        axes.set_xlim(0, last)
        return
    first = min(int(curve.at[0]) for curve in curves)
    axes.set_xscale("log")
    axes.set_xlim(first, max(last, first + 1))
    tick_logarithmically(axes.xaxis)


def _draw_curve(axes: Axes, curve: Curve, theme: Theme) -> None:
    rounds, mean, half_width = thinned(curve)
    color = theme.colors[curve.color]
    marker = "o" if len(rounds) <= FEW_POINTS else None
    if curve.is_quiet:
        axes.plot(rounds, mean, color=color, linewidth=0.9, marker=marker, markersize=3)
        return
    axes.fill_between(rounds, mean - half_width, mean + half_width, color=color, alpha=0.16, linewidth=0)
    axes.plot(rounds, mean, color=color, linewidth=1.8, solid_capstyle="round", marker=marker, markersize=4)


def _draw_points(axes: Axes, curve: Curve, points: Points, theme: Theme) -> None:
    from matplotlib.transforms import ScaledTranslation

    axes.errorbar(
        curve.at,
        curve.band.mean,
        yerr=np.nan_to_num(curve.band.half_width),
        fmt=points.shape,
        color=theme.colors[curve.color],
        markerfacecolor=theme.paper,
        markersize=5,
        elinewidth=1.1,
        capsize=2,
        clip_on=False,  # a point at the edge is drawn whole
        zorder=3,
        transform=axes.transData + ScaledTranslation(points.aside / POINTS_PER_INCH, 0.0, axes.figure.dpi_scale_trans),
    )


def _limits(curves: Sequence[Curve], *, from_zero: bool, logarithmic: bool) -> tuple[float, float]:
    """Foot and top of the panel: everything that is drawn, and a little air."""
    highest = max(float(np.max(curve.band.mean + _known_width(curve))) for curve in curves)
    lowest = min(float(np.min(curve.band.mean - _known_width(curve))) for curve in curves)
    if logarithmic:
        positive = [curve.band.mean[curve.band.mean > 0] for curve in curves]
        means = np.concatenate([*positive, [1.0]] if not any(map(len, positive)) else positive)
        return 0.7 * float(means.min()), 1.5 * max(highest, float(means.max()))
    if from_zero and all(np.min(curve.band.mean) >= 0 for curve in curves):  # an interval may be cut off
        return 0.0, 1.05 * highest if highest > 0 else 1.0
    air = 0.05 * (highest - lowest) or 0.05 * abs(highest) or 1.0
    return lowest - air if not from_zero else min(0.0, lowest - air), highest + air


def _known_width(curve: Curve) -> Vector:
    return np.zeros_like(curve.band.mean) if curve.is_quiet else np.nan_to_num(curve.band.half_width)


def thinned(curve: Curve, *, logarithmic: bool = False) -> tuple[Indices, Vector, Vector]:
    """Rounds, mean and half width at not too many places, the last among them."""
    rounds = curve.at
    if len(rounds) <= MOST_POINTS:
        return rounds, curve.band.mean, np.nan_to_num(curve.band.half_width)
    space = np.geomspace if logarithmic else np.linspace
    wanted = np.round(space(rounds[0], rounds[-1], MOST_POINTS)).astype(int)
    rows = np.unique(np.append(np.searchsorted(rounds, np.minimum(wanted, rounds[-1])), len(rounds) - 1))
    return rounds[rows], curve.band.mean[rows], np.nan_to_num(curve.band.half_width[rows])
