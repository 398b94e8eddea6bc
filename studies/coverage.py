"""Whether proved intervals hold, and regret beside its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.evaluation import coverage, simulate
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB
from kernelbandits.theory import kernel_ucb_bound
from kernelbandits.theory.exploration import Constant, Exploration, Mixture, SelfNormalized

TITLE: Final = "Coverage, and regret beside its bounds"

KERNEL: Final = Gaussian(length_scale=0.3)
NOISE, NORM, REGULARIZATION = 0.2, 1.0, 0.5
WORLD: Final = SyntheticRKHS(KERNEL, n_actions=10, n_features=2, norm=NORM, noise_scale=NOISE)
HORIZON: Final = 300
RUNS: Final = 300

SCHEDULES: Final[Mapping[str, Exploration]] = {
    f"{name}, δ = {delta:g}": schedule(noise_scale=NOISE, norm_bound=NORM, failure_probability=delta)
    for name, schedule in (("self-normalized", SelfNormalized), ("mixture", Mixture))
    for delta in (0.05, 0.3)
} | {"the number 0.1, no claim": Constant(0.1)}


def collect(workers: int | None) -> dict[str, Any]:
    """Failures of every schedule, and regret beside bounds where something is proved."""
    with worker_pool(n_workers_for(len(SCHEDULES), workers)) as pool:
        return {"rows": list(pool.map(_row, SCHEDULES))}


def _row(name: str) -> dict[str, Any]:
    make = partial(_policy, name)
    said = coverage(WORLD, make, horizon=HORIZON, repeats=RUNS)
    row: dict[str, Any] = {
        "schedule": name,
        "n_failed": said.n_failed,
        "n_runs": said.n_runs,
        "low": said.low,
        "high": said.high,
        "claim": said.failure_probability,
    }
    traces = [simulate(WORLD, make(seed), horizon=HORIZON, seed=seed) for seed in range(30)]
    row["regret"] = float(np.mean([trace.regret[-1] for trace in traces]))
    if said.failure_probability is not None:
        ends = [(trace.exploration[-1], trace.log_det_gain[-1]) for trace in traces]
        closed = [
            kernel_ucb_bound(horizon=HORIZON, exploration=eta, log_det_gain=gain, regularization=REGULARIZATION)
            for eta, gain in ends
        ]
        row["along"] = float(np.mean([2.0 * np.sum(trace.exploration * trace.width) for trace in traces]))
        row["closed"] = float(np.mean(closed))
        row["n_above"] = sum(bool(trace.regret[-1] > 2.0 * np.sum(trace.exploration * trace.width)) for trace in traces)
    return row


def _policy(name: str, seed: int) -> KernelUCB:
    del seed  # nothing is drawn
    return KernelUCB(KERNEL, regularization=REGULARIZATION, exploration=SCHEDULES[name])


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["exploration", "runs that failed", "95 % interval", "claimed", "regret", "2 Σ η·width", "closed form"]]
    for row in found["rows"]:
        bounds = ["–", "–"] if row["claim"] is None else [f"{row['along']:,.0f}", f"{row['closed']:,.0f}"]
        table.append(
            [
                row["schedule"],
                f"{row['n_failed']} of {row['n_runs']}",
                f"{row['low']:.3f} to {row['high']:.3f}",
                "–" if row["claim"] is None else f"≤ {row['claim']:g}",
                f"{row['regret']:.1f}",
                *bounds,
            ]
        )
    above = sum(row.get("n_above", 0) for row in found["rows"])
    proved = sum(row["claim"] is not None for row in found["rows"])
    return f"""\
The reward function has the known norm {NORM:g} under a Gaussian kernel of length scale 0.3 on a square. Every round
has ten new actions, the noise has standard deviation {NOISE:g}, and the regularization is {REGULARIZATION:g}. A run
fails if, in any of {HORIZON} rounds, the expected reward of any action lies outside mean ± exploration · width. A
schedule with a proof states that at most a fraction δ of all runs fail. The intervals are those of Clopper and Pearson.
Regret and bounds after {HORIZON} rounds are means over 30 runs; regret exceeded the bound 2 Σ η·width in {above} of
{30 * proved} runs.

{markdown_rows(table)}"""
