import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.posterior.cholesky import GrowingCholesky


@pytest.fixture(params=[4, 7, 256])
def panel(request):
    """Small panels, so that a small matrix crosses many of them."""
    return request.param


def positive_definite(size, rng):
    factors = rng.normal(size=(size, size + 3))
    return factors @ factors.T / size + 0.3 * np.eye(size)


def grown(matrix, steps, panel=256):
    """The factor of a matrix, appended in steps of the given sizes."""
    factor, done, sizes = GrowingCholesky(rows_per_panel=panel, first_capacity=2), 0, iter(steps)
    while done < len(matrix):
        size = min(next(sizes, 3), factor.room(), len(matrix) - done)
        rows = slice(done, done + size)
        factor.append(matrix[:done, rows].copy(), matrix[rows, rows])
        done += size
    return factor


def dense(factor):
    """L as an ordinary matrix, read off by solving: L⁻ᵀ of the identity, inverted."""
    return np.linalg.inv(factor.solve(np.eye(factor.size)))


def assert_factors(factor, matrix):
    lower = dense(factor)
    assert_allclose(lower @ lower.T, matrix, rtol=1e-9, atol=1e-10)
    assert_allclose(np.triu(lower, 1), 0.0, atol=1e-10)
    assert_allclose(factor.log_determinant(), np.linalg.slogdet(matrix)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("steps", [[1] * 30, [2, 5, 1, 9, 3], [30]])
def test_growing_gives_the_factor_of_the_whole(panel, steps):
    matrix = positive_definite(23, np.random.default_rng(0))

    factor = grown(matrix, steps, panel)

    assert_factors(factor, matrix)


@pytest.mark.parametrize("first", [0, 3, 8])
def test_many_rows_at_once_are_those_of_one_after_another(panel, first):
    matrix = positive_definite(23, np.random.default_rng(4))
    factor = grown(matrix[:first, :first], [first], panel)

    factor.append(matrix[:first, first:].copy(), matrix[first:, first:])

    assert_factors(factor, matrix)
    alone = grown(matrix, [1] * 23, panel)
    for ours, other in zip(factor.panels, alone.panels, strict=True):
        n_rows = ours.n_rows
        assert n_rows == other.n_rows
        assert_allclose(ours.left[:n_rows], other.left[:n_rows], atol=1e-12)
        assert_allclose(ours.corner[:n_rows, :n_rows], other.corner[:n_rows, :n_rows], atol=1e-12)


def test_solves_are_those_of_the_dense_factor(panel):
    rng = np.random.default_rng(1)
    matrix, right = positive_definite(19, rng), rng.normal(size=(19, 4))
    factor = grown(matrix, [3, 8], panel)

    forward, backward = factor.solve(right.copy()), factor.solve_transposed(right.copy())

    lower = np.linalg.cholesky(matrix)
    assert_allclose(forward, np.linalg.solve(lower, right), rtol=1e-9)
    assert_allclose(backward, np.linalg.solve(lower.T, right), rtol=1e-9)


@pytest.mark.parametrize("solved", [0, 1, 4, 7, 11, 19])
def test_a_solve_goes_on_from_rows_that_are_solved_already(panel, solved):
    rng = np.random.default_rng(2)
    matrix, right = positive_definite(19, rng), rng.normal(size=(19, 2))
    factor = grown(matrix, [3, 8], panel)
    whole = factor.solve(right.copy())

    continued = factor.solve(np.vstack([whole[:solved], right[solved:]]), solved=solved)

    assert_allclose(continued, whole, rtol=1e-12)


@pytest.mark.parametrize("start", [0, 1, 3, 4, 6, 7, 12, 18])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_rank_one_change_is_that_of_the_matrix(panel, start, sign):
    rng = np.random.default_rng(start)
    matrix, vector = positive_definite(19, rng), rng.normal(size=19) * 0.1
    vector[:start] = 0.0
    factor = grown(matrix, [4, 9], panel)

    factor.rank_one(vector, start=start, sign=sign)

    assert_factors(factor, matrix + sign * np.outer(vector, vector))


def test_a_rank_one_change_that_leaves_no_positive_matrix_is_rejected():
    factor = grown(np.eye(5), [5])

    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        factor.rank_one(np.array([0.0, 0.0, 1.5, 0.0, 0.0]), start=2, sign=-1.0)

    assert_factors(factor, np.eye(5))


@pytest.mark.parametrize("row", [0, 3, 4, 8, 18])
def test_an_isolated_row_has_no_effect_any_more(panel, row):
    matrix = positive_definite(19, np.random.default_rng(row))
    factor = grown(matrix, [6], panel)

    factor.isolate(row, 0.7)

    matrix[row], matrix[:, row] = 0.0, 0.0
    matrix[row, row] = 0.7
    assert_factors(factor, matrix)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 12])
