"""Bounds and thresholds of selection hold in exact arithmetic: their rounding margins are wide enough, and needed.

Where the exact value is a rational function of the numbers in the program it is computed with fractions. Each test has
a negative control: without its margin the bound fails for some of the same inputs.
"""

from fractions import Fraction
from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior._primal_loops import bound_rows
from kernelbandits.posterior.pending import _factor_beside_identity
from kernelbandits.selection import screening, ties
from kernelbandits.selection._catalog_loops import (
    N_RUN,
    N_STATE,
    PER_FLAG,
    LogArrays,
    RoundLimits,
    best_loop,
    round_loop,
)
from kernelbandits.selection._screening_loops import threshold_of
from kernelbandits.selection.active_set import ActiveSet
from kernelbandits.selection.screening import DualWeights, PanelTable, bound_terms
from kernelbandits.selection.similarities import AnyKernel
from kernelbandits.selection.ties import worst_tied


def exactly(numbers):
    return [Fraction(float(number)) for number in numbers]


def dot(first, second):
    return sum(one * other for one, other in zip(first, second, strict=True))


# -- thresholds: what is tied with the best reaches them, however its score was computed ------------------------------


def scores_at_the_edge(n=2000, exploration=0.7):
    """(score, mean, variance) with mean + exploration · √variance just tied with the score, or by one unit not."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        score, variance = float(rng.normal(scale=3.0)), float(rng.uniform())
        mean = worst_tied(score) - exploration * sqrt(variance)
        while mean + exploration * sqrt(variance) < worst_tied(score):
            mean = float(np.nextafter(mean, np.inf))
        yield score, mean, variance


def misses(bar_of, exploration=0.7):
    """How many tied actions a threshold misses when gaps and variances are compared as squares."""
    n_missed = 0
    for score, mean, variance in scores_at_the_edge(exploration=exploration):
        gap = max(bar_of(score) - mean, 0.0)
        n_missed += gap * gap > exploration * exploration * variance
    return n_missed


@pytest.mark.parametrize(
    "bar_of",
    [ties.lowered, lambda score: threshold_of(score, SimpleNamespace(safety=screening.SAFETY))],
    ids=["lowered", "screening"],
)
def test_a_threshold_misses_no_tied_action(bar_of):
    assert misses(bar_of) == 0
    assert misses(worst_tied) > 100  # without the margin


@pytest.mark.parametrize("is_pulled", [False, True])
def test_a_whole_round_in_one_call_misses_no_tied_action(is_pulled):
    """The tied action has another flag than the leader, which is searched only if the threshold says so."""
    exploration, gamma = 0.7, 0.3
    pulled = sqrt(1.0 * gamma / (1.0 + gamma))  # deviation of an action of variance 1 after one pull
    for score, mean, variance in scores_at_the_edge(n=300):
        items = np.full((2, PER_FLAG + 1), -1e6)
        items[1] = 0.0
        items[:, PER_FLAG] = mean, variance
        counts = sums = np.zeros(0)
        if is_pulled:  # its reward makes the first action the leader
            reward = (score - exploration * pulled) * (1.0 + gamma)
            counts, sums, items[:, 0] = np.ones(1), np.array([reward]), (0.0, 1.0)
        else:
            items[:, 0] = score, 0.0
        rows = np.zeros((2, PER_FLAG + 1))
        rows[0, 0] = 1.0  # the first action resembles only itself
        slots = np.array([[0], [-1]])[:, : len(counts)].copy()
        tied = np.zeros(8, dtype=np.int64)
        arrays = LogArrays(
            applied=np.zeros((2, len(counts))),
            slots=slots,
            marks=np.zeros((3, 2), dtype=np.int64),
            runs=np.zeros((N_RUN, 2)),
            rows=rows,
            items=items,
            flags=np.zeros(2, dtype=np.uint8),
            tied=tied,
            state=np.zeros(N_STATE),
        )
        limits = RoundLimits(
            n_slots=len(counts),
            n_runs=0,
            size=PER_FLAG + 1,
            n_items=PER_FLAG + 1,
            frozen_runs=0,
            most_read=8,
            is_filled=True,
        )

        n_tied = round_loop(arrays, counts, sums, limits, exploration, gamma)

        scores = items[0] + exploration * np.sqrt(items[1])
        assert tied[:n_tied].tolist() == np.flatnonzero(scores >= worst_tied(float(scores.max()))).tolist()
        assert 0 in tied[:n_tied]


def test_the_best_of_a_catalog_is_the_best_score_to_the_last_digit():
    """Squares select the actions whose root is taken; the second is better than the first by one unit at most."""
    rng = np.random.default_rng(1)
    n_close, hits, tied = 0, np.ones(1, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    for _ in range(4000):
        score, variance = float(rng.normal()), float(rng.uniform())
        mean = score - 0.7 * sqrt(variance)
        while mean + 0.7 * sqrt(variance) <= score:
            mean = float(np.nextafter(mean, np.inf))
        gap = score - mean
        n_close += gap * gap > 0.7 * 0.7 * variance

        best, n_tied = best_loop(np.array([[score, mean], [0.0, variance]]), 0.7, 2, hits, tied)

        assert best == mean + 0.7 * sqrt(variance)
        assert n_tied == 2
    assert n_close > 100  # missed without the margin


# -- screening: old weights -------------------------------------------------------------------------------------------


def drift_and_reach(seed, regularization, rewards):
    """Bounds on the effect of one new point, and their exact squares from the factor and the targets."""
    rng = np.random.default_rng(seed)
    posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=regularization)
    posterior.observe(rng.uniform(size=(6, 2)), rewards * rng.normal(size=6))
    weights, table = DualWeights(stale=np.inf), PanelTable()
    for n_new in (0, 1):
        if n_new:
            posterior.observe(rng.uniform(size=(1, 2)), rewards * rng.normal(size=1))
        whitening = posterior.whitening()
        weights.synchronize(whitening, table.of(whitening.factor), regularization, 0.6)
    last = whitening.factor.panels[-1]
    target, corner = exactly([whitening.targets[-1], last.corner[last.n_rows - 1, last.n_rows - 1]])
    innovation = target**2
    beta = Fraction(0.6 / sqrt(regularization))
    return weights, innovation * (1 - Fraction(regularization) / corner**2), innovation, beta


def test_the_drift_of_old_weights_is_bounded_in_exact_arithmetic():
    n_failed = 0
    for seed in range(60):
        weights, drift, innovation, _ = drift_and_reach(seed, regularization=100.0, rewards=1.0)
        bound = Fraction(weights.mean_drift) ** 2
        assert drift <= bound <= drift + Fraction(1e-11) * innovation
        loss = Fraction(1e-12 + 4.0 * np.finfo(float).eps * sqrt(1.0 + 0.06)) * innovation
        n_failed += bound - loss < drift
    assert n_failed > 10  # without the margin


def test_the_innovation_of_old_weights_is_bounded_in_exact_arithmetic():
    n_close = 0
    for seed in range(60):
        weights, _, innovation, beta = drift_and_reach(seed, regularization=1.0, rewards=0.05)
        by_innovation = Fraction(weights.innovation_bound) ** 2
        if weights.innovation_bound < float(beta) + weights.mean_drift:
            assert by_innovation >= beta**2 + innovation
            n_close += by_innovation < (beta**2 + innovation) * (1 + Fraction(1e-11))
    assert n_close > 20


# -- screening: means and variances ------------------------------------------------------------------------------------


def solved(matrix, right):
    """Gauss in fractions: matrix⁻¹ right."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        rows[place] = [entry / rows[place][place] for entry in rows[place]]
        for other in range(len(rows)):
            if other != place:
                factor = rows[other][place]
                rows[other] = [left - factor * entry for left, entry in zip(rows[other], rows[place], strict=True)]
    return [row[-1] for row in rows]


