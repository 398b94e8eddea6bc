import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.kernels import Delta, Gaussian, Linear, Matern, PairProduct
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection.similarities import AnyKernel, Distances, SharedContext, similarities_for

SHIFT = np.array([0.0, 1e4, -7.0])


@pytest.fixture
def passes():
    return "compiled"


def rows(rng, n):
    return rng.normal(size=(n, 3))


def far_rows(rng, n):
    return 20.0 * rng.normal(size=(n, 3)) + SHIFT


def pairs(rng, n):
    return kb.Pairs(rng.normal(size=2), np.round(rng.uniform(size=(n, 1)), 1))


def sparse(rng, n):
    return csr_array(np.maximum(rng.normal(size=(n, 3)), 0.0))


CASES = {
    "gaussian": (Gaussian(length_scale=0.7), rows, Distances),
    "per column": (Gaussian(length_scale=[0.3, 1.0, 5.0]), far_rows, Distances),
    "scaled": (0.5 * (6.0 * Gaussian(length_scale=2.0)), rows, Distances),
    "matern 1/2": (Matern(smoothness=0.5, length_scale=2.0), rows, Distances),
    "matern 5/2": (7.0 * Matern(smoothness=2.5, length_scale=2.0), rows, Distances),
    "linear": (Linear(), rows, AnyKernel),
    "sparse": (Gaussian(length_scale=0.7), sparse, AnyKernel),
    "pairs": (PairProduct(context=Gaussian(length_scale=1.0), action=Gaussian(length_scale=0.3)), pairs, SharedContext),
    "names": (
        PairProduct(context=Gaussian(length_scale=1.0), action=Delta()),
        lambda rng, n: kb.Pairs(rng.normal(size=2), rng.choice(list("abc"), size=n).tolist()),
        SharedContext,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_scan_is_as_exact_as_it_says(case, passes):
    rng = np.random.default_rng(0)
    kernel, contexts, expected = CASES[case]
    posterior = ExactPosterior(kernel, regularization=0.4)
    posterior.observe(contexts(rng, 30), rng.normal(size=30))
    record = posterior.record
    way = similarities_for(kernel, record.points, kernel.kind.check(contexts(rng, 2)))
    assert isinstance(way, expected)
    for _ in range(3):
        posterior.observe(contexts(rng, 9), rng.normal(size=9))
        points = kernel.kind.check(contexts(rng, 25))
        n_known = record.n_slots - 4  # weights may be older than the record
        weights = rng.normal(size=n_known)
        shares = 1.0 / (kernel.diagonal(record.points)[:n_known] + 0.4 / record.counts[:n_known])

        scan = way.scan(points, record.points, weights, shares)

        similarity = kernel.gram(points, record.points)
        exact = similarity[:, :n_known] @ weights
        nearest = (similarity[:, :n_known] ** 2 * shares).max(axis=1)
        assert (np.abs(scan.mean - exact) <= scan.error * np.abs(weights).sum()).all()
        assert scan.error < 1e-4 * kernel.diagonal(points).max()
        assert (scan.explained <= nearest).all()
        assert_allclose(scan.prior, kernel.diagonal(points), rtol=1e-15)
        assert_allclose(scan.explained, nearest, rtol=0, atol=1e-3 * kernel.diagonal(points).max())
        roots, chosen = rng.uniform(1.0, 2.0, size=record.n_slots), np.array([3, 0, 24])
        found = way.rows(points, record.points, chosen, roots)
        assert_allclose(found, similarity[chosen] * roots, rtol=1e-11, atol=1e-12)
        assert found.flags.c_contiguous


def test_blocks_make_the_whole():
    """30 known points are compared with 8,333 others at a time."""
    rng = np.random.default_rng(1)
    kernel = Linear()
    posterior = ExactPosterior(kernel, regularization=0.4)
    posterior.observe(rows(rng, 30), rng.normal(size=30))
    points, weights, shares = rows(rng, 20_000), rng.normal(size=30), rng.uniform(size=30)
    similarity = kernel.gram(points, posterior.record.points)
    way = AnyKernel(kernel)

    parts = way.scan(points, posterior.record.points, weights, shares)

    assert_allclose(parts.mean, similarity @ weights, rtol=1e-9, atol=1e-12)
    assert_allclose(parts.explained, (similarity**2 * shares).max(axis=1), rtol=1e-8, atol=1e-8)
    assert way._stored is None  # the whole matrix was never there
    chosen = np.array([19_999, 1])
    assert_allclose(way.rows(points, posterior.record.points, chosen, np.ones(30)), similarity[chosen], rtol=1e-12)


@pytest.mark.parametrize("distance", [1e4, 1e30, 1e200])
def test_rows_too_far_for_single_precision_are_left_to_the_kernel(distance, passes):
    rng = np.random.default_rng(2)
    kernel = Gaussian(length_scale=1.0)
    posterior = ExactPosterior(kernel, regularization=0.4)
    posterior.observe(rows(rng, 30), rng.normal(size=30))
    weights, shares = rng.normal(size=30), rng.uniform(size=30)
    way = similarities_for(kernel, posterior.record.points, rows(rng, 2))
    points = rows(rng, 5)
    points[2] *= distance

    with np.errstate(over="ignore", invalid="ignore"):
        scan = way.scan(points, posterior.record.points, weights, shares)
        found = way.rows(points, posterior.record.points, np.array([2, 1]), np.ones(30))

    assert_allclose(scan.mean, kernel.gram(points, posterior.record.points) @ weights, rtol=1e-9, atol=1e-9)
    assert scan.error < 1e-10
    assert_allclose(found, kernel.gram(points[[2, 1]], posterior.record.points), rtol=1e-11, atol=1e-13)


def test_threads_change_nothing():
    rng = np.random.default_rng(3)
    kernel = Gaussian(length_scale=1.0)
    posterior = ExactPosterior(kernel, regularization=0.4)
    posterior.observe(rows(rng, 300), rng.normal(size=300))
    points, weights, shares = rows(rng, 900), rng.normal(size=300), rng.uniform(size=300)
    way = similarities_for(kernel, posterior.record.points, points)
    scans = []
    for n_threads in (1, 2, 3):
        kb.set_threads(n_threads, bytes_per_thread=1000)
        scans.append(way.scan(points, posterior.record.points, weights, shares))
    kb.set_threads(None)

    for scan in scans[1:]:
        assert np.array_equal(scan.mean, scans[0].mean)
        assert np.array_equal(scan.explained, scans[0].explained)


def test_rows_are_the_same_with_and_without_the_matrix_of_the_last_scan():
    rng = np.random.default_rng(0)
    kernel, known, points = Gaussian(length_scale=0.5), rng.uniform(size=(7, 2)), rng.uniform(size=(9, 2))
    roots, chosen = rng.uniform(0.5, 2.0, size=7), np.array([1, 4, 8])
    similarities = AnyKernel(kernel)
    expected = kernel.gram(points[chosen], known) * roots

    fresh = similarities.rows(points, known, chosen, roots)
    similarities.scan(points, known, rng.normal(size=7), np.full(7, 0.5))
    stored = similarities.rows(points, known, chosen, roots)

    assert_allclose(fresh, expected, rtol=1e-12)
    assert_allclose(stored, expected, rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("case", CASES)
def test_a_scan_of_similarities_far_from_one_is_that_of_similarities_near_one(case, factor):
    """Means, bounds and their margins are in units of the similarities."""
    kernel, contexts, _ = CASES[case]

    def scan(scaled, factor):
        rng = np.random.default_rng(0)
        known, points = scaled.kind.check(contexts(rng, 30)), scaled.kind.check(contexts(rng, 9))
        shares = 1.0 / (scaled.diagonal(known) + 0.4 * factor)
        return similarities_for(scaled, known, points).scan(points, known, rng.normal(size=30), shares)

    if isinstance(kernel, PairProduct):
        scaled = PairProduct(context=factor * kernel.context, action=kernel.action)
    else:
        scaled = factor * kernel
    found, expected = scan(scaled, factor), scan(kernel, 1.0)

    for name in ("mean", "explained", "prior", "error"):
        value = factor * np.asarray(getattr(expected, name))
        assert_allclose(getattr(found, name), value, rtol=1e-9, atol=1e-14 * np.abs(value).max(), err_msg=name)
