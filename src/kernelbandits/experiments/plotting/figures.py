"""Figures of a report: regret, reward, sensitivity, coverage, information, time, and final results of all policies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, count, cycle
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from kernelbandits.evaluation import share_interval
from kernelbandits.experiments.plotting.curves import Bound, Curve, Panel, curve_grid, draw_curves, panel_grid
from kernelbandits.experiments.plotting.curves import regret_figure as draw_regret_figure
from kernelbandits.experiments.plotting.style import (
    BACKGROUND,
    COLORS,
    CurveStyle,
    LegendEntry,
    Theme,
    abbreviate,
    add_legend,
    set_log_ticks,
)
from kernelbandits.experiments.policy_spec import short_text
from kernelbandits.experiments.results import CONFIDENCE, Measure, PolicyRuns, Results, mean_band, measure_of
from kernelbandits.types import Indices, Matrix, Vector
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "INTERVAL",
    "Dot",
    "ReportFigure",
    "assign_styles",
    "draw_dots",
    "file_name",
    "list_figures",
    "rows_height",
    "unique_names",
]

INTERVAL: Final = f"{CONFIDENCE * 100:.0f} % intervals (Student's t over seeds)"

N_COLORED: Final = 6
"""Policies that keep a color if there are more policies than colors."""

N_TIME_BINS: Final = 24
"""Points of the curve of times: enough to show growth, few enough to average out other load of the machine."""

DECADE: Final = 10.0

Series: TypeAlias = Callable[[PolicyRuns], tuple[Indices, Matrix]]
"""Rounds, and a number of every run at these rounds, shape (n_runs, n_rounds)."""

Styles: TypeAlias = Mapping[str, CurveStyle]
"""Style by policy."""


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure before it is drawn; `draw(caption, theme)` draws it, without small print if the caption is empty."""

    name: str
    """Name of its files."""

    title: str
    section: str
    """Section of the page that shows it."""

    caption: str
    """Content of the figure, number of repeats and type of interval."""

    alt_text: str
    draw: Callable[[str, Theme], Figure]


def list_figures(
    results: Results, *, bounds: Mapping[str, Bound] | None = None, groups: Mapping[str, str] | None = None
) -> tuple[ReportFigure, ...]:
    """Every figure for which there are results.

    Parameters
    ----------
    bounds
        Proved bounds by policy, in place of 2 Σ exploration · width.
    groups
        Group of each policy, which determines the colors in the figure of final results.
    """
    styles, environments = assign_styles(results), results.environments
    figures = (
        *_regret_figures(results, styles, bounds),
        *_final_figures(results, styles, groups),
        *_curve_figures(environments, styles, _mean_reward, "reward", "Mean reward so far", "Reward", from_zero=False),
        *_sensitivity_figures(results),
        *_coverage_figures(results, styles),
        *_curve_figures(
            environments, styles, _information_gain, "information-gain", "Information gain", "Information",
            meaning="ln det(I + K/γ) / 2 of the points chosen so far.",
        ),
        *_curve_figures(
            environments, styles, _effective_dimension, "effective-dimension", "Effective dimension", "Information",
            meaning="Number of directions that contain most of the points chosen so far, computed at a few rounds.",
        ),
        *_curve_figures(
            environments, styles, _inflation, "certificate", "Certified inflation", "Information", from_zero=False,
            meaning="1 + sqrt(residual/γ): the factor by which policies with an approximate posterior widen the term "
            "sqrt(γ) B of their intervals. 1 where it is exact.",
        ),
        *_curve_figures(
            environments, styles, _seconds, "time", "Seconds per round", "Time", log_y=True,
            meaning="Time to choose and to learn on the machine of the study, averaged over intervals of rounds.",
        ),
    )  # fmt: skip
    names = unique_names(figure.name for figure in figures)
    return tuple(replace(figure, name=name) for figure, name in zip(figures, names, strict=True))


# Names, captions and styles


