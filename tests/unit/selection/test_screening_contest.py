import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior, cholesky
from kernelbandits.selection import _screening_loops as loops
from kernelbandits.selection import screening as module
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.screening import Group, PanelTable, Terms, contest
from kernelbandits.types import TIE_TOLERANCE


def rank_in_numpy(mean, explained, prior, terms, upper, leading):
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
    bar = module._bar(float(lowest.max()), safety)
    leading[:] = np.argsort(-upper, kind="stable")[: len(leading)]
    return bar, int(np.count_nonzero(upper >= bar))


def test_the_loop_knows_the_places_of_the_terms():
    for place, name in enumerate(Terms._fields):
        assert getattr(loops, name.upper()) == place


def some_terms(**changed):
    usual = {"reach": 1.2, "drift": 0.1, "floor": 1e-3, "slack": 1e-12, "allowance": 1e-6, "rounding": 1e-9}
    return np.array(Terms(**{**usual, "safety": 1e-9, "regularization": 0.5, "exploration": 0.7, **changed}))


@pytest.mark.parametrize("n_actions", [1, 5, 16, 400])
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_all_forms_of_a_ranking_agree(n_actions, drift):
    rng = np.random.default_rng(n_actions)
    mean, prior = rng.normal(size=n_actions), rng.uniform(0.5, 2.0, size=n_actions)
    explained = prior * rng.uniform(size=n_actions)
    outcomes = []
    for form in (loops.rank_loop, loops.rank_loop.py_func, rank_in_numpy):
        upper, leading = np.empty(n_actions), np.empty(min(16, n_actions), dtype=np.intp)
        bar, n_able = form(mean, explained, prior, some_terms(drift=drift), upper, leading)
        outcomes.append((bar, n_able, upper, leading))

    for outcome in outcomes[1:]:
        for ours, theirs in zip(outcome, outcomes[0], strict=True):
            assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    bar, n_able, upper, leading = outcomes[0]
    assert n_able == np.count_nonzero(upper >= bar)
    assert np.array_equal(leading, np.argsort(-upper)[: len(leading)])


@pytest.mark.parametrize("form", [loops.rank_loop, rank_in_numpy])
def test_what_is_not_finite_has_no_ranking(form):
    mean, upper, leading = np.array([0.0, np.inf, 1.0]), np.empty(3), np.empty(3, dtype=np.intp)

    with np.errstate(invalid="ignore"):
        bar, n_able = form(mean, np.zeros(3), np.ones(3), some_terms(), upper, leading)

    assert np.isnan(bar)
    assert n_able == 0


def test_the_bar_leaves_room_for_ties():
    for score in (-3.0, 0.2, 50.0):
        expected = score - (TIE_TOLERANCE + 1e-9) * max(1.0, abs(score))
        assert loops._bar(score, some_terms()) == pytest.approx(expected, rel=1e-15)
        assert module._bar(score, 1e-9) == pytest.approx(expected, rel=1e-15)


def a_posterior(rng, n_known):
    posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=0.3)
    posterior.observe(rng.uniform(size=(n_known, 2)), rng.normal(size=n_known), times=rng.integers(1, 4, size=n_known))
    return posterior


@pytest.mark.parametrize("n_leaders", [0, 1, 3])
@pytest.mark.parametrize("panel", [4, 256])
def test_whoever_reaches_the_bar_becomes_exact(monkeypatch, panel, n_leaders):
    monkeypatch.setattr(cholesky, "PANEL", panel)
    monkeypatch.setattr(cholesky, "FIRST_CAPACITY", 2)
    rng = np.random.default_rng(3)
    posterior, points = a_posterior(rng, 50), rng.uniform(size=(12, 2))
    exact = posterior.predict(points)
    scores = exact.upper(0.7)
    whitening = posterior.whitening()
    weights, table = DualWeights(), PanelTable().of(whitening.factor)
    weights.follow(posterior, whitening, table, 0.7)
    similarity = posterior.kernel.gram(points, posterior.record.points)
    terms, upper = Terms.vector(posterior, weights, 1e-12, 0.7), np.full(12, np.inf)
    roots = np.sqrt(posterior.record.counts)
    group = Group.of(np.arange(12), similarity * roots, upper, np.ones(12), similarity @ weights.weights)

    bar, done = contest(
        table, group, whitening.targets, terms, size=weights.size,
        n_leaders=n_leaders, bar=float(np.median(scores)),
    )  # fmt: skip

    n_done = len(done)
    assert int(scores.argmax()) in done.tolist()
    assert bar == pytest.approx(scores.max(), abs=1e-8)
    assert_allclose(group.state[:n_done, 4], exact.mean[done], rtol=1e-11)
    assert_allclose(group.state[:n_done, 5], exact.width[done], rtol=1e-11)
    assert_allclose(np.sum(group.columns[:n_done] ** 2, axis=1), group.state[:n_done, 1], rtol=1e-12)


def test_addresses_follow_a_factor_that_grows_and_shrinks(monkeypatch):
    monkeypatch.setattr(cholesky, "PANEL", 4)
    monkeypatch.setattr(cholesky, "FIRST_CAPACITY", 2)
    rng = np.random.default_rng(4)
    posterior, table = a_posterior(rng, 3), PanelTable()
    for n_more in (1, 1, 2, 9, 1):
        posterior.observe(rng.uniform(size=(n_more, 2)), rng.normal(size=n_more))
        factor = posterior.whitening().factor
        panels = list(factor.panels())

        found = table.of(factor)

        assert found[:, 2:4].tolist() == [[start, n_rows] for start, n_rows, _, _ in panels]
        for (left, corner, start, n_rows, width), panel in zip(found.tolist(), panels, strict=True):
            assert np.array_equal(loops.matrix_at(left, n_rows, start), panel[2][:n_rows])
            assert np.array_equal(loops.matrix_at(corner, n_rows, width), panel[3][:n_rows])
    factor.truncate(5)
    assert len(table.of(factor)) == 2
