"""Choosing by similarity alone: links and titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.experiments import Curve, Results
from kernelbandits.experiments.plotting.curves import curve_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, curve_numbers, ends_in_words, few_rounds, repeats, values_at
from studies.numbers import at_rounds, by_policy, spread, spread_text
from studies.pictures import markdown_of

TITLE: Final = "Similarity only"
STUDIES: Final = ("newsfeeds", "agnews")
HORIZON: Final = 1_000

REFERENCE: Final = {"newsfeeds": ("0.723 ± 0.028", "0.835"), "agnews": ("0.690 ± 0.011", "0.775")}
"""Mean reward of all rounds and of the last 200, three seeds, from an independent run with tf-idf."""

WINDOW: Final = 100
"""Rounds over which a curve is a mean."""

BEST: Final = "best of each round"
LOOKS: Final = {
    BEST: (BEST, "black"),
    "KernelUCB, tf-idf": ("tf-idf", "blue"),
    "KernelUCB, tf-idf and a constant": ("tf-idf and a constant", "green"),
    "KernelUCB, n-grams": ("n-grams", "orange"),
    "Random": ("random", "gray"),
}


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Mean reward of all rounds and of the last 200, and the most that could have been had."""
    rows = []
    for study in STUDIES:
        reward, regret = by_policy(results[study], "total_reward"), by_policy(results[study], "regret")
        for (data, policy), runs in reward.items():
            total = at_rounds(runs, HORIZON)
            rows.append(
                {
                    "data": data,
                    "policy": policy,
                    "mean": spread(total / HORIZON),
                    "last": spread((total - at_rounds(runs, HORIZON - 200)) / 200),
                    "best": spread((total + at_rounds(regret[data, policy], HORIZON)) / HORIZON),
                }
            )
    return {"rows": rows, "curves": [curve for study in STUDIES for curve in _curves(results[study])]}


def _curves(results: Results) -> list[dict[str, Any]]:
    """Mean reward over the last rounds, of every policy and of the best action of each round."""
    reward, regret = by_policy(results, "total_reward"), by_policy(results, "regret")
    found = []
    for (data, policy), runs in reward.items():
        rounds = few_rounds(runs, first=WINDOW)
        paid = _over_window(runs, rounds)
        found.append({"data": data, "policy": policy, **curve_numbers(paid, rounds)})
        if policy == "Random":
            best = paid + _over_window(regret[data, policy], rounds)
            found.append({"data": data, "policy": BEST, **curve_numbers(best, rounds)})
    return found


def _over_window(runs: Sequence[Mapping[int, float]], rounds: Sequence[int]) -> NDArray[np.float64]:
    """Means over the last rounds, from sums over all, shape (n_runs, n_rounds)."""
    sums = [{0: 0.0, **run} for run in runs]
    return (values_at(sums, rounds) - values_at(sums, [t - WINDOW for t in rounds])) / WINDOW


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """A panel a data set."""
    shown: dict[str, list[Curve]] = {}
    for curve in found["curves"]:
        label, color = LOOKS[curve["policy"]]
        shown.setdefault(curve["data"], []).append(as_curve(curve, label=label, color=color))
    return ReportFigure(
        name="similarity",
        title=TITLE,
        section=TITLE,
        caption=f"Mean reward over the last {WINDOW} rounds. {repeats(found['curves'])}",
        alt_text=(
            f"Mean reward over the last {WINDOW} rounds, a panel a data set, with chance and the best of each round. "
            f"At the end: {ends_in_words(shown, '.2f')}."
        ),
        draw=partial(curve_grid, shown, y_label="Mean reward"),
    )


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["data", "policy", "mean reward", "last 200 rounds", "best of each round"]]
    for row in found["rows"]:
        cells = [spread_text(row[name], ".3f") for name in ("mean", "last")]
        table.append([row["data"], row["policy"], *cells, f"{row['best']['mean']:.3f}"])
        if row["policy"] == "KernelUCB, tf-idf":
            mean, last = REFERENCE[row["data"]]
            table.append([row["data"], "tf-idf, independent reference (3 seeds)", mean, last, ""])
    n_runs = found["rows"][0]["mean"]["n_runs"]
    return f"""\
The example of the paper: news feeds of which only the links are known. Each of 1,000 rounds shows 20 random links, and
the reward is 1 for a feed about technology. The second set shows ten news titles per round, and the reward is 1 for a
title about sports. The kernels compare character 2- to 5-grams, with tf-idf weights or plain counts. A constant added
to the kernel lets the policy learn the overall rate of rewards; its value was chosen on other seeds. Mean ± standard
deviation over {n_runs} seeds.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=2)}"""
