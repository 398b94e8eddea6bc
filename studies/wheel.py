"""The wheel bandit (Riquelme et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.plotting.curves import Markers, curve_grid, draw_curves
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, curve_numbers, ends_in_words, few_rounds, repeats, values_at
from studies.numbers import at_rounds, by_policy, spread, spread_of, spread_text
from studies.pictures import markdown_of

TITLE: Final = "The wheel"
STUDIES: Final = ("wheel", "wheel_long")

NAMES: Final = {
    ("wheel", "KernelUCB"): "KernelUCB, ℓ = 0.3, γ = 0.01",
    ("wheel", "KernelUCB, regularization 0.1"): "KernelUCB, ℓ = 0.3, γ = 0.1",
    ("wheel_long", "KernelUCB"): "KernelUCB, ℓ = 0.5, γ = 0.1",
}
REFERENCED: Final = ("wheel", "KernelUCB")
"""The one that an independent run has played as well."""

REFERENCE: Final = ("3.51 ± 0.27", "4.73 ± 0.40", "10.93 ± 1.50", "26.83 ± 2.43", "82.50 ± 8.28")
PUBLISHED: Final = ("0.95 ± 0.02", "1.60 ± 0.03", "4.65 ± 0.18", "9.56 ± 0.36", "49.63 ± 2.41")

CURVES_OF: Final = "wheel_long"
"""The study whose curves are drawn."""

COLORS: Final = {"0.5": "blue", "0.7": "green", "0.9": "orange", "0.95": "red", "0.99": "purple"}
"""By radius."""


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret as a percentage of a uniform policy's in the same runs."""
    rows = [row for study in STUDIES for row in _shares(study, results[study])]
    return {"rows": rows, "curves": _share_curves(results[CURVES_OF])}


def _shares(study: str, results: Results) -> list[dict[str, Any]]:
    curves, horizon = by_policy(results, "regret"), results.study["horizon"]
    rows = []
    for (radius, policy), runs in curves.items():
        if policy != "Random":
            share = 100.0 * at_rounds(runs, horizon) / at_rounds(curves[radius, "Random"], horizon)
            about = {"study": study, "policy": policy, "radius": radius, "horizon": horizon}
            rows.append({**about, "share": spread(share)})
    return rows


def _share_curves(results: Results) -> list[dict[str, Any]]:
    """The same share over rounds, of KernelUCB."""
    played = by_policy(results, "regret")
    found = []
    for (radius, policy), runs in played.items():
        if policy == "KernelUCB":
            rounds = few_rounds(runs, logarithmic=True)
            share = 100.0 * values_at(runs, rounds) / values_at(played[radius, "Random"], rounds)
            found.append({"radius": radius, **curve_numbers(share, rounds)})
    return found


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """One panel, a curve a radius, and what is published at the end of each."""
    ours = [as_curve(curve, label=f"δ = {curve['radius']}", color=COLORS[curve["radius"]]) for curve in found["curves"]]
    published = [_published(curve, cell) for curve, cell in zip(found["curves"], PUBLISHED, strict=True)]
    shown = {"Regret as a percentage of a uniform policy's": [*ours, *published]}
    n_rounds = found["curves"][0]["rounds"][-1]
    return ReportFigure(
        name="wheel",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Cumulative regret of {NAMES[CURVES_OF, 'KernelUCB']}, in percent of that of uniform choices. "
            f"{repeats(found['curves'])} Points: NeuralLinear after {n_rounds:,} rounds as published, with the "
            "published standard deviations."
        ),
        alt_text=(
            f"Share of the uniform policy's regret over {n_rounds:,} rounds on logarithmic axes, a line for each δ, "
            f"a published point at its end. {ends_in_words(shown, '.3g')}."
        ),
        draw=partial(
            curve_grid, shown, y_label="Per cent",
            draw=partial(draw_curves, log_x=True, log_y=True),
        ),
    )  # fmt: skip


def _published(curve: Mapping[str, Any], cell: str) -> Curve:
    mean, deviation = spread_of(cell)
    end = {"rounds": curve["rounds"][-1:], "mean": [mean], "deviation": [deviation]}
    label, color = f"δ = {curve['radius']}, NeuralLinear", COLORS[curve["radius"]]
    return as_curve(end, label=label, color=color, markers=Markers(shape="D"))


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    radii = list(dict.fromkeys(row["radius"] for row in found["rows"]))
    table = [["rounds", "policy", *(f"δ = {radius}" for radius in radii)]]
    for key, name in NAMES.items():
        rows = [row for row in found["rows"] if (row["study"], row["policy"]) == key]
        horizon, n_runs = f"{rows[0]['horizon']:,}", rows[0]["share"]["n_runs"]
        table.append([horizon, f"{name} ({n_runs} runs)", *(spread_text(row["share"], ".2f") for row in rows)])
        if key == REFERENCED:
            table.append([horizon, "the same, independent reference (4 runs)", *REFERENCE])
    table.append(["80,000", "NeuralLinear, published", *PUBLISHED])
    return f"""\
Contexts are points of a disc, and there are five actions. In an outer ring, which is thinner the larger δ is, one
action has 50 times the reward of the others. Rewards are divided by 50, and regret is a percentage of that of uniform
choices. There is one Gaussian kernel per action, with length scale ℓ, regularization γ and exploration 0.02 (first row)
or 0.06; the policy learns in every round. The constants of the first row are those of the independent reference; those
of the 80,000 rounds were chosen on a run of 16,000 rounds with another seed. 80,000 rounds with five exact posteriors
take minutes, since under such a kernel the points of a disc lie in a few hundred dimensions up to rounding. Mean ±
standard deviation over seeds. The published row is NeuralLinear of Riquelme, Tucker and Snoek (2018).

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}"""
