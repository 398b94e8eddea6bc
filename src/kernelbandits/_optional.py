"""Imports of optional packages, and installed versions."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from kernelbandits import __version__
from kernelbandits.errors import MissingExtra

__all__ = ["import_optional", "missing_extra", "versions"]


def import_optional(module: str, purpose: str, *, extra: str = "experiments") -> Any:
    """Import a module of an optional package, or raise MissingExtra with an installation hint.

    >>> import_optional("json", "Reading lines").loads("[1]")
    [1]
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as missing:
        raise missing_extra(package, purpose, extra) from missing


def missing_extra(package: str, purpose: str, extra: str) -> MissingExtra:
    """Error that names the missing package and the extra that installs it."""
    name = DISTRIBUTIONS.get(package, package)
    return MissingExtra(
        f'{purpose} needs {name}, which is not installed. Add it with: pip install "kernelbandits[{extra}]"'
    )


DISTRIBUTIONS: Final = {"ray": "Ray", "sklearn": "scikit-learn"}
"""Names of packages that differ from those of their modules."""


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of the packages that affect the results."""
    found = {"kernelbandits": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "numba", "matplotlib", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not installed did not affect the results
            continue
    return found
