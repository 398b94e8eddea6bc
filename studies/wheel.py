"""The wheel bandit (Riquelme et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.curves import Points, draw_curves
from kernelbandits.experiments.markdown import aligned_table
from kernelbandits.experiments.reporting.drawing import Drawing
from kernelbandits.experiments.reporting.panels import curve_sheet
from studies.curves import as_curve, curve_numbers, ends_in_words, few_rounds, repeats, values_at
from studies.numbers import at_rounds, by_policy, spread, spread_of, spread_text
from studies.pictures import markdown_of

TITLE: Final = "The wheel"
STUDIES: Final = ("wheel",)

REFERENCE: Final = ("3.51 ± 0.27", "4.73 ± 0.40", "10.93 ± 1.50", "26.83 ± 2.43", "82.50 ± 8.28")
PUBLISHED: Final = ("0.95 ± 0.02", "1.60 ± 0.03", "4.65 ± 0.18", "9.56 ± 0.36", "49.63 ± 2.41")

CURVES_OF: Final = "wheel_long"
"""The study whose curves are drawn."""

COLOURS: Final = {"0.5": "blue", "0.7": "green", "0.9": "orange", "0.95": "red", "0.99": "purple"}
"""By radius."""


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret in per cent of a uniform policy's in the same runs."""
    curves, horizon = by_policy(results["wheel"], "regret"), results["wheel"].study["horizon"]
    rows = []
    for (radius, policy), runs in curves.items():
        if policy != "Random":
            share = 100.0 * at_rounds(runs, horizon) / at_rounds(curves[radius, "Random"], horizon)
            rows.append({"radius": radius, "policy": policy, "share": spread(share)})
    return {"horizon": horizon, "rows": rows, "curves": long_curves(results)}


def long_curves(results: Mapping[str, Results]) -> list[dict[str, Any]]:
    """The same share over rounds, of KernelUCB; none where the long study was not played."""
    if CURVES_OF not in results:
        return []
    played = by_policy(results[CURVES_OF], "regret")
    found = []
    for (radius, policy), runs in played.items():
        if policy == "KernelUCB":
            rounds = few_rounds(runs, logarithmic=True)
            share = 100.0 * values_at(runs, rounds) / values_at(played[radius, "Random"], rounds)
            found.append({"radius": radius, **curve_numbers(share, rounds)})
    return found


def drawing(found: Mapping[str, Any]) -> Drawing | None:
    """One panel, a curve a radius, and what is published at the end of each."""
    if not found["curves"]:
        return None
    ours = [
        as_curve(curve, label=f"δ = {curve['radius']}", colour=COLOURS[curve["radius"]]) for curve in found["curves"]
    ]
    published = [_published(curve, cell) for curve, cell in zip(found["curves"], PUBLISHED, strict=True)]
    shown = {"Regret in per cent of a uniform policy's": [*ours, *published]}
    n_rounds = found["curves"][0]["rounds"][-1]
    return Drawing(
        name="wheel",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Cumulative regret of the KernelUCB of studies/{CURVES_OF}.toml in per cent of a uniform policy's. "
            f"{repeats(found['curves'])} Points: NeuralLinear after {n_rounds:,} rounds as published, with the "
            "published spread."
        ),
        description=(
            f"Share of the uniform policy's regret over {n_rounds:,} rounds on logarithmic axes, a line for each δ, "
            f"a published point at its end. {ends_in_words(shown, '.3g')}."
        ),
        draw=partial(
            curve_sheet, shown, y_label="Per cent",
            draw=partial(draw_curves, logarithmic=True, logarithmic_rounds=True),
        ),
    )  # fmt: skip


def _published(curve: Mapping[str, Any], cell: str) -> Curve:
    mean, deviation = spread_of(cell)
    end = {"rounds": curve["rounds"][-1:], "mean": [mean], "deviation": [deviation]}
    label, colour = f"δ = {curve['radius']}, NeuralLinear", COLOURS[curve["radius"]]
    return as_curve(end, label=label, colour=colour, points=Points(shape="D"))


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    radii = list(dict.fromkeys(row["radius"] for row in found["rows"]))
    table = [["rounds", "policy", *(f"δ = {radius}" for radius in radii)]]
    for policy in dict.fromkeys(row["policy"] for row in found["rows"]):
        cells = [row["share"] for row in found["rows"] if row["policy"] == policy]
        name = f"{policy} ({cells[0]['n_runs']} runs)"
        table.append([f"{found['horizon']:,}", name, *(spread_text(cell, ".2f") for cell in cells)])
        if policy == "KernelUCB":
            table.append([f"{found['horizon']:,}", "the same, independent reference (4 runs)", *REFERENCE])
    table.append(["80,000", "NeuralLinear, published", *PUBLISHED])
    return f"""\
Five actions over a disc; in a ring that grows thinner with δ one action pays 50 times the others. Regret in per cent
of a uniform policy's. One Gaussian kernel an action (length scale 0.3, regularisation 0.01, exploration 0.02, rewards
divided by 50), never frozen; and the same with regularisation 0.1 and exploration 0.06, which was tried on one of these
runs before. Mean ± standard deviation over seeds; the published line is Riquelme, Tucker and Snoek's
(2018) NeuralLinear.

{markdown_of(drawing(found))}

{aligned_table(table, n_words=2)}"""
