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

QUICK: Final = Size(150, 8)

DESCRIPTION: Final = """\
Run KernelUCB, GP-UCB, SupKernelUCB, LinUCB and a random policy on a nonlinear
problem. Prints a table of regret and the proved bounds, and writes index.html
(a self-contained page), figures/, tables, results.json and results/ (the raw
results). An interrupted demo continues with the same command."""

EXAMPLES: Final = """\
examples:
  kernelbandits demo                              writes ./demo
  kernelbandits demo --into /tmp/demo --quick     fewer rounds, a few seconds
  kernelbandits demo --rounds 2000 --seeds 20     narrower intervals, many minutes
  kernelbandits demo --json | python -m json.tool
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "demo",
        help="KernelUCB and related policies: table, figures, page",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", default="demo", metavar="FOLDER", help="output folder (default: demo)")
    add_size_options(parser, QUICK)
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the demo and print its results."""
    from kernelbandits.experiments import demo  # imported here, so that --help is fast
    from kernelbandits.experiments.progress import rounds_bar

    horizon, n_seeds = size_of(arguments, usual=Size(demo.HORIZON, demo.N_SEEDS), quick=QUICK)
    with rounds_bar("Running") as bar:
        result = demo.run_demo(
            arguments.into, horizon=horizon, n_seeds=n_seeds, workers=arguments.workers, progress=bar.move
        )
    if arguments.json:
        json.dump(result.to_dict(), sys.stdout, indent=2)
        print()
    else:
        _print(result, horizon)


def _print(result: DemoResult, horizon: int) -> None:
    from kernelbandits.experiments.reports.tables import environment_table, print_table

    (ranking,) = result.report.ranking.values()
    console = print_table(environment_table(ranking, title=environment_table(ranking).caption))
    for name, bound in result.bounds.items():
        vacuous = f" (vacuous: no policy can lose more than {horizon})" if bound > horizon else ""
        console.print(f"Bound of {name}: {bound:,.0f}{vacuous}", soft_wrap=True)
    console.print()
    for kind, path in result.files.items():
        console.print(f"{kind.capitalize():8} {path}", soft_wrap=True, markup=False)
