"""Every block of code on every page is run, or at least read as what it claims to be."""

import doctest
import os
import shlex
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernelbandits.cli.main import _parser
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import Study
from pages import blocks_of

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STUDY = """\
name = "small"
horizon = 10
seeds = 1
[environments.groups]
class = "Clustered"
n_actions = 3
fixed_actions = true
[policies.chance]
class = "UniformRandom"
[policies.ucb]
class = "UCB1"
"""


def why_unchecked(block):
    """The reason why a block is not checked; None when it is."""
    if block.language == "python":
        return _why_not_run(block.code)
    if block.language == "sh":
        return next((reason for line in block.code.splitlines() if (reason := _why_not_read(line))), None)
    if block.language == "toml":
        return _why_no_study(block.code)
    if block.language in ("", "text"):
        return "holds code in a block without a language" if ">>> " in block.code else None
    return f"is in {block.language}, which is not checked"


def _why_not_run(code):
    pieces = doctest.DocTestParser().parse(code)
    if any(isinstance(piece, str) and piece.strip() for piece in pieces):
        return "has lines that are no example and run nowhere"
    if not any(isinstance(piece, doctest.Example) for piece in pieces):
        return "holds no example"
    return "is skipped" if "doctest: +SKIP" in code.replace("#doctest", "# doctest") else None


def _why_no_study(code):
    """TOML on a page is a study, whole: all its classes and arguments are looked up and its policies made."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(code, encoding="utf-8")
        try:
            Study.from_toml(path)
        except InvalidParameter as error:
            return f"is no study: {str(error).removeprefix(f'{path}: ')}"
    return None


def _why_not_read(line):
    words = shlex.split(line, comments=True)
    while "|" in words:
        reason = _why_no_command(words[: words.index("|")])
        if reason:
            return reason
        words = words[words.index("|") + 1 :]
    return _why_no_command(words) if words else None


def _why_no_command(words):
    program, arguments = words[0], words[1:]
    if Path(program).name == "kernelbandits":
        try:
            _parser().parse_args(arguments)
        except SystemExit as leaving:
            return None if leaving.code == 0 else f"has a command that is not understood: {shlex.join(words)}"
        return None
    if program.startswith("scripts/"):
        return None if os.access(ROOT / program, os.X_OK) else f"names {program}, which is not there"
    if [Path(program).name, *arguments[:1]] == ["python", "-m"]:
        return None if find_spec(arguments[1]) else f"names the module {arguments[1]}, which is not there"
    if program == "python" and arguments[:1] and arguments[0].endswith(".py"):
        return None if (ROOT / arguments[0]).exists() else f"names {arguments[0]}, which is not there"
    if [program, *arguments[:1]] == ["pip", "install"]:
        return None
    return f"has the command {program}, which is not checked"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_is_unchecked(page):
    blocks = blocks_of(page.read_text(encoding="utf-8"))

    reasons = [reason for block in blocks if (reason := why_unchecked(block))]

    assert reasons == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_stand_in_blocks_and_nowhere_else(page):
    text = page.read_text(encoding="utf-8")

    in_blocks = sum(len(doctest.DocTestParser().get_examples(block.code)) for block in blocks_of(text))

    assert in_blocks == len(doctest.DocTestParser().get_examples(text))
    assert text.count("```") == 2 * len(blocks_of(text))


def test_there_are_blocks_on_the_pages():
    n_blocks = sum(len(blocks_of(page.read_text(encoding="utf-8"))) for page in PAGES)

    assert n_blocks > 50


def test_pytest_runs_the_examples_of_every_page():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]

    assert {"docs", "README.md"} <= set(options["testpaths"])
    assert "--doctest-glob='*.md'" in options["addopts"]
    assert "pytest README.md docs src" in (ROOT / "scripts" / "check").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("```python\nx = 1\n```", "no example"),
        ("```python\n>>> 1\n1\n\ny = 2\n```", "no example and run nowhere"),
        ("```python\n\n```", "holds no example"),
        ("```python\n>>> x  # doctest: +SKIP\n```", "skipped"),
        ("```py\n>>> 1\n```", "which is not checked"),
        ("```\n>>> 1\n```", "without a language"),
        ("```sh\nkernelbandits demo --quikc\n```", "not understood"),
        ("```sh\nkernelbandits bake\n```", "not understood"),
        ("```sh\nkernelbandits demo --json | jq .\n```", "jq, which is not checked"),
        ("```sh\nscripts/chekc\n```", "scripts/chekc, which is not there"),
        ("```sh\npython -m benchmraks\n```", "benchmraks, which is not there"),
        ("```sh\nrm -r /\n```", "rm, which is not checked"),
        ("```toml\nname = smooth\n```", "not TOML"),
        (f"```toml\n{STUDY.replace('UCB1', 'UBC1')}```", "is no study: policies.ucb: no policy class 'UBC1' is known"),
        (f"```toml\n{STUDY.replace('n_actions', 'n_action')}```", "takes no 'n_action'"),
        (f"```toml\n{STUDY.replace('horizon', 'horizn')}```", "a study has no 'horizn'"),
    ],
)
def test_an_unchecked_block_is_noticed(page, reason, capsys):
    (block,) = blocks_of(page)

    assert reason in why_unchecked(block)


@pytest.mark.parametrize(
    "page",
    [
        "```python\n>>> 1\n1\n\n>>> 2\n2\n\n```",
        "```sh\n# a remark\nkernelbandits demo --quick  # another\n.venv/bin/kernelbandits compare --only UCB1\n```",
        "```sh\nkernelbandits compare --json | python -m json.tool\n```",
        "```\nx ─► y\n```",
        f"```toml\n{STUDY}```",
    ],
)
def test_a_block_that_is_checked_is_left_alone(page):
    (block,) = blocks_of(page)

    assert why_unchecked(block) is None
