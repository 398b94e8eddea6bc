"""Text for streams with a limited encoding, such as an ASCII terminal."""

from __future__ import annotations

import codecs
import sys
from typing import Final

__all__ = ["EQUIVALENTS", "HANDLER", "encodable"]

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
