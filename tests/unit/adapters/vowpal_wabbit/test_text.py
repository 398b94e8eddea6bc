import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.adapters import Vocabulary, read_adf_text, write_adf_text
from kernelbandits.environments import Log
from kernelbandits.errors import ForeignFile, InvalidContexts

TEXT = """\
shared | hour:2.5 |GUser id=a major=eng
't1 |TAction a1=f1
0:-1.5:0.8181818 t2|TAction a1=f2 v:0.5 | top:3
't3 |TAction:2 :0.1 :0 :0.7 x:0

| a=b
0:0.25:5e-1 |\tc  c c:0.5

"""


def read_text(tmp_path, text, **options):
    (tmp_path / "log.txt").write_text(text)
    return read_adf_text(tmp_path / "log.txt", **options)


def test_lines_as_vowpal_wabbit_reads_them(tmp_path):
    log = read_text(tmp_path, TEXT, sparse=False)

    assert log.rewards.tolist() == [1.5, -0.25]
    assert log.actions.tolist() == [1, 1]
    assert log.propensities.tolist() == [0.8181818, 0.5]
    assert log.ids is None  # the second event has no tags
    assert log.vocabulary.context == (("", "hour"), ("GUser", "id=a"), ("GUser", "major=eng"))
    assert log.rounds[0].context.tolist() == [2.5, 1.0, 1.0]
    assert log.rounds[1].context.tolist() == [0.0, 0.0, 0.0]
    described = [
        {name: value for name, value in zip(log.vocabulary.action, row, strict=True) if value}
        for points in log.rounds
        for row in points.actions
    ]
    assert described == [
        {("TAction", "a1=f1"): 1.0},
        {("TAction", "a1=f2"): 1.0, ("TAction", "v"): 0.5, ("", "top"): 3.0},
        {("TAction", "0"): 0.2, ("TAction", "2"): 1.4},
        {("", "a=b"): 1.0},
        {("", "c"): 2.5},
    ]


def test_tags_are_ids_where_all_have_one(tmp_path):
    log = read_text(tmp_path, TEXT.split("\n\n")[0])

    assert log.ids == [["t1", "t2", "t3"]]


def test_written_lines_are_plain(tmp_path):
    names = Vocabulary(action=[("Item", "color=red"), ("", "x")])
    log = Log([np.array([[1.0, 0.5], [0.0, 1.0]])], [1], [0.25], [3.0], [["a", "b"]])

    write_adf_text(log, tmp_path / "log.txt", vocabulary=names)

    expected = "'a |Item color=red | x:0.5\n0:-3.0:0.25 'b |Item color=red:0.0 | x\n\n"
    assert (tmp_path / "log.txt").read_text() == expected


@pytest.mark.parametrize(
    ("block", "line", "rule"),
    [
        ("| a\nno bar here\n", 4, "a line must have a bar before its features"),
        ("| a\nshared | b\n0:1:0.5 | c\n", 4, "`shared` must be on the first line"),
        ("shared | b\n", 3, "at least one action"),
        ("0:1:0.5 | a\n0:2:0.5 | b\n", 3, "exactly one action of an event must have a cost, got 2"),
        ("| a\n| a\n0:1 | b\n", 5, "`action:cost:probability`, got '0:1'"),
        ("0:1:0 | b\n", 3, "above 0 and at most 1, got 0.0"),
        ("0:nan:0.5 | b\n", 3, "cost must be finite, got 'nan'"),
        ("0:1_0:0.5 | b\n", 3, "cost must be a number"),
        ("0:1:0.5 | b:x\n", 3, "value of feature 'b' must be a number"),
        ("0:1:0.5 | b:1:2\n", 3, "value of feature 'b' must be a number, got '1:2'"),
        ("0:1:0.5 |n:w b\n", 3, "weight of a namespace must be a number"),
        ("0:1:0.5 3 'tag | b\n", 3, "before the bar there must be a label and a tag"),
        ("0:1:0.5|n b\n", 3, "'0:1:0.5' looks like a label"),
        ("shared|n b\n0:1:0.5 | c\n", 3, "'shared' looks like a label"),
    ],
)
def test_a_malformed_event_is_named_with_its_line_and_rule_or_counted(tmp_path, block, line, rule):
    good = "0:1:0.5 | x\n\n"

    with pytest.raises(ForeignFile, match=f"Line {line} of '.*log.txt': .*{rule}"):
        read_text(tmp_path, good + block + "\n" + good)
    log = read_text(tmp_path, good + block + "\n" + good, on_error="skip")

    assert log.rewards.tolist() == [-1.0, -1.0]
    assert log.left_out["malformed"] == 1


def test_events_without_a_cost_are_left_out_and_counted(tmp_path):
    log = read_text(tmp_path, "| a\n| b\n\n\n0:1:0.5 | a\n| b")

    assert len(log) == 1
    assert log.left_out["unlabeled"] == 1


@pytest.mark.parametrize("name", ["two words", "a|b", "a:b", "tab\tbed", "", "half \ud800", "\ud800"])
def test_names_that_the_text_cannot_hold_are_rejected(tmp_path, name):
    log = Log([np.ones((1, 1))], [0], [0.5], [1.0])

    with pytest.raises(InvalidContexts, match="a word without blanks, bars and colons"):
        write_adf_text(log, tmp_path / "log.txt", vocabulary=Vocabulary(action=[("n", name)]))
    with pytest.raises(InvalidContexts, match="a tag must be a word"):
        write_adf_text(Log(log.rounds, [0], [0.5], [1.0], [[name]]), tmp_path / "log.txt")


def test_other_blanks_belong_to_names(tmp_path):
    names = Vocabulary(action=[("", "no\u00a0break"), ("n", "ünïcode=ß")])
    log = Log([np.array([[2.0, 1.0]])], [0], [0.5], [1.0])

    write_adf_text(log, tmp_path / "log.txt", vocabulary=names)

    again = read_adf_text(tmp_path / "log.txt", sparse=False)
    assert again.vocabulary == names
    assert_array_equal(again.rounds[0], log.rounds[0])


def test_no_action_can_be_called_what_marks_a_shared_line(tmp_path):
    log = Log([np.eye(2)], [0], [0.5], [1.0], [["shared", "other"]])

    with pytest.raises(InvalidContexts, match="must not be `shared`"):
        write_adf_text(log, tmp_path / "log")
