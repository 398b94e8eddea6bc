"""The page of modules is up to date, and the first line of every module says what it is."""

from scripts.modules import ORDER, PAGE, SOURCE, modules_page


def test_the_page_of_modules_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == modules_page(), "run: python -m scripts.modules"


def test_every_package_is_listed():
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(ORDER) - {""}


def test_every_module_has_a_first_line():
    rows = [line for line in modules_page().splitlines() if line.startswith("| `")]

    assert len(rows) == len(list(SOURCE.rglob("*.py")))
    assert all(row.removesuffix(" |").endswith(".") for row in rows)
