"""The three worlds of EK-UCB (Zenati et al., 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kernelbandits.environments import Bump, Chessboard, StepDiagonal
from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.plotting.curves import curve_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, ends_in_words, repeats, thinned
from studies.numbers import at_rounds, by_policy, spread, spread_text
from studies.pictures import markdown_of

TITLE: Final = "Three worlds of EK-UCB"
STUDIES: Final = ("ek_ucb", "ek_ucb_exploration")

STEPS: Final = (500, 1_000, 2_000)
WORLDS: Final = {"bump": Bump(), "chessboard": Chessboard(), "step-diagonal": StepDiagonal()}

REFERENCE: Final = {"bump": (38.9, 39.1), "chessboard": (561.8, 48.0), "step-diagonal": (578.8, 502.0)}
"""Printed and attainable regret at the last step with the best regularization, from an independent run."""

COLORS: Final = {"1": "blue", "10": "orange", "100": "green"}
"""By regularization."""


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Printed and attainable regret of the published runs; the grid of settings on other random numbers."""
    published = results["ek_ucb"]
    regret, reward = by_policy(published, "regret"), by_policy(published, "total_reward")
    seeds = published.study["seeds"]
    rows = []
    for (world, policy), runs in regret.items():
        claimed = [WORLDS[world].claimed_total(max(STEPS) + 1, seed=seed) for seed in seeds]
        row: dict[str, Any] = {"world": world, "policy": policy}
        for step in STEPS:  # what is printed at a step counts that round too
            paid = at_rounds(reward[world, policy], step + 1)
            printed = [total[step] for total in claimed] - paid
            row[str(step)] = {"printed": spread(printed), "attainable": spread(at_rounds(runs, step + 1))}
        rows.append(row)
    grid = [
        {"world": world, "policy": policy, "regret": spread(at_rounds(runs, STEPS[-1] + 1))}
        for (world, policy), runs in by_policy(results["ek_ucb_exploration"], "regret").items()
    ]
    return {"published": rows, "grid": grid, "curves": _curves(results["ek_ucb"])}


def _curves(results: Results) -> list[dict[str, Any]]:
    """Regret against the attainable best, without ties."""
    found = []
    for (world, policy), runs in by_policy(results, "regret").items():
        name, _, regularization = policy.rpartition(", regularization=")
        if "ordinary" not in name:
            found.append({"world": world, "regularization": regularization, **thinned(runs)})
    return found


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """A panel a world, a curve a regularization."""
    shown: dict[str, list[Curve]] = {world: [] for world in WORLDS}
    for curve in found["curves"]:
        regularization = curve["regularization"]
        shown[curve["world"]].append(as_curve(curve, label=f"γ = {regularization}", color=COLORS[regularization]))
    return ReportFigure(
        name="ek-ucb",
        title=TITLE,
        section=TITLE,
        caption=(
            "Regret against the best attainable action without ties, by regularization γ. "
            "Each panel has its own scale. "
            f"{repeats(found['curves'])}"
        ),
        alt_text=f"Regret over rounds, one panel per environment. After the last round: {ends_in_words(shown)}.",
        draw=partial(curve_grid, shown, y_label="Cumulative regret", n_columns=len(shown)),
    )


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["world", "ties within", "regularization", *(f"t = {step:,}" for step in STEPS)]]
    for row in found["published"]:
        cells = [
            f"{spread_text(row[str(step)]['printed'])}, {row[str(step)]['attainable']['mean']:.1f}" for step in STEPS
        ]
        policy, _, regularization = row["policy"].rpartition(", regularization=")
        table.append([row["world"], "1e-10" if "ordinary" in policy else "none", regularization, *cells])
    best = [["world", "regret: ours, reference", "against the best attainable: ours, reference"]]
    for world, (printed, attainable) in REFERENCE.items():
        exact = [row for row in found["published"] if row["world"] == world and "ordinary" not in row["policy"]]
        ends = [row[str(STEPS[-1])] for row in exact]
        end = min(ends, key=lambda one: one["printed"]["mean"])
        best.append(
            [
                world,
                f"{end['printed']['mean']:.1f}, {printed}",
                f"{end['attainable']['mean']:.1f}, {attainable}",
            ]
        )
    return f"""\
Zenati et al. (2022) run K-UCB with a Gaussian kernel of length scale 0.1 and a bonus factor of 0.1 on three reward
functions of a context and an action, with ten actions. Their random numbers are seeded, so a run can be repeated
number by number: contexts, noise, one random round before the first, and no ties. The regret that their code prints
adds noise to the best reward, and in two of the environments it takes 1 for the best reward even where no action has
it. So each cell has a second number, the pseudo-regret against the best attainable action. Mean ± standard deviation
over seeds 0, 1 and 2.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=3)}

At the best regularization, compared with an independent reference:

{markdown_rows(best)}

The kernel is so narrow that hardly any two contexts are similar, and differences of scores below 1e-10 decide about
the choice. By default, `KernelUCB` treats such scores as ties and takes the first action; the table has both rules.

The effect of regularization and exploration on the same random numbers: regret against the best attainable action at
t = 2,000, for the three best of 15 settings, the published bonus factor with the best regularization, and random
choices.

{markdown_rows(_grid(found["grid"]), n_text_columns=2)}"""


def _grid(rows: list[dict[str, Any]]) -> list[list[str]]:
    table = [["world", "setting", "regret"]]
    for world in WORLDS:
        here = sorted((row for row in rows if row["world"] == world), key=lambda row: row["regret"]["mean"])
        published = next(row for row in here if row["policy"].endswith("exploration=0.1"))
        chance = next(row for row in here if row["policy"] == "Random")
        shown = dict.fromkeys((*(_named(one) for one in here[:3]), _named(published), _named(chance)))
        table += [[world, *row] for row in shown]
    return table


def _named(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["policy"].removeprefix("KernelUCB, "), spread_text(row["regret"])