def file_name(text: str) -> str:
    """The text in characters that are valid in any file system and in LaTeX labels.

    >>> file_name("Linear & noisy, γ=0.1")
    'linear-noisy-0-1'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def unique_names(names: Iterable[str]) -> list[str]:
    """The names in their order, with a number appended to repeated ones.

    >>> unique_names(["regret", "time", "regret", "regret-2"])
    ['regret', 'time', 'regret-2', 'regret-2-2']
    """
    given: list[str] = []
    for name in names:
        candidates = chain([name], (f"{name}-{number}" for number in count(2)))
        given.append(next(candidate for candidate in candidates if candidate not in given))
    return given


def _repeats(policies: Sequence[PolicyRuns], *, intervals: str = "bands") -> str:
    """Number of runs of each mean and type of interval, as a sentence."""
    numbers = sorted({runs.n_runs for runs in policies})
    if numbers == [1]:
        return "One seed, so there is no interval."
    over = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"Mean over {over} seeds; {intervals} are {INTERVAL}."


def _curve_caption(policies: Sequence[PolicyRuns], styles: Styles) -> str:
    n_others = sum(styles[label].is_background for label in {runs.label for runs in policies})
    if not n_others:
        return _repeats(policies)
    others = "one other policy, which is" if n_others == 1 else f"{n_others} other policies, all of them"
    return f"{_repeats(policies)} Thin and gray: {others} in the table."


def assign_styles(results: Results) -> dict[str, CurveStyle]:
    """Styles by policy: colors in the order of the study if they suffice, otherwise for the best policies.

    The best have the smallest mean rank over the environments; the others are drawn in the background. The uniformly
    random policy is always gray.
    """
    labels = list(dict.fromkeys(runs.label for runs in results.all_runs))
    random = {runs.label for runs in results.all_runs if runs.is_random}
    colored = [label for label in labels if label not in random]
    if len(colored) > len(COLORS):
        rank = _mean_ranks(results)
        colored = sorted(colored, key=rank.__getitem__)[:N_COLORED]
    styles = dict.fromkeys(labels, BACKGROUND)
    styles |= {label: CurveStyle(color) for label, color in zip(colored, COLORS, strict=False)}
    return styles | {label: CurveStyle("gray", place > 0) for place, label in enumerate(sorted(random))}


def _mean_ranks(results: Results) -> dict[str, float]:
    ranks: dict[str, list[int]] = defaultdict(list)
    for policies in results.environments.values():
        for rank, label in enumerate(measure_of(policies).best_first(policies)):
            ranks[label].append(rank)
    return {label: float(np.mean(found)) for label, found in ranks.items()}


# Curves over rounds


def _regret(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    return runs.rounds, runs.curves("regret")


def _mean_reward(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    return runs.rounds, runs.curves("total_reward") / runs.rounds


def _information_gain(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    return runs.rounds, runs.curves("log_det_gain") / 2.0


def _inflation(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    """Certified inflation of a policy whose posterior is approximate at some time."""
    inflation = runs.curves("inflation")
    return runs.rounds, inflation if (inflation > 1.0).any() else np.full_like(inflation, np.nan)


def _effective_dimension(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    return runs.rounds, runs.curves("effective_dimension")


def _seconds(runs: PolicyRuns) -> tuple[Indices, Matrix]:
    """Mean seconds per round over at most `N_TIME_BINS` intervals of rounds, at their ends, if every run has times."""
    times = [run.seconds for run in runs.runs if run.seconds is not None]
    if len(times) < runs.n_runs:
        return np.empty(0, dtype=np.intp), np.empty((runs.n_runs, 0))
    rounds = reduce(np.intersect1d, [time["round"] for time in times])
    ends = rounds[np.unique(np.linspace(0, len(rounds) - 1, N_TIME_BINS + 1).round().astype(int))[-N_TIME_BINS:]]
    return ends.astype(np.intp), np.array([_binned_seconds(time, ends) for time in times])


def _binned_seconds(time: Mapping[str, Vector], ends: Vector) -> Vector:
    total = np.cumsum(time["seconds"] * np.diff(time["round"], prepend=0))
    spent = total[np.searchsorted(time["round"], ends)]
    return np.asarray(np.diff(spent, prepend=0.0) / np.diff(ends, prepend=0))


def _curve(runs: PolicyRuns, style: CurveStyle, series: Series) -> Curve | None:
    """Mean and interval at the rounds for which all runs have the number; None if there is no such round."""
    rounds, values = series(runs)
    known = np.isfinite(values).all(axis=0)
    if not known.any():
        return None
    return Curve(
        label=runs.label,
        color=style.color,
        band=mean_band(values[:, known]),
        rounds=rounds[known],
        is_background=style.is_background,
    )


def _curves(policies: Mapping[str, PolicyRuns], styles: Styles, series: Series) -> list[Curve]:
    found = (_curve(runs, styles[label], series) for label, runs in policies.items())
    return [curve for curve in found if curve is not None]


def _alt_text(what: str, curves: Sequence[Curve]) -> str:
    """Final values of the curves."""
    ends = ", ".join(f"{curve.label} {float(curve.band.mean[-1]):.3g}" for curve in curves if not curve.is_background)
    return f"{what}: {ends}."


def _curve_figures(
    environments: Mapping[str, Mapping[str, PolicyRuns]],
    styles: Styles,
    series: Series,
    name: str,
    title: str,
    section: str,
    *,
    meaning: str = "",
    from_zero: bool = True,
    log_y: bool = False,
) -> Iterator[ReportFigure]:
    """One figure with a panel per environment that has the series, or none."""
    found = {place: _curves(policies, styles, series) for place, policies in environments.items()}
    panels = {place: curves for place, curves in found.items() if curves}
    if not panels:
        return
    policies = [runs for place in panels for runs in environments[place].values()]
    yield ReportFigure(
        name=name,
        title=title,
        section=section,
        caption=f"{title}. {meaning + ' ' if meaning else ''}{_curve_caption(policies, styles)}",
        alt_text=" ".join(_alt_text(f"{title} in {place}", curves) for place, curves in panels.items()),
        draw=partial(
            curve_grid, panels, y_label=title, draw=partial(draw_curves, from_zero=from_zero, log_y=log_y)
        ),
    )  # fmt: skip


def _regret_figures(results: Results, styles: Styles, bounds: Mapping[str, Bound] | None) -> Iterator[ReportFigure]:
    """Regret in each environment with its bounds and, if there are several, in all of them side by side."""
    known = {place: policies for place, policies in results.environments.items() if measure_of(policies).is_regret}
    if len(known) > 1:
        yield from _curve_figures(known, styles, _regret, "regret",
                                  "Cumulative regret", "Regret")  # fmt: skip
    for environment, policies in known.items():
        curves = _curves(policies, styles, _regret)
        if not curves:
            continue
        proved = _bounds(policies, styles) if bounds is None else list(bounds.values())
        rounds = pluralize(int(curves[0].at[-1]), "round")
        caption = f"Cumulative regret in {environment}. {_curve_caption(list(policies.values()), styles)}"
        if bounds is None and proved:
            caption += (
                " Dashed: proved bound of the policy of the same color, 2 Σ exploration · width of its choices, which "
                "its regret exceeds with at most the failure probability of its confidence intervals; mean over seeds."
            )
        elif proved:
            caption += " Dashed: proved bounds, mean over seeds."
        yield ReportFigure(
            name="regret" if len(known) == 1 else f"regret-{file_name(environment)}",
            title=f"Regret in {environment}",
            section="Regret",
            caption=caption,
            alt_text=_alt_text(f"Cumulative regret in {environment} after {rounds}", curves),
            draw=partial(_draw_regret, curves, proved, None if bounds is None else 1.0),
        )


def _draw_regret(
    curves: Sequence[Curve], bounds: Sequence[Bound], largest_gap: float | None, caption: str, theme: Theme
) -> Figure:
    return draw_regret_figure(curves, bounds=bounds, largest_gap=largest_gap, caption=caption, theme=theme)


def _bounds(policies: Mapping[str, PolicyRuns], styles: Styles) -> list[Bound]:
    """2 Σ exploration · width of the policies whose exploration is proved, mean over the runs."""
    bounds = []
    for label, runs in policies.items():
        if runs.failure_probability is None or styles[label].is_background or not len(runs.rounds):
            continue
        values = 2.0 * runs.curves("potential").mean(axis=0)
        if np.isfinite(values).all():
            bounds.append(Bound(label="", color=styles[label].color, rounds=runs.rounds, values=values))
    return bounds


# Dot plots


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A row of a dot plot: a value, its interval, and optionally the nominal value as a vertical mark."""

    label: str
    color: str
    value: float
    low: float
    high: float
    nominal: float | None = None
    is_hollow: bool = False