def screened(seed, regularization):
    """Terms, old means and explained variances of some queries, beside their exact means and variances."""
    rng = np.random.default_rng(seed)
    points, rewards, queries = rng.uniform(size=(7, 1)), rng.normal(size=7), rng.uniform(size=(12, 1))
    kernel = Gaussian(length_scale=0.3)
    posterior = ExactPosterior(kernel, regularization=regularization)
    posterior.observe(points, rewards)
    whitening = posterior.whitening()
    weights = DualWeights()
    weights.synchronize(whitening, PanelTable().of(whitening.factor), regularization, 0.6)
    terms = bound_terms(whitening, weights, regularization, 0.0, 0.6)
    similarity = kernel.gram(posterior.record.points, queries)
    explained = np.square(whitening.factor.solve(similarity.copy())).sum(axis=0)
    matrix = [exactly(row) for row in kernel.gram(posterior.record.points)]
    for place in range(7):
        matrix[place][place] += Fraction(regularization)
    dual = solved(matrix, exactly(posterior.record.sums))
    exact_means = [dot(exactly(column), dual) for column in similarity.T]
    exact_variances = [1 - dot(exactly(column), solved(matrix, exactly(column))) for column in similarity.T]
    return terms, weights.weights @ similarity, explained, exact_means, exact_variances


def test_means_and_variances_of_screening_are_bounded_in_exact_arithmetic():
    """At a small regularization, where the factor is nearly singular."""
    n_means = n_variances = 0
    for seed in range(8):
        terms, means, explained, exact_means, exact_variances = screened(seed, regularization=1e-5)
        off = [abs(Fraction(mean) - exact) for mean, exact in zip(means.tolist(), exact_means, strict=True)]
        assert max(off) <= Fraction(terms.rounding)
        n_means += sum(error > 0 for error in off)
        for part, exact in zip(explained.tolist(), exact_variances, strict=True):
            bound = max(Fraction(1.0 - part), Fraction(terms.floor))
            assert bound + Fraction(terms.slack) >= exact
            n_variances += bound < exact
    assert n_means > 50  # each fails without its margin
    assert n_variances > 10


