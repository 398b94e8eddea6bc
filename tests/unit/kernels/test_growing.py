import numpy as np
from numpy.testing import assert_array_equal

from kernelbandits.kernels.growing import GrowingMatrix


def test_appending_gives_the_block_matrix():
    matrix = GrowingMatrix(np.ones((2, 3)))

    matrix.append(np.full((1, 3), 2.0), 0.0, np.full((1, 2), 3.0))
    matrix.append(4.0, np.full((3, 1), 5.0), np.full((2, 1), 6.0))

    expected = np.block(
        [
            [np.ones((2, 3)), np.zeros((2, 2)), np.full((2, 1), 5.0)],
            [np.full((1, 3), 2.0), np.full((1, 2), 3.0), np.full((1, 1), 5.0)],
            [np.full((2, 5), 4.0), np.full((2, 1), 6.0)],
        ]
    )
    assert_array_equal(matrix.values, expected)


def test_rows_alone_can_grow():
    matrix = GrowingMatrix(np.ones((1, 3)))

    matrix.append(np.full((2, 3), 7.0), 0.0, np.zeros((2, 0)))

    assert_array_equal(matrix.values, [[1, 1, 1], [7, 7, 7], [7, 7, 7]])


def test_the_first_matrix_is_copied():
    first = np.eye(2)

    matrix = GrowingMatrix(first)
    first[:] = 9.0

    assert_array_equal(matrix.values, np.eye(2))


def test_growth_one_by_one_copies_the_whole_only_now_and_then():
    matrix, moves = GrowingMatrix(np.ones((1, 1))), 0
    for size in range(1, 200):
        before = matrix._buffer
        matrix.append(float(size), float(size), np.full((1, 1), float(size)))
        moves += matrix._buffer is not before

    assert moves <= 8
    assert_array_equal(
        matrix.values,
        np.maximum.outer(np.arange(200), np.arange(200)).clip(min=0)
        + (np.add.outer(np.arange(200), np.arange(200)) == 0),
    )


def test_reserved_room_is_used_without_moving():
    matrix = GrowingMatrix(np.eye(3))
    matrix.reserve(2, 2)
    buffer = matrix._buffer

    matrix.append(0.0, 0.0, np.eye(2))

    assert matrix._buffer is buffer
    assert_array_equal(matrix.values, np.eye(5))