def test_truncating_leaves_the_leading_part(panel, size):
    rng = np.random.default_rng(3)
    matrix = positive_definite(17, rng)
    factor = grown(matrix, [5], panel)

    factor.truncate(size)

    assert factor.size == size
    assert_factors(factor, matrix[:size, :size]) if size else None
    more = slice(size, min(17, size + factor.room()))
    factor.append(matrix[:size, more].copy(), matrix[more, more])
    assert_factors(factor, matrix[: more.stop, : more.stop])


def test_a_matrix_that_is_not_positive_definite_is_rejected_and_nothing_changes():
    factor = grown(np.eye(3), [3])

    with pytest.raises(np.linalg.LinAlgError):
        factor.append(np.full((3, 1), 0.9), np.array([[1.0]]))

    assert factor.size == 3


def test_the_smallest_pivot_is_looked_for_from_a_row_on(panel):
    matrix = np.diag([0.5, 3.0, 2.0, 4.0, 5.0, 1.5, 6.0, 7.0, 8.0])
    factor = grown(matrix, [2, 3], panel)

    assert factor.smallest_pivot() == pytest.approx(0.5)
    assert factor.smallest_pivot(since=1) == pytest.approx(1.5)
    assert factor.smallest_pivot(since=6) == pytest.approx(6.0)


def test_panels_hold_about_half_of_the_square():
    size = 1_500
    factor = GrowingCholesky()
    while factor.size < size:
        rows = slice(factor.size, min(size, factor.size + 256))
        factor.append(np.zeros((factor.size, rows.stop - rows.start)), np.eye(rows.stop - rows.start))

    held = sum(panel.left.nbytes + panel.corner.nbytes for panel in factor.panels)

    assert held < 0.62 * 8 * size**2


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["append", "up", "down", "isolate"]), st.integers(0, 10**6)), max_size=12))
def test_any_sequence_of_changes_keeps_the_factor_true(changes):
    rng = np.random.default_rng(0)
    matrix = positive_definite(6, rng)
    factor = grown(matrix, [6])
    for change, seed in changes:
        rng = np.random.default_rng(seed)
        row = int(rng.integers(len(matrix)))
        if change == "append":
            cross = rng.normal(size=len(matrix)) * 0.1
            corner = np.array([[2.0]])
            matrix = np.block([[matrix, cross[:, None]], [cross[None, :], corner]])
            factor.append(cross[:, None].copy(), corner)
        elif change == "isolate":
            factor.isolate(row, 1.3)
            matrix[row], matrix[:, row] = 0.0, 0.0
            matrix[row, row] = 1.3
        else:
            vector = np.zeros(len(matrix))
            vector[row] = 0.3 if change == "up" else 0.05
            sign = 1.0 if change == "up" else -1.0
            factor.rank_one(vector, start=row, sign=sign)
            matrix = matrix + sign * np.outer(vector, vector)

    assert_factors(factor, matrix)


def test_the_panels_are_the_rows_of_the_factor(panel):
    matrix = positive_definite(23, np.random.default_rng(7))
    factor = grown(matrix, [3, 9], panel)
    lower = np.linalg.cholesky(matrix)

    for one in factor.panels:
        here = slice(one.start, one.start + one.n_rows)
        assert_allclose(one.left[: one.n_rows], lower[here, : one.start], rtol=1e-9, atol=1e-12)
        assert_allclose(one.corner[: one.n_rows, : one.n_rows], lower[here, here], rtol=1e-9, atol=1e-12)


def test_a_known_row_is_appended_as_it_is(panel):
    matrix = positive_definite(23, np.random.default_rng(9))
    lower = np.linalg.cholesky(matrix)
    factor = GrowingCholesky(rows_per_panel=panel, first_capacity=2)

    for row in range(23):
        factor.append_solved(lower[row, :row], lower[row, row])

    assert_factors(factor, matrix)


def test_a_factor_of_nothing_but_rounding_errors_is_rejected_and_nothing_changes():
    points = np.random.default_rng(0).normal(size=(64, 2))
    matrix = 1e12 * points @ points.T + 1e-10 * np.eye(64)
    factor = grown(matrix[:1, :1], [1])

    with pytest.raises(np.linalg.LinAlgError, match="Rounding errors"):
        factor.append(matrix[:1, 1:].copy(), matrix[1:, 1:], floor=1e-10)

    assert factor.size == 1
