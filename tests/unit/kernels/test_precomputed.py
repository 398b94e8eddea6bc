import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import Precomputed, SimilarityTable, TableIds

VALUES = np.array([[1.0, 0.5, 0.1], [0.5, 2.0, 0.3], [0.1, 0.3, 1.5]])


@pytest.fixture
def kernel():
    return Precomputed(VALUES, ids=[2, "tea", 0])  # integers that are not their rows


def test_similarities_are_looked_up_by_id(kernel):
    assert_array_equal(kernel.gram([0, "tea"], [2, 0, 2]), [[0.1, 1.5, 0.1], [0.5, 0.3, 0.5]])
    assert_array_equal(kernel.gram(["tea", 2]), [[2.0, 0.5], [0.5, 1.0]])
    assert_array_equal(kernel.diagonal([0, 2]), [1.5, 1.0])
    assert kernel.n_features([0]) is None


def test_canonical_rows_are_not_taken_for_ids(kernel):
    checked = kernel.kind.check([0, 2])

    again = kernel.kind.check(checked)

    assert again is checked
    assert kernel.kind.keys(checked) == [2, 0]
    assert_array_equal(kernel.gram(checked), kernel.gram([0, 2]))
    assert [kernel.kind.one(checked, row) for row in range(2)] == [0, 2]
    assert kernel.kind.count(checked) == kernel.kind.count([0, 2]) == 2


def test_without_ids_points_are_row_numbers():
    kernel = Precomputed(VALUES)

    assert_array_equal(kernel.gram(np.array([2]), [0, 1]), [[0.1, 0.3]])


def test_a_grown_table_serves_the_kernels_that_use_it(kernel):
    stored = kernel.kind.grow(None, 0, kernel.kind.check([0, "tea"]))
    before = kernel.gram(kernel.kind.view(stored, 2))

    kernel.table.add(["new"], to_known=[[0.7, 0.8, 0.9]], among_new=[[3.0]])

    assert_array_equal(kernel.gram(kernel.kind.view(stored, 2)), before)
    assert_array_equal(kernel.gram(["new"], kernel.kind.view(stored, 2)), [[0.9, 0.8]])
    stored = kernel.kind.grow(stored, 2, kernel.kind.check(["new"]))
    assert_array_equal(kernel.gram(kernel.kind.view(stored, 3), ["new"]), [[0.9], [0.8], [3.0]])


def test_a_result_can_be_changed_without_changing_the_table(kernel):
    kernel.gram([0, 2])[:] = 9.0
    kernel.diagonal([0, 2])[:] = 9.0

    assert_array_equal(kernel.table.values, VALUES)


def test_no_items_have_no_similarities(kernel):
    assert kernel.gram([], ["tea"]).shape == (0, 1)
    with pytest.raises(InvalidContexts, match="There must be at least one context, got none"):
        kernel.kind.check([])


def test_an_unknown_item_is_named(kernel):
    with pytest.raises(UnknownItem, match="The similarity table holds no item 1; it holds 3 items, from 2 to 0"):
        kernel.kind.check([0, 1])
    with pytest.raises(UnknownItem, match="no item 'milk'"):
        kernel.kind.as_collection("milk")
    with pytest.raises(UnknownItem, match="no item 'milk'"):
        kernel.gram(["milk"])


@pytest.mark.parametrize("points", ["tea", [1.5], [[0, 2]], None])
def test_points_are_a_sequence_of_ids(kernel, points):
    with pytest.raises(InvalidContexts, match=r"An id is an integer or a string|Contexts must be a sequence"):
        kernel.kind.check(points)


def test_rows_of_another_table_are_rejected(kernel):
    foreign = Precomputed(VALUES).kind.check([1])

    with pytest.raises(InvalidContexts, match="These are rows of another similarity table"):
        kernel.gram(foreign)


def test_points_that_a_loaded_table_does_not_hold_are_rejected(kernel):
    kernel.table.add(["new"], to_known=[[0.7, 0.8, 0.9]], among_new=[[3.0]])
    packed = kernel.kind.pack(kernel.kind.check(["new"]))

    with pytest.raises(UnknownItem, match="The points refer to row 3, and the similarity table has 3"):
        Precomputed(VALUES).kind.unpack(packed)


def test_a_kernel_is_as_good_as_its_table():
    table = SimilarityTable(VALUES)

    assert Precomputed(table) == Precomputed(table)
    assert hash(Precomputed(table)) == hash(Precomputed(table))
    assert Precomputed(table) != Precomputed(VALUES)
    assert TableIds(table) == TableIds(table)
    assert hash(TableIds(table)) == hash(TableIds(table))
    assert TableIds(table) != TableIds(SimilarityTable(VALUES))
    assert repr(TableIds(table)) == "TableIds(SimilarityTable(3 items, repair: none))"


def test_the_description_is_that_of_the_first_block(kernel):
    described = kernel.describe()

    kernel.table.add(["new"], to_known=[[0.7, 0.8, 0.9]], among_new=[[3.0]])

    assert described == kernel.describe() == {"class": "Precomputed", "origin": kernel.table.origin}


def test_a_table_has_its_own_ids():
    with pytest.raises(InvalidParameter, match="The table has ids already"):
        Precomputed(SimilarityTable(VALUES), ids=["a", "b", "c"])


def test_a_kernel_is_frozen(kernel):
    with pytest.raises(AttributeError):
        kernel.table = SimilarityTable(VALUES)
