import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbandits.errors import CannotSave, InvalidContexts
from kernelbandits.kernels import Ids, Objects, Sets, Strings
from kernelbandits.kernels.sequences import pack_strings, unpack_strings

ANY_TEXT = st.text(st.characters(), max_size=6)  # surrogates and zeros too
ANY_ID = st.one_of(st.integers(), ANY_TEXT)


@given(st.lists(ANY_TEXT))
def test_any_strings_survive_packing(strings):
    arrays = pack_strings(strings)

    assert unpack_strings(arrays) == strings
    assert not any(array.dtype.hasobject for array in arrays.values())


@given(st.lists(ANY_ID, min_size=1))
def test_any_ids_survive_packing(ids):
    back = Ids().unpack(Ids().pack(Ids().check(ids)))

    assert back == ids
    assert [type(item) for item in back] == [type(item) for item in ids]


@given(st.lists(st.frozensets(ANY_ID, max_size=4), min_size=1))
def test_any_sets_survive_packing(sets):
    assert Sets().unpack(Sets().pack(Sets().check(sets))) == sets


@pytest.mark.parametrize(
    "points", [["a", "b"], ("a", "b"), np.array(["a", "b"]), iter(["a", "b"]), {"a": 1, "b": 2}.keys()]
)
def test_strings_come_in_any_ordered_collection(points):
    checked = Strings().check(points)

    assert checked == ["a", "b"]
    assert {type(text) for text in checked} == {str}


@pytest.mark.parametrize("points", ["ab", b"ab", 3, None, {"a", "b"}, frozenset("ab"), {"a": 1}, np.array("a")])
def test_what_has_no_order_is_no_collection(points):
    with pytest.raises(InvalidContexts, match="Contexts must be a sequence, one entry an action, got"):
        Strings().check(points)


@pytest.mark.parametrize("kind", [Strings(), Ids(), Sets(), Objects()])
def test_there_is_at_least_one_context(kind):
    with pytest.raises(InvalidContexts, match="There must be at least one context, got none"):
        kind.check([])


@pytest.mark.parametrize("point", [1, None, b"a", ["a"]])
def test_a_string_is_a_string(point):
    with pytest.raises(InvalidContexts, match="This kernel compares strings, got"):
        Strings().check(["a", point])


@pytest.mark.parametrize("point", [1.0, True, np.bool_(True), None, b"a", ("a",)])
def test_an_id_is_an_integer_or_a_string(point):
    with pytest.raises(InvalidContexts, match="An id is an integer or a string, got"):
        Ids().check(["a", point])


def test_ids_of_any_integer_type_are_the_same_id():
    checked = Ids().check([1, np.int8(1), np.uint64(1), "1"])

    assert checked == [1, 1, 1, "1"]
    assert {type(item) for item in checked} == {int, str}


@pytest.mark.parametrize("point", ["abc", {"a": 1}, 3, None, b"a"])
def test_a_set_is_a_collection_of_members(point):
    with pytest.raises(InvalidContexts, match="This kernel compares sets, got"):
        Sets().check([{"a"}, point])


def test_members_of_sets_are_ids():
    assert Sets().check([["a", "a", 1], (), {"b"}]) == [frozenset({"a", 1}), frozenset(), frozenset({"b"})]
    with pytest.raises(InvalidContexts, match="An id is an integer or a string, got float"):
        Sets().check([{1.5}])


def test_objects_are_distinguished_by_their_key():
    kind = Objects(key=lambda graph: tuple(sorted(graph["edges"])))
    graphs = kind.check([{"edges": [(1, 2), (0, 1)]}, {"edges": [(0, 1), (1, 2)]}, {"edges": []}])

    keys = kind.keys(graphs)

    assert keys[0] == keys[1] != keys[2]


def test_objects_without_a_usable_key_are_rejected():
    with pytest.raises(InvalidContexts, match=r"Points of type dict cannot be compared: .*Objects\(key=...\)"):
        Objects().check([{"a": 1}])


def test_objects_are_saved_by_functions_of_their_owner():
    kind = Objects(
        pack=lambda points: {"real": np.array([p.real for p in points]), "imag": np.array([p.imag for p in points])},
        unpack=lambda arrays: [complex(a, b) for a, b in zip(arrays["real"], arrays["imag"], strict=True)],
    )

    assert kind.unpack(kind.pack([1 + 2j, 3j])) == [1 + 2j, 3j]
    with pytest.raises(CannotSave, match=r"Saving needs Objects\(pack=..., unpack=...\)"):
        Objects().pack([1j])
    with pytest.raises(CannotSave, match=r"Loading needs Objects\(pack=..., unpack=...\)"):
        Objects().unpack({})


def test_kinds_are_equal_when_they_treat_points_alike():
    key = len

    assert Strings() == Strings()
    assert hash(Strings()) == hash(Strings())
    assert Strings() != Ids()
    assert Objects(key=key) == Objects(key=key)
    assert Objects(key=key) != Objects()
    assert repr(Sets()) == "Sets()"


def test_a_view_of_part_of_a_store_leaves_the_rest():
    store = Strings().grow(None, 0, ["a", "b", "c"])

    assert Strings().view(store, 2) == ["a", "b"]
    assert Strings().view(Strings().grow(store, 1, ["z"]), 2) == ["a", "z"]
