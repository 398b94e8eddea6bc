"""Pieces of a page that needs nothing but itself: no script, no request, readable by day and by night."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

__all__ = ["code_block", "contents", "details", "document", "picture", "png_data", "svg_data", "table"]

STYLE: Final = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --faint: #666666; --line: #e2e2e2;
  --mark: #0072b2; --block: #f5f6f7; --warn: #8a4b00; --warn-paper: #fff6e5; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14161a; --ink: #e8e8e8; --faint: #a0a4ab; --line: #2b2f36; --mark: #4aa8e8; --block: #1d2026;
    --warn: #f2b53c; --warn-paper: #2a2317; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .5rem; }
p, li { max-width: 46rem; }
a { color: var(--mark); }
figure { margin: 1.6rem 0; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--faint); font-size: .875rem; max-width: 54rem; margin-top: .5rem; }
nav ul { list-style: none; padding: 0; columns: 2; column-gap: 2.5rem; max-width: 46rem; }
.warnings { background: var(--warn-paper); border-left: 4px solid var(--warn); padding: .7rem 1.1rem;
  margin: 1.4rem 0; }
.warnings h2 { margin: 0; color: var(--warn); }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); font-size: .875rem; padding-bottom: .4rem; }
th, td { padding: .32rem 1.1rem .32rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; font-size: .875rem; }
th:first-child, td:first-child, .words td { text-align: left; }
tbody th { color: inherit; font-weight: inherit; font-size: inherit; }
.words td, .words th { white-space: normal; }
tbody tr:first-child > * { color: var(--mark); font-weight: 600; }
.words tbody tr:first-child > * { color: inherit; font-weight: inherit; }
code, pre { font: .9em ui-monospace, monospace; }
pre { background: var(--block); padding: .8rem 1rem; overflow-x: auto; user-select: all; }
details { margin-top: 1rem; }
summary { cursor: pointer; font-weight: 600; }
@media print { details > * { display: block; } body { max-width: none; } }
"""


def document(title: str, body: str) -> str:
    """The whole page; `body` is HTML, the title plain text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def picture(light: str, dark: str, *, description: str, caption: str) -> str:
    """A figure in the reader's appearance; `light` and `dark` are addresses that hold their data."""
    return (
        f'<figure>\n<picture>\n<source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'<img src="{light}" alt="{escape(description)}">\n</picture>\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>"
    )


def svg_data(svg: str) -> str:
    """The figure inside its own address, so that nothing has to be fetched."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def png_data(png: bytes) -> str:
    """The same for the bytes of a PNG file."""
    return "data:image/png;base64," + b64encode(png).decode()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """A table whose first column names the rows."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join(_row(row) for row in rows)
    title = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    return (
        f'<div class="scroll"><table>\n{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    )


def details(heading: str, values: Mapping[str, Any]) -> str:
    """Names and plain values, folded away under a heading."""
    rows = "\n".join(
        f"<tr><td>{escape(name)}</td><td><code>{escape(value)}</code></td></tr>" for name, value in _flat(values)
    )
    return (
        f"<details><summary>{escape(heading)}</summary>\n"
        f'<div class="scroll"><table class="words"><tbody>\n{rows}\n</tbody></table></div></details>'
    )


def code_block(text: str) -> str:
    """Text to copy: one click marks all of it."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def contents(headings: Mapping[str, str]) -> str:
    """Links to the sections; `headings` by their ids."""
    links = "".join(f'<li><a href="#{escape(place)}">{escape(heading)}</a></li>' for place, heading in headings.items())
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _row(cells: Sequence[str]) -> str:
    name, *numbers = cells
    return (
        f'<tr><th scope="row">{escape(name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in numbers) + "</tr>"
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
