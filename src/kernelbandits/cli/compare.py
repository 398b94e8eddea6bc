"""`kernelbandits compare`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from kernelbandits._optional import import_optional
from kernelbandits.cli.arguments import Size, add_size_options, size_of

__all__ = ["add_to", "run"]

QUICK: Final = Size(100, 2)

DESCRIPTION: Final = """\
Run every policy of the library on six problems, with its defaults, tuned
settings and those of its proof. Prints tables of regret with 95 % intervals and
writes policies.json (all numbers), tables.md, two figures, and results/ (the
raw results). An interrupted run continues with the same command.

--tune runs the settings of every grid on seeds apart and writes constants.json,
which --constants reads; without it, the constants of the package are used."""

EXAMPLES: Final = """\
examples:
  kernelbandits compare                           writes ./compare
  kernelbandits compare --quick                   fewer rounds and seeds
  kernelbandits compare --only KernelUCB Random   two policies
  kernelbandits compare --page docs/policies.md   update the tables of a page
  kernelbandits compare --from policies.json --page docs/policies.md
  kernelbandits compare --tune                    writes ./compare/constants.json
  kernelbandits compare --constants compare/constants.json
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="every policy on six problems: tables, figures, page",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", default="compare", metavar="FOLDER", help="output folder (default: compare)")
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="a Markdown page with marks between which the tables are inserted; figures and numbers are written into "
        "the folder of the same name",
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="names of policies as in the table")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    parser.add_argument("--tune", action="store_true", help="find the tuned settings instead")
    parser.add_argument("--constants", metavar="FILE", help="tuned settings that --tune wrote")
    parser.add_argument("--from", dest="numbers", metavar="FILE", help="run nothing: numbers of an earlier run")
    add_size_options(parser, QUICK)
    parser.add_argument("--json", action="store_true", help="print numbers as JSON instead of tables")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the study and print its results."""
    from kernelbandits.experiments import policy_page, policy_suite  # imported here, so that --help is fast
    from kernelbandits.experiments.progress import rounds_bar

    horizon, n_seeds = size_of(
        arguments, usual=Size(policy_suite.HORIZON, policy_suite.N_SEEDS), quick=QUICK
    )  # fmt: skip
    if arguments.page is not None:
        policy_page.section_place(Path(arguments.page))  # fails before the study is run
    import_optional("matplotlib", "This part of experiments")
    into = Path(arguments.into)
    sizes: dict[str, Any] = {"horizon": horizon, "only": arguments.only, "workers": arguments.workers}
    if arguments.tune:
        with rounds_bar("Tuning") as bar:
            found = policy_suite.tune_policy_suite(into / "tuning", **sizes, progress=bar.move)
        policy_suite.write_numbers(into / "constants.json", found)
        print(f"Constants {into / 'constants.json'}")
        return
    numbers = _numbers(arguments.numbers) if arguments.numbers else None
    if numbers is None:
        constants = policy_suite.read_constants(arguments.constants or policy_suite.CONSTANTS)
        with rounds_bar("Running") as bar:
            numbers = policy_suite.run_policy_suite(
                into / "results", **sizes, n_seeds=n_seeds, constants=constants, progress=bar.move
            )
        policy_suite.write_numbers(into / "policies.json", numbers)
    text = policy_page.section(numbers)
    for folder, page in _places(into, arguments.page):
        folder.mkdir(parents=True, exist_ok=True)
        for name, drawn in policy_page.figures(numbers).items():
            (folder / name).write_text(drawn, encoding="utf-8")
        policy_suite.write_numbers(folder / "policies.json", numbers)
        if page is None:
            (folder / "tables.md").write_text(policy_page.section(numbers, "."), encoding="utf-8")
        else:
            policy_page.insert_section(page, text)
    if arguments.json:
        json.dump(numbers, sys.stdout, indent=2)
        print()
        return
    print(f"{policy_page.regret_table(numbers).caption}\n\n{policy_page.regret_table(numbers).to_markdown()}\n")
    print(f"Results   {into}")


def _places(into: Path, page: str | None) -> list[tuple[Path, Path | None]]:
    return [(into, None)] if page is None else [(into, None), (Path(page).with_suffix(""), Path(page))]


def _numbers(path: str) -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return numbers
