"""The wheel bandit (Riquelme et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kernelbandits.experiments import Results
from kernelbandits.experiments.markdown import aligned_table
from studies.numbers import at_rounds, by_policy, spread, spread_text

TITLE: Final = "The wheel"
STUDIES: Final = ("wheel",)

REFERENCE: Final = ("3.51 ± 0.27", "4.73 ± 0.40", "10.93 ± 1.50", "26.83 ± 2.43", "82.50 ± 8.28")
PUBLISHED: Final = ("0.95 ± 0.02", "1.60 ± 0.03", "4.65 ± 0.18", "9.56 ± 0.36", "49.63 ± 2.41")


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret in per cent of a uniform policy's in the same runs."""
    curves, horizon = by_policy(results["wheel"], "regret"), results["wheel"].study["horizon"]
    rows = []
    for (radius, policy), runs in curves.items():
        if policy != "Random":
            share = 100.0 * at_rounds(runs, horizon) / at_rounds(curves[radius, "Random"], horizon)
            rows.append({"radius": radius, "policy": policy, "share": spread(share)})
    return {"horizon": horizon, "rows": rows}


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

{aligned_table(table, n_words=2)}"""