def rows_height(n_dots: int) -> float:
    """Height in inches of a panel with this many dots."""
    return 1.05 + 0.24 * n_dots


def draw_dots(axes: Axes, theme: Theme, *, dots: Sequence[Dot]) -> None:
    """Draw one row per dot, the first at the top, labels to the left."""
    layout = theme.layout
    for height, dot in enumerate(reversed(dots)):
        color = theme.colors[dot.color]
        axes.plot((dot.low, dot.high), (height, height), color=color, linewidth=1.4, solid_capstyle="butt")
        face = theme.background if dot.is_hollow else color
        axes.plot(dot.value, height, marker="o", markersize=5.5 * layout.line, color=color, markerfacecolor=face,
                  markeredgewidth=1.3 * layout.line)  # fmt: skip
        if dot.nominal is not None:
            ends = (height - 0.32, height + 0.32)
            axes.plot((dot.nominal, dot.nominal), ends, color=theme.foreground, linewidth=1.5, solid_capstyle="butt")
    axes.set_ylim(-0.6, len(dots) - 0.4)
    labels = [abbreviate(dot.label, layout.max_label) for dot in reversed(dots)]
    axes.set_yticks(range(len(dots)), labels, fontsize=layout.tick, color=theme.foreground, parse_math=False)
    axes.grid(visible=False, axis="y")


