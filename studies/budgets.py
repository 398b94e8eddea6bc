"""Actions that cost, and an allowance: what is spent, and the reward beside the best that is feasible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kernelbandits import WithCosts
from kernelbandits.experiments import Curve
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.plotting.curves import Panel, draw_curves, legend_entries, panel_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.plotting.style import Theme
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.experiments.results import Band
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Paced, UniformRandom
from kernelbandits.types import Matrix, Vector
from studies.pictures import markdown_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE: Final = "Costs and an allowance"

HORIZON, N_SEEDS = 500, 5
SHARES: Final = (0.05, 0.2, 0.5)
"""Allowances, as shares of what the best actions of all rounds cost."""

HORIZONS: Final = (250, 500, 1_000)
"""At the second of these shares."""

NORMAL: Final = 1.96
SKILLS: Final = np.array([0.0, 0.35, 0.6, 0.9])
PRICES: Final = np.array([0.0, 0.1, 0.4, 2.0])
"""Of a unit of work by each helper, the first free."""

N_OFFERS: Final = 10


class Run(NamedTuple):
    """Rounds of a world: contexts, the most that each action can cost, its cost, its expected reward."""

    contexts: Matrix
    limits: Matrix
    costs: Matrix
    expected: Matrix
    uniform: Vector
    """The reward is 1 if this lies below the expected reward."""


def helpers(seed: int, horizon: int) -> Run:
    """Tasks of a difficulty and a length, and four helpers: more skill costs more. Costs are known."""
    rng = np.random.default_rng(seed)
    difficulty, kind, length = rng.uniform(size=(3, horizon, 1))
    missing = np.maximum(0.0, difficulty - SKILLS + 0.2 * np.sin(6.0 * kind))
    expected = np.array([0.3, 0.6, 0.75, 0.9]) * np.maximum(0.05, 1.0 - 1.6 * missing)
    costs = PRICES * (0.5 + length)
    rows = np.broadcast_arrays(difficulty, kind, np.broadcast_to(SKILLS, (horizon, 4)))
    return Run(np.stack(rows, axis=-1), costs, costs, expected, rng.uniform(size=horizon))


def metered(seed: int, horizon: int) -> Run:
    """The same, but what a task costs is known afterwards: up to 2.5 units of work, more where it is difficult."""
    known, rng = helpers(seed, horizon), np.random.default_rng([seed, 1])
    share = np.clip(0.1 + 0.6 * known.contexts[:, :, 0] + 0.1 * rng.normal(size=(horizon, 4)), 0.0, 1.0)
    limits = np.broadcast_to(2.5 * PRICES, (horizon, 4))
    return known._replace(limits=limits, costs=limits * share)


def offers(seed: int, horizon: int) -> Run:
    """Ten new offers in every round, whose costs say nothing about their rewards; the first is to take none."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(horizon, N_OFFERS, 2))
    centers = np.array([[0.2, 0.3], [0.7, 0.8], [0.8, 0.2]])
    hills = np.exp(-((points[:, :, None] - centers) ** 2).sum(axis=3) / 0.05) @ np.array([0.9, 0.6, 0.5])
    costs = rng.uniform(size=(horizon, N_OFFERS))
    points[:, 0], hills[:, 0], costs[:, 0] = -1.0, 0.0, 0.0
    return Run(points, costs, costs, np.minimum(hills, 1.0), rng.uniform(size=horizon))


WORLDS: Final[Mapping[str, Callable[[int, int], Run]]] = {
    "helpers": helpers,
    "helpers, costs observed": metered,
    "offers": offers,
}


def best_feasible(run: Run, allowance: float) -> tuple[float, float]:
    """Value and price of the linear program max Σ p · expected, Σ p · cost ≤ allowance, p a distribution per round.

    One constraint couples the rounds, so by duality the price λ of the optimum makes max (expected − λ cost) optimal
    in every round, and at most one round is split.
    """
    rounds = np.arange(len(run.costs))

    def at(price: float) -> tuple[float, float]:
        best = (run.expected - price * run.costs).argmax(axis=1)
        return float(run.expected[rounds, best].sum()), float(run.costs[rounds, best].sum())

    low, high = 0.0, 1.0
    if at(0.0)[1] <= allowance:
        return at(0.0)[0], 0.0
    while at(high)[1] > allowance:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if at(middle)[1] > allowance else (low, middle)
    (more, too_much), (less, spent) = at(low), at(high)
    part = (allowance - spent) / (too_much - spent) if too_much > spent else 0.0
    return less + part * (more - less), high


