"""Progress bars on the error stream of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from kernelbandits._optional import import_optional

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "ProgressDisplay",
    "ProgressLines",
    "RoundsBar",
    "format_seconds_left",
    "progress_bar",
    "rounds_bar",
    "study_progress",
    "task_progress",
    "time_left",
]

ROUNDS_PER_STEP: Final = 25
"""Rounds after which the bar moves: moving it costs as much as a short round."""

DISPLAY_DELAY: Final = 2.0
"""Seconds after which the progress of a study is shown: shorter ones show nothing."""

SECONDS_PER_LINE: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class ProgressDisplay(Protocol):
    """Something that shows how many rounds of a study are finished."""

    def expect(self, seconds: float | None) -> None:
        """Show this remaining time from now on, nothing if it is None."""

    def move(self, done: int, total: int) -> None:
        """Show that `done` of `total` rounds are finished."""


def study_progress(
    shown: bool | None, *, delay: float = DISPLAY_DELAY
) -> AbstractContextManager[ProgressDisplay | None]:
    """Display of a study's progress on the error stream.

    Parameters
    ----------
    shown
        None: a bar on a terminal after `delay` seconds, nothing elsewhere. True: a bar at once, and lines where there
        is no terminal. False: nothing.
    """
    has_bar = sys.stderr is not None and sys.stderr.isatty() and find_spec("rich") is not None
    if shown is False or not (shown or has_bar):
        return nullcontext()
    if has_bar:
        return rounds_bar("Running", after=0.0 if shown else delay)
    return nullcontext(ProgressLines())


class ProgressLines:
    """Progress as lines of text on the error stream, at most one in ten seconds, and one at the end."""

    def __init__(self) -> None:
        self._due, self._left = monotonic(), ""

    def expect(self, seconds: float | None) -> None:
        """Show this remaining time from now on, nothing if it is None."""
        self._left = "" if seconds is None else f", {format_seconds_left(seconds)}"

    def move(self, done: int, total: int) -> None:
        """Print a line, if one is due."""
        now = monotonic()
        if now >= self._due or done == total:
            self._due = now + SECONDS_PER_LINE
            left = "" if done == total else self._left
            print(f"{done:,} of {total:,} rounds{left}", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(
    total: int, label: str, *, every: int = ROUNDS_PER_STEP, after: float = 0.0
) -> Iterator[Callable[[], None]]:
    """Bar with the remaining time; yields a function to call after each step. Nothing is shown without a terminal.

    Parameters
    ----------
    every
        Steps after which the bar moves.
    after
        Seconds before it appears, so that short work shows nothing.
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
def task_progress(n_tasks: int) -> Iterator[Callable[[str], None]]:
    """Bar over named tasks; yields a function to call with each name as it begins. Without a terminal: a line each."""
    begun = 0
    if not sys.stderr.isatty() or find_spec("rich") is None:
        start = monotonic()

        def print_line(name: str) -> None:
            nonlocal begun
            begun += 1
            print(f"{monotonic() - start:7.1f} s  {begun}/{n_tasks}  {name}", file=sys.stderr, flush=True)

        yield print_line
        return
    with rounds_bar("", n_tasks) as bar:

        def move_bar(name: str) -> None:
            nonlocal begun
            bar.move(begun, n_tasks, label=name)
            begun += 1

        yield move_bar


@contextmanager
def rounds_bar(label: str, total: int | None = None, *, after: float = 0.0) -> Iterator[RoundsBar]:
    """Bar that the caller moves; parameters as in `progress_bar`."""
    import_optional("rich", "This part of experiments")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
    )
    display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    try:
        yield RoundsBar(display, label, total, after=after)
    finally:
        if display.live.is_started:  # `stop` of rich 13 prints an empty line even for a bar that was never shown
            display.stop()


class RoundsBar:
    """Progress bar with an estimate of the remaining time, from its caller or from the mean speed so far."""

    def __init__(self, display: Progress, label: str, total: int | None, *, after: float) -> None:
        self._display, self._after = display, after
        self._task, self._began = display.add_task(label, total=total, left=""), monotonic()
        self._moved: tuple[float, int] | None = None
        self._expected: str | None = None
        if after <= 0:
            display.start()

    def expect(self, seconds: float | None) -> None:
        """Show this remaining time from now on, nothing if it is None, instead of the bar's own estimate."""
        self._expected = "" if seconds is None else format_seconds_left(seconds)

    def move(self, done: int, total: int, *, label: str | None = None) -> None:
        """Show that `done` of `total` steps are finished."""
        if self._moved is None and done > 0:  # excludes start-up, such as starting processes, from the speed
            self._moved = monotonic(), done
        since, first = self._moved or (self._began, 0)
        left = time_left(monotonic() - since, done - first, total - first) if self._expected is None else self._expected
        self._display.update(self._task, completed=done, total=total, left=left, description=label)
        if not self._display.live.is_started and monotonic() - self._began > self._after:
            self._display.start()


def time_left(elapsed: float, done: int, total: int) -> str:
    """Remaining time at the mean speed so far, as text; empty before the first step.

    The mean is over all steps because jobs differ: the speed of the last seconds is that of one policy.

    >>> time_left(60.0, 25, 100), time_left(60.0, 0, 100)
    ('0:03:00 left', '')
    """
    if done <= 0:
        return ""
    return format_seconds_left(elapsed * (total - done) / done)


def format_seconds_left(seconds: float) -> str:
    """Remaining seconds as text.

    >>> format_seconds_left(3725.4)
    '1:02:05 left'
    """
    return f"{timedelta(seconds=round(seconds))} left"