def _final_figures(results: Results, styles: Styles, groups: Mapping[str, str] | None) -> Iterator[ReportFigure]:
    """Final regret of every policy in every environment, if there are too many for curves in color, or groups."""
    known = {place: policies for place, policies in results.environments.items() if measure_of(policies).is_regret}
    has_background = any(style.is_background for style in styles.values())
    if not known or not (has_background or groups):
        return
    labels = list(dict.fromkeys(label for policies in known.values() for label in policies))
    finals = {
        place: {label: runs.final_band("regret") for label, runs in policies.items()}
        for place, policies in known.items()
    }
    worst = {place: max(float(band.mean) for band in found.values()) for place, found in finals.items()}
    share = {
        label: np.mean([float(found[label].mean) / max(worst[place], 1e-9)
                        for place, found in finals.items() if label in found])
        for label in labels
    }  # fmt: skip
    order = sorted(labels, key=lambda label: float(share[label]))
    if groups:
        names = dict.fromkeys(groups[label] for label in labels)
        color_of_group = dict(zip(names, cycle((*COLORS[:6], "gray", "black")), strict=False))
        colors = {label: color_of_group[groups[label]] for label in labels}
        legend = [LegendEntry(name, color, "o", "none") for name, color in color_of_group.items()]
    else:
        colors, legend = {label: styles[label].color for label in labels}, []

    def dots(place: str) -> list[Dot]:
        rows = []
        for label in order:
            band = finals[place].get(label)
            mean = np.nan if band is None else float(band.mean)
            half = 0.0 if band is None else float(np.nan_to_num(band.half_width))
            rows.append(Dot(label=label, color=colors[label], value=mean, low=mean - half, high=mean + half))
        return rows

    def draw(caption: str, theme: Theme) -> Figure:
        panels = [
            Panel(title=place, x_label="Cumulative regret", draw=partial(_draw_final, dots=dots(place)))
            for place in known
        ]
        return panel_grid(panels, n_columns=min(3, len(panels)), height=rows_height(len(order)), caption=caption,
                          theme=theme, legend=legend, share_y=True)  # fmt: skip

    policies = [runs for place in known.values() for runs in place.values()]
    yield ReportFigure(
        name="final-regret",
        title="Final regret",
        section="Regret",
        caption=(
            "Cumulative regret at the end of the runs, lowest on average over the environments at the top. "
            f"{_repeats(policies, intervals='bars')}"
        ),
        alt_text="Final regret, lowest first: " + ", ".join(order) + ".",
        draw=draw,
    )


