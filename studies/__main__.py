"""Repeat every published experiment and write docs/results.md.

    python -m studies                     all of them; finished jobs are stored in results/ and never repeated
    python -m studies abalone wheel       some of them; the others keep their numbers
    python -m studies --only-write        run nothing, write page and figures from docs/results/results.json

Data sets are read from the folder in the environment variable KERNELBANDITS_DATA.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kernelbandits._optional import versions
from kernelbandits.experiments import Results, Study, run
from kernelbandits.experiments.progress import rounds_bar
from studies import (
    abalone,
    budgets,
    classification,
    coverage,
    ek_ucb,
    large_actions,
    mnist,
    off_policy,
    recipe,
    refit,
    routing,
    similarity,
    wheel,
)
from studies.pictures import FOLDER, drawn

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parent / "docs" / "results.md"
NUMBERS: Final = HERE.parent / "docs" / "results" / "results.json"

SECTIONS: Final[Mapping[str, ModuleType]] = {
    "ek_ucb": ek_ucb,
    "classification": classification,
    "mnist": mnist,
    "recipe": recipe,
    "wheel": wheel,
    "abalone": abalone,
    "similarity": similarity,
    "coverage": coverage,
    "off_policy": off_policy,
    "large_actions": large_actions,
    "refit": refit,
    "budgets": budgets,
    "routing": routing,
}

HEAD: Final = """\
# Results

Published experiments, repeated with this library and compared with the published numbers. `python -m studies` writes
this page; each section ends with the commands that produce its numbers. Studies are TOML files in `studies/`. Those on
data sets read them from the folder in the environment variable `KERNELBANDITS_DATA`. An "independent reference" is a
run of the same protocol in plain NumPy, without this library. Unfavorable results are reported like all others.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, collect, write."""
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; none: all")
    parser.add_argument("--into", default="results", metavar="FOLDER", help="where results are kept (default: results)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a processor)")
    parser.add_argument("--only-write", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    if not options.only_write:
        for name in options.sections or SECTIONS:
            print(name)
            numbers = collected(SECTIONS[name], Path(options.into), options.workers)
            found[name] = {**numbers, "versions": versions()}
            NUMBERS.parent.mkdir(exist_ok=True)
            NUMBERS.write_text(as_json(found), encoding="utf-8")
    for path, text in pictures(found).items():
        path.write_text(text, encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
    print(f"Written  {PAGE}")


def collected(section: ModuleType, into: Path, workers: int | None, *, files: Path = HERE) -> dict[str, Any]:
    """The numbers of a section, whose studies are files of a folder; their runs that are missing are made."""
    studies = _studies(section, files)
    given = {name: _finished(study, into / name, workers) for name, study in studies.items()}
    numbers: dict[str, Any] = section.collect(given or workers)
    return numbers


def _studies(section: ModuleType, files: Path) -> dict[str, Study]:
    """Studies of a section by the name of their folder: of TOML files, or of a function where a file cannot hold it."""
    if hasattr(section, "study"):
        study = section.study()
        return {study.name: study}
    return {name: Study.from_toml(files / f"{name}.toml") for name in getattr(section, "STUDIES", ())}


def _finished(study: Study, folder: Path, workers: int | None) -> Results:
    with rounds_bar(study.name) as bar:
        return run(study, folder, workers=workers, progress=bar.move, time_left=bar.expect)


def as_json(found: Mapping[str, Any]) -> str:
    """The numbers as text, those of a curve on one line."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    return re.sub(r"\[[\s\d.,e+-]+\]", lambda numbers: f"[{' '.join(numbers[0][1:-1].split())}]", text) + "\n"


def pictures(found: Mapping[str, Any]) -> dict[Path, str]:
    """All figures of the page as SVG, by path, from the numbers alone."""
    return {
        PAGE.parent / FOLDER / file: text
        for name, section in SECTIONS.items()
        if name in found and hasattr(section, "drawing")
        for file, text in drawn(section.drawing(found[name]), found[name])
    }


def page(found: Mapping[str, Any]) -> str:
    """The whole page, from the numbers alone."""
    parts = [HEAD]
    for name, section in SECTIONS.items():
        if name in found:
            parts.append(f"## {section.TITLE}\n\n{section.render(found[name])}\n\n{_commands(name, section)}")
    return "\n".join(parts)


def _commands(name: str, section: ModuleType) -> str:
    runs = [
        f"kernelbandits run studies/{study}.toml --into results/{study}" for study in getattr(section, "STUDIES", ())
    ]
    return "\n".join(["```sh", *runs, f"python -m studies {name}", "```", ""])


if __name__ == "__main__":
    main()
