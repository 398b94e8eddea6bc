"""Every extra that a message or a page names is one that the package has, and has what it is named for."""

import ast
import re
import tomllib
from pathlib import Path

from kernelbandits._optional import DISTRIBUTIONS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = set(PROJECT["project"]["optional-dependencies"])
NAMED = re.compile(r'"(?:kernelbandits|\.)\[([a-z,]+)\]"')


def named_in(text):
    return {extra for names in NAMED.findall(text) for extra in names.split(",")}


def test_every_extra_that_is_named_exists():
    files = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
    ]

    named = set().union(*(named_in(path.read_text(encoding="utf-8")) for path in files))

    assert {"experiments", "adapters", "ray", "testing"} <= named
    assert named <= EXTRAS


def test_an_extra_that_is_missing_would_be_noticed():
    assert not named_in('pip install "kernelbandits[experiments,docs]"') <= EXTRAS


def promised_by(source):
    """Package and extras of every call of `import_optional` that names its module."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "import_optional":
            extras = [word.value.value for word in call.keywords if word.arg == "extra"] or ["experiments"]
            if isinstance(call.args[0], ast.Constant):
                package = call.args[0].value.partition(".")[0]
                yield DISTRIBUTIONS.get(package, package).lower().replace("_", "-"), extras[0].split(",")


def installed_by(extras):
    extras = (PROJECT["project"]["optional-dependencies"][extra] for extra in extras)
    return {requirement.partition(">=")[0] for extra in extras for requirement in extra}


def test_the_extra_that_a_message_names_installs_the_package():
    calls = [call for path in (ROOT / "src").rglob("*.py") for call in promised_by(path.read_text(encoding="utf-8"))]

    assert calls
    for package, extras in calls:
        assert package in installed_by(extras)


def test_an_extra_that_does_not_install_the_package_would_be_noticed():
    (found,) = promised_by('import_optional("pandas.api", "A frame")')

    assert found == ("pandas", ["experiments"])
    assert "pandas" not in installed_by(["experiments"])


def test_requirements_of_development_are_no_extras():
    assert EXTRAS.isdisjoint(PROJECT["dependency-groups"])


def test_the_pins_are_made_of_names_that_exist():
    pins = re.findall(r'^pin \w+ "(.*)" "(.*)"$', (ROOT / "requirements" / "pin").read_text(encoding="utf-8"), re.M)

    assert len(pins) == 3
    for extras, groups in pins:
        assert set(extras.split()) <= EXTRAS
        assert set(groups.split()) <= set(PROJECT["dependency-groups"])
