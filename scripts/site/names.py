"""Public names, and where the site shows them."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

__all__ = ["documented_packages", "linked", "public_names"]

ROOT = Path(__file__).parents[2]
REFERENCE, SOURCE = ROOT / "docs" / "reference", ROOT / "src"
SHOWN = re.compile(r"^::: (kernelbandits\S*)$", re.MULTILINE)
FENCE = re.compile(r"^ *(```|~~~)")
NAME_IN_CODE = re.compile(r"(?<![\[`\w])`(?:kb\.|kernelbandits\.)?(?:(\w+)\.)?([A-Za-z]\w+)`(?![`\]])")


@cache
def documented_packages() -> tuple[str, ...]:
    """Packages and modules that a page of the reference shows, such as kernelbandits.kernels."""
    pages = sorted(REFERENCE.rglob("*.md"))
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    return tuple(sorted(name for name in shown if _is_module(name)))


def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Full paths of every public name, by its last part: where it is shown in the most detail comes first."""
    found: dict[str, list[str]] = {}
    for package in sorted(documented_packages(), key=len, reverse=True):
        for name in import_module(package).__all__:
            found.setdefault(name, []).append(_shown_as(package, name))
    return {name: tuple(paths) for name, paths in found.items()}


def _shown_as(package: str, name: str) -> str:
    """Path under which a name is shown; a function that hides the module it comes from goes by its full path."""
    path = f"{package}.{name}"
    return f"{path}.{name}" if path in sys.modules else path


def linked(text: str, *, within: str = "") -> str:
    """Make a link of every public name that stands in back-ticks, outside of headings and blocks of code.

    A name that several packages have, such as `Constant`, is taken from the package that the text belongs to, or from
    the one that is written before it (`theory.Constant`); where neither decides it stays as it is.
    """
    lines, is_code = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            is_code = not is_code
        is_prose = not is_code and not line.startswith(("    ", "#"))
        lines.append(NAME_IN_CODE.sub(lambda match: _link(match, within), line) if is_prose else line)
    return "\n".join(lines)


def _link(match: re.Match[str], within: str) -> str:
    path = _path_of(match[2], match[1], within)
    return match[0] if path is None else f"[{match[0]}][{path}]"


def _path_of(name: str, package: str | None, within: str) -> str | None:
    """Where a name is shown that stands behind a package or alone, in a text that belongs to another one."""
    paths = public_names().get(name, ())
    homes = {path.split(".")[1] for path in paths}
    home = package or (within if within in homes else None)
    if home is not None:
        paths = tuple(path for path in paths if path.split(".")[1] == home)
    elif len(homes) > 1:
        return None
    return paths[0] if paths else None
