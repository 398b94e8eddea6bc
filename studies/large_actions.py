"""Off-policy estimators where actions are many: weights of actions, of similar actions, and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, Estimator, MarginalizedIPS, SelfNormalizedIPS
from kernelbandits.experiments import Curve
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.plotting.curves import Panel, draw_curves, legend_entries, panel_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.plotting.style import Theme
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.experiments.results import Band
from kernelbandits.kernels import Gaussian
from kernelbandits.types import Matrix, Vector
from studies.numbers import signed
from studies.pictures import markdown_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE: Final = "Many actions in a log"

N_ACTIONS: Final = (10, 30, 100, 300, 1_000)
SMOOTHNESS: Final = {"smooth rewards": 0.5, "less smooth rewards": 0.2, "rough rewards": 0.05}
"""Length scale of the reward function."""

ASSUMED: Final = 0.5
"""Length scale that models take for it."""

NEIGHBORHOOD: Final = 0.05
"""Length scale of the similarity of `MarginalizedIPS`."""

N_LOGS, ROUNDS, NOISE = 100, 500, 0.3

TASTE: Final = 1.5
"""Standard deviation of what both policies have for or against each single item, in log-odds."""

NORMAL: Final = 1.96
N_WAVES: Final = 200
"""Frequencies of a reward function."""

MODEL: Final = DirectMethod(Gaussian(length_scale=ASSUMED), 0.1)
ESTIMATORS: Final[Mapping[str, tuple[Estimator, str]]] = {
    "IPS": (IPS(), "gray"),
    "self-normalized IPS": (SelfNormalizedIPS(), "black"),
    "direct method": (MODEL, "orange"),
    "doubly robust": (DoublyRobust(MODEL), "green"),
    "marginalized IPS": (MarginalizedIPS(Gaussian(length_scale=NEIGHBORHOOD)), "purple"),
    "marginalized IPS, normalized": (MarginalizedIPS(Gaussian(length_scale=NEIGHBORHOOD), normalized=True), "blue"),
}


def collect(workers: int | None) -> dict[str, Any]:
    """Errors of every estimator by number of actions, for a smooth and a rough reward."""
    cases = [(name, n_actions) for name in SMOOTHNESS for n_actions in N_ACTIONS]
    with worker_pool(n_workers_for(len(cases), workers)) as pool:
        return {"rows": [row for rows in pool.map(_rows, cases) for row in rows]}


def _function(rng: np.random.Generator, length_scale: float) -> Any:
    """A random function of mean 0 and variance 1 with this length scale, from a Gaussian process on the plane."""
    waves = rng.normal(size=(2, N_WAVES)) / length_scale
    phases, heights = rng.uniform(0.0, 2.0 * np.pi, N_WAVES), rng.normal(size=N_WAVES) * np.sqrt(2.0 / N_WAVES)
    return lambda rows: np.cos(rows @ waves + phases) @ heights


class _Shares:
    """Target with given probabilities over the items."""

    def __init__(self, shares: Vector) -> None:
        self._shares = shares

    def probabilities_many(self, rounds: Sequence[Any], ids: Any = None) -> list[Vector]:
        """Return the same probabilities for every round."""
        return [self._shares for _ in rounds]


def _softmax(values: Vector) -> Vector:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


def _case(seed: int, length_scale: float, n_actions: int) -> tuple[Log, Any, float]:
    """A log of a softmax rule over items of the unit square, a target, and its true value."""
    rng = np.random.default_rng([seed, n_actions])
    items: Matrix = rng.uniform(size=(n_actions, 2))
    expected: Vector = _function(rng, length_scale)(items)
    of_log = _softmax(_function(rng, 0.5)(items) + TASTE * rng.normal(size=n_actions))
    of_target = _softmax(expected + _function(rng, 0.5)(items) + TASTE * rng.normal(size=n_actions))
    actions = rng.choice(n_actions, p=of_log, size=ROUNDS)
    rewards = expected[actions] + NOISE * rng.normal(size=ROUNDS)
    log = Log([items] * ROUNDS, actions, of_log[actions], rewards, probabilities=[of_log] * ROUNDS)
    return log, _Shares(of_target), float(of_target @ expected)


def _rows(case: tuple[str, int]) -> list[dict[str, Any]]:
    name, n_actions = case
    errors: dict[str, list[float]] = {label: [] for label in ESTIMATORS}
    for seed in range(N_LOGS):
        log, target, truth = _case(seed, SMOOTHNESS[name], n_actions)
        for label, (estimator, _) in ESTIMATORS.items():
            errors[label].append(estimator.estimate(log, target).value - truth)
    return [_row(name, n_actions, label, np.array(found)) for label, found in errors.items()]


def _row(name: str, n_actions: int, label: str, errors: Vector) -> dict[str, Any]:
    """Bias and root mean squared error, the standard error of the latter by the delta method."""
    squares, rmse = errors**2, float(np.sqrt(np.mean(errors**2)))
    return {
        "rewards": name,
        "n_actions": n_actions,
        "estimator": label,
        "bias": float(errors.mean()),
        "bias_error": float(errors.std(ddof=1) / np.sqrt(len(errors))),
        "rmse": rmse,
        "rmse_error": float(squares.std(ddof=1) / np.sqrt(len(errors)) / (2.0 * rmse)),
    }


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """Root mean squared error by number of actions."""
    rows = found["rows"]
    return ReportFigure(
        name="large-actions",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Root mean squared error over {N_LOGS} logs of {ROUNDS} rounds; bands are 95 % intervals, {NORMAL:g} "
            f"standard errors to either side. Rewards have standard deviation 1 and length scale "
            f"{', '.join(f'{scale:g}' for scale in SMOOTHNESS.values())} (in this order); models assume {ASSUMED:g}, "
            f"and marginalized weights a neighborhood of {NEIGHBORHOOD:g}."
        ),
        alt_text=f"Curves of six estimators over the number of actions in three panels. {best_in_words(rows)}",
        draw=partial(_draw, rows),
    )


def best_in_words(rows: list[dict[str, Any]]) -> str:
    """The most accurate estimator for the fewest and for the most actions, of smooth and of rough rewards."""
    parts = []
    for name in SMOOTHNESS:
        for n_actions in (min(N_ACTIONS), max(N_ACTIONS)):
            here = [row for row in rows if row["rewards"] == name and row["n_actions"] == n_actions]
            best = min(here, key=lambda row: row["rmse"])
            parts.append(f"{name}, {n_actions:,} actions: {best['estimator']} ({best['rmse']:.3f})")
    return "The smallest error has, by case: " + "; ".join(parts) + "."


def _draw(rows: list[dict[str, Any]], caption: str, theme: Theme) -> Figure:
    panels, curves = [], []
    for name in SMOOTHNESS:
        curves = [_curve(rows, name, label, color) for label, (_, color) in ESTIMATORS.items()]
        panels.append(
            Panel(
                title=name.capitalize(),
                draw=partial(_draw_panel, curves=curves),
                x_label="Number of actions",
                y_label="Root mean squared error",
            )
        )
    return panel_grid(panels, n_columns=3, height=3.0, caption=caption, theme=theme, legend=legend_entries(curves))


def _draw_panel(axes: Axes, theme: Theme, *, curves: Sequence[Curve]) -> None:
    draw_curves(axes, curves, theme, log_x=True, log_y=True, from_zero=False)


def _curve(rows: list[dict[str, Any]], name: str, label: str, color: str) -> Curve:
    own = [row for row in rows if row["rewards"] == name and row["estimator"] == label]
    mean, half = (np.array([row[column] for row in own]) for column in ("rmse", "rmse_error"))
    band = Band(mean, NORMAL * half)
    return Curve(label=label, color=color, band=band, rounds=np.array([row["n_actions"] for row in own]))


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    rows = found["rows"]
    table = [["rewards", "estimator", *(f"{n_actions:,} actions" for n_actions in N_ACTIONS)]]
    for name in SMOOTHNESS:
        for label in ESTIMATORS:
            own = {row["n_actions"]: row for row in rows if row["rewards"] == name and row["estimator"] == label}
            table.append([name, label, *(f"{own[n]['rmse']:.3f} ({signed(own[n]['bias'], 3)})" for n in N_ACTIONS)])
    return f"""\
{N_LOGS} logs of {ROUNDS} rounds over a fixed set of items in the unit square. The logging policy is a softmax rule
whose probabilities are all known; the target policy is another softmax rule, which prefers higher rewards. Each rule
also has a random preference for every single item (standard deviation {TASTE:g} in log-odds). The reward function is
drawn from a Gaussian process, smooth, less smooth or rough, and the noise has standard deviation {NOISE:g}. The model
of the direct method and of doubly robust assumes the length scale {ASSUMED:g}, which is right for the smooth function
and wrong for the others. Root mean squared error, with the bias in parentheses.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}

{best_in_words(rows)}"""
