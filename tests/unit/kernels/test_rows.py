from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, csc_matrix, csr_array

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Rows

KIND = Rows()
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
SPARSE = csr_array(DENSE)


@pytest.mark.parametrize(
    "points",
    [DENSE.tolist(), DENSE.astype(np.float32), DENSE.astype(np.int8), np.asfortranarray(DENSE), DENSE[::1], DENSE > 0],
    ids=["lists", "single precision", "small integers", "columns first", "array", "booleans"],
)
def test_dense_rows_become_double_precision_in_c_order(points):
    checked = KIND.check(points)

    assert checked.dtype == np.float64
    assert checked.flags.c_contiguous
    assert_array_equal(checked, np.asarray(points, dtype=np.float64))


@pytest.mark.parametrize("form", [csr_array, csc_matrix, coo_array])
def test_sparse_rows_become_csr(form):
    checked = KIND.check(form(DENSE.astype(np.float32)))

    assert isinstance(checked, csr_array)
    assert checked.dtype == np.float64
    assert_array_equal(checked.toarray(), DENSE)


def test_explicit_zeros_and_repeated_entries_are_tidied_in_a_copy():
    given = csr_array(([1.0, 2.0, 0.0, 4.0], [2, 2, 0, 1], [0, 2, 4]), shape=(2, 3))
    tidy = csr_array(np.array([[0.0, 0.0, 3.0], [0.0, 4.0, 0.0]]))

    checked = KIND.check(given)

    assert KIND.keys(checked) == KIND.keys(KIND.check(tidy))
    assert checked.nnz == 2
    assert given.nnz == 4


def test_unsorted_columns_are_the_same_point():
    given = csr_array(([5.0, 7.0], [2, 0], [0, 2]), shape=(1, 3))

    assert KIND.keys(KIND.check(given)) == KIND.keys(KIND.check(csr_array([[7.0, 0.0, 5.0]])))


def test_canonical_rows_are_not_copied():
    assert KIND.check(DENSE) is DENSE


def test_long_doubles_are_taken_where_they_fit():
    assert KIND.check(np.array([[1.5]], dtype=np.longdouble)).dtype == np.float64
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        with pytest.raises(InvalidContexts, match="row 0 holds NaN or an infinity"):
            KIND.check(np.array([[np.finfo(np.longdouble).max]]))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0], [3.0]], "Contexts must be rows of equal length"),
        (np.ones((2, 2)) * 1j, "takes rows of real numbers, got ndarray with dtype complex128"),
        ([["a"], ["b"]], "takes rows of real numbers, got list with dtype <U1. Strings, sets, ids and pairs have"),
        (np.array([[1.0], [None]]), "takes rows of real numbers, got ndarray with dtype object"),
        ([[Decimal("1.5")]], "takes rows of real numbers, got list with dtype object"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "takes rows of real numbers, got ndarray with dtype datetime64"),
        (None, "takes rows of real numbers, got NoneType"),
        ([1.0, 2.0], r"must be a 2-d array, one row per action, got shape \(2,\). One action: reshape\(1, -1\)"),
        (np.ones((1, 1, 1)), r"must be a 2-d array, one row per action, got shape \(1, 1, 1\)"),
        (3.0, r"must be a 2-d array, one row per action, got shape \(\)"),
        (np.empty((0, 3)), "There must be at least one context, got none"),
        (csr_array((0, 3)), "There must be at least one context, got none"),
        (np.empty((3, 0)), r"A context needs at least one column, got shape \(3, 0\)"),
        ([[1.0], [1e308], [np.nan]], "row 2 holds NaN or an infinity. Fill gaps or drop the row"),
        (np.array([[1.0, 1.0], [-np.inf, 1.0]]), "row 1 holds NaN or an infinity"),
        (csr_array([[0.0, 0.0], [0.0, 0.0], [1.0, np.inf]]), "row 2 holds NaN or an infinity"),
        (csr_array([[1j]]), "Sparse contexts must hold real numbers, got dtype complex128"),
        (np.ma.masked_equal([[1.0, 2.0]], 2.0), "Some entries of the contexts are masked"),
    ],
)  # fmt: skip
def test_what_is_no_rows_of_numbers_is_rejected(points, message):
    with pytest.raises(InvalidContexts, match=message):
        KIND.check(points)


@pytest.mark.skipif(coo_array(np.ones(3)).ndim == 2, reason="SciPy before 1.13 has no sparse arrays of one axis")
def test_a_sparse_array_of_one_axis_is_rejected():
    message = r"Sparse contexts must be 2-d, one row per action, got shape \(3,\)"

    with pytest.raises(InvalidContexts, match=message):
        KIND.check(coo_array(np.ones(3)))