def _draw_final(axes: Axes, theme: Theme, *, dots: Sequence[Dot]) -> None:
    draw_dots(axes, theme, dots=dots)
    axes.set_xlim(0.0, 1.03 * max(float(np.nan_to_num(dot.high)) for dot in dots) or 1.0)


# Coverage of confidence intervals


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the confidence interval of the chosen action contained its expected reward."""

    label: str
    style: CurveStyle
    rounds_covered: float
    """Fraction of rounds, mean over runs."""

    half_width: float
    """Half-width of its Student's t interval; nan with one run."""

    n_failed: int
    """Runs in which an interval failed at least once."""

    n_runs: int
    failure_probability: float | None
    """Failure probability claimed for the whole run, if any."""


def _coverage(runs: PolicyRuns, style: CurveStyle) -> Coverage | None:
    """Coverage of one policy; None if a run does not record it."""
    n_covered, n_rounds = runs.final("n_covered"), runs.n_rounds
    if np.any(n_covered < 0):
        return None
    band = mean_band(n_covered / n_rounds)
    return Coverage(
        label=runs.label,
        style=style,
        rounds_covered=float(band.mean),
        half_width=float(band.half_width),
        n_failed=int(np.sum(n_covered < n_rounds)),
        n_runs=runs.n_runs,
        failure_probability=runs.failure_probability,
    )


def _coverage_figures(results: Results, styles: Styles) -> Iterator[ReportFigure]:
    """Two panels per environment: rounds in which intervals held, runs in which one failed."""
    coverages: dict[str, list[Coverage]] = defaultdict(list)
    policies = []
    for environment, label, runs in (
        (environment, label, runs)
        for environment, group in results.environments.items()
        for label, runs in group.items()
    ):
        found = _coverage(runs, styles[label])
        if found is not None and (found.failure_probability is not None or not styles[label].is_background):
            coverages[environment].append(found)
            policies.append(runs)
    if not coverages:
        return
    words = (
        f"{row.label} held in {row.rounds_covered:.1%} of rounds and failed in {row.n_failed} of "
        + pluralize(row.n_runs, "run")
        for rows in coverages.values()
        for row in rows
    )
    yield ReportFigure(
        name="coverage",
        title="Coverage",
        section="Coverage",
        caption=(
            "Rounds that held: fraction of rounds in which the chosen action's expected reward was within mean ± "
            f"exploration · width. {_repeats(policies, intervals='bars')} Runs that failed: fraction of runs in which "
            f"it was outside at least once, with {CONFIDENCE * 100:.0f} % Clopper-Pearson intervals. Filled: "
            "exploration with a guarantee, whose nominal value is the vertical mark; hollow: no guarantee."
        ),
        alt_text="; ".join(words) + ".",
        draw=partial(_draw_coverage, coverages),
    )


