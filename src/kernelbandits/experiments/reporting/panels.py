"""Panels of equal size on one sheet, with room for names beside each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kernelbandits.experiments.curves import WIDTH, write_caption
from kernelbandits.experiments.extras import require
from kernelbandits.experiments.labels import shortened
from kernelbandits.experiments.themes import Theme, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "sheet"]

LEFT, ABOVE, BELOW, RIGHT = 0.75, 0.5, 0.62, 0.15
"""Inches around a panel for numbers, title, and the name of the horizontal axis."""

CAPTION_LINE: Final = 0.155


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A title, names of its axes, and what draws it."""

    title: str
    draw: Callable[[Axes, Theme], None]
    x_label: str = "Round"
    y_label: str = ""


def sheet(
    panels: Sequence[Panel],
    *,
    n_columns: int,
    room: float,
    height: float,
    caption: str,
    theme: Theme,
    left: float = LEFT,
) -> Figure:
    """The panels row by row, each `height` inches high, with `room` inches to the right of each.

    Parameters
    ----------
    left
        Inches to the left of each panel, for the numbers or words of its vertical axis.
    caption
        Written below; nothing where it is empty.
    """
    require("matplotlib")
    from matplotlib import style
    from matplotlib.figure import Figure

    n_rows = ceil(len(panels) / n_columns)
    foot = CAPTION_LINE * len(wrap(caption, 172)) + 0.12 if caption else 0.0
    row = ABOVE + height + BELOW
    total = n_rows * row + foot
    width = (WIDTH - n_columns * (left + room) - RIGHT) / n_columns
    with style.context("default"):  # whatever the user's own settings are, and without pyplot
        figure = Figure(figsize=(WIDTH, total), facecolor=theme.paper)
        for place, panel in enumerate(panels):
            down, across = divmod(place, n_columns)
            x, y = across * (left + width + room) + left, total - down * row - ABOVE - height
            axes = figure.add_axes((x / WIDTH, y / total, width / WIDTH, height / total))
            dress(axes, shortened(panel.title, width + room, 10.5), theme)
            axes.title.set_parse_math(False)
            axes.set_xlabel(panel.x_label, fontsize=9, color=theme.ink, parse_math=False)
            axes.set_ylabel(panel.y_label, fontsize=9, color=theme.ink)
            panel.draw(axes, theme)
        if caption:
            write_caption(figure, caption, theme)
    return figure
