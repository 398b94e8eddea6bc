"""A report written into a folder: one page, its figures, its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Protocol

from kernelbandits._files import writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.blocks import png_data, svg_data
from kernelbandits.experiments.images import pdf, png, svg
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.gallery import drawings_of
from kernelbandits.experiments.reporting.latex import latex_figures, latex_tables
from kernelbandits.experiments.reporting.page import Inlined, report_page
from kernelbandits.experiments.reporting.tables import csv_table, markdown_tables
from kernelbandits.experiments.results import CONFIDENCE, Result, Results, read_results, report_warnings
from kernelbandits.experiments.themes import DARK, LIGHT, Theme

__all__ = ["FORMATS", "THEMES", "Report", "report", "write_report"]

FORMATS: Final = ("png", "svg", "pdf")
THEMES: Final = {"light": LIGHT, "dark": DARK}

LARGEST_SVG: Final = 2**20
"""Bytes up to which a figure stands on the page as SVG; a larger one stands there as PNG."""


class HasFolder(Protocol):
    """Results that know where they lie."""

    @property
    def folder(self) -> Path:
        """The result folder."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What a report says, and where it lies."""

    recorded: Results
    entries: dict[str, tuple[Result, ...]]
    """Rows of the table by environment, best first."""

    warnings: tuple[str, ...]
    files: dict[str, Path]
    """The page, the tables, the folder of figures."""

    figures: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "name": self.recorded.name,
            "confidence": CONFIDENCE,
            "warnings": list(self.warnings),
            "environments": {name: [entry.to_dict() for entry in rows] for name, rows in self.entries.items()},
            "files": {kind: str(path) for kind, path in self.files.items()},
            "figures": [str(path) for path in self.figures],
        }


def report(
    results: HasFolder | str | PathLike[str],
    into: str | PathLike[str] = "report",
    *,
    formats: Sequence[str] = FORMATS,
) -> Path:
    """Make the report of a study from its result folder, without simulating anything; gives the path of the page.

    Parameters
    ----------
    results
        A result folder, or results that know theirs.
    into
        The folder to write: `index.html`, `table.tex`, `table.md`, `table.csv`, `figures.tex` and `figures/`. It is
        made when it is not there.
    formats
        Kinds of files that each figure is written as, of "png", "svg" and "pdf".
    """
    return write_report(results, into, formats=formats).files["page"]


def write_report(
    results: HasFolder | str | PathLike[str],
    into: str | PathLike[str] = "report",
    *,
    formats: Sequence[str] = FORMATS,
    begin: Callable[[int], Callable[[], None]] | None = None,
) -> Report:
    """The same, and everything that the report says.

    Parameters
    ----------
    begin
        Called with the number of pictures to draw; what it gives is called after each.
    """
    import_optional("matplotlib", "This part of experiments")
    _check(formats)
    place: Any = results
    recorded = read_results(place if isinstance(place, str | PathLike) else getattr(place, "folder", place))
    folder = writable_folder(into)
    drawings, entries, warnings = drawings_of(recorded), recorded.ranking(), report_warnings(recorded)
    step = None if begin is None else begin(len(drawings) * len(THEMES))

    pictures = writable_folder(folder / "figures")
    inlined, written = [], []
    for drawing in drawings:
        data = {}
        for appearance, theme in THEMES.items():
            data[appearance], paths = _write_figure(drawing, pictures, appearance, theme, formats)
            written += paths
            if step is not None:
                step()
        inlined.append(Inlined(drawing=drawing, **data))

    latex = latex_tables(entries)
    texts = {
        "table.tex": latex,
        "table.md": markdown_tables(entries),
        "table.csv": csv_table(entries),
        "figures.tex": latex_figures(drawings, "figures"),
        "index.html": report_page(recorded, entries=entries, figures=inlined, warnings=warnings, latex=latex),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = {"page": folder / "index.html", "LaTeX": folder / "table.tex", "Markdown": folder / "table.md"}
    files |= {"CSV": folder / "table.csv", "captions": folder / "figures.tex", "figures": pictures}
    return Report(recorded=recorded, entries=entries, warnings=warnings, files=files, figures=tuple(written))


def _write_figure(
    drawing: Drawing, folder: Path, appearance: str, theme: Theme, formats: Sequence[str]
) -> tuple[str, list[Path]]:
    """The picture for the page, and the files; a PNG stands alone, so it carries its caption."""
    bare = drawing.draw("", theme)
    text = svg(bare)
    made: dict[str, Callable[[], bytes]] = {
        "svg": text.encode,
        "pdf": lambda: pdf(bare),
        "png": lambda: png(drawing.draw(drawing.caption, theme)),
    }
    paths = []
    for form in dict.fromkeys(formats):
        path = folder / f"{drawing.name}-{appearance}.{form}"
        path.write_bytes(made[form]())
        paths.append(path)
    return (svg_data(text) if len(text) <= LARGEST_SVG else png_data(png(bare))), paths


def _check(formats: Sequence[str]) -> None:
    if isinstance(formats, str) or not isinstance(formats, Collection):
        raise InvalidParameter(f"The formats have to be a list, such as ['svg'], got {formats!r}.")
    unknown = [form for form in formats if not isinstance(form, str) or form not in FORMATS]
    if unknown:
        raise InvalidParameter(f"Figures are written as {', '.join(FORMATS)}, got {unknown[0]!r}.")
