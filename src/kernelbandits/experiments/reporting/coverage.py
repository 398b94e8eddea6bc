"""Whether confidence intervals held, against what was claimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from kernelbandits.checks import counted
from kernelbandits.evaluation import share_interval
from kernelbandits.experiments.labels import shortened, text_width
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.looks import Look
from kernelbandits.experiments.reporting.panels import Panel, sheet
from kernelbandits.experiments.reporting.played import Played
from kernelbandits.experiments.reporting.reading import Recorded
from kernelbandits.experiments.reporting.wording import repeats
from kernelbandits.experiments.summary import CONFIDENCE, mean_band
from kernelbandits.experiments.themes import Theme, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Coverage", "coverage_drawings", "coverage_of"]

FONT_SIZE: Final = 8.5


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the interval of the chosen action held the truth."""

    label: str
    look: Look
    rounds_held: float
    """Share of rounds, mean over runs."""

    half_width: float
    """Of its Student's t interval; nan with one run."""

    n_failed: int
    """Runs in which it failed at least once."""

    n_runs: int
    claimed: float | None
    """Failure probability of the whole run, where one is claimed."""


def coverage_of(played: Played, look: Look) -> Coverage | None:
    """Of one policy; None where a run does not know it."""
    n_covered, n_rounds = played.final("n_covered"), played.n_rounds
    if np.any(n_covered < 0):
        return None
    band = mean_band(n_covered / n_rounds)
    return Coverage(
        label=played.label,
        look=look,
        rounds_held=float(band.mean),
        half_width=float(band.half_width),
        n_failed=int(np.sum(n_covered < n_rounds)),
        n_runs=played.n_runs,
        claimed=played.failure_probability,
    )


def coverage_drawings(recorded: Recorded, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """Two panels an environment: rounds in which intervals held, runs in which they ever failed."""
    found = {name: list(_found(policies, looks)) for name, policies in recorded.environments.items()}
    shown = {name: rows for name, rows in found.items() if rows}
    if not shown:
        return
    policies = [recorded.environments[name][row.label] for name, rows in shown.items() for row in rows]
    words = (
        f"{row.label} held in {row.rounds_held:.1%} of rounds and failed in {row.n_failed} of "
        + counted(row.n_runs, "run")
        for rows in shown.values()
        for row in rows
    )
    yield Drawing(
        name="coverage",
        title="Coverage",
        section="Coverage",
        caption=(
            "Left: share of rounds in which the chosen action's expected reward lay within mean ± exploration · width. "
            f"{repeats(policies, intervals='bars')} Right: share of runs in which it ever lay outside, with "
            f"{CONFIDENCE * 100:.0f} % intervals of Clopper and Pearson. Filled: exploration with a guarantee, whose "
            "claim is the upright mark; hollow: none claimed."
        ),
        description="; ".join(words) + ".",
        draw=partial(_draw, shown),
    )


def _found(policies: Mapping[str, Played], looks: Mapping[str, Look]) -> Iterator[Coverage]:
    """Policies that claim something, and those that have a colour."""
    for label, played in policies.items():
        coverage = coverage_of(played, looks[label])
        if coverage is not None and (coverage.claimed is not None or not looks[label].is_quiet):
            yield coverage


def _draw(shown: Mapping[str, Sequence[Coverage]], caption: str, theme: Theme) -> Figure:
    left = min(3.0, 0.35 + max(text_width(row.label, FONT_SIZE) for rows in shown.values() for row in rows))
    panels = []
    for environment, rows in shown.items():
        suffix = "" if len(shown) == 1 else f", {environment}"
        for title, draw in (("Rounds that held", _draw_rounds), ("Runs that failed", _draw_runs)):
            panels.append(
                Panel(title=title + suffix, x_label="Share", draw=partial(_draw_rows, rows=rows, left=left, draw=draw))
            )
    n_most = max(map(len, shown.values()))
    return sheet(panels, n_columns=2, room=0.1, left=left, height=0.3 + 0.27 * n_most, caption=caption, theme=theme)


def _draw_rows(axes: Axes, theme: Theme, *, rows: Sequence[Coverage], left: float, draw: object) -> None:
    assert callable(draw)
    for height, row in enumerate(reversed(rows)):
        draw(axes, height, row, theme)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    names = [shortened(row.label, left - 0.2, FONT_SIZE) for row in reversed(rows)]
    axes.set_yticks(range(len(rows)), names, fontsize=FONT_SIZE, parse_math=False)
    for tick, row in zip(axes.get_yticklabels(), reversed(rows), strict=True):
        tick.set_color(legible(theme.colours[row.look.colour], theme))
    axes.grid(visible=False, axis="y")
    low, high = axes.get_xlim()
    axes.set_xlim(max(-0.02, low), min(1.02, max(high, low + 0.02)))


def _draw_rounds(axes: Axes, height: int, row: Coverage, theme: Theme) -> None:
    half = np.nan_to_num(row.half_width)
    interval = max(0.0, row.rounds_held - half), min(1.0, row.rounds_held + half)
    _draw_share(axes, height, row, row.rounds_held, interval, theme)
    if row.claimed is not None:
        _draw_claim(axes, height, 1.0 - row.claimed, theme)


def _draw_runs(axes: Axes, height: int, row: Coverage, theme: Theme) -> None:
    _draw_share(axes, height, row, row.n_failed / row.n_runs, share_interval(row.n_failed, row.n_runs), theme)
    if row.claimed is not None:
        _draw_claim(axes, height, row.claimed, theme)


def _draw_share(
    axes: Axes, height: int, row: Coverage, share: float, interval: tuple[float, float], theme: Theme
) -> None:
    colour = theme.colours[row.look.colour]
    axes.plot(interval, (height, height), color=colour, linewidth=1.4, solid_capstyle="butt")
    face = theme.paper if row.claimed is None else colour
    axes.plot(share, height, marker="o", markersize=5.5, color=colour, markerfacecolor=face, markeredgewidth=1.3)


def _draw_claim(axes: Axes, height: int, share: float, theme: Theme) -> None:
    axes.plot((share, share), (height - 0.32, height + 0.32), color=theme.ink, linewidth=1.5, solid_capstyle="butt")
