"""Tables in Markdown that line up also as plain text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned_table"]


def aligned_table(rows: Sequence[Sequence[str]], *, n_words: int = 1) -> str:
    """The first row as headings; the first `n_words` columns to the left, the others, numbers, to the right.

    >>> print(aligned_table([["policy", "regret"], ["KernelUCB", "12"]]))
    | policy    | regret |
    |-----------|-------:|
    | KernelUCB |     12 |
    """
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in escaped) for column in range(len(escaped[0]))]
    lines = ["| " + " | ".join(_aligned(row, widths, n_words)) + " |" for row in escaped]
    rule = "|".join("-" * (width + 1) + ("-" if place < n_words else ":") for place, width in enumerate(widths))
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def _aligned(row: Sequence[str], widths: Sequence[int], n_words: int) -> list[str]:
    """Words to the left, numbers to the right."""
    cells = zip(row, widths, strict=True)
    return [cell.ljust(width) if place < n_words else cell.rjust(width) for place, (cell, width) in enumerate(cells)]
