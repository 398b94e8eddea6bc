"""Which software produced a result."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from kernelbandits import __version__

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of what the numbers depend on."""
    found = {"kernelbandits": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "numba", "matplotlib", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not there had no part in it
            continue
    return found
