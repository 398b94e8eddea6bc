"""Whether confidence intervals held, against what was claimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kernelbandits.evaluation import share_interval
from kernelbandits.experiments.reporting.dots import Dot, draw_dots, names_room, rows_height
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.looks import Look
from kernelbandits.experiments.reporting.panels import Panel, sheet
from kernelbandits.experiments.reporting.wording import repeats
from kernelbandits.experiments.results import CONFIDENCE, PolicyRuns, Results, mean_band
from kernelbandits.experiments.themes import Theme
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Coverage", "coverage_drawings", "coverage_of"]


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


def coverage_of(played: PolicyRuns, look: Look) -> Coverage | None:
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


def coverage_drawings(recorded: Results, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """Two panels an environment: rounds in which intervals held, runs in which they ever failed."""
    found = {name: list(_found(policies, looks)) for name, policies in recorded.environments.items()}
    shown = {name: rows for name, rows in found.items() if rows}
    if not shown:
        return
    policies = [recorded.environments[name][row.label] for name, rows in shown.items() for row in rows]
    words = (
        f"{row.label} held in {row.rounds_held:.1%} of rounds and failed in {row.n_failed} of "
        + pluralize(row.n_runs, "run")
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


def _found(policies: Mapping[str, PolicyRuns], looks: Mapping[str, Look]) -> Iterator[Coverage]:
    """Policies that claim something, and those that have a color."""
    for label, played in policies.items():
        coverage = coverage_of(played, looks[label])
        if coverage is not None and (coverage.claimed is not None or not looks[label].is_quiet):
            yield coverage


def _draw(shown: Mapping[str, Sequence[Coverage]], caption: str, theme: Theme) -> Figure:
    left = names_room([row.label for rows in shown.values() for row in rows])
    panels = []
    for environment, rows in shown.items():
        suffix = "" if len(shown) == 1 else f", {environment}"
        for title, dot_of in (("Rounds that held", _rounds_dot), ("Runs that failed", _runs_dot)):
            draw = partial(_draw_shares, dots=[dot_of(row) for row in rows], left=left)
            panels.append(Panel(title=title + suffix, x_label="Share", draw=draw))
    height = rows_height(max(map(len, shown.values())))
    return sheet(panels, n_columns=2, room=0.1, left=left, height=height, caption=caption, theme=theme)


def _draw_shares(axes: Axes, theme: Theme, *, dots: Sequence[Dot], left: float) -> None:
    draw_dots(axes, theme, dots=dots, left=left)
    low, high = axes.get_xlim()
    axes.set_xlim(max(-0.02, low), min(1.02, max(high, low + 0.02)))


def _rounds_dot(row: Coverage) -> Dot:
    half = float(np.nan_to_num(row.half_width))
    interval = max(0.0, row.rounds_held - half), min(1.0, row.rounds_held + half)
    return _dot(row, row.rounds_held, interval, None if row.claimed is None else 1.0 - row.claimed)


def _runs_dot(row: Coverage) -> Dot:
    return _dot(row, row.n_failed / row.n_runs, share_interval(row.n_failed, row.n_runs), row.claimed)


def _dot(row: Coverage, share: float, interval: tuple[float, float], claim: float | None) -> Dot:
    low, high = interval
    return Dot(
        label=row.label,
        color=row.look.color,
        value=share,
        low=low,
        high=high,
        claim=claim,
        is_hollow=row.claimed is None,
    )
