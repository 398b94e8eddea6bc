"""Lines with several slots: conditional contextual bandits and slates."""

import json

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits import Pairs
from kernelbandits.adapters import read_dsjson, write_dsjson
from kernelbandits.environments import Log
from kernelbandits.errors import ForeignFile, InvalidParameter

DRINKS = [{"_tag": "tea", "heat": 1.0}, {"_tag": "milk", "heat": 0.5}, {"_tag": "ale"}, {"_tag": "rum", "proof": 40}]


def outcome(cost, ranked, shares, **more):
    return {"_label_cost": cost, "_id": "slot", "_a": ranked, "_p": shares, "_o": [], **more}


def ccb_line(*outcomes, slots=None, **changes):
    """A line of a conditional contextual bandit, as the decision service writes it."""
    slots = (
        [{"_id": f"slot {place}", "Spot": {"size": 2 + place}} for place in range(len(outcomes))]
        if slots is None
        else slots
    )
    fields = {
        "Timestamp": "2021-04-26T17:23:28.1726275",
        "EventId": "e",
        "c": {"Guest": {"age": 30}, "_multi": DRINKS, "_slots": slots},
        "_outcomes": list(outcomes),
        "_ba": [1, 2],
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value != "absent"})


TWO = ccb_line(outcome(-0.6, [2, 0, 1, 3], [0.4, 0.2, 0.2, 0.2]), outcome(0.25, [0, 3, 1], [0.5, 0.25, 0.25]))
ANOTHER = ccb_line(outcome(0, [1, 0, 2, 3], [0.7, 0.1, 0.1, 0.1]), outcome(-1.0, 3, 0.125))
ONE = ccb_line(outcome(-2.0, [3, 0, 1, 2], [0.25] * 4))


def slates_line(**changes):
    """Five actions, three of slot 0 and two of slot 1, and one cost."""
    fields = {
        "_label_cost": 1.5,
        "_outcomes": [{"_a": 1, "_p": 0.8}, {"_a": [0, 1], "_p": [0.6, 0.4]}],
        "c": {
            "u": 1.0,
            "_multi": [{"_slot_id": 0 if row < 3 else 1, "f": row + 1.0} for row in range(5)],
            "_slots": [{"s": 1.0}, {"s": 2.0}],
        },
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value != "absent"})


def read_lines(tmp_path, *lines, **options):
    (tmp_path / "log.json").write_text("\n".join(lines) + "\n")
    return read_dsjson(tmp_path / "log.json", **{"sparse": False, **options})


def test_a_conditional_contextual_bandit_is_a_log_of_slates(tmp_path):
    log = read_lines(tmp_path, TWO, ANOTHER)

    assert (len(log), log.k) == (2, 2)
    assert log.actions.tolist() == [[2, 0], [1, 3]]
    assert log.propensities.tolist() == [[0.4, 0.5], [0.7, 0.125]]
    assert log.rewards.tolist() == [[0.6, -0.25], [0.0, 1.0]]
    assert log.ids == [["tea", "milk", "ale", "rum"]] * 2
    assert log.vocabulary.context == (("Guest", "age"),)
    assert log.rounds[0].actions.tolist() == [[1.0, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 40.0]]
    assert log.left_out == {"malformed": 0, "skip_learn": 0, "unlabeled": 0, "other_lengths": 0, "unknown_features": 0}


def test_a_part_of_such_a_log_keeps_its_slates(tmp_path):
    part = read_lines(tmp_path, TWO, ANOTHER)[1:]

    assert part.actions.tolist() == [[1, 3]]


def test_slates_of_several_lengths_are_rejected_or_one_length_is_read(tmp_path):
    with pytest.raises(ForeignFile, match=r"holds 1 of 1, 2 of 2\. .*slots=2; .*slots=\"decisions\""):
        read_lines(tmp_path, TWO, ONE, ANOTHER)

    both = read_lines(tmp_path, TWO, ONE, ANOTHER, slots=2)
    single = read_lines(tmp_path, TWO, ONE, ANOTHER, slots=1)

    assert (both.actions.tolist(), both.left_out["other_lengths"]) == ([[2, 0], [1, 3]], 1)
    assert (single.actions.tolist(), single.left_out["other_lengths"]) == ([[3]], 2)


def test_a_file_without_slates_of_the_length_is_an_error_or_an_empty_log(tmp_path):
    with pytest.raises(ForeignFile, match=r"holds no slate of length 3, but 1 of 1, 2 of 2\. .*slots=2; "):
        read_lines(tmp_path, TWO, ONE, ANOTHER, slots=3)

    empty = read_lines(tmp_path, TWO, ONE, ANOTHER, slots=3, on_error="skip")

    assert (len(empty), empty.left_out["other_lengths"]) == (0, 3)


