"""`kernelbandits run`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernelbandits.errors import InvalidParameter
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from kernelbandits.experiments.results import Results
    from kernelbandits.experiments.study import Study

__all__ = ["add_to", "run"]

DESCRIPTION: Final = """\
Run a study: every policy in every environment with every seed. Results are
stored job by job, so it can be interrupted or killed at any moment; the same
command then runs only the missing jobs."""

EXAMPLES: Final = """\
examples:
  kernelbandits run study.toml                    into ./results/NAME
  kernelbandits run study.toml --dry-run          the jobs it would run
  kernelbandits run study.toml --workers 8 --into /data/first
  kernelbandits run study.toml --with mine.py     names classes that mine.py defines
  kernelbandits run study.toml --engine ray --address auto
  kernelbandits run study.toml --json | python -m json.tool

classes of your own:
  A study may name the public classes and functions of files given by --with:
  class = "Name", or kernel = { function = "name" } for a kernel that is a
  function. Nothing is imported by a name in the study.

a study:
  name = "smooth"
  horizon = 1000
  seeds = 10                     # 0 to 9, or a list
  every = 10                     # store every tenth round
  [environments.smooth]
  class = "SyntheticRKHS"
  kernel = { class = "Gaussian", length_scale = 0.2 }
  n_actions = 30
  n_features = 2
  [policies.KernelUCB]
  class = "KernelUCB"
  kernel = { class = "Gaussian", length_scale = 0.2 }
  exploration = 0.1
  grid = { regularization = [0.1, 1, 10] }
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "run",
        help="a study of your own, resumable, on many processors",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", metavar="STUDY.toml", help="study to run")
    parser.add_argument(
        "--with",
        dest="files",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a Python file that is run, and whose classes and functions the study may name; may be repeated",
    )
    parser.add_argument("--into", metavar="FOLDER", help="result folder (default: results/NAME)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="backend (default: local)")
    parser.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster (default: start one on this machine)")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show the progress, also where there is no terminal (default: on a terminal, after two seconds)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the jobs and run none")
    parser.add_argument("--json", action="store_true", help="print results as JSON instead of the table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, run, print."""
    from kernelbandits.experiments.runner import run as run_study
    from kernelbandits.experiments.study import Study  # here, so that --help does not wait for it

    study = Study.from_toml(arguments.study, classes=arguments.files)
    into = _folder(arguments.into, study.name)
    if arguments.dry_run:
        _print_jobs(study, into, as_json=arguments.json)
        return
    results = run_study(
        study,
        into,
        workers=arguments.workers,
        engine=arguments.engine,
        address=arguments.address,
        progress=arguments.progress,
    )
    if arguments.json:
        rows = [result.to_dict() for result in results.summary()]
        json.dump({"name": study.name, "folder": str(into), "results": rows}, sys.stdout, indent=2)
        print()
    else:
        _print_summary(study, results)


def _folder(into: str | None, name: str) -> Path:
    """Return the given folder, or one with the name of the study."""
    if into is not None:
        return Path(into)
    if Path(name).name != name or name == "..":
        raise InvalidParameter(f"The name {name!r} is not a valid folder name. Give a folder: --into FOLDER")
    return Path("results") / name


def _print_jobs(study: Study, into: Path, *, as_json: bool) -> None:
    from kernelbandits.experiments.store import ResultFolder

    folder = ResultFolder(into)
    rows = [
        {
            "id": job.id,
            "environment": job.environment,
            "policy": job.policy,
            "seed": job.seed,
            "is_finished": folder.is_finished(job.id),
        }
        for job in study.jobs
    ]
    if as_json:
        json.dump(rows, sys.stdout, indent=2)
        print()
        return
    for row in rows:
        state = "finished" if row["is_finished"] else "to run"
        print(f"{row['id']}  {state:8}  {row['environment']}  {row['policy']}  seed {row['seed']}")
    n_left = sum(not row["is_finished"] for row in rows)
    print(f"{pluralize(len(rows), 'job')} of {pluralize(study.horizon, 'round')}, {n_left} of them to run.")


def _print_summary(study: Study, results: Results) -> None:
    from kernelbandits.experiments.reports.tables import print_table, summary_table

    table = summary_table(results.summary(), horizon=study.horizon, n_seeds=len(study.seeds))
    print_table(table).print(f"Results  {results.folder}", soft_wrap=True, markup=False)
