import copy
import pickle
import sys
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

import kernelbandits as kb
from interrupts import interrupted_everywhere
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import Gaussian, Ids, Jaccard, PairProduct, Rows, Spectrum, Strings
from kernelbandits.kernels.rows import GrowingNames
from kernelbandits.selection import Catalog, column_log
from kernelbandits.selection import catalog as catalog_module
from kernelbandits.types import Pairs


@pytest.fixture
def catalog():
    return Catalog([[0.0], [1.0], [2.0], [3.0]], ids=["a", "b", "c", 4])


def test_items_are_found_by_id(catalog):
    assert len(catalog) == 4
    assert catalog.row(4) == 3
    assert catalog.item(1) == "b"
    assert catalog.ids == ("a", "b", "c", 4)


def test_without_ids_an_item_goes_by_its_row():
    catalog = Catalog(["x", "y"])

    assert catalog.ids is None
    assert catalog.row(1) == catalog.item(1) == 1
    assert catalog.only([1]).ids == [1]


@pytest.mark.parametrize("item", ["z", 0, 2.5, None])
def test_an_unknown_id_is_rejected(catalog, item):
    with pytest.raises(UnknownItem, match="which knows 4 ids, such as 'a'"):
        catalog.row(item)


@pytest.mark.parametrize("item", [-1, 2, True, "0"])
def test_an_unknown_row_is_rejected(item):
    with pytest.raises(UnknownItem, match="rows 0 to 1"):
        Catalog([[1.0], [2.0]]).row(item)


@pytest.mark.parametrize(
    ("ids", "message"),
    [(["a", "a"], "'a' occurs twice"), (["a"], "1 ids for 2 items"), (["a", 1.5], "integer or a string")],
)
def test_ids_are_checked(ids, message):
    with pytest.raises(InvalidParameter, match=message):
        Catalog([[1.0], [2.0]], ids=ids)


@pytest.mark.parametrize("items", [[], np.zeros((0, 2))])
def test_there_has_to_be_an_item(items):
    with pytest.raises(InvalidContexts, match="at least one item"):
        Catalog(items)


@pytest.mark.parametrize("items", ["abc", {"a", "b"}, 3])
def test_items_are_in_order(items):
    with pytest.raises(InvalidContexts, match="one entry an item"):
        Catalog(items)


def test_a_context_is_given_with_the_round():
    with pytest.raises(InvalidContexts, match=r"catalog\.given"):
        Catalog(Pairs([0.0], [[1.0]]))


def test_items_are_copied():
    rows, sets = np.ones((2, 2)), [{"a"}, {"b"}]
    by_rows, by_sets = Catalog(rows), Catalog(sets)

    rows[0] = 7.0
    sets[0].add("z")

    assert_allclose(by_rows.points(Gaussian(length_scale=1.0).kind), np.ones((2, 2)))
    assert by_sets.points(Jaccard().kind) == [{"a"}, {"b"}]


def test_it_grows(catalog):
    kind = Gaussian(length_scale=1.0).kind
    before = catalog.points(kind)

    assert catalog.add([[5.0], [6.0]], ids=["e", "f"]).tolist() == [4, 5]
    assert catalog.add([[7.0]], ids=["g"]).tolist() == [6]

    assert catalog.row("f") == 5
    assert before.shape == (4, 1)
    assert catalog.points(kind).ravel().tolist() == [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0]


def test_a_rejected_addition_adds_nothing(catalog):
    kind = Gaussian(length_scale=1.0).kind
    catalog.points(kind)

    with pytest.raises(InvalidParameter, match="'a' occurs twice"):
        catalog.add([[5.0]], ids=["a"])
    with pytest.raises(InvalidParameter, match="need theirs too"):
        catalog.add([[5.0]])
    with pytest.raises(InvalidContexts, match="columns"):
        catalog.add([[5.0, 6.0]], ids=["e"])
    with pytest.raises(InvalidParameter, match="cannot have them either"):
        Catalog([[1.0]]).add([[2.0]], ids=["e"])

    assert len(catalog) == catalog.points(kind).shape[0] == 4
    assert catalog.ids == ("a", "b", "c", 4)


