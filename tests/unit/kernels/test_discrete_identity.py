import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from kernelbandits.kernels import Delta, PairPoints, Rows, Sets, Strings
from kernelbandits.types import Pairs

ROWS = np.array([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (None, ["a", 1, "1", 1], [1, "b", "a"]),
        (None, np.array([3, 1]), [1, 2]),
        (Strings(), ["a", "", "a"], ["", "\ud800"]),
        (Sets(), [frozenset("ab"), frozenset()], [frozenset("ba"), frozenset("a")]),
    ],
)
def test_only_the_same_point_is_similar(kind, first, second):
    kernel = Delta() if kind is None else Delta(kind=kind)

    gram = kernel.gram(first, second)

    assert_array_equal(gram, [[float(x == z) for z in second] for x in first])
    assert_array_equal(kernel.diagonal(first), np.ones(len(first)))


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist])
def test_rows_are_the_same_when_all_their_numbers_are(form):
    gram = Delta(kind=Rows()).gram(form(ROWS))

    assert_array_equal(gram, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_pairs_are_the_same_when_both_halves_are():
    kind = PairPoints(Rows(), Strings())
    first, second = kind.check(Pairs([1.0], ["a", "b"])), kind.check(Pairs([2.0], ["a", "b"]))

    assert_array_equal(Delta(kind=kind).gram(kind.stack(first, second)), np.eye(4))


def test_a_large_gram_is_quick_and_right():
    ids = np.arange(2000) % 700

    gram = Delta().gram(ids.tolist())

    assert gram.sum() == sum(np.bincount(ids) ** 2)


def test_the_kind_is_part_of_what_it_is():
    assert Delta() != Delta(kind=Rows())
    assert Delta(kind=Rows()).describe() == {"class": "Delta", "kind": "Rows"}
