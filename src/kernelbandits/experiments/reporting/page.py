"""The report as one page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from kernelbandits.experiments.blocks import code_block, contents, details, document, picture, table
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.tables import table_caption, table_of
from kernelbandits.experiments.reporting.wording import file_name
from kernelbandits.experiments.results import Result, Results
from kernelbandits.validation import pluralize

__all__ = ["Inlined", "report_page"]


@dataclass(frozen=True, kw_only=True)
class Inlined:
    """A figure with its pictures, each inside its own address."""

    drawing: Drawing
    light: str
    dark: str


def report_page(
    recorded: Results,
    *,
    entries: Mapping[str, Sequence[Result]],
    figures: Sequence[Inlined],
    warnings: Sequence[str],
    latex: str,
) -> str:
    """The page as HTML: warnings first, then tables, figures, what to copy, and what was run."""
    sections = {
        "Results": _results(entries),
        **_figures(figures),
        "For a paper": _for_a_paper(latex),
        "What was run": _what_was_run(recorded),
    }
    parts = [
        f"<h1>{escape(recorded.name)}</h1>",
        f"<p>{escape(_introduction(recorded))}</p>",
        _warnings(warnings),
        contents({file_name(heading): heading for heading in sections}),
        "<main>",
        *(f'<h2 id="{file_name(heading)}">{escape(heading)}</h2>\n{body}' for heading, body in sections.items()),
        "</main>",
    ]
    return document(recorded.name, "\n".join(part for part in parts if part))


def _introduction(recorded: Results) -> str:
    labels = {played.label for played in recorded.all_runs}
    return (
        f"{pluralize(len(labels), 'policy', 'policies')} in {pluralize(len(recorded.environments), 'environment')}, "
        f"{pluralize(len(recorded.seeds), 'seed')}"
        + (f", {pluralize(recorded.study['horizon'], 'round')}" if recorded.study.get("horizon") else "")
        + ". Under one seed all policies of an environment meet the same contexts and the same luck. Regret is what "
        "the best action of each round would have brought more, in expectation, added up."
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    lines = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<div class="warnings" role="note"><h2>Before you quote this</h2><ul>{lines}</ul></div>'


def _results(entries: Mapping[str, Sequence[Result]]) -> str:
    parts = []
    for environment, rows in entries.items():
        if len(entries) > 1:
            parts.append(f"<h3>{escape(environment)}</h3>")
        parts.append(table(*table_of(rows), caption=table_caption(rows)))
    return "\n".join(parts)


def _figures(figures: Sequence[Inlined]) -> dict[str, str]:
    """Figures by the section under which they stand, each under its title where there are several."""
    sections: dict[str, list[Inlined]] = {}
    for figure in figures:
        sections.setdefault(figure.drawing.section, []).append(figure)
    return {
        section: "\n".join(_figure(figure, titled=len(several) > 1) for figure in several)
        for section, several in sections.items()
    }


def _figure(figure: Inlined, *, titled: bool) -> str:
    drawing = figure.drawing
    title = f"<h3>{escape(drawing.title)}</h3>\n" if titled else ""
    return title + picture(figure.light, figure.dark, description=drawing.description, caption=drawing.caption)


def _for_a_paper(latex: str) -> str:
    return (
        "<p>The tables in LaTeX (one click marks all of it). The folder of this page also holds them as table.tex, "
        "table.md and table.csv, and the figures with and without dark paper.</p>\n" + code_block(latex)
    )


def _what_was_run(recorded: Results) -> str:
    head = recorded.study
    known = ("format", "name", "study", "versions", "machine", "jobs")
    parts = [
        "<p>To make the results again from the study's file, and this page from the results:</p>",
        code_block(_commands(recorded)),
        details("Size", {name: value for name, value in head.items() if name not in known}),
        *(
            details(heading, _plain(head[part]))
            for heading, part in (("Study", "study"), ("Versions", "versions"), ("Machine", "machine"))
            if head.get(part)
        ),
    ]
    for environment, policies in recorded.environments.items():
        first = next(iter(policies.values()))
        parts.append(details(f"Environment: {environment}", _plain(first.described.get("environment"))))
    for label, played in {played.label: played for played in recorded.all_runs}.items():
        told = dict(_plain(played.described.get("policy"))) | {"claims": played.claims}
        parts.append(details(f"Policy: {label}", told))
    return "\n".join(parts)


def _commands(recorded: Results) -> str:
    folder = shlex.quote(str(recorded.folder))
    again = recorded.study.get("command") or f"kernelbandits run study.toml --into {folder}"
    return f"{again}\nkernelbandits report {folder}\n"


def _plain(values: Any) -> Mapping[str, Any]:
    """A mapping for a table of parameters, whatever stands in the file."""
    if isinstance(values, Mapping):
        return values
    return {} if values is None else {"value": values}
