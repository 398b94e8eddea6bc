"""Ticks of logarithmic axes that never lie on one another."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = ["tick_logarithmically"]

FEW_DECADES: Final = 1.5
"""Up to so many powers of ten there is room for numbers between them."""


def tick_logarithmically(axis: Axis) -> None:
    """Number a logarithmic axis whose limits are set: powers of ten, and 2 and 5 between them where these are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if log10(high / low) <= FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
