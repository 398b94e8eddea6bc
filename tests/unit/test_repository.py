"""Files that other programs read, and that nothing else here would open."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import hypothesis
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = ["bug.yml", "feature.yml"]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def pythons():
    prefix = "Programming Language :: Python :: 3."
    return [kind.removeprefix(prefix[:-2]) for kind in PROJECT["classifiers"] if kind.startswith(prefix)]


def test_ci_runs_every_python_that_the_package_claims():
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]

    assert jobs["test"]["strategy"]["matrix"]["python"] == pythons()
    assert {"run": ".ci/run"} in jobs["test"]["steps"]
    assert {"run": "scripts/test-lowest ${{ matrix.extra }}"} in jobs["lowest"]["steps"]


def test_scripts_take_every_python_that_the_package_claims():
    first, last = pythons()[0], pythons()[-1]

    assert PROJECT["requires-python"] == f">={first}"
    assert f"Python {first} to {last}" in read("scripts/environment.sh")
    lowest, highest = (tuple(map(int, version.split("."))) for version in (first, last))
    assert f"{lowest} <= sys.version_info[:2] <= {highest}" in read("scripts/environment.sh")


@pytest.mark.parametrize("extra", ["", "experiments", "adapters", "service"])
def test_the_lowest_versions_are_those_of_the_running_python(extra):
    if sys.platform == "win32":
        pytest.skip("scripts are for bash")
    listed = subprocess.run(
        ["bash", "scripts/test-lowest", *extra.split(), "--list"],
        cwd=ROOT, env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    versions = dict(line.split("==") for line in listed)

    assert len(versions) == len(listed)
    bounds = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, [])]
    for requirement in map(Requirement, bounds):
        if requirement.marker is None or requirement.marker.evaluate():
            assert versions[requirement.name] in requirement.specifier


def test_hooks_run_what_check_runs():
    (repository,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    check = read("scripts/check").replace("$bin/", ".venv/bin/")

    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].removesuffix(" --force-exclude") in check


@pytest.mark.parametrize("form", FORMS)
def test_forms_have_what_a_form_needs(form):
    content = yaml.safe_load(read(f".github/ISSUE_TEMPLATE/{form}"))

    assert set(content) == {"name", "description", "labels", "body"}
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert all(isinstance(option, str) for field in fields for option in field["attributes"].get("options", []))


def test_placeholder_addresses_stand_in_one_place_each():
    files = [
        *ROOT.glob("*.md"),
        ROOT / "pyproject.toml",
        *(ROOT / ".github").rglob("*.*"),
        *(ROOT / "docs").rglob("*.md"),
    ]

    holders = {path.name for path in files if "example.invalid" in path.read_text(encoding="utf-8")}

    assert holders == {"pyproject.toml", "SECURITY.md"}


def places_in(text):
    """Files and folders that stand in back-ticks, with a slash and without a wildcard; no data."""
    return {place for place in re.findall(r"`([\w.-]+/[\w./-]*)`", text) if not place.endswith(".gz")}


def missing(places):
    roots = (ROOT, ROOT / "src" / "kernelbandits")
    return {place for place in places if not any((root / place).exists() for root in roots)}


def test_files_that_contributors_are_sent_to_exist():
    places = places_in(read("CONTRIBUTING.md"))

    assert len(places) > 30
    assert missing(places) == set()


def test_a_file_that_does_not_exist_would_be_noticed():
    assert missing(places_in("`kernels/base.py` and `kernels/basis.py`")) == {"kernels/basis.py"}


def test_one_version_everywhere():
    (version,) = re.findall(r'^__version__ = "(.*)"$', read("src/kernelbandits/__init__.py"), re.M)

    assert yaml.safe_load(read("CITATION.cff"))["version"] == version


def collected(*options):
    command = [sys.executable, "-m", "pytest", "tests/unit/test_text.py", "--collect-only", "-p", "no:cacheprovider"]
    listing = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if "::" in line]


def test_the_parts_of_the_tests_are_all_tests_once():
    first, second, third = (collected("--part", f"{k}/3") for k in (1, 2, 3))

    assert min(map(len, (first, second, third))) > 0
    assert sorted(first + second + third) == sorted(collected())


SHARED: set[str] = {"service"}
"""Folders of `tests/unit` whose files test a behavior of the whole package."""


def unnamed(tests, source):
    """Unit tests in the folder of a package that are not named after one of its modules or the package."""
    for file in sorted(tests.rglob("test_*.py")):
        place = file.relative_to(tests).parent
        if place.parts and place.parts[0] not in SHARED and (source / place).is_dir():
            modules = {module.stem.strip("_") for module in (source / place).glob("*.py")} | {place.name}
            if not any(f"{file.stem}_".startswith(f"test_{module}_") for module in modules):
                yield str(file.relative_to(tests))


def test_unit_tests_are_named_after_the_module_that_they_test():
    assert not list(unnamed(ROOT / "tests" / "unit", ROOT / "src" / "kernelbandits"))


def test_a_test_of_no_module_is_found(tmp_path):
    for name in ("tests/kernels/test_linear_long.py", "tests/kernels/test_lineary.py", "src/kernels/linear.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert list(unnamed(tmp_path / "tests", tmp_path / "src")) == [str(Path("kernels", "test_lineary.py"))]


def test_no_property_has_a_time_limit():
    """So that none fails because the machine is slow, or does other work."""
    assert hypothesis.settings.default.deadline is None
