"""The page of the policy study: tables and a figure from its numbers alone, and their place in a Markdown page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.plotting.curves import Panel, panel_grid
from kernelbandits.experiments.plotting.figures import Dot, ReportFigure, draw_dots, rows_height
from kernelbandits.experiments.plotting.style import VARIANTS, LegendEntry, Theme, svg
from kernelbandits.experiments.reports.html import figure_element
from kernelbandits.experiments.reports.tables import Table, duration
from kernelbandits.experiments.results import EndValue
from kernelbandits.types import Vector
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "constants_table",
    "difference_of",
    "difference_table",
    "figure_of",
    "figures",
    "insert_section",
    "regret_table",
    "section",
    "section_place",
    "settings_of",
    "source_of",
]

UNDEFINED: Final = "—"
REFERENCE: Final = "KernelUCB"
BASELINE: Final = "Random"
COLORS: Final = {"default": "blue", "tuned": "orange", "theory": "gray"}
FIGURE: Final = "policies"
"""Name of the files of the figure."""

Numbers = Mapping[str, Any]
Row = Mapping[str, Any]


def settings_of(numbers: Numbers) -> list[tuple[str, Row]]:
    """Rows of the tables with the name of their setting; a theory row that equals the default is part of it."""
    found: list[tuple[str, Row]] = []
    for row in numbers["rows"]:
        if row["setting"] == "theory" and found[-1][1]["name"] == row["name"]:
            place = next(place for place, (_, other) in enumerate(found) if other["name"] == row["name"])
            if found[place][1]["regret"] == row["regret"]:
                found[place] = "default, theory", found[place][1]
                continue
        found.append((row["setting"], row))
    return found


def regret_table(numbers: Numbers) -> Table:
    """Mean regret with its interval, and the time per round."""
    problems = list(numbers["problems"])
    cells = [
        [row["name"], setting, *(_end(row, problem) for problem in problems), _time(row)]
        for setting, row in settings_of(numbers)
    ]
    return Table(
        title="Regret",
        headings=["Policy", "Settings", *problems, "Time per round"],
        rows=cells,
        caption=(
            f"After {pluralize(numbers['horizon'], 'round')}, mean over {pluralize(numbers['n_seeds'], 'seed')}, ± "
            f"half the length of {numbers['confidence'] * 100:.0f} % intervals (Student's t over seeds)."
        ),
        n_text_columns=2,
    )


def difference_table(numbers: Numbers) -> Table:
    """Regret minus that of KernelUCB with the same kind of settings, seed by seed."""
    problems = list(numbers["problems"])
    cells = []
    for setting, row in settings_of(numbers):
        reference = _reference(numbers, row["setting"])
        if row["name"] != REFERENCE and row["setting"] != "theory" and reference is not None:
            cells.append([row["name"], setting, *(_difference(row, reference, problem) for problem in problems)])
    return Table(
        title="Difference",
        headings=["Policy", "Settings", *problems],
        rows=cells,
        caption=(
            f"Regret minus that of {REFERENCE} with the same kind of settings, mean and "
            f"{numbers['confidence'] * 100:.0f} % interval over the differences of each seed, in which both have the "
            "same noise. In bold: intervals that exclude zero, as one in twenty does where there is no difference."
        ),
        n_text_columns=2,
    )


def constants_table(numbers: Numbers) -> Table:
    """Tuned settings of every policy on every problem."""
    problems = list(numbers["problems"])
    cells = []
    for row in numbers["rows"]:
        if row["setting"] == "tuned":
            for name in dict.fromkeys(name for values in row["values"].values() for name in values):
                chosen = [row["values"].get(problem, {}).get(name, UNDEFINED) for problem in problems]
                cells.append([row["name"], f"`{name}`", *chosen])
    return Table(
        title="Constants",
        headings=["Policy", "Parameter", *problems],
        rows=cells,
        caption="Tuned constants: the best of a small grid, by the mean regret on seeds apart.",
        n_text_columns=2,
    )


def _reference(numbers: Numbers, setting: str) -> Row | None:
    rows = {row["setting"]: row for row in numbers["rows"] if row["name"] == REFERENCE}
    return rows.get(setting)


def _end(row: Row, problem: str) -> str:
    if problem not in row["regret"]:
        return UNDEFINED
    return _with_interval(EndValue.of(row["regret"][problem]))


def _with_interval(end: EndValue, sign: str = "") -> str:
    mean = f"{end.mean:{sign}.0f}".replace("-", "−")
    return mean if isnan(end.half_width) else f"{mean} ± {end.half_width:.0f}"


def difference_of(row: Row, reference: Row, problem: str) -> EndValue:
    """Regret of a row minus that of another over the same seeds."""
    return EndValue.of(_regret(row, problem) - _regret(reference, problem))


def _regret(row: Row, problem: str) -> Vector:
    return np.asarray(row["regret"][problem], dtype=np.float64)


def _difference(row: Row, reference: Row, problem: str) -> str:
    if problem not in row["regret"] or problem not in reference["regret"]:
        return UNDEFINED
    end = difference_of(row, reference, problem)
    text = _with_interval(end, "+")
    return f"**{text}**" if end.low > 0.0 or end.high < 0.0 else text


def _time(row: Row) -> str:
    seconds = list(row["seconds_per_round"].values())
    return duration(float(np.mean(seconds)))


# Figure


def figure_of(numbers: Numbers) -> ReportFigure | None:
    """Regret of every policy as a share of the uniform policy's, a panel per problem; None if that was not run."""
    baseline = next((row for row in numbers["rows"] if row["name"] == BASELINE), None)
    if baseline is None:
        return None
    shares = {
        (row["name"], row["setting"], problem): float(
            np.mean(_regret(row, problem)) / np.mean(_regret(baseline, problem))
        )
        for row in numbers["rows"]
        for problem in row["regret"]
    }
    names = _by_default(shares)
    return ReportFigure(
        name=FIGURE,
        title="Regret of every policy",
        section="",
        caption=(
            f"Regret after {pluralize(numbers['horizon'], 'round')} as a share of that of the uniform policy, mean "
            f"over {pluralize(numbers['n_seeds'], 'seed')}; the mark at 1 is the uniform policy. Policies by the mean "
            "share of their defaults over the problems on which they are defined: fewer problems may be easier ones."
        ),
        alt_text=f"Dots per policy and problem. By the mean share of the defaults, lowest first: {', '.join(names)}.",
        draw=partial(_draw, shares, names, list(numbers["problems"])),
    )


