from math import inf

import numpy as np
import pytest

from kernelbandits._transactions import Journal
from kernelbandits.errors import NotLearnt
from kernelbandits.posterior.discounted import History, Known, exact_sum

ENTRIES = [("a", 1.0), ("b", 2.0), ("a", 3.0), ("c", 4.0), ("a", 1.0)]


def make_history(journal=None):
    history = History(Journal() if journal is None else journal)
    history.append(ENTRIES)
    return history


def known(key, reward, number=None):
    return Known(key, reward, number)


def test_entries_come_back_in_their_order():
    history = make_history()

    assert list(history) == ENTRIES
    assert (len(history), history.size) == (5, 3)


def test_the_oldest_are_forgotten_first():
    history = make_history()

    assert history.oldest(1) == {"a": 1}
    assert history.oldest(3) == {"a": 2, "b": 1}
    assert history.oldest(9) == {"a": 3, "b": 1, "c": 1}
    assert history.rest("a", 2) == [1.0]
    history.forget(3)
    assert list(history) == ENTRIES[3:]
    assert history.size == 2


def test_a_change_goes_to_the_latest_of_point_and_reward_and_leaves_the_original():
    history = make_history()

    changed = history.amended([known("a", 1.0), known("b", 2.0)], [1.75, 1.0])

    assert list(changed) == [("a", 1.0), ("b", 1.0), ("a", 3.0), ("c", 4.0), ("a", 1.75)]
    assert list(history) == ENTRIES


def test_a_number_names_one_observation_for_good():
    history = make_history()
    history.forget(1)
    history.append([("a", 7.0)])

    assert history.last == 6
    assert list(history.amended([known("a", 3.0, 3)], [9.0])) == [("b", 2.0), ("a", 9.0), *ENTRIES[3:], ("a", 7.0)]
    assert list(history.without([known("a", 1.0, 5)])) == [*ENTRIES[1:4], ("a", 7.0)]
    for wrong in (known("a", 1.0, 1), known("b", 2.0, 3), known("a", 1.0, 7)):
        with pytest.raises(NotLearnt, match="remembered"):
            history.without([wrong])


def test_appending_and_forgetting_are_rolled_back():
    journal = Journal()
    history = make_history(journal)
    journal.commit()

    history.forget(2)
    history.append([("a", 7.0), ("d", 8.0)], skipped=3)
    assert (len(history), history.last) == (5, 10)
    journal.roll_back()

    assert list(history) == ENTRIES
    assert (history.last, history.size, history.rest("a", 0)) == (5, 3, [1.0, 3.0, 1.0])


def test_what_is_taken_is_the_latest_of_point_and_reward():
    history = make_history()

    assert list(history.without([known("a", 1.0)])) == ENTRIES[:4]
    assert list(history.without([known("a", 1.0), known("a", 1.0 + 1e-12)])) == ENTRIES[1:4]
    assert list(history.without([known("a", 3.0)])) == [*ENTRIES[:2], *ENTRIES[3:]]
    assert list(history) == ENTRIES


@pytest.mark.parametrize(
    "change",
    [
        lambda history: history.amended([known("a", 1.0), known("d", 1.0)], [0.0, 0.0]),
        lambda history: history.without([known("d", 1.0)]),
        lambda history: history.without([known("a", 1.001)]),
        lambda history: history.without([known("b", 2.0), known("b", 2.0)]),
    ],
)
def test_what_is_not_remembered_is_rejected(change):
    with pytest.raises(NotLearnt, match="remembered"):
        change(make_history())


def test_totals_are_weighted_sums():
    weights = np.array([0.1, 0.2, 0.4, 0.5, 1.0])

    totals = make_history().totals(weights)

    assert totals == {"a": pytest.approx((1.5, 2.3)), "b": pytest.approx((0.2, 0.4)), "c": pytest.approx((0.5, 2.0))}


def test_sums_are_rounded_once_and_an_overflow_is_infinite():
    assert exact_sum([1e16, 1.0, -1e16]) == 1.0
    assert exact_sum([1.7e308, 1.7e308]) == inf
