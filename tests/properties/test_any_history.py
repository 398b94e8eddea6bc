"""Whatever is observed, amended, removed or pending, in any order: the answers are those of the definition.

Oracles 3, 4, 8, 9 and 13 over every posterior and every kind of point, with histories that hypothesis makes up.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from definitions import log_det_gain, ridge
from kernelbandits.kernels import (
    Delta,
    Gaussian,
    Jaccard,
    LabeledLinear,
    Laplacian,
    Linear,
    Matern,
    PairProduct,
    Polynomial,
    Precomputed,
    Spectrum,
)
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import (
    AutoPosterior,
    ExactPosterior,
    LowRankPosterior,
    PerActionPosterior,
    PrimalPosterior,
)
from weighted import observe_one

ROWS = np.random.default_rng(0).normal(size=(9, 3))
WORDS = ["red boat", "red coat", "blue goat", "blue coat", "green ship", "ship", "shipping", "boat", "a"]
LABELS = ["a", "b", 3, "a", "b", 3, "c", "c", "a"]
PAIRS = PairRows(LABELS, ROWS, is_shared=False)

CASES = {
    "exact gaussian": (ExactPosterior, Gaussian(length_scale=1.0), ROWS),
    "exact matern sparse": (ExactPosterior, Matern(smoothness=0.5, length_scale=2.0), csr_array(ROWS)),
    "exact laplacian": (ExactPosterior, Laplacian(length_scale=[1.0, 2.0, 0.5]), ROWS),
    "exact strings": (ExactPosterior, Spectrum(n=(1, 3)), WORDS),
    "exact sets": (ExactPosterior, Jaccard() + 0.2, [set(word) for word in WORDS]),
    "exact ids": (ExactPosterior, Delta(), list(range(9))),
    "exact table": (ExactPosterior, Precomputed(Gaussian(length_scale=2.0).gram(ROWS)), list(range(9))),
    "exact pairs": (ExactPosterior, PairProduct(Delta(), Gaussian(length_scale=1.0)), PAIRS),
    "primal linear": (PrimalPosterior, Linear(), ROWS),
    "primal polynomial": (PrimalPosterior, 0.1 * Polynomial(degree=2), ROWS),
    "auto linear": (AutoPosterior, Linear() + 0.3, ROWS),
    "auto strings": (AutoPosterior, Spectrum(n=2), WORDS),
    "compressed gaussian": (LowRankPosterior, Gaussian(length_scale=1.0), ROWS),
    "compressed linear sparse": (LowRankPosterior, Linear() + 0.3, csr_array(ROWS)),
    "compressed sets": (LowRankPosterior, Jaccard() + 0.2, [set(word) for word in WORDS]),
    "compressed pairs": (LowRankPosterior, PairProduct(Delta(), Gaussian(length_scale=1.0)), PAIRS),
    "disjoint": (PerActionPosterior, LabeledLinear(), PAIRS),
    "hybrid": (PerActionPosterior, LabeledLinear((1,)), PAIRS),
}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["observe", "one", "one", "batch", "many times", "amend", "remove", "ask"]),
        st.lists(st.integers(0, 7), min_size=1, max_size=5),
    ),
    max_size=14,
)


class History:
    """The whole history, kept the plain way, beside a posterior."""

    def __init__(self, form, kernel, points, gamma, rng):
        self.posterior, self.kernel, self.gamma, self.rng = form(kernel, regularization=gamma), kernel, gamma, rng
        self.points = kernel.kind.check(points)
        self.rows, self.rewards = [], []

    def take(self, rows):
        return self.kernel.kind.take(self.points, np.array(rows, dtype=np.intp))

    def step(self, what, rows):
        values = self.rng.normal(size=len(rows))
        if what in ("observe", "batch"):
            rows, values = (rows[:1], values[:1]) if what == "observe" else (rows, values)
            self.posterior.observe(self.take(rows), values)
            self.rows += rows
            self.rewards += values.tolist()
        elif what == "one":
            observe_one(self.posterior, self.take(rows[:1]), float(values[0]))
            self.rows += rows[:1]
            self.rewards.append(float(values[0]))
        elif what == "many times":
            self.posterior.observe(self.take(rows[:1]), values[:1], times=len(rows))
            self.rows += rows[:1] * len(rows)
            self.rewards += [values[0]] * len(rows)
        elif what == "ask":
            self.posterior.predict(self.points)  # brings whatever is derived up to date in between
        elif self.rows:
            place = rows[0] % len(self.rows)
            if what == "amend":
                self.posterior.amend(self.take([self.rows[place]]), was=[0.0], now=values[:1])
                self.rewards[place] += values[0]
            else:
                self.posterior.remove(self.take([self.rows.pop(place)]), [self.rewards.pop(place)])

    def check(self):
        past = self.take(self.rows) if self.rows else None
        mean, width = ridge(self.kernel, past, self.rewards, self.points, self.gamma)
        prediction = self.posterior.predict(self.points)
        assert_allclose(prediction.mean, mean, atol=1e-7 * max(1.0, np.abs(mean).max()))
        assert_allclose(prediction.width, width, rtol=1e-6, atol=1e-9)
        gain = log_det_gain(self.kernel, past, self.gamma) if self.rows else 0.0
        assert_allclose(self.posterior.log_det_gain, gain, rtol=1e-7, atol=1e-9)
        diagonal = self.kernel.diagonal(self.points)
        trace = diagonal[self.rows].sum() if self.rows else 0.0
        assert (prediction.width**2 <= diagonal / self.gamma * (1 + 1e-9)).all()
        assert (prediction.width**2 >= diagonal / (self.gamma + trace) * (1 - 1e-9)).all()
        assert (self.posterior.n_observations, self.posterior.size) == (len(self.rows), len(set(self._keys(past))))

        self.check_best(mean, width)

    def check_best(self, mean, width):
        for exploration in (0.0, 0.7, 4.0):
            best = self.posterior._best(self.points, exploration)
            if best is not None:  # it need not know
                score = mean[best.row] + exploration * width[best.row]
                assert_allclose(score, (mean + exploration * width).max(), rtol=1e-6, atol=1e-7)
                assert_allclose([best.mean, best.width], [mean[best.row], width[best.row]], rtol=1e-6, atol=1e-7)
                assert best.tied is None or best.tied[0] == best.row

    def check_pending(self, rows):
        past = self.take(self.rows + rows)
        _, width = ridge(self.kernel, past, np.zeros(len(self.rows) + len(rows)), self.points, self.gamma)
        assert_allclose(self.posterior.predict(self.points, pending=self.take(rows)).width, width, rtol=1e-6, atol=1e-9)

    def _keys(self, past):
        return [] if past is None else self.kernel.kind.keys(past)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(
    steps=STEPS, gamma=st.sampled_from([0.02, 0.6, 7.0]), waiting=st.lists(st.integers(0, 8), min_size=1, max_size=4)
)
def test_answers_are_those_of_the_definition(name, steps, gamma, waiting):
    history = History(*CASES[name], gamma, np.random.default_rng(len(steps)))

    for what, rows in steps:
        history.step(what, rows)

    history.check()
    history.check_pending(waiting)
