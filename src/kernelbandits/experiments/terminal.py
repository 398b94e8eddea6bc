"""Tables for people at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Final

from kernelbandits._optional import import_optional
from kernelbandits.experiments.results import Result
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


__all__ = [
    "HEADINGS",
    "after_rounds",
    "cells",
    "duration",
    "regret_table",
    "standings_table",
    "table_console",
]

HEADINGS: Final = ("Regret", "± 95 %", "Of random", "Time a round")
STUDY_HEADINGS: Final = ("Regret", "± 95 %", "Total reward", "± 95 %")

WIDEST: Final = 1000
"""Columns of a table in a pipe, at most."""

USUAL: Final = 80
"""Columns of a terminal into which every table fits, with names on several lines."""


def after_rounds(horizon: int, n_seeds: int) -> str:
    """How long the runs were and over how many a mean is taken, for the title of a table.

    >>> after_rounds(1_000, 5), after_rounds(1, 1)
    ('after 1,000 rounds, mean over 5 seeds', 'after 1 round, one seed')
    """
    repeats = f"mean over {n_seeds} seeds" if n_seeds > 1 else "one seed"
    return f"after {pluralize(horizon, 'round')}, {repeats}"


def regret_table(rows: Sequence[Result], *, title: str) -> Table:
    """The table, aligned, for `rich` to print."""
    table = _framed(title, names=("Policy",), numbers=HEADINGS)
    for row in rows:
        table.add_row(*_as_written(row.policy), *cells(row))
    return table


def standings_table(standings: Sequence[Result], *, title: str) -> Table:
    """Every policy of a study in every environment: regret and reward at the end, aligned."""
    table = _framed(title, names=("Environment", "Policy"), numbers=STUDY_HEADINGS)
    for standing in standings:
        ends = (standing.regret, standing.total_reward)
        values = [_or_dash(value, "z.1f") for end in ends for value in (end.mean, end.half_width)]
        table.add_row(*_as_written(standing.environment, standing.policy), *values)
    return table


def _as_written(*names: str) -> list[Text]:
    """Names in which brackets are brackets, not the marks by which `rich` is told colors."""
    from rich.text import Text

    return [Text(name) for name in names]


def _framed(title: str, *, names: Sequence[str], numbers: Sequence[str]) -> Table:
    import_optional("rich", "This part of experiments")
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in names:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def table_console(table: Table) -> Console:
    """Where to print the table: as wide as the terminal, and as the table where there is none, as in a pipe.

    A terminal that is too narrow breaks the lines, since a table that fits it would have no room left for names.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console, wide = Console(highlight=False), Console(highlight=False, width=WIDEST)
    needed = Measurement.get(wide, wide.options, table)
    if not console.is_terminal:
        return Console(highlight=False, width=needed.maximum)
    return Console(highlight=False, width=max(console.width, min(needed.minimum, USUAL)))


def cells(row: Result) -> tuple[str, str, str, str]:
    """A row's numbers as people read them: regret, half width, share, time."""
    return (
        f"{row.regret.mean:z.1f}",
        _or_dash(row.regret.half_width, ".1f"),
        _or_dash(row.relative_regret, ".0%"),
        duration(row.seconds_per_round),
    )


def _or_dash(value: float, form: str) -> str:
    return "–" if isnan(value) else format(value, form)


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1.0 else f"{seconds:.2f} s"
