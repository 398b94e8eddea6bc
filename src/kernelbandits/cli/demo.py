"""`kernelbandits demo`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Final

from kernelbandits.cli.arguments import Size, add_size_options, size_of

if TYPE_CHECKING:
    from kernelbandits.experiments import DemoResult

__all__ = ["add_to", "run"]

QUICK: Final = Size(80, 2)

DESCRIPTION: Final = """\
Play KernelUCB, GP-UCB, SupKernelUCB, LinUCB and a random policy on a problem
that is not linear. Prints a table of regret, and writes regret.png, index.html
(one self-contained page) and results.json."""

EXAMPLES: Final = """\
examples:
  kernelbandits demo                            into ./demo
  kernelbandits demo --into /tmp/look --quick   a rough look in a few seconds
  kernelbandits demo --rounds 2000 --seeds 20   a smoother figure, in many minutes
  kernelbandits demo --json | python -m json.tool
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Make the command known."""
    parser = commands.add_parser(
        "demo",
        help="KernelUCB beside its relatives: table, figure, page",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", default="demo", metavar="FOLDER", help="where to write (default: demo)")
    add_size_options(parser, QUICK)
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Play, write, print."""
    from kernelbandits.experiments.demo import run_demo  # here, so that --help does not wait for it
    from kernelbandits.experiments.demo_study import HORIZON, N_SEEDS, demo_comparison
    from kernelbandits.experiments.progress import progress_bar

    horizon, n_seeds = size_of(arguments, usual=Size(HORIZON, N_SEEDS), quick=QUICK)
    n_rounds = demo_comparison(horizon=horizon, n_seeds=n_seeds).n_rounds
    with progress_bar(n_rounds, "Playing") as progress:
        result = run_demo(arguments.into, horizon=horizon, n_seeds=n_seeds, progress=progress)
    if arguments.json:
        json.dump(result.to_dict(), sys.stdout, indent=2)
        print()
    else:
        _print(result)


def _print(result: DemoResult) -> None:
    from rich.console import Console

    from kernelbandits.experiments.terminal import after_rounds, regret_table

    console = Console(highlight=False)
    horizon, n_seeds = result.comparison.horizon, len(result.comparison.seeds)
    console.print(regret_table(result.rows, title=f"Cumulative regret {after_rounds(horizon, n_seeds)}"))
    for name, bound in result.bounds.items():
        verdict = f" (says nothing yet: no policy can lose more than {horizon})" if bound > horizon else ""
        console.print(f"Bound of {name}: {bound:,.0f}{verdict}", soft_wrap=True)
    console.print()
    for kind, path in result.files.items():
        console.print(f"{kind.capitalize():8} {path}", soft_wrap=True, markup=False)
