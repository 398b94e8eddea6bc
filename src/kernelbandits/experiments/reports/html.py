"""The HTML page of a report: self-contained, without scripts or requests, in light and dark mode."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from kernelbandits.experiments.plotting.figures import ReportFigure, file_name
from kernelbandits.experiments.reports.tables import Table
from kernelbandits.experiments.results import Results
from kernelbandits.experiments.store import TOML_FILE
from kernelbandits.validation import pluralize

__all__ = ["STYLE", "EmbeddedFigure", "data_url", "figure_element", "report_page"]

NARROW_WINDOW: Final = 700
"""Width of a window in CSS pixels up to which figures have stacked panels."""

STYLE: Final = """
:root { color-scheme: light dark; --background: #ffffff; --text: #1a1a1a; --muted: #666666; --line: #e2e2e2;
  --accent: #0072b2; --block: #f5f6f7; --warning: #8a4b00; --warning-background: #fff6e5; }
@media (prefers-color-scheme: dark) {
  :root { --background: #14161a; --text: #e8e8e8; --muted: #a0a4ab; --line: #2b2f36; --accent: #4aa8e8;
    --block: #1d2026; --warning: #f2b53c; --warning-background: #2a2317; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem; background: var(--background);
  color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .5rem; }
p, li { max-width: 46rem; }
a { color: var(--accent); }
figure { margin: 1.6rem 0; }
figure img { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--muted); font-size: .875rem; max-width: 54rem; margin-top: .5rem; }
nav ul { list-style: none; padding: 0; columns: 2; column-gap: 2.5rem; max-width: 46rem; }
.warnings { background: var(--warning-background); border-left: 4px solid var(--warning); padding: .7rem 1.1rem;
  margin: 1.4rem 0; }
.warnings h2 { margin: 0; color: var(--warning); }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; max-width: calc(100vw - 2.5rem); color: var(--muted); font-size: .875rem;
  padding-bottom: .4rem; }
