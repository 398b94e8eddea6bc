"""`python -m benchmarks`: run the claims, write the table and the figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.cases import Case, cases, thread_cases
from benchmarks.machine import load, machine, versions
from benchmarks.plots import draw
from benchmarks.results import Report
from benchmarks.spawning import compare_threads, run_case
from benchmarks.table import markdown
from kernelbandits.experiments.progress import task_progress

__all__ = ["main"]

USUAL_PLACE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "results.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when everything ran and every choice that had to be equal was; a bar not met is no error."""
    given = _parser().parse_args(arguments)
    chosen = _matching(cases(is_quick=given.quick), given.only)
    threaded = _matching(thread_cases(is_quick=given.quick), given.only) if given.threads > 1 else ()
    if not chosen and not threaded:
        names = ", ".join(case.name for case in cases(is_quick=given.quick))
        print(f"No case begins with {given.only!r}. There are: {names}.", file=sys.stderr)
        return 2
    report = _run(chosen, threaded, is_quick=given.quick)
    given.into.write_text(markdown(report, chosen))
    report.write(given.into.with_suffix(".json"))
    written = [given.into, *draw(report, given.into)]
    print("Written: " + ", ".join(map(str, written)))
    if not report.is_sound:
        print("A case failed, or choices differ that must be equal: see the table.", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sets and shorter runs, under two minutes")
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name begins so: w1, w2-1000, ek …")
    parser.add_argument(
        "--threads", type=int, choices=(1, 2), default=2, help="1 leaves out the comparison of two threads with one"
    )
    parser.add_argument("--into", type=Path, default=USUAL_PLACE, help="where the table goes; figures go beside it")
    return parser


def _matching(among: Sequence[Case], beginning: str) -> tuple[Case, ...]:
    return tuple(case for case in among if case.name.startswith(beginning))


def _run(chosen: Sequence[Case], threaded: Sequence[Case], *, is_quick: bool) -> Report:
    began, load_before = perf_counter(), load()
    found, compared = [], []
    with task_progress(len(chosen) + len(threaded)) as begin:
        for case in chosen:
            begin(case.title)
            found.append(run_case(case, is_quick=is_quick))
        for case in threaded:
            begin(f"two threads: {case.title}")
            compared.append(compare_threads(case, is_quick=is_quick))
    return Report(
        is_quick=is_quick,
        machine=machine(),
        versions=versions(),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        load=[load_before, load()],
        minutes=(perf_counter() - began) / 60.0,
        cases=found,
        threads=compared,
    )


if __name__ == "__main__":
    sys.exit(main())
