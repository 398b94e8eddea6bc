"""Choosing by similarity alone: links and titles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kernelbandits.experiments import Results
from kernelbandits.experiments.markdown import aligned_table
from studies.numbers import at_rounds, by_policy, spread, spread_text

TITLE: Final = "Similarity only"
STUDIES: Final = ("newsfeeds", "agnews")
HORIZON: Final = 1_000

REFERENCE: Final = {"newsfeeds": ("0.723 ± 0.028", "0.835"), "agnews": ("0.690 ± 0.011", "0.775")}
"""Mean reward of all rounds and of the last 200, three seeds, from an independent run with tf-idf."""


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
    return {"rows": rows}


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
The example of the paper: feeds that are known by their links alone. Each of 1,000 rounds shows 20 random links, and the
reward is 1 for a feed about technology; or ten news titles, and 1 for one about sports. The kernel is all there is:
character 2- to 5-grams, with tf-idf weights or plain counts. A constant added to it lets the policy learn how often
a reward is to be had at all; it was found on other seeds. Mean ± standard deviation over {n_runs} seeds.

{aligned_table(table, n_words=2)}"""
