"""What a selection cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SelectionReport"]


@dataclass(frozen=True, kw_only=True)
class SelectionReport:
    """How the last choice was made: for curiosity, docs and tests; never needed to use the library."""

    engine: str
    """Which form was used."""

    n_actions: int
    """Actions that could be chosen."""

    means_computed: int
    """Actions whose mean was brought up to date since the choice before."""

    widths_computed: int
    """Likewise their widths."""

    bounds_scanned: int
    """Upper bounds that were looked at instead; none for an engine that keeps everything up to date."""

    bytes_held: int
    """Memory of the derived state, which can be dropped and made anew at any moment."""
