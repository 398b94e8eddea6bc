"""Bars that tell people at a terminal how far something has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from kernelbandits._optional import import_optional

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["RoundsBar", "progress_bar", "rounds_bar", "time_left", "words_left"]

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
