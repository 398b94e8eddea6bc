"""Forward substitution with one panel of a factor, at the speed at which the panel can be read.

What Numba keeps on disk is renewed when `contest_loop.py`, which calls these, changes: after a change here alone, empty
its `__pycache__`.
"""

from __future__ import annotations

from kernelbandits.selection.compiled import IN_ANY_ORDER, part
from kernelbandits.types import Matrix, Vector

__all__ = ["dot", "substitute_back_loop", "substitute_loop"]


@part(IN_ANY_ORDER)
def _subtract_for_two(
    l0: Vector, l1: Vector, l2: Vector, l3: Vector, u: Vector, v: Vector, at_u: Vector, at_v: Vector
) -> None:
    """Four rows of L and two right-hand sides at a time: eight products for six numbers that are read."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    for c in range(len(u)):
        x, y = u[c], v[c]
        s0 += l0[c] * x
        s1 += l1[c] * x
        s2 += l2[c] * x
        s3 += l3[c] * x
        t0 += l0[c] * y
        t1 += l1[c] * y
        t2 += l2[c] * y
        t3 += l3[c] * y
    at_u[0] -= s0
    at_u[1] -= s1
    at_u[2] -= s2
    at_u[3] -= s3
    at_v[0] -= t0
    at_v[1] -= t1
    at_v[2] -= t2
    at_v[3] -= t3


@part(IN_ANY_ORDER)
def _subtract_for_one(l0: Vector, l1: Vector, l2: Vector, l3: Vector, u: Vector, at_u: Vector) -> None:
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for c in range(len(u)):
        x = u[c]
        s0 += l0[c] * x
        s1 += l1[c] * x
        s2 += l2[c] * x
        s3 += l3[c] * x
    at_u[0] -= s0
    at_u[1] -= s1
    at_u[2] -= s2
    at_u[3] -= s3


@part()
def _solve_four(l0: Vector, l1: Vector, l2: Vector, l3: Vector, place: int, x: Vector) -> None:
    """The four unknowns that these rows of the corner have on their own triangle."""
    x[0] /= l0[place]
    x[1] = (x[1] - l1[place] * x[0]) / l1[place + 1]
    x[2] = (x[2] - l2[place] * x[0] - l2[place + 1] * x[1]) / l2[place + 2]
    x[3] = (x[3] - l3[place] * x[0] - l3[place + 1] * x[1] - l3[place + 2] * x[2]) / l3[place + 3]


@part(IN_ANY_ORDER)
def dot(first: Vector, second: Vector) -> float:
    """Inner product, summed in any order."""
    total = 0.0
    for c in range(len(first)):
        total += first[c] * second[c]
    return total


@part()
def substitute_loop(left: Matrix, corner: Matrix, start: int, first: int, last: int, rights: Matrix) -> None:
    """rights[:, start + first : start + last] solved in place, all before being so already; a right-hand side a row.

    `left` holds a panel's columns before `start`, `corner` those from there on; `first` and `last` are rows of both.
    """
    n_rights = len(rights)
    end_of_fours = first + (last - first) // 4 * 4
    for row in range(first, end_of_fours, 4):
        here = start + row
        for begin in range(0, start, 1024):  # four pieces of L stay in the cache for all right-hand sides
            end = min(begin + 1024, start)
            l0, l1 = left[row, begin:end], left[row + 1, begin:end]
            l2, l3 = left[row + 2, begin:end], left[row + 3, begin:end]
            for r in range(0, n_rights - 1, 2):
                at_u, at_v = rights[r, here : here + 4], rights[r + 1, here : here + 4]
                _subtract_for_two(l0, l1, l2, l3, rights[r, begin:end], rights[r + 1, begin:end], at_u, at_v)
            if n_rights % 2:
                _subtract_for_one(l0, l1, l2, l3, rights[-1, begin:end], rights[-1, here : here + 4])
        c0, c1, c2, c3 = corner[row], corner[row + 1], corner[row + 2], corner[row + 3]
        for r in range(n_rights):
            _subtract_for_one(c0, c1, c2, c3, rights[r, start:here], rights[r, here : here + 4])
            _solve_four(c0, c1, c2, c3, row, rights[r, here : here + 4])
    for row in range(end_of_fours, last):
        here = start + row
        for r in range(n_rights):
            known = dot(left[row], rights[r, :start]) + dot(corner[row, :row], rights[r, start:here])
            rights[r, here] = (rights[r, here] - known) / corner[row, row]


@part()
def _subtract_four(
    l0: Vector, l1: Vector, l2: Vector, l3: Vector, x0: float, x1: float, x2: float, x3: float, right: Vector
) -> None:
    for c in range(len(right)):
        right[c] -= (l0[c] * x0 + l1[c] * x1) + (l2[c] * x2 + l3[c] * x3)


@part()
def substitute_back_loop(left: Matrix, corner: Matrix, start: int, n_rows: int, right: Vector) -> None:
    """One step of L⁻ᵀ b: the panel's own unknowns, and what they take from the right-hand side before them.

    All behind the panel has to be solved already.
    """
    for row in range(n_rows - 1, -1, -1):
        x = right[start + row] / corner[row, row]
        right[start + row] = x
        for c in range(row):
            right[start + c] -= corner[row, c] * x
    before = right[:start]
    n_fours = n_rows // 4 * 4
    for row in range(0, n_fours, 4):
        x0, x1 = right[start + row], right[start + row + 1]
        x2, x3 = right[start + row + 2], right[start + row + 3]
        _subtract_four(left[row], left[row + 1], left[row + 2], left[row + 3], x0, x1, x2, x3, before)
    for row in range(n_fours, n_rows):
        for c in range(start):
            before[c] -= left[row, c] * right[start + row]
