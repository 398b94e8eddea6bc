"""Numbers with their intervals, one beneath the other, beside what they ought to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kernelbandits.experiments.labels import shortened, text_width
from kernelbandits.experiments.themes import Theme, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Dot", "draw_dots", "names_room", "rows_height"]

FONT_SIZE: Final = 8.5
WIDEST_NAMES: Final = 3.0
"""Inches that names may take."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One number: a dot, a bar for its interval, an upright mark where it ought to be."""

    label: str
    color: str
    value: float
    low: float
    high: float
    claim: float | None = None
    is_hollow: bool = False


def names_room(labels: Sequence[str]) -> float:
    """Inches to leave for the names to the left of a panel."""
    return min(WIDEST_NAMES, 0.35 + max(text_width(label, FONT_SIZE) for label in labels))


def rows_height(n_dots: int) -> float:
    """Inches that a panel of so many dots is high."""
    return 0.3 + 0.27 * n_dots


def draw_dots(axes: Axes, theme: Theme, *, dots: Sequence[Dot], left: float) -> None:
    """The first at the top, names to the left, where there are `left` inches."""
    for height, dot in enumerate(reversed(dots)):
        _draw_dot(axes, height, dot, theme)
    axes.set_ylim(-0.6, len(dots) - 0.4)
    names = [shortened(dot.label, left - 0.2, FONT_SIZE) for dot in reversed(dots)]
    axes.set_yticks(range(len(dots)), names, fontsize=FONT_SIZE, parse_math=False)
    for tick, dot in zip(axes.get_yticklabels(), reversed(dots), strict=True):
        tick.set_color(legible(theme.colors[dot.color], theme))
    axes.grid(visible=False, axis="y")


def _draw_dot(axes: Axes, height: int, dot: Dot, theme: Theme) -> None:
    color = theme.colors[dot.color]
    axes.plot((dot.low, dot.high), (height, height), color=color, linewidth=1.4, solid_capstyle="butt")
    face = theme.paper if dot.is_hollow else color
    axes.plot(dot.value, height, marker="o", markersize=5.5, color=color, markerfacecolor=face, markeredgewidth=1.3)
    if dot.claim is not None:
        ends = (height - 0.32, height + 0.32)
        axes.plot((dot.claim, dot.claim), ends, color=theme.ink, linewidth=1.5, solid_capstyle="butt")
