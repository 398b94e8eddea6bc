import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import Catalog, KernelUCB, Pairs, simulate
from kernelbandits.adapters import log_from_frame, log_to_frame, trace_to_frame
from kernelbandits.environments import Clustered, Log
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Gaussian
from unit.adapters.logs import assert_same_log

KINDS = ["pandas", "polars", "arrow"]
NAMES = {"round": "round", "action": "action", "reward": "reward", "propensity": "propensity"}


def installed(kind):
    pytest.importorskip("pyarrow" if kind == "arrow" else kind)


def make_log(kind="rows", seed=4):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=8)
    rounds = [rng.normal(size=(n, 2)) for n in counts]
    if kind == "pairs":
        rounds = [Pairs(rng.normal(size=3), rows) for rows in rounds]
    if kind == "strings":
        rounds = [[f"item {t} {row}" for row in range(n)] for t, n in enumerate(counts)]
    if kind == "ids":
        rounds = [rng.permutation(9)[:n].tolist() for n in counts]
    ids = [[f"a{row}" for row in range(n)] for n in counts]
    actions = [int(rng.integers(n)) for n in counts]
    return Log(rounds, actions, 1.0 - rng.random(8), rng.normal(size=8), ids)


def columns_of(kind):
    if kind in ("strings", "ids"):
        return {"features": "point"}
    context = {"context": ["context_0", "context_1", "context_2"]} if kind == "pairs" else {}
    return {"features": ["feature_0", "feature_1"], **context}


@pytest.mark.parametrize("frame_kind", KINDS)
@pytest.mark.parametrize("kind", ["rows", "pairs", "strings", "ids"])
@pytest.mark.parametrize("chosen", [None, "chosen"])
def test_there_and_back_is_the_same_log(frame_kind, kind, chosen):
    installed(frame_kind)
    log = make_log(kind)

    again = log_from_frame(log_to_frame(log, frame_kind), **NAMES, **columns_of(kind), chosen=chosen)

    assert_same_log(log, again)


def test_negative_control_another_row_shown_or_a_turned_reward_shows():
    installed("pandas")
    log, frame = make_log(), log_to_frame(make_log())
    turned = frame.assign(reward=-frame["reward"])
    shifted = log_from_frame(frame[::-1], **NAMES, **columns_of("rows"))

    with pytest.raises(AssertionError):
        assert_same_log(log, log_from_frame(turned, **NAMES, **columns_of("rows")))
    with pytest.raises(AssertionError):
        assert_same_log(log, shifted)


def make_table(**changes):
    table = {
        "t": ["x", "y", "x", "y", "x"],
        "item": [1, 2, 3, 4, 5],
        "paid": [np.nan, 2.0, -1.5, np.nan, np.nan],
        "p": [np.nan, 0.25, 0.5, np.nan, 0.25],
        "u": [1.0, 2.0, 3.0, 4.0, 5.0],
        "v": [0, 1, 0, 1, 0],
        "hour": [7.0, 8.0, 7.0, 8.0, 7.0],
    }
    return {**table, **changes}


def read(table, **changes):
    columns = {"round": "t", "action": "item", "reward": "paid", "propensity": "p", "features": ["u", "v"]}
    return log_from_frame(table, **{**columns, **changes})