@pytest.mark.parametrize("shares", [[0.5, 0.9, 0.2, 0.2], [0.5, 0.7, -0.1, -0.1]])
def test_probabilities_of_a_decision_that_do_not_add_up_are_named_with_their_line(tmp_path, shares):
    line = ccb_line(outcome(0, [1, 0, 2, 3], shares))

    with pytest.raises(ForeignFile, match=r"Line 2 of .* `_p` must hold probabilities of all actions"):
        read_lines(tmp_path, ONE, line, slots="decisions")

    assert len(read_lines(tmp_path, ONE, line, slots="decisions", on_error="skip")) == 1


def test_a_single_decision_among_slates_is_a_slate_of_one(tmp_path):
    single = json.dumps(
        {
            "_label_cost": -1,
            "_label_probability": 0.2,
            "_labelIndex": 1,
            "c": {"_multi": [{"heat": 1}, {"heat": 2}]},
            "p": [0.8, 0.2],
        }
    )

    log = read_lines(tmp_path, ONE, single)

    assert (log.actions.tolist(), log.propensities.tolist()) == ([[3], [1]], [[0.25], [0.2]])
    assert log.probabilities is None
    assert read_lines(tmp_path, single).k is None
    assert read_lines(tmp_path, single, slots=1).k == 1


def test_each_slot_can_be_a_decision_among_what_it_had_left(tmp_path):
    log = read_lines(tmp_path, TWO, ONE, slots="decisions")

    assert log.k is None
    assert log.n_actions.tolist() == [4, 3, 4]
    assert log.actions.tolist() == [2, 0, 3]
    assert log.propensities.tolist() == [0.4, 0.5, 0.25]
    assert log.rewards.tolist() == [0.6, -0.25, 2.0]
    assert log.ids[1] == ["tea", "milk", "rum"]
    assert [shares.tolist() for shares in log.probabilities[:2]] == [[0.2, 0.2, 0.4, 0.2], [0.5, 0.25, 0.25]]
    contexts = [dict(zip(log.vocabulary.context, points.context.tolist(), strict=True)) for points in log.rounds]
    assert contexts[1] == {
        ("Guest", "age"): 30.0, ("Spot", "size"): 3.0, ("Slot", "place=0"): 0.0, ("Slot", "place=1"): 1.0
    }  # fmt: skip
    assert contexts[0][("Slot", "place=0")] == contexts[2][("Slot", "place=0")] == 1.0


def test_probabilities_of_some_of_the_actions_are_not_completed(tmp_path):
    assert read_lines(tmp_path, TWO, ANOTHER, slots="decisions").probabilities is None


def test_slots_with_actions_of_their_own_are_decisions(tmp_path):
    line = ccb_line(
        outcome(-1, [1, 0], [0.5, 0.5]),
        outcome(-2, [3, 2], [0.75, 0.25]),
        slots=[{"_inc": [0, 1]}, {"_inc": [1, 2, 3]}],
    )

    log = read_lines(tmp_path, line, slots="decisions")

    assert log.n_actions.tolist() == [2, 2]
    assert log.ids == [["tea", "milk"], ["ale", "rum"]]
    assert log.actions.tolist() == [1, 1]
    for on_error in ("raise", "skip"):
        with pytest.raises(ForeignFile, match=r'actions of their own .*slots="decisions"'):
            read_lines(tmp_path, line, on_error=on_error)


def test_a_list_of_all_actions_left_is_no_restriction(tmp_path):
    slots = [{"_inc": [0, 1, 2, 3]}, {"_inc": [0, 1, 3]}]

    log = read_lines(tmp_path, ccb_line(outcome(-1, 2, 0.5), outcome(-2, 3, 0.5), slots=slots))

    assert log.actions.tolist() == [[2, 3]]


def test_slates_are_decisions_that_share_their_cost(tmp_path):
    log = read_lines(tmp_path, slates_line(), slots="decisions", layout="pairs")

    assert log.n_actions.tolist() == [3, 2]
    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [-1.5, -1.5]
    assert log.propensities.tolist() == [0.8, 0.6]
    assert [points.actions[:, 0].tolist() for points in log.rounds] == [[1.0, 2.0, 3.0], [4.0, 5.0]]
    assert log.probabilities is None
    with pytest.raises(ForeignFile, match='slots="decisions"'):
        read_lines(tmp_path, slates_line())


