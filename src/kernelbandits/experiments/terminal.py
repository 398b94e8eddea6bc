"""Tables and progress for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import isnan
from time import monotonic
from typing import TYPE_CHECKING, Final

from kernelbandits.experiments.extras import require
from kernelbandits.experiments.summary import Row

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kernelbandits.experiments.studies.results import Standing

__all__ = [
    "HEADINGS",
    "cells",
    "duration",
    "progress_bar",
    "regret_table",
    "rounds_bar",
    "standings_table",
    "table_console",
    "time_left",
]

HEADINGS: Final = ("Regret", "± 95 %", "Of random", "Time a round")
STUDY_HEADINGS: Final = ("Regret", "± 95 %", "Total reward", "± 95 %")

WIDEST: Final = 1000
"""Columns of a table in a pipe, at most."""

ROUNDS_PER_STEP: Final = 25
"""The bar moves after so many rounds: moving it costs as much as a short round."""


@contextmanager
def progress_bar(
    total: int, label: str, *, every: int = ROUNDS_PER_STEP, after: float = 0.0
) -> Iterator[Callable[[], None]]:
    """A bar with the time left on the error stream, nothing where that is no terminal; call what it gives each step.

    Parameters
    ----------
    every
        Steps after which the bar moves.
    after
        Seconds that have to pass before it appears, so that what is quick shows nothing.
    """
    done = 0
    with rounds_bar(label, total, after=after) as update:

        def step() -> None:
            nonlocal done
            done += 1
            if done % every == 0 or done == total:
                update(done, total)

        yield step


@contextmanager
def rounds_bar(label: str, total: int | None = None, *, after: float = 0.0) -> Iterator[Callable[[int, int], None]]:
    """The same for those who count themselves: call what it gives with how much is done, and how much there is."""
    require("rich")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task, began = bar.add_task(label, total=total, left=""), monotonic()
    if after <= 0:
        bar.start()

    moved: tuple[float, int] | None = None

    def update(done: int, of: int) -> None:
        nonlocal moved
        if moved is None and done > 0:  # what went before, such as starting processes, says nothing of the speed
            moved = monotonic(), done
        since, first = moved or (began, 0)
        left = time_left(monotonic() - since, done - first, of - first)
        bar.update(task, completed=done, total=of, left=left)
        if not bar.live.is_started and monotonic() - began > after:
            bar.start()

    try:
        yield update
    finally:
        bar.stop()


def time_left(elapsed: float, done: int, total: int) -> str:
    """What is left if it goes on as it did since the beginning, in words; empty before anything is done.

    Over all that was done, because jobs differ: the speed of the last seconds is that of one policy.

    >>> time_left(60.0, 25, 100), time_left(60.0, 0, 100)
    ('0:03:00 left', '')
    """
    if done <= 0:
        return ""
    return f"{timedelta(seconds=round(elapsed * (total - done) / done))} left"


def regret_table(rows: Sequence[Row], *, title: str) -> Table:
    """The table, aligned, for `rich` to print."""
    table = _framed(title, names=("Policy",), numbers=HEADINGS)
    for row in rows:
        table.add_row(row.name, *cells(row))
    return table


def standings_table(standings: Sequence[Standing], *, title: str) -> Table:
    """Every policy of a study in every environment: regret and reward at the end, aligned."""
    table = _framed(title, names=("Environment", "Policy"), numbers=STUDY_HEADINGS)
    for standing in standings:
        ends = (standing.regret, standing.total_reward)
        values = [_or_dash(value, ".1f") for end in ends for value in (end.mean, end.half_width)]
        table.add_row(standing.environment, standing.policy, *values)
    return table


def _framed(title: str, *, names: Sequence[str], numbers: Sequence[str]) -> Table:
    require("rich")
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in names:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def table_console(table: Table) -> Console:
    """Where to print the table: as wide as the terminal, and as the table where there is none, as in a pipe."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    if console.is_terminal:
        return console
    wide = Console(highlight=False, width=WIDEST)
    return Console(highlight=False, width=Measurement.get(wide, wide.options, table).maximum)


def cells(row: Row) -> tuple[str, str, str, str]:
    """A row's numbers as people read them: regret, half width, share, time."""
    return (
        f"{row.regret:.1f}",
        _or_dash(row.half_width, ".1f"),
        _or_dash(row.share, ".0%"),
        duration(row.seconds_per_round),
    )


def _or_dash(value: float, form: str) -> str:
    return "–" if isnan(value) else format(value, form)


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1.0 else f"{seconds:.2f} s"
