"""Tables of results in Markdown, LaTeX, HTML, CSV and for the terminal."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from math import floor, isnan, log10
from typing import TYPE_CHECKING, Final

from kernelbandits._optional import import_optional
from kernelbandits.experiments.plotting.figures import INTERVAL, ReportFigure, file_name, unique_names
from kernelbandits.experiments.results import EndValue, Result
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

__all__ = [
    "Table",
    "csv_table",
    "duration",
    "environment_table",
    "latex_escaped",
    "latex_figures",
    "latex_packages",
    "latex_tables",
    "markdown_rows",
    "markdown_tables",
    "number_with_interval",
    "overview_table",
    "print_table",
    "summary_table",
]

UNKNOWN: Final = "–"
INTERVAL_DIGITS: Final = 2

MAX_PIPE_WIDTH: Final = 1000
"""Columns of a table that is not printed to a terminal."""

MIN_TERMINAL_WIDTH: Final = 80
"""Tables are printed at least this wide if they need it; a narrower terminal would leave no room for names."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and cells of a table, with every format in which it is written."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    n_text_columns: int = 1
    """Columns aligned to the left; the others are numbers, aligned to the right."""

    highlighted: int | None = None
    """Row of the best result, whose name and result are in bold."""

    def to_markdown(self) -> str:
        """A table with aligned columns."""
        bold = [
            [f"**{cell}**" if place <= self.n_text_columns and number == self.highlighted else cell
             for place, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]  # fmt: skip
        return markdown_rows([self.headings, *bold], n_text_columns=self.n_text_columns)

    def to_latex(self, label: str) -> str:
        """A float for the package booktabs."""
        body = []
        for number, row in enumerate(self.rows):
            cells = [latex_escaped(cell) for cell in row]
            if number == self.highlighted:  # \boldmath applies to the sign between number and interval
                n_bold = self.n_text_columns + 1
                cells[:n_bold] = [rf"{{\bfseries\boldmath {cell}}}" for cell in cells[:n_bold]]
            body.append("    " + " & ".join(cells) + r" \\")
        columns = "l" * self.n_text_columns + "r" * (len(self.headings) - self.n_text_columns)
        return "\n".join(
            (
                r"\begin{table}",
                r"  \centering",
                rf"  \caption{{{latex_escaped(self.title)}. {latex_escaped(self.caption)}}}",
                rf"  \label{{tab:{label}}}",
                rf"  \begin{{tabular}}{{{columns}}}",
                r"    \toprule",
                "    " + " & ".join(map(latex_escaped, self.headings)) + r" \\",
                r"    \midrule",
                *body,
                r"    \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
                "",
            )
        )

    def to_html(self) -> str:
        """A table whose first column is the header of its row."""
        head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in self.headings)
        body = "\n".join(self._html_row(number, row) for number, row in enumerate(self.rows))
        caption = f"<caption>{escape(self.caption)}</caption>\n" if self.caption else ""
        return (
            f'<div class="scroll"><table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n'
            "</table></div>"
        )

    def _html_row(self, number: int, row: Sequence[str]) -> str:
        name, *cells = row
        best = ' class="best"' if number == self.highlighted else ""
        n_text = self.n_text_columns - 1
        return f'<tr{best}><th scope="row">{escape(name)}</th>' + "".join(
            f'<td class="text">{escape(cell)}</td>' if place < n_text else f"<td>{escape(cell)}</td>"
            for place, cell in enumerate(cells)
        ) + "</tr>"  # fmt: skip

    def to_rich(self) -> RichTable:
        """A table that `rich` prints."""
        import_optional("rich", "This part of experiments")
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
        for place, heading in enumerate(self.headings):
            if place < self.n_text_columns:
                table.add_column(heading, overflow="fold")
            else:
                table.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))  # brackets in names are not markup
        return table


def print_table(table: Table) -> Console:
    """Print the table to the terminal; returns the console that it was printed to."""
    shown = table.to_rich()
    console = _console(shown)
    console.print(shown)
    return console


def _console(table: RichTable) -> Console:
    """A console as wide as the terminal, or as the table if the output is not a terminal."""
    from rich.console import Console
    from rich.measure import Measurement

    console, wide = Console(highlight=False), Console(highlight=False, width=MAX_PIPE_WIDTH)
    needed = Measurement.get(wide, wide.options, table)
    if not console.is_terminal:
        return Console(highlight=False, width=needed.maximum)
    return Console(highlight=False, width=max(console.width, min(needed.minimum, MIN_TERMINAL_WIDTH)))


# Tables of results


