"""Where and with what a result was obtained."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import kernelbandits

__all__ = ["load", "machine", "resident", "versions"]

PACKAGES: Final = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "botorch",
    "torch",
    "river",
    "vowpalwabbit",
    "mabwiser",
    "contextualbandits",
)


def machine() -> dict[str, str]:
    """Processor, memory and system, as far as they can be known."""
    found = {"processor": _processor(), "processors": str(os.cpu_count()), "system": platform.platform(terse=True)}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    return found


def versions() -> dict[str, str]:
    """Of Python and of every package that could take part; those not installed are absent."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["kernelbandits"] = kernelbandits.__version__  # what runs, which may not be what is installed
    if commit := _commit():
        found["kernelbandits"] += f" ({commit})"
    return found


def load() -> float:
    """Load average of the last minute; nan where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Short name of the commit, with a mark where files differ from it; empty outside a clone."""
    root = Path(__file__).resolve().parents[1]
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=9"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
