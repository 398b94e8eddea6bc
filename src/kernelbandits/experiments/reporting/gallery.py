"""All figures of a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kernelbandits.experiments.reporting.coverage import coverage_drawings
from kernelbandits.experiments.reporting.curve_figures import (
    information_drawings,
    regret_drawings,
    reward_drawings,
    time_drawings,
)
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.looks import looks_of
from kernelbandits.experiments.reporting.reading import Recorded
from kernelbandits.experiments.reporting.sensitivity import sensitivity_drawings

__all__ = ["drawings_of"]


def drawings_of(recorded: Recorded) -> tuple[Drawing, ...]:
    """Every figure that the results can fill, each with a name of its own."""
    looks = looks_of(recorded)
    drawings = (
        *regret_drawings(recorded, looks),
        *reward_drawings(recorded, looks),
        *sensitivity_drawings(recorded),
        *coverage_drawings(recorded, looks),
        *information_drawings(recorded, looks),
        *time_drawings(recorded, looks),
    )
    taken: Counter[str] = Counter()
    return tuple(_with_own_name(drawing, taken) for drawing in drawings)


def _with_own_name(drawing: Drawing, taken: Counter[str]) -> Drawing:
    """Two names that differ in signs only would share a file."""
    taken[drawing.name] += 1
    n_before = taken[drawing.name]
    return drawing if n_before == 1 else replace(drawing, name=f"{drawing.name}-{n_before}")