def test_lines_without_outcomes_or_costs_are_unlabeled(tmp_path):
    uncosted = outcome(0, [1, 0, 3], [0.5, 0.25, 0.25])
    del uncosted["_label_cost"]
    half = ccb_line(outcome(-1.0, 2, 0.5), uncosted)
    lines = (TWO, ccb_line(outcome(0, 1, 0.5), _outcomes="absent"), half, ccb_line(outcome(0, 1, 0.5), _skipLearn=True))

    slates, decisions = (read_lines(tmp_path, *lines, slots=slots) for slots in ("slates", "decisions"))

    assert (slates.actions.tolist(), slates.left_out["unlabeled"], slates.left_out["skip_learn"]) == ([[2, 0]], 2, 1)
    assert (decisions.actions.tolist(), decisions.left_out["unlabeled"]) == ([2, 0, 2], 2)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (ccb_line(outcome(0, [4, 0], [0.5, 0.5])), "`_a` must hold different actions from 0 to 3, got .4, 0"),
        (ccb_line(outcome(0, -1, 0.5)), "`_a` must hold different actions from 0 to 3, got -1"),
        (ccb_line(outcome(0, [1, 1], [0.5, 0.5])), "`_a` must hold different actions"),
        (ccb_line(outcome(0, [], [])), "`_a` must hold different actions"),
        (ccb_line(outcome(0, None, 0.5)), "`_a` must be a whole number, got None"),
        (ccb_line(outcome(0, [1], [0.5, 0.5])), "`_p` must have one probability for each of the 1 actions"),
        (ccb_line(outcome(0, 1, 0.0)), "the probability of the logged action must be above 0 and at most 1, got 0.0"),
        (ccb_line(outcome(0, 1, 1.5)), "above 0 and at most 1, got 1.5"),
        (ccb_line(outcome(0, 1, "1")), "`_p` must be a finite number, got '1'"),
        (ccb_line(outcome("x", 1, 0.5)), "`_label_cost` must be a finite number, got 'x'"),
        (ccb_line(outcome(0, 1, 0.5), outcome(0, 1, 0.5)), "slot 1 must show one of its actions .* got action 1"),
        (ccb_line(outcome(0, 3, 0.5), slots=[{"_inc": [0, 1]}]), "slot 0 must show one of its actions .* got action 3"),
        (ccb_line(outcome(0, 1, 0.5), slots=[{"_inc": [1, 9]}]), "`_inc` must hold different actions from 0 to 3"),
        (ccb_line(outcome(0, 1, 0.5), slots=[{}, {}]), "an entry for each of the 2 slots, got 1"),
        (ccb_line(outcome(0, 1, 0.5), slots=3), "`_slots` must be a list of objects"),
        (ccb_line(7), "every entry of `_outcomes` must be an object"),
        (
            slates_line(_outcomes=[{"_a": 3, "_p": 0.8}, {"_a": 0, "_p": 1}]),
            "`_a` must hold different actions from 0 to 2",
        ),
        (
            slates_line(c={"_multi": [{"_slot_id": 2}], "_slots": [{}, {}]}),
            "`_slot_id` must be the number of one of the 2",
        ),
        (
            slates_line(c={"_multi": [{"_slot_id": 0}, {}], "_slots": [{}, {}]}),
            "`_slot_id` must be a whole number, got None",
        ),
    ],
)
@pytest.mark.parametrize("slots", ["slates", "decisions"])
def test_a_malformed_line_is_named_with_its_rule_or_counted(tmp_path, line, rule, slots):
    with pytest.raises(ForeignFile, match=f"Line 2 of '.*log.json': .*{rule}"):
        read_lines(tmp_path, TWO, line, slots=slots)

    log = read_lines(tmp_path, TWO, line, slots=slots, on_error="skip")

    assert log.left_out["malformed"] == 1
    assert len(log) == (1 if slots == "slates" else 2)


@pytest.mark.parametrize("slots", ["slate", 0, 1.5, None, True])
def test_other_forms_are_rejected(tmp_path, slots):
    with pytest.raises(InvalidParameter, match="slots"):
        read_lines(tmp_path, TWO, slots=slots)


def test_a_log_of_slates_is_written_and_read_again(tmp_path):
    rng = np.random.default_rng(0)
    rounds = [Pairs(rng.normal(size=2), rng.normal(size=(5, 3))) for _ in range(4)]
    actions = np.array([rng.permutation(5)[:3] for _ in range(4)])
    log = Log(rounds, actions, rng.uniform(0.1, 1.0, size=(4, 3)), rng.normal(size=(4, 3)), ids=[list("abcde")] * 4)

    write_dsjson(log, tmp_path / "slates.json")
    again = read_dsjson(tmp_path / "slates.json", sparse=False)

    for name in ("actions", "propensities", "rewards"):
        np.testing.assert_array_equal(getattr(again, name), getattr(log, name))
    assert again.ids == log.ids
    np.testing.assert_array_equal(again.rounds[2].actions, rounds[2].actions)


def test_the_value_of_the_policy_that_logged_is_the_mean_reward(tmp_path):
    """End to end: slates of a policy, written, read and judged by the policy itself."""
    rng = np.random.default_rng(1)
    policy = kb.UniformRandom(seed=0)
    rounds = [rng.normal(size=(4, 2)) for _ in range(30)]
    slates = [policy.choose(contexts, k=2) for contexts in rounds]
    actions = np.array([slate.actions for slate in slates])
    shares = np.array([[place.propensity for place in slate] for slate in slates])
    write_dsjson(Log(rounds, actions, shares, rng.normal(size=(30, 2))), tmp_path / "slates.json")

    log = read_dsjson(tmp_path / "slates.json", sparse=False)

    value = kb.evaluation.IPS().estimate(log, policy).value
    assert value == pytest.approx(log.rewards.sum(axis=1).mean())
