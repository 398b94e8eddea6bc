"""Writes docs/modules.md: every module of the library with the first line of its docstring.

python -m scripts.modules
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "kernelbandits"
PAGE: Final = ROOT / "docs" / "modules.md"

HEAD: Final = """# Modules

Every module with the first line of its docstring, written by `python -m scripts.modules`. A package imports from those
above it.
"""

ORDER: Final = (
    "",
    "kernels",
    "posterior",
    "selection",
    "theory",
    "policies",
    "environments",
    "evaluation",
    "testing",
    "experiments",
    "adapters",
    "service",
    "cli",
)


def modules_page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *(_section(package) for package in ORDER)])


def _section(package: str) -> str:
    paths = (SOURCE / package).rglob("*.py") if package else SOURCE.glob("*.py")
    rows = [f"| `{name}` | {line} |" for name, line in sorted(_described(paths))]
    title = f"`{package}`" if package else "core"
    return f"## {title}\n\n| module | what it is |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _described(paths: Iterator[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        yield (
            ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"),
            docstring.split("\n")[0],
        )


if __name__ == "__main__":
    PAGE.write_text(modules_page(), encoding="utf-8")
