import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits import Pairs
from kernelbandits.adapters import Vocabulary, read_dsjson, write_dsjson
from kernelbandits.environments import Log
from kernelbandits.errors import ForeignFile, InvalidContexts

LINE = (
    '{"_label_cost":-1.5,"_label_probability":0.8181818,"_label_Action":2,"_labelIndex":1,"Timestamp":"2018-03-01T00:00:'
    '00.0000000Z","Version":"1","EventId":"0074434d3a3a46529f65de8a59631939","a":[2,1,3],"c":{"hour":2.5,"GUser":{"id":'
    '"a","major":"eng","new":true,"old":false,"none":null},"_multi":[{"_tag":"t1","TAction":{"a1":"f1"}},{"_tag":"t2",'
    '"TAction":{"a1":"f2","v":0.5},"top":3},{"_tag":"t3","TAction":[0.1,0,0.7],"_ignored":1,"Nest":{"Inner":{"q":1},'
    '"arr":[{"m":1},{"n":2}]},"_text":"hello big hello"}]},"p":[0.8181818,0.1,0.0818182],"VWState":{"m":"N/A"},'
    '"o":[{"v":1.5,"EventId":"x"}],"pdrop":0.5,"_original_label_cost":-1.5}'
)


def make_line(**changes):
    fields = {
        "_label_cost": 1,
        "_label_probability": 0.5,
        "_label_Action": 1,
        "_labelIndex": 0,
        "a": [1, 2],
        "c": {"_multi": [{"x": 1}, {"x": 2}]},
        "p": [0.5, 0.5],
    }
    fields.update(changes)
    return json.dumps({name: value for name, value in fields.items() if value != "absent"})


def read_lines(tmp_path, *lines, **options):
    (tmp_path / "log.json").write_text("\n".join(lines) + "\n")
    return read_dsjson(tmp_path / "log.json", **options)


def test_a_line_as_the_decision_service_writes_it(tmp_path):
    log = read_lines(tmp_path, LINE, sparse=False)

    assert log.rewards.tolist() == [1.5]
    assert log.actions.tolist() == [1]
    assert log.propensities.tolist() == [0.8181818]
    assert log.ids == [["t1", "t2", "t3"]]
    assert_array_equal(log.probabilities[0], [0.1, 0.8181818, 0.0818182])
    context = dict(zip(log.vocabulary.context, log.rounds[0].context, strict=True))
    assert context == {("", "hour"): 2.5, ("GUser", "id=a"): 1.0, ("GUser", "major=eng"): 1.0, ("GUser", "new"): 1.0}
    first, second, third = (
        {name: value for name, value in zip(log.vocabulary.action, row, strict=True) if value}
        for row in log.rounds[0].actions
    )
    assert first == {("TAction", "a1=f1"): 1.0}
    assert second == {("TAction", "a1=f2"): 1.0, ("TAction", "v"): 0.5, ("", "top"): 3.0}
    assert third == {
        ("TAction", "0"): 0.1,
        ("TAction", "2"): 0.7,
        ("Inner", "q"): 1.0,
        ("arr", "m"): 1.0,
        ("arr", "n"): 2.0,
        ("", "hello"): 2.0,
        ("", "big"): 1.0,
    }


def test_what_was_read_is_written_with_all_it_tells(tmp_path):
    log = read_lines(tmp_path, LINE)

    write_dsjson(log, tmp_path / "again.json")

    line = json.loads((tmp_path / "again.json").read_text())
    assert line["_label_cost"] == -1.5
    assert (line["_label_Action"], line["_labelIndex"], line["a"]) == (2, 1, [2, 1, 3])
    assert line["p"] == [0.8181818, 0.1, 0.0818182]
    assert line["c"]["GUser"] == {"id": "a", "major": "eng", "new": 1.0}
    assert line["c"]["_multi"][1] == {"_tag": "t2", "top": 3.0, "TAction": {"a1": "f2", "v": 0.5}}


def test_probabilities_are_not_invented(tmp_path):
    write_dsjson(Log([np.eye(3)], [1], [0.5], [2.0]), tmp_path / "log.json")

    line = json.loads((tmp_path / "log.json").read_text())

    assert "p" not in line
    assert line["_label_probability"] == 0.5
    assert read_dsjson(tmp_path / "log.json").probabilities is None


def test_index_from_zero_and_action_from_one_are_the_same_action(tmp_path):
    for fields in ({"_labelIndex": "absent", "_label_Action": 2}, {"_labelIndex": 1, "_label_Action": "absent"}):
        log = read_lines(tmp_path, make_line(**fields))

        assert log.actions.tolist() == [1]


def test_actions_of_the_ranking_may_count_from_zero(tmp_path):
    from_one, from_zero = ({"a": [3, 1, 2]}, {"a": [2, 0, 1]})
    fields = {
        "c": {"_multi": [{"x": 1}, {"x": 2}, {"x": 3}]},
        "p": [0.5, 0.2, 0.3],
        "_labelIndex": 2,
        "_label_Action": 3,
    }

    logs = [read_lines(tmp_path, make_line(**fields, **order)) for order in (from_one, from_zero)]

    for log in logs:
        assert log.actions.tolist() == [2]
        assert log.probabilities[0].tolist() == [0.2, 0.3, 0.5]


