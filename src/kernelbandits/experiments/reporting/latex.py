"""Tables and figures for a paper written in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.latex_text import escaped, packages
from kernelbandits.experiments.reporting.tables import table_caption, table_of
from kernelbandits.experiments.reporting.wording import file_name, own_names
from kernelbandits.experiments.results import Result

__all__ = ["latex_figures", "latex_tables"]


def latex_tables(entries: Mapping[str, Sequence[Result]]) -> str:
    """A table for each environment, for the package booktabs; the best in bold."""
    labels = own_names(map(file_name, entries))
    tables = "\n".join(
        _latex_table(environment, rows, label=label)
        for (environment, rows), label in zip(entries.items(), labels, strict=True)
    )
    return packages(tables, "booktabs") + tables


def latex_figures(drawings: Sequence[Drawing], folder: str) -> str:
    """A float for each figure, with its caption; `folder` holds the PDF files."""
    floats = [
        "\n".join(
            (
                r"\begin{figure}",
                r"  \centering",
                rf"  \includegraphics[width=\linewidth]{{{folder}/{drawing.name}-light.pdf}}",
                rf"  \caption{{{escaped(drawing.caption)}}}",
                rf"  \label{{fig:{drawing.name}}}",
                r"\end{figure}",
            )
        )
        for drawing in drawings
    ]
    figures = "\n\n".join(floats) + "\n"
    return packages(figures, "graphicx") + figures


def _latex_table(environment: str, rows: Sequence[Result], *, label: str) -> str:
    headings, cells = table_of(rows)
    body = [
        "    " + " & ".join(_bold(row) if entry.is_best else map(escaped, row)) + r" \\"
        for row, entry in zip(cells, rows, strict=True)
    ]
    return "\n".join(
        (
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escaped(environment)}. {escaped(table_caption(rows))}}}",
            rf"  \label{{tab:{label}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
            r"    \toprule",
            "    " + " & ".join(map(escaped, headings)) + r" \\",
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        )
    )


def _bold(row: Sequence[str]) -> list[str]:
    r"""Name and outcome in bold; \boldmath also reaches the sign between number and interval."""
    first = [rf"{{\bfseries\boldmath {escaped(cell)}}}" for cell in row[:2]]
    return first + [escaped(cell) for cell in row[2:]]
