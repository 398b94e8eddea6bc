"""Gradients of posteriors: what their weights have to be, and posteriors that changed their form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian, Linear, Matern
from kernelbandits.posterior import (
    AutoPosterior,
    ExactPosterior,
    LowRankPosterior,
    NystroemPosterior,
    PrimalPosterior,
    ResidualDictionary,
    posterior_factory,
)

KERNEL = Matern(smoothness=2.5, length_scale=0.6)
SMOOTH = Gaussian(length_scale=0.6)
POINTS = np.random.default_rng(0).uniform(size=(4, 2))

POSTERIORS = {
    "exact": lambda: ExactPosterior(KERNEL, regularization=0.05),
    "compressed": lambda: LowRankPosterior(SMOOTH, regularization=0.05),
    "nystroem": lambda: NystroemPosterior(
        SMOOTH, regularization=0.05, dictionary=ResidualDictionary(size=25, tolerance=1e-6)
    ),
    "merged": lambda: PrimalPosterior(Linear(), regularization=0.05, keep=10),
    "auto": lambda: AutoPosterior(SMOOTH, regularization=0.05),
    "auto, budget": lambda: AutoPosterior(KERNEL, regularization=0.05, budget=30),
    "logistic": lambda: posterior_factory("logistic")(KERNEL, 0.05),
    "windowed": lambda: posterior_factory("windowed", length=40)(KERNEL, 0.05),
    "forgetting": lambda: posterior_factory("forgetting", rate=0.95)(KERNEL, 0.05),
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_gradient_of_mean_and_width_is_that_of_differences_after_many_observations(name):
    posterior, rng = POSTERIORS[name](), np.random.default_rng(1)
    rows = rng.uniform(size=(160, 2))
    rewards = (np.sin(5.0 * rows[:, 0]) + rows[:, 1] > 0.7).astype(float)
    posterior.observe(rows[:150], rewards[:150])
    for row, reward in zip(rows[150:], rewards[150:], strict=True):
        posterior.observe(row[None], [reward])

    def slopes(function):
        return np.column_stack(
            [(function(POINTS + 1e-5 * unit) - function(POINTS - 1e-5 * unit)) / 2e-5 for unit in np.eye(2)]
        )

    of_mean = posterior.gradient(POINTS, POINTS, np.zeros((4, 4)))
    of_squares = 2.0 * (posterior.gradient(POINTS, POINTS, np.eye(4)) - of_mean)

    means = slopes(lambda some: posterior.predict(some).mean)
    squares = slopes(lambda some: posterior.predict(some).width ** 2)
    assert_allclose(of_mean, means, rtol=1e-4, atol=1e-5 * np.abs(means).max())
    assert_allclose(of_squares, squares, rtol=1e-4, atol=1e-4 * np.abs(squares).max())


@pytest.mark.parametrize("weights", [np.ones(4), np.ones((4, 3)), np.full((4, 4), np.nan), "a", None])
def test_weights_of_another_form_are_rejected(weights):
    for posterior in (ExactPosterior(KERNEL, regularization=1.0), PrimalPosterior(Linear(), regularization=1.0)):
        posterior.observe(POINTS, np.zeros(4))

        with pytest.raises(InvalidParameter, match="The weights must be"):
            posterior.gradient(POINTS, POINTS, weights)
