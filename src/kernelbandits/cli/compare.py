"""`kernelbandits compare`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from kernelbandits.cli.arguments import Size, add_size_options, size_of

__all__ = ["add_to", "run"]

QUICK: Final = Size(100, 2)

DESCRIPTION: Final = """\
Play every policy of the library on three problems (linear, smooth, clustered).
Prints a table of regret with 95 % intervals, and writes policies.md (the
table), policies.png and policies.json."""

EXAMPLES: Final = """\
examples:
  kernelbandits compare                           into ./compare, several minutes
  kernelbandits compare --quick                   a rough look
  kernelbandits compare --only KernelUCB UCB1     two of them
  kernelbandits compare --into docs/policies --page docs/policies.md
  kernelbandits compare --json | python -m json.tool
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Make the command known."""
    parser = commands.add_parser(
        "compare",
        help="every policy on three problems: table and figure",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", default="compare", metavar="FOLDER", help="where to write (default: compare)")
    parser.add_argument("--page", metavar="FILE", help="a page with marks between which the table is put as well")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="names of policies as in the table")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a processor)")
    add_size_options(parser, QUICK)
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Play, write, print."""
    from kernelbandits.experiments.policy_study.problems import PROBLEMS  # here, so that --help does not wait for it
    from kernelbandits.experiments.policy_study.study import HORIZON, N_SEEDS, run_policy_study
    from kernelbandits.experiments.policy_study.table import parts_of_page, put_into_page
    from kernelbandits.experiments.progress import progress_bar

    horizon, n_seeds = size_of(arguments, usual=Size(HORIZON, N_SEEDS), quick=QUICK)
    if arguments.page is not None:
        parts_of_page(Path(arguments.page))  # before the long part, so that a bad name costs no time
    with progress_bar(n_seeds * len(PROBLEMS), "Playing", every=1) as progress:
        study = run_policy_study(
            arguments.into,
            horizon=horizon,
            n_seeds=n_seeds,
            only=arguments.only,
            workers=arguments.workers,
            progress=progress,
        )
    table = study.files["table"].read_text(encoding="utf-8")
    if arguments.page is not None:
        put_into_page(Path(arguments.page), table)
    if arguments.json:
        json.dump(study.to_dict(), sys.stdout, indent=2)
        print()
        return
    print(table)
    for kind, path in study.files.items():
        print(f"{kind.capitalize():8} {path}")
