"""NumPy fallbacks of the compiled kernels, for small problems and for the first rounds before compilation."""

from __future__ import annotations

import numpy as np

from kernelbandits.selection.passes import BLOCK, Flags
from kernelbandits.selection.ties import worst_tied
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["best_twin", "changes_twin", "pull_twin", "rest_twin", "screen_twin"]


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
    items: Matrix,
    start: int,
    stop: int,
    squared: float,
    bar: float,
    hits: Flags,
) -> None:
    """NumPy fallback of `pull_loop`."""
    column = factor * rows[base, start:stop]
    if last > first:
        column -= weights[first:last] @ rows[first:last, start:stop]
    if target >= 0:
        rows[target, start:stop] = column
    items[0, start:stop] += gain * column
    column *= column
    column *= shrink
    items[1, start:stop] -= column
    screen_twin(items, start, stop, squared, bar, hits)


def screen_twin(items: Matrix, start: int, stop: int, squared: float, bar: float, hits: Flags) -> None:
    """NumPy fallback of `screen_loop`."""
    gap = np.maximum(bar - items[0, start:stop], 0.0)
    hit = gap * gap <= squared * np.maximum(items[1, start:stop], 0.0)
    first, last = start // BLOCK, -(-stop // BLOCK)
    hits[first:last] = np.logical_or.reduceat(hit, np.arange(0, stop - start, BLOCK))


def best_twin(
    items: Matrix,
    exploration: float,
    stop: int,
    hits: Flags,  # noqa: ARG001 – used by the compiled kernel
    tied: Indices,
) -> tuple[float, int]:
    """NumPy fallback of `best_loop`; unmarked blocks are scored too, and cannot contain the best."""
    scores = items[0, :stop] + exploration * np.sqrt(np.maximum(items[1, :stop], 0.0))
    best = float(scores.max())
    found = np.flatnonzero(scores >= worst_tied(best))
    tied[: len(found)] = found[: len(tied)]
    return best, len(found)


def changes_twin(counts: Vector, sums: Vector, taken: Matrix, found: Indices) -> int:
    """NumPy fallback of `changes_loop`."""
    n_slots = len(counts)
    changed = np.flatnonzero((counts != taken[0, :n_slots]) | (sums != taken[1, :n_slots]))
    found[: len(changed)] = changed
    return len(changed)


def rest_twin(mean: Vector, roots: Vector, factors: Vector, highest: Vector) -> None:
    """NumPy fallback of `rest_loop`."""
    for place, factor in enumerate(factors):
        highest[place] = (mean + roots * factor).max()
