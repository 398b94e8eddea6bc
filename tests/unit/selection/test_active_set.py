from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import active_set as front_module
from kernelbandits.selection.active_set import ActiveSet
from kernelbandits.selection.synchronized_columns import SynchronizedColumns

N_ITEMS, SIZE, BETA = 300, 60, 0.8
REGULARIZATION = 0.3


class Scene:
    """A active, and beside it all items kept up to date by another log."""

    def __init__(self, seed=0, n_before=25):
        self.rng = np.random.default_rng(seed)
        self.noise = 0.0
        self.items = self.rng.uniform(size=(N_ITEMS, 2))
        kernel = Gaussian(length_scale=0.3)
        self.record = Observations(kernel.kind)
        self.behind, self.exact = (SynchronizedColumns(self.items, kernel, REGULARIZATION) for _ in range(2))
        for row in self.rng.integers(N_ITEMS, size=n_before):
            self.observe(row)
        for follower in (self.behind, self.exact):
            follower.start(self.record)
        self.active = ActiveSet(self.behind.log, N_ITEMS, SIZE, BETA, 0.5, self.behind.between)
        self.active.points = self.items[self.active.rows]
        self.kernel = kernel

    def observe(self, row):
        batch = self.record.sort(self.items[[row]], self.noise + self.rng.normal(size=1), np.ones(1))
        self.record.add(batch)

    def pull(self, place):
        """An action of the active, taken in by the active and by the log of all."""
        self.observe(int(self.active.rows[place]))
        log = self.active.log
        if self.record.n_slots > log.n_slots:
            places = self.behind.find_new()
            self.behind.meet(places)
            log.meet(self.active.places_of(places))
            self.exact.meet(places.copy())
        (slot,) = self.behind.changed(log)
        log.pull(slot, self.record.counts.item(slot), self.record.sums.item(slot), self.similarities)
        self.exact.update([slot])

    def pull_some(self, n_pulls, among=SIZE):
        for place in self.rng.integers(among, size=n_pulls):
            self.pull(int(place))

    def similarities(self, slots, out):
        out[:] = self.kernel.gram(self.behind.slot_points(slots), self.items[self.active.rows])

    def refresh(self, reach=0.5, best=np.inf):
        self.active.refresh(BETA, reach, best, self.behind.similarities)

    def inactive(self):
        return np.setdiff1d(np.arange(N_ITEMS), self.active.rows)

    def scores(self):
        log = self.exact.log
        return (log.mean + BETA * np.sqrt(np.maximum(log.variance, 0.0)))[:N_ITEMS]


@pytest.mark.parametrize("seed", range(5))
def test_the_rest_stays_below_its_bounds(seed):
    scene = Scene(seed)

    for n_pulls in (1, 3, 8, 20):
        scene.pull_some(n_pulls, among=15)
        by_sums, factor = scene.active.factor_by_sums(BETA), scene.active.factor(BETA)

        assert by_sums >= factor * (1.0 - 1e-8)
        assert scene.scores()[scene.inactive()].max() <= scene.active.inactive_bound(factor) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_and_so_it_does_after_the_means_were_refreshed(seed):
    scene = Scene(seed)

    for n_pulls in (4, 10, 10):
        scene.pull_some(n_pulls, among=15)
        scene.refresh()
        assert scene.scores()[scene.inactive()].max() <= scene.active.inactive_bound(scene.active.factor(BETA)) + 1e-12
        scene.pull_some(6, among=15)
        assert scene.scores()[scene.inactive()].max() <= scene.active.inactive_bound(scene.active.factor(BETA)) + 1e-12


def long_means(scene):
    """Means of all items in extended precision."""
    long, record = np.longdouble, scene.record
    matrix = scene.kernel.gram(record.points).astype(long)
    matrix[np.diag_indices(record.n_slots)] += long(REGULARIZATION) / record.counts
    rows = np.column_stack([matrix, record.sums.astype(long) / record.counts])
    for place in range(len(rows)):  # Gauss; the matrix is positive definite
        rows[place] /= rows[place, place]
        others = np.arange(len(rows)) != place
        rows[others] -= rows[others, place][:, None] * rows[place]
    return scene.kernel.gram(scene.items, record.points).astype(long) @ rows[:, -1]


