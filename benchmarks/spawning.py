"""Worker processes whose threads are fixed before they load anything that starts threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.cases import Case
from benchmarks.results import CaseReport, ThreadsReport
from kernelbandits.experiments.backends import THREAD_VARIABLES as BLAS_THREAD_VARIABLES

__all__ = ["compare_threads", "environment", "run_case"]

ROOT: Final = Path(__file__).resolve().parents[1]

THREAD_VARIABLES: Final = (*BLAS_THREAD_VARIABLES, "NUMBA_NUM_THREADS")

LONGEST: Final = 900.0
"""Seconds after which a worker is given up: several times what the slowest case needs."""

THREAD_REPEATS: Final = 3


def environment(n_threads: int) -> dict[str, str]:
    """The environment of here with every thread pool limited."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(n_threads))}


def run_case(case: Case, *, is_quick: bool, n_threads: int = 1, is_alone: bool = False) -> CaseReport:
    """The report of a worker; where it fails, a report that says so."""
    with TemporaryDirectory() as folder:
        into = Path(folder) / "report.json"
        command = [sys.executable, "-m", "benchmarks.worker", case.name, str(into), "--threads", str(n_threads)]
        command += ["--quick"] * is_quick + ["--alone"] * is_alone
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment(n_threads), capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return _troubled(case, f"given up after {LONGEST:.0f} s")
        if done.returncode != 0 or not into.exists():
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return _troubled(case, lines[-1])
        return CaseReport.read(into)


def _troubled(case: Case, trouble: str) -> CaseReport:
    return CaseReport(
        name=case.name,
        title=case.title,
        n_actions=case.world.n_actions,
        horizon=case.horizon,
        outcomes=[],
        trouble=trouble,
    )


def compare_threads(case: Case, *, is_quick: bool) -> ThreadsReport:
    """Ours with one thread and with two, a process each, in turn."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    chosen: set[str] = set()
    trouble = ""
    for _ in range(THREAD_REPEATS):
        for n_threads, totals in seconds.items():
            report = run_case(case, is_quick=is_quick, n_threads=n_threads, is_alone=True)
            if report.trouble or report.outcomes[0].total is None:
                trouble = report.trouble or "no figures"
                continue
            # Per round, since a slow run may be stopped at its time limit; then the choices are not comparable.
            totals.append(report.outcomes[0].total / report.horizon * case.horizon)
            if report.horizon == case.horizon:
                chosen.add(report.outcomes[0].how)
    return ThreadsReport(
        name=case.name,
        title=case.title,
        bar=case.thread_bar or 1.0,
        seconds=seconds,
        is_same=len(chosen) <= 1,
        trouble=trouble,
    )
