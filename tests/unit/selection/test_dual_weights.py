import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior, cholesky
from kernelbandits.selection import dual_weights as module
from kernelbandits.selection.dual_weights import DualWeights
from kernelbandits.selection.screening import PanelTable

EXPLORATION = 0.6


@pytest.fixture
def passes(monkeypatch):
    monkeypatch.setattr(cholesky, "PANEL", 7)
    monkeypatch.setattr(cholesky, "FIRST_CAPACITY", 2)


class Followed:
    """Weights that follow a posterior."""

    def __init__(self, rng, regularization=0.5):
        self.rng = rng
        self.posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=regularization)
        self.observe(20)
        self.weights, self._table = DualWeights(), PanelTable()

    def observe(self, n):
        self.posterior.observe(self.rng.uniform(size=(n, 2)), self.rng.normal(size=n))

    def follow(self):
        whitening = self.posterior.whitening()
        self.weights.follow(self.posterior, whitening, self._table.of(whitening.factor), EXPLORATION)
        return self.weights


def test_fresh_weights_give_the_means(passes):
    followed = Followed(np.random.default_rng(0))
    followed.posterior.observe(followed.posterior.record.points[:3].copy(), [1.0, 2.0, 3.0])
    points = followed.rng.uniform(size=(30, 2))

    weights = followed.follow()

    similarity = followed.posterior.kernel.gram(points, followed.posterior.record.points)
    assert_allclose(similarity @ weights.weights, followed.posterior.predict(points).mean, rtol=1e-10, atol=1e-12)
    assert weights.total == pytest.approx(np.abs(weights.weights).sum())
    nearest = (similarity**2 * weights.shares).max(axis=1)
    assert (1.0 - nearest >= 0.5 * followed.posterior.predict(points).width ** 2 - 1e-12).all()


@pytest.mark.parametrize("n_new", [1, 5, 12])
def test_old_weights_bound_what_came_after(passes, monkeypatch, n_new):
    monkeypatch.setattr(module, "STALE", np.inf)
    followed = Followed(np.random.default_rng(n_new))
    posterior, points = followed.posterior, followed.rng.uniform(size=(500, 2))
    followed.follow()
    old = posterior.predict(points)
    followed.observe(n_new)

    weights = followed.follow()

    new, deviation = posterior.predict(points), old.width * np.sqrt(posterior.regularization)
    moved, excess = np.abs(new.mean - old.mean), new.upper(EXPLORATION) - old.mean
    assert weights.size == posterior.size - n_new
    assert (moved <= weights.drift * deviation + 1e-12).all()
    assert (excess <= weights.reach * deviation + 1e-12).all()
    assert moved.max() > 0.0
    assert weights.drift < np.sqrt(np.sum(posterior.whitening().targets[-n_new:] ** 2))
    assert (excess / deviation).max() > 0.3 * weights.reach  # of use, not only true


def test_weights_are_renewed_when_their_reach_is_long(passes, monkeypatch):
    followed = Followed(np.random.default_rng(1))
    followed.follow()
    monkeypatch.setattr(module, "STALE", 1.0)
    followed.observe(1)

    weights = followed.follow()

    assert weights.size == followed.posterior.size
    assert weights.drift == 0.0
    assert weights.reach == pytest.approx(EXPLORATION / np.sqrt(0.5))


@pytest.mark.parametrize("change", ["repeat", "amend", "remove", "many"])
def test_any_other_change_renews_them(passes, monkeypatch, change):
    monkeypatch.setattr(module, "STALE", np.inf)
    followed = Followed(np.random.default_rng(2))
    known = followed.posterior.record.points[4:5].copy()
    before = followed.follow().weights
    if change == "repeat":
        followed.posterior.observe(known, [0.3])
    elif change == "amend":
        followed.posterior.amend(known, was=[0.0], now=[0.3])
    elif change == "remove":
        followed.posterior.remove(known, [0.3])
    else:
        followed.observe(module.OLDEST + 1)

    weights = followed.follow()

    assert weights.size == followed.posterior.record.n_slots
    assert not np.array_equal(weights.weights[:20], before)
    assert weights.drift == 0.0
