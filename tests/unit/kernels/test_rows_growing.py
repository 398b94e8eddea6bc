import numpy as np
from numpy.testing import assert_array_equal

from kernelbandits.kernels.rows import GrowingMatrix, GrowingNames


def test_growing_gives_the_block_matrix():
    matrix = GrowingMatrix(np.ones((2, 3)))

    larger = matrix.grown(np.full((1, 3), 2.0), 0.0, np.full((1, 2), 3.0))
    largest = larger.grown(4.0, np.full((3, 1), 5.0), np.full((2, 1), 6.0))

    expected = np.block(
        [
            [np.ones((2, 3)), np.zeros((2, 2)), np.full((2, 1), 5.0)],
            [np.full((1, 3), 2.0), np.full((1, 2), 3.0), np.full((1, 1), 5.0)],
            [np.full((2, 5), 4.0), np.full((2, 1), 6.0)],
        ]
    )
    assert_array_equal(largest.values, expected)
    assert_array_equal(larger.values, expected[:3, :5])
    assert_array_equal(matrix.values, expected[:2, :3])


def test_rows_alone_can_grow():
    matrix = GrowingMatrix(np.ones((1, 3)))

    larger = matrix.grown(np.full((2, 3), 7.0), 0.0, np.zeros((2, 0)))

    assert_array_equal(larger.values, [[1, 1, 1], [7, 7, 7], [7, 7, 7]])


def test_the_first_matrix_is_copied():
    first = np.eye(2)

    matrix = GrowingMatrix(first)
    first[:] = 9.0

    assert_array_equal(matrix.values, np.eye(2))


def test_growth_one_by_one_copies_the_whole_only_now_and_then():
    matrix, moves = GrowingMatrix(np.ones((1, 1))), 0
    for size in range(1, 200):
        larger = matrix.grown(float(size), float(size), np.full((1, 1), float(size)))
        moves += not np.shares_memory(larger.values, matrix.values)
        matrix = larger

    assert moves <= 8
    assert_array_equal(
        matrix.values,
        np.maximum.outer(np.arange(200), np.arange(200)).clip(min=0)
        + (np.add.outer(np.arange(200), np.arange(200)) == 0),
    )


def test_two_matrices_that_grow_from_one_do_not_share_what_is_new():
    matrix = GrowingMatrix(np.eye(1)).grown(0.0, 0.0, np.eye(1)).grown(0.0, 0.0, np.eye(1))

    one, other = matrix.grown(1.0, 1.0, np.eye(1)), matrix.grown(2.0, 2.0, np.eye(1))

    assert np.shares_memory(one.values, matrix.values)
    assert_array_equal(one.values[3], [1.0, 1.0, 1.0, 1.0])
    assert_array_equal(other.values[3], [2.0, 2.0, 2.0, 1.0])


def test_names_stay_when_more_are_added():
    names = GrowingNames(["a", 1])

    more = names.grown(["b"])

    assert (names.listed(), more.listed()) == (["a", 1], ["a", 1, "b"])
    assert (len(names), len(more)) == (2, 3)
    assert (names.row("b"), more.row("b"), more.row("c")) == (-1, 2, -1)
    assert more[2] == "b"


def test_two_lists_of_names_that_grow_from_one_do_not_share_what_is_new():
    names = GrowingNames(["a"])

    one, other = names.grown(["b", "c"]), names.grown(["c", "d"])

    assert [one.row(name) for name in "abcd"] == [0, 1, 2, -1]
    assert [other.row(name) for name in "abcd"] == [0, -1, 1, 2]
    assert names.listed() == ["a"]
