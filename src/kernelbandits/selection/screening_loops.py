"""The compiled loops of screening. Until they are there, NumPy and the kernels answer in their place."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from kernelbandits.compiling import Background

__all__ = ["ScreeningLoops", "screening_loops"]


PATIENCE: Final = 20_000_000
"""As in `compiling`, for loops that take ten times as long to compile: about a second of work."""


class ScreeningLoops(Background):
    """Six loops; None until `compile` has run."""

    def __init__(self) -> None:
        super().__init__(patience=PATIENCE)
        self.scan: Callable[..., None] | None = None
        self.rows: Callable[..., None] | None = None
        self.rank: Callable[..., tuple[float, int]] | None = None
        self.contest: Callable[..., tuple[float, int]] | None = None
        self.trailing: Callable[..., float] | None = None
        self.back: Callable[..., None] | None = None

    def compile(self) -> None:
        similarity: Any = import_module("kernelbandits.selection.similarity_loops")
        contest: Any = import_module("kernelbandits.selection.contest_loop")
        self.rank, self.contest = contest.rank_loop, contest.contest_loop
        self.trailing, self.back = contest.trailing_loop, contest.back_loop
        self.rows, self.scan = similarity.rows_loop, similarity.scan_loop
        self.is_compiled = True


screening_loops: Final = ScreeningLoops()
"""Shared by all policies of the process."""
