"""The list of modules names what is there, and nothing else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOUSE = ROOT / "src" / "kernelbandits"
PACKAGES = sorted(path.parent for path in HOUSE.rglob("__init__.py") if path.parent != HOUSE)


def listed_modules(page):
    """Names in code under each package of the section "Modules"; a bold name begins a package."""
    _, section = page.split("\n## Modules\n")
    parts = re.split(r"\*\*(\w+)\*\*:", section.partition("\n## ")[0])
    return {
        package: set(re.findall(r"`(\w+)(?:\.py)?`", text))
        for package, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.fixture(scope="module")
def listed():
    return listed_modules((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(HOUSE)))
def test_every_module_of_a_package_is_listed_and_no_other(package, listed):
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}

    assert listed[package.name] == modules


def test_every_package_listed_is_one(listed):
    assert set(listed) == {package.name for package in PACKAGES}


def test_negative_control_a_module_that_is_gone_is_noticed():
    page = "x\n## Modules\n\n- **cli**: `main`, `gone`.\n    - **size**: `one`.\n\n## More\n\n`other`\n"

    assert listed_modules(page) == {"cli": {"main", "gone"}, "size": {"one"}}
