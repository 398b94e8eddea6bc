"""Tables of results in Markdown, LaTeX, HTML, CSV and for the terminal."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from math import exp, floor, isnan, log, log10, nan
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
    "comparison_table",
    "csv_table",
    "duration",
    "durations",
    "environment_table",
    "latex_escaped",
    "latex_figures",
    "latex_packages",
    "latex_tables",
    "markdown_rows",
    "markdown_tables",
    "number_with_interval",
    "numbers_with_intervals",
    "overview_table",
    "print_table",
    "rank_table",
    "summary_table",
]

UNKNOWN: Final = "–"
INTERVAL_DIGITS: Final = 2

COMPARISON: Final = "Differences and ranks"
"""Section of the page with comparisons of policies under the same seeds."""

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

    section: str = "Results"
    """Section of the page that shows it."""

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
    rich_table = table.to_rich()
    console = _console(rich_table)
    console.print(rich_table)
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
    columns[measure] = numbers_with_intervals([result.final for result in results])
    if not all(isnan(result.relative_regret) for result in results):
        columns["Of random"] = [
            UNKNOWN if isnan(result.relative_regret) else f"{result.relative_regret:.0%}" for result in results
        ]
    columns["Mean reward"] = numbers_with_intervals([result.mean_reward for result in results])
    if not all(isnan(result.seconds_per_round) for result in results):
        columns["Time per round"] = durations([result.seconds_per_round for result in results])
    if len({result.n_runs for result in results}) > 1:
        columns["Runs"] = [str(result.n_runs) for result in results]
    return Table(
        title=title or results[0].environment,
        headings=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption=_caption(results),
        highlighted=next((number for number, result in enumerate(results) if result.is_best), None),
    )


def comparison_table(results: Sequence[Result]) -> Table | None:
    """Paired differences to the reference and ranks in one environment; None if there is nothing to compare."""
    if not any(result.n_pairs > 1 for result in results if result.policy != result.reference):
        return None
    first = results[0]
    measure = "regret" if first.measure == "regret" else "total reward"
    columns: dict[str, list[str]] = {"Policy": [result.policy for result in results]}
    others = [result.difference if result.policy != result.reference else EndValue() for result in results]
    columns[f"Difference in {measure}"] = [
        "reference" if result.policy == result.reference else text
        for result, text in zip(results, numbers_with_intervals(others), strict=True)
    ]
    columns["Better"] = [
        UNKNOWN if result.policy == result.reference or not result.n_pairs else f"{result.n_better} of {result.n_pairs}"
        for result in results
    ]
    if not all(isnan(result.mean_rank.mean) for result in results):
        columns["Mean rank"] = numbers_with_intervals([result.mean_rank for result in results])
    n_pairs = sorted({result.n_pairs for result in results if result.n_pairs})
    over = f"{n_pairs[0]}" if len(n_pairs) == 1 else f"{n_pairs[0]} to {n_pairs[-1]}"
    is_best = any(result.is_best for result in results if result.policy == result.reference)
    return Table(
        title=f"Differences in {first.environment}",
        headings=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption=(
            f"{measure.capitalize()} minus that of {first.reference} under the same seed, so with the same contexts "
            f"and the same noise, mean over {over} seeds, ± half the length of {INTERVAL}; the seeds under which the "
            "policy was better; and its mean rank among all policies."
            + (" The reference is the best on these seeds, which favors it." if is_best else "")
        ),
        highlighted=next((number for number, result in enumerate(results) if result.is_best), None),
        section=COMPARISON,
    )


def rank_table(results: Mapping[str, Sequence[Result]], overall: Mapping[str, EndValue]) -> Table | None:
    """Mean rank of every policy in each of several environments, and over all of them; None if there is only one."""
    known = {name: rows for name, rows in results.items() if not all(isnan(row.mean_rank.mean) for row in rows)}
    if len(known) < 2 or all(len(rows) < 2 for rows in known.values()):
        return None
    found = {(name, row.policy): row.mean_rank for name, rows in known.items() for row in rows}
    policies = list(dict.fromkeys(policy for _, policy in found))
    if overall:
        policies.sort(key=lambda policy: overall[policy].mean)
    columns = {name: [found.get((name, policy), EndValue()) for policy in policies] for name in known}
    if overall:
        columns["All"] = [overall[policy] for policy in policies]
    numbers = sorted({row.n_runs for rows in known.values() for row in rows})
    return Table(
        title="Mean ranks",
        headings=["Policy", *columns],
        rows=list(zip(policies, *map(numbers_with_intervals, columns.values()), strict=True)),
        caption=(
            "Rank of each policy among all policies of an environment under one seed, 1 is the best, mean over "
            f"{'the' if len(numbers) > 1 else numbers[0]} {'seeds' if numbers != [1] else 'seed'}"
            + ("" if numbers == [1] else f", ± half the length of {INTERVAL}")
            + ("; over all environments, each of which counts alike." if overall else ".")
        ),
        section=COMPARISON,
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
        Group of each policy, for a separate column; the rows are then in this order.
    """
    found = {(result.environment, result.policy): result for rows in results.values() for result in rows}
    policies = list(groups) if groups else list(dict.fromkeys(policy for _, policy in found))
    columns, seconds = [], []
    for environment in results:
        here = [found.get((environment, policy)) for policy in policies]
        columns.append(numbers_with_intervals([end.final if end else EndValue() for end in here], digits=1))
    for policy in policies:
        times = [
            found[environment, policy].seconds_per_round for environment in results if (environment, policy) in found
        ]
        seconds.append(sum(times) / len(times) if times else nan)
    families = [[groups[policy] for policy in policies]] if groups else []
    rows = [list(row) for row in zip(policies, *families, *columns, durations(seconds), strict=True)]
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
                UNKNOWN if isnan(value) else _fixed(value, 1)
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

    >>> number_with_interval(12.3456, 0.789), number_with_interval(-1234.5, 67.8)
    ('12.35 ± 0.79', '−1234 ± 68')
    """
    return _with_interval(value, half_width, _needed_decimals(value, half_width, INTERVAL_DIGITS), sign)


def numbers_with_intervals(ends: Sequence[EndValue], *, digits: int = INTERVAL_DIGITS) -> list[str]:
    """A column of numbers with the same decimals: enough that most intervals have two digits, and each at least one.

    Parameters
    ----------
    digits
        Digits of most intervals.

    >>> numbers_with_intervals([EndValue(mean=8.13, low=-0.97, high=17.23), EndValue(mean=70.98, low=60.8, high=81.16)])
    ['8.1 ± 9.1', '71.0 ± 10.2']
    """
    known = [end for end in ends if not isnan(end.mean)]
    needed = sorted(_needed_decimals(end.mean, end.half_width, digits) for end in known)
    least = [_needed_decimals(end.mean, end.half_width, 1) for end in known if end.half_width > 0.0]
    decimals = max([needed[len(needed) // 2], *least]) if needed else 0
    return [_with_interval(end.mean, end.half_width, decimals) for end in ends]


def _needed_decimals(value: float, half_width: float, digits: int) -> int:
    """Decimals that give the interval this many digits, or the number three if there is no interval."""
    return _decimals(half_width, digits) if half_width > 0.0 else _decimals(abs(value), 3)


def _decimals(size: float, digits: int) -> int:
    """Decimals that give a number of this size this many significant digits."""
    return 2 if size == 0 or isnan(size) else min(6, max(0, digits - 1 - floor(log10(size))))


def _with_interval(value: float, half_width: float, decimals: int, sign: str = "±") -> str:
    if isnan(value):
        return UNKNOWN
    number = _fixed(value, decimals)
    return number if isnan(half_width) else f"{number} {sign} {half_width:.{decimals}f}"


def _fixed(value: float, decimals: int) -> str:
    """A number with these decimals and a true minus sign."""
    return f"{value:z.{decimals}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """Seconds with a readable unit.

    >>> duration(0.0123), duration(5e-6), duration(float("nan"))
    ('12.30 ms', '5 µs', '–')
    """
    return durations([seconds])[0]


def durations(seconds: Sequence[float]) -> list[str]:
    """A column of times in one unit, with the same decimals; the unit is that of the geometric mean.

    >>> durations([0.0123, 0.0008]), durations([0.5, 12.5])
    (['12.30 ms', '0.80 ms'], ['0.50 s', '12.50 s'])
    """
    known = [max(value, 1e-9) for value in seconds if not isnan(value)]
    middle = exp(sum(map(log, known)) / len(known)) if known else 1.0
    unit, factor, decimals = ("µs", 1e6, 0) if middle < 1e-3 else ("ms", 1e3, 2) if middle < 1.0 else ("s", 1.0, 2)
    return [UNKNOWN if isnan(value) else f"{value * factor:.{decimals}f} {unit}" for value in seconds]


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


def latex_figures(figures: Sequence[ReportFigure], folder: str, *, paper: str | None = None) -> str:
    """A float for each figure with its caption.

    Parameters
    ----------
    folder
        Folder of the PDF files.
    paper
        "single" or "double" for figures of that many columns, which are included at their size; None for those of the
        page, which are scaled to the line.
    """
    kind = "figure*" if paper == "double" else "figure"
    options, suffix = ("", paper) if paper else (r"[width=\linewidth]", "light")
    floats = [
        "\n".join(
            (
                rf"\begin{{{kind}}}",
                r"  \centering",
                rf"  \includegraphics{options}{{{folder}/{figure.name}-{suffix}.pdf}}",
                rf"  \caption{{{latex_escaped(figure.caption)}}}",
                rf"  \label{{fig:{figure.name}}}",
                rf"\end{{{kind}}}",
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
