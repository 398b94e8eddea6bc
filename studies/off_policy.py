"""Estimators on logs, where the truth is known, and beside the Open Bandit Pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, SelfNormalisedIPS, Switch, collect_log
from kernelbandits.experiments.markdown import aligned_table
from kernelbandits.experiments.off_policy_study import estimator_study
from kernelbandits.experiments.workers import n_workers_for, worker_pool
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, Policy, UniformRandom

TITLE: Final = "Off-policy estimators"

KERNEL: Final = Gaussian(length_scale=0.3)
WORLD: Final = SyntheticRKHS(KERNEL, n_actions=8, n_features=2, noise="bernoulli", seed=4)
MODEL: Final = DirectMethod(KERNEL, 0.5)
ESTIMATORS: Final = {
    "IPS": IPS(),
    "IPS, weights clipped at 5": IPS(clip=5.0),
    "self-normalised IPS": SelfNormalisedIPS(),
    "direct method": MODEL,
    "doubly robust": DoublyRobust(MODEL),
    "SWITCH, threshold 5": Switch(MODEL, 5.0),
}
N_LOGS, ROUNDS = 200, 400

OPEN_BANDIT: Final = Path(__file__).parent / "open_bandit.json"
"""What tests/comparisons/open_bandit_pipeline.py said, with versions."""


def collect(workers: int | None) -> dict[str, Any]:
    """Bias, error and coverage under logs of a uniform rule and of a learner with a floor."""
    with worker_pool(n_workers_for(len(LOGGING), workers)) as pool:
        rows = [row for found in pool.map(_rows, LOGGING) for row in found]
    return {"rows": rows, "open_bandit": json.loads(OPEN_BANDIT.read_text(encoding="utf-8"))}


def _uniform(seed: int) -> Policy:
    return UniformRandom(seed=seed)


def _learner(seed: int) -> Policy:
    return Mixed(KernelUCB(KERNEL, exploration=0.3), epsilon=0.4, seed=seed)


LOGGING: Final = {"uniform": _uniform, "a learner, 40 % of it at random": _learner}


def _target() -> Policy:
    """A policy that has learnt a little, and learns no more."""
    policy = KernelUCB(KERNEL, regularisation=0.5, exploration=0.0)
    log = collect_log(WORLD, UniformRandom(seed=1_000), horizon=100, seed=1_000)
    policy.warm_start([contexts[action] for contexts, action in zip(log.rounds, log.actions, strict=True)], log.rewards)
    return policy


def _rows(rule: str) -> list[dict[str, Any]]:
    rows = estimator_study(
        WORLD, ESTIMATORS, log_with=LOGGING[rule], target=_target(), horizon=ROUNDS, n_logs=N_LOGS, truth_horizon=4_000
    )
    return [{"log": rule, **row} for row in rows]


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["log", "estimator", "bias", "root mean squared error", "95 % intervals that hold"]]
    table += [
        [
            row["log"],
            row["estimator"],
            f"{row['bias']:+.4f} ± {row['bias_error']:.4f}",
            f"{row['rmse']:.4f}",
            f"{row['coverage']:.3f} ({row['coverage_low']:.3f} to {row['coverage_high']:.3f})",
        ]
        for row in found["rows"]
    ]
    theirs = found["open_bandit"]
    return f"""\
{N_LOGS} simulated logs of {ROUNDS} rounds with eight new actions each, rewards of 0 and 1, and a target that has
learnt from 100 other rounds and stands still. The truth is the target's value in the same run over 4,000 rounds. Bias
with its standard error; the share of intervals with Clopper and Pearson's interval. The intervals of the direct method
and of SWITCH have the posterior variance of their model in them, which takes its kernel for the right one.

{aligned_table(table, n_words=2)}

On the Open Bandit sample (six logs of 10,000 rounds) our values and those of obp {theirs["obp"]} (Python
{theirs["python"]}, NumPy {theirs["numpy"]}) for IPS, self-normalised IPS, direct method, doubly robust and SWITCH,
under two policies each, differ by at most {theirs["largest_difference"]:.1e}; the comparison is
`tests/comparisons/open_bandit_pipeline.py`."""
