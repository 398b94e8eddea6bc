"""`python -m benchmarks.cores`: long histories on 1, 2, 4, 8 threads, beside the memory bandwidth that they gain.

One policy per number of threads plays the same rounds. In each round the policies take turns, and their decisions are
compared to the bit. Every few hundred rounds a plain matrix-vector product, its rows divided among threads, measures
the memory bandwidth. Figures are first quartiles, so that rounds disturbed by other programs do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

import kernelbandits as kb
from benchmarks.machine import load, machine, versions
from benchmarks.peers import OURS, Peer, Setting
from benchmarks.table import IDLE, duration, ratio
from benchmarks.workloads import REGIMES, ROUGH, FreshContexts, Matrix
from kernelbandits.experiments.progress import task_progress
from kernelbandits.experiments.reports.tables import markdown_rows

__all__ = ["CoresReport", "main", "markdown", "measure"]

USUAL_PLACE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "cores.md"

N_FEATURES: Final = 20
N_ACTIONS: Final = (2, 20)

JUDGED_FROM: Final = 4_000
"""Round from which the share of the bandwidth is stated; a factor has 64 MB then."""

BANDWIDTH_EVERY: Final = 250
"""Rounds between two measurements of the bandwidth."""

NEVER_SLOWER: Final = 1.05
WANTED: Final = 0.8


@dataclass(kw_only=True)
class CoresReport:
    """Seconds of every round, per number of threads."""

    n_actions: int
    horizon: int
    seconds: dict[int, list[float]]
    bandwidths: dict[int, list[float]]
    """Bytes per second of the matrix-vector product, measured during the rounds from which the share is stated."""

    differs_at: int | None = None
    """First round in which two decisions differed in an action, a mean or a width."""

    stretches: list[tuple[int, int]] = field(default_factory=list)

    def of_round(self, n_threads: int, first: int, last: int) -> float:
        """First quartile of the seconds of a round."""
        return float(np.quantile(self.seconds[n_threads][first:last], 0.25))

    def bandwidth(self, n_threads: int) -> float:
        """First quartile of the seconds of a product, as bytes per second."""
        return float(np.quantile(self.bandwidths[n_threads], 0.75))


class Bandwidth:
    """Plain matrix-vector product, its rows divided among threads."""

    def __init__(self, n_bytes: int, counts: Sequence[int]) -> None:
        n = int((n_bytes / 8) ** 0.5)
        self._matrix: Matrix = np.random.default_rng(0).uniform(size=(n, n))
        self._vector, self._result = np.ones(n), np.empty(n)
        self._pools = {n_threads: ThreadPoolExecutor(n_threads) for n_threads in counts}

    def measure(self, n_threads: int) -> float:
        """Bytes per second."""
        edges = np.linspace(0, len(self._matrix), n_threads + 1).astype(int)
        kb.set_threads(1)  # BLAS
        began = perf_counter()
        list(self._pools[n_threads].map(self._multiply, edges[:-1], edges[1:]))
        return self._matrix.nbytes / (perf_counter() - began)

    def _multiply(self, first: int, last: int) -> None:
        np.dot(self._matrix[first:last], self._vector, out=self._result[first:last])


def measure(n_actions: int, counts: Sequence[int], horizon: int, judged_from: int, *, peer: Peer = OURS) -> CoresReport:
    """Play the rounds, with one policy per number of threads."""
    world = FreshContexts(n_actions, ROUGH, n_features=N_FEATURES)
    policies = {n_threads: peer.start(Setting.of(world, REGIMES["B"])) for n_threads in counts}
    bandwidth = Bandwidth(4 * horizon**2, counts)
    report = CoresReport(
        n_actions=n_actions, horizon=horizon, seconds={n: [] for n in counts}, bandwidths={n: [] for n in counts}
    )
    for t, shown in enumerate(islice(world.rounds(), horizon)):
        answers = set()
        for turn in range(len(counts)):
            n_threads = counts[(t + turn) % len(counts)]
            choose, learn = policies[n_threads].choose, policies[n_threads].learn
            kb.set_threads(n_threads)
            began = perf_counter()
            decision = choose(shown.contexts)
            chosen = perf_counter()
            reward = shown.reward(decision.action)
            paid = perf_counter()
            learn(decision, reward)
            report.seconds[n_threads].append(perf_counter() - paid + chosen - began)
            answers.add((decision.action, decision.mean, decision.width))
        if len(answers) > 1 and report.differs_at is None:
            report.differs_at = t + 1
        if t >= judged_from and t % BANDWIDTH_EVERY == 0:
            for n_threads in counts:
                report.bandwidths[n_threads].append(bandwidth.measure(n_threads))
    kb.set_threads(None)
    edges = [0, *sorted({horizon // 10, judged_from // 2, judged_from, (judged_from + horizon) // 2}), horizon]
    report.stretches = [(first, last) for first, last in pairwise(edges) if first < last]
    return report


def markdown(reports: Sequence[CoresReport], *, command: str, load_before: float, minutes: float) -> str:
    """The whole page."""
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    packages = ", ".join(f"{name} {value}" for name, value in versions().items() if name in OWN_PACKAGES)
    lines = [
        "# Long histories on several cores",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, in {minutes:.1f} minutes. Load average of "
        f"the machine {load_before:.2f} before and {load():.2f} after.",
        "",
        f"- machine: {about}",
        f"- versions: {packages}",
        "",
        "KernelUCB, Matérn ½ (length scale 1), twenty columns, γ = 1, exploration 0.5, new actions in every round. One "
        "policy per number of threads; in each round they take turns, `choose` and `learn`. Seconds of a round are "
        "first quartiles over the rounds of the row, their sum has all rounds, and bandwidths are first quartiles of a "
        "matrix-vector product of the size of the last factor, measured between the rounds. The share divides the gain "
        "over one thread by the gain of the bandwidth.",
    ]
    if load_before > IDLE:
        lines += ["", "**Other programs used the machine during the run: figures vary, most of all with threads.**"]
    for report in reports:
        lines += [
            "",
            f"## {report.n_actions} actions, {report.horizon:,} rounds",
            "",
            _table(report),
            "",
            _choices(report),
        ]
    return "\n".join(lines) + "\n"


OWN_PACKAGES: Final = ("python", "numpy", "scipy", "numba", "kernelbandits")


def _table(report: CoresReport) -> str:
    counts = list(report.seconds)
    one = counts[0]
    rows = [["rounds", *(_threads(n) for n in counts), *(f"gain, {n}" for n in counts[1:])]]
    for first, last in report.stretches:
        seconds = [report.of_round(n, first, last) for n in counts]
        rows.append(
            [f"{first + 1:,} to {last:,}", *map(duration, seconds), *(ratio(seconds[0] / more) for more in seconds[1:])]
        )
    totals = [sum(report.seconds[n]) for n in counts]
    rows.append(["all, sum", *map(duration, totals), *(ratio(totals[0] / more) for more in totals[1:])])
    if report.bandwidths[one]:
        speeds = [report.bandwidth(n) for n in counts]
        first, last = report.stretches[-1]
        gains = [report.of_round(one, first, last) / report.of_round(n, first, last) for n in counts[1:]]
        rows.append(
            ["bandwidth", *(f"{speed / 1e9:.3g} GB/s" for speed in speeds), *(ratio(s / speeds[0]) for s in speeds[1:])]
        )
        shares = [gain / (speed / speeds[0]) for gain, speed in zip(gains, speeds[1:], strict=True)]
        rows.append(["share of its gain, last row", *("" for _ in counts), *(f"{share:.0%}" for share in shares)])
    return markdown_rows(rows, n_text_columns=1)


def _choices(report: CoresReport) -> str:
    if report.differs_at is not None:
        return f"**Decisions differ in round {report.differs_at}.**"
    return f"Actions, means and widths are equal to the bit in all {report.horizon:,} rounds."


def _threads(n: int) -> str:
    return "1 thread" if n == 1 else f"{n} threads"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 1 if decisions differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=__doc__)
    parser.add_argument("--threads", default="1,2,4,8", help="numbers of threads, the first of which is compared with")
    parser.add_argument("--quick", action="store_true", help="2,500 rounds")
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds without --quick")
    parser.add_argument("--into", type=Path, default=USUAL_PLACE, help="where the page goes")
    given = parser.parse_args(arguments)
    counts = [int(number) for number in given.threads.split(",")]
    horizon = 2_500 if given.quick else given.rounds
    judged_from = min(JUDGED_FROM, horizon * 4 // 5)
    load_before, began, reports = load(), perf_counter(), []
    kb.compile_ahead()
    with task_progress(len(N_ACTIONS)) as begin:
        for n_actions in N_ACTIONS:
            begin(f"{n_actions} actions, {horizon:,} rounds")
            reports.append(measure(n_actions, counts, horizon, judged_from))
    command = f"python -m benchmarks.cores --threads {given.threads} "
    command += "--quick" if given.quick else f"--rounds {horizon}"
    minutes = (perf_counter() - began) / 60.0
    page = markdown(reports, command=command, load_before=load_before, minutes=minutes)
    given.into.write_text(page)
    print(page)
    return int(any(report.differs_at is not None for report in reports))


if __name__ == "__main__":
    sys.exit(main())