def _draw_coverage(coverages: Mapping[str, Sequence[Coverage]], caption: str, theme: Theme) -> Figure:
    panels = []
    for environment, rows in coverages.items():
        suffix = "" if len(coverages) == 1 else f", {environment}"
        for title, dot in (("Rounds that held", _rounds_dot), ("Runs that failed", _runs_dot)):
            draw = partial(_draw_fractions, dots=[dot(row) for row in rows])
            panels.append(Panel(title=title + suffix, x_label="Fraction", draw=draw))
    height = rows_height(max(map(len, coverages.values())))
    return panel_grid(panels, n_columns=2, height=height, caption=caption, theme=theme, share_y=True)


def _draw_fractions(axes: Axes, theme: Theme, *, dots: Sequence[Dot]) -> None:
    draw_dots(axes, theme, dots=dots)
    low, high = axes.get_xlim()
    axes.set_xlim(max(-0.02, low), min(1.02, max(high, low + 0.02)))


def _rounds_dot(row: Coverage) -> Dot:
    half = float(np.nan_to_num(row.half_width))
    interval = max(0.0, row.rounds_covered - half), min(1.0, row.rounds_covered + half)
    nominal = None if row.failure_probability is None else 1.0 - row.failure_probability
    return _coverage_dot(row, row.rounds_covered, interval, nominal)


def _runs_dot(row: Coverage) -> Dot:
    interval = share_interval(row.n_failed, row.n_runs)
    return _coverage_dot(row, row.n_failed / row.n_runs, interval, row.failure_probability)


def _coverage_dot(row: Coverage, fraction: float, interval: tuple[float, float], nominal: float | None) -> Dot:
    low, high = interval
    return Dot(
        label=row.label,
        color=row.style.color,
        value=fraction,
        low=low,
        high=high,
        nominal=nominal,
        is_hollow=row.failure_probability is None,
    )


# Sensitivity to the parameters of a grid


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """Final result against one parameter, with the others fixed."""

    others: str
    """Values of the other parameters; empty if there are none."""

    values: Sequence[Any]
    means: Vector
    half_widths: Vector

    def best(self, measure: Measure) -> float:
        """Best mean, smaller is better."""
        return float(np.min(self.means)) if measure.is_regret else -float(np.max(self.means))


@dataclass(frozen=True, kw_only=True, eq=False)
class SensitivityPanel:
    """Responses to one parameter in one environment."""

    environment: str
    parameter: str
    measure: Measure
    responses: Sequence[Response]


