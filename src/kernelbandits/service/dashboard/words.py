"""Numbers, times and changes as the dashboard writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["FILTERS"]

UNITS: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))

NOTHING: Final = "–"

SPACE: Final = "\u00a0"
"""Between a number and its unit, so that no line breaks there."""


def number(value: float | None, digits: int = 3) -> str:
    """A number with some significant digits, and all digits of its whole part.

    >>> number(1234567), number(4712.4), number(0.123456), number(12.0), number(None)
    ('1,234,567', '4,712', '0.123', '12', '–')
    """
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 10**digits:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def percent(value: float | None) -> str:
    r"""A share in percent.

    >>> percent(0.1234), percent(0.0), percent(0.00012)
    ('12.3\xa0%', '0\xa0%', '0.012\xa0%')
    """
    if value is None:
        return NOTHING
    share = 100.0 * value
    said = "100" if share == 100.0 else f"{share:.1f}" if share >= 1.0 else f"{share:.2g}"
    return f"{said}{SPACE}%"


def duration(seconds: float | None) -> str:
    r"""Seconds in the unit that fits.

    >>> duration(3600.0), duration(0.0042), duration(90.0), duration(0)
    ('1\xa0h', '4.2\xa0ms', '1.5\xa0min', '0\xa0s')
    """
    if seconds is None:
        return NOTHING
    for unit, size in UNITS:
        if abs(seconds) >= size:
            return f"{seconds / size:.3g}{SPACE}{unit}"
    return f"0{SPACE}s"


def size(n_bytes: float | None) -> str:
    r"""Bytes in binary units.

    >>> size(3 * 2**20), size(512)
    ('3\xa0MiB', '512\xa0B')
    """
    if n_bytes is None:
        return NOTHING
    for unit, of in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= of:
            return f"{n_bytes / of:.3g}{SPACE}{unit}"
    return f"{n_bytes:.0f}{SPACE}B"


def when(at: float | None) -> str:
    """A time in UTC, to the second.

    >>> when(0.0)
    '1970-01-01 00:00:00'
    """
    return NOTHING if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def instant(at: float) -> str:
    """A time for the attribute `datetime`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def shortened(value: Any, most: int = 100) -> str:
    """A point in one line.

    >>> shortened([0.1, 0.25]), shortened("a headline"), shortened("x" * 200, 5)
    ('0.1, 0.25', 'a headline', 'xxxx…')
    """
    if isinstance(value, dict) and len(value) == 1:  # a tagged value, such as a set
        value = next(iter(value.values()))
    if isinstance(value, list | tuple):
        value = ", ".join(shortened(part, most) for part in value)
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def change(row: dict[str, Any]) -> str:
    """A row of the log about an experiment or the service, in words.

    >>> change({"type": "state", "id": "", "what": {"state": "paused"}})
    'Now paused'
    """
    what, id = row["what"], row["id"]
    match row["type"]:
        case "experiment":
            return "Created"
        case "state":
            return f"Now {what['state']}"
        case "settings":
            return "Settings: " + ", ".join(f"{name} = {shortened(value)}" for name, value in what.items())
        case "policy":
            kind = f" ({what['policy'].get('class')})" if "policy" in what else ""
            note = f": {what['note']}" if what.get("note") else ""
            return f"Policy {id}{kind} is {what.get('status', 'changed')}{note}"
        case "started":
            return f"Service started after {duration(what.get('downtime', 0.0))}"
        case "extended":
            return f"Open windows extended by {duration(what.get('seconds'))}"
        case "alarm":
            return f"Alarm: the wall clock jumped by {duration(what.get('drift'))}"
        case kind:
            return {"items": "Catalog changed", "similarities": "Similarities added", "erased": "A subject was erased"}[
                kind
            ]


FILTERS: Final = {
    "number": number, "percent": percent, "duration": duration, "size": size, "when": when, "instant": instant,
    "shortened": shortened, "change": change,
}  # fmt: skip
