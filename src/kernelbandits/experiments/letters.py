"""Letters that the font of figures does not have."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

__all__ = ["FONT", "letters_as_boxes", "unknown_letters"]

FONT: Final = "DejaVu Sans"
"""Comes with matplotlib, so that figures look the same everywhere."""


def unknown_letters(texts: Iterable[str]) -> str:
    """Letters of the texts that figures show as boxes, each once, in their order.

    >>> unknown_letters(["γ = 0.1", "机会 1", "机"])
    '机会'
    """
    letters = dict.fromkeys("".join(texts))
    return "".join(letter for letter in letters if not letter.isspace() and ord(letter) not in _known())


@contextmanager
def letters_as_boxes() -> Iterator[None]:
    """Draw without a warning for each such letter at each of its places: who writes the figures says it once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ ", category=UserWarning)
        yield


@cache
def _known() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())