def _responses(policies: Sequence[PolicyRuns], parameter: str, measure: Measure) -> list[Response]:
    """One response per setting of the other parameters, with values in order."""
    groups: dict[str, list[PolicyRuns]] = defaultdict(list)
    for runs in policies:
        others = ", ".join(f"{name}={_text(value)}" for name, value in runs.parameters.items() if name != parameter)
        groups[others].append(runs)
    found = []
    for others, group in groups.items():
        ordered = sorted(group, key=lambda runs: _order(runs.parameters[parameter]))
        bands = [runs.final_band(measure.column) for runs in ordered]
        found.append(
            Response(
                others=others,
                values=[runs.parameters[parameter] for runs in ordered],
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


def _sensitivity_figures(results: Results) -> Iterator[ReportFigure]:
    """One figure per policy with a grid: a row per environment, a panel per parameter."""
    for name in dict.fromkeys(runs.spec_name for runs in results.all_runs if runs.parameters):
        panels: list[SensitivityPanel] = []
        policies: list[PolicyRuns] = []
        for environment, everyone in results.environments.items():
            variants = [runs for runs in everyone.values() if runs.spec_name == name and runs.parameters]
            policies += variants
            measure = measure_of(everyone)
            for parameter in _varied(variants):
                having = [runs for runs in variants if parameter in runs.parameters]
                responses = _responses(having, parameter, measure)
                panels.append(SensitivityPanel(environment=environment, parameter=parameter, measure=measure,
                                               responses=responses))  # fmt: skip
        if panels:
            yield _sensitivity_figure(name, panels, policies)


def _sensitivity_figure(name: str, panels: Sequence[SensitivityPanel], policies: Sequence[PolicyRuns]) -> ReportFigure:
    best = [f"in {panel.environment}, {panel.parameter}: best {_text(_best_value(panel))}" for panel in panels]
    many = any(len(panel.responses) > len(COLORS) for panel in panels)
    return ReportFigure(
        name=f"sensitivity-{file_name(name)}",
        title=f"Parameters of {name}",
        section="Parameters",
        caption=(
            f"{name}: final result against each parameter, one line per setting of the others. "
            f"{_repeats(policies, intervals='bars')}" + (" Only the best lines are in color." if many else "")
        ),
        alt_text=f"Sensitivity of {name}; " + "; ".join(best) + ".",
        draw=partial(_draw_sensitivity, panels),
    )


def _draw_sensitivity(panels: Sequence[SensitivityPanel], caption: str, theme: Theme) -> Figure:
    several = len({panel.environment for panel in panels}) > 1
    drawn = [
        Panel(
            title=f"{panel.parameter}, {panel.environment}" if several else panel.parameter,
            x_label=panel.parameter,
            y_label=panel.measure.title,
            draw=partial(_draw_responses, panel),
        )
        for panel in panels
    ]
    n_parameters = len({panel.parameter for panel in panels})  # a row per environment, if there are several
    n_columns = min(2, len(panels) if n_parameters == 1 else n_parameters)
    return panel_grid(drawn, n_columns=n_columns, height=3.3, caption=caption, theme=theme)


def _draw_responses(panel: SensitivityPanel, axes: Axes, theme: Theme) -> None:
    found, measure = panel.responses, panel.measure
    values = list({str(value): value for response in found for value in response.values}.values())
    logarithmic = spans_decades(values)
    places = {str(value): float(value) if _are_numbers(values) else place for place, value in enumerate(values)}
    ranked = sorted(found, key=lambda response: response.best(measure))
    colored = found if len(found) <= len(COLORS) else ranked[:N_COLORED]
    color_of = {id(response): color for response, color in zip(colored, COLORS, strict=False)}
    low, high = min(places.values()), max(places.values())
    step = 0.05 / max(len(found), 4)  # separates the lines, so that no interval hides another
    for rank, response in reversed(list(enumerate(ranked))):
        color = theme.colors[color_of.get(id(response), "background")]
        shift = step * (rank - (len(found) - 1) / 2)
        at = np.array([places[str(value)] for value in response.values])
        at = at * (high / low) ** shift if logarithmic else at + shift * (high - low)
        errors = None if np.isnan(response.half_widths).any() else response.half_widths
        line = theme.layout.line
        axes.errorbar(at, response.means, yerr=errors, color=color, marker="o", markersize=4 * line,
                      linewidth=1.5 * line, elinewidth=1.1 * line)  # fmt: skip
    if logarithmic:
        axes.set_xscale("log")
        set_log_ticks(axes.xaxis)
    elif not _are_numbers(values):
        length = max(8, 56 // len(values))
        axes.set_xticks(range(len(values)), [abbreviate(_text(value), length) for value in values])
    if measure.is_regret:
        axes.set_ylim(bottom=0)
    entries = [LegendEntry(response.others, color_of[id(response)]) for response in colored if response.others]
    add_legend(axes, entries, theme)


def _varied(policies: Sequence[PolicyRuns]) -> list[str]:
    """Parameters with at least two values."""
    values: dict[str, set[str]] = defaultdict(set)
    for runs in policies:
        for name, value in runs.parameters.items():
            values[name].add(str(value))
    return [name for name, found in values.items() if len(found) > 1]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _best_value(panel: SensitivityPanel) -> Any:
    best = min(panel.responses, key=lambda response: response.best(panel.measure))
    return best.values[int(np.argmin(best.means) if panel.measure.is_regret else np.argmax(best.means))]


def _order(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if _are_numbers([value]) else (1, 0.0, str(value))


def _text(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else short_text(value)
    return text.replace("-", "−") if _are_numbers([value]) else text