def environment_table(results: Sequence[Result], *, title: str = "") -> Table:
    """Final results of every policy in one environment; columns without any value are left out."""
    columns: dict[str, list[str]] = {"Policy": [result.policy for result in results]}
    measure = "Regret" if results[0].measure == "regret" else "Total reward"
    columns[measure] = [number_with_interval(result.final.mean, result.final.half_width) for result in results]
    if not all(isnan(result.relative_regret) for result in results):
        columns["Of random"] = [
            UNKNOWN if isnan(result.relative_regret) else f"{result.relative_regret:.0%}" for result in results
        ]
    columns["Mean reward"] = [
        number_with_interval(result.mean_reward.mean, result.mean_reward.half_width) for result in results
    ]
    if not all(isnan(result.seconds_per_round) for result in results):
        columns["Time per round"] = [duration(result.seconds_per_round) for result in results]
    if len({result.n_runs for result in results}) > 1:
        columns["Runs"] = [str(result.n_runs) for result in results]
    return Table(
        title=title or results[0].environment,
        headings=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption=_caption(results),
        highlighted=next((number for number, result in enumerate(results) if result.is_best), None),
    )


def overview_table(
    results: Mapping[str, Sequence[Result]], *, title: str, groups: Mapping[str, str] | None = None
) -> Table:
    """Final results of every policy in all environments, one row per policy.

    Parameters
    ----------
    results
        Results by environment.
    groups
        Group of each policy, for a column of its own; the rows are then in this order.
    """
    found = {(result.environment, result.policy): result for rows in results.values() for result in rows}
    policies = list(groups) if groups else list(dict.fromkeys(policy for _, policy in found))
    rows = []
    for policy in policies:
        here = [found.get((environment, policy)) for environment in results]
        times = [result.seconds_per_round for result in here if result is not None]
        rows.append(
            [
                policy,
                *([groups[policy]] if groups else []),
                *(UNKNOWN if result is None else _rounded(result.final) for result in here),
                duration(sum(times) / len(times)) if times else UNKNOWN,
            ]
        )
    return Table(
        title=title,
        headings=["Policy", *(["Family"] if groups else []), *results, "Time per round"],
        rows=rows,
        caption=_caption([result for group in results.values() for result in group]),
        n_text_columns=2 if groups else 1,
    )


def summary_table(results: Sequence[Result], *, horizon: int, n_seeds: int) -> Table:
    """Final regret and reward of every policy in every environment of a study.

    >>> summary_table([], horizon=1_000, n_seeds=5).title, summary_table([], horizon=1, n_seeds=1).title
    ('After 1,000 rounds, mean over 5 seeds', 'After 1 round, one seed')
    """
    rows = [
        [
            result.environment,
            result.policy,
            *(
                UNKNOWN if isnan(value) else f"{value:z.1f}"
                for end in (result.regret, result.total_reward)
                for value in (end.mean, end.half_width)
            ),
        ]
        for result in results
    ]
    over = f"mean over {n_seeds} seeds" if n_seeds > 1 else "one seed"
    headings = ["Environment", "Policy", "Regret", "± 95 %", "Total reward", "± 95 %"]
    title = f"After {pluralize(horizon, 'round')}, {over}"
    return Table(title=title, headings=headings, rows=rows, n_text_columns=2)


def _caption(results: Sequence[Result]) -> str:
    """Length and number of the runs, and the type of interval."""
    numbers, rounds = sorted({result.n_runs for result in results}), max(result.n_rounds for result in results)
    after = f"After {pluralize(rounds, 'round')}"
    if numbers == [1]:
        return f"{after}, one seed, so there is no interval."
    over = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{after}, mean over {over} seeds, ± half the length of {INTERVAL}."


def markdown_tables(tables: Sequence[Table]) -> str:
    """A heading, a caption and the rows of each table."""
    return "\n".join(f"## {table.title}\n\n{table.caption}\n\n{table.to_markdown()}\n" for table in tables)


def csv_table(results: Mapping[str, Sequence[Result]]) -> str:
    """Every number with full precision; unknown ones are empty."""
    rows = [_csv_row(result) for group in results.values() for result in group]
    buffer = StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _csv_row(result: Result) -> dict[str, object]:
    values = result.to_dict()
    return {**values, "parameters": ", ".join(f"{name}={value}" for name, value in result.parameters.items())}


def markdown_rows(rows: Sequence[Sequence[str]], *, n_text_columns: int = 1) -> str:
    """A Markdown table that is aligned as plain text too; the first row are the headings.

    >>> print(markdown_rows([["policy", "regret"], ["KernelUCB", "12"]]))
    | policy    | regret |
    |-----------|-------:|
    | KernelUCB |     12 |
    """
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in escaped) for column in range(len(escaped[0]))]
    lines = [
        "| " + " | ".join(
            cell.ljust(width) if place < n_text_columns else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ) + " |"
        for row in escaped
    ]  # fmt: skip
    rule = "|".join("-" * (width + 1) + ("-" if place < n_text_columns else ":") for place, width in enumerate(widths))
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


# Numbers


def number_with_interval(value: float, half_width: float, sign: str = "±") -> str:
    """A number with the decimals that are meaningful given its interval, which has two digits.

    >>> number_with_interval(12.3456, 0.789), number_with_interval(1234.5, 67.8)
    ('12.35 ± 0.79', '1234 ± 68')
    """
    if isnan(value):
        return UNKNOWN
    if isnan(half_width):
        return f"{value:z.{_decimals(abs(value), 3)}f}"
    decimals = _decimals(half_width or abs(value), INTERVAL_DIGITS if half_width else 3)
    return f"{value:z.{decimals}f} {sign} {half_width:.{decimals}f}"


