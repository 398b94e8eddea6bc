"""All figures of a report."""

from __future__ import annotations

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
from kernelbandits.experiments.reporting.sensitivity import sensitivity_drawings
from kernelbandits.experiments.reporting.wording import own_names
from kernelbandits.experiments.results import Results

__all__ = ["drawings_of"]


def drawings_of(recorded: Results) -> tuple[Drawing, ...]:
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
    names = own_names(drawing.name for drawing in drawings)
    return tuple(replace(drawing, name=name) for drawing, name in zip(drawings, names, strict=True))
