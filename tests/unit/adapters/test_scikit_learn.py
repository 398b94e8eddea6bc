import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import kernels
from kernelbandits.adapters import KernelUCBRegressor
from kernelbandits.adapters.scikit_learn import NAMES
from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite, NotSupported

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

NOT_APPLICABLE = {"check_regressors_no_decision_function": "the upper confidence bound is what decisions are made by"}
"""Checks of scikit-learn that do not apply, each with its reason.

All are run on kernels over rows only: they hand in rows of any shape, which "precomputed" takes for similarities.
"""


@parametrize_with_checks(
    [KernelUCBRegressor(), KernelUCBRegressor("linear", regularization=0.5), KernelUCBRegressor(RBF(2.0))],
    expected_failed_checks=lambda _: NOT_APPLICABLE,
)
def test_keeps_the_promises_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def problem():
    rng = np.random.default_rng(5)
    rows, queries = rng.normal(size=(40, 3)), rng.normal(size=(11, 3))
    return rows, np.sin(rows[:, 0]) + 0.3 * rng.normal(size=40), queries


def slowly(gram, cross, diagonal, rewards, regularization):
    inverse = np.linalg.inv(gram + regularization * np.eye(len(gram)))
    unexplained = diagonal - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    return cross @ inverse @ rewards, np.sqrt(unexplained / regularization)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "precomputed"])
@pytest.mark.parametrize("regularization", [0.3, 2.0])
def test_mean_width_and_bound_are_those_of_the_definition(problem, name, regularization):
    rows, rewards, queries = problem
    regressor = KernelUCBRegressor(name, regularization=regularization, exploration=0.7, length_scale=1.3)

    mean, width = regressor.fit(rows, rewards).predict(queries, return_width=True)

    kernel = regressor.kernel_
    expected = slowly(kernel.gram(rows), kernel.gram(queries, rows), kernel.diagonal(queries), rewards, regularization)
    assert_allclose(mean, expected[0], atol=1e-8)
    assert_allclose(width, expected[1], atol=1e-7)
    assert_allclose(regressor.decision_function(queries), expected[0] + 0.7 * expected[1], atol=1e-7)
    assert_array_equal(regressor.predict(queries), mean)


def test_agrees_with_kernel_ridge_of_scikit_learn(problem):
    rows, rewards, queries = problem
    peer = KernelRidge(alpha=0.4, kernel="rbf", gamma=1 / (2 * 0.8**2)).fit(rows, rewards)

    ours = KernelUCBRegressor("rbf", regularization=0.4, length_scale=0.8).fit(rows, rewards)

    assert_allclose(ours.predict(queries), peer.predict(queries), rtol=1e-8)
    assert not np.allclose(
        ours.set_params(regularization=0.5).fit(rows, rewards).predict(queries), peer.predict(queries)
    )


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Gaussian(length_scale=0.9),
        RBF(length_scale=0.9),
        lambda first, second: rbf_kernel(first, second, gamma=1 / (2 * 0.9**2)),
    ],
    ids=["ours", "scikit-learn", "function"],
)
def test_takes_kernels_of_every_origin(problem, kernel):
    rows, rewards, queries = problem
    named = KernelUCBRegressor("rbf", length_scale=0.9).fit(rows, rewards)

    other = KernelUCBRegressor(kernel).fit(rows, rewards)

    assert_allclose(other.decision_function(queries), named.decision_function(queries), rtol=1e-6)


def test_precomputed_similarities_give_what_the_kernel_gives(problem):
    rows, rewards, queries = problem
    kernel = kernels.Laplacian(length_scale=2.0)
    by_kernel = KernelUCBRegressor(kernel, regularization=0.3).fit(rows, rewards)

    by_table = KernelUCBRegressor("precomputed", regularization=0.3).fit(laplacian_kernel(rows, gamma=0.5), rewards)
    mean, width = by_table.predict(laplacian_kernel(queries, rows, gamma=0.5), return_width=True, diagonal=np.ones(11))

    assert_allclose(mean, by_kernel.predict(queries), rtol=1e-7)
    assert_allclose(width, by_kernel.predict(queries, return_width=True)[1], rtol=1e-6)
    assert_allclose(
        by_table.decision_function(laplacian_kernel(queries, rows, gamma=0.5), diagonal=1.0), mean + width, rtol=1e-12
    )


def test_precomputed_similarities_reject_what_they_cannot_know(problem):
    rows, rewards, queries = problem
    fitted = KernelUCBRegressor("precomputed").fit(rbf_kernel(rows), rewards)

    with pytest.raises(InvalidParameter, match=r"Widths need k\(x, x\)"):
        fitted.decision_function(rbf_kernel(queries, rows))
    with pytest.raises(InvalidParameter, match="one number for each of 11 points, got 3"):
        fitted.decision_function(rbf_kernel(queries, rows), diagonal=[1.0, 1.0, 1.0])
    with pytest.raises(NotSupported, match="Call `fit` with all rows"):
        fitted.partial_fit(rbf_kernel(rows), rewards)
    with pytest.raises(InvalidParameter, match="square matrix"):
        KernelUCBRegressor("precomputed").fit(rows, rewards)
    with pytest.raises(NotPositiveSemidefinite, match="not those of a kernel"):
        KernelUCBRegressor("precomputed", regularization=0.1).fit([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0])


