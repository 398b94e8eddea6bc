"""Names written beside the ends of curves, without one on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits.experiments.letters import FONT, letters_as_boxes
from kernelbandits.experiments.themes import Theme, legible
from kernelbandits.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["POINTS_PER_INCH", "EndLabel", "label_ends", "shortened", "spread", "text_width"]

LEADER: Final = 0.21
"""Inches between the end of a curve and its name."""

LINE_HEIGHT: Final = 1.36
"""Least distance of two names, in heights of their letters."""

POINTS_PER_INCH: Final = 72


@dataclass(frozen=True, kw_only=True)
class EndLabel:
    """A name, and where its curve ends, in the units of the data."""

    text: str
    color: str
    height: float


def label_ends(axes: Axes, labels: Sequence[EndLabel], theme: Theme, *, font_size: float = 9.0) -> None:
    """Write each name to the right of the panel, level with the end of its curve where there is room.

    The limits and the scale of the panel have to be set before; labels may have any order.
    """
    width, height = axes.bbox.width / axes.figure.dpi, axes.bbox.height / axes.figure.dpi  # inches
    ends = [_share_of_height(axes, label.height) for label in labels]
    gap = LINE_HEIGHT * font_size / POINTS_PER_INCH / height
    places = _within(spread(ends, gap), gap)
    for label, end, place in zip(labels, ends, places, strict=True):
        color = theme.colors[label.color]
        axes.annotate(
            label.text,
            xy=(1.0, end),
            xytext=(1.0 + LEADER / width, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=legible(color, theme),
            fontsize=font_size,
            va="center",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0.0, 0.5),  # the leader meets the label at its left
            },
        )


def spread(positions: Sequence[float], gap: float) -> Vector:
    """Positions as close as possible to the given ones, in the same order, at least `gap` apart.

    Least squares under order constraints: shift each position down by its rank times the gap, make the result
    non-decreasing by pooling neighbors, and shift back.

    >>> spread([1.0, 1.0, 5.0], 0.5)
    array([0.75, 1.25, 5.  ])
    """
    order = np.argsort(positions, kind="stable")
    shifts = gap * np.arange(len(order))
    pools: list[tuple[float, int]] = []  # mean and size of neighbors that were pooled
    for value in np.asarray(positions, dtype=np.float64)[order] - shifts:
        mean, size = float(value), 1
        while pools and pools[-1][0] > mean:
            below, n_below = pools.pop()
            mean, size = (mean * size + below * n_below) / (size + n_below), size + n_below
        pools.append((mean, size))
    placed = np.empty(len(order))
    placed[order] = np.concatenate([[mean] * size for mean, size in pools]) + shifts if pools else 0.0
    return placed


@lru_cache(maxsize=4096)
def text_width(text: str, font_size: float) -> float:
    """Inches that the text takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT, size=font_size)
    with letters_as_boxes():
        width, *_ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / POINTS_PER_INCH


def shortened(text: str, inches: float, font_size: float) -> str:
    """The text, its middle left out where it is too wide: what tells settings apart often stands at the end."""
    kept = len(text)
    short = text
    while kept > 2 and text_width(short, font_size) > inches:
        kept -= 1
        short = f"{text[: (kept + 1) // 2].rstrip()}…{text[len(text) - kept // 2 :].lstrip()}"
    return short


def _share_of_height(axes: Axes, height: float) -> float:
    """Where a value lies in the panel, from 0 at its foot to 1."""
    (low, high), value = axes.get_ylim(), height
    if axes.get_yscale() == "log":
        low, high, value = np.log(low), np.log(high), np.log(max(value, low))
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))


def _within(places: Vector, gap: float) -> Vector:
    """The same order and distances inside the panel, from its foot to its top; too many hang out at the foot."""
    order = np.argsort(places, kind="stable")
    ranks = np.arange(len(order))
    fitted = np.maximum(places[order], gap * ranks)
    fitted = np.minimum(fitted, 1.0 - gap * ranks[::-1])
    placed = np.empty(len(order))
    placed[order] = fitted
    return placed
