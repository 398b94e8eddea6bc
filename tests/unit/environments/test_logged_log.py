import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import Catalog, Pairs
from kernelbandits.environments import Log, Logged, click_rewards
from kernelbandits.errors import InvalidParameter, NotSupported


def make_log(**changes):
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
    assert make_log().n_actions.tolist() == [2, 3, 4, 5, 6]


def test_a_part_keeps_rows_together():
    log = make_log(ids=[list("xy"), list("abc"), list("pqrs"), list("klmno"), list("abcdef")])

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
def test_what_no_rule_could_have_done_is_rejected(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        make_log(**changes)


def test_rounds_and_ids_may_be_views_of_memory():
    rounds, ids = np.arange(12.0).reshape(2, 3, 2), np.arange(6).reshape(2, 3)

    log = Log(memoryview(rounds), [0, 2], [0.5, 0.5], [1.0, 0.0], memoryview(ids))

    assert log.n_actions.tolist() == [3, 3]
    np.testing.assert_array_equal(log[1:].rounds[0], rounds[1])
    np.testing.assert_array_equal(log.ids_of(1), ids[1])


class TestSlates:
    def slates(self, **changed):
        values = {
            "rounds": [list("abc"), list("abcd")],
            "actions": [[2, 0], [1, 3]],
            "propensities": [[0.5, 0.25], [0.2, 0.4]],
            "rewards": [[0.0, 1.0], [0.5, 0.0]],
        }
        return Log(**{**values, **changed})

    def test_a_row_per_round_and_a_column_per_place(self):
        log = self.slates(place_propensities=[[0.5, 0.3], [0.2, 0.3]], ids=[list("ABC"), list("ABCD")])

        assert (len(log), log.k, log.n_actions.tolist()) == (2, 2, [3, 4])
        assert log[1:].place_propensities.tolist() == [[0.2, 0.3]]
        assert log[[True, False]].actions.tolist() == [[2, 0]]
        assert Log([["a"]], [0], [1.0], [0.0]).k is None

    def test_a_place_is_a_log_of_single_actions(self):
        place = self.slates(ids=[list("ABC"), list("ABCD")]).at_place(1)

        assert (place.k, place.actions.tolist(), place.rewards.tolist()) == (None, [0, 3], [1.0, 0.0])
        assert (place.propensities.tolist(), place.ids_of(0)) == ([0.25, 0.4], list("ABC"))
        for wrong in (2, -1, 0.5):
            with pytest.raises(InvalidParameter, match=r"[Aa] place"):
                self.slates().at_place(wrong)
        with pytest.raises(InvalidParameter, match="k = None"):
            place.at_place(0)

    def test_observations_follow_the_places(self):
        found = list(self.slates(ids=[list("ABC"), list("ABCD")]).observations())

        assert found == [(["c"], "C", 0.0), (["a"], "A", 1.0), (["b"], "B", 0.5), (["d"], "D", 0.0)]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"actions": [[2, 2], [1, 3]]}, r"each action once, got the rows \[2 2\] in round 0"),
            ({"actions": [[2, 0], [1, 4]]}, "Round 1 has actions 0 to 3"),
            ({"actions": [[2, 0], [-1, 3]]}, "Round 1 has actions 0 to 3"),
            ({"actions": np.zeros((2, 0), dtype=int)}, "shape"),
            ({"actions": np.zeros((2, 1, 1), dtype=int)}, "a matrix of them for slates"),
            ({"propensities": [0.5, 0.5]}, r"for each place of its slates, shape \(2, 2\)"),
            ({"propensities": [[0.5, 0.0], [0.2, 0.4]]}, r"above 0 and at most 1, got \[0.5, 0.0\] in round 0"),
            ({"rewards": [[0.0, np.nan], [0.0, 0.0]]}, "one finite number for each place"),
            ({"place_propensities": [[0.5, 0.3], [0.2, 1.3]]}, "above 0 and at most 1"),
            ({"place_propensities": [0.5, 0.3]}, "place propensities of a log must be"),
            ({"actions": [0, 1], "propensities": [1, 1], "rewards": [0, 1], "place_propensities": [1, 1]}, "slates"),
        ],
    )
    def test_anything_but_a_slate_is_rejected(self, changed, message):
        with pytest.raises(InvalidParameter, match=message):
            self.slates(**changed)

    def test_an_environment_takes_single_actions(self):
        with pytest.raises(NotSupported, match=r"slates of 2.*log\.at_place\(0\)"):
            Logged(self.slates())
        assert Logged(self.slates().at_place(0)).describe()["log"]["n_rounds"] == 2

    def test_clicks_are_rewards(self):
        assert click_rewards([None, 2], k=3).tolist() == [[0, 0, 0], [0, 0, 1]]
        for wrong in ([3], [-1], ["a"], 3):
            with pytest.raises(InvalidParameter):
                click_rewards(wrong, k=3)


class TestRepr:
    def test_a_log_is_one_line(self):
        log = Log([np.eye(3)] * 1_000, [0, 1] * 500, [0.5, 0.25] * 500, [0.0, 1.0] * 500)

        assert repr(log) == "Log(1,000 rounds, 3 actions, propensities 0.25 to 0.5, rewards 0 to 1 with mean 0.5)"
        assert repr(log[:0]) == "Log(0 rounds)"

    def test_it_names_slates_and_ids(self):
        log = Log([["a"], ["a", "b"]], [[0], [1]], [[1.0], [0.5]], [[0.0], [3.0]], [["A"], ["A", "B"]])

        assert repr(log) == (
            "Log(2 rounds, 1 to 2 actions, slates of 1, propensities 0.5 to 1, rewards 0 to 3 with mean 1.5, ids)"
        )

    def test_a_notebook_shows_a_table(self):
        log = Log([["a"], ["a", "b"]], [0, 1], [1.0, 0.5], [0.0, 3.0], [["<A>"], ["A", "B"]])

        shown = log._repr_html_()

        assert "Log of 2 rounds" in shown
        assert "0 to 3 with mean 1.5" in shown
        assert "&lt;A&gt;" in shown
        assert "<A>" not in shown
        assert "Log of 0 rounds" in log[:0]._repr_html_()
