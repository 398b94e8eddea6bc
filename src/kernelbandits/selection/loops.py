"""The passes over all actions: compiled, with a NumPy twin of each for small problems and for the first rounds.

Numba is imported, and the loops are compiled, in the background once an engine has done so much work that it will
pay; until then the twins answer. So a newcomer's first rounds wait for no compiler, and importing the library does not
import Numba. A compiled loop is kept on disk by Numba, so that later processes only load it.

A loop takes parts of the actions, [start, stop), and leaves the interpreter's lock while it runs: see `threads`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.compiling import Background
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["BLOCK", "Loops", "loops"]

BLOCK: Final = 1024
"""Actions in a block: a block of column, means and variances (24 kB) stays in the first-level cache."""


def pull_loop(
    rows: Matrix,
    base: int,
    factor: float,
    first: int,
    last: int,
    weights: Vector,
    target: int,
    gain: float,
    shrink: float,
    mean: Vector,
    variance: Vector,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: NDArray[np.uint8],
) -> None:
    """One pull, for the actions [start, stop): the column, the update by it, and who can still be the best.

        c = factor · rows[base] − Σ_{first ≤ j < last} weights[j] · rows[j]
        mean += gain · c,   variance −= shrink · c²

    The column is written to rows[target], unless target is −1. hits[b] tells whether any action of block b has
    mean + sqrt(squared · variance) ≥ bar, found without a root: mean ≥ bar or (bar − mean)² ≤ squared · variance.
    """
    column = np.empty(1024)
    for begin in range(start, stop, 1024):
        end = min(begin + 1024, stop)
        n = end - begin
        source = rows[base, begin:end]
        for a in range(n):
            column[a] = factor * source[a]
        j = first
        while j + 4 <= last:
            w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
            r0, r1 = rows[j, begin:end], rows[j + 1, begin:end]
            r2, r3 = rows[j + 2, begin:end], rows[j + 3, begin:end]
            for a in range(n):
                column[a] -= (w0 * r0[a] + w1 * r1[a]) + (w2 * r2[a] + w3 * r3[a])
            j += 4
        while j < last:
            w0, r0 = weights[j], rows[j, begin:end]
            for a in range(n):
                column[a] -= w0 * r0[a]
            j += 1
        if target >= 0:
            kept = rows[target, begin:end]
            for a in range(n):
                kept[a] = column[a]
        m, v = mean[begin:end], variance[begin:end]
        count = 0
        for a in range(n):
            c = column[a]
            now = m[a] + gain * c
            left = v[a] - shrink * (c * c)
            m[a] = now
            v[a] = left
            gap = bar - now
            if gap <= 0.0:
                gap = 0.0
            count += gap * gap <= squared * max(left, 0.0)
        hits[begin // 1024] = count > 0


def best_loop(
    mean: Vector, variance: Vector, exploration: float, stop: int, hits: NDArray[np.uint8], tied: Indices
) -> tuple[float, int]:
    """Best score of the blocks that were hit, the number of actions tied with it, and those actions, lowest first.

    More than len(tied) of them are counted and not listed.
    """
    best = -np.inf
    for block in range(len(hits)):
        if hits[block]:
            for a in range(block * 1024, min(block * 1024 + 1024, stop)):
                score = mean[a] + exploration * sqrt(max(variance[a], 0.0))
                if score > best:
                    best = score
    worst = best - 1e-10 * max(1.0, abs(best))  # TIE_TOLERANCE; a test compares
    n_tied = 0
    for block in range(len(hits)):
        if hits[block]:
            for a in range(block * 1024, min(block * 1024 + 1024, stop)):
                if mean[a] + exploration * sqrt(max(variance[a], 0.0)) >= worst:
                    if n_tied < len(tied):
                        tied[n_tied] = a
                    n_tied += 1
    return best, n_tied


def screen_loop(
    mean: Vector,
    variance: Vector,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: NDArray[np.uint8],
) -> None:
    """Who can be the best, as in `pull_loop`, when nothing has changed."""
    for begin in range(start, stop, 1024):
        end = min(begin + 1024, stop)
        m, v = mean[begin:end], variance[begin:end]
        count = 0
        for a in range(end - begin):
            gap = bar - m[a]
            if gap <= 0.0:
                gap = 0.0
            count += gap * gap <= squared * max(v[a], 0.0)
        hits[begin // 1024] = count > 0


def changes_loop(counts: Vector, sums: Vector, own_counts: Vector, own_sums: Vector, found: Indices) -> int:
    """Number of slots whose count or sum differs from our own copy, and the slots in `found`."""
    n_found = 0
    for slot in range(len(counts)):
        if counts[slot] != own_counts[slot] or sums[slot] != own_sums[slot]:
            found[n_found] = slot
            n_found += 1
    return n_found


def pull_twin(
    rows: Matrix,
    base: int,
    factor: float,
    first: int,
    last: int,
    weights: Vector,
    target: int,
    gain: float,
    shrink: float,
    mean: Vector,
    variance: Vector,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: NDArray[np.uint8],
) -> None:
    """`pull_loop` in NumPy."""
    column = factor * rows[base, start:stop]
    if last > first:
        column -= weights[first:last] @ rows[first:last, start:stop]
    if target >= 0:
        rows[target, start:stop] = column
    mean[start:stop] += gain * column
    column *= column
    column *= shrink
    variance[start:stop] -= column
    screen_twin(mean, variance, start, stop, squared, bar, hits)


def screen_twin(
    mean: Vector,
    variance: Vector,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: NDArray[np.uint8],
) -> None:
    """`screen_loop` in NumPy."""
    gap = np.maximum(bar - mean[start:stop], 0.0)
    hit = gap * gap <= squared * np.maximum(variance[start:stop], 0.0)
    first, last = start // BLOCK, -(-stop // BLOCK)
    hits[first:last] = np.logical_or.reduceat(hit, np.arange(0, stop - start, BLOCK))


def best_twin(
    mean: Vector,
    variance: Vector,
    exploration: float,
    stop: int,
    hits: NDArray[np.uint8],  # noqa: ARG001 – what the loop needs
    tied: Indices,
) -> tuple[float, int]:
    """`best_loop` in NumPy; blocks without a hit are looked at too, and cannot win."""
    scores = mean[:stop] + exploration * np.sqrt(np.maximum(variance[:stop], 0.0))
    best = float(scores.max())
    found = np.flatnonzero(scores >= best - 1e-10 * max(1.0, abs(best)))
    tied[: len(found)] = found[: len(tied)]
    return best, len(found)


def changes_twin(counts: Vector, sums: Vector, own_counts: Vector, own_sums: Vector, found: Indices) -> int:
    """`changes_loop` in NumPy."""
    changed = np.flatnonzero((counts != own_counts) | (sums != own_sums))
    found[: len(changed)] = changed
    return len(changed)


class Loops(Background):
    """The four passes, as twins until `compile` has run."""

    def __init__(self) -> None:
        super().__init__()
        self.pull: Callable[..., None] = pull_twin
        self.screen: Callable[..., None] = screen_twin
        self.best: Callable[..., tuple[float, int]] = best_twin
        self.changes: Callable[..., int] = changes_twin

    def compile(self) -> None:
        compiled = _compiled()
        self.screen, self.best = compiled["screen"], compiled["best"]
        self.changes, self.pull = compiled["changes"], compiled["pull"]
        self.is_compiled = True


def _compiled() -> dict[str, Any]:
    """The loops with fixed signatures. No fast mathematics: sums keep their order, so threads change nothing."""
    numba = import_module("numba")
    vector, matrix, flags = "float64[::1]", "float64[:, ::1]", "uint8[::1]"
    scored = f"{vector}, {vector}, int64, int64, float64, float64, {flags}"
    signatures: dict[str, tuple[Callable[..., Any], str]] = {
        "pull": (
            pull_loop,
            f"void({matrix}, int64, float64, int64, int64, {vector}, int64, float64, float64, {scored})",
        ),
        "screen": (screen_loop, f"void({scored})"),
        "best": (best_loop, f"Tuple((float64, int64))({vector}, {vector}, float64, int64, {flags}, int64[::1])"),
        "changes": (changes_loop, f"int64({vector}, {vector}, {vector}, {vector}, int64[::1])"),
    }
    return {name: numba.njit(signature, cache=True, nogil=True)(loop) for name, (loop, signature) in signatures.items()}


loops: Final = Loops()
"""Shared by all engines of the process."""
