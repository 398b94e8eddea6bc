import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.selection import screening as module
from kernelbandits.selection._screening_loops import screening_loops
from kernelbandits.selection.screening import DualWeights, PanelTable

screening_loops.ensure()

EXPLORATION = 0.6


class Synchronized:
    """Weights beside their posterior."""

    def __init__(self, rng, regularization=0.5, **options):
        self.rng = rng
        self.posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=regularization)
        self.posterior._factor = GrowingCholesky(rows_per_panel=7, first_capacity=2)
        self.observe(20)
        self.weights, self._table = DualWeights(**options), PanelTable()

    def observe(self, n):
        self.posterior.observe(self.rng.uniform(size=(n, 2)), self.rng.normal(size=n))

    def synchronize(self, **options):
        whitening = self.posterior.whitening()
        panels = self._table.of(whitening.factor)
        self.weights.synchronize(whitening, panels, self.posterior.regularization, EXPLORATION, **options)
        return self.weights


def test_fresh_weights_give_the_means():
    own = Synchronized(np.random.default_rng(0))
    own.posterior.observe(own.posterior.record.points[:3].copy(), [1.0, 2.0, 3.0])
    points = own.rng.uniform(size=(30, 2))

    weights = own.synchronize()

    similarity = own.posterior.kernel.gram(points, own.posterior.record.points)
    assert_allclose(similarity @ weights.weights, own.posterior.predict(points).mean, rtol=1e-10, atol=1e-12)
    assert weights.total == pytest.approx(np.abs(weights.weights).sum())
    nearest = (similarity**2 * weights.shares).max(axis=1)
    assert (1.0 - nearest >= 0.5 * own.posterior.predict(points).width ** 2 - 1e-12).all()


@pytest.mark.parametrize("n_new", [1, 5, 12])
def test_old_weights_bound_what_came_after(n_new):
    own = Synchronized(np.random.default_rng(n_new), stale=np.inf)
    posterior, points = own.posterior, own.rng.uniform(size=(500, 2))
    own.synchronize()
    old = posterior.predict(points)
    own.observe(n_new)

    weights = own.synchronize()

    new, deviation = posterior.predict(points), old.width * np.sqrt(posterior.regularization)
    moved, excess = np.abs(new.mean - old.mean), new.upper(EXPLORATION) - old.mean
    assert weights.size == posterior.size - n_new
    assert (moved <= weights.mean_drift * deviation + 1e-12).all()
    assert (excess <= weights.innovation_bound * deviation + 1e-12).all()
    assert moved.max() > 0.0
    assert weights.mean_drift < np.sqrt(np.sum(posterior.whitening().targets[-n_new:] ** 2))
    assert (excess / deviation).max() > 0.3 * weights.innovation_bound  # of use, not only true


@pytest.mark.parametrize("n_new", [5, module.OLDEST + 20])
def test_stale_weights_are_valid_however_old(n_new):
    own = Synchronized(np.random.default_rng(n_new))
    posterior, points = own.posterior, own.rng.uniform(size=(500, 2))
    own.synchronize()
    old = posterior.predict(points)
    own.observe(n_new)

    weights = own.synchronize(may_be_stale=True)

    new, deviation = posterior.predict(points), old.width * np.sqrt(posterior.regularization)
    assert weights.size == posterior.size - n_new
    assert weights.is_stale
    assert (np.abs(new.mean - old.mean) <= weights.mean_drift * deviation + 1e-12).all()
    assert (new.upper(EXPLORATION) - old.mean <= weights.innovation_bound * deviation + 1e-12).all()
    assert not (np.abs(new.mean - old.mean) <= 0.02 * weights.mean_drift * deviation).all()


def test_stale_weights_are_recomputed_on_request_and_after_other_changes():
    own = Synchronized(np.random.default_rng(6))
    own.synchronize()
    own.observe(module.OLDEST + 1)
    weights, posterior = own.synchronize(may_be_stale=True), own.posterior
    assert weights.is_stale

    whitening = posterior.whitening()
    weights.recompute(whitening, own._table.of(whitening.factor), posterior.regularization, EXPLORATION)

    assert (weights.size, weights.is_stale, weights.mean_drift) == (posterior.size, False, 0.0)
    assert weights.innovation_bound == EXPLORATION / np.sqrt(posterior.regularization)
    own.observe(module.OLDEST + 1)
    posterior.observe(posterior.record.points[4:5].copy(), [0.3])
    assert not own.synchronize(may_be_stale=True).is_stale


def test_weights_are_recomputed_when_their_bound_is_loose():
    own = Synchronized(np.random.default_rng(1), stale=1.0)
    own.synchronize()
    own.observe(1)

    weights = own.synchronize()

    assert weights.size == own.posterior.size
    assert weights.mean_drift == 0.0
    assert weights.innovation_bound == pytest.approx(EXPLORATION / np.sqrt(0.5))


@pytest.mark.parametrize("change", ["repeat", "amend", "remove", "many"])
def test_any_other_change_recomputes_them(change):
    own = Synchronized(np.random.default_rng(2), stale=np.inf)
    known = own.posterior.record.points[4:5].copy()
    before = own.synchronize().weights
    if change == "repeat":
        own.posterior.observe(known, [0.3])
    elif change == "amend":
        own.posterior.amend(known, was=[0.0], now=[0.3])
    elif change == "remove":
        own.posterior.remove(known, [0.3])
    else:
        own.observe(module.OLDEST + 1)

    weights = own.synchronize()

    assert weights.size == own.posterior.record.n_slots
    assert not np.array_equal(weights.weights[:20], before)
    assert weights.mean_drift == 0.0
