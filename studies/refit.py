"""Kernel parameters that follow the data, beside given ones that are right or wrong by a factor of 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernelbandits import KernelUCB, simulate
from kernelbandits.experiments import RunInfo
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.plotting.curves import Panel, panel_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.plotting.style import LegendEntry, Theme
from kernelbandits.experiments.policy_problems import PROBLEMS
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Kernel
from kernelbandits.posterior import Refit
from studies.numbers import signed
from studies.pictures import markdown_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE: Final = "Kernel parameters that follow the data"

WORLDS: Final = ("linear", "smooth", "clustered", "changing", "context × action")
FACTORS: Final = (0.1, 1.0, 10.0)
SEVERAL: Final = "all three"
"""In place of a factor: the mean of the three kernels, whose weights are learned, too."""

HORIZON: Final = 600
SEEDS: Final = range(100, 110)

FIXED: Final = "as given"
LIKELIHOOD: Final = "marginal likelihood"
LEFT_OUT: Final = "leave one out"
RULES: Final[Mapping[str, tuple[Refit | None, str]]] = {
    FIXED: (None, "gray"),
    LIKELIHOOD: (Refit(criterion="marginal_likelihood"), "blue"),
    LEFT_OUT: (Refit(), "orange"),
}
NORMAL: Final = 1.96


def collect(workers: int | None) -> dict[str, Any]:
    """Regret of every run of every world, start and rule."""
    cases = [(world, start) for world in WORLDS for start in (*FACTORS, SEVERAL)]
    with worker_pool(n_workers_for(len(cases), workers)) as pool:
        return {"rows": [row for rows in pool.map(_rows, cases) for row in rows]}


def _rows(case: tuple[str, float | str], seeds: Sequence[int] = SEEDS) -> list[dict[str, Any]]:
    world, start = case
    environment, found = PROBLEMS[world].environment, []
    for label, (rule, _) in RULES.items():
        regret, seconds, begun = [], [], process_time()
        for seed in seeds:
            kernel = _kernel(PROBLEMS[world].kernel(RunInfo(environment, HORIZON, seed)), start)
            trace = simulate(environment, KernelUCB(kernel, refit=rule), horizon=HORIZON, seed=seed)
            regret.append(round(float(trace.regret[-1]), 3))
            seconds.append(process_time() - begun)
            begun = process_time()
        row = {"world": world, "start": str(start), "rule": label, "regret": regret}
        found.append({**row, "seconds": round(float(np.median(seconds)), 3)})
    return found


def _kernel(kernel: Kernel, start: float | str) -> Kernel:
    """The kernel of the problem with its length scales multiplied, or the mean of all three."""
    if isinstance(start, float):
        return kernel.with_log_parameters(kernel.log_parameters() + np.log(start))
    first, *others = [_kernel(kernel, factor) * (1.0 / len(FACTORS)) for factor in FACTORS]
    return sum(others, start=first)


def _of(rows: Sequence[Mapping[str, Any]], world: str, start: float | str, rule: str) -> np.ndarray[Any, Any]:
    (row,) = (row for row in rows if (row["world"], row["start"], row["rule"]) == (world, str(start), rule))
    return np.array(row["regret"])


def _standard_error(values: np.ndarray[Any, Any]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """Regret by the factor of the length scale, a panel a world."""
    rows = found["rows"]
    return ReportFigure(
        name="refit",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Regret of KernelUCB after {HORIZON} rounds by what the length scale was multiplied with, over "
            f"{len(SEEDS)} runs; bars are 95 % intervals. The length scale is used as given, or learned by "
            f"{LIKELIHOOD} or by {LEFT_OUT}. Each axis has its own scale."
        ),
        alt_text=f"Five panels with three curves each over the factors 0.1, 1 and 10. {in_words(rows)}",
        draw=partial(_draw, rows),
    )


def _draw(rows: list[dict[str, Any]], caption: str, theme: Theme) -> Figure:
    panels = [
        Panel(
            title=world.capitalize(),
            draw=partial(_draw_panel, rows=rows, world=world),
            x_label="Factor of the length scale",
            y_label="Regret",
        )
        for world in WORLDS
    ]
    legend = [LegendEntry(label, color, "o") for label, (_, color) in RULES.items()]
    return panel_grid(panels, n_columns=3, height=2.6, caption=caption, theme=theme, legend=legend)


def _draw_panel(axes: Axes, theme: Theme, *, rows: list[dict[str, Any]], world: str) -> None:
    for label, (_, color) in RULES.items():
        runs = [_of(rows, world, factor, label) for factor in FACTORS]
        mean, half = [run.mean() for run in runs], [NORMAL * _standard_error(run) for run in runs]
        axes.errorbar(FACTORS, mean, yerr=half, color=theme.colors[color], marker="o", markersize=4, capsize=3)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks(FACTORS, [f"{factor:g}" for factor in FACTORS])
    axes.minorticks_off()


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """The largest loss against the given scale where it is right, and the gains where it is wrong."""
    parts = []
    for rule in (LIKELIHOOD, LEFT_OUT):
        worst, at = max((_excess(rows, world, rule), world) for world in WORLDS)
        wrong = [
            _of(rows, world, factor, rule).mean() / _of(rows, world, factor, FIXED).mean()
            for world in WORLDS
            for factor in (0.1, 10.0)
        ]
        parts.append(
            f"By {rule}, with the given scale the regret is at most {worst:.2f} times that of the fixed kernel "
            f"({at}), and with a scale that is wrong by ten {min(wrong):.2f} to {max(wrong):.2f} times (geometric mean "
            f"{np.exp(np.mean(np.log(wrong))):.2f})"
        )
    return ". ".join(parts) + "."


def _most_errors(rows: Sequence[Mapping[str, Any]]) -> float:
    """The largest loss by leaving one out where the given scale is right, in standard errors of the difference."""
    gaps = [_of(rows, world, 1.0, LEFT_OUT) - _of(rows, world, 1.0, FIXED) for world in WORLDS]
    return max(float(gap.mean() / _standard_error(gap)) for gap in gaps)


def _excess(rows: Sequence[Mapping[str, Any]], world: str, rule: str) -> float:
    return float(_of(rows, world, 1.0, rule).mean() / _of(rows, world, 1.0, FIXED).mean())


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    rows = found["rows"]
    table = [["world", "length scale", *RULES, "difference, likelihood", "difference, leave one out"]]
    for world in WORLDS:
        for start in (*FACTORS, SEVERAL):
            runs = {rule: _of(rows, world, start, rule) for rule in RULES}
            cells = [f"{run.mean():.1f} ± {_standard_error(run):.1f}" for run in runs.values()]
            apart = [runs[rule] - runs[FIXED] for rule in (LIKELIHOOD, LEFT_OUT)]
            cells += [f"{signed(gap.mean(), 1)} ± {_standard_error(gap):.1f}" for gap in apart]
            name = start if isinstance(start, str) else f"× {start:g}"
            table.append([world, name, *cells])
    seconds = {rule: np.sum([row["seconds"] for row in rows if row["rule"] == rule]) for rule in RULES}
    return f"""\
KernelUCB with its defaults on five problems of the [study of all policies](policies.md), {HORIZON} rounds, seeds
{SEEDS[0]} to {SEEDS[-1]}. The kernel is Gaussian with half the median distance as length scale, times 0.1, 1 or 10;
in the rows "{SEVERAL}", the mean of these three kernels, whose weights are learned, too. Length scales and
regularization are searched for after 20, 40, 80, 160 and 320 rewards; `refit="auto"` does so by {LEFT_OUT}. Regret,
mean ± standard error, and the paired difference from the given parameters. The rule for the exploration (see the
parameter `refit` of `KernelUCB`) was found on seeds 0 to 5 of the same problems; that leaving one out is the default
was decided by this table.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}

{in_words(rows)} Differences where the given scale is right are within {_most_errors(rows):.1f} standard errors
by {LEFT_OUT}. A scale that is far too long can make a policy repeat a few actions, from which no scale can be learned:
that is why "smooth × 10" stays poor in some runs. All runs took {seconds[LIKELIHOOD] / seconds[FIXED]:.1f} and
{seconds[LEFT_OUT] / seconds[FIXED]:.1f} times the processor time of those with fixed parameters, searches included."""