def test_a_kernel_that_cannot_take_the_items_says_so_when_it_meets_them():
    with pytest.raises(InvalidContexts, match="compares strings"):
        Catalog([[1.0], [2.0]]).points(Spectrum(n=2).kind)


def test_restrictions_compose(catalog):
    view = catalog.only(["c", "a", 4]).without(["a"])

    assert view.rows.tolist() == [2, 3]
    assert view.ids == ["c", 4]
    assert len(view) == 2
    assert not view.is_whole
    assert catalog.without(["b"]).only(["b", "c"]).rows.tolist() == [2]
    assert view.points(Gaussian(length_scale=1.0).kind).ravel().tolist() == [2.0, 3.0]


def test_an_unknown_item_cannot_be_left_out(catalog):
    with pytest.raises(UnknownItem, match="'z'"):
        catalog.without(["z"])


def test_ids_are_a_collection(catalog):
    with pytest.raises(InvalidParameter, match="as a collection"):
        catalog.only("abc")


def test_something_has_to_be_left(catalog):
    with pytest.raises(InvalidContexts, match="No item is left"):
        catalog.only(["a"]).without(["a"])


def test_a_view_shows_what_was_there_when_it_was_made(catalog):
    whole = catalog.given([1.0])
    catalog.add([[9.0]], ids=["late"])

    assert len(whole) == 4
    assert whole.rows.tolist() == [0, 1, 2, 3]
    assert not whole.is_whole
    kernel = PairProduct(context=Gaussian(length_scale=1.0), action=Gaussian(length_scale=1.0))
    assert kernel.kind.count(whole.points(kernel.kind)) == 4


def test_items_are_joined_with_a_context(catalog):
    kernel = PairProduct(context=Gaussian(length_scale=1.0), action=Gaussian(length_scale=1.0))
    view = catalog.only(["b", "c"]).given([0.5])

    points = view.points(kernel.kind)

    assert_allclose(kernel.gram(points), kernel.gram(Pairs([0.5], [[1.0], [2.0]])))
    with pytest.raises(InvalidParameter, match="joined with a context already"):
        view.given([0.1])
    with pytest.raises(InvalidContexts, match="stand alone"):
        view.points(Gaussian(length_scale=1.0).kind)


# -- interrupts, threads, copies -------------------------------------------------------------------------------------

ROWS = np.arange(80.0).reshape(40, 2)
FORMS = {
    "rows": (Rows(), lambda rows: ROWS[rows]),
    "sparse rows": (Rows(), lambda rows: csr_array(ROWS[rows])),
    "strings": (Strings(), lambda rows: [f"item {row}" for row in rows]),
    "ids": (Ids(), lambda rows: [int(row) for row in rows]),
}


def made(form):
    """A catalog of six items in three chunks, with its canonical form."""
    kind, items = FORMS[form]
    catalog = Catalog(items(np.arange(4)), ids=["i0", "i1", "i2", "i3"])
    catalog.points(kind)
    for _ in range(2):
        add_next(catalog, form, 1)
    return catalog


def add_next(catalog, form, n_new):
    rows = np.arange(len(catalog), len(catalog) + n_new)
    return catalog.add(FORMS[form][1](rows), ids=[f"i{row}" for row in rows])


def seen(catalog, form):
    """All that a caller can see."""
    kind = FORMS[form][0]
    points = catalog.points(kind)
    found = [catalog.row(item) for item in catalog.ids]
    return len(catalog), catalog.ids, found, [repr(key) for key in kind.keys(points)]


