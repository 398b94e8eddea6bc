import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits._compile import matrix_at, numba
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.selection import _screening_loops as loops
from kernelbandits.selection._screening_loops import BoundTerms, screening_loops
from kernelbandits.selection.screening import ALONE, DualWeights, PanelTable, bound_terms
from kernelbandits.types import TIE_TOLERANCE

screening_loops.ensure()


def rank_in_numpy(mean, explained, prior, terms, upper, highest):
    """The ranking by its definition."""
    reach, drift, floor, slack, allowance, rounding, safety = terms[:7]
    deviation = np.sqrt(np.maximum(prior - explained, prior * floor) + prior * slack)
    off = allowance + rounding * np.sqrt(prior)
    upper[:] = mean + reach * deviation + off
    upper += safety * np.maximum(1.0, np.abs(upper))
    if not np.isfinite(upper).all():
        return np.nan, 0
    lowest = mean - drift * deviation - off
    lowest -= safety * np.maximum(1.0, np.abs(lowest))
    best = float(lowest.max())
    threshold = best - (TIE_TOLERANCE + safety) * max(1.0, abs(best))
    highest[:] = np.argsort(-upper, kind="stable")[: len(highest)]
    return threshold, int(np.count_nonzero(upper >= threshold))


def some_terms(**changed):
    usual = {
        "innovation_bound": 1.2,
        "mean_drift": 0.1,
        "floor": 1e-3,
        "slack": 1e-12,
        "allowance": 1e-6,
        "rounding": 1e-9,
    }
    return tuple(BoundTerms(**{**usual, "safety": 1e-9, "regularization": 0.5, "exploration": 0.7, **changed}))


@pytest.mark.parametrize("n_actions", [1, 5, 16, 400])
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_all_forms_of_a_ranking_agree(n_actions, drift):
    rng = np.random.default_rng(n_actions)
    mean, prior = rng.normal(size=n_actions), rng.uniform(0.5, 2.0, size=n_actions)
    explained = prior * rng.uniform(size=n_actions)
    outcomes = []
    for form in (screening_loops.rank, loops.rank_loop, rank_in_numpy):
        upper, highest = np.empty(n_actions), np.empty(min(16, n_actions), dtype=np.intp)
        threshold, n_candidates = form(mean, explained, prior, some_terms(mean_drift=drift), upper, highest)
        outcomes.append((threshold, n_candidates, upper, highest))

    for outcome in outcomes[1:]:
        for ours, theirs in zip(outcome, outcomes[0], strict=True):
            assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    threshold, n_candidates, upper, highest = outcomes[0]
    assert n_candidates == np.count_nonzero(upper >= threshold)
    assert np.array_equal(highest, np.argsort(-upper)[: len(highest)])


@pytest.mark.parametrize("form", [screening_loops.rank, rank_in_numpy])
def test_what_is_not_finite_has_no_ranking(form):
    mean, upper, highest = np.array([0.0, np.inf, 1.0]), np.empty(3), np.empty(3, dtype=np.intp)

    with np.errstate(invalid="ignore"):
        threshold, n_candidates = form(mean, np.zeros(3), np.ones(3), some_terms(), upper, highest)

    assert np.isnan(threshold)
    assert n_candidates == 0


def test_the_threshold_leaves_room_for_ties():
    terms = BoundTerms(*some_terms())
    for score in (-3.0, 0.2, 50.0):
        expected = score - (TIE_TOLERANCE + 1e-9) * max(1.0, abs(score))
        assert loops.threshold_of(score, terms) == pytest.approx(expected, rel=1e-15)


def make_posterior(rng, n_known, panel):
    posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=0.3)
    posterior._factor = GrowingCholesky(rows_per_panel=panel, first_capacity=2)
    posterior.observe(rng.uniform(size=(n_known, 2)), rng.normal(size=n_known), times=rng.integers(1, 4, size=n_known))
    return posterior


@pytest.mark.parametrize("form", ["compiled", "python"])
@pytest.mark.parametrize("n_incumbents", [0, 1, 3])
@pytest.mark.parametrize("panel", [4, 256])
def test_candidates_that_reach_the_threshold_become_exact(panel, n_incumbents, form):
    rng = np.random.default_rng(3)
    posterior, points = make_posterior(rng, 50, panel), rng.uniform(size=(12, 2))
    exact = posterior.predict(points)
    scores = exact.upper(0.7)
    whitening = posterior.whitening()
    weights, panels = DualWeights(), PanelTable().of(whitening.factor)
    weights.synchronize(whitening, panels, posterior.regularization, 0.7)
    similarity = posterior.kernel.gram(points, posterior.record.points)
    terms = tuple(bound_terms(whitening, weights, posterior.regularization, 1e-12, 0.7))
    columns, state, order = np.ascontiguousarray(similarity * whitening.roots), np.zeros((12, 6)), np.arange(12)
    state[:, loops.UPPER], state[:, loops.PRIOR] = np.inf, 1.0
    state[:, loops.OLD_MEAN] = similarity @ weights.weights
    loop = screening_loops.eliminate if form == "compiled" else loops.eliminate_loop

    threshold, n_done = loop(
        panels, weights.size, (columns, state, order), whitening.targets, terms, 0, n_incumbents,
        float(np.median(scores)), ALONE,
    )  # fmt: skip

    done = order[:n_done]
    assert int(scores.argmax()) in done.tolist()
    assert threshold == pytest.approx(scores.max(), abs=1e-8)
    assert_allclose(state[:n_done, loops.MEAN], exact.mean[done], rtol=1e-11)
    assert_allclose(state[:n_done, loops.WIDTH], exact.width[done], rtol=1e-11)
    assert_allclose(np.sum(columns[:n_done] ** 2, axis=1), state[:n_done, loops.EXPLAINED], rtol=1e-12)


def test_a_matrix_is_found_at_its_address():
    matrix = np.arange(12.0).reshape(3, 4)
    for form in (matrix_at, numba().njit(lambda address, n, m: matrix_at(address, n, m) + 0.0)):
        assert np.array_equal(form(matrix.ctypes.data, 2, 4), matrix[:2])
        assert form(matrix.ctypes.data, 2, 0).shape == (2, 0)


def test_addresses_follow_a_factor_that_grows_and_shrinks():
    rng = np.random.default_rng(4)
    posterior, table = make_posterior(rng, 3, 4), PanelTable()
    for n_more in (1, 1, 2, 9, 1):
        posterior.observe(rng.uniform(size=(n_more, 2)), rng.normal(size=n_more))
        factor = posterior.whitening().factor
        panels = factor.panels

        found = table.of(factor)

        assert found[:, 2:4].tolist() == [[one.start, one.n_rows] for one in panels]
        for (left, corner, start, n_rows, width), one in zip(found.tolist(), panels, strict=True):
            assert np.array_equal(matrix_at(left, n_rows, start), one.left[:n_rows])
            assert np.array_equal(matrix_at(corner, n_rows, width), one.corner[:n_rows])
    factor.truncate(5)
    assert len(table.of(factor)) == 2
