"""Estimators on logs, where the truth is known, and beside the Open Bandit Pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, Estimator, SelfNormalizedIPS, Switch, collect_log
from kernelbandits.evaluation.estimator_study import estimator_study
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.plotting.curves import Panel, panel_grid
from kernelbandits.experiments.plotting.figures import Dot, ReportFigure, draw_dots, rows_height
from kernelbandits.experiments.plotting.style import Theme
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, Policy, UniformRandom
from studies.numbers import signed
from studies.pictures import markdown_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE: Final = "Off-policy estimators"

KERNEL: Final = Gaussian(length_scale=0.3)
WORLD: Final = SyntheticRKHS(KERNEL, n_actions=8, n_features=2, noise="bernoulli", seed=4)
MODEL: Final = DirectMethod(KERNEL, 0.5)
ESTIMATORS: Final[Mapping[str, Estimator]] = {
    "IPS": IPS(),
    "IPS, weights clipped at 5": IPS(clip=5.0),
    "self-normalized IPS": SelfNormalizedIPS(),
    "direct method": MODEL,
    "doubly robust": DoublyRobust(MODEL),
    "SWITCH, threshold 5": Switch(MODEL, 5.0),
}
N_LOGS, ROUNDS = 200, 400

NOMINAL, NORMAL = 0.95, 1.96
"""Share of intervals that should hold, and standard errors to either side in one of the normal distribution."""

COLORS: Final = ("blue", "orange")
"""Of the logs."""

OPEN_BANDIT: Final = Path(__file__).parent / "open_bandit.json"
"""What tests/comparisons/open_bandit_pipeline.py said, with versions."""


def collect(workers: int | None) -> dict[str, Any]:
    """Bias, error and coverage under logs of a uniform rule and of a learner with a floor."""
    with worker_pool(n_workers_for(len(LOGGING), workers)) as pool:
        rows = [row for found in pool.map(_rows, LOGGING) for row in found]
    return {"rows": rows, "open_bandit": json.loads(OPEN_BANDIT.read_text(encoding="utf-8"))}


def _uniform(seed: int) -> Policy:
    return UniformRandom(seed=seed)


def _learner(seed: int) -> Policy:
    return Mixed(KernelUCB(KERNEL, exploration=0.3), epsilon=0.4, seed=seed)


LOGGING: Final = {"uniform": _uniform, "a learner, 40 % of it at random": _learner}


def _target() -> Policy:
    """A policy that has learned a little, and learns no more."""
    policy = KernelUCB(KERNEL, regularization=0.5, exploration=0.0)
    log = collect_log(WORLD, UniformRandom(seed=1_000), horizon=100, seed=1_000)
    policy.warm_start([contexts[action] for contexts, action in zip(log.rounds, log.actions, strict=True)], log.rewards)
    return policy


def _rows(rule: str) -> list[dict[str, Any]]:
    rows = estimator_study(
        WORLD, ESTIMATORS, log_with=LOGGING[rule], target=_target(), horizon=ROUNDS, n_logs=N_LOGS, truth_horizon=4_000
    )
    return [{"log": rule, **row} for row in rows]


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """Bias, and how often intervals hold, under each log."""
    rows = found["rows"]
    worst = max(rows, key=lambda row: abs(row["bias"]))
    return ReportFigure(
        name="off-policy",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Bias: mean over {N_LOGS} logs; bars are 95 % intervals of the mean, {NORMAL:g} standard errors to either "
            "side, and the vertical line is zero. Share of intervals that hold: fraction of 95 % intervals that "
            "contain the true value; bars are Clopper and Pearson's 95 % intervals, and the vertical line is the "
            "nominal 0.95."
        ),
        alt_text=(
            f"Dots with bars for six estimators under two logs. The largest bias is that of {worst['estimator']}, "
            f"{signed(worst['bias'], 2)}. Intervals that may hold as often as promised: {held_in_words(rows)}."
        ),
        draw=partial(_draw, rows),
    )


def held_in_words(rows: list[dict[str, Any]]) -> str:
    """Estimators whose share of intervals that hold agrees with the promise, under each log on its own."""
    held: dict[str, list[str]] = {row["log"]: [] for row in rows}
    for row in rows:
        if row["coverage_low"] <= NOMINAL <= row["coverage_high"]:
            held[row["log"]].append(row["estimator"])
    return "; ".join(f"log: {log} ({', '.join(names) or 'none'})" for log, names in held.items())


def _draw(rows: list[dict[str, Any]], caption: str, theme: Theme) -> Figure:
    panels = []
    for place, log in enumerate(dict.fromkeys(row["log"] for row in rows)):
        here = [row for row in rows if row["log"] == log]
        for label, dot_of in (("Bias", _bias_dot), ("Share of intervals that hold", _coverage_dot)):
            draw = partial(draw_dots, dots=[dot_of(row, COLORS[place]) for row in here])
            panels.append(Panel(title=f"Log: {log}", x_label=label, draw=draw))
    height = rows_height(len(ESTIMATORS))
    return panel_grid(panels, n_columns=2, height=height, caption=caption, theme=theme, share_y=True)


def _bias_dot(row: Mapping[str, Any], color: str) -> Dot:
    half, value = NORMAL * row["bias_error"], row["bias"]
    return Dot(label=row["estimator"], color=color, value=value, low=value - half, high=value + half, nominal=0.0)


def _coverage_dot(row: Mapping[str, Any], color: str) -> Dot:
    low, high = row["coverage_low"], row["coverage_high"]
    return Dot(label=row["estimator"], color=color, value=row["coverage"], low=low, high=high, nominal=NOMINAL)


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["log", "estimator", "bias", "root mean squared error", "95 % intervals that hold"]]
    table += [
        [
            row["log"],
            row["estimator"],
            f"{signed(row['bias'], 4)} ± {row['bias_error']:.4f}",
            f"{row['rmse']:.4f}",
            f"{row['coverage']:.3f} ({row['coverage_low']:.3f} to {row['coverage_high']:.3f})",
        ]
        for row in found["rows"]
    ]
    theirs = found["open_bandit"]
    return f"""\
{N_LOGS} simulated logs of {ROUNDS} rounds, with eight new actions per round and rewards of 0 and 1. The target policy
has learned from 100 other rounds and does not learn further. Its true value is its mean reward over 4,000 rounds of the
same run. The table has the bias with its standard error, and the fraction of intervals that contain the true value with
the interval of Clopper and Pearson. The intervals of the direct method and of SWITCH include the posterior variance of
their model, and assume that its kernel is right.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}

On the Open Bandit sample (six logs of 10,000 rounds) the values of this library and those of obp {theirs["obp"]}
(Python {theirs["python"]}, NumPy {theirs["numpy"]}) for IPS, self-normalized IPS, direct method, doubly robust and
SWITCH, under two policies each, differ by at most {theirs["largest_difference"]:.1e}; the comparison is
`tests/comparisons/open_bandit_pipeline.py`."""
