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
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from kernelbandits.experiments.studies.results import Standing

__all__ = [
    "HEADINGS",
    "RoundsBar",
    "cells",
    "duration",
    "progress_bar",
    "regret_table",
    "rounds_bar",
    "standings_table",
    "table_console",
    "time_left",
    "words_left",
]

HEADINGS: Final = ("Regret", "± 95 %", "Of random", "Time a round")
STUDY_HEADINGS: Final = ("Regret", "± 95 %", "Total reward", "± 95 %")

WIDEST: Final = 1000
"""Columns of a table in a pipe, at most."""

USUAL: Final = 80
"""Columns of a terminal into which every table fits, with names on several lines."""

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
    with rounds_bar(label, total, after=after) as bar:

        def step() -> None:
            nonlocal done
            done += 1
            if done % every == 0 or done == total:
                bar.move(done, total)

        yield step


@contextmanager
def rounds_bar(label: str, total: int | None = None, *, after: float = 0.0) -> Iterator[RoundsBar]:
    """The same for those who count themselves: move what it gives."""
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
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    try:
        yield RoundsBar(shown, label, total, after=after)
    finally:
        shown.stop()


class RoundsBar:
    """A bar that is moved by whoever counts."""

    def __init__(self, shown: Progress, label: str, total: int | None, *, after: float) -> None:
        self._shown, self._after = shown, after
        self._task, self._began = shown.add_task(label, total=total, left=""), monotonic()
        self._moved: tuple[float, int] | None = None
        self._expected: str | None = None
        if after <= 0:
            shown.start()

    def expect(self, seconds: float | None) -> None:
        """From now on say so much time is left, nothing where it is None, instead of what the bar would guess."""
        self._expected = "" if seconds is None else words_left(seconds)

    def move(self, done: int, of: int) -> None:
        """So much is done of so much."""
        if self._moved is None and done > 0:  # what went before, such as starting processes, says nothing of the speed
            self._moved = monotonic(), done
        since, first = self._moved or (self._began, 0)
        guessed = time_left(monotonic() - since, done - first, of - first)
        self._shown.update(
            self._task, completed=done, total=of, left=guessed if self._expected is None else self._expected
        )
        if not self._shown.live.is_started and monotonic() - self._began > self._after:
            self._shown.start()


def time_left(elapsed: float, done: int, total: int) -> str:
    """What is left if it goes on as it did since the beginning, in words; empty before anything is done.

    Over all that was done, because jobs differ: the speed of the last seconds is that of one policy.

    >>> time_left(60.0, 25, 100), time_left(60.0, 0, 100)
    ('0:03:00 left', '')
    """
    if done <= 0:
        return ""
    return words_left(elapsed * (total - done) / done)


def words_left(seconds: float) -> str:
    """Seconds that are left, as people read them.

    >>> words_left(3725.4)
    '1:02:05 left'
    """
    return f"{timedelta(seconds=round(seconds))} left"


def regret_table(rows: Sequence[Row], *, title: str) -> Table:
    """The table, aligned, for `rich` to print."""
    table = _framed(title, names=("Policy",), numbers=HEADINGS)
    for row in rows:
        table.add_row(*_as_written(row.name), *cells(row))
    return table


def standings_table(standings: Sequence[Standing], *, title: str) -> Table:
    """Every policy of a study in every environment: regret and reward at the end, aligned."""
    table = _framed(title, names=("Environment", "Policy"), numbers=STUDY_HEADINGS)
    for standing in standings:
        ends = (standing.regret, standing.total_reward)
        values = [_or_dash(value, "z.1f") for end in ends for value in (end.mean, end.half_width)]
        table.add_row(*_as_written(standing.environment, standing.policy), *values)
    return table


def _as_written(*names: str) -> list[Text]:
    """Names in which brackets are brackets, not the marks by which `rich` is told colours."""
    from rich.text import Text

    return [Text(name) for name in names]


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


def cells(row: Row) -> tuple[str, str, str, str]:
    """A row's numbers as people read them: regret, half width, share, time."""
    return (
        f"{row.regret:z.1f}",
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
