from math import inf

import numpy as np
import pytest

from kernelbandits.errors import NotLearnt
from kernelbandits.posterior.history import History, exact_sum

ENTRIES = [("a", 1.0), ("b", 2.0), ("a", 3.0), ("c", 4.0), ("a", 1.0)]


def test_entries_come_back_in_their_order():
    history = History(ENTRIES)

    assert list(history) == ENTRIES
    assert (len(history), history.size) == (5, 3)


def test_the_oldest_are_forgotten_first():
    history = History(ENTRIES)

    assert history.oldest(1) == {"a": 1}
    assert history.oldest(3) == {"a": 2, "b": 1}
    assert history.oldest(9) == {"a": 3, "b": 1, "c": 1}
    assert history.rest("a", 2) == [1.0]
    history.forget(3)
    assert list(history) == ENTRIES[3:]
    assert history.size == 2


def test_a_change_goes_to_the_latest_of_a_point_and_leaves_the_original():
    history = History(ENTRIES)

    changed = history.amended([("a", 0.5), ("b", -1.0), ("a", 0.25)])

    assert list(changed) == [("a", 1.0), ("b", 1.0), ("a", 3.0), ("c", 4.0), ("a", 1.75)]
    assert list(history) == ENTRIES


def test_what_is_taken_is_the_latest_of_point_and_reward():
    history = History(ENTRIES)

    assert list(history.without([("a", 1.0)])) == ENTRIES[:4]
    assert list(history.without([("a", 1.0), ("a", 1.0 + 1e-12)])) == ENTRIES[1:4]
    assert list(history.without([("a", 3.0)])) == [*ENTRIES[:2], *ENTRIES[3:]]
    assert list(history) == ENTRIES


@pytest.mark.parametrize(
    "change",
    [
        lambda history: history.amended([("a", 1.0), ("d", 1.0)]),
        lambda history: history.without([("d", 1.0)]),
        lambda history: history.without([("a", 1.001)]),
        lambda history: history.without([("b", 2.0), ("b", 2.0)]),
    ],
)
def test_what_is_not_remembered_is_refused(change):
    with pytest.raises(NotLearnt, match="remembered"):
        change(History(ENTRIES))


def test_totals_are_weighted_sums():
    weights = np.array([0.1, 0.2, 0.4, 0.5, 1.0])

    totals = History(ENTRIES).totals(weights)

    assert totals == {"a": pytest.approx((1.5, 2.3)), "b": pytest.approx((0.2, 0.4)), "c": pytest.approx((0.5, 2.0))}


def test_sums_are_rounded_once_and_an_overflow_is_infinite():
    assert exact_sum([1e16, 1.0, -1e16]) == 1.0
    assert exact_sum([1.7e308, 1.7e308]) == inf
