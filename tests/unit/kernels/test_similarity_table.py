import copy
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from interrupts import interrupted_everywhere
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import Precomputed, SimilarityTable, repair
from kernelbandits.kernels.rows import GrowingNames
from kernelbandits.kernels.similarity_table import symmetric

VALUES = np.array([[1.0, 0.5, 0.1], [0.5, 2.0, 0.3], [0.1, 0.3, 1.5]])


@pytest.fixture
def table():
    return SimilarityTable(VALUES, ids=["tea", 7, "7"])


def test_a_table_knows_its_items(table):
    assert len(table) == 3
    assert table.ids == ("tea", 7, "7")
    assert "tea" in table
    assert np.int64(7) in table
    assert "milk" not in table
    assert 7.0 not in table
    assert None not in table
    assert_array_equal(table.rows(["7", "tea", 7, "tea"]), [2, 0, 1, 0])
    assert table.rows([]).shape == (0,)
    assert table.id(1) == 7
    assert repr(table) == "SimilarityTable(3 items, repair: none)"


def test_without_ids_items_are_called_by_their_rows():
    table = SimilarityTable(VALUES)

    assert table.ids == (0, 1, 2)
    assert_array_equal(table.rows([2, 0]), [2, 0])
    assert_array_equal(table.rows(np.array([2, 0], dtype=np.int8)), [2, 0])
    assert table.rows(np.array([2])).dtype == np.intp


@pytest.mark.parametrize("ids", [[1, -1], np.array([1, -1]), [-1], np.array([0, 3]), ["0"]])
def test_rows_do_not_count_from_the_end(ids):
    with pytest.raises(
        UnknownItem, match=r"The similarity table holds no item ('0'|-1|3); it holds 3 items, from 0 to 2"
    ):
        SimilarityTable(VALUES).rows(ids)


def test_an_unknown_item_is_named_with_the_way_to_add_it(table):
    with pytest.raises(UnknownItem, match=r"no item 'milk'; .* table.add\(\['milk'\], to_known=..., among_new=...\)"):
        table.rows(["tea", "milk"])


@pytest.mark.parametrize("ids", ["tea", 7, None, [1.5], [True], {"tea"}])
def test_ids_are_a_sequence_of_integers_and_strings(table, ids):
    with pytest.raises(InvalidContexts, match=r"An id is an integer or a string|Contexts must be a sequence"):
        table.rows(ids)


def test_the_values_are_copied_and_read_only():
    given = VALUES.copy()
    table = SimilarityTable(given)
    given[:] = 0.0

    assert_array_equal(table.values, VALUES)
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 5.0


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_any_real_numbers_are_taken(dtype):
    table = SimilarityTable(np.eye(2, dtype=dtype).tolist())

    assert table.values.dtype == np.float64


def test_rounding_is_evened_out_and_symmetric_entries_stay():
    values = VALUES.copy()
    values[0, 1] += 1e-9

    table = SimilarityTable(values)

    assert table.values[0, 1] == table.values[1, 0] == pytest.approx(0.5 + 5e-10, abs=1e-12)
    assert_array_equal(table.values[2], VALUES[2])


@pytest.mark.parametrize("chunk", [1, 2, 256])
def test_the_worst_asymmetry_is_named(chunk):
    values = VALUES.copy()
    values[1, 0] += 1e-5
    values[2, 1] += 1e-3

    with pytest.raises(
        InvalidParameter, match=r"must be symmetric, and those of rows [12] and [12] are 0.30?1? .* \(S \+ S.T\) / 2"
    ):
        symmetric(values, "The similarities", chunk=chunk)


