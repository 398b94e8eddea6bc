"""Group of the compiled kernels of screening. Until they are compiled, all actions are scored."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from kernelbandits._compile import Background, uninterrupted

__all__ = ["ScreeningLoops", "screening_loops"]


WORK_BEFORE_COMPILE: Final = 20_000_000
"""Work before compilation, as in `_compile`, for kernels that take ten times as long to compile: about a second of
work."""


class ScreeningLoops(Background):
    """Six compiled kernels; they exist once `is_compiled` is true."""

    def __init__(self) -> None:
        super().__init__(patience=WORK_BEFORE_COMPILE)
        self.scan: Callable[..., None]
        self.rows: Callable[..., None]
        self.rank: Callable[..., tuple[float, int]]
        self.contest: Callable[..., tuple[float, int]]
        self.trailing: Callable[..., float]
        self.back: Callable[..., None]

    @property
    def names(self) -> str:
        return "scan_loop, rows_loop, rank_loop, contest_loop, trailing_loop, back_loop"

    def compile(self) -> None:
        finished, contest, similarity = uninterrupted(_import)
        rank, best = finished(contest.rank_loop), finished(contest.contest_loop)
        trailing, back = finished(contest.trailing_loop), finished(contest.back_loop)
        rows, scan = finished(similarity.rows_loop), finished(similarity.scan_loop)
        self.rank, self.contest, self.trailing, self.back, self.rows, self.scan = rank, best, trailing, back, rows, scan
        self.is_compiled = True


def _import() -> tuple[Any, Any, Any]:
    """Import the modules that need Numba."""
    compiled, contest, similarity = (
        import_module(f"kernelbandits.selection.{name}")
        for name in ("compiled", "_screening_loops", "_similarity_loops")
    )
    return compiled.finished, contest, similarity


screening_loops: Final = ScreeningLoops()
"""Kernel group shared by all policies of the process."""