def _decimals(size: float, digits: int) -> int:
    """Decimals that give a number of this size this many significant digits."""
    return 2 if size == 0 else min(6, max(0, digits - 1 - floor(log10(size))))


def _rounded(end: EndValue) -> str:
    if isnan(end.mean):
        return UNKNOWN
    return f"{end.mean:.0f}" if isnan(end.half_width) else f"{end.mean:.0f} ± {end.half_width:.0f}"


def duration(seconds: float) -> str:
    """Seconds with a readable unit.

    >>> duration(0.0123), duration(5e-6), duration(float("nan"))
    ('12.30 ms', '5 µs', '–')
    """
    if isnan(seconds):
        return UNKNOWN
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1.0 else f"{seconds:.2f} s"


# LaTeX

SYMBOLS: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''",
    "[": "{[}", "*": "{*}",  # at the beginning of a row they would be arguments of the row before
    "`": r"\textasciigrave{}", "−": "$-$", "–": "--", "…": r"\ldots{}",
    "±": r"$\pm$", "·": r"$\cdot$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$",
    "≈": r"$\approx$", "∞": r"$\infty$", "→": r"$\rightarrow$", "∈": r"$\in$", "∑": r"$\sum$", "‖": r"$\|$",
    "√": r"$\surd$", "ℓ": r"$\ell$",
}  # fmt: skip
"""Characters of labels and captions that LaTeX does not print as they are."""

LATIN_CAPITALS: Final = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Greek letters that TeX has no command for, since they look like Latin ones."""

ACCENTS: Final = dict(zip("\u0300\u0301\u0302\u0303\u0304\u0307\u0308", "`'^~=.\"", strict=True))
"""Combining characters, and the commands that set them."""

LAST_LATIN: Final = "\u017f"
"""LaTeX prints the characters up to this one with fonts in encoding T1, and some symbols beyond."""

T1_SYMBOLS: Final = "‘’“”„—•†‡€™ﬁﬂ"


def latex_tables(tables: Sequence[Table]) -> str:
    """A float for each table, and the packages that they need as comments."""
    labels = unique_names(file_name(table.title) for table in tables)
    text = "\n".join(table.to_latex(label) for table, label in zip(tables, labels, strict=True))
    return latex_packages(text, "booktabs") + text


def latex_figures(figures: Sequence[ReportFigure], folder: str) -> str:
    """A float for each figure with its caption; `folder` contains the PDF files."""
    floats = [
        "\n".join(
            (
                r"\begin{figure}",
                r"  \centering",
                rf"  \includegraphics[width=\linewidth]{{{folder}/{figure.name}-light.pdf}}",
                rf"  \caption{{{latex_escaped(figure.caption)}}}",
                rf"  \label{{fig:{figure.name}}}",
                r"\end{figure}",
            )
        )
        for figure in figures
    ]
    text = "\n\n".join(floats) + "\n"
    return latex_packages(text, "graphicx") + text


def latex_escaped(text: str) -> str:
    r"""The text as LaTeX prints it; letters other than Latin and Greek stay as they are and need a suitable font.

    >>> print(latex_escaped("R&D_1: 50 % of #3"))
    R\&D\_1: 50 \% of \#3
    """
    parts: list[str] = []
    for char in unicodedata.normalize("NFC", text):
        if char in ACCENTS and parts:
            parts.append(rf"\{ACCENTS[char]}{{{parts.pop()}}}")
        else:  # two hyphens in a row would become a dash
            parts.append("{}-" if char == "-" and parts and parts[-1].endswith("-") else _latex_character(char))
    return "".join(parts)


def _latex_character(char: str) -> str:
    found = (SYMBOLS | LATIN_CAPITALS).get(char)
    if found is not None:
        return found
    script, _, code = unicodedata.decomposition(char).partition(" ")
    if script in ("<super>", "<sub>"):
        base = chr(int(code, 16)).replace("−", "-")
        return f"$^{{{base}}}$" if script == "<super>" else f"$_{{{base}}}$"
    name = unicodedata.name(unicodedata.normalize("NFKC", char), "")
    if greek := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)", name):
        word = greek[2].lower().replace("lamda", "lambda")
        return rf"$\{word if greek[1] == 'SMALL' else word.capitalize()}$"
    category = unicodedata.category(char)
    if category == "Cf":  # zero width
        return ""
    return " " if category in ("Cc", "Zs", "Zl", "Zp") else char


def latex_packages(text: str, *names: str) -> str:
    """Comments with the packages that a file needs."""
    needed = [rf"\usepackage{{{name}}}" for name in names]
    if not text.isascii():
        needed.append(r"\usepackage[T1]{fontenc}")
    if any(char > LAST_LATIN and char not in T1_SYMBOLS for char in text):
        needed.append("and, for letters beyond Latin, lualatex with a font that has them")
    return "".join(f"% {line}\n" for line in needed)