@pytest.mark.parametrize(
    ("values", "ids", "message"),
    [
        (np.ones((2, 3)), None, r"must be a square matrix, one row and one column per item, got \(2, 3\)"),
        (np.ones(3), None, r"must be a matrix of real numbers, got dtype float64 and shape \(3,\)"),
        ([[1.0, 2.0], [3.0]], None, "must be rows of equal length"),
        (np.eye(2) * 1j, None, "must be a matrix of real numbers, got dtype complex128"),
        ([["a"]], None, "must be a matrix of real numbers, got dtype <U1"),
        (csr_array(np.eye(2)), None, r"must be a dense matrix, got a sparse one. Convert it: S.toarray\(\)"),
        (np.array([[1.0, np.inf], [np.inf, 1.0]]), None, "must be finite numbers, got inf in row 0, column 1"),
        (np.empty((0, 0)), None, "A similarity table needs at least one item, got none"),
        (np.diag([1.0, -0.5]), ["a", "b"], "'b' has -0.5. Repair them: kb.kernels.repair"),
        (np.eye(2), ["a", "a"], "ids of a similarity table must be unique, and 'a' occurs twice"),
        (np.eye(2), ["a"], "one id per item, got 1 ids for 2 items"),
        (np.eye(2), ["a", 1.5], "The ids of a similarity table cannot be used. An id is an integer or a string"),
        (np.eye(2), "ab", "The ids of a similarity table cannot be used. Contexts must be a sequence"),
    ],
)  # fmt: skip
def test_anything_but_a_table_is_rejected(values, ids, message):
    with pytest.raises(InvalidParameter, match=message):
        SimilarityTable(values, ids=ids)


def test_growth_appends_and_changes_no_entry(table):
    report = table.add(["x", 8], to_known=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], among_new=[[9.0, 0.5], [0.5, 8.0]])

    expected = np.block(
        [[VALUES, np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])], [np.array([[1.0, 2, 3, 9, 0.5], [4, 5, 6, 0.5, 8]])]]
    )
    assert report is None
    assert_array_equal(table.values, expected)
    assert_array_equal(table.rows(["x", 8, "tea"]), [3, 4, 0])


def test_a_numbered_table_may_go_on_with_numbers_or_names():
    table = SimilarityTable(VALUES)

    table.add([3], to_known=np.zeros((1, 3)), among_new=[[1.0]])
    assert_array_equal(table.rows(np.array([3])), [3])

    table.add([10, "ten"], to_known=np.zeros((2, 4)), among_new=np.eye(2))
    assert_array_equal(table.rows(np.array([10, 2])), [4, 2])
    with pytest.raises(UnknownItem, match="no item 4"):
        table.rows(np.array([4]))


@pytest.mark.parametrize(
    ("ids", "to_known", "among_new", "message"),
    [
        (["tea"], np.zeros((1, 3)), [[1.0]], "must be unique, and 'tea' occurs twice"),
        (["x", "x"], np.zeros((2, 3)), np.eye(2), "must be unique, and 'x' occurs twice"),
        (["x"], np.zeros((2, 3)), np.eye(2), "one id per item, got 1 ids for 2 items"),
        (["x"], np.zeros((1, 2)), [[1.0]], r"a column for each of the 3 known ones, got shape \(1, 2\)"),
        (["x"], np.zeros((3, 1)), [[1.0]], r"must have a row for each of the 1 new items .* got shape \(3, 1\)"),
        ([], np.zeros((0, 3)), np.zeros((0, 0)), r"a row for each of the 0 new items \(at least one\)"),
        (["x"], np.full((1, 3), np.nan), [[1.0]], "to_known must be finite numbers, got nan in row 0, column 0"),
        (["x"], np.zeros(3), [[1.0]], "to_known must be a matrix of real numbers"),
        (["x", "y"], np.zeros((2, 3)), [[1.0, 0.5], [0.0, 1.0]], "among_new must be symmetric"),
        (["x"], np.zeros((1, 3)), [[-1.0]], "'x' has -1"),
        ("x", np.zeros((1, 3)), [[1.0]], "The ids of a similarity table cannot be used"),
    ],
)
def test_a_block_that_does_not_fit_changes_nothing(table, ids, to_known, among_new, message):
    with pytest.raises(InvalidParameter, match=message):
        table.add(ids, to_known=to_known, among_new=among_new)

    assert table.ids == ("tea", 7, "7")
    assert_array_equal(table.values, VALUES)


