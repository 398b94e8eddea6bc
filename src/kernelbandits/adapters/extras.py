"""Packages that only adapters need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernelbandits.errors import MissingExtra

__all__ = ["MISSING", "required"]

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
