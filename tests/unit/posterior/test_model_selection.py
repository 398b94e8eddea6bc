import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.posterior import fit_kernel

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(60, 2))
REWARDS = np.sin(4 * POINTS[:, 0]) + 0.1 * RNG.normal(size=60)
CANDIDATES = [Gaussian(length_scale=scale) for scale in (0.05, 0.4, 3.0)]


def test_the_marginal_likelihood_is_that_of_a_gaussian_process():
    fit = fit_kernel(CANDIDATES, POINTS, REWARDS, regularization=[0.01, 0.3])

    for tried in fit.tried:
        process = GaussianProcessRegressor(
            RBF(tried["kernel"]["length_scale"]), alpha=tried["regularization"], optimizer=None
        ).fit(POINTS, REWARDS)
        assert_allclose(tried["value"], process.log_marginal_likelihood_value_, rtol=1e-8)
    assert fit.value == max(tried["value"] for tried in fit.tried)
    assert (fit.kernel, fit.regularization) == (CANDIDATES[1], 0.01)


def test_cross_validation_is_the_error_on_left_out_folds():
    fit = fit_kernel(
        CANDIDATES, POINTS, REWARDS, regularization=[0.01, 0.3], criterion="cross_validation", folds=4, seed=7
    )

    order = np.random.default_rng(7).permutation(60)
    for tried in fit.tried:
        gamma = 1.0 / (2.0 * tried["kernel"]["length_scale"] ** 2)
        total = 0.0
        for left_out in np.array_split(order, 4):
            kept = np.setdiff1d(np.arange(60), left_out)
            model = KernelRidge(alpha=tried["regularization"], kernel="rbf", gamma=gamma)
            predicted = model.fit(POINTS[kept], REWARDS[kept]).predict(POINTS[left_out])
            total += ((predicted - REWARDS[left_out]) ** 2).sum()
        assert_allclose(tried["value"], total / 60, rtol=1e-6)
    assert fit.value == min(tried["value"] for tried in fit.tried)


def test_every_pair_is_reported_in_order():
    fit = fit_kernel([Linear(), CANDIDATES[0]], POINTS, REWARDS, regularization=[1.0, 2.0])

    assert [(tried["kernel"]["class"], tried["regularization"]) for tried in fit.tried] == [
        ("Linear", 1.0),
        ("Linear", 2.0),
        ("Gaussian", 1.0),
        ("Gaussian", 2.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"regularization": []}, "at least one candidate"),
        ({"regularization": [0.0]}, "must be positive"),
        ({"regularization": [1.0], "criterion": "guess"}, "criterion is"),
        ({"regularization": [1.0], "criterion": "cross_validation", "folds": 1}, "2 to 60 folds"),
        ({"regularization": [1.0], "criterion": "cross_validation", "folds": 61}, "2 to 60 folds"),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        fit_kernel(CANDIDATES, POINTS, REWARDS, **arguments)
