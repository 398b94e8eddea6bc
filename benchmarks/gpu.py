"""`python -m benchmarks.gpu`: the model on a GPU, beside targets, the bandwidth of its memory and the CPU's choices.

    python -m benchmarks.gpu                        every case and the tests that need a GPU, in less than ten minutes
    python -m benchmarks.gpu --telescope magic04.data
    python -m benchmarks.gpu --only changing --quick
    python -m benchmarks.gpu --device cpu --quick   the same code on tensors in ordinary memory; no figure of interest

Seconds are those of `choose` and `learn`, with everything between the first and the last round. Results are merged into
a JSON file beside the page as soon as a case is done; no case begins after `--limit` seconds, and the page names those
that are not measured. The long cases come last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

import kernelbandits as kb
from benchmarks.long_histories import telescope_world
from benchmarks.machine import machine, versions
from benchmarks.peers.ours import kernel_of
from benchmarks.table import duration
from benchmarks.workloads import GAUSSIAN, REGIMES, ROUGH, FixedSet, FreshContexts, KernelSpec, Regime, Round
from kernelbandits.evaluation.simulation import start_world
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Kernel
from kernelbandits.posterior import AutoPosterior
from kernelbandits.posterior.device import DevicePosterior

__all__ = ["CASES", "Case", "main", "markdown", "play"]

USUAL_PLACE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "gpu.md"

COPIED: Final = 2**31
"""Bytes of the copy that measures the bandwidth; a copy reads and writes them."""


FULL_BANDWIDTH: Final = 4.2e12
"""Bytes per second that a copy moves in the memory of an H200, of which the shares are taken."""

GPU_TESTS: Final = ("tests/unit/posterior/test_device.py", "tests/unit/posterior/test_projection_device.py")


@dataclass(frozen=True)
class Telescope:
    """The MAGIC gamma telescope as two actions with 20 columns: rewards are 1 for the class, else 0."""

    path: Path
    n_actions: int = 2
    n_features: int = 20
    kernel: KernelSpec = ROUGH

    def rounds(self) -> Iterator[Round]:
        world = start_world(telescope_world(self.path), 0)
        while True:
            try:
                observed = world.observe()
            except StopIteration:
                return
            assert observed.expected is not None
            yield Round(np.asarray(observed.contexts), observed.expected.__getitem__, 0.0)


@dataclass(frozen=True)
class Case:
    """Rounds that one policy plays on the device, and on the processor if the choices are to be compared."""

    name: str
    world: FreshContexts | FixedSet | Telescope
    regime: str
    horizon: int
    is_compared: bool = False
    budget: int | None = None
    target: float | None = None
    """Seconds that it should take on an H200."""

    def short(self) -> Case:
        """The same with few rounds and actions."""
        world = FixedSet(2_000) if isinstance(self.world, FixedSet) else self.world
        if isinstance(world, FreshContexts):
            world = replace(world, n_actions=min(world.n_actions, 200))
        budget = None if self.budget is None else min(self.budget, 100)
        return replace(self, world=world, horizon=min(self.horizon, 300), budget=budget, target=None)

    def n_bytes(self, n_distinct: int) -> float | None:
        """Bytes that are read at least; None where arithmetic takes the time.

        A round of new actions reads half of a square matrix of doubles. A round of a catalog reads two numbers per
        item, and every 64 distinct actions all their columns so far.
        """
        if self.budget is not None:
            return None
        if isinstance(self.world, FixedSet):
            return self.world.n_actions * (16.0 * self.horizon + n_distinct**2 / 16.0)
        return 4.0 * self.horizon**3 / 3.0


CASES: Final = (
    Case("changing, 2 actions, compared", FreshContexts(2, ROUGH, n_features=20), "B", 2_000, is_compared=True),
    Case("changing, 2 actions", FreshContexts(2, ROUGH, n_features=20), "B", 10_000, target=3.0),
    Case("changing, 2 actions, long", FreshContexts(2, ROUGH, n_features=20), "B", 19_020, target=9.0),
    Case("changing, 10 actions", FreshContexts(10, GAUSSIAN), "B", 10_000, target=4.0),
    Case("catalog of 100,000, compared", FixedSet(100_000), "B", 2_000, is_compared=True),
    Case("catalog of 1,000,000", FixedSet(1_000_000), "B", 5_000, target=2.0),
    Case("catalog of 10,000,000", FixedSet(10_000_000), "B", 2_000, target=5.0),
    Case("catalog of 1,000,000, much exploration", FixedSet(1_000_000), "C", 5_000, target=12.0),
    Case("changing, 10,000 actions, budget 250", FreshContexts(10_000, GAUSSIAN), "C", 400, True, budget=250),
    Case("changing, 10 actions, long", FreshContexts(10, GAUSSIAN), "B", 60_000, target=120.0),
)


def telescope_cases(path: Path) -> tuple[Case, ...]:
    """The real two-class data set for which the targets of two actions were stated."""
    world = Telescope(path)
    return (
        Case("telescope, compared", world, "telescope", 2_000, is_compared=True),
        Case("telescope", world, "telescope", 10_000, target=3.0),
        Case("telescope, all rows", world, "telescope", 19_020, target=9.0),
    )


TELESCOPE: Final = Regime(1.0, 0.31622776601683794)
"""That of the page on long histories."""


def play(case: Case, device: str) -> dict[str, Any]:
    """Seconds, distinct actions and, if they are compared, the first round in which the processor chose otherwise."""
    warm = case.short()
    _decisions(warm, _policy(warm, device), min(warm.horizon, 120))  # loads and compiles what the device needs
    policy = _policy(case, device)
    seconds, actions = _decisions(case, policy, case.horizon)
    found = {"case": case.name, "rounds": case.horizon, "seconds": seconds, "distinct": policy.posterior.size}
    if case.target is not None:
        found["target"] = case.target
    n_bytes = case.n_bytes(policy.posterior.size)
    if n_bytes is not None:
        found["bytes"] = n_bytes
    if case.is_compared:
        own_seconds, own = _decisions(case, _policy(case, None), case.horizon)
        differing = [t + 1 for t, (one, other) in enumerate(zip(actions, own, strict=True)) if one != other]
        found |= {"processor": own_seconds, "differs_at": differing[0] if differing else None}
    return found


def _policy(case: Case, device: str | None) -> kb.KernelUCB:
    """A policy on the device, or on the processor if it is None."""
    regime = TELESCOPE if isinstance(case.world, Telescope) else REGIMES[case.regime]
    options: dict[str, Any] = {"regularization": regime.regularization, "exploration": regime.exploration}
    if device == "cpu":  # which means NumPy in a policy
        options["posterior"] = _on_tensors(case.budget)
    else:
        options |= {"budget": case.budget} | ({} if device is None else {"device": device})
    return kb.KernelUCB(kernel_of(case.world.kernel), **options)


def _on_tensors(budget: int | None) -> Any:
    """Factory of a posterior on tensors in ordinary memory."""

    def make(kernel: Kernel, regularization: float) -> AutoPosterior | DevicePosterior:
        if budget is not None:
            return AutoPosterior(kernel, regularization=regularization, budget=budget, device="cpu")
        return DevicePosterior(kernel, regularization=regularization, device="cpu")

    return make


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


def _tests() -> str:
    """Last line of the tests that are skipped without a GPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *GPU_TESTS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    return lines[-1].strip("= ")


