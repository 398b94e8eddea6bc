"""What stands for an entry that is not there."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_absent"]


def is_absent(entry: Any) -> bool:
    """Whether this is None, NaN, or what pandas writes for a gap.

    >>> [is_absent(entry) for entry in (None, float("nan"), 0.0, "")]
    [True, True, False, False]
    """
    is_nan = isinstance(entry, float | np.floating) and bool(np.isnan(entry))
    return entry is None or is_nan or type(entry).__name__ in ("NAType", "NaTType")
