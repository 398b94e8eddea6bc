"""Imports of optional packages, and installed versions."""

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
    """Module of the package, or an error with an installation hint.

    >>> required("json", "Reading lines").loads("[1]")
    [1]
    """
    try:
        return import_module(package)
    except ImportError as missing:
        raise MissingExtra(f"{purpose} needs {package}, which is not installed. {MISSING}") from missing


def require(package: str) -> None:
    """Raise an error with an installation hint if the package cannot be imported."""
    try:
        import_module(package)
    except ImportError as missing:
        raise MissingExtra(
            f"Figures and tables of experiments need {package}, which is not installed. "
            'Add it with: pip install "kernelbandits[experiments]"'
        ) from missing


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of the packages that affect the results."""
    found = {"kernelbandits": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "numba", "matplotlib", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not installed did not affect the results
            continue
    return found
