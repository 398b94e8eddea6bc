"""Figures of what changes from round to round: regret, reward, information, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kernelbandits.experiments.curves import Curve, draw_curves
from kernelbandits.experiments.figures import Bound, regret_figure
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.looks import Look
from kernelbandits.experiments.reporting.panels import curve_sheet
from kernelbandits.experiments.reporting.series import (
    effective_dimension,
    information_gain,
    mean_reward,
    regret,
    seconds,
    series_curve,
)
from kernelbandits.experiments.reporting.wording import background, file_name, repeats
from kernelbandits.experiments.results import PolicyRuns, Results, measure_of
from kernelbandits.experiments.themes import Theme
from kernelbandits.types import Indices, Matrix
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["information_drawings", "regret_drawings", "reward_drawings", "time_drawings"]

Series = Callable[[PolicyRuns], tuple[Indices, Matrix]]


def regret_drawings(recorded: Results, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """Regret of each environment with its bounds and, where there are several, of all side by side."""
    known = {name: policies for name, policies in recorded.environments.items() if measure_of(policies).is_regret}
    if len(known) > 1:
        yield from _side_by_side(known, looks, regret, "regret", "Cumulative regret", "Regret")
    for environment, policies in known.items():
        curves = _curves(policies, looks, regret)
        if not curves:
            continue
        name = "regret" if len(known) == 1 else f"regret-{file_name(environment)}"
        bounds, rounds = _bounds(policies, looks), pluralize(int(curves[0].at[-1]), "round")
        yield Drawing(
            name=name,
            title=f"Regret in {environment}",
            section="Regret",
            caption=f"Cumulative regret in {environment}. {_repeats(policies, looks)}{_about(bounds)}",
            description=_in_words(f"Cumulative regret in {environment} after {rounds}", curves),
            draw=partial(_draw_regret, curves, bounds),
        )


def reward_drawings(recorded: Results, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """Mean reward so far."""
    yield from _side_by_side(
        recorded.environments, looks, mean_reward, "reward", "Mean reward so far", "Reward", from_zero=False
    )


def information_drawings(recorded: Results, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """How much there is to learn, and how much was learnt."""
    yield from _side_by_side(
        recorded.environments, looks, information_gain, "information-gain", "Information gain", "Information",
        meaning="ln det(I + K/γ) / 2 of the points chosen so far.",
    )  # fmt: skip
    yield from _side_by_side(
        recorded.environments, looks, effective_dimension, "effective-dimension", "Effective dimension", "Information",
        meaning="Directions along which the points chosen so far mostly lie, computed at a few rounds.",
    )  # fmt: skip


def time_drawings(recorded: Results, looks: Mapping[str, Look]) -> Iterator[Drawing]:
    """Time to choose and to learn."""
    yield from _side_by_side(
        recorded.environments, looks, seconds, "time", "Seconds a round", "Time", logarithmic=True,
        meaning="Time to choose and to learn on the machine of the study, mean over stretches of rounds.",
    )  # fmt: skip


def _side_by_side(
    environments: Mapping[str, Mapping[str, PolicyRuns]],
    looks: Mapping[str, Look],
    series: Series,
    name: str,
    title: str,
    section: str,
    *,
    meaning: str = "",
    from_zero: bool = True,
    logarithmic: bool = False,
) -> Iterator[Drawing]:
    """One figure with a panel for every environment that has something to show, or none."""
    found = {environment: _curves(policies, looks, series) for environment, policies in environments.items()}
    shown = {environment: curves for environment, curves in found.items() if curves}
    if not shown:
        return
    draw = partial(draw_curves, from_zero=from_zero, logarithmic=logarithmic)
    policies = [environments[name][label] for name in shown for label in environments[name]]
    yield Drawing(
        name=name,
        title=title,
        section=section,
        caption=f"{title}. {meaning + ' ' if meaning else ''}{_repeats_of(policies, looks)}",
        description=" ".join(_in_words(f"{title} in {place}", curves) for place, curves in shown.items()),
        draw=partial(curve_sheet, shown, y_label=title, draw=draw),
    )


def _draw_regret(curves: Sequence[Curve], bounds: Sequence[Bound], caption: str, theme: Theme) -> Figure:
    return regret_figure(curves, bounds=bounds, largest_gap=None, caption=caption, theme=theme)


def _curves(policies: Mapping[str, PolicyRuns], looks: Mapping[str, Look], series: Series) -> list[Curve]:
    found = (series_curve(played, looks[label], series) for label, played in policies.items())
    return [curve for curve in found if curve is not None]


def _bounds(policies: Mapping[str, PolicyRuns], looks: Mapping[str, Look]) -> list[Bound]:
    """2 Σ exploration · width of the policies whose exploration is proved, mean over the runs."""
    bounds = []
    for label, played in policies.items():
        if played.failure_probability is None or looks[label].is_quiet or not len(played.rounds):
            continue
        values = 2.0 * played.curves("potential").mean(axis=0)
        if np.isfinite(values).all():
            bounds.append(Bound(label="", color=looks[label].color, rounds=played.rounds, values=values))
    return bounds


def _about(bounds: Sequence[Bound]) -> str:
    if not bounds:
        return ""
    return (
        " Dashed: what is proved of the policy of the same color, 2 Σ exploration · width of its choices, which its "
        "regret exceeds at most with the failure probability of its confidence intervals; mean over seeds."
    )


def _repeats(policies: Mapping[str, PolicyRuns], looks: Mapping[str, Look]) -> str:
    return _repeats_of(list(policies.values()), looks)


def _repeats_of(policies: Sequence[PolicyRuns], looks: Mapping[str, Look]) -> str:
    return repeats(policies) + background([looks[label] for label in {played.label for played in policies}])


def _in_words(what: str, curves: Sequence[Curve]) -> str:
    """Ends of the curves, for those who cannot see them."""
    ends = ", ".join(f"{curve.label} {float(curve.band.mean[-1]):.3g}" for curve in curves if not curve.is_quiet)
    return f"{what}: {ends}."