@pytest.mark.parametrize("is_raised", [True, False])
def test_refreshed_means_are_raised_by_their_rounding_error(monkeypatch, is_raised):
    """Without exploration the bound is the highest mean itself; the negative control takes the margin out."""
    if not is_raised:
        monkeypatch.setattr(front_module.np, "finfo", lambda kind: SimpleNamespace(eps=0.0))
    n_failed = 0
    for seed in range(12):
        scene = Scene(seed)
        scene.active = ActiveSet(scene.behind.log, N_ITEMS, SIZE, 0.0, 0.5, scene.behind.between)
        scene.active.points = scene.items[scene.active.rows]
        scene.pull_some(12, among=15)
        scene.active.refresh(0.0, 0.5, np.inf, scene.behind.similarities)
        n_failed += scene.active.inactive_bound(0.0) < long_means(scene)[scene.inactive()].max()

    assert (n_failed == 0) if is_raised else (n_failed > 2)


def test_an_active_set_that_was_not_refreshed_would_be_noticed(monkeypatch):
    """Negative control: as if the means were what they were."""
    monkeypatch.setattr(front_module, "mixed", lambda _, __, n_actions: np.zeros(n_actions))
    scene = Scene()
    scene.noise = 5.0
    scene.pull_some(20)
    scene.refresh()

    assert scene.scores()[scene.inactive()].max() > scene.active.inactive_bound(BETA)


def test_the_bound_is_convex_between_the_points_of_its_grid():
    scene = Scene()
    log, rest = scene.behind.log, scene.inactive()

    for factor in np.linspace(0.5 * BETA, 1.4 * BETA, 23):
        highest = (log.mean[rest] + factor * np.sqrt(log.variance[rest])).max()
        assert scene.active.inactive_bound(factor) >= highest - 1e-12
    assert scene.active.inactive_bound(100.0) == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_those_who_join_are_exact_and_so_is_the_active_set_afterwards(seed):
    scene = Scene(seed)
    scene.pull_some(12)
    scene.refresh(best=scene.scores()[scene.inactive()].max())
    joined = scene.active.log.size - SIZE
    scene.pull_some(12, among=SIZE + joined)
    scene.refresh(best=scene.scores()[scene.inactive()].max())
    scene.pull_some(5, among=scene.active.log.size)

    rows, log = scene.active.rows, scene.active.log
    assert 0 < joined < len(rows) - SIZE
    assert len(np.unique(rows)) == len(rows) == log.size
    assert [scene.active.place(int(row)) for row in rows] == list(range(len(rows)))
    assert_allclose(log.mean, scene.exact.log.mean[rows], rtol=0, atol=1e-11)
    assert_allclose(log.variance, scene.exact.log.variance[rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("source", ["variances", "solving"])
@pytest.mark.parametrize("has_margin", [True, False])
def test_the_bound_covers_errors_of_variances_and_of_solving(monkeypatch, source, has_margin):
    """Errors as large as the margins allow, magnified; the negative control takes the margin out."""
    error, solve = 1e-6, np.linalg.solve
    n_failed = 0
    for seed in range(6):
        scene = Scene(seed)
        scene.pull_some(12, among=15)
        exact = scene.active.factor(BETA)

        def perturbed(system, gap):
            """Solution for a matrix with the errors that the margin allows, in the worst direction."""
            signs = np.sign(solve(system, gap))
            allowed = error if source == "variances" else 4.0 * error * len(gap) * np.trace(system)
            return solve(system + allowed * np.outer(signs, signs), gap)

        with monkeypatch.context() as patch:
            patch.setattr(np.linalg, "solve", perturbed)
            if has_margin and source == "variances":
                patch.setattr(scene.active, "_noise", error)
            if has_margin and source == "solving":
                patch.setattr(front_module, "EPSILON", error)
            n_failed += scene.active.factor(BETA) < exact * (1.0 - 1e-9)

    assert (n_failed == 0) if has_margin else (n_failed > 2)


def test_the_error_of_variances_is_the_drift_that_is_allowed():
    scene = Scene()

    assert scene.active._noise == front_module.DRIFT_LIMIT * scene.behind.log.prior.max()