KERNEL: Final = Gaussian(length_scale=0.4)


def _learner() -> KernelUCB:
    return KernelUCB(KERNEL, regularization=0.5, exploration=0.3, reward_range=(0, 1))


PACED: Final = "Paced"
COLORS: Final = {
    PACED: "blue",
    "price of the optimum": "black",
    "costs ignored until the cap": "orange",
    "random until the cap": "gray",
}


def _policy(name: str, allowance: float, horizon: int, price: float, is_observed: bool, seed: int) -> Paced:
    """Return one of the policies; `price` is that of the optimum."""
    match name:
        case "Paced":
            return Paced(_learner(), allowance=allowance, horizon=horizon, observed_costs=is_observed)
        case "price of the optimum":
            return Paced(_learner(), allowance=allowance, price=price, observed_costs=is_observed)
        case "costs ignored until the cap":
            return Paced(_learner(), allowance=allowance, observed_costs=is_observed)
    return Paced(UniformRandom(seed=seed), allowance=allowance)


def collect(workers: int | None) -> dict[str, Any]:
    """Reward and spending of every policy, in every world, by allowance; and of one allowance by horizon."""
    cases = [(world, share, HORIZON, seed) for world in WORLDS for share in SHARES for seed in range(N_SEEDS)]
    longer = [(world, SHARES[1], horizon, seed) for world in WORLDS for horizon in HORIZONS for seed in range(N_SEEDS)]
    longer = [case for case in longer if case[2] != HORIZON]
    with worker_pool(n_workers_for(len(cases), workers)) as pool:
        rows = [row for found in pool.map(_rows, cases) for row in found]
        rows += [row for found in pool.map(partial(_rows, only=(PACED,)), longer) for row in found]
    return {"rows": _means(rows)}


def _rows(case: tuple[str, float, int, int], only: Sequence[str] = tuple(COLORS)) -> list[dict[str, Any]]:
    world, share, horizon, seed = case
    run = WORLDS[world](seed, horizon)
    best = run.expected.argmax(axis=1)
    allowance = share * float(run.costs[np.arange(horizon), best].sum())
    optimum, price = best_feasible(run, allowance)
    found = []
    for name in only:
        policy = _policy(name, allowance, horizon, price, world == "helpers, costs observed", seed)
        reward, spent = play(policy, run)
        row = {"reward": reward / optimum, "spent": spent / allowance, "regret": optimum - reward, "price": price}
        found.append({"world": world, "share": share, "horizon": horizon, "policy": name, **row})
    return found


def play(policy: Paced, run: Run) -> tuple[float, float]:
    """Expected reward and cost of the choices of a policy, which learns rewards of 0 and 1."""
    reward = spent = 0.0
    for contexts, limits, costs, expected, uniform in zip(*run, strict=True):
        decision = policy.choose(WithCosts(contexts, limits))
        action = decision.action
        if policy.observed_costs:
            policy.charge(decision, costs[action])
        policy.learn(decision, float(uniform < expected[action]))
        reward, spent = reward + expected[action], spent + costs[action]
    return float(reward), float(spent)