@pytest.mark.parametrize("form", FORMS)
def test_an_interrupted_growth_adds_all_or_nothing(form):
    before, after, later = made(form), made(form), made(form)
    add_next(after, form, 2)
    add_next(later, form, 2)
    add_next(later, form, 1)
    n_interrupts = 0

    for catalog in interrupted_everywhere(lambda: made(form), lambda catalog: add_next(catalog, form, 2)):
        n_interrupts += 1
        assert seen(catalog, form) in (seen(before, form), seen(after, form))
        if len(catalog) == 6:
            add_next(catalog, form, 2)
        add_next(catalog, form, 1)
        assert seen(catalog, form) == seen(later, form)

    assert n_interrupts > 30


def test_a_growth_in_place_would_be_seen_by_this_test(monkeypatch):
    def grow_in_place(names, new):
        names.__init__([*names.listed(), *new])
        return names

    before, after = seen(made("rows"), "rows"), made("rows")
    add_next(after, "rows", 2)
    monkeypatch.setattr(GrowingNames, "grown", grow_in_place)

    interrupts = interrupted_everywhere(lambda: made("rows"), lambda catalog: add_next(catalog, "rows", 2))

    assert not all(seen(catalog, "rows") in (before, seen(after, "rows")) for catalog in interrupts)


def test_a_kernel_that_rejects_new_items_leaves_the_catalog_as_it_was():
    catalog = made("rows")

    for _ in range(2):
        with pytest.raises(InvalidContexts, match="3 columns; those learned before have 2"):
            catalog.add([[1.0, 2.0, 3.0]], ids=["x"])
    add_next(catalog, "rows", 1)

    assert_array_equal(catalog.points(Rows()), ROWS[:7])


def test_a_growth_from_a_signal_handler_comes_first(monkeypatch):
    catalog, grown = made("strings"), GrowingNames.grown
    interruptions = [lambda: catalog.add(["first"], ids=["first"])]

    def interrupted(names, new):
        if interruptions:
            interruptions.pop()()
        return grown(names, new)

    monkeypatch.setattr(GrowingNames, "grown", interrupted)
    rows = catalog.add(["second"], ids=["second"])

    assert rows.tolist() == [7]
    assert catalog.ids[-2:] == ("first", "second")
    assert catalog.points(Strings())[-2:] == ["first", "second"]


@pytest.mark.parametrize("form", FORMS)
def test_a_catalog_answers_in_all_threads_while_it_grows(form):
    catalog, (kind, items) = made(form), FORMS[form]
    expected = [repr(key) for key in kind.keys(kind.check(items(np.arange(40))))]
    failures, interval = [], sys.getswitchinterval()

    def read(fresh):
        while len(catalog) < 40:
            ids = catalog.ids
            keys = [repr(key) for key in kind.keys(catalog.points(kind))]
            view = catalog.without(["i0"])
            shown = [repr(key) for key in kind.keys(view.points(fresh))]
            if not len(ids) <= len(keys) <= len(catalog) or keys != expected[: len(keys)]:
                failures.append(keys)
            if shown != expected[1 : 1 + len(view)] or ids != tuple(f"i{row}" for row in range(len(ids))):
                failures.append(shown)
            if catalog.row(catalog.item(len(ids) - 1)) != len(ids) - 1:
                failures.append(ids)

    sys.setswitchinterval(1e-6)
    try:
        readers = [Thread(target=read, args=(type(kind)(),)) for _ in range(3)]
        for reader in readers:
            reader.start()
        while len(catalog) < 40:
            add_next(catalog, form, 1)
        for reader in readers:
            reader.join()
    finally:
        sys.setswitchinterval(interval)

    assert not failures


def test_a_copy_of_a_catalog_is_the_catalog(catalog):
    assert copy.copy(catalog) is catalog
    assert copy.deepcopy(catalog) is catalog
    assert copy.deepcopy(catalog.without(["a"])).catalog is catalog


@pytest.mark.parametrize("form", FORMS)
def test_a_pickled_catalog_is_another_one_and_grows_alike(form):
    catalog = made(form)

    thawed = pickle.loads(pickle.dumps(catalog))
    add_next(thawed, form, 2)

    assert len(catalog) == 6
    add_next(catalog, form, 2)
    assert seen(thawed, form) == seen(catalog, form)


