"""Click logs with one row per impression, and tables of slates."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits import Pairs
from kernelbandits.adapters import log_from_frame, log_to_frame
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from unit.adapters.logs import assert_same_log

CLICKS = {"user": [0.1, 0.2, 0.3], "item": ["b", "a", "b"], "clicked": [1, 0, 0], "p": [0.6, 0.2, 0.5]}
ITEMS = {"item": ["a", "b", "c"], "price": [0.2, 0.5, 0.9], "size": [1.0, 2.0, 3.0]}
NAMES = {"action": "item", "reward": "clicked", "propensity": "p"}
FEATURES = {"features": ["price", "size"]}


def frames(kind, *tables):
    if kind == "dict":
        return tables
    package = pytest.importorskip("pyarrow" if kind == "arrow" else kind)
    make = package.table if kind == "arrow" else package.DataFrame
    return tuple(make(table) for table in tables)


KINDS = ["dict", "pandas", "polars", "arrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_items_are_candidates_of_every_impression(kind):
    clicks, items = frames(kind, CLICKS, ITEMS)

    log = log_from_frame(clicks, **NAMES, **FEATURES, candidates=items)

    assert (log.actions.tolist(), log.rewards.tolist(), log.propensities.tolist()) == (
        [1, 0, 1],
        [1, 0, 0],
        [0.6, 0.2, 0.5],
    )
    assert_array_equal(log.rounds[2], [[0.2, 1.0], [0.5, 2.0], [0.9, 3.0]])
    assert log.ids_of(0) == ["a", "b", "c"]
    assert log.rounds[0] is log.rounds[2]  # so that a policy is queried once
    assert log.ids_of(0) is log.ids_of(2)


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_may_differ_between_rounds(kind):
    clicks = {**CLICKS, "t": [7, 8, 9]}
    offered = {
        "t": [9, 7, 8, 7, 9, 8, 6],
        "item": ["c", "b", "a", "a", "b", "c", "a"],
        "price": [0.9, 0.5, 0.2, 0.2, 0.6, 0.8, 0.0],
    }
    clicks, offered = frames(kind, clicks, offered)

    log = log_from_frame(clicks, **NAMES, round="t", features=["price"], candidates=offered)

    assert [list(ids) for ids in log.ids] == [["b", "a"], ["a", "c"], ["c", "b"]]
    assert log.actions.tolist() == [0, 0, 1]
    assert_array_equal(log.rounds[2], [[0.9], [0.6]])


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_may_be_listed_in_a_column(kind):
    clicks, items = frames(kind, {**CLICKS, "from": [["a", "b"], ["c", "a"], ["a", "b"]]}, ITEMS)

    log = log_from_frame(clicks, **NAMES, features=["price"], candidates="from", items=items, context=["user"])

    assert [points.actions.ravel().tolist() for points in log.rounds] == [[0.2, 0.5], [0.9, 0.2], [0.2, 0.5]]
    assert [points.context.tolist() for points in log.rounds] == [[0.1], [0.2], [0.3]]
    assert log.actions.tolist() == [1, 1, 1]
    of_ids = log_from_frame(clicks, **NAMES, candidates="from")
    assert of_ids.rounds[1] == ["c", "a"]
    assert of_ids.rounds[0] is of_ids.rounds[2]


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_of_rounds_may_be_ids_whose_features_are_in_a_table_of_items(kind):
    offered = {"t": [9, 7, 8, 8, 7, 9], "item": ["a", "a", "c", "a", "b", "b"]}
    clicks, offered, items = frames(kind, {**CLICKS, "t": [7, 8, 9]}, offered, ITEMS)

    log = log_from_frame(clicks, **NAMES, **FEATURES, round="t", candidates=offered, items=items)

    assert [log.ids_of(t) for t in range(3)] == [["a", "b"], ["c", "a"], ["a", "b"]]
    assert [rows.tolist() for rows in log.rounds[:2]] == [[[0.2, 1.0], [0.5, 2.0]], [[0.9, 3.0], [0.2, 1.0]]]
    assert log.rounds[0] is log.rounds[2]
    everywhere = log_from_frame(clicks, **NAMES, **FEATURES, candidates={"item": ["b", "a"]}, items=items)
    assert everywhere.rounds[1].tolist() == [[0.5, 2.0], [0.2, 1.0]]
    assert everywhere.rounds[0] is everywhere.rounds[2]


def test_whole_numbers_are_ids_too():
    clicks = {**CLICKS, "item": np.array([3, 1, 3])}

    log = log_from_frame(clicks, **NAMES, candidates={"item": np.array([1, 2, 3])})

    assert (log.rounds[0], log.ids_of(0), log.actions.tolist()) == ([1, 2, 3], [1, 2, 3], [2, 0, 2])
    listed = log_from_frame({**clicks, "from": [[3, 1]] * 3}, **NAMES, candidates="from")
    assert (listed.rounds[0], listed.actions.tolist()) == ([3, 1], [0, 1, 0])


def test_impressions_without_candidates_are_rejected():
    """Negative control: the same table in long form, with the rows that were not shown, is a log."""
    clicks = {**CLICKS, "t": [7, 8, 9]}
    with pytest.raises(InvalidParameter, match=r"one row, so one action.*candidates=…"):
        log_from_frame(clicks, **NAMES, round="t", features=["user"])
    with pytest.raises(InvalidParameter, match=r"round=….*candidates=…"):
        log_from_frame(clicks, **NAMES, features=["user"])

    longer = {name: [*column, column[0]] for name, column in clicks.items()} | {"t": [7, 8, 9, 9]}
    longer = {**longer, "item": ["b", "a", "b", "a"], "clicked": [1, 0, 0, None]}
    assert log_from_frame(longer, **NAMES, round="t", features=["user"]).n_actions.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"item": ["b", "z", "b"]}, {"candidates": ITEMS}, "one of the candidates, and 'z' of round 1"),
        ({"clicked": [1, None, 0]}, {"candidates": ITEMS}, "must have its 'clicked'"),
        ({}, {"candidates": ITEMS, "chosen": "clicked"}, "`chosen` is left out"),
        ({}, {"candidates": ITEMS, "action": None}, "`action` is the column"),
        ({}, {"candidates": ITEMS, "items": ITEMS, "features": None}, "both `items` and `features`"),
        ({}, {"candidates": {"item": ["a", "b", "z"]}, "items": ITEMS}, "`items`, and 'z' is not"),
        ({}, {"items": ITEMS}, "candidates=…"),
        ({}, {"candidates": {**ITEMS, "item": ["a", "b", "a"]}}, "unique, and 'a'"),
        ({}, {"candidates": {**ITEMS, "t": [7, 7, 8]}, "round": "t"}, "round 9 has none"),
        ({"t": [7, 7, 9]}, {"candidates": ITEMS, "round": "t"}, "round 7 has 2 rows.*place=…"),
        ({"from": [["a"]] * 3}, {"candidates": "from"}, "both `items` and `features`"),
        ({"from": [["a", "z"]] * 3}, {"candidates": "from", "items": ITEMS}, "`items`, and 'z' is not"),
        ({"from": ["ab"] * 3}, {"candidates": "from", "items": ITEMS}, "must be a list"),
        ({}, {"candidates": "nowhere", "items": ITEMS}, "no column 'nowhere'"),
        ({}, {"candidates": ITEMS, "place_propensity": "p"}, "place=…"),
    ],
)
def test_anything_but_a_log_is_rejected(changed, options, message):
    with pytest.raises(InvalidParameter, match=message):
        log_from_frame({**CLICKS, "t": [7, 8, 9], **changed}, **{**NAMES, **FEATURES, **options})


def slates(with_places, kind="rows", seed=2):
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 6, size=6)
    rounds = [rng.normal(size=(n, 2)) for n in counts]
    if kind == "pairs":
        rounds = [Pairs(rng.normal(size=2), rows) for rows in rounds]
    return Log(
        rounds,
        np.array([rng.permutation(n)[:2] for n in counts]),
        rng.uniform(0.1, 1.0, size=(6, 2)),
        rng.normal(size=(6, 2)),
        [[f"a{row}" for row in rng.permutation(n)] for n in counts],
        place_propensities=rng.uniform(0.1, 1.0, size=(6, 2)) if with_places else None,
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("points", ["rows", "pairs"])
@pytest.mark.parametrize("with_places", [False, True])
def test_slates_go_there_and_back(kind, points, with_places):
    pytest.importorskip("pyarrow" if kind == "arrow" else kind)
    log = slates(with_places, points)

    again = log_from_frame(
        log_to_frame(log, kind),
        round="round",
        action="action",
        reward="reward",
        propensity="propensity",
        features=["feature_0", "feature_1"],
        context=["context_0", "context_1"] if points == "pairs" else (),
        place="place",
        place_propensity="place_propensity" if with_places else None,
    )

    assert_same_log(log, again)
    if with_places:
        assert_array_equal(again.place_propensities, log.place_propensities)
    assert again.k == 2


def test_slates_of_impressions_are_rows_with_places():
    clicks = {
        "t": [1, 2, 1, 2],
        "item": ["a", "c", "b", "a"],
        "clicked": [0, 1, 1, 0],
        "p": [0.4, 0.3, 0.5, 0.6],
        "at": [1, 0, 0, 1],
    }

    log = log_from_frame(clicks, **NAMES, **FEATURES, round="t", place="at", candidates=ITEMS)

    assert log.actions.tolist() == [[1, 0], [2, 0]]
    assert (log.rewards.tolist(), log.propensities.tolist()) == ([[1, 0], [1, 0]], [[0.5, 0.4], [0.3, 0.6]])


@pytest.mark.parametrize(
    ("at", "message"), [([1, 0, 2, 1], r"places 0, 1, …"), ([0, 0, 0, 1], "places 0"), ([0, 0, 1, None], "same length")]
)
def test_places_count_from_0(at, message):
    clicks = {"t": [1, 2, 1, 2], "item": list("acba"), "clicked": [0, 1, 1, 0], "p": [0.4, 0.3, 0.5, 0.6], "at": at}
    with pytest.raises(InvalidParameter, match=message):
        log_from_frame(clicks, **NAMES, **FEATURES, round="t", place="at", candidates=ITEMS)
