"""The page of one comparison: a figure, a table, what to make of it, what was played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from kernelbandits.experiments.blocks import details, document, picture, svg_data, table

__all__ = ["Page", "render"]


@dataclass(frozen=True, kw_only=True)
class Page:
    """What stands on the page, as plain text; figures as SVG, one for each appearance."""

    title: str
    introduction: str
    light_figure: str
    dark_figure: str
    description: str
    """Of the figure, for those who cannot see it."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]
    parameters: Mapping[str, Mapping[str, Any]]
    """Tables of names and plain values, by heading."""


def render(page: Page) -> str:
    """The page as HTML."""
    light, dark = svg_data(page.light_figure), svg_data(page.dark_figure)
    parts = [
        f"<h1>{escape(page.title)}</h1>",
        f"<p>{escape(page.introduction)}</p>",
        picture(light, dark, description=page.description, caption=page.caption),
        "<h2>Regret at the end</h2>",
        table(page.headings, page.rows),
        "<h2>What to make of it</h2>",
        "<ul>" + "".join(f"<li>{escape(remark)}</li>" for remark in page.remarks) + "</ul>",
        "<h2>What was played</h2>",
        *(details(heading, values) for heading, values in page.parameters.items()),
    ]
    return document(page.title, "\n".join(parts))
