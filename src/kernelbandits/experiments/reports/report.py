"""Writes the report of a study into a folder: a page, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from kernelbandits._files import writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.plotting.curves import Bound
from kernelbandits.experiments.plotting.figures import ReportFigure, list_figures
from kernelbandits.experiments.plotting.style import FONT, LIGHT, PAPER, VARIANTS, Theme, missing_glyphs, pdf, png, svg
from kernelbandits.experiments.reports.html import EmbeddedFigure, data_url, report_page
from kernelbandits.experiments.reports.tables import (
    Table,
    comparison_table,
    csv_table,
    environment_table,
    latex_figures,
    latex_tables,
    markdown_tables,
    overview_table,
    rank_table,
)
from kernelbandits.experiments.results import CONFIDENCE, Result, Results, read_results, report_warnings
from kernelbandits.validation import short_repr

__all__ = ["FORMATS", "Report", "ReportContent", "report", "write_report"]

FORMATS: Final = ("png", "svg", "pdf")

MAX_SVG_SIZE: Final = 2**20
"""Bytes of a figure that is embedded in the page as SVG; a larger one is embedded as PNG."""


class HasFolder(Protocol):
    """Results with a folder."""

    @property
    def folder(self) -> Path:
        """The result folder."""


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """Text of a report besides the results."""

    title: str = ""
    """Title of the page; by default the name of the study."""

    introduction: str = ""
    remarks: Sequence[str] = ()
    """Sentences on how to interpret the results."""

    bounds: Mapping[str, Bound] | None = None
    """Proved bounds by policy, in place of 2 Σ exploration · width."""

    groups: Mapping[str, str] | None = None
    """Group of each policy: a column of the overview table, and its color in the figure of final results."""

    sections: Collection[str] | None = None
    """Sections of figures to draw; None draws all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """Content and files of a report."""

    results: Results
    ranking: dict[str, tuple[Result, ...]]
    """Results by environment, best first."""

    tables: tuple[Table, ...]
    warnings: tuple[str, ...]
    files: dict[str, Path]
    """The page, the tables, the folder of figures."""

    figures: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Values that can be written as JSON."""
        return {
            "name": self.results.name,
            "confidence": CONFIDENCE,
            "warnings": list(self.warnings),
            "environments": {name: [result.to_dict() for result in rows] for name, rows in self.ranking.items()},
            "files": {kind: str(path) for kind, path in self.files.items()},
            "figures": [str(path) for path in self.figures],
        }


def report(
    results: HasFolder | str | PathLike[str],
    into: str | PathLike[str] = "report",
    *,
    formats: Sequence[str] = FORMATS,
    paper: Literal["single", "double"] | None = None,
    reference: str | None = None,
) -> Path:
    """Write the report of a study from its result folder, without simulating anything; returns the path of the page.

    Parameters
    ----------
    results
        A result folder, or an object with an attribute `folder`.
    into
        The folder to write: `index.html`, `table.tex`, `table.md`, `table.csv`, `figures.tex` and `figures/`. It is
        created if necessary.
    formats
        File formats of each figure, of "png", "svg" and "pdf".
    paper
        "single" or "double": also write each figure for one or two columns of a paper, 3.25 or 6.75 inches wide, with
        text of at least 7 points; `figures.tex` includes these at their size.
    reference
        Policy that the others are compared with, seed by seed; None: the best in each environment.
    """
    return write_report(results, into, formats=formats, paper=paper, reference=reference).files["page"]


def write_report(
    results: HasFolder | str | PathLike[str],
    into: str | PathLike[str] = "report",
    *,
    formats: Sequence[str] = FORMATS,
    paper: Literal["single", "double"] | None = None,
    reference: str | None = None,
    content: ReportContent | None = None,
    begin: Callable[[int], Callable[[], None]] | None = None,
) -> Report:
    """Write the report as `report` does; returns its content.

    Parameters
    ----------
    content
        Text of the report besides the results.
    begin
        Called with the number of images to draw; returns a function that is called after each image.
    """
    import_optional("matplotlib", "This part of experiments")
    _check_formats(formats)
    if paper is not None and paper not in PAPER:
        raise InvalidParameter(f"A figure for a paper has a 'single' or a 'double' column, got {short_repr(paper)}.")
    content = content or ReportContent()
    given: Any = results
    recorded = read_results(given if isinstance(given, str | PathLike) else getattr(given, "folder", given))
    folder = writable_folder(into)
    figures = [
        figure
        for figure in list_figures(recorded, bounds=content.bounds, groups=content.groups)
        if content.sections is None or figure.section in content.sections
    ]
    ranking, warnings = recorded.ranking(reference), (*report_warnings(recorded), *_glyph_warnings(recorded))
    tables = _tables(recorded, ranking, content)
    step = None if begin is None else begin(len(figures) * (len(VARIANTS) + bool(paper)))

    image_folder = writable_folder(folder / "figures")
    embedded, written = [], []
    for figure in figures:
        urls = {}
        for variant, theme in VARIANTS.items():
            kinds = [] if theme.is_narrow else formats  # a phone shows the page, not the files
            urls[variant], paths = _write_images(figure, image_folder, variant, theme, kinds)
            written += paths
            if step is not None:
                step()
        embedded.append(EmbeddedFigure(figure=figure, addresses=urls))
        if paper is not None:
            written += _write_images(figure, image_folder, paper, LIGHT.paper(paper), formats)[1]
            if step is not None:
                step()

    latex = latex_tables(tables)
    page = report_page(
        recorded,
        tables=tables,
        figures=embedded,
        warnings=warnings,
        latex=latex,
        title=content.title,
        introduction=content.introduction,
        remarks=content.remarks,
    )
    texts = {
        "page": ("index.html", page),
        "LaTeX": ("table.tex", latex),
        "Markdown": ("table.md", markdown_tables(tables)),
        "CSV": ("table.csv", csv_table(ranking)),
        "captions": ("figures.tex", latex_figures(figures, "figures", paper=paper)),
    }
    for name, text in texts.values():
        (folder / name).write_text(text, encoding="utf-8")
    files = {kind: folder / name for kind, (name, _) in texts.items()} | {"figures": image_folder}
    return Report(
        results=recorded,
        ranking=ranking,
        tables=tables,
        warnings=warnings,
        files=files,
        figures=tuple(written),
    )


def _tables(results: Results, ranking: Mapping[str, Sequence[Result]], content: ReportContent) -> tuple[Table, ...]:
    """An overview if there are groups, a table per environment, and comparisons under the same seeds."""
    overview = [overview_table(ranking, title=results.name, groups=content.groups)] if content.groups else []
    compared = [*map(comparison_table, ranking.values()), rank_table(ranking, results.overall_ranks())]
    return (
        *overview,
        *(environment_table(rows) for rows in ranking.values()),
        *(table for table in compared if table is not None),
    )


def _glyph_warnings(results: Results) -> list[str]:
    missing = missing_glyphs([*results.environments, *(runs.label for runs in results.all_runs)])
    return [f"Figures show boxes for characters that their font, {FONT}, does not have: {missing}"] if missing else []


def _write_images(
    figure: ReportFigure,
    folder: Path,
    variant: str,
    theme: Theme,
    formats: Sequence[str],
    *,
    max_svg_size: int = MAX_SVG_SIZE,
) -> tuple[str, list[Path]]:
    """Data URL for the page, and the files; a PNG contains the caption, since it is used alone, but not in a paper."""
    bare = figure.draw("", theme)
    caption = "" if theme.layout.is_paper else figure.caption
    text = svg(bare)
    images: dict[str, Callable[[], bytes]] = {
        "svg": text.encode,
        "pdf": lambda: pdf(bare),
        "png": lambda: png(figure.draw(caption, theme)),
    }
    paths = []
    for kind in dict.fromkeys(formats):
        path = folder / f"{figure.name}-{variant}.{kind}"
        path.write_bytes(images[kind]())
        paths.append(path)
    return data_url(text if len(text) <= max_svg_size else png(bare)), paths


def _check_formats(formats: Sequence[str]) -> None:
    if isinstance(formats, str) or not isinstance(formats, Collection):
        raise InvalidParameter(f"The formats must be a list, such as ['svg'], got {formats!r}.")
    unknown = [kind for kind in formats if not isinstance(kind, str) or kind not in FORMATS]
    if unknown:
        raise InvalidParameter(f"Figures are written as {', '.join(FORMATS)}, got {unknown[0]!r}.")
