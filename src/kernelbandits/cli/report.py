"""`kernelbandits report`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kernelbandits.experiments.reports import Report

__all__ = ["add_to", "run"]

FORMATS: Final = ("png", "svg", "pdf")

PROGRESS_DELAY: Final = 2.0
"""Seconds after which a progress bar appears."""

DESCRIPTION: Final = """\
Read the result folder of a study, finished or not, and write its report: one
self-contained page (index.html), tables for papers (table.tex, table.md,
table.csv) and figures in light and dark mode. Simulates nothing."""

EXAMPLES: Final = """\
examples:
  kernelbandits report results                       writes ./report
  kernelbandits report results --into docs/report    another folder
  kernelbandits report results --formats pdf         figures as PDF only
  kernelbandits report results --paper single        figures for a column too
  kernelbandits report results --reference LinUCB    differences to LinUCB
  kernelbandits report results --json | python -m json.tool
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "report",
        help="page, figures and tables of a study",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", metavar="RESULTS", help="the result folder of a study")
    parser.add_argument("--into", default="report", metavar="FOLDER", help="output folder (default: report)")
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS, help="files of each figure (default: all three)"
    )
    parser.add_argument(
        "--paper",
        choices=("single", "double"),
        help="also figures for one or two columns of a paper: 3.25 or 6.75 inches wide, text of 7 points or more",
    )
    parser.add_argument(
        "--reference",
        metavar="POLICY",
        help="policy that the others are compared with, seed by seed (default: the best)",
    )
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write the report and print its tables."""
    from kernelbandits.experiments.progress import progress_bar
    from kernelbandits.experiments.reports import write_report  # imported here, so that --help is fast

    with ExitStack() as stack:

        def begin(n_images: int) -> Callable[[], None]:
            return stack.enter_context(progress_bar(n_images, "Drawing", every=1, after=PROGRESS_DELAY))

        found = write_report(
            arguments.results,
            arguments.into,
            formats=arguments.formats,
            paper=arguments.paper,
            reference=arguments.reference,
            begin=begin,
        )
    if arguments.json:
        json.dump(found.to_dict(), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        _print(found)


def _print(found: Report) -> None:
    print(found.files["Markdown"].read_text(encoding="utf-8"))
    for warning in found.warnings:
        print(f"Note: {warning}")
    if found.warnings:
        print()
    for kind, path in found.files.items():
        print(f"{kind[0].upper() + kind[1:]:9} {path}")
