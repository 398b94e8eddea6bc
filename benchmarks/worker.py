"""One case in a process of its own, started by `spawning` with its threads set."""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path

import kernelbandits as kb
from benchmarks.cases import FULL_PACE, QUICK_PACE, Case, cases, thread_cases
from benchmarks.duel import duel
from benchmarks.peers import OURS
from benchmarks.results import CaseReport, Outcome
from benchmarks.runs import play_through, warm_up

__all__ = ["main"]


def main() -> None:
    """Run the case and write its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("into", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="ours only, one run")
    given = parser.parse_args()
    _keep_to(given.threads)
    among = thread_cases if given.alone else cases
    case = next(case for case in among(is_quick=given.quick) if case.name == given.name)
    report = _alone(case) if given.alone else duel(case, QUICK_PACE if given.quick else FULL_PACE)
    report.write(given.into)


def _keep_to(n_threads: int) -> None:
    """Limit processors and library threads; the pools of BLAS and Numba were limited before they were loaded."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-n_threads:])
    set_threads = getattr(kb, "set_threads", None)
    if set_threads is not None:
        set_threads(n_threads)


def _alone(case: Case) -> CaseReport:
    """One run of ours, with a digest of what it chose."""
    warm_up(OURS, case, limit=FULL_PACE.run_seconds / 4.0)
    run = play_through(OURS, case, limit=FULL_PACE.run_seconds)
    outcome = Outcome(name=OURS.name, how=hashlib.sha256(run.rows.tobytes()).hexdigest(), total=run.total)
    return CaseReport(
        name=case.name,
        title=case.title,
        n_actions=case.world.n_actions,
        horizon=len(run.rows),
        outcomes=[outcome],
        cpu_share=run.cpu_share,
    )


if __name__ == "__main__":
    main()
