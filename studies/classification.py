"""Classification as a bandit (Zhang et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.plotting.curves import curve_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, ends_in_words, repeats, thinned
from studies.numbers import at_rounds, by_policy, spread, spread_text
from studies.pictures import markdown_of

TITLE: Final = "Classification as a bandit"
STUDIES: Final = ("classification_frozen", "classification_learning", "classification_scaled")

REFERENCE: Final = {"mushroom": "235.5 ± 33.5", "shuttle": "187.2 ± 53.9", "adult": "2,074.3 ± 22.1"}
"""Regret with frozen learning, six seeds, from an independent run."""

NAMES: Final = {
    "Random": "random",
    "KernelUCB, frozen": "exp(−‖u − v‖), frozen after 1,000 rounds",
    "KernelUCB, learning to the end": "exp(−‖u − v‖), learning to the end",
    "KernelUCB, scaled": "Gaussian over scaled columns, learning to the end",
}

LOOKS: Final = {
    "KernelUCB, frozen": ("frozen", "orange"),
    "KernelUCB, learning to the end": ("learning", "green"),
    "KernelUCB, scaled": ("scaled", "blue"),
}


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret after 1,000 rounds and at the end, of every policy on every set, and curves."""
    rows = []
    for study in STUDIES:
        for (data, policy), runs in by_policy(results[study], "regret").items():
            rows.append(
                {
                    "data": data,
                    "policy": policy,
                    "1000": spread(at_rounds(runs, 1_000)),
                    "end": spread(at_rounds(runs, 10_000)),
                }
            )
    return {"rows": rows, "curves": _curves(results)}


def _curves(results: Mapping[str, Results]) -> list[dict[str, Any]]:
    """Errors over rounds on the sets of this section, without chance, which would leave the others no room."""
    return [
        {"data": data, "policy": policy, **thinned(runs)}
        for study in results.values()
        for (data, policy), runs in by_policy(study, "regret").items()
        if data in REFERENCE and policy in LOOKS
    ]


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """A panel a set."""
    shown: dict[str, list[Curve]] = {data: [] for data in REFERENCE}
    for curve in found["curves"]:
        label, color = LOOKS[curve["policy"]]
        shown[curve["data"]].append(as_curve(curve, label=label, color=color))
    return ReportFigure(
        name="classification",
        title=TITLE,
        section=TITLE,
        caption=(
            f"Cumulative errors. Each panel has its own scale. {repeats(found['curves'], LOOKS)} "
            "Frozen: learning stops after 1,000 rounds."
        ),
        alt_text=f"Errors over rounds, one panel per data set. At the end: {ends_in_words(shown)}.",
        draw=partial(curve_grid, shown, y_label="Errors", n_columns=len(shown)),
    )


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["data", "kernel", "after 1,000 rounds", "at the end", "seeds", "reference"]]
    for data in REFERENCE:
        for policy, name in NAMES.items():
            for row in found["rows"]:
                if (row["data"], row["policy"]) == (data, policy):
                    reference = REFERENCE[data] if "frozen" in policy else ""
                    cells = [spread_text(row["1000"]), spread_text(row["end"]), str(row["end"]["n_runs"]), reference]
                    table.append([data, name, *cells])
    return f"""\
Each round shows one row of a data set. There is one action per class, and the reward is 1 for the right class, so
regret is the number of errors in 10,000 rounds (8,124 on mushroom). Zhang, Zhou, Li and Gu (2021) use KernelUCB as a
baseline, with rows of length 1, k(u, v) = exp(−‖u − v‖) over the disjoint encoding, regularization 1 and exploration
sqrt(0.1). Their KernelUCB stops learning after 1,000 rounds ("frozen"); ours need not stop. The reference is an
independent run of their protocol. The Gaussian kernel is over scaled columns: categories one-hot, numbers standardized.
Mean ± standard deviation over seeds.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}"""
