"""Every extra that a message or a page names is one that the package has."""

import re
import tomllib
from pathlib import Path

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


def test_requirements_of_development_are_no_extras():
    assert EXTRAS.isdisjoint(PROJECT["dependency-groups"])


def test_the_pins_are_made_of_names_that_exist():
    pins = re.findall(r'^pin \w+ "(.*)" "(.*)"$', (ROOT / "requirements" / "pin").read_text(encoding="utf-8"), re.M)

    assert len(pins) == 3
    for extras, groups in pins:
        assert set(extras.split()) <= EXTRAS
        assert set(groups.split()) <= set(PROJECT["dependency-groups"])