# -- odd items -------------------------------------------------------------------------------------------------------


def test_a_frame_is_rows_of_numbers_and_nothing_else():
    pandas = pytest.importorskip("pandas")
    catalog = Catalog(pandas.DataFrame({"a": [0.0, 1.0], "b": [2.0, 3.0]}))

    assert len(catalog) == 2
    assert_array_equal(catalog.points(Rows()), [[0.0, 2.0], [1.0, 3.0]])
    with pytest.raises(InvalidContexts, match="one entry an action, got DataFrame"):
        catalog.points(Strings())
    with pytest.raises(InvalidContexts, match="rows of real numbers, got DataFrame"):
        Catalog(pandas.DataFrame({"a": ["x", "y"]})).points(Rows())


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([[1.0, 2.0], [3.0]], "rows of equal length"),
        (np.array([[1.0], ["x"]], dtype=object), "rows of real numbers"),
        (np.ma.masked_array([[1.0], [2.0]], mask=[[False], [True]]), "masked"),
        (np.array([[1.0 + 1j]]), "rows of real numbers"),
        (np.array([(1.0, 2)], dtype=[("a", float), ("b", int)]), "rows of real numbers"),
        (np.zeros((2, 2, 2)), "2-d"),
        ([None, None], "rows of real numbers"),
        ([[1.0], [np.nan]], "finite"),
    ],
)
def test_odd_items_are_rejected_in_words(items, message):
    with pytest.raises(InvalidContexts, match=message):
        Catalog(items).points(Rows())


def test_items_that_cannot_be_copied_are_rejected():
    with pytest.raises(InvalidContexts, match="one of these cannot be"):
        Catalog([sys.settrace, (number for number in [1])])


def test_a_row_that_is_not_there_has_no_id(catalog):
    with pytest.raises(UnknownItem, match="No row 4 in this catalog; its rows are 0 to 3"):
        catalog.item(4)


def test_an_item_that_cannot_be_an_id_is_unknown(catalog):
    with pytest.raises(UnknownItem, match="No item"):
        catalog.row([1])


# -- removal -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_catalog_without_items_is_one_that_never_had_them(form):
    catalog, (kind, items) = made(form), FORMS[form]
    catalog.remove(["i4", "i1"])
    add_next_named(catalog, form, 7, "i1")

    rows = np.array([0, 2, 3, 5, 7])
    fresh = Catalog(items(rows), ids=["i0", "i2", "i3", "i5", "i1"])
    fresh.points(kind)

    assert seen(catalog, form) == seen(fresh, form)
    thawed = pickle.loads(pickle.dumps(catalog))
    assert seen(thawed, form) == seen(fresh, form)


def add_next_named(catalog, form, row, name):
    return catalog.add(FORMS[form][1](np.array([row])), ids=[name])


def test_a_removed_item_is_unknown_and_its_id_is_free(catalog):
    n_items = len(catalog)
    catalog.remove(iter(["b"]))

    assert len(catalog) == n_items - 1
    with pytest.raises(UnknownItem, match="No item 'b' in this catalog"):
        catalog.row("b")
    assert catalog.add([[9.0]], ids=["b"]).tolist() == [n_items - 1]
    assert catalog.item(n_items - 1) == "b"


def test_an_earlier_view_still_holds_removed_items(catalog):
    view, ids = catalog.without(["a"]), catalog.ids
    catalog.remove(["b"])

    assert view.ids == list(ids[1:])
    assert_array_equal(view.points(Rows()), np.arange(1.0, len(ids))[:, None])
    assert view.only(["b"]).ids == ["b"]
    assert not view.is_whole
    assert not view.without(["b"]).is_whole


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (["a", "x"], UnknownItem, "No item 'x' in this catalog.*New items come by catalog.add"),
        ("a", InvalidParameter, "Ids are given as a collection"),
        (7, InvalidParameter, "Ids are given as a collection"),
        ([["a"]], UnknownItem, "No item"),
    ],
)
def test_a_rejected_removal_removes_nothing(catalog, ids, error, message):
    before = catalog.ids

    with pytest.raises(error, match=message):
        catalog.remove(ids)

    assert catalog.ids == before


