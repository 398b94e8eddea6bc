"""Kernels of the catalog engine, compiled in the background, with NumPy fallbacks until then."""

from __future__ import annotations

from typing import Final

from kernelbandits._compile import MATRIX, VECTOR, Loop, Loops
from kernelbandits.selection import passes, twins

__all__ = ["loops", "make_loops"]

FLAGS, PLACES, TABLE = "uint8[::1]", "int64[::1]", "int64[:, ::1]"
PART = f"{MATRIX}, int64, int64"


def make_loops() -> Loops:
    """Create a group of kernels. No sum is reordered, so results do not depend on threads; a maximum may be."""
    return Loops(
        pull=Loop(
            loop=passes.pull_loop,
            twin=twins.pull_twin,
            signature=f"void({MATRIX}, int64, float64, int64, int64, {VECTOR}, int64, float64, float64, {PART}, "
            f"float64, float64, {FLAGS})",
        ),
        screen=Loop(
            loop=passes.screen_loop, twin=twins.screen_twin, signature=f"void({PART}, float64, float64, {FLAGS})"
        ),
        best=Loop(
            loop=passes.best_loop,
            twin=twins.best_twin,
            signature=f"Tuple((float64, int64))({MATRIX}, float64, int64, {FLAGS}, {PLACES})",
        ),
        changes=Loop(
            loop=passes.changes_loop,
            twin=twins.changes_twin,
            signature=f"int64({VECTOR}, {VECTOR}, {MATRIX}, {PLACES})",
        ),
        rest=Loop(
            loop=passes.rest_loop,
            twin=twins.rest_twin,
            signature=f"void({VECTOR}, {VECTOR}, {VECTOR}, {VECTOR})",
            fast=frozenset({"reassoc", "nnan"}),
        ),
        # A whole round in one call; it has no fallback: before compilation the other kernels are called one by one.
        round=Loop(
            loop=passes.round_loop,
            twin=None,
            signature=f"int64({VECTOR}, {VECTOR}, {MATRIX}, {TABLE}, {TABLE}, {MATRIX}, {MATRIX}, {MATRIX}, {FLAGS}, "
            f"{PLACES}, {VECTOR}, int64, int64, int64, int64, int64, boolean, float64, float64)",
            parts=(passes.pull_loop, passes.screen_loop, passes.best_loop),
        ),
    )


loops: Final = make_loops()
"""Kernel group shared by all engines of the process."""
