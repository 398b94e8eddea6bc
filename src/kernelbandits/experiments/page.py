"""One page that needs nothing but itself: no script, no request, readable by day and by night."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

__all__ = ["Page", "render"]

STYLE: Final = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --faint: #666666; --line: #e2e2e2;
  --mark: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14161a; --ink: #e8e8e8; --faint: #a0a4ab; --line: #2b2f36; --mark: #4aa8e8; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
p, li { max-width: 46rem; }
figure { margin: 1.6rem 0; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--faint); font-size: .875rem; max-width: 54rem; margin-top: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem 1.1rem .32rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; font-size: .875rem; }
th:first-child, td:first-child, .words td { text-align: left; }
.words td { white-space: normal; }
tbody tr:first-child td { color: var(--mark); font-weight: 600; }
.words tbody tr:first-child td { color: inherit; font-weight: inherit; }
code { font: .9em ui-monospace, monospace; }
details { margin-top: 1rem; }
summary { cursor: pointer; font-weight: 600; }
"""


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
    parts = [
        f"<h1>{escape(page.title)}</h1>",
        f"<p>{escape(page.introduction)}</p>",
        _figure(page),
        "<h2>Regret at the end</h2>",
        _table(page.headings, page.rows),
        "<h2>What to make of it</h2>",
        "<ul>" + "".join(f"<li>{escape(remark)}</li>" for remark in page.remarks) + "</ul>",
        "<h2>What was played</h2>",
        *(_details(heading, values) for heading, values in page.parameters.items()),
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _figure(page: Page) -> str:
    return (
        f'<figure>\n<picture>\n<source media="(prefers-color-scheme: dark)" srcset="{_data(page.dark_figure)}">\n'
        f'<img src="{_data(page.light_figure)}" alt="{escape(page.description)}">\n</picture>\n'
        f"<figcaption>{escape(page.caption)}</figcaption>\n</figure>"
    )


def _data(svg: str) -> str:
    """The figure inside its own address, so that nothing has to be fetched."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _details(heading: str, values: Mapping[str, Any]) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(name)}</td><td><code>{escape(value)}</code></td></tr>" for name, value in _flat(values)
    )
    return (
        f"<details><summary>{escape(heading)}</summary>\n"
        f'<div class="scroll"><table class="words"><tbody>\n{rows}\n</tbody></table></div></details>'
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Names and values of nested parameters, a dot for every level: ("kernel.length_scale", "0.2")."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{name}.")
        elif value is not None:
            found.append((prefix + name, str(value)))
    return found