def test_the_origin_stays_when_the_table_grows(table):
    origin = table.origin
    fresh = SimilarityTable(VALUES, ids=["tea", 7, "7"])

    fresh.add(["x"], to_known=np.zeros((1, 3)), among_new=[[1.0]])

    assert fresh.origin == origin  # read after the growth
    assert len(origin) == 64


def test_the_origin_tells_tables_apart(table):
    others = [
        SimilarityTable(VALUES, ids=["tea", 7, 8]),
        SimilarityTable(VALUES, ids=["tea", "7", 7]),
        SimilarityTable(VALUES + 1e-15),
        SimilarityTable(VALUES[:2, :2], ids=["tea", 7]),
        repair(table, method="clip")[0],
        repair(table, method="flip")[0],
        SimilarityTable(VALUES, ids=["\ud800", 7, "7"]),
    ]

    assert len({table.origin, *(other.origin for other in others)}) == 8


def test_a_table_survives_packing(table):
    table.add(["\ud800"], to_known=np.ones((1, 3)), among_new=[[4.0]])

    loaded = SimilarityTable.unpack(*table.pack())

    assert loaded.ids == table.ids
    assert loaded.origin == table.origin
    assert_array_equal(loaded.values, table.values)


def test_growth_one_by_one_does_not_copy_the_table_each_time():
    table, moves = SimilarityTable([[1.0]]), 0
    for row in range(1, 300):
        before = table.values
        table.add([row], to_known=np.full((1, row), 0.5), among_new=[[1.0]])
        moves += not np.shares_memory(table.values, before)

    assert moves <= 9
    assert_array_equal(table.values, 0.5 + 0.5 * np.eye(300))


# -- interrupts, threads, copies -------------------------------------------------------------------------------------

METHODS = ["none", "clip", "flip", "shift", "square"]
RAW = Precomputed(np.exp(-0.1 * np.abs(np.subtract.outer(np.arange(60), np.arange(60)))))


def made(method, n_items=6):
    """A table that has grown before, so that its buffers have room to spare."""
    first = RAW.table.values[: n_items - 2, : n_items - 2]
    table = SimilarityTable(first) if method == "none" else repair(first, method=method)[0]
    add_next(table, 1)
    add_next(table, 1)
    return table


def add_next(table, n_new):
    """The next items of `RAW`."""
    known, new = slice(0, len(table)), slice(len(table), len(table) + n_new)
    return table.add(
        range(new.start, new.stop), to_known=RAW.table.values[new, known], among_new=RAW.table.values[new, new]
    )


def state(table):
    """All that a caller can see, and what a growth after this one makes of it."""
    parameters, arrays = table.pack()
    return str(parameters), {name: array.tolist() for name, array in arrays.items()}, table.ids, len(table)


def states_after_interrupts(method):
    """What an interrupt of `add` at any line leaves behind, and what trying again then gives."""
    left, repeated = [], []
    for table in interrupted_everywhere(lambda: made(method), lambda table: add_next(table, 2)):
        left.append(state(table))
        if len(table) == 6:
            add_next(table, 2)
        add_next(table, 1)
        repeated.append(state(table))
    return left, repeated


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_growth_adds_all_or_nothing(method):
    before, after, later = made(method), made(method), made(method)
    add_next(after, 2)
    add_next(later, 2)
    add_next(later, 1)

    left, repeated = states_after_interrupts(method)

    assert len(left) > 30
    assert all(found in (state(before), state(after)) for found in left)
    assert all(found == state(later) for found in repeated)


