"""Imports of optional packages, and the versions of those installed."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kernelbandits import __version__
from kernelbandits.errors import MissingExtra

__all__ = ["MISSING", "require", "required", "versions"]

MISSING = 'Add it with: pip install "kernelbandits[adapters]"'


def required(package: str, purpose: str) -> Any:
    """The package's module, or an error that says how to get it.

    >>> required("json", "Reading lines").loads("[1]")
    [1]
    """
    try:
        return import_module(package)
    except ImportError as missing:
        raise MissingExtra(f"{purpose} needs {package}, which is not installed. {MISSING}") from missing


def require(package: str) -> None:
    """Do nothing when the package can be imported; otherwise say how to get it."""
    try:
        import_module(package)
    except ImportError as missing:
        raise MissingExtra(
            f"Figures and tables of experiments need {package}, which is not installed. "
            'Add it with: pip install "kernelbandits[experiments]"'
        ) from missing


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of what the numbers depend on."""
    found = {"kernelbandits": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "numba", "matplotlib", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not there had no part in it
            continue
    return found