def test_a_file_without_a_decision_is_an_error_or_an_empty_log(tmp_path):
    lines = [make_line(_label_cost="absent"), make_line(_skipLearn=True), make_line(_label_cost="absent")]

    with pytest.raises(ForeignFile, match="holds no decision with a cost: 1 skip_learn, 2 unlabeled"):
        read_lines(tmp_path, *lines)

    assert len(read_lines(tmp_path, *lines, on_error="skip")) == 0
    assert len(read_lines(tmp_path, "")) == 0  # there is nothing in it that could be missed


def test_flagged_and_unlabeled_lines_are_left_out_and_counted(tmp_path):
    log = read_lines(
        tmp_path,
        make_line(_skipLearn=True),
        make_line(_label_cost=-3),
        make_line(_label_cost="absent"),
        "",
        make_line(_skipLearn=False),
        '{"RewardValue": 1, "EventId": "late"}',
    )

    assert log.rewards.tolist() == [3.0, -1.0]
    assert log.left_out == {"malformed": 0, "skip_learn": 1, "unlabeled": 2, "unknown_features": 0}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("{", "one JSON object"),
        ("[1]", "one JSON object, got list"),
        ('{"_label_cost": ' + 5_000 * "1" + "}", "one JSON object"),
        ('{"_label_cost": 1, "_label_cost": 2}', "'_label_cost' occurs twice"),
        (make_line(c={"_multi": []}), "`_multi`, not empty"),
        (make_line(c=3), "`_multi`, not empty"),
        (make_line(c={"_multi": [3]}), "every action in `_multi` must be an object"),
        (
            make_line(c={"_multi": [{}], "_slots": [{}]}),
            "`_outcomes` must have an entry for each of the 1 slots, got 0",
        ),
        (make_line(c={"_multi": [{}], "_slots": []}, _outcomes=[]), "`_slots` must be a list of objects, not empty"),
        (make_line(_outcomes=[]), "`_outcomes` must belong to a list `_slots`"),
        (make_line(c={"_multi": [{"__aid": 7}]}), "`__aid` refers to another line"),
        (make_line(_label_cost="1"), "`_label_cost` must be a finite number, got '1'"),
        (make_line(_label_cost=float("nan")), "`_label_cost` must be a finite number, got nan"),
        (make_line(_label_cost=10**400), "`_label_cost` must be a finite number"),
        (make_line(_label_probability=0), "`_label_probability` must be above 0 and at most 1, got 0.0"),
        (make_line(_label_probability=1.5), "`_label_probability` must be above 0"),
        (make_line(_label_probability="absent"), "`_label_probability` must be a finite number, got None"),
        (make_line(_labelIndex=1), "must agree, got 1 and 1"),
        (make_line(_labelIndex="absent", _label_Action="absent"), "got None and None"),
        (make_line(_labelIndex=2, _label_Action=3), "one of the 2 in `_multi`, got index 2"),
        (make_line(_labelIndex=-1, _label_Action=0), "got index -1"),
        (make_line(_labelIndex=0.5), "`_labelIndex` must be a whole number, got 0.5"),
        (make_line(a=[0, 2]), "`a` must hold every action from 1 to 2, or from 0, once, got .0, 2"),
        (make_line(a=[2, 3]), "`a` must hold every action from 1 to 2, or from 0, once, got .2, 3"),
        (make_line(a=[]), "`a` must hold every action"),
        (make_line(p=[0.5, 0.9]), "`p` must hold probabilities .* with the sum 1, got .0.5, 0.9"),
        (make_line(p=[1.5, -0.5]), "`p` must hold probabilities"),
        (make_line(p=[1.0]), "`p` must have one probability for each of the 2 actions"),
        (make_line(c={"_multi": [{"x": ["s"]}]}, p=None, a=None), r"`x\[0\]` must be a finite number, got 's'"),
    ],
)
def test_a_malformed_line_is_named_with_its_rule_or_counted(tmp_path, line, rule):
    with pytest.raises(ForeignFile, match=f"Line 3 of '.*log.json': .*{rule}"):
        read_lines(tmp_path, make_line(), "", line, make_line())

    log = read_lines(tmp_path, make_line(), "", line, make_line(), on_error="skip")

    assert len(log) == 2
    assert log.left_out["malformed"] == 1


def test_names_that_share_a_key_are_kept_apart(tmp_path):
    names = Vocabulary(action=[("", "x=1"), ("", "x=2"), ("", "x"), ("", "y=1"), ("n", "y"), ("", "n=5")])
    rows = np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 2.0, 3.0, 1.0]])
    write_dsjson(Log([rows], [0], [0.5], [1.0]), tmp_path / "log.json", vocabulary=names)

    assert_array_equal(read_dsjson(tmp_path / "log.json", sparse=False, vocabulary=names).rounds[0], rows)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([("", "_x"), ("", "y")], "ignores JSON names such as '_x'"),
        ([("_n", "x"), ("", "y")], "ignores JSON names such as '_n'"),
        ([("n", "x"), ("", "n")], "cannot both be called 'n'"),
    ],
)
def test_names_that_vowpal_wabbit_would_lose_are_rejected(tmp_path, names, message):
    with pytest.raises(InvalidContexts, match=message):
        write_dsjson(Log([np.eye(2)], [0], [0.5], [1.0]), tmp_path / "log.json", vocabulary=Vocabulary(action=names))


def test_rounds_without_shared_features_have_an_empty_context_among_others(tmp_path):
    log = read_lines(tmp_path, make_line(c={"u": 2, "_multi": [{"x": 1}, {"x": 2}]}), make_line(), sparse=False)

    assert [isinstance(points, Pairs) for points in log.rounds] == [True, True]
    assert log.rounds[1].context.tolist() == [0.0]
