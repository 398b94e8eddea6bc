import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits import _compile
from kernelbandits.selection import _screening_loops as loops
from kernelbandits.selection._screening_loops import screening_loops

screening_loops.ensure()  # registers the parts


def forms(part):
    """Compiled, and the same in Python."""
    fast, _ = _compile._parts[part]
    return [_compile.numba().njit(fastmath=set(fast))(part), part]


def a_panel(rng, start, n_rows):
    """Columns before the panel and its corner, in arrays with room to spare that hold no numbers."""
    left, corner = np.full((n_rows + 3, start), np.nan), np.full((n_rows + 3, n_rows + 3), np.nan)
    left[:n_rows] = rng.normal(size=(n_rows, start))
    corner[:n_rows, :n_rows] = np.tril(0.2 * rng.normal(size=(n_rows, n_rows))) + 2.0 * np.eye(n_rows)
    return left, corner


SIZES = [(0, 1), (0, 9), (5, 4), (40, 23), (1300, 6)]


@pytest.mark.parametrize("form", forms(loops.substitute_loop))
@pytest.mark.parametrize("n_rights", [1, 2, 5])
@pytest.mark.parametrize(("start", "n_rows"), SIZES)
def test_a_panel_is_solved_forwards(form, start, n_rows, n_rights):
    rng = np.random.default_rng(start)
    left, corner = a_panel(rng, start, n_rows)
    rights = rng.normal(size=(n_rights, start + n_rows + 2))
    before = rights.copy()

    for first, last in [(0, n_rows // 3), (n_rows // 3, n_rows)]:
        form(left, corner, start, first, last, 0, rights)

    here = slice(start, start + n_rows)
    exact = np.linalg.solve(corner[:n_rows, :n_rows], (before[:, here] - before[:, :start] @ left[:n_rows].T).T).T
    assert_allclose(rights[:, here], exact, rtol=1e-11, atol=1e-11)
    assert np.array_equal(rights[:, :start], before[:, :start])
    assert np.array_equal(rights[:, start + n_rows :], before[:, start + n_rows :])


@pytest.mark.parametrize("form", ["compiled", "python"])
@pytest.mark.parametrize(("start", "n_rows"), SIZES)
def test_a_panel_is_solved_backwards(form, start, n_rows):
    rng = np.random.default_rng(start)
    left, corner = a_panel(rng, start, n_rows)
    right = rng.normal(size=start + n_rows)
    before, panels = right.copy(), np.array([[left.ctypes.data, corner.ctypes.data, start, n_rows, corner.shape[1]]])
    solve = screening_loops.solve_back if form == "compiled" else loops.solve_back_loop
    subtract = screening_loops.subtract_back if form == "compiled" else loops.subtract_back_loop

    solve(panels, 0, right)
    subtract(panels, 0, 0, start // 3, right)
    subtract(panels, 0, start // 3, start, right)

    exact = np.linalg.solve(corner[:n_rows, :n_rows].T, before[start:])
    assert_allclose(right[start:], exact, rtol=1e-11, atol=1e-11)
    assert_allclose(right[:start], before[:start] - left[:n_rows].T @ exact, rtol=1e-11, atol=1e-11)
