"""`kernelbandits compare`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from kernelbandits.cli.arguments import Size, add_size_options, size_of

__all__ = ["add_to", "run"]

QUICK: Final = Size(100, 2)

DESCRIPTION: Final = """\
Run every policy of the library on three problems (linear, smooth, clustered).
Prints a table of regret with 95 % intervals, and writes a report (index.html,
tables, figures) and results/ (the raw results). An interrupted run continues
with the same command."""

EXAMPLES: Final = """\
examples:
  kernelbandits compare                           writes ./compare, several minutes
  kernelbandits compare --quick                   fewer rounds and seeds
  kernelbandits compare --only KernelUCB UCB1     two policies
  kernelbandits compare --page docs/policies.md   update the table of a page
  kernelbandits compare --json | python -m json.tool
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="every policy on three problems: table, figures, page",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", default="compare", metavar="FOLDER", help="output folder (default: compare)")
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="a Markdown page with marks between which the table is inserted; the figure and the numbers are copied "
        "into the folder of the same name",
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="names of policies as in the table")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    add_size_options(parser, QUICK)
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the suite and print its results."""
    from kernelbandits.experiments import policy_suite  # imported here, so that --help is fast
    from kernelbandits.experiments.progress import rounds_bar

    horizon, n_seeds = size_of(
        arguments, usual=Size(policy_suite.HORIZON, policy_suite.N_SEEDS), quick=QUICK
    )  # fmt: skip
    if arguments.page is not None:
        policy_suite.table_place(Path(arguments.page))  # fails before the study is run
    with rounds_bar("Running") as bar:
        report = policy_suite.run_policy_suite(
            arguments.into,
            horizon=horizon,
            n_seeds=n_seeds,
            only=arguments.only,
            workers=arguments.workers,
            progress=bar.move,
        )
    overview = report.tables[0]
    table = f"{overview.caption}\n\n{overview.to_markdown()}\n"
    if arguments.page is not None:
        page = Path(arguments.page)
        folder = page.with_suffix("")
        folder.mkdir(exist_ok=True)
        policy_suite.insert_table(page, table)
        shutil.copyfile(report.files["figures"] / "final-regret-light.png", folder / "policies.png")
        numbers = {"horizon": horizon, "n_seeds": n_seeds, **report.to_dict()["environments"]}
        (folder / "policies.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    if arguments.json:
        json.dump(report.to_dict(), sys.stdout, indent=2)
        print()
        return
    print(table)
    for kind, path in report.files.items():
        print(f"{kind[0].upper() + kind[1:]:9} {path}")
