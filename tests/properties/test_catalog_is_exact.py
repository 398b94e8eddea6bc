"""A catalog's engine chooses what brute force chooses, in every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from definitions import ridge
from kernelbandits.kernels import Gaussian, Linear, Matern, Polynomial, Precomputed, Spectrum
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection import CatalogEngine, batch_updates, tied_for_best
from kernelbandits.selection.active_set import ActiveSet, ActiveSetLimits, ActiveSets
from kernelbandits.selection.column_log import ColumnLog

REGIMES = {"A": (0.1, 0.2), "B": (1.0, 0.5), "C": (1.0, 1.0), "D": (0.1, 1.0), "tiny": (1e-6, 0.01)}


def rows_of(rng, n_items):
    rows = rng.uniform(size=(n_items, 3))
    rows[n_items // 2] = rows[0]  # a duplicate
    return rows


def words(rng, n_items):
    return ["".join(rng.choice(list("abc"), size=5)) for _ in range(n_items)]


def table(rng, n_items):
    factors = rng.normal(size=(n_items, 4))
    return Precomputed(factors @ factors.T / 4.0)


WORLDS = {
    "gaussian": lambda rng, n: (Gaussian(length_scale=0.5), rows_of(rng, n)),
    "matern": lambda rng, n: (Matern(smoothness=1.5, length_scale=0.7), rows_of(rng, n)),
    "linear": lambda rng, n: (Linear(), rows_of(rng, n)),
    "polynomial": lambda rng, n: (Polynomial(degree=2), rows_of(rng, n)),
    "strings": lambda rng, n: (Spectrum(n=2), words(rng, n)),
    "precomputed": lambda rng, n: (table(rng, n), list(range(n))),
}


@pytest.fixture
def passes():
    return "compiled"


EARLY = ActiveSetLimits(least_items=16, many_items=16, least_active=12, short=1.0, pause=3)
"""Active sets from the first rounds on, and small ones, so that small problems go through them."""


class Watched:
    """An engine beside a posterior that scores all items in every round."""

    def __init__(self, kernel, items, regularization, exploration, limits=None):
        self.kernel, self.items, self.exploration = kernel, kernel.kind.check(items), exploration
        self.posterior = ExactPosterior(kernel, regularization=regularization)
        self.engine = CatalogEngine(self.items, kernel, regularization)
        if limits is not None:
            self.engine._active_sets = ActiveSets(self.engine._items, limits)

    def record(self):
        return self.posterior.record

    def point(self, row):
        return self.kernel.kind.take(self.items, np.array([row]))

    def choose(self, rows=None):
        """The tied items, once they have been compared with brute force."""
        self.engine.synchronize(self.record())
        gain = self.engine.log_det_gain()
        if gain is not None:  # it knows after single pulls
            assert gain == pytest.approx(self.posterior.log_det_gain, rel=1e-6, abs=1e-8)
        tied, score = self.engine.best(self.exploration, rows)
        chosen = np.arange(self.kernel.kind.count(self.items)) if rows is None else rows
        prediction = self.posterior.predict(self.kernel.kind.take(self.items, chosen))
        scores = prediction.upper(self.exploration)
        assert_same_choice(tied, chosen[tied_for_best(scores)], dict(zip(chosen.tolist(), scores, strict=True)), self)
        assert score == pytest.approx(scores.max(), rel=1e-6, abs=1e-8)
        for place in (0, -1):  # the lowest and the highest of the tied ones
            found = []

            def break_tie(among, place=place, found=found):
                found.extend(among)
                return among[place], 0.5

            selection = self.engine.choose(self.exploration, rows, break_tie)
            row, mean, width = selection.row, selection.mean, selection.width
            assert (row, mean, width) == (tied[place], *self.engine.estimate_one(row))
            assert np.array_equal(found, tied) if found else len(tied) == 1
            assert selection.propensity == (0.5 if found else 1.0)
        return tied

    def compare_estimates(self, tolerance=1e-9):
        self.engine.synchronize(self.record())
        exact, ours = self.posterior.predict(self.items), self.engine.estimate()
        scale = max(1.0, float(np.abs(exact.mean).max()))
        assert_allclose(ours.mean, exact.mean, rtol=0, atol=tolerance * scale)
        gamma, prior = self.posterior.regularization, float(self.kernel.diagonal(self.items).max())
        assert_allclose(gamma * ours.width**2, gamma * exact.width**2, rtol=0, atol=tolerance * prior)


def assert_same_choice(ours, theirs, scores, watched):
    """The same set; where rounding is larger than the tolerance of ties, a choice that is as good as rounding tells."""
    if np.array_equal(ours, theirs):
        return
    gamma = watched.posterior.regularization
    rounding = 1e-13 * max(1.0, watched.posterior.n_observations / gamma) ** 0.75
    best = scores[int(theirs[0])]
    assert rounding > 1e-11, (ours, theirs)
    assert all(best - scores[int(row)] <= rounding * max(1.0, abs(best)) for row in ours), (ours, theirs)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("world", WORLDS)
def test_every_choice_is_that_of_brute_force(world, regime, passes):
    rng = np.random.default_rng(len(world))
    regularization, exploration = REGIMES[regime]
    kernel, items = WORLDS[world](rng, 60)
    watched = Watched(kernel, items, regularization, exploration)
    values = rng.uniform(size=60)

    for _ in range(120):
        row = int(watched.choose()[0])
        watched.posterior.observe(watched.point(row), [values[row] + 0.1 * rng.normal()])

    watched.compare_estimates(1e-9 if regularization > 1e-3 else 1e-6)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("world", WORLDS)
def test_so_is_every_choice_from_an_active_set(world, regime, passes):
    rng = np.random.default_rng(len(world))
    regularization, exploration = REGIMES[regime]
    kernel, items = WORLDS[world](rng, 120)
    watched = Watched(kernel, items, regularization, exploration, EARLY)
    values = rng.uniform(size=120)

    n_from_active_set = 0
    for _ in range(200):
        row = int(watched.choose()[0])
        n_from_active_set += watched.engine.cost().engine == "active set"
        watched.posterior.observe(watched.point(row), [values[row] + 0.1 * rng.normal()])

    watched.compare_estimates(1e-9 if regularization > 1e-3 else 1e-6)
    assert n_from_active_set > 10 or regime == "tiny"


EVENTS = st.lists(
    st.sampled_from(
        ["pull"] * 6
        + ["again"] * 3
        + ["batch", "late", "amend", "remove", "outside", "grow", "restrict", "new record", "bolder"]
    ),
    min_size=5,
    max_size=40,
)


@given(events=EVENTS, seed=st.integers(0, 2**32 - 1), regularization=st.sampled_from([0.01, 0.1, 1.0, 7.0]))
@settings(max_examples=60)
def test_whatever_happens_to_the_record_is_followed(events, seed, regularization):
    follow(events, seed, regularization)


@given(events=EVENTS, seed=st.integers(0, 2**32 - 1), regularization=st.sampled_from([0.01, 0.1, 1.0, 7.0]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_so_it_is_with_an_active_set(events, seed, regularization):
    follow(events, seed, regularization, EARLY)


@given(events=EVENTS, seed=st.integers(0, 2**32 - 1), regularization=st.sampled_from([0.01, 0.1, 1.0, 7.0]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_and_where_runs_are_merged_often(events, seed, regularization, monkeypatch):
    monkeypatch.setattr(batch_updates, "TAILS", (2, 4, 8))
    follow(events, seed, regularization)


def follow(events, seed, regularization, limits=None):  # noqa: C901 – one branch an event
    rng = np.random.default_rng(seed)
    items = rows_of(rng, 30)
    watched = Watched(Gaussian(length_scale=0.6), items, regularization, 0.7, limits)
    history: list[tuple[np.ndarray, float]] = []

    def observe(points, rewards):
        watched.posterior.observe(points, rewards)
        history.extend(zip(points, rewards, strict=True))

    for event in events:
        tied = watched.choose(np.sort(rng.choice(30, size=8, replace=False)) if event == "restrict" else None)
        if event == "batch":
            observe(watched.items[rng.integers(len(watched.items), size=9)], rng.normal(size=9))
        elif event == "again":
            observe(watched.items[rng.integers(3, size=1)], rng.normal(size=1))
        elif event == "late":
            observe(watched.items[rng.integers(len(watched.items), size=1)], rng.normal(size=1))
        elif event == "outside":
            observe(rng.uniform(size=(2, 3)), rng.normal(size=2))
        elif event == "amend" and history:
            watched.posterior.amend(history[-1][0][None], was=[0.0], now=[0.3])
            history[-1] = (history[-1][0], history[-1][1] + 0.3)
        elif event == "remove" and history:
            point, reward = history.pop(int(rng.integers(len(history))))
            watched.posterior.remove(point[None], [reward])
        elif event == "grow":
            watched.items = np.concatenate([watched.items, rng.uniform(size=(3, 3)), watched.items[:1]])
            watched.engine.grow(watched.items)
        elif event == "bolder":
            watched.exploration *= 1.3
        elif event == "new record":
            fresh = ExactPosterior(watched.kernel, regularization=regularization)
            if history:
                fresh.observe(np.array([point for point, _ in history]), [reward for _, reward in history])
            watched.posterior = fresh
        else:
            observe(watched.items[tied[:1]], rng.normal(size=1))
    watched.choose()
    watched.compare_estimates()


def test_the_estimates_are_the_definition():
    rng = np.random.default_rng(5)
    items, rewards = rng.uniform(size=(40, 2)), rng.normal(size=25)
    rows = rng.integers(10, size=25)
    kernel = Matern(smoothness=2.5, length_scale=0.4)
    posterior = ExactPosterior(kernel, regularization=0.3)
    engine = CatalogEngine(items, kernel, 0.3)

    for row, reward in zip(rows, rewards, strict=True):
        posterior.observe(items[[row]], [reward])
        engine.synchronize(posterior.record)

    mean, width = ridge(kernel, items[rows], rewards, items, 0.3)
    assert_allclose(engine.estimate().mean, mean, rtol=1e-9, atol=1e-12)
    assert_allclose(engine.estimate(np.array([3, 4])).width, width[[3, 4]], rtol=1e-9)
    assert_allclose(engine.estimate_one(7), (mean[7], width[7]), rtol=1e-9)


@pytest.fixture
def no_compiled_rounds(monkeypatch):
    """Pulls one by one, whose parts can be made wrong."""
    monkeypatch.setattr(ColumnLog, "round", lambda *_: -1)


def test_a_wrong_update_is_noticed(monkeypatch, no_compiled_rounds):
    """Negative control."""
    monkeypatch.setattr(ColumnLog, "checked_scale", lambda _, scale, __: 1.01 * scale)

    with pytest.raises(AssertionError):
        test_every_choice_is_that_of_brute_force("gaussian", "D", None)


@pytest.mark.parametrize("loosened", ["factor", "factor_by_sums", "inactive_bound"])
def test_a_bound_that_is_too_low_is_noticed(monkeypatch, loosened):
    """Negative control: items outside the active would win unseen."""
    monkeypatch.setattr(
        ActiveSet, loosened, (lambda *_: -np.inf) if loosened == "inactive_bound" else lambda _, beta: 0.2 * beta
    )

    with pytest.raises(AssertionError):
        test_so_is_every_choice_from_an_active_set("gaussian", "D", None)


def test_those_who_join_an_active_set_with_wrong_means_are_noticed(monkeypatch):
    """Negative control."""
    admit = ActiveSet._admit

    def admit_wrongly(active, rows, new):
        admit(active, rows, new)
        active.log.mean[-len(rows) :] += 0.5

    monkeypatch.setattr(ActiveSet, "_admit", admit_wrongly)

    with pytest.raises(AssertionError):
        test_so_is_every_choice_from_an_active_set("gaussian", "C", None)


def after_many_rounds(n_rounds, regularization, *, checks_drift=True, n_items=150):
    """Largest errors of mean and γ width² against a fresh factor, after many rounds of repeats on a line."""
    rng = np.random.default_rng(3)
    items = np.linspace(0.0, 1.0, n_items)[:, None]
    kernel = Gaussian(length_scale=0.2)
    posterior = ExactPosterior(kernel, regularization=regularization)
    engine = CatalogEngine(items, kernel, regularization)
    engine.checks_drift = checks_drift
    counts, sums = np.zeros(n_items), np.zeros(n_items)
    posterior.observe(items, np.zeros(n_items))
    record = posterior.record
    for row in rng.integers(n_items, size=n_rounds):
        record._counts[row] += 1.0  # what `observe` does to the record, without the factor, which is not queried
        record._sums[row] += 0.5 + 0.1 * rng.normal()
        record.version += 1
        engine.synchronize(record)
        engine.best(0.3)
    counts, sums = record.counts, record.sums
    roots = np.sqrt(counts)
    similarity = kernel.gram(items)
    factor = np.linalg.cholesky(regularization * np.eye(n_items) + roots[:, None] * similarity * roots)
    whitened = np.linalg.solve(factor, roots[:, None] * similarity)
    mean = whitened.T @ np.linalg.solve(factor, sums / roots)
    ours = engine.estimate()
    variance = 1.0 - np.einsum("mn,mn->n", whitened, whitened)
    return np.abs(ours.mean - mean).max(), np.abs(regularization * ours.width**2 - variance).max(), engine


@pytest.mark.parametrize("regularization", [1e-3, 1e-2, 1.0])
def test_rounding_errors_do_not_add_up(regularization):
    mean_error, variance_error, _ = after_many_rounds(3_000, regularization)

    assert mean_error < 1e-9
    assert variance_error < 1e-9


def test_errors_that_add_up_would_be_seen(monkeypatch, no_compiled_rounds):
    """Negative control: an update that is wrong in the fifth digit, and nothing recomputed."""
    monkeypatch.setattr(ColumnLog, "checked_scale", lambda _, scale, __: 1.0001 * scale)

    _, variance_error, _ = after_many_rounds(900, 1e-3, checks_drift=False)

    assert variance_error > 1e-9


def test_the_log_notices_its_own_drift(monkeypatch, no_compiled_rounds):
    """The same wrong update is caught by the check that every repeat makes."""
    monkeypatch.setattr(ColumnLog, "checked_scale", lambda _, scale, __: 1.0001 * scale)

    _, _, engine = after_many_rounds(900, 1e-3)

    assert engine.n_rebuilds > 5


@pytest.mark.long
@pytest.mark.parametrize("n_items", [150, 2_000])
def test_nor_do_they_in_fifty_thousand_rounds(n_items):
    mean_error, variance_error, engine = after_many_rounds(50_000, 1e-3, n_items=n_items)

    assert mean_error < 1e-9
    assert variance_error < 1e-9
    assert engine.n_rebuilds > 1
