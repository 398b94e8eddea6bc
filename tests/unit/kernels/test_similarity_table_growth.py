import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.errors import ForeignFile, NotPositiveSemidefinite
from kernelbandits.kernels import Gaussian, Precomputed, repair
from kernelbandits.kernels.similarity_table import RepairReport, SimilarityTable, unpack_rule

GROWING = ["clip", "flip", "square"]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
APART = np.linalg.norm(ROWS[:, None] - ROWS[None], axis=2)
NOISE = RNG.normal(size=(40, 40)) * 0.05
TABLES = {
    "random": (NOISE + NOISE.T) * 10 + np.eye(40),
    "negative distances": -APART,
    "sigmoid": np.tanh(ROWS @ ROWS.T - 1.0),
    "noisy kernel": np.exp(-(APART**2) / 2) + NOISE + NOISE.T,
    "low rank": np.outer(ROWS[:, 0], ROWS[:, 0]) - np.outer(ROWS[:, 1], ROWS[:, 1]),
    "rounded kernel": np.round(np.exp(-(APART**2) / 20), 2),
    "everyone twice": np.tile(np.tanh(ROWS[:20] @ ROWS[:20].T - 1.0), (2, 2)),
}


def grow(table, raw, sizes):
    """Add the next rows of the raw similarities in blocks of these sizes; reports."""
    reports = []
    for size in sizes:
        known, new = slice(0, len(table)), slice(len(table), len(table) + size)
        before = table.values.copy()
        reports.append(table.add(range(new.start, new.stop), to_known=raw[new, known], among_new=raw[new, new]))
        assert_array_equal(table.values[known, known], before)
    return reports


@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("sizes", [[1] * 10, [4, 9, 1, 11], [25]], ids=["one by one", "blocks", "at once"])
def test_a_grown_table_is_positive_semi_definite_and_no_entry_ever_changes(name, method, sizes):
    raw = TABLES[name]
    table, _ = repair(raw[:15, :15], method=method)

    reports = grow(table, raw, sizes)

    spectrum = np.linalg.eigvalsh(table.values)
    assert len(table) == 15 + sum(sizes)
    assert spectrum.min() >= -1e-10 * spectrum.max()
    assert_array_equal(table.values, table.values.T)
    assert all(report.method == method for report in reports)


@pytest.mark.parametrize("method", GROWING)
@settings(max_examples=30)
@given(
    n_first=st.integers(1, 6),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    rank=st.integers(0, 6),
    seed=st.integers(0, 10**6),
)
def test_any_similarities_grow_into_something_positive_semi_definite(method, n_first, sizes, rank, seed):
    rng = np.random.default_rng(seed)
    n_items = n_first + sum(sizes)
    factors = rng.normal(size=(n_items, rank))[rng.integers(n_items, size=n_items)]  # low rank, with repeats
    raw = (factors * rng.normal(size=rank)) @ factors.T
    raw = (raw + raw.T) / 2
    table, _ = repair(raw[:n_first, :n_first], method=method)

    grow(table, raw, sizes)

    spectrum = np.linalg.eigvalsh(table.values)
    assert spectrum.min() >= -1e-10 * max(spectrum.max(), np.abs(raw).max())


@pytest.mark.parametrize("method", ["clip", "flip"])
@pytest.mark.parametrize("length_scale", [0.3, 1.0, 4.0])
def test_similarities_of_a_kernel_are_added_as_they_are(method, length_scale):
    raw = Gaussian(length_scale=length_scale).gram(ROWS)
    table, _ = repair(raw[:15, :15], method=method)

    reports = grow(table, raw, [1, 1, 5, 18])

    assert_allclose(table.values, (raw + raw.T) / 2, atol=1e-7)
    assert [report.n_negative for report in reports] == [0, 0, 0, 0]
    assert max(report.largest_change for report in reports) <= 1e-7


@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("name", ["random", "sigmoid", "noisy kernel", "negative distances"])
def test_an_item_given_again_gets_the_same_similarities(name, method):
    raw = TABLES[name][:15, :15]
    table, _ = repair(raw, method=method)

    table.add(["seven again"], to_known=raw[7:8], among_new=raw[7:8, 7:8])

    scale = np.abs(table.values).max()
    assert_allclose(table.values[15, :15], table.values[7, :15], atol=1e-9 * scale)
    assert table.values[15, 15] == pytest.approx(table.values[7, 7], abs=1e-9 * scale)


@pytest.mark.parametrize("name", ["sigmoid", "noisy kernel", "random"])
def test_clipping_item_by_item_is_nearly_as_gentle_as_clipping_all_at_once(name):
    raw = TABLES[name]
    table, _ = repair(raw[:20, :20], method="clip")
    grow(table, raw, [1] * 20)

    at_once, _ = repair(raw, method="clip")

    new = np.arange(40) >= 20
    changed = np.sqrt(np.mean((table.values - raw)[new] ** 2))
    assert changed <= 3.0 * np.sqrt(np.mean((at_once.values - raw)[new] ** 2))


