"""Where the command is: a bar at a terminal, a line per job elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

__all__ = ["progress"]


@contextmanager
def progress(n_jobs: int) -> Iterator[Callable[[str], None]]:
    """Call what it gives with the name of each job as it begins."""
    if not sys.stderr.isatty():
        yield _lines(n_jobs)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield _lines(n_jobs)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_jobs)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=name)
            begun += 1

        yield begin


def _lines(n_jobs: int) -> Callable[[str], None]:
    start = perf_counter()
    begun = 0

    def begin(name: str) -> None:
        nonlocal begun
        begun += 1
        print(f"{perf_counter() - start:7.1f} s  {begun}/{n_jobs}  {name}", file=sys.stderr, flush=True)

    return begin
