"""A fixed catalog (Calandriello et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.plotting.curves import curve_grid, draw_curves
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, curve_numbers, ends_in_words, few_rounds, repeats, values_at
from studies.numbers import at_rounds, by_policy, spread, spread_text
from studies.pictures import markdown_of

TITLE: Final = "A fixed catalog: abalone"
STUDIES: Final = ("abalone",)
ROUNDS: Final = (250, 500, 1_000, 2_000, 10_000)

CAUGHT: Final = 0.15
"""Share of the uniform policy's regret above which a run is counted as stuck at an item that is not the best."""

REFERENCE: Final = {
    ("0.1", "5"): (0.160, 0.132, 0.119, 0.112),
    ("0.03", "5"): (0.138, 0.121, 0.113, 0.109),
    ("0.1", "12.5"): (0.137, 0.121, 0.113),
    ("0.1", "2.5"): (0.210, 0.158, 0.131),
}
"""One seed of an independent run, by exploration and length scale."""

COLORS: Final = {"0.03": "orange", "0.1": "blue"}
"""By exploration."""


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret as a share of a uniform policy's in the same runs."""
    played = {policy: runs for (_, policy), runs in by_policy(results["abalone"], "regret").items()}
    chance = played.pop("Random")
    parameters = {job["policy"]: job["parameters"] for job in results["abalone"].jobs}
    places = few_rounds(chance, logarithmic=True)
    rows, curves = [], []
    for policy, runs in played.items():
        setting = {
            "exploration": f"{parameters[policy]['exploration']:g}",
            "length_scale": f"{parameters[policy]['kernel.length_scale']:g}",
        }
        shares = {t: at_rounds(runs, t) / at_rounds(chance, t) for t in ROUNDS}
        n_caught = int(np.sum(shares[ROUNDS[-1]] > CAUGHT))
        rows.append({**setting, **{str(t): spread(share) for t, share in shares.items()}, "n_caught": n_caught})
        curves.append({**setting, **curve_numbers(values_at(runs, places) / values_at(chance, places), places)})
    return {"rows": rows, "curves": curves}


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """A panel a length scale, a curve a bonus."""
    shown: dict[str, list[Curve]] = {}
    for curve in found["curves"]:
        panel = shown.setdefault(f"Length scale {curve['length_scale']}", [])
        panel.append(as_curve(curve, label=_bonus(curve), color=COLORS[curve["exploration"]]))
    return ReportFigure(
        name="abalone",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Cumulative regret as a fraction of that of uniform choices in the same runs. {repeats(found['curves'])} "
            "Wide bands are runs of two kinds: those that find the best action, and those that stay at another."
        ),
        alt_text=(
            "Share of the uniform policy's regret over rounds on a logarithmic axis, a panel a length scale, a line a "
            f"bonus. After the last round: {ends_in_words(shown, '.2f')}."
        ),
        draw=partial(
            curve_grid, shown, y_label="Share of uniform regret", n_columns=len(shown),
            draw=partial(draw_curves, log_x=True, top=1.0),
        ),
    )  # fmt: skip


def _bonus(row: Mapping[str, Any]) -> str:
    return f"{10 * float(row['exploration']):g} sd"


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["length scale", "bonus", *(f"t = {t:,}" for t in ROUNDS), "runs not at the best"]]
    for row in found["rows"]:
        reference = REFERENCE.get((row["exploration"], row["length_scale"]), ())
        published = [f" ({value:.3f})" for value in reference] + [""] * (len(ROUNDS) - len(reference))
        cells = [f"{spread_text(row[str(t)], '.3f')}{word}" for t, word in zip(ROUNDS, published, strict=True)]
        table.append([row["length_scale"], _bonus(row), *cells, str(row["n_caught"])])
    n_runs = found["rows"][0]["1000"]["n_runs"]
    return f"""\
The actions of every round are all 4,177 animals of the set. The reward is the number of rings, scaled to [0, 1], plus
noise of standard deviation 0.1. Features are standardized; the sex is one of them, as a number. Cumulative regret as a
fraction of that of uniform choices, mean ± standard deviation over {n_runs} seeds; in parentheses, one seed of an
independent reference. A bonus of 1 sd is one standard deviation of the Gaussian process: exploration 0.1 at
regularization 0.01. The features explain about half of the variance of the rings, so a small bonus can stay at a good
action that is not the best. Runs whose regret ends above {CAUGHT:g} are counted as such.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}"""
