import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import Catalog, Pairs
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter


def a_log(**changes):
    columns = {
        "rounds": [
            np.eye(2),
            ["a", "b", "c"],
            Pairs(np.zeros(2), np.eye(4)),
            csr_array(np.eye(5)),
            Catalog(list("abcdef")),
        ],
        "actions": [1, 2, 3, 4, 5],
        "propensities": [0.5, 0.25, 1.0, 0.1, 0.2],
        "rewards": [1, 0, -2.5, 0, 3],
    }
    return Log(**{**columns, **changes})


def test_counts_actions_of_every_kind():
    assert a_log().n_actions.tolist() == [2, 3, 4, 5, 6]


def test_a_part_keeps_rows_together():
    log = a_log(ids=[list("xy"), list("abc"), list("pqrs"), list("klmno"), list("abcdef")])

    part = log[[3, 1]]

    assert_array_equal(part.actions, [4, 2])
    assert_array_equal(part.rewards, [0.0, 0.0])
    assert part.ids_of(1) == list("abc")
    assert part.rounds[1] == ["a", "b", "c"]


def test_an_empty_log_is_a_log():
    assert len(Log([], [], [], [])) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": [1.0]}, "one entry per round"),
        ({"ids": [["a"]]}, "one entry per round"),
        ({"propensities": [0.5, 0.25, 0.0, 0.1, 0.2]}, "above 0 and at most 1, got .*0.0.* in round 2"),
        ({"propensities": [0.5, 0.25, 1.5, 0.1, 0.2]}, "above 0 and at most 1"),
        ({"propensities": [0.5, 0.25, np.nan, 0.1, 0.2]}, "finite"),
        ({"rewards": [1, 0, np.inf, 0, 0]}, "finite"),
        ({"actions": [1, 3, 3, 4, 5]}, "Round 1 has actions 0 to 2, got 3"),
        ({"actions": [-1, 2, 3, 4, 5]}, "Round 0 has actions 0 to 1, got -1"),
        ({"actions": [0.5, 2, 3, 4, 5]}, "whole numbers"),
        ({"ids": [list("xy"), list("ab"), list("pqrs"), list("klmno"), list("abcdef")]}, "round 1 has 3 .* 2 names"),
        ({"rounds": "abcde"}, "sequence of sets of actions, got str"),
        ({"rounds": iter([["a"]])}, "sequence of sets of actions, got list_iterator"),
        ({"rounds": [np.eye(2), 3, 4, 5, 6]}, "one entry per action, got int in round 1: 3"),
        ({"rounds": [np.array(2.0)] * 5}, "one entry per action, got ndarray in round 0"),
    ],
)
def test_what_no_rule_could_have_done_is_refused(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        a_log(**changes)


def test_rounds_and_ids_may_be_views_of_memory():
    rounds, ids = np.arange(12.0).reshape(2, 3, 2), np.arange(6).reshape(2, 3)

    log = Log(memoryview(rounds), [0, 2], [0.5, 0.5], [1.0, 0.0], memoryview(ids))

    assert log.n_actions.tolist() == [3, 3]
    np.testing.assert_array_equal(log[1:].rounds[0], rounds[1])
    np.testing.assert_array_equal(log.ids_of(1), ids[1])
