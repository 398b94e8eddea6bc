"""Text for people: short reprs, HTML for notebooks, and text for streams with a limited encoding."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EQUIVALENTS",
    "HANDLER",
    "array_text",
    "brief",
    "encodable",
    "html_table",
    "listed_briefly",
    "repr_of_fields",
    "short_repr",
]

MOST_SHOWN: Final = 80
"""Characters of a value in a message or in a repr."""

MOST_NESTED: Final = 300
"""Characters of an object of this library in the repr of another one."""

FEW: Final = 8
"""Entries of an array that are shown; of a larger one, the shape is shown."""

ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


def short_repr(value: object, most: int = MOST_SHOWN) -> str:
    """A value for a message: its shortened repr without addresses; its type if repr fails, as for enormous integers.

    >>> short_repr("a" * 100)[-5:], short_repr(10**5000)
    ('aaaa…', 'a value of type int')
    """
    try:
        text = ADDRESS.sub("", repr(value))
    except Exception:  # of any class: building a message must not fail
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}…"


def repr_of_fields(value: Any) -> str:
    """Repr of a dataclass as Python makes it, of bounded length and on one line: large arrays are shown by shape."""
    shown = [f"{part.name}={brief(getattr(value, part.name))}" for part in fields(value) if part.repr]
    return f"{type(value).__name__}({', '.join(shown)})"


def brief(value: object) -> str:
    """A value in the repr of an object, on one line."""
    if hasattr(value, "shape") and getattr(value, "size", 0) > FEW:
        return f"<{'x'.join(map(str, value.shape))} {type(value).__name__}>"
    is_ours = any(type(part).__module__.startswith("kernelbandits.") for part in _members(value))
    return encodable(" ".join(short_repr(value, MOST_NESTED if is_ours else MOST_SHOWN).split()))


def array_text(array: NDArray[Any]) -> str:
    """The few digits of an array that a table has room for, on one line.

    >>> import numpy as np
    >>> array_text(np.array([0.12345, 2.0]))
    '[0.123 2. ]'
    """
    return " ".join(np.array2string(array, precision=3, threshold=6).split())


def _members(value: object) -> Sequence[object]:
    return value[:1] if isinstance(value, tuple) else (value,)


def listed_briefly(values: Iterable[object], n_values: int, most: int = 3) -> str:
    """The first few of many values.

    >>> listed_briefly(range(100), 100)
    '0, 1, 2, …'
    """
    shown = [short_repr(value, 40) for value, _ in zip(values, range(most), strict=False)]
    return encodable(", ".join(shown) + (", …" if n_values > most else ""))


CELL: Final = "text-align: left; padding: 0.15em 0.8em 0.15em 0; background: none"


def html_table(title: str, rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """HTML for notebooks: a table in the colors and fonts of the page, light or dark. All text is escaped.

    >>> html_table("Slate", [["a<b", 0.5]]).count("a&lt;b")
    1
    """
    head = "".join(f'<th style="{CELL}; opacity: 0.7">{escape(str(name))}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div><strong>{escape(title)}</strong>"
        '<table style="border: none; margin: 0.2em 0; color: inherit">'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table></div>"
    )


EQUIVALENTS: Final = {
    "\u00b1": "+-",  # plus-minus
    "\u00b2": "^2",
    "\u00b3": "^3",
    "\u00b5": "u",  # micro
    "\u00b7": "*",  # middle dot
    "\u00d7": "x",  # times
    "\u03b2": "beta",
    "\u03b3": "gamma",
    "\u03b4": "delta",
    "\u03b7": "eta",
    "\u03b8": "theta",
    "\u03ba": "kappa",
    "\u1d40": "'",  # transposed
    "\u2013": "-",
    "\u2014": "-",
    "\u2016": "||",  # norm
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2026": "...",
    "\u2212": "-",
    "\u2264": "<=",
    "\u2265": ">=",
}
"""ASCII replacements of the library's non-ASCII characters; any other character becomes a question mark."""

HANDLER: Final = "kernelbandits.ascii"
"""Name of the error handler of `str.encode` that applies these replacements."""


def encodable(text: str) -> str:
    """The text with characters replaced that the standard output cannot encode, so that `print` never fails on it.

    >>> encodable("12.5")
    '12.5'
    """
    if text.isascii():
        return text
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        return text.encode(encoding, HANDLER).decode(encoding)
    except (LookupError, UnicodeError):  # an unknown encoding, or one that cannot encode ASCII
        return text.encode("ascii", HANDLER).decode("ascii")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(EQUIVALENTS.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


codecs.register_error(HANDLER, _replaced)