def test_a_growth_in_place_would_be_seen_by_this_test(monkeypatch):
    def grow_in_place(names, new):
        names.__init__([*names.listed(), *new])
        return names

    before, after = made("none"), made("none")
    add_next(after, 2)
    monkeypatch.setattr(GrowingNames, "grown", grow_in_place)

    interrupts = interrupted_everywhere(lambda: made("none"), lambda table: add_next(table, 2))

    assert not all(state(table) in (state(before), state(after)) for table in interrupts)


def test_a_growth_from_a_signal_handler_comes_first(monkeypatch):
    table, grown = made("clip"), GrowingNames.grown
    interruptions = [lambda: add_next(table, 1)]

    def interrupted(names, new):
        if interruptions:
            interruptions.pop()()
        return grown(names, new)

    monkeypatch.setattr(GrowingNames, "grown", interrupted)
    with pytest.raises(InvalidParameter, match="and 6 occurs twice"):
        add_next(table, 2)

    expected = made("clip", n_items=6)
    add_next(expected, 1)
    assert state(table) == state(expected)


@pytest.mark.parametrize("method", ["none", "clip", "square"])
def test_a_table_answers_in_all_threads_while_it_grows(method):
    table, complete = made(method), made(method)
    while len(complete) < 60:
        add_next(complete, 1)
    kernel, expected, failures = Precomputed(table), complete.values, []
    interval = sys.getswitchinterval()

    def read():
        while len(table) < 60:
            ids = table.ids
            known = len(ids)
            gram = kernel.gram(list(ids))
            if not (np.array_equal(gram, expected[:known, :known]) and ids == tuple(range(known))):
                failures.append(known)
            if table.id(known - 1) not in table or len(table.values) < known:
                failures.append(known)

    sys.setswitchinterval(1e-6)
    try:
        readers = [Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        while len(table) < 60:
            add_next(table, 1)
        for reader in readers:
            reader.join()
    finally:
        sys.setswitchinterval(interval)

    assert not failures
    assert_array_equal(table.values, expected)


def test_threads_that_add_at_once_are_all_added_or_rejected():
    table = SimilarityTable([[1.0]], ids=["first"])

    def add(worker):
        n_added = 0
        for number in range(30):
            try:
                n_known = len(table)
                table.add([f"{worker}-{number}"], to_known=np.zeros((1, n_known)), among_new=[[1.0]])
                n_added += 1
            except InvalidParameter:
                pass
        return n_added

    with ThreadPoolExecutor(4) as pool:
        n_added = sum(pool.map(add, range(4)))

    assert len(table) == len(set(table.ids)) == 1 + n_added
    assert_array_equal(table.values, np.eye(1 + n_added))
    assert_array_equal(table.rows(table.ids), np.arange(1 + n_added))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_can_add_although_a_thread_was_adding(table):
    with table._writing.lock:
        read, write = os.pipe()
        child = os.fork()
        if not child:  # a thread of its own, since the thread that forked holds the lock
            worker = Thread(target=lambda: table.add(["x"], to_known=np.zeros((1, 3)), among_new=[[1.0]]), daemon=True)
            worker.start()
            worker.join(20)
            os.write(write, str(len(table)).encode())
            os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 10) == b"4"
    os.close(read)
    os.close(write)


def test_a_copy_of_a_table_is_the_table(table):
    assert copy.copy(table) is table
    assert copy.deepcopy(table) is table


@pytest.mark.parametrize("method", METHODS)
def test_a_pickled_table_is_another_one_and_grows_alike(method):
    table = made(method)

    thawed = pickle.loads(pickle.dumps(table))
    add_next(thawed, 2)
    add_next(table, 2)

    assert thawed is not table
    assert (thawed.ids, thawed.origin, thawed.method) == (table.ids, table.origin, table.method)
    np.testing.assert_allclose(thawed.values, table.values, rtol=1e-12)


def test_rows_that_are_not_there_have_no_id(table):
    with pytest.raises(UnknownItem, match="no row 3; its rows are 0 to 2"):
        table.id(3)
