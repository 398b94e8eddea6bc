"""Sentences that figures and tables share, and names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, count

from kernelbandits.experiments.reporting.looks import Look
from kernelbandits.experiments.results import CONFIDENCE, PolicyRuns

__all__ = ["INTERVAL", "background", "file_name", "own_names", "repeats"]

INTERVAL = f"{CONFIDENCE * 100:.0f} % intervals (Student's t over seeds)"


def repeats(played: Sequence[PolicyRuns], *, intervals: str = "bands") -> str:
    """How many runs each mean is made of, and what its interval is.

    "Mean over 8 seeds; bands are 95 % intervals (Student's t over seeds)."
    """
    numbers = sorted({one.n_runs for one in played})
    if numbers == [1]:
        return "One seed, so there is no interval."
    over = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"Mean over {over} seeds; {intervals} are {INTERVAL}."


def background(looks: Sequence[Look]) -> str:
    """What the thin gray curves are, where there are any."""
    n_quiet = sum(look.is_quiet for look in looks)
    if not n_quiet:
        return ""
    others = "one other policy, which is" if n_quiet == 1 else f"{n_quiet} other policies, all of them"
    return f" Thin and gray: {others} in the table."


def file_name(text: str) -> str:
    """The text in letters that every file system and LaTeX take.

    >>> file_name("Linear & noisy, γ=0.1")
    'linear-noisy-0-1'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def own_names(names: Iterable[str]) -> list[str]:
    """The names in their order, each once: what differs in signs only would share a file, or a label of LaTeX.

    >>> own_names(["regret", "time", "regret", "regret-2"])
    ['regret', 'time', 'regret-2', 'regret-2-2']
    """
    given: list[str] = []
    for name in names:
        candidates = chain([name], (f"{name}-{number}" for number in count(2)))
        given.append(next(candidate for candidate in candidates if candidate not in given))
    return given