def test_a_masked_array_without_a_mask_is_an_array():
    assert_array_equal(KIND.check(np.ma.asarray(DENSE)), DENSE)


@pytest.mark.parametrize("rows", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_equal_keys_mean_the_same_row(rows):
    keys = KIND.keys(rows)

    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


def test_zero_and_negative_zero_are_the_same_number():
    assert KIND.keys(np.array([[0.0]])) == KIND.keys(np.array([[-0.0]]))
    assert KIND.keys(KIND.check(csr_array(np.array([[1.0, -0.0]])))) == KIND.keys(csr_array([[1.0, 0.0]]))


def test_keys_of_sparse_rows_do_not_depend_on_how_columns_are_numbered():
    wide = csr_array((SPARSE.data, SPARSE.indices.astype(np.int64), SPARSE.indptr.astype(np.int64)), shape=(4, 3))
    narrow = csr_array((SPARSE.data, SPARSE.indices.astype(np.int32), SPARSE.indptr.astype(np.int32)), shape=(4, 3))

    stored = KIND.view(KIND.grow(None, 0, narrow), 4)
    loaded = KIND.unpack(KIND.pack(narrow))

    assert KIND.keys(wide) == KIND.keys(narrow) == KIND.keys(stored) == KIND.keys(loaded)


@pytest.mark.parametrize("rows", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_a_store_grows_without_touching_what_was_given(rows):
    given = KIND.check(rows)
    store = None
    for start in range(0, 4, 2):
        store = KIND.grow(store, start, KIND.take(given, np.array([start, start + 1])))
    store = KIND.grow(store, 1, KIND.take(given, np.array([3])))

    view = KIND.view(store, 2)

    assert KIND.keys(view) == [KIND.keys(given)[row] for row in (0, 3)]
    assert KIND.keys(given) == KIND.keys(KIND.check(rows))


def test_a_sparse_store_lends_its_memory():
    store = KIND.grow(None, 0, SPARSE)

    view = KIND.view(store, 4)

    assert np.shares_memory(view.data, KIND.view(store, 2).data)


def test_many_small_steps_are_amortized():
    store, copies = KIND.grow(None, 0, np.zeros((1, 2))), 0
    for count in range(1, 1000):
        grown = KIND.grow(store, count, np.full((1, 2), float(count)))
        copies += grown is not store
        store = grown

    assert copies <= 11
    assert_array_equal(KIND.view(store, 1000)[:, 0], np.arange(1000.0))


@pytest.mark.parametrize(
    ("known", "points", "message"),
    [
        (DENSE, DENSE[:, :2], "These contexts have 2 columns; those learned before have 3"),
        (SPARSE, SPARSE[:, :2], "These contexts have 2 columns; those learned before have 3"),
        (DENSE, SPARSE, "Dense and sparse contexts cannot be learned by one model"),
        (SPARSE, DENSE, "Dense and sparse contexts cannot be learned by one model"),
    ],
)
def test_unlike_rows_are_not_kept_together(known, points, message):
    with pytest.raises(InvalidContexts, match=message):
        KIND.stack(known, points)
    with pytest.raises(InvalidContexts, match=message):
        KIND.grow(KIND.grow(None, 0, known), 4, points)


@pytest.mark.parametrize("point", [DENSE, SPARSE, DENSE[:2].tolist()])
def test_a_single_context_is_a_single_row(point):
    with pytest.raises(InvalidContexts, match="One context is one row, got"):
        KIND.as_collection(point)


def test_a_single_row_may_be_given_flat():
    assert_array_equal(KIND.as_collection([1.0, 2.0]), [[1.0, 2.0]])
    assert KIND.one(DENSE, 3).shape == (3,)
    assert KIND.one(SPARSE, 3).shape == (1, 3)


def test_one_row_is_a_copy():
    rows = DENSE.copy()

    row = KIND.one(rows, 0)
    rows[:] = 9.0

    assert_array_equal(row, DENSE[0])


def test_all_rows_are_of_one_kind():
    assert Rows() == Rows()
    assert hash(Rows()) == hash(Rows())
    assert repr(Rows()) == "Rows()"
    assert Rows() != "Rows"


def test_a_sparse_context_that_was_changed_after_choosing_is_rejected():
    policy = kb.LinUCB()
    decision = policy.choose(csr_array(np.eye(3)))
    decision.context.indices[0] = 1 << 30

    with pytest.raises(InvalidContexts, match="index arrays"):
        policy.learn(decision, 1.0)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_rows_of_every_format_are_taken(form):
    rows = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])

    np.testing.assert_array_equal(Rows().check(csr_array(rows).asformat(form)).toarray(), rows)
