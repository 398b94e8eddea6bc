"""Figures of the page: drawn from its numbers alone, for wide and narrow windows, in light and in dark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final

from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.plotting.style import VARIANTS, svg
from kernelbandits.experiments.reports.html import figure_element

__all__ = ["FOLDER", "drawn", "file_of", "markdown_of", "source_of"]

FOLDER: Final = "results"
"""Of the pictures, beside the page."""


def file_of(drawing: ReportFigure, variant: str) -> str:
    """Name of the file of one variant, such as "light" or "narrow-dark"."""
    return f"{drawing.name}-{variant}.svg"


def markdown_of(drawing: ReportFigure) -> str:
    """The figure in its place on the page, with its caption."""
    addresses = {variant: f"{FOLDER}/{file_of(drawing, variant)}" for variant in VARIANTS}
    return figure_element(addresses, alt_text=drawing.alt_text, caption=drawing.caption)


def drawn(drawing: ReportFigure, numbers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of its files; each says of which numbers it is made."""
    for variant, theme in VARIANTS.items():
        yield file_of(drawing, variant), svg(drawing.draw("", theme), source=source_of(numbers))


def source_of(numbers: Mapping[str, Any]) -> str:
    """A digest of the section's numbers, and what draws them: other versions place letters a little differently."""
    text = json.dumps({name: value for name, value in numbers.items() if name != "versions"}, sort_keys=True)
    return f"numbers {sha256(text.encode()).hexdigest()[:16]}, matplotlib {version('matplotlib')}"
