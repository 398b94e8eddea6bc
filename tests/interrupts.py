"""An interrupt at any line of the library, one after the other."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from pathlib import Path
from typing import TypeVar

import kernelbandits

LIBRARY = str(Path(kernelbandits.__file__).parent)

Target = TypeVar("Target")


def interrupted_everywhere(
    make: Callable[[], Target], act: Callable[[Target], object], *, step: int = 1, within: str = ""
) -> Iterator[Target]:
    """For each line that `act` executes in the library, a fresh target on which it was interrupted before that line.

    Lines count as often as they are executed; of all of them, or of those within a package, every `step`-th is taken.
    """
    for last in count(1, step):
        target = make()
        if not interrupted(lambda target=target: act(target), last, within=within):
            return
        yield target


def interrupted(act: Callable[[], object], last: int, *, within: str = "") -> bool:
    """Whether `act` gets as far as this line event in the library; there it is interrupted."""
    try:
        n_lines(act, last, within=within)
    except Interrupt:
        return True
    return False


class Interrupt(KeyboardInterrupt):
    """An interrupt by a test, not by its user."""


def n_lines(act: Callable[[], object], last: float = inf, *, within: str = "") -> int:
    """Number of line events of `act` in the library; it is interrupted at the `last` one."""
    found, folder = 0, str(Path(LIBRARY, within))

    def trace(frame, event, _):
        nonlocal found
        if event == "call":
            return trace if frame.f_code.co_filename.startswith(folder) else None
        if event == "line":
            found += 1
            if found == last:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return found
