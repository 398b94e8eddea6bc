import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import Gaussian, Jaccard, PairProduct, Spectrum
from kernelbandits.selection import Catalogue
from kernelbandits.types import Pairs


@pytest.fixture
def catalogue():
    return Catalogue([[0.0], [1.0], [2.0], [3.0]], ids=["a", "b", "c", 4])


def test_items_are_found_by_id(catalogue):
    assert len(catalogue) == 4
    assert catalogue.row(4) == 3
    assert catalogue.item(1) == "b"
    assert catalogue.ids == ("a", "b", "c", 4)


def test_without_ids_an_item_goes_by_its_row():
    catalogue = Catalogue(["x", "y"])

    assert catalogue.ids is None
    assert catalogue.row(1) == catalogue.item(1) == 1
    assert catalogue.only([1]).ids == [1]


@pytest.mark.parametrize("item", ["z", 0, 2.5, None])
def test_an_unknown_id_is_refused(catalogue, item):
    with pytest.raises(UnknownItem, match="which knows 4 ids, such as 'a'"):
        catalogue.row(item)


@pytest.mark.parametrize("item", [-1, 2, True, "0"])
def test_an_unknown_row_is_refused(item):
    with pytest.raises(UnknownItem, match="rows 0 to 1"):
        Catalogue([[1.0], [2.0]]).row(item)


@pytest.mark.parametrize(
    ("ids", "message"),
    [(["a", "a"], "'a' stands there twice"), (["a"], "2 items, 1 ids"), (["a", 1.5], "integer or a string")],
)
def test_ids_are_checked(ids, message):
    with pytest.raises(InvalidParameter, match=message):
        Catalogue([[1.0], [2.0]], ids=ids)


@pytest.mark.parametrize("items", [[], np.zeros((0, 2))])
def test_there_has_to_be_an_item(items):
    with pytest.raises(InvalidContexts, match="at least one item"):
        Catalogue(items)


@pytest.mark.parametrize("items", ["abc", {"a", "b"}, 3])
def test_items_are_in_order(items):
    with pytest.raises(InvalidContexts, match="one entry an item"):
        Catalogue(items)


def test_a_context_is_given_with_the_round():
    with pytest.raises(InvalidContexts, match=r"catalogue\.given"):
        Catalogue(Pairs([0.0], [[1.0]]))


def test_items_are_copied():
    rows, sets = np.ones((2, 2)), [{"a"}, {"b"}]
    by_rows, by_sets = Catalogue(rows), Catalogue(sets)

    rows[0] = 7.0
    sets[0].add("z")

    assert_allclose(by_rows.points(Gaussian(length_scale=1.0).kind), np.ones((2, 2)))
    assert by_sets.points(Jaccard().kind) == [{"a"}, {"b"}]


def test_it_grows(catalogue):
    kind = Gaussian(length_scale=1.0).kind
    before = catalogue.points(kind)

    assert catalogue.add([[5.0], [6.0]], ids=["e", "f"]).tolist() == [4, 5]
    assert catalogue.add([[7.0]], ids=["g"]).tolist() == [6]

    assert catalogue.row("f") == 5
    assert before.shape == (4, 1)
    assert catalogue.points(kind).ravel().tolist() == [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0]


def test_a_refused_addition_adds_nothing(catalogue):
    kind = Gaussian(length_scale=1.0).kind
    catalogue.points(kind)

    with pytest.raises(InvalidParameter, match="'a' stands there twice"):
        catalogue.add([[5.0]], ids=["a"])
    with pytest.raises(InvalidParameter, match="need theirs too"):
        catalogue.add([[5.0]])
    with pytest.raises(InvalidContexts, match="columns"):
        catalogue.add([[5.0, 6.0]], ids=["e"])
    with pytest.raises(InvalidParameter, match="cannot have them either"):
        Catalogue([[1.0]]).add([[2.0]], ids=["e"])

    assert len(catalogue) == catalogue.points(kind).shape[0] == 4
    assert catalogue.ids == ("a", "b", "c", 4)


def test_a_kernel_that_cannot_take_the_items_says_so_when_it_meets_them():
    with pytest.raises(InvalidContexts, match="compares strings"):
        Catalogue([[1.0], [2.0]]).points(Spectrum(n=2).kind)


def test_restrictions_compose(catalogue):
    view = catalogue.only(["c", "a", 4]).without(["a"])

    assert view.rows.tolist() == [2, 3]
    assert view.ids == ["c", 4]
    assert len(view) == 2
    assert not view.is_whole
    assert catalogue.without(["b"]).only(["b", "c"]).rows.tolist() == [2]
    assert view.points(Gaussian(length_scale=1.0).kind).ravel().tolist() == [2.0, 3.0]


def test_an_unknown_item_cannot_be_left_out(catalogue):
    with pytest.raises(UnknownItem, match="'z'"):
        catalogue.without(["z"])


def test_ids_are_a_collection(catalogue):
    with pytest.raises(InvalidParameter, match="as a collection"):
        catalogue.only("abc")


def test_something_has_to_be_left(catalogue):
    with pytest.raises(InvalidContexts, match="No item is left"):
        catalogue.only(["a"]).without(["a"])


def test_a_view_shows_what_was_there_when_it_was_made(catalogue):
    whole = catalogue.given([1.0])
    catalogue.add([[9.0]], ids=["late"])

    assert len(whole) == 4
    assert whole.rows.tolist() == [0, 1, 2, 3]
    assert not whole.is_whole
    kernel = PairProduct(context=Gaussian(length_scale=1.0), action=Gaussian(length_scale=1.0))
    assert kernel.kind.count(whole.points(kernel.kind)) == 4


def test_items_are_joined_with_a_context(catalogue):
    kernel = PairProduct(context=Gaussian(length_scale=1.0), action=Gaussian(length_scale=1.0))
    view = catalogue.only(["b", "c"]).given([0.5])

    points = view.points(kernel.kind)

    assert_allclose(kernel.gram(points), kernel.gram(Pairs([0.5], [[1.0], [2.0]])))
    with pytest.raises(InvalidParameter, match="joined with a context already"):
        view.given([0.1])
    with pytest.raises(InvalidContexts, match="stand alone"):
        view.points(Gaussian(length_scale=1.0).kind)