def _means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over seeds, with standard errors, and the most that any seed has spent."""
    groups: dict[tuple[Any, ...], list[Mapping[str, float]]] = {}
    for one in rows:
        groups.setdefault((one["world"], one["share"], one["horizon"], one["policy"]), []).append(one)
    found = []
    for (world, share, horizon, policy), runs in groups.items():
        row: dict[str, Any] = {"world": world, "share": share, "horizon": horizon, "policy": policy}
        for name in ("reward", "spent", "regret"):
            values = np.array([run[name] for run in runs])
            row[name] = float(values.mean())
            row[f"{name}_error"] = float(values.std(ddof=1) / np.sqrt(len(values)))
        row["most_spent"] = max(run["spent"] for run in runs)
        found.append(row)
    return found


def _of(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """Reward as a share of the optimum, by allowance."""
    rows = found["rows"]
    ends = [f"{row['world']}: {row['reward']:.2f}" for row in _of(rows, share=SHARES[0], horizon=HORIZON, policy=PACED)]
    return ReportFigure(
        name="budgets",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Reward of {HORIZON:,} rounds as a share of the best feasible, by allowance, in percent of what the "
            f"actions of highest expected reward cost; mean over {N_SEEDS} runs, "
            f"bands are 95 % intervals, {NORMAL:g} standard errors to either side."
        ),
        alt_text=(
            f"Curves of four policies over the allowance in three panels. Paced at the smallest: {'; '.join(ends)}. "
            "Without a price, choices stay far below it."
        ),
        draw=partial(_draw, rows),
    )


def _draw(rows: Sequence[Mapping[str, Any]], caption: str, theme: Theme) -> Figure:
    by_world = {world: [_curve(rows, world, policy) for policy in COLORS] for world in WORLDS}

    def on_axes(axes: Axes, theme: Theme, curves: Sequence[Curve]) -> None:
        draw_curves(axes, curves, theme)
        axes.set_ylim(0.0, 1.02)

    panels = [
        Panel(
            title=world,
            x_label="Allowance, %",
            y_label="Reward / best feasible",
            draw=partial(on_axes, curves=curves),
        )
        for world, curves in by_world.items()
    ]
    legend = legend_entries(curve for curves in by_world.values() for curve in curves)
    return panel_grid(panels, n_columns=3, height=3.0, caption=caption, theme=theme, legend=legend, share_y=True)


def _curve(rows: Sequence[Mapping[str, Any]], world: str, policy: str) -> Curve:
    own = _of(rows, world=world, policy=policy, horizon=HORIZON)
    shares = np.array([round(100 * row["share"]) for row in own], dtype=np.intp)
    mean, half = (np.array([row[name] for row in own]) for name in ("reward", "reward_error"))
    return Curve(label=policy, color=COLORS[policy], band=Band(mean, NORMAL * half), rounds=shares)


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    rows = found["rows"]
    table = [["world", "policy", *(f"reward, {share:.0%}" for share in SHARES), "most spent"]]
    for world in WORLDS:
        for policy in COLORS:
            own = _of(rows, world=world, policy=policy, horizon=HORIZON)
            cells = [f"{row['reward']:.3f} ± {NORMAL * row['reward_error']:.3f}" for row in own]
            table.append([world, policy, *cells, f"{max(row['most_spent'] for row in own):.3f}"])
    growth = [["world", *(f"{horizon:,} rounds" for horizon in HORIZONS)]]
    for world in WORLDS:
        own = [_of(rows, world=world, policy=PACED, horizon=horizon, share=SHARES[1])[0] for horizon in HORIZONS]
        growth.append(
            [world, *(f"{row['regret']:.1f} ± {NORMAL * row['regret_error']:.1f} ({row['reward']:.3f})" for row in own)]
        )
    return f"""\
Every action has a cost, and the sum of costs of a period has a limit. *Helpers*: tasks with a difficulty, a kind and a
length, and four helpers; more skill costs more, the first is free. *Costs observed*: what a task costs is known
afterwards, up to a stated limit. *Offers*: ten new ones in every round, whose costs say nothing about their rewards.
Rewards are 0 and 1. The allowance is a share of what the actions of highest expected reward cost. The best feasible
is the optimum of the linear program over all rounds, with expected rewards and actual costs known beforehand: no
policy can have more. *Price of the optimum* subtracts the price that this program needs, which no policy knows
in advance. All learn with the same Gaussian kernel, except the random one, and all have the cap.

{markdown_of(drawing(found))}

Reward as a share of the best feasible, by allowance, after {HORIZON:,} rounds, mean over {N_SEEDS} seeds with 95 %
intervals; and the largest sum of costs of any run, as a share of the allowance.

{markdown_rows(table, n_text_columns=2)}

Regret of `{PACED}` against the best feasible at an allowance of {SHARES[1]:.0%}, by horizon; in brackets the reward as
a share of it. Proportional growth would double the regret from column to column.

{markdown_rows(growth, n_text_columns=1)}"""