@pytest.mark.parametrize("method", ["clip", "flip"])
@pytest.mark.parametrize("name", TABLES)
def test_self_similarities_do_not_run_away(name, method):
    raw = TABLES[name]
    table, _ = repair(raw[:15, :15], method=method)
    allowance = (np.diagonal(table.values) - np.diagonal(raw)[:15]).max()

    grow(table, raw, [1] * 25)

    limits = np.maximum(np.diagonal(raw), 0.0) + allowance
    factor = 1.0 if method == "clip" else 3.0  # flip also turns round what was left unexplained
    assert (np.diagonal(table.values) <= factor * limits + 1e-9).all()


def test_new_items_of_a_squared_table_are_compared_with_the_first_items():
    raw = TABLES["sigmoid"]
    table, _ = repair(raw[:15, :15], method="square")

    grow(table, raw, [10, 15])

    landmarks = raw[:, :15]
    assert_allclose(table.values, landmarks @ landmarks.T / np.abs(np.linalg.eigvalsh(raw[:15, :15])).max(), atol=1e-12)


def test_a_shifted_table_takes_what_fits_and_shifts_it_too():
    raw = np.array([[1.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.5, 1.0]])
    table, first = repair(raw[:2, :2], method="shift")

    reports = grow(table, raw, [1, 1])

    assert first.most_negative == pytest.approx(-1.0)
    assert_allclose(table.values, raw + np.eye(4))
    assert np.linalg.eigvalsh(table.values).min() >= -1e-10
    assert [report.largest_change for report in reports] == [pytest.approx(1.0)] * 2


def test_a_shifted_table_takes_a_block_that_lies_within_the_shift():
    table, _ = repair(np.array([[1.0, 2.0], [2.0, 1.0]]), method="shift")

    report = table.add(["a", "b"], to_known=np.zeros((2, 2)), among_new=[[0.5, 1.2], [1.2, 0.5]])

    assert report.n_negative == 1
    assert report.most_negative == pytest.approx(-0.7)
    assert np.linalg.eigvalsh(table.values).min() >= -1e-10


def test_a_block_that_would_need_a_larger_shift_is_rejected_with_the_figure():
    raw = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 3.0], [0.0, 3.0, 1.0]])
    table, _ = repair(raw[:2, :2], method="shift")
    before = table.values.copy()
    needed = -np.linalg.eigvalsh(raw).min()

    with pytest.raises(
        NotPositiveSemidefinite, match=f"would need a shift of {needed:.6g}, and it was shifted by 1 for"
    ):
        table.add(["new"], to_known=raw[2:, :2], among_new=raw[2:, 2:])

    assert len(table) == 2
    assert "new" not in table
    assert_array_equal(table.values, before)
    table.add(["new"], to_known=np.zeros((1, 2)), among_new=[[1.0]])


def test_a_sound_table_repaired_by_shift_rejects_the_first_contradiction():
    raw = Gaussian(length_scale=1.0).gram(ROWS)
    table, report = repair(raw[:20, :20], method="shift")

    grow(table, raw, [5, 1])
    with pytest.raises(NotPositiveSemidefinite, match='better repaired with method="clip" or "flip"'):
        table.add(["odd"], to_known=np.ones((1, 26)), among_new=[[1.0]])

    assert report.largest_change == 0.0
    assert_allclose(table.values, raw[:26, :26], atol=1e-15)


@pytest.mark.parametrize("method", [*GROWING, "shift"])
def test_a_saved_table_goes_on_growing_as_it_would_have(method):
    raw = TABLES["sigmoid"] if method != "shift" else Gaussian(length_scale=1.0).gram(ROWS)
    kernel = Precomputed(repair(raw[:15, :15], method=method)[0])
    grow(kernel.table, raw, [1, 4])

    loaded = Precomputed.unpack(*kernel.pack())
    assert loaded.table.origin == kernel.table.origin
    reports = grow(kernel.table, raw, [1, 5]), grow(loaded.table, raw, [1, 5])

    assert reports[0] == reports[1]
    assert_array_equal(loaded.table.values, kernel.table.values)


def test_an_unknown_repair_is_foreign():
    with pytest.raises(ForeignFile, match="names a repair that this version does not know: 'polish'"):
        unpack_rule({"method": "polish"}, {}, 3)


def test_a_report_on_no_eigenvalues_is_clean():
    report = RepairReport.of(np.zeros(0), "clip", limit=0.0, change=0.0)

    assert (report.n_negative, report.most_negative, report.negative_mass) == (0, 0.0, 0.0)


def test_an_unrepaired_table_reports_nothing():
    table = SimilarityTable(np.eye(2))

    assert grow(table, np.eye(5), [2, 1]) == [None, None]
