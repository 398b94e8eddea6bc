"""`python -m benchmarks.gpu`: the exact model on a GPU, beside the bandwidth of its memory and the choices of the CPU.

    python -m benchmarks.gpu                        every case, about ten minutes on a large GPU
    python -m benchmarks.gpu --only changing --quick
    python -m benchmarks.gpu --device cpu --quick   the same code on tensors in ordinary memory; no figure of interest

Seconds are those of `choose` and `learn`, with everything between the first and the last round. A round of new actions
reads half of a square matrix of doubles, so T rounds move at least 4 T³ / 3 bytes. Results are merged into a JSON file
beside the page as soon as a case is done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import kernelbandits as kb
from benchmarks.machine import machine, versions
from benchmarks.peers.ours import kernel_of
from benchmarks.table import duration
from benchmarks.workloads import GAUSSIAN, REGIMES, ROUGH, FixedSet, FreshContexts, Regime
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.device import DevicePosterior

__all__ = ["CASES", "Case", "main", "markdown", "play"]

USUAL_PLACE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "gpu.md"

COPIED: Final = 2**31
"""Bytes of the copy that measures the bandwidth; a copy reads and writes them."""


@dataclass(frozen=True)
class Case:
    """Rounds that one policy plays on the device, and on the processor if the choices are to be compared."""

    name: str
    world: FreshContexts | FixedSet
    regime: str
    horizon: int
    is_compared: bool = False

    def short(self) -> Case:
        """The same with few rounds and actions."""
        world = FixedSet(2_000) if isinstance(self.world, FixedSet) else self.world
        return Case(self.name, world, self.regime, min(self.horizon, 300), self.is_compared)


CASES: Final = (
    Case("changing, 2 actions, compared", FreshContexts(2, ROUGH, n_features=20), "B", 2_000, is_compared=True),
    Case("changing, 2 actions", FreshContexts(2, ROUGH, n_features=20), "B", 10_000),
    Case("changing, 2 actions, long", FreshContexts(2, ROUGH, n_features=20), "B", 19_020),
    Case("changing, 10 actions", FreshContexts(10, GAUSSIAN), "B", 10_000),
    Case("changing, 10 actions, long", FreshContexts(10, GAUSSIAN), "B", 60_000),
    Case("catalog of 100,000, compared", FixedSet(100_000), "B", 2_000, is_compared=True),
    Case("catalog of 1,000,000", FixedSet(1_000_000), "B", 5_000),
    Case("catalog of 1,000,000, much exploration", FixedSet(1_000_000), "C", 5_000),
    Case("catalog of 10,000,000", FixedSet(10_000_000), "B", 2_000),
)


def play(case: Case, device: str) -> dict[str, Any]:
    """Seconds, distinct actions and, if they are compared, the first round in which the processor chose otherwise."""
    regime, kernel = REGIMES[case.regime], kernel_of(case.world.kernel)
    warm = case.short()
    _decisions(warm, _policy(kernel, regime, device), min(warm.horizon, 70))  # loads and compiles what the device needs
    policy = _policy(kernel, regime, device)
    seconds, actions = _decisions(case, policy, case.horizon)
    found = {"case": case.name, "rounds": case.horizon, "seconds": seconds, "distinct": policy.posterior.size}
    if isinstance(case.world, FreshContexts):
        found["bytes"] = 4.0 * case.horizon**3 / 3.0
    if case.is_compared:
        own_seconds, own = _decisions(case, _policy(kernel, regime, None), case.horizon)
        differing = [t + 1 for t, (one, other) in enumerate(zip(actions, own, strict=True)) if one != other]
        found |= {"processor": own_seconds, "differs_at": differing[0] if differing else None}
    return found


def _policy(kernel: Kernel, regime: Regime, device: str | None) -> kb.KernelUCB:
    """A policy on the device, or on the processor if it is None."""
    options: dict[str, Any] = {"regularization": regime.regularization, "exploration": regime.exploration}
    if device == "cpu":  # which means NumPy in a policy
        options["posterior"] = lambda kernel, gamma: DevicePosterior(kernel, regularization=gamma, device="cpu")
    elif device is not None:
        options["device"] = device
    return kb.KernelUCB(kernel, **options)


def _decisions(case: Case, policy: kb.KernelUCB, horizon: int) -> tuple[float, list[int]]:
    """Seconds of `choose` and `learn`, and the actions."""
    seconds, actions, catalog = 0.0, [], None
    for shown in islice(case.world.rounds(), horizon):
        if catalog is None and isinstance(case.world, FixedSet):
            catalog = kb.Catalog(shown.contexts)
        began = perf_counter()
        decision = policy.choose(shown.contexts if catalog is None else catalog)
        seconds += perf_counter() - began
        reward = shown.reward(decision.action)
        began = perf_counter()
        policy.learn(decision, reward)
        seconds += perf_counter() - began
        actions.append(decision.action)
    return seconds, actions


def bandwidth(device: str) -> float:
    """Bytes per second that a large copy reads and writes, the best of five."""
    import torch

    n_bytes = COPIED if device.startswith("cuda") else COPIED // 64
    first = torch.ones(n_bytes // 8, dtype=torch.float64, device=device)
    second = torch.empty_like(first)
    best = 0.0
    for _ in range(5):
        _wait(device)
        began = perf_counter()
        second.copy_(first)
        _wait(device)
        best = max(best, 2 * n_bytes / (perf_counter() - began))
    return best


def _wait(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def markdown(stored: dict[str, Any]) -> str:
    """The whole page."""
    rows = [["case", "rounds", "distinct contexts", "time", "per round", "of the bandwidth", "on the processor"]]
    for run in stored["runs"]:
        share = f"{run['bytes'] / run['seconds'] / stored['bandwidth']:.0%}" if "bytes" in run else ""
        beside = duration(run["processor"]) if "processor" in run else ""
        rows.append(
            [run["case"], f"{run['rounds']:,}", f"{run['distinct']:,}", duration(run["seconds"]),
             duration(run["seconds"] / run["rounds"]), share, beside]
        )  # fmt: skip
    compared = [run for run in stored["runs"] if "processor" in run]
    choices = [
        f"- {run['case']}: "
        + (
            "the choices of the processor in all rounds."
            if run["differs_at"] is None
            else f"**other choices from round {run['differs_at']} on.**"
        )
        for run in compared
    ]
    about = [", ".join(f"{name} {value}" for name, value in stored[key].items()) for key in ("machine", "versions")]
    return "\n".join(
        [
            "# On a GPU",
            "",
            f"Written by `{stored['command']}`. Device: {stored['device']}; a copy moves "
            f"{stored['bandwidth'] / 1e12:.2f} TB/s. Double precision throughout.",
            "",
            *(f"- {name}: {text}" for name, text in zip(("machine", "versions"), about, strict=True)),
            "",
            "KernelUCB with `device=`. Changing sets: new actions in every round, uniform in a cube; 2 actions have a "
            "Matérn ½ kernel and 20 columns, 10 actions a Gaussian kernel (length scale 0.5) and 10 columns. Catalogs: "
            "a Gaussian kernel and 10 columns; exploration 0.5, or 1.0 (much). γ = 1. The share of the bandwidth "
            "divides 4 T³ / 3 bytes by the time.",
            "",
            markdown_rows(rows, n_text_columns=1),
            "",
            *choices,
            "",
        ]
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 1 if choices differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, … or cpu")
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="300 rounds, catalogs of 2,000")
    parser.add_argument("--into", type=Path, default=USUAL_PLACE, help="where the page goes; numbers go beside it")
    given = parser.parse_args(arguments)
    store = given.into.with_suffix(".json")
    stored = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {"runs": []}
    stored |= {
        "command": "python -m benchmarks.gpu" + " --quick" * given.quick,
        "device": _name_of(given.device),
        "bandwidth": bandwidth(given.device),
        "machine": machine(),
        "versions": versions(),
    }
    kb.compile_ahead()
    for case in CASES:
        if given.only not in case.name:
            continue
        run = play(case.short() if given.quick else case, given.device)
        stored["runs"] = [one for one in stored["runs"] if one["case"] != case.name] + [run]
        store.write_text(json.dumps(stored, indent=1), encoding="utf-8")
        print(run, flush=True)
    order = [case.name for case in CASES]
    stored["runs"].sort(key=lambda run: order.index(run["case"]))
    given.into.write_text(markdown(stored), encoding="utf-8")
    return int(any(run.get("differs_at") is not None for run in stored["runs"]))


def _name_of(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "the processor"


if __name__ == "__main__":
    sys.exit(main())
