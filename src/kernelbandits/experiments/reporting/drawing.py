"""A figure of the report before it is drawn: its words, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelbandits.experiments.themes import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawing"]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure; `draw(caption, theme)` makes it, without small print where the caption is empty."""

    name: str
    """Of its files."""

    title: str
    section: str
    """Of the page under which it stands."""

    caption: str
    """What it shows, the number of repeats, the kind of interval."""

    description: str
    """For those who cannot see it."""

    draw: Callable[[str, Theme], Figure]
