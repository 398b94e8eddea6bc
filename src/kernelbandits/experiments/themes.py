"""Colors of figures by day and by night, and the dress of a panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DARK", "LIGHT", "Theme", "contrast", "dress", "legible"]

READABLE: Final = 4.5
"""Least contrast of text with its ground (Web Content Accessibility Guidelines 2.2, level AA)."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colors of one appearance; curves name theirs by a word."""

    paper: str
    ink: str
    faint: str
    grid: str
    colors: Mapping[str, str]


# Both after the palette of Okabe and Ito, which people of any common color vision can tell apart: the light ones made
# darker on white paper so that labels can be read, all of them lighter on dark paper. "quiet" is for curves that only
# stand in the background.
LIGHT: Final = Theme(
    paper="#ffffff",
    ink="#1a1a1a",
    faint="#666666",
    grid="#e6e6e6",
    colors={
        "blue": "#0072b2",
        "sky": "#3d9fdb",
        "orange": "#d98e00",
        "red": "#d55e00",
        "purple": "#b4588e",
        "green": "#009e73",
        "gray": "#808080",
        "ink": "#1a1a1a",
        "quiet": "#c9c9c9",
    },
)
DARK: Final = Theme(
    paper="#14161a",
    ink="#e8e8e8",
    faint="#a0a4ab",
    grid="#2b2f36",
    colors={
        "blue": "#4aa8e8",
        "sky": "#a5dcff",
        "orange": "#f2b53c",
        "red": "#f47f3e",
        "purple": "#e69ac9",
        "green": "#3fcfa6",
        "gray": "#9a9a9a",
        "ink": "#e8e8e8",
        "quiet": "#4b515a",
    },
)


def contrast(one: str, other: str) -> float:
    """Ratio of the luminances of two colors, from 1 (equal) to 21 (black on white).

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return round((lighter + 0.05) / (darker + 0.05), 6)


def legible(color: str, theme: Theme) -> str:
    """The color, mixed with as little ink as makes text of it readable on the theme's paper.

    >>> legible("#0072b2", LIGHT), legible("#d98e00", LIGHT)
    ('#0072b2', '#a06b08')
    """
    for share in range(21):
        mixed = _mixed(color, theme.ink, share / 20)
        if contrast(mixed, theme.paper) >= READABLE:
            return mixed
    return theme.ink


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


def _channels(color: str) -> list[int]:
    return [int(color[place : place + 2], 16) for place in (1, 3, 5)]


def _mixed(color: str, ink: str, share: float) -> str:
    pairs = zip(_channels(color), _channels(ink), strict=True)
    return "#" + "".join(f"{round(ours + share * (theirs - ours)):02x}" for ours, theirs in pairs)


def _luminance(color: str) -> float:
    """Relative luminance of an sRGB color."""
    shares = [channel / 255 for channel in _channels(color)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