def test_similarities_far_from_the_origin_have_the_error_that_their_scan_claims():
    rng = np.random.default_rng(2)
    kernel, known = Gaussian(length_scale=50.0), 1e4 + 20.0 * rng.normal(size=(20, 3))
    points, weights, shares = 1e4 + 20.0 * rng.normal(size=(30, 3)), rng.normal(size=20), np.full(20, 1.0 / 1.4)

    scan = AnyKernel(kernel).scan(points, known, weights, shares)

    long = np.longdouble
    distances = ((points.astype(long)[:, None] - known.astype(long)) ** 2).sum(axis=2)
    exact = np.exp(-distances / (2 * long(50.0) ** 2))
    off = np.abs(scan.mean - exact @ weights.astype(long))
    assert np.all(off <= scan.error * np.abs(weights).sum())
    assert np.any(off > 0)
    assert np.all(scan.explained <= (exact**2 * shares).max(axis=1))


# -- linear models -----------------------------------------------------------------------------------------------------


def linear_bounds(features, weights, direction, flat, peak, exploration):
    room = np.empty((3, len(features)))
    bound_rows(features, weights, direction, flat, peak, np.inf, exploration, room)
    bounds = room[0]
    return exactly(bounds)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_the_bounds_of_a_linear_model_hold_in_exact_arithmetic(scale):
    rng = np.random.default_rng(3)
    features, weights, direction = scale * rng.normal(size=(300, 6)), rng.normal(size=6), np.full(6, 1.0 / sqrt(6.0))

    bounds = linear_bounds(features, weights, direction, 1.0, 0.5, exploration=0.0)

    means = [dot(exactly(row), exactly(weights)) for row in features]
    assert all(bound >= mean for bound, mean in zip(bounds, means, strict=True))
    assert sum(Fraction(float(row @ weights)) < mean for row, mean in zip(features, means, strict=True)) > 50


def test_the_widths_of_a_linear_model_hold_where_nearly_all_is_known():
    """Along a direction that is known well, the bound on the squared width is a difference of nearly equal numbers."""
    rng = np.random.default_rng(4)
    direction = rng.normal(size=6)
    direction /= np.linalg.norm(direction)
    features = np.outer(rng.uniform(0.5, 2.0, size=300), direction) * (1.0 + 1e-9 * rng.normal(size=(300, 6)))
    flat, peak = 3.0, 3.0 * (1.0 - 1e-14)

    bounds = linear_bounds(features, np.zeros(6), direction, flat, peak, exploration=1.0)

    n_close = 0
    for bound, row in zip(bounds, features, strict=True):
        phi, q = exactly(row), exactly(direction)
        exact = Fraction(flat) * dot(phi, phi) - Fraction(peak) * dot(phi, q) ** 2
        assert bound**2 >= exact
        rounded = flat * float(row @ row) - peak * float(row @ direction) ** 2
        n_close += Fraction(max(rounded, 0.0)) < exact
    assert n_close > 50  # without the margin


def test_pending_points_of_huge_variance_have_a_factor():
    """Beside a variance of 1e18 the identity is lost in rounding, which can leave a negative eigenvalue."""
    rng = np.random.default_rng(5)
    n_failed = 0
    for _ in range(20):
        columns = rng.normal(size=(12, 2))
        covariance = 1e18 * (columns @ columns.T)
        factor = _factor_beside_identity(covariance)
        assert np.allclose(factor @ factor.T, covariance + np.eye(12), rtol=1e-9, atol=1e6)
        values, vectors = np.linalg.eigh(covariance)
        try:
            np.linalg.cholesky((vectors * np.maximum(values, 0.0)) @ vectors.T + np.eye(12))
        except np.linalg.LinAlgError:
            n_failed += 1
    assert n_failed > 3  # without the margin


# -- active sets ------------------------------------------------------------------------------------------------------


def test_an_active_set_is_left_before_the_inactive_bound_reaches_the_best(monkeypatch):
    """The bound and the best score are rounded: a bound just below the ties proves nothing."""
    active = object.__new__(ActiveSet)
    monkeypatch.setattr(ActiveSet, "factor_by_sums", lambda self, beta: beta)
    monkeypatch.setattr(ActiveSet, "factor", lambda self, beta: beta)
    for best in (-40.0, 0.3, 7.0):
        for below, expected in ((0.0, False), (1e-13, False), (1e-8, True)):
            bound = worst_tied(best) - below * max(1.0, abs(best))
            monkeypatch.setattr(ActiveSet, "inactive_bound", lambda self, factor, bound=bound: bound)
            assert active.holds_best(0.5, best) is expected
