"""Compiling before the first round."""

from __future__ import annotations

from kernelbandits._compile import groups
from kernelbandits.posterior import _primal_loops  # noqa: F401
from kernelbandits.selection import _catalog_loops, screening_loops  # noqa: F401

__all__ = ["compile_ahead"]


def compile_ahead() -> None:
    """Compile all loops now, instead of in the background once they have much to do.

    For those who want the first rounds to be as fast as the later ones: a service before it answers, a benchmark. Takes
    seconds once on a machine, and a fraction of a second in later processes. No answer depends on it.

    Where Numba cannot be imported or fails, nothing is raised: NumPy goes on answering, more slowly, and a warning is
    logged as "kernelbandits._compile".
    """
    for group in groups:
        group.ensure()
