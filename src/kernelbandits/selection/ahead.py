"""Compilation before the first round."""

from __future__ import annotations

from kernelbandits._compile import groups
from kernelbandits.posterior import _primal_loops  # noqa: F401
from kernelbandits.selection import _catalog_loops, screening_loops  # noqa: F401

__all__ = ["compile_ahead"]


def compile_ahead() -> None:
    """Compile all kernels now, instead of in the background after enough work.

    Use it if the first rounds have to be as fast as later ones: in a service before it answers requests, or in a
    benchmark. Takes seconds once per machine, and a fraction of a second in later processes. Results do not depend on
    it.

    If Numba cannot be imported or fails, nothing is raised: all actions are scored in NumPy, more slowly, and a warning
    is logged by the logger "kernelbandits._compile".
    """
    for group in groups:
        group.ensure()
