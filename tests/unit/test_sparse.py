"""Sparse matrices whose index arrays lead outside of them are rejected wherever they come in: SciPy would crash."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, csr_matrix, dia_array, dok_array, lil_array

import kernelbandits as kb
from kernelbandits._sparse import sound
from kernelbandits.adapters import log_to_frame, to_obp, write_dsjson
from kernelbandits.environments import Candidates, Log
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import (
    Columns,
    Cosine,
    Delta,
    FromCallable,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    RandomFourier,
    RationalQuadratic,
    Rows,
    median_length_scale,
)
from kernelbandits.kernels.stationary import feature_distances
from kernelbandits.policies.experts.base import shared_row

ROWS = np.arange(1.0, 7.0).reshape(2, 3)


def broken(points, **changes):
    for name, (place, value) in changes.items():
        getattr(points, name)[place] = value
    return points


def replaced(points, **arrays):
    for name, array in arrays.items():
        setattr(points, name, array)
    return points


BROKEN = {
    "an index too high": lambda: broken(csr_array(ROWS), indices=(0, 3)),
    "an index too high in a matrix": lambda: broken(csr_matrix(ROWS), indices=(0, 3)),
    "a negative index": lambda: broken(csr_array(ROWS), indices=(1, -1)),
    "an index too high in another byte order": lambda: replaced(
        csr_array(ROWS), indices=np.array([0, 1, 2, 0, 1, 1 << 24], dtype=">i4")
    ),
    "indices that are no whole numbers": lambda: replaced(csr_array(ROWS), indices=np.zeros(6)),
    "rows that end too late": lambda: broken(csr_array(ROWS), indptr=(-1, 100)),
    "rows that begin too early": lambda: broken(csr_array(ROWS), indptr=(1, -1)),
    "rows that begin too late": lambda: broken(csr_array(ROWS), indptr=(0, 1)),
    "rows that go back": lambda: broken(csr_array(ROWS), indptr=(1, 7)),
    "fewer rows than beginnings": lambda: replaced(csr_array(ROWS), indptr=np.array([0, 3, 5, 6])),
    "no beginnings": lambda: replaced(csr_array(ROWS), indptr=np.zeros(0, dtype=np.int32)),
    "too few numbers": lambda: replaced(csr_array(ROWS), data=np.ones(5)),
    "too many numbers": lambda: replaced(csr_array(ROWS), data=np.ones(7)),
    "numbers in a table": lambda: replaced(csr_array(ROWS), data=np.ones((6, 1))),
    "numbers in a list": lambda: replaced(csr_array(ROWS), data=[1.0] * 6),
    "columns with a row too high": lambda: broken(csc_array(ROWS), indices=(0, 1 << 30)),
    "columns that go back": lambda: broken(csc_array(ROWS), indptr=(1, 6)),
    "coordinates too high": lambda: broken(coo_array(ROWS), row=(0, 1 << 30)),
    "negative coordinates": lambda: broken(coo_array(ROWS), col=(0, -2)),
    "more coordinates than numbers": lambda: replaced(coo_array(ROWS), data=np.ones(5)),
    "a block too far": lambda: broken(bsr_array(ROWS, blocksize=(2, 1)), indices=(0, 3)),
    "a negative block": lambda: broken(bsr_array(ROWS, blocksize=(2, 1)), indices=(0, -1)),
    "blocks that end too late": lambda: broken(bsr_array(ROWS, blocksize=(2, 1)), indptr=(-1, 1 << 30)),
    "too few blocks": lambda: replaced(bsr_array(ROWS, blocksize=(2, 1)), data=np.ones((2, 2, 1))),
    "blocks that do not fit": lambda: replaced(bsr_array(ROWS, blocksize=(2, 1)), data=np.ones((3, 2, 2))),
    "blocks of nothing": lambda: replaced(bsr_array(ROWS, blocksize=(2, 1)), data=np.ones((3, 0, 1))),
    "a list with an index too high": lambda: broken(lil_array(ROWS), rows=(0, [0, 1, 9])),
    "a list with a negative index": lambda: broken(lil_array(ROWS), rows=(1, [-1, 1, 2])),
    "lists of different lengths": lambda: broken(lil_array(ROWS), data=(0, [1.0])),
    "a key too high": lambda: dok_with((0, 9)),
    "a negative key": lambda: dok_with((-1, 0)),
    "a key that is none": lambda: dok_with("a"),
    "more diagonals than offsets": lambda: replaced(dia_array(ROWS), offsets=np.array([0])),
    "a diagonal outside": lambda: broken(dia_array(ROWS), offsets=(0, 9)),
    "offsets that are no whole numbers": lambda: replaced(dia_array(ROWS), offsets=np.zeros(4)),
}


def dok_with(key):
    points = dok_array(ROWS)
    points._dict[key] = 1.0
    return points


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_a_matrix_whose_indices_lead_outside_is_rejected(make):
    with pytest.raises(InvalidContexts, match=r"index arrays .* of shape \(2, 3\): .* Build the matrix again"):
        sound(make())


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_a_matrix_that_is_sound_stays_what_it_is(form):
    matrix = csr_array(ROWS).asformat(form)

    checked = sound(matrix)

    assert_array_equal(checked.toarray(), ROWS)
    assert (checked is matrix) == (form in ("csr", "csc", "coo", "bsr"))


def test_room_behind_the_last_entry_is_no_fault():
    rows = csr_array(ROWS)
    padded = replaced(rows.copy(), data=np.append(rows.data, 9.0), indices=np.append(rows.indices, 99))

    assert_array_equal(Cosine().gram(padded), Cosine().gram(rows))
    assert_array_equal(Rows().check(padded).toarray(), ROWS)


def test_what_only_looks_like_a_sparse_matrix_is_rejected():
    class Lookalike:
        def tocsr(self):
            raise AssertionError

    with pytest.raises(InvalidContexts, match="SciPy matrix or array, got Lookalike"):
        Linear().gram(Lookalike())
    with pytest.raises(InvalidContexts, match="SciPy matrix or array, got Lookalike"):
        kb.LinUCB().choose(Lookalike())


KERNELS = [
    Linear(),
    Polynomial(degree=2),
    Cosine(),
    Gaussian(length_scale=1.0),
    RationalQuadratic(length_scale=1.0),
    Laplacian(length_scale=1.0),
    Matern(length_scale=1.0, smoothness=1.5),
    Columns(Linear(), [0, 2]),
    Delta(kind=Rows()),
    2.0 * Linear() + Cosine(),
    Linear() * Cosine(),
    Normalized(Linear()),
    FromCallable(lambda first, second: (first @ second.T).toarray()),
]
PLACES = {
    "an index too high": BROKEN["an index too high"],
    "rows that go back": BROKEN["rows that go back"],
    "columns": BROKEN["columns with a row too high"],
    "coordinates": BROKEN["coordinates too high"],
    "blocks": BROKEN["a block too far"],
    "lists": BROKEN["a list with an index too high"],
}


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_no_method_of_a_kernel_reads_such_a_matrix(kernel, make):
    whole = csr_array(ROWS)
    calls = [
        lambda: kernel.gram(make()),
        lambda: kernel.gram(make(), whole),
        lambda: kernel.gram(whole, make()),
        lambda: kernel.diagonal(make()),
        lambda: feature_distances(kernel, whole, make()),
    ]
    if kernel.n_features(whole) is not None:
        calls += [lambda: kernel.features(make()), lambda: kernel.n_features(make())]

    for call in calls:
        with pytest.raises(InvalidContexts, match="index arrays"):
            call()


def test_what_is_made_from_rows_rejects_such_a_matrix():
    make = BROKEN["an index too high"]

    for call in (
        lambda: median_length_scale(make()),
        lambda: RandomFourier(Gaussian(length_scale=1.0), n_columns=3).features(make()),
        lambda: Candidates(make(), [1.0, 0.0], n_actions=1),
        lambda: shared_row(make()),
        lambda: shared_row(kb.Pairs(make()[[0]], ["a"])),
        lambda: kb.Decision(0, make()).to_dict(),
    ):
        with pytest.raises(InvalidContexts, match="index arrays"):
            call()


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_no_policy_reads_such_a_matrix(make):
    for policy in (kb.LinUCB(), kb.KernelUCB(Gaussian(length_scale=1.0))):
        for call in (
            lambda policy=policy: policy.choose(make()),
            lambda policy=policy: policy.choose_many([make()]),
            lambda policy=policy: policy.warm_start(make(), [0.0, 1.0]),
            lambda policy=policy: policy.play([make()], [[0.0, 1.0]]),
            lambda policy=policy: policy.learn(kb.Decision(0, make()), 1.0),
        ):
            with pytest.raises(InvalidContexts, match="index arrays"):
                call()
    for call in (lambda: kb.LinUCB().posterior.predict(make()), lambda: kb.UCB1().choose(make())):
        with pytest.raises(InvalidContexts, match="index arrays"):
            call()


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_no_catalog_takes_such_a_matrix(make):
    catalog = kb.Catalog(csr_array(ROWS))

    with pytest.raises(InvalidContexts, match="index arrays"):
        kb.Catalog(make())
    with pytest.raises(InvalidContexts, match="index arrays"):
        catalog.add(make())
    assert len(catalog) == 2


@pytest.mark.parametrize("write", [log_to_frame, to_obp, lambda log: write_dsjson(log, "log.json")])
def test_no_adapter_reads_such_a_matrix(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Log([BROKEN["an index too high"]()], [0], [0.5], [1.0])

    with pytest.raises(InvalidContexts, match="index arrays"):
        write(log)


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
def test_the_regressor_does_not_read_such_a_matrix(make):
    pytest.importorskip("sklearn")
    from kernelbandits.adapters import KernelUCBRegressor

    regressor = KernelUCBRegressor().fit(csr_array(ROWS), [0.0, 1.0])

    for call in (lambda: KernelUCBRegressor().fit(make(), [0.0, 1.0]), lambda: regressor.predict(make())):
        with pytest.raises(InvalidContexts, match="index arrays"):
            call()


def test_a_matrix_is_no_list_of_rounds_or_decisions():
    policy = kb.LinUCB()

    with pytest.raises(InvalidContexts, match="Rounds are a sequence"):
        policy.choose_many(BROKEN["columns with a row too high"]())
    with pytest.raises(kb.errors.DecisionError, match="sequence of decisions"):
        policy.learn_many(BROKEN["columns with a row too high"](), [1.0])
