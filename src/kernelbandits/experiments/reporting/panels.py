"""Panels of equal size on one sheet, with room for names beside each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kernelbandits._optional import import_optional
from kernelbandits.experiments.curves import WIDTH, Curve, draw_curves, label_room, write_caption
from kernelbandits.experiments.labels import shortened
from kernelbandits.experiments.themes import Theme, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "curve_sheet", "sheet"]

LEFT, ABOVE, BELOW, RIGHT = 0.75, 0.5, 0.62, 0.15
"""Inches around a panel for numbers, title, and the name of the horizontal axis."""

CAPTION_LINE: Final = 0.155

CURVES_HEIGHT, CURVES_HEIGHT_ALONE = 2.55, 3.3
"""Inches of a panel of curves among others, and of the only one."""

FONT_SIZE: Final = 8.5
WIDEST_ROOM_IN_COLUMNS: Final = 2.1
"""Inches for names up to which two panels of curves stand side by side."""


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
    import_optional("matplotlib", "This part of experiments")
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


def curve_sheet(
    shown: Mapping[str, Sequence[Curve]],
    caption: str,
    theme: Theme,
    *,
    y_label: str,
    draw: Callable[..., None] = draw_curves,
    n_columns: int | None = None,
) -> Figure:
    """One panel of curves for every title.

    Parameters
    ----------
    draw
        Draws the curves of one panel, as `draw_curves` does.
    n_columns
        Panels side by side; None: two where the names of the curves leave room for them.
    """
    every = [curve for curves in shown.values() for curve in curves]
    room = label_room(every, font_size=FONT_SIZE, least=0.9)
    if n_columns is None:
        n_columns = 2 if len(shown) > 1 and room <= WIDEST_ROOM_IN_COLUMNS else 1

    def panel(title: str, curves: Sequence[Curve]) -> Panel:
        def draw_it(axes: Axes, theme: Theme) -> None:
            draw(axes, curves, theme, room=room, font_size=FONT_SIZE)

        return Panel(title=title, y_label=y_label, draw=draw_it)

    return sheet(
        [panel(title, curves) for title, curves in shown.items()],
        n_columns=n_columns,
        room=room,
        height=CURVES_HEIGHT if len(shown) > 1 else CURVES_HEIGHT_ALONE,
        caption=caption,
        theme=theme,
    )
