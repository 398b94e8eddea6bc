"""Packages that only experiments need."""

from __future__ import annotations

from importlib import import_module

from kernelbandits.errors import MissingExtra

__all__ = ["require"]


def require(package: str) -> None:
    """Do nothing when the package can be imported; otherwise say how to get it."""
    try:
        import_module(package)
    except ImportError as missing:
        raise MissingExtra(
            f"Figures and tables of experiments need {package}, which is not installed. "
            'Add it with: pip install "kernelbandits[experiments]"'
        ) from missing