th, td { padding: .32rem 1.1rem .32rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--muted); font-weight: 600; font-size: .875rem; }
th:first-child, td:first-child, td.text, .values td { text-align: left; }
tbody th { color: inherit; font-weight: inherit; font-size: inherit; }
@media (max-width: 700px) { tbody th { white-space: normal; min-width: 7rem; } }
.values td { white-space: normal; overflow-wrap: anywhere; }
.values td:first-child { white-space: nowrap; }
tr.best > * { color: var(--accent); font-weight: 600; }
code, pre { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--block); padding: .8rem 1rem; white-space: pre-wrap; user-select: all; }
details { margin-top: 1rem; }
summary { cursor: pointer; font-weight: 600; }
@media print { details > * { display: block; } body { max-width: none; } }
"""

METADATA_SECTIONS: Final = ("format", "name", "study", "versions", "machine", "files", "jobs")
"""Fields of study.json that are not in the table of its size."""


@dataclass(frozen=True, kw_only=True)
class EmbeddedFigure:
    """A figure with its images as data URLs, by variant."""

    figure: ReportFigure
    addresses: Mapping[str, str]


def report_page(
    results: Results,
    *,
    tables: Sequence[Table],
    figures: Sequence[EmbeddedFigure],
    warnings: Sequence[str],
    latex: str,
    title: str = "",
    introduction: str = "",
    remarks: Sequence[str] = (),
) -> str:
    """The page: warnings first, then tables, figures, remarks, LaTeX to copy, and what was run.

    Parameters
    ----------
    title, introduction
        By default the name and the size of the study.
    remarks
        Paragraphs of a section on how to interpret the results.
    """
    title = title or results.name
    sections = {
        **_table_sections(tables),
        **_figure_sections(figures),
        "Interpretation": _bullets(remarks),
        "For a paper": _for_a_paper(latex),
        "What was run": _what_was_run(results),
    }
    sections = {heading: body for heading, body in sections.items() if body}
    links = "".join(f'<li><a href="#{file_name(heading)}">{escape(heading)}</a></li>' for heading in sections)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(introduction or _introduction(results))}</p>",
        _warnings(warnings),
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
        "<main>",
        *(f'<h2 id="{file_name(heading)}">{escape(heading)}</h2>\n{body}' for heading, body in sections.items()),
        "</main>",
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def figure_element(addresses: Mapping[str, str], *, alt_text: str, caption: str) -> str:
    """A figure that follows the width of the window and light or dark mode; URLs by variant."""
    dark, narrow = "(prefers-color-scheme: dark)", f"(max-width: {NARROW_WINDOW}px)"
    sources = {"narrow-dark": f"{narrow} and {dark}", "narrow-light": narrow, "dark": dark}
    lines = [f'<source media="{media}" srcset="{addresses[variant]}">' for variant, media in sources.items()]
    return (
        "<figure>\n<picture>\n"
        + "\n".join(lines)
        + f'\n<img src="{addresses["light"]}" alt="{escape(alt_text)}">\n</picture>\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>"
    )


def data_url(image: str | bytes) -> str:
    """An SVG text or the content of a PNG file as a URL, so that the page needs no other file."""
    kind, content = ("svg+xml", image.encode()) if isinstance(image, str) else ("png", image)
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


def _introduction(results: Results) -> str:
    labels = {runs.label for runs in results.all_runs}
    return (
        f"{pluralize(len(labels), 'policy', 'policies')} in {pluralize(len(results.environments), 'environment')}, "
        f"{pluralize(len(results.seeds), 'seed')}"
        + (f", {pluralize(results.study['horizon'], 'round')}" if results.study.get("horizon") else "")
        + ". With the same seed all policies of an environment get the same contexts and the same noise. Regret is the "
        "expected reward of the best action minus that of the chosen one, summed over rounds."
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    return f'<div class="warnings" role="note"><h2>Before you quote this</h2>{_bullets(warnings)}</div>'


def _bullets(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in sentences) + "</ul>" if sentences else ""


def _titled(table: Table, *, with_title: bool) -> str:
    return (f"<h3>{escape(table.title)}</h3>\n" if with_title else "") + table.to_html()


def _table_sections(tables: Sequence[Table]) -> dict[str, str]:
    """Tables by section, each with its title if a section has several."""
    sections: dict[str, list[Table]] = {}
    for table in tables:
        sections.setdefault(table.section, []).append(table)
    return {
        section: "\n".join(_titled(table, with_title=len(group) > 1) for table in group)
        for section, group in sections.items()
    }


def _figure_sections(figures: Sequence[EmbeddedFigure]) -> dict[str, str]:
    """Figures by section, each with its title if a section has several."""
    sections: dict[str, list[EmbeddedFigure]] = {}
    for figure in figures:
        sections.setdefault(figure.figure.section, []).append(figure)
    return {
        section: "\n".join(_embedded(figure, with_title=len(group) > 1) for figure in group)
        for section, group in sections.items()
    }


def _embedded(embedded: EmbeddedFigure, *, with_title: bool) -> str:
    figure = embedded.figure
    title = f"<h3>{escape(figure.title)}</h3>\n" if with_title else ""
    return title + figure_element(embedded.addresses, alt_text=figure.alt_text, caption=figure.caption)


def _for_a_paper(latex: str) -> str:
    return (
        "<p>The tables in LaTeX (one click selects everything). The folder of this page also contains them as "
        "table.tex, table.md and table.csv, and the figures in light and dark mode.</p>\n" + _code(latex)
    )


def _code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def _what_was_run(results: Results) -> str:
    head, folder = results.study, shlex.quote(str(results.folder))
    parts = [
        *_how_to_repeat(results, folder),
        _details("Size", {name: value for name, value in head.items() if name not in METADATA_SECTIONS}),
        *(
            _details(heading, head[part])
            for heading, part in (("Study", "study"), ("Versions", "versions"), ("Machine", "machine"))
            if head.get(part)
        ),
    ]
    for environment, policies in results.environments.items():
        described = next(iter(policies.values())).described
        parts.append(_details(f"Environment: {environment}", described.get("environment")))
    for label, runs in {runs.label: runs for runs in results.all_runs}.items():
        parts.append(_details(f"Policy: {label}", {"policy": runs.described.get("policy"), "claims": runs.claims}))
    return "\n".join(parts)


def _how_to_repeat(results: Results, folder: str) -> list[str]:
    """Commands, and the files of the study that the folder keeps."""
    report = f"kernelbandits report {folder}\n"
    files = {name: results.folder / name for name in results.kept_files}
    if TOML_FILE not in files:
        called = f"run(study, {str(results.folder)!r})"
        return [
            f"<p>The study was run from Python, by <code>{escape(called)}</code>; a second call repeats only what is "
            "missing. The command that writes this page from the results:</p>",
            _code(report),
        ]
    command = " ".join(
        ["kernelbandits run", shlex.quote(str(files.pop(TOML_FILE)))]
        + [f"--with {shlex.quote(str(path))}" for path in files.values()]
        + [f"--into {folder}"]
    )
    return [
        "<p>Commands that reproduce the results, and this page from the results. The folder keeps the files of the "
        "study as they were given; relative paths of data in them start from the folder that they were in.</p>",
        _code(f"{command}\n{report}"),
        *(
            f"<details><summary>{escape(name)}</summary>\n{_code(_text_of(results.folder / name))}</details>"
            for name in results.kept_files
        ),
    ]


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig", errors="replace")


def _details(heading: str, values: Any) -> str:
    """Names and values in a collapsed table."""
    rows = "\n".join(
        f"<tr><td>{escape(name)}</td><td><code>{escape(value)}</code></td></tr>" for name, value in _flat(values)
    )
    return (
        f"<details><summary>{escape(heading)}</summary>\n"
        f'<div class="scroll"><table class="values"><tbody>\n{rows}\n</tbody></table></div></details>'
    )


def _flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Names and values of nested parameters, with dots between levels: ("kernel.length_scale", "0.2")."""
    if isinstance(value, Mapping):
        prefix = f"{name}." if name else ""
        return [pair for key, part in value.items() for pair in _flat(part, f"{prefix}{key}")]
    return [] if value is None else [(name or "value", str(value))]