def test_rows_of_a_round_need_not_stand_together():
    log = read(make_table(), context=["hour"])

    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [-1.5, 2.0]
    assert log.propensities.tolist() == [0.5, 0.25]
    assert log.ids == [[1, 3, 5], [2, 4]]
    assert_array_equal(log.rounds[0].actions, [[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])
    assert_array_equal(log.rounds[1].context, [8.0])


def test_every_way_to_hold_a_table_gives_the_same_log():
    for package in ("pandas", "polars", "pyarrow", "duckdb"):
        pytest.importorskip(package)
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    none = [None if isinstance(value, float) and np.isnan(value) else value for value in make_table()["paid"]]
    frame = pd.DataFrame(make_table())
    arrow = pa.table({**make_table(), "paid": none})
    tables = [
        frame,
        frame.assign(paid=pd.array(none, dtype="Float64")),
        frame.assign(collect=1),
        pl.DataFrame({**make_table(), "paid": none}),
        pl.DataFrame(make_table()).lazy(),
        arrow,
        arrow.to_batches()[0],
        arrow.to_reader(),
        duckdb.sql("select * replace (paid::decimal(9, 3) as paid) from arrow"),
        duckdb.sql("select * from arrow"),
    ]

    for table in tables:
        assert_same_log(read(make_table()), read(table))


def test_strings_are_points_and_actions_need_no_names():
    log = read(make_table(text=list("abcde")), features=["text"], action=None)

    assert log.rounds == [["a", "c", "e"], ["b", "d"]]
    assert log.ids is None


def test_a_marked_row_is_shown_whatever_rewards_stand_beside_it():
    table = make_table(paid=[1.0, 2.0, 3.0, 4.0, 5.0], mark=[False, False, False, True, True], p=[0.5] * 5)

    log = read(table, chosen="mark")

    assert log.actions.tolist() == [2, 1]
    assert log.rewards.tolist() == [5.0, 4.0]


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (make_table(paid=[0.0, 2.0, -1.5, np.nan, np.nan]), {}, InvalidParameter, "column 'paid' round 'x' has 2"),
        (make_table(paid=[np.nan] * 5), {}, InvalidParameter, "round 'x' has 0"),
        (make_table(mark=[1, 1, 1, 0, 0]), {"chosen": "mark"}, InvalidParameter, "column 'mark' round 'x' has 2"),
        (make_table(mark=[1, 2, 0, 0, 0]), {"chosen": "mark"}, InvalidParameter, "'mark' must hold booleans"),
        (
            make_table(mark=[1, 1, 0, 0, 0]),
            {"chosen": "mark"},
            InvalidParameter,
            "must have its 'p', and it is missing in round 'x'",
        ),
        (make_table(item=[1, 2, 1, 4, 5]), {}, InvalidParameter, "1 is in round 'x' twice"),
        (
            make_table(p=[np.nan, 0.25, np.nan, 0.5, 0.5]),
            {},
            InvalidParameter,
            "must have its 'p', and it is missing in round 'x'",
        ),
        (make_table(p=[np.nan, 0.0, 0.5, 0.5, 0.5]), {}, InvalidParameter, "above 0 and at most 1"),
        (make_table(), {"features": []}, InvalidParameter, "got no features"),
        (make_table(), {"features": "u"}, InvalidContexts, r"features=\['u'\]"),
        (make_table(), {"features": ["t", "u"]}, InvalidParameter, "'t' must hold numbers, got str"),
        (make_table(), {"reward": "pay"}, InvalidParameter, "no column 'pay'; it has 't', 'item'"),
        (make_table(), {"context": ["u"]}, InvalidContexts, "in round 'x' it is not"),
        (make_table(t=["x", None, "x", "y", "x"]), {}, InvalidParameter, "row 1 has none"),
        (3, {}, InvalidParameter, "dictionary of columns, got int"),
        (
            make_table(item=[1, None, 3, 4, 5]),
            {},
            InvalidParameter,
            "string or a whole number, and in round 'y' .* None",
        ),
        (make_table(item=[1.5, 2, 3, 4, 5]), {}, InvalidParameter, "in round 'x' one is 1.5"),
        (
            make_table(u=[1.0, np.nan, 3.0, 4.0, 5.0]),
            {},
            InvalidContexts,
            r"row 1 of the table lacks one of \['u', 'v'\]",
        ),
        (make_table(u=[1.0, {}, 3.0, 4.0, 5.0]), {}, InvalidParameter, "'u' must hold numbers, got"),
        (make_table(hour=[np.nan] * 5), {"context": ["hour"]}, InvalidContexts, "in round 'x' a part is"),
        (make_table(), {"context": "hour"}, InvalidParameter, r"One column: \['hour'\]"),
        (make_table(u=[1.0, 2.0]), {}, InvalidParameter, "of one length, got .*'u': 2"),
    ],
)
def test_tables_that_are_no_log_are_rejected(table, options, error, message):
    with pytest.raises(error, match=message):
        read(table, **options)


def test_what_pandas_writes_for_a_gap_and_columns_of_one_name_are_rejected():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_table())
    with_gap = frame.assign(t=pandas.array(["x", None, "x", "y", "x"], dtype="string"))
    with_time = frame.assign(u=pandas.to_datetime("2020-01-01", utc=True))

    with pytest.raises(InvalidParameter, match="row 1 has none"):
        read(with_gap)
    with pytest.raises(InvalidParameter, match="'u' must hold numbers, got"):
        read(with_time)
    with pytest.raises(InvalidParameter, match="2 columns called 'u'"):
        read(pandas.concat([frame, frame[["u"]]], axis=1))


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_names_of_mixed_types_need_a_table_that_takes_them(kind):
    installed(kind)
    log = Log([["a", "b"]], [0], [0.5], [1.0], [["x", 3]])

    with pytest.raises(InvalidContexts, match="must have one type"):
        log_to_frame(log, kind)


def test_logs_that_a_table_cannot_hold_are_rejected():
    installed("pandas")
    uneven = Log([np.eye(2), np.eye(3)], [0, 0], [0.5, 0.5], [1.0, 1.0])
    mixed = Log([np.eye(2), Pairs([1.0], np.eye(2))], [0, 0], [0.5, 0.5], [1.0, 1.0])

    with pytest.raises(InvalidContexts, match="equally long"):
        log_to_frame(uneven)
    with pytest.raises(InvalidContexts, match="All rounds of a table must have a shared context, or none"):
        log_to_frame(mixed)
    with pytest.raises(InvalidContexts, match="got a catalog"):
        log_to_frame(Log([Catalog(np.eye(2))], [0], [0.5], [1.0]))
    with pytest.raises(InvalidParameter, match="'pandas', 'polars' or 'arrow', got 'excel'"):
        log_to_frame(make_log(), "excel")


def test_sparse_rows_are_written_dense_and_an_empty_log_as_an_empty_table():
    installed("pandas")
    sparse = Log([csr_array(np.eye(2))], [1], [0.5], [1.0])

    assert log_to_frame(sparse)["feature_1"].tolist() == [0.0, 1.0]
    assert len(log_to_frame(Log([], [], [], []))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_is_a_table_with_a_row_a_round(kind):
    installed(kind)
    trace = simulate(Clustered(n_actions=4), KernelUCB(Gaussian(length_scale=0.2)), horizon=7, seed=3)

    frame = trace_to_frame(trace, kind)

    assert_array_equal(np.asarray(frame["round"]), np.arange(1, 8))
    for name, column in trace.to_columns().items():
        assert_array_equal(np.asarray(frame[name]), column)


def test_the_column_of_rounds_may_hold_times():
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-01", "2020-01-02"])

    assert_same_log(read(make_table()), read(pandas.DataFrame(make_table(t=times))))
