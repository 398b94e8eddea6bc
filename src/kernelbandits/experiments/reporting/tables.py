"""The table in the forms that people use: cells as they read them, Markdown, CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from math import floor, isnan, log10

from kernelbandits.experiments.markdown import aligned_table
from kernelbandits.experiments.reporting.wording import INTERVAL
from kernelbandits.experiments.results import Result
from kernelbandits.experiments.terminal import duration
from kernelbandits.validation import pluralize

__all__ = ["Table", "csv_table", "markdown_tables", "number_with_interval", "table_caption", "table_of"]

Table = tuple[list[str], list[list[str]]]
"""Headings, and rows of as many cells."""

UNKNOWN = "–"
DIGITS_OF_INTERVAL = 2


def table_of(entries: Sequence[Result]) -> Table:
    """Headings and cells of one environment; columns that would be empty are left out."""
    columns: dict[str, list[str]] = {"Policy": [entry.policy for entry in entries]}
    title = "Regret" if entries[0].measure == "regret" else "Total reward"
    columns[title] = [number_with_interval(entry.final.mean, entry.final.half_width) for entry in entries]
    if not all(isnan(entry.relative_regret) for entry in entries):
        columns["Of random"] = [_share(entry.relative_regret) for entry in entries]
    columns["Mean reward"] = [
        number_with_interval(entry.mean_reward.mean, entry.mean_reward.half_width) for entry in entries
    ]
    if not all(isnan(entry.seconds_per_round) for entry in entries):
        columns["Time a round"] = [
            UNKNOWN if isnan(entry.seconds_per_round) else duration(entry.seconds_per_round) for entry in entries
        ]
    if len({entry.n_runs for entry in entries}) > 1:
        columns["Runs"] = [str(entry.n_runs) for entry in entries]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def table_caption(entries: Sequence[Result]) -> str:
    """Length and number of the runs, and what the intervals are."""
    numbers, rounds = sorted({entry.n_runs for entry in entries}), max(entry.n_rounds for entry in entries)
    after = f"After {pluralize(rounds, 'round')}"
    if numbers == [1]:
        return f"{after}, one seed, so there is no interval."
    over = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{after}, mean over {over} seeds, ± half the length of {INTERVAL}."


def markdown_tables(entries: Mapping[str, Sequence[Result]]) -> str:
    """A heading, a caption and a table for each environment; the best in bold."""
    parts = []
    for environment, rows in entries.items():
        headings, cells = table_of(rows)
        bold = [[f"**{cell}**" for cell in row[:2]] + row[2:] if entry.is_best else row
                for row, entry in zip(cells, rows, strict=True)]  # fmt: skip
        parts.append(f"## {environment}\n\n{table_caption(rows)}\n\n{aligned_table([headings, *bold])}\n")
    return "\n".join(parts)


def csv_table(entries: Mapping[str, Sequence[Result]]) -> str:
    """Every number with all its digits; unknown ones are empty."""
    rows = [
        {**entry.to_dict(), "parameters": json.dumps(entry.parameters)} for group in entries.values() for entry in group
    ]
    buffer = StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def number_with_interval(value: float, half_width: float, sign: str = "±") -> str:
    """A number to as many places as its interval, given to two digits, makes sense of.

    >>> number_with_interval(12.3456, 0.789), number_with_interval(1234.5, 67.8)
    ('12.35 ± 0.79', '1234 ± 68')
    """
    if isnan(value):
        return UNKNOWN
    if isnan(half_width):
        return f"{value:z.{_places(abs(value), 3)}f}"
    places = _places(half_width or abs(value), DIGITS_OF_INTERVAL if half_width else 3)
    return f"{value:z.{places}f} {sign} {half_width:.{places}f}"


def _places(size: float, digits: int) -> int:
    """Decimals that give so many digits."""
    return 2 if size == 0 else min(6, max(0, digits - 1 - floor(log10(size))))


def _share(value: float) -> str:
    return UNKNOWN if isnan(value) else f"{value:.0%}"
