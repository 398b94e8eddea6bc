import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian, RepairReport, SimilarityTable, detect, repair

METHODS = ["clip", "flip", "shift", "square"]


def random_similarities(n_items, seed):
    values = np.random.default_rng(seed).normal(size=(n_items, n_items))
    return (values + values.T) / 2 + 2 * np.eye(n_items)


def kernel_matrix(n_items, seed):
    return Gaussian(length_scale=0.8).gram(np.random.default_rng(seed).normal(size=(n_items, 2)))


def defined(method, values):
    spectrum, vectors = np.linalg.eigh(values)
    if method == "square":
        return values @ values / np.abs(spectrum).max()
    if method == "shift":
        return values + max(-spectrum.min(), 0.0) * np.eye(len(values))
    changed = np.abs(spectrum) if method == "flip" else np.maximum(spectrum, 0.0)
    return vectors @ np.diag(changed) @ vectors.T


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_repair_changes_the_spectrum_as_defined(method, seed):
    values = random_similarities(12, seed)

    table, report = repair(values, method=method)

    spectrum = np.linalg.eigvalsh(values)
    negative = spectrum[spectrum < 0]
    assert_allclose(table.values, defined(method, values), atol=1e-12)
    assert_array_equal(table.values, table.values.T)
    assert report.method == table.method == method
    assert report.n_negative == len(negative) > 0
    assert report.most_negative == pytest.approx(negative.min())
    assert report.negative_mass == pytest.approx(np.abs(negative).sum() / np.abs(spectrum).sum())
    assert report.largest_change == pytest.approx(np.abs(defined(method, values) - values).max())


@pytest.mark.parametrize("method", METHODS)
@given(n_items=st.integers(1, 9), rank=st.integers(0, 9), repeats=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_what_was_repaired_is_positive_semi_definite(method, n_items, rank, repeats, seed):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_items, rank))
    values = (factors * rng.normal(size=rank)) @ factors.T * 10.0 ** rng.integers(-6, 6)
    rows = np.concatenate([np.arange(n_items), rng.integers(n_items, size=repeats)])
    values = values[np.ix_(rows, rows)]
    values = (values + values.T) / 2

    table, _ = repair(values, method=method)

    spectrum = np.linalg.eigvalsh(table.values)
    assert spectrum.min() >= -1e-10 * max(spectrum.max(), 1e-300) - 1e-8 * np.abs(values).max() * (method != "square")
    assert detect(table).n_negative == 0


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_a_kernel_is_left_as_it_is(method):
    values = kernel_matrix(15, 0)

    table, report = repair(values, method=method)

    assert_array_equal(table.values, (values + values.T) / 2)
    assert report == RepairReport(method=method, n_negative=0, most_negative=0.0, negative_mass=0.0, largest_change=0.0)


def test_square_changes_a_kernel_too_and_says_so():
    values = kernel_matrix(15, 0)

    table, report = repair(values, method="square")

    assert report.n_negative == 0
    assert report.largest_change > 0.1
    assert np.linalg.eigvalsh(table.values).max() == pytest.approx(np.linalg.eigvalsh(values).max())


def test_detect_only_looks():
    values = random_similarities(10, 1)
    given_values = values.copy()

    report = detect(values)

    assert_array_equal(values, given_values)
    assert report.method == "none"
    assert report.largest_change == 0.0
    assert report.n_negative == (np.linalg.eigvalsh(values) < 0).sum()
    assert detect(SimilarityTable(np.abs(values))).n_negative == detect(np.abs(values)).n_negative


@pytest.mark.parametrize(("tolerance", "n_negative"), [(0.0, 1), (1e-8, 1), (1e-3, 0)])
def test_the_tolerance_is_relative_to_the_largest_similarity(tolerance, n_negative):
    values = 50.0 * np.array([[1.0, 1.0 + 1e-5], [1.0 + 1e-5, 1.0]])

    report = detect(values, tolerance=tolerance)
    table, _ = repair(values, tolerance=tolerance)

    assert report.n_negative == n_negative
    assert (table.values == values).all() == (n_negative == 0)


def test_the_table_that_was_given_is_not_changed_and_lends_its_ids():
    given_table = SimilarityTable(np.array([[1.0, 2.0], [2.0, 1.0]]), ids=["a", 7])

    table, _ = repair(given_table)

    assert table is not given_table
    assert table.ids == ("a", 7)
    assert_array_equal(given_table.values, [[1.0, 2.0], [2.0, 1.0]])
    assert given_table.method == "none"


@pytest.mark.parametrize("method", METHODS)
def test_negative_self_similarities_are_mended(method):
    values = np.array([[-1.0, 0.5, 0.0], [0.5, -1e-12, 0.0], [0.0, 0.0, 2.0]])

    table, report = repair(values, method=method)

    assert np.diagonal(table.values).min() >= 0.0
    assert report.largest_change > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_diagonal_below_zero_within_rounding_is_mended_too(method):
    table, _ = repair(np.diag([1.0, -1e-12]), method=method)

    assert_allclose(table.values, np.diag([1.0, 0.0]), atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_similarities_that_are_all_zero_need_no_repair(method):
    table, report = repair(np.zeros((3, 3)), method=method)

    table.add(["new"], to_known=np.zeros((1, 3)), among_new=[[0.0]])

    assert_array_equal(table.values, np.zeros((4, 4)))
    assert report.largest_change == 0.0


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.eye(2), {"method": "mend"}, 'The method must be "clip", "flip", "shift" or "square", got \'mend\''),
        (np.eye(2), {"tolerance": -1.0}, "The tolerance must be a finite number, zero or above, got -1.0"),
        (np.ones((2, 3)), {}, r"The similarities must be a square matrix, .* got \(2, 3\)"),
        (
            np.array([[1.0, 0.0], [0.5, 1.0]]),
            {},
            r"The similarities must be symmetric, .* take the mean: \(S \+ S.T\) / 2",
        ),
        (np.array([[np.nan]]), {}, "The similarities must be finite numbers, got nan in row 0, column 0"),
        (np.empty((0, 0)), {}, "The matrix must have at least one item, got an empty one"),
    ],
)
def test_what_cannot_be_repaired_is_rejected(values, options, message):
    with pytest.raises(InvalidParameter, match=message):
        repair(values, **options)