def test_fitting_in_parts_is_fitting_at_once(problem):
    rows, rewards, queries = problem
    whole = KernelUCBRegressor(regularization=0.2).fit(rows, rewards)

    parts = KernelUCBRegressor(regularization=0.2)
    for part in (slice(0, 1), slice(1, 17), slice(17, 40)):
        parts.partial_fit(rows[part], rewards[part])

    assert_allclose(parts.decision_function(queries), whole.decision_function(queries), rtol=1e-8)
    assert not np.allclose(
        parts.predict(queries), KernelUCBRegressor(regularization=0.2).fit(rows[17:], rewards[17:]).predict(queries)
    )


def test_sparse_rows_give_what_dense_rows_give(problem):
    rows, rewards, queries = problem
    rows = np.where(rows > 0, rows, 0.0)

    fitted = KernelUCBRegressor().fit(csr_array(rows), rewards)

    assert_allclose(
        fitted.predict(csr_array(queries)), KernelUCBRegressor().fit(rows, rewards).predict(queries), rtol=1e-8
    )


def test_strings_are_points_where_the_kernel_takes_strings():
    regressor = KernelUCBRegressor(kernels.Spectrum(n=2), regularization=0.1)

    regressor.fit(["cheap flights", "slow cooking"], [1.0, 0.0])

    cheap, slow = regressor.predict(["cheap fights", "slow looking"])
    assert cheap > slow
    assert not hasattr(regressor, "n_features_in_")


def test_works_in_pipelines_searches_and_cross_validation(problem):
    rows, rewards, _ = problem
    pipeline = make_pipeline(StandardScaler(), KernelUCBRegressor())

    search = GridSearchCV(
        pipeline,
        {
            "kernelucbregressor__kernel": ["rbf", kernels.Linear(), ConstantKernel(2.0) * RBF(0.5)],
            "kernelucbregressor__regularization": [0.1, 1.0],
        },
        cv=3,
    ).fit(rows, rewards)
    scores = cross_val_score(KernelUCBRegressor("precomputed", regularization=0.1), rbf_kernel(rows), rewards, cv=4)

    assert search.best_score_ > 0.0
    assert np.isfinite(scores).all()


def test_is_copied_by_its_parameters_and_kept_by_pickle(problem):
    rows, rewards, queries = problem
    kernel = kernels.Matern(smoothness=2.5, length_scale=0.4)
    regressor = KernelUCBRegressor(kernel, regularization=0.3, exploration=2.0).fit(rows, rewards)

    replica, thawed = clone(regressor), pickle.loads(pickle.dumps(regressor))

    assert replica.get_params() == regressor.get_params()
    assert not hasattr(replica, "posterior_")
    assert_array_equal(thawed.decision_function(queries), regressor.decision_function(queries))


def test_knows_the_names_of_columns(problem):
    pandas = pytest.importorskip("pandas")
    rows, rewards, _ = problem
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])

    fitted = KernelUCBRegressor().fit(frame, rewards)

    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["b", "a", "c"]])


def test_the_median_distance_is_taken_from_the_first_rows(problem):
    rows, rewards, _ = problem

    fitted = KernelUCBRegressor("matern", length_scale="median", smoothness=0.5).fit(rows, rewards)

    assert fitted.kernel_ == kernels.Matern(smoothness=0.5, length_scale=kernels.median_length_scale(rows))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "gauss"}, "name of a kernel must be one of 'rbf'.*got 'gauss'"),
        ({"regularization": 0.0}, "regularization must be"),
        ({"exploration": -1.0}, "exploration must be"),
        ({"length_scale": "mean"}, "'median', got 'mean'"),
        ({"length_scale": -1.0}, "length scale must be"),
    ],
)
def test_rejects_parameters_when_it_is_fitted(problem, changes, message):
    rows, rewards, _ = problem
    regressor = KernelUCBRegressor(**changes)

    with pytest.raises(InvalidParameter, match=message):
        regressor.fit(rows, rewards)

    assert not hasattr(regressor, "posterior_")


def test_asks_to_be_fitted_first(problem):
    with pytest.raises(NotFittedError, match="not fitted"):
        KernelUCBRegressor().predict(problem[0])
    fitted = KernelUCBRegressor().fit(problem[0], problem[1])
    with pytest.raises(InvalidParameter, match="'precomputed' only"):
        fitted.predict(problem[0], diagonal=1.0)