def _by_default(shares: Mapping[tuple[str, str, str], float]) -> list[str]:
    means: dict[str, list[float]] = {}
    for (name, setting, _), share in shares.items():
        if setting == "default":
            means.setdefault(name, []).append(share)
    return sorted(means, key=lambda name: float(np.mean(means[name])))


def _draw(
    shares: Mapping[tuple[str, str, str], float],
    names: Sequence[str],
    problems: Sequence[str],
    caption: str,
    theme: Theme,
) -> Figure:
    panels = [
        Panel(title=problem, x_label="Share of uniform regret", draw=partial(_draw_panel, shares, names, problem))
        for problem in problems
    ]
    legend = [LegendEntry(setting, color, "o", "none") for setting, color in COLORS.items()]
    height = rows_height(len(names))
    return panel_grid(panels, n_columns=3, height=height, caption=caption, theme=theme, legend=legend, share_y=True)


def _draw_panel(
    shares: Mapping[tuple[str, str, str], float], names: Sequence[str], problem: str, axes: Axes, theme: Theme
) -> None:
    for setting, color in reversed(COLORS.items()):
        values = [shares.get((name, setting, problem), float("nan")) for name in names]
        dots = [
            Dot(label=name, color=color, value=value, low=value, high=value)
            for name, value in zip(names, values, strict=True)
        ]
        draw_dots(axes, theme, dots=dots)
    axes.axvline(1.0, color=theme.foreground, linewidth=0.8)
    axes.set_xlim(0.0, 1.5)


def figures(numbers: Numbers) -> dict[str, str]:
    """Files of the figure as SVG, for wide and narrow windows, light and dark."""
    drawing = figure_of(numbers)
    if drawing is None:
        return {}
    return {
        f"{FIGURE}-{variant}.svg": svg(drawing.draw("", theme), source=source_of(numbers))
        for variant, theme in VARIANTS.items()
    }


def source_of(numbers: Numbers) -> str:
    """Digest of the regrets that the figure shows, written into its files."""
    return f"numbers {sha256(json.dumps(numbers['rows'], sort_keys=True).encode()).hexdigest()[:16]}"


# Page


def section(numbers: Numbers, folder: str = "policies") -> str:
    """The part of the page that is written from the numbers: tables, and the figure, whose files are in a folder."""
    tables = (regret_table(numbers), difference_table(numbers), constants_table(numbers))
    parts = [f"{table.caption}\n\n{table.to_markdown()}" for table in tables if table.rows]
    drawing = figure_of(numbers)
    if drawing is not None:
        addresses = {variant: f"{folder}/{FIGURE}-{variant}.svg" for variant in VARIANTS}
        parts.insert(1, figure_element(addresses, alt_text=drawing.alt_text, caption=drawing.caption))
    return "\n\n".join(parts) + "\n"


def insert_section(page: Path, text: str) -> None:
    """Replace what is between the two marks of a page, `<!-- table … -->` and `<!-- end of table -->`."""
    before, after = section_place(page)
    page.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


def section_place(page: Path) -> tuple[str, str]:
    """Text of a page before and after the place of its tables, including the marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"The page {str(page)!r} cannot be read: {error.strerror}. Name another.") from error
    place = re.search(r"(?s)(<!-- table.*?-->\n).*?(<!-- end of table -->)", text)
    if place is None:
        raise InvalidParameter(
            f"The page {str(page)!r} has no place for a table. Add <!-- table --> and <!-- end of table -->."
        )
    return text[: place.end(1)], text[place.start(2) :]