def test_a_catalog_keeps_one_item_and_its_rows(catalog):
    with pytest.raises(InvalidParameter, match="at least one item"):
        catalog.remove(catalog.ids)
    with pytest.raises(InvalidParameter, match=r"identified by their rows.*catalog.without\(rows\)"):
        Catalog([[0.0], [1.0]]).remove([0])
    catalog.remove([])
    assert catalog.only(["a"]).rows.tolist() == [0]


@pytest.mark.parametrize("form", FORMS)
def test_an_interrupted_removal_removes_all_or_nothing(form):
    before, after = made(form), made(form)
    after.remove(["i1", "i4"])
    n_interrupts = 0

    for catalog in interrupted_everywhere(lambda: made(form), lambda catalog: catalog.remove(["i1", "i4"])):
        n_interrupts += 1
        assert seen(catalog, form) in (seen(before, form), seen(after, form))
        if len(catalog) == 6:
            catalog.remove(["i1", "i4"])
        assert seen(catalog, form) == seen(after, form)

    assert n_interrupts > 20


def test_a_removal_from_a_signal_handler_comes_first(monkeypatch):
    catalog, taken = made("strings"), catalog_module._taken
    interruptions = [lambda: catalog.remove(["i0"])]

    def interrupted(*arguments):
        if interruptions:
            interruptions.pop()()
        return taken(*arguments)

    monkeypatch.setattr(catalog_module, "_taken", interrupted)
    generation = catalog._now.generation
    catalog.remove(["i1"])

    assert catalog.ids == ("i2", "i3", "i4", "i5")
    assert generation.end[1].end[1] is catalog._now.generation


def test_a_catalog_answers_in_all_threads_while_it_shrinks():
    n_items = 200
    catalog = Catalog([[float(row)] for row in range(n_items)], ids=list(range(n_items)))
    failures, interval = [], sys.getswitchinterval()

    def read():
        while len(catalog) > 1:
            try:
                view = catalog.without([0])
            except InvalidContexts:  # the only other item was removed in between
                break
            rows = view.points(Rows())
            if view.ids != rows[:, 0].astype(int).tolist():
                failures.append(view.ids)

    sys.setswitchinterval(1e-6)
    try:
        readers = [Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for row in range(n_items - 1, 1, -1):
            catalog.remove([row])
        catalog.remove([1])
    finally:
        sys.setswitchinterval(interval)
        for reader in readers:
            reader.join()

    assert not failures


@pytest.mark.parametrize("passes", ["one call", "one long call", "several passes"])
def test_contexts_that_are_no_items_narrow_no_candidates(monkeypatch, passes):
    """A point beside the catalog may have a higher score than all items: it is no threshold for them."""
    if passes != "one call":
        monkeypatch.setattr(column_log, "ENTRIES_PER_CALL", 0)
        monkeypatch.setattr(column_log, "threads_for", lambda *given: 2 if passes == "several passes" else 1)
    rng = np.random.default_rng(0)
    items, outside = rng.uniform(size=(300, 2)), rng.uniform(0.8, 1.2, size=(4, 2))
    catalog = kb.Catalog(items)
    policies = [kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.2, exploration=0.4) for _ in range(2)]

    for t in range(60):
        chosen = [policy.choose(given) for policy, given in zip(policies, (catalog, items), strict=True)]
        assert chosen[0].action == chosen[1].action
        assert chosen[0].score == pytest.approx(chosen[1].score, abs=1e-9)
        reward = float(np.sin(5.0 * chosen[0].context.sum()))
        for policy, decision in zip(policies, chosen, strict=True):
            if t % 3:
                policy.learn(decision, reward)
            else:
                policy.learn(policy.choose(outside[[t // 3 % 4]]), 3.0)