def _wait(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def markdown(stored: dict[str, Any]) -> str:
    """The whole page."""
    rows = [["case", "rounds", "stored contexts", "time", "target", "per round", "of 4.2 TB/s", "on the processor"]]
    for run in stored["runs"]:
        share = f"{run['bytes'] / run['seconds'] / FULL_BANDWIDTH:.0%}" if "bytes" in run else ""
        target = ""
        if "target" in run:
            target = duration(run["target"]) + ("" if run["seconds"] <= run["target"] else ", missed")
        beside = duration(run["processor"]) if "processor" in run else ""
        rows.append(
            [run["case"], f"{run['rounds']:,}", f"{run['distinct']:,}", duration(run["seconds"]), target,
             duration(run["seconds"] / run["rounds"]), share, beside]
        )  # fmt: skip
    measured = {run["case"] for run in stored["runs"]}
    missing = [case.name for case in CASES if case.name not in measured]
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
            "Matérn ½ kernel and 20 columns, more actions a Gaussian kernel (length scale 0.5) and 10 columns. "
            "Catalogs: a Gaussian kernel and 10 columns; exploration 0.5, or 1.0 (much, and with a budget). γ = 1. The "
            "bandwidth is that of an H200; the bytes of T rounds are at least 4 T³ / 3 for changing sets, and "
            "N (16 T + D² / 16) for a catalog of N items, D of which were chosen.",
            "",
            markdown_rows(rows, n_text_columns=1),
            "",
            *choices,
            *([f"- Tests that need a GPU: {stored['tests']}."] if "tests" in stored else []),
            "",
            *([f"Not measured: {'; '.join(missing)}.", ""] if missing else []),
        ]
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 1 if choices differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, … or cpu")
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="300 rounds, catalogs of 2,000")
    parser.add_argument("--telescope", type=Path, help="the file magic04.data of the UCI repository")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds after which no case begins")
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
    began = perf_counter()
    kb.compile_ahead()
    cases = (*CASES, *(() if given.telescope is None else telescope_cases(given.telescope)))
    order = [case.name for case in cases]
    if given.device.startswith("cuda"):
        stored["tests"] = _tests()
    for case in sorted(cases, key=lambda case: case.horizon > 20_000):  # the longest at the end
        if given.only not in case.name or perf_counter() - began > given.limit:
            continue
        run = play(case.short() if given.quick else case, given.device)
        stored["runs"] = [one for one in stored["runs"] if one["case"] != case.name] + [run]
        store.write_text(json.dumps(stored, indent=1), encoding="utf-8")
        print(run, flush=True)
    stored["runs"].sort(key=lambda run: order.index(run["case"]) if run["case"] in order else len(order))
    given.into.write_text(markdown(stored), encoding="utf-8")
    return int(any(run.get("differs_at") is not None for run in stored["runs"]))


def _name_of(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "the processor"


if __name__ == "__main__":
    sys.exit(main())
