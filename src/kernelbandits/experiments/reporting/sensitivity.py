"""How much the outcome depends on a parameter of a grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernelbandits.experiments.labels import EndLabel, label_ends, shortened, text_width
from kernelbandits.experiments.policy_spec import short_text
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.looks import BEST_FEW, COLORS
from kernelbandits.experiments.reporting.panels import Panel, sheet
from kernelbandits.experiments.reporting.wording import file_name, repeats
from kernelbandits.experiments.results import Measure, PolicyRuns, Results, mean_band, measure_of
from kernelbandits.experiments.themes import Theme
from kernelbandits.experiments.ticks import tick_logarithmically
from kernelbandits.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Response", "responses", "sensitivity_drawings", "spans_decades"]

FONT_SIZE: Final = 8.5
DECADE: Final = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """Outcome against one parameter while the others stay as they are."""

    others: str
    """Values of the other parameters, in words; empty where there are none."""

    values: Sequence[Any]
    means: Vector
    half_widths: Vector


def responses(policies: Sequence[PolicyRuns], parameter: str, measure: Measure) -> list[Response]:
    """One response for every setting of the other parameters, values in order."""
    groups: dict[str, list[PolicyRuns]] = defaultdict(list)
    for played in policies:
        others = ", ".join(f"{name}={_word(value)}" for name, value in played.parameters.items() if name != parameter)
        groups[others].append(played)
    found = []
    for others, group in groups.items():
        ordered = sorted(group, key=lambda played: _order(played.parameters[parameter]))
        bands = [mean_band(played.final(measure.column)) for played in ordered]
        found.append(
            Response(
                others=others,
                values=[played.parameters[parameter] for played in ordered],
                means=np.array([float(band.mean) for band in bands]),
                half_widths=np.array([float(band.half_width) for band in bands]),
            )
        )
    return found


def spans_decades(values: Sequence[Any]) -> bool:
    """Whether the values are positive numbers, the largest at least ten times the smallest.

    >>> spans_decades([0.1, 1.0]), spans_decades([1, 2, 3]), spans_decades([0.0, 10.0])
    (True, False, False)
    """
    return _are_numbers(values) and min(values) > 0 and max(values) >= DECADE * min(values)


def sensitivity_drawings(recorded: Results) -> Iterator[Drawing]:
    """A figure for each spec with a grid: a row an environment, a panel a parameter."""
    specs = dict.fromkeys(played.spec_name for played in recorded.all_runs if played.parameters)
    for spec in specs:
        panels: list[tuple[str, str, Measure, list[Response]]] = []
        policies: list[PolicyRuns] = []
        for environment, everyone in recorded.environments.items():
            ours = [played for played in everyone.values() if played.spec_name == spec and played.parameters]
            policies += ours
            for parameter in _varied(ours):
                having = [played for played in ours if parameter in played.parameters]
                measure = measure_of(everyone)
                panels.append((environment, parameter, measure, responses(having, parameter, measure)))
        if panels:
            yield _drawing(spec, panels, policies)


def _drawing(
    spec: str, panels: Sequence[tuple[str, str, Measure, list[Response]]], policies: Sequence[PolicyRuns]
) -> Drawing:
    best = [
        f"in {environment}, {parameter}: best {_word(_best_value(found, measure))}"
        for environment, parameter, measure, found in panels
    ]
    many = " Where lines are many, the best few are colored and named." if any(len(f) > 7 for *_, f in panels) else ""
    return Drawing(
        name=f"sensitivity-{file_name(spec)}",
        title=f"Parameters of {spec}",
        section="Parameters",
        caption=(
            f"{spec}: outcome at the end against each parameter, a line for every setting of the others. "
            f"{repeats(policies, intervals='bars')}{many}"
        ),
        description=f"Sensitivity of {spec}; " + "; ".join(best) + ".",
        draw=partial(_draw, panels),
    )


def _draw(panels: Sequence[tuple[str, str, Measure, list[Response]]], caption: str, theme: Theme) -> Figure:
    n_columns = min(2, len({parameter for _, parameter, *_ in panels}))
    several = len({environment for environment, *_ in panels}) > 1
    widest = max(text_width(response.others, FONT_SIZE) for *_, found in panels for response in found)
    room = min(2.1 if n_columns == 2 else 3.3, widest + 0.5)

    def panel(environment: str, parameter: str, measure: Measure, found: list[Response]) -> Panel:
        def draw_it(axes: Axes, theme: Theme) -> None:
            _draw_panel(axes, found, measure, room, theme)

        title = f"{parameter}, {environment}" if several else parameter
        return Panel(title=title, x_label=parameter, y_label=measure.title, draw=draw_it)

    drawn = [panel(*one) for one in panels]
    return sheet(drawn, n_columns=n_columns, room=room, height=2.5, caption=caption, theme=theme)


def _draw_panel(axes: Axes, found: list[Response], measure: Measure, room: float, theme: Theme) -> None:
    values = list({str(value): value for response in found for value in response.values}.values())
    logarithmic = spans_decades(values)
    places = _places(values)
    ranked = sorted(found, key=lambda response: _best(response, measure))
    named = found if len(found) <= len(COLORS) else ranked[:BEST_FEW]
    color_of = {id(response): color for response, color in zip(named, COLORS, strict=False)}
    shift = _shifts(list(places.values()), len(found), logarithmic=logarithmic)
    for rank, response in reversed(list(enumerate(ranked))):
        color = theme.colors[color_of.get(id(response), "quiet")]
        at = [shift(places[str(value)], rank) for value in response.values]
        errors = None if np.isnan(response.half_widths).any() else response.half_widths
        axes.errorbar(at, response.means, yerr=errors, color=color, marker="o", markersize=4, linewidth=1.5,
                      elinewidth=1.1)  # fmt: skip
    if logarithmic:
        axes.set_xscale("log")
        tick_logarithmically(axes.xaxis)
    elif not _are_numbers(values):
        each = axes.bbox.width / axes.figure.dpi / len(values) - 0.1  # inches
        axes.set_xticks(range(len(values)), [shortened(_word(value), each, FONT_SIZE) for value in values])
    if measure.is_regret:
        axes.set_ylim(bottom=0)
    last = max(places.values())
    labels = [
        EndLabel(text=shortened(response.others, room - 0.4, FONT_SIZE), color=color_of[id(response)],
                 height=float(response.means[-1]))
        for response in named
        if response.others and places[str(response.values[-1])] == last
    ]  # fmt: skip
    label_ends(axes, labels, theme, font_size=FONT_SIZE)


def _varied(policies: Sequence[PolicyRuns]) -> list[str]:
    """Parameters of which there are two values or more."""
    values: dict[str, set[str]] = defaultdict(set)
    for played in policies:
        for name, value in played.parameters.items():
            values[name].add(str(value))
    return [name for name, found in values.items() if len(found) > 1]


def _places(values: Sequence[Any]) -> dict[str, float]:
    """Where each value stands on the axis: at itself, or one after the other where it is no number."""
    if _are_numbers(values):
        return {str(value): float(value) for value in values}
    return {str(value): float(place) for place, value in enumerate(values)}


def _shifts(places: Sequence[float], n: int, *, logarithmic: bool) -> Callable[[float, int], float]:
    """Moves the lines a little apart, so that no interval hides another."""
    step = 0.05 / max(n, 4)

    def shifted(place: float, rank: int) -> float:
        share = step * (rank - (n - 1) / 2)
        if logarithmic:
            return float(place * (max(places) / min(places)) ** share)
        return float(place + share * (max(places) - min(places)))

    return shifted


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _best(response: Response, measure: Measure) -> float:
    return float(np.min(response.means)) if measure.is_regret else -float(np.max(response.means))


def _best_value(found: Sequence[Response], measure: Measure) -> Any:
    best = min(found, key=lambda response: _best(response, measure))
    return best.values[int(np.argmin(best.means) if measure.is_regret else np.argmax(best.means))]


def _order(value: Any) -> tuple[int, float, str]:
    is_number = _are_numbers([value])
    return (0, float(value), "") if is_number else (1, 0.0, str(value))


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else short_text(value)
