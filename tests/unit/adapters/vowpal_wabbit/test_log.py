import gzip

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import KernelUCB, Pairs
from kernelbandits.adapters import Vocabulary, VowpalLog, read_adf_text, read_dsjson, write_adf_text, write_dsjson
from kernelbandits.environments import Log
from kernelbandits.errors import ForeignFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels import Gaussian, Linear, PairProduct
from unit.adapters.logs import assert_same_log

FORMATS = [(read_dsjson, write_dsjson), (read_adf_text, write_adf_text)]
both = pytest.mark.parametrize(("read", "write"), FORMATS, ids=["dsjson", "text"])


def make_log(kind="rows", *, ids=False, n_rounds=12, seed=3, magnitude=12):
    """Ugly numbers, sets of all sizes, zeros, and a first row that does not have all columns."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, size=n_rounds)
    scales = 10.0 ** rng.integers(-magnitude, magnitude + 1, size=n_rounds)
    rounds = [
        np.where(rng.random((n, 11)) < 0.4, 0.0, rng.normal(size=(n, 11)) * scale)
        for n, scale in zip(counts, scales, strict=True)
    ]
    if kind == "pairs":
        rounds = [Pairs(rng.normal(size=3), rows) for rows in rounds]
    return Log(
        rounds,
        [int(rng.integers(n)) for n in counts],
        1.0 - rng.random(n_rounds),
        rng.normal(size=n_rounds),
        [[f"item{t}-{row}" for row in range(n)] for t, n in enumerate(counts)] if ids else None,
    )


@both
@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
@pytest.mark.parametrize("kind", ["rows", "pairs"])
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_written_is_read_again(tmp_path, read, write, suffix, kind, ids, sparse):
    log = make_log(kind, ids=ids)

    write(log, tmp_path / f"log.{suffix}")
    again = read(tmp_path / f"log.{suffix}", sparse=sparse)

    assert_same_log(log, again)
    assert again.vocabulary.action == tuple(("Action", str(column)) for column in range(11))
    assert hasattr(again.rounds[0].actions if kind == "pairs" else again.rounds[0], "tocsr") == sparse


@both
def test_negative_control_a_wrong_sign_or_index_shows(tmp_path, read, write):
    log = make_log()
    write(log, tmp_path / "log")
    again = read(tmp_path / "log")

    for wrong in (
        Log(log.rounds, log.actions, log.propensities, -log.rewards),
        Log(log.rounds, (log.actions + 1) % log.n_actions, log.propensities, log.rewards),
    ):
        with pytest.raises(AssertionError):
            assert_same_log(wrong, again)


@both
def test_a_second_writing_gives_the_same_bytes(tmp_path, read, write):
    names = Vocabulary(
        context=[("User", "age"), ("", "hour")], action=[("Item", "color=red"), ("Item", "color=blue"), ("", "x")]
    )
    rounds = [Pairs(csr_array([[3.5, 0.0]]), csr_array([[1.0, 0.0, 0.0], [0.0, 1.0, 2.5], [1.0, 1.0, 0.0]]))] * 2
    log = Log(rounds, [2, 0], [0.25, 1.0], [1.5, 0.0])

    write(log, tmp_path / "one.gz", vocabulary=names)
    again = read(tmp_path / "one.gz", vocabulary=names)
    write(again, tmp_path / "two.gz")

    assert_same_log(log, again)
    assert again.left_out == {"malformed": 0, "skip_learn": 0, "unlabeled": 0, "unknown_features": 0}
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@both
def test_joined_rows_hold_shared_features_and_own(tmp_path, read, write):
    names = Vocabulary(context=[("", "age")], action=[("", "x"), ("", "age")])
    log = Log([Pairs([3.0], np.array([[1.0, 0.5], [2.0, 0.0]]))], [0], [0.5], [1.0])
    write(log, tmp_path / "log", vocabulary=names)

    joined = read(tmp_path / "log", layout="joined", sparse=False)

    assert joined.vocabulary == Vocabulary(action=[("", "age"), ("", "x")])
    assert_array_equal(joined.rounds[0], [[3.5, 1.0], [3.0, 2.0]])
    with pytest.raises(InvalidParameter, match="'pairs' or 'joined', got 'wide'"):
        read(tmp_path / "log", layout="wide")


@both
def test_a_known_vocabulary_keeps_columns_and_counts_what_is_new(tmp_path, read, write):
    write(make_log(), tmp_path / "log")
    first = Vocabulary(action=[("Action", "10"), ("Action", "2"), ("Other", "x")])

    log = read(tmp_path / "log", vocabulary=first, sparse=False)

    whole = make_log()
    for ours, theirs in zip(log.rounds, whole.rounds, strict=True):
        assert_array_equal(ours, np.column_stack([theirs[:, [10, 2]], np.zeros(len(theirs))]))
    assert log.left_out["unknown_features"] == 9 * whole.n_actions.sum()


@both
def test_columns_do_not_depend_on_the_order_of_events(tmp_path, read, write):
    log = make_log()
    write(log[::-1], tmp_path / "log")

    assert_same_log(log[::-1], read(tmp_path / "log"))


@both
def test_a_part_keeps_names(tmp_path, read, write):
    write(make_log(), tmp_path / "log")

    part = read(tmp_path / "log")[2:5]

    assert isinstance(part, VowpalLog)
    assert len(part) == 3
    assert len(part.vocabulary.action) == 11


@both
def test_an_empty_file_is_an_empty_log(tmp_path, read, write):
    write(Log([], [], [], []), tmp_path / "log")

    assert len(read(tmp_path / "log")) == 0


@both
def test_a_rejected_log_leaves_the_file_as_it_was(tmp_path, read, write):
    write(make_log(), tmp_path / "log")
    before = (tmp_path / "log").read_bytes()
    good_then_bad = Log([np.eye(2), ["a", "b"]], [0, 0], [0.5, 0.5], [1.0, 1.0])

    with pytest.raises(InvalidContexts, match="rows of numbers with named columns, got list in round 1"):
        write(good_then_bad, tmp_path / "log")

    assert (tmp_path / "log").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@both
def test_names_and_columns_have_to_match(tmp_path, read, write):
    with pytest.raises(InvalidParameter, match="names 1 where round 0 has 11"):
        write(make_log(), tmp_path / "log", vocabulary=Vocabulary(action=[("", "x")]))
    with pytest.raises(InvalidParameter, match=r"\('', 'x'\) occurs twice"):
        Vocabulary(action=[("", "x"), ("", "x")])


@both
def test_anything_but_text_is_rejected_by_name(tmp_path, read, write):
    (tmp_path / "log.gz").write_bytes(b"not packed at all")
    packed = gzip.compress(b"{}\n" * 1000)
    (tmp_path / "damaged.gz").write_bytes(packed[:12] + b"\xff\xff\xff" + packed[15:])
    (tmp_path / "short.gz").write_bytes(packed[:20])
    (tmp_path / "log").write_bytes(b"\xff\xfe\x00")

    for name in ("log.gz", "damaged.gz", "short.gz", "log"):
        with pytest.raises(ForeignFile, match="is not a text file"):
            read(tmp_path / name)
    with pytest.raises(InvalidParameter, match="must be 'raise' or 'skip'"):
        read(tmp_path / "log", on_error="ignore")


@both
def test_a_mark_of_the_encoding_at_the_beginning_is_passed_over(tmp_path, read, write):
    write(make_log(), tmp_path / "log")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "log").read_bytes())

    assert len(read(tmp_path / "marked")) == len(make_log())


@both
def test_actions_without_features_are_rejected(tmp_path, read, write):
    empty = Log([csr_array((2, 1))], [0], [0.5], [1.0])
    write(empty, tmp_path / "log")

    with pytest.raises(InvalidContexts, match="No action of the file has a feature"):
        read(tmp_path / "log")


# -- against Vowpal Wabbit itself --------------------------------------------------------------------------------------


def by_vowpal_wabbit(options, path):
    """What Vowpal Wabbit says of a file: lines of its log."""
    vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    workspace = vowpalwabbit.Workspace(f"{options} -d {path} -P 1 -q ::", enable_logging=True)
    workspace.finish()
    return [line.strip() for line in workspace.get_log() if line.strip()]


def labels(lines):
    """Action from 0, cost and probability of each event, as Vowpal Wabbit shows them in its table of progress."""
    rows = [line.split() for line in lines]
    return [tuple(map(float, row[4].split(":"))) for row in rows if len(row) == 7 and row[4].count(":") == 2]


def assert_vowpal_wabbit_reads(log, path, options):
    result = by_vowpal_wabbit(f"--cb_adf {options}", path)
    assert not [line for line in result if any(word in line.lower() for word in ("error", "warning", "malformed"))]
    assert f"number of examples = {len(log)}" in result
    shown = np.array(labels(result))
    assert shown.shape == (len(log), 3)
    assert_array_equal(shown[:, 0], log.actions)
    assert_allclose(shown[:, 1], -log.rewards, rtol=0.051)  # it shows two digits
    assert_allclose(shown[:, 2], log.propensities, rtol=0.051)


with_options = pytest.mark.parametrize(
    ("write", "options"), [(write_dsjson, "--dsjson"), (write_adf_text, "")], ids=["dsjson", "text"]
)


@with_options
@pytest.mark.parametrize("kind", ["rows", "pairs"])
@pytest.mark.parametrize("ids", [False, True])
def test_vowpal_wabbit_reads_the_same_decisions(tmp_path, write, options, kind, ids):
    log = make_log(kind, ids=ids, magnitude=1)  # it complains of features beyond single precision

    write(log, tmp_path / "log")

    assert_vowpal_wabbit_reads(log, tmp_path / "log", options)


@with_options
def test_negative_control_vowpal_wabbit_reads_others_from_a_wrong_file(tmp_path, write, options):
    log = make_log(magnitude=1)

    for wrong in (
        Log(log.rounds, log.actions, log.propensities, -log.rewards),
        Log(log.rounds, (log.actions + 1) % log.n_actions, log.propensities, log.rewards),
        log[1:],
    ):
        write(wrong, tmp_path / "log")
        with pytest.raises(AssertionError):
            assert_vowpal_wabbit_reads(log, tmp_path / "log", options)


@with_options
def test_vowpal_wabbit_counts_the_losses_that_follow_from_the_log(tmp_path, write, options):
    vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    log = make_log("pairs", n_rounds=50, magnitude=1)
    write(log, tmp_path / "log")
    chances = {"--cb_explore_adf --epsilon 1.0": 1.0 / log.n_actions, "--cb_adf": log.actions == 0}  # it learns nothing

    for rule, chance in chances.items():
        workspace = vowpalwabbit.Workspace(f"{rule} --cb_type ips -l 0 {options} -d {tmp_path / 'log'} --quiet")
        loss = workspace.get_sum_loss()
        workspace.finish()

        assert_allclose(loss, np.sum(-log.rewards * chance / log.propensities), rtol=1e-5)


def hashes(path):
    """The number by which Vowpal Wabbit knows each feature with a value, action by action."""
    vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    workspace = vowpalwabbit.Workspace("--cb_adf --dsjson --quiet")
    found = []
    for line in path.read_text("utf-8").splitlines():
        examples = workspace.parse(line)  # the first is what actions share
        found += [
            {e.feature(0, n) for n in range(e.num_features_in(0)) if e.feature_weight(0, n)} for e in examples[1:]
        ]
        workspace.finish_example(examples)
    workspace.finish()
    return found


@pytest.mark.parametrize("second", [[2.0, 0.0], [-1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
def test_a_column_is_one_feature_to_vowpal_wabbit_whatever_its_values(tmp_path, second):
    names = Vocabulary(action=[("Item", "color=red"), ("Item", "color=blue")])
    rows = np.array([[1.0, 0.0], second, [0.0, 1.0]])

    write_dsjson(Log([rows, rows[::-1]], [0, 0], [0.5, 0.5], [1.0, 2.0]), tmp_path / "log", vocabulary=names)

    first, middle, last, *_ = found = hashes(tmp_path / "log")
    assert found[3:] == found[2::-1]
    assert len(first) == len(last) == 1
    assert middle == (first | last if all(second) else first) != last


@both
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_rejected_by_round(tmp_path, read, write, bad):
    for rows in (np.array([[1.0, bad]]), csr_array([[1.0, bad]])):
        with pytest.raises(
            InvalidContexts, match="Features must be finite numbers, and round 1 has NaN or infinite ones"
        ):
            write(Log([np.ones((1, 2)), rows], [0, 0], [0.5, 0.5], [1.0, 1.0]), tmp_path / "log")

    assert not (tmp_path / "log").exists()


@both
@pytest.mark.parametrize("sparse", [False, True])
def test_policies_choose_among_and_learn_from_what_was_read(tmp_path, read, write, sparse):
    write(make_log("pairs", magnitude=0), tmp_path / "log")
    log = read(tmp_path / "log", sparse=sparse)
    policy = KernelUCB(PairProduct(Gaussian(length_scale=1.0), Linear()))

    for points, reward in zip(log.rounds, log.rewards, strict=True):
        policy.learn(policy.choose(points), float(reward))

    assert policy.posterior.n_observations == len(log)
