"""Adapter for scikit-learn: the regressor behind KernelUCB."""

# ruff: noqa: N803 – scikit-learn calls rows X

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._optional import missing_extra
from kernelbandits._sparse import sound
from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite, NotSupported
from kernelbandits.kernels import (
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Rows,
    as_kernel,
    median_length_scale,
)
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.posterior import posterior_factory
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.types import Matrix, Points, Vector
from kernelbandits.validation import check_nonnegative, check_vector

if TYPE_CHECKING:

    class _Estimator:
        """The part of scikit-learn's interface that is used here, for the type checker."""

        def __init__(self) -> None: ...
        def __sklearn_tags__(self) -> Any: ...

else:
    try:
        from sklearn.base import BaseEstimator, RegressorMixin

        class _Estimator(RegressorMixin, BaseEstimator):
            """Parameters, copies, score and tags of scikit-learn."""

    except ImportError:

        class _Estimator:
            """Placeholder without scikit-learn: the class can be imported, but not instantiated."""

            def __new__(cls, *_, **__):
                raise missing_extra("sklearn", cls.__name__, "adapters")


__all__ = ["NAMES", "KernelUCBRegressor", "SimilarityRidge", "named_kernel"]

ALIASES: Final = {"gaussian": "rbf", "polynomial": "poly"}
OF_DISTANCE: Final = ("rbf", "laplacian", "matern", "rational_quadratic")
NAMES: Final = ("rbf", "laplacian", "matern", "rational_quadratic", "linear", "poly", "cosine", "precomputed")


def named_kernel(
    kernel: Any, points: Points, *, length_scale: Any, smoothness: float, degree: int, offset: float
) -> Kernel:
    """Return the kernel of this name with these parameters; a kernel object or function is returned as a kernel.

    >>> named_kernel("rbf", [[0.0], [3.0]], length_scale="median", smoothness=1.5, degree=3, offset=1.0)
    Gaussian(length_scale=3.0)
    """
    if not isinstance(kernel, str):
        return as_kernel(kernel)
    name = ALIASES.get(kernel, kernel)
    if name in OF_DISTANCE:
        return _of_distance(name, _length_scale(length_scale, points), smoothness)
    if name == "linear":
        return Linear()
    if name == "poly":
        return Polynomial(degree=degree, offset=offset)
    if name == "cosine":
        return Cosine()
    raise InvalidParameter(
        f"The name of a kernel must be one of {', '.join(map(repr, NAMES))}, got {kernel!r}. Or pass an object "
        "or a function."
    )


def _of_distance(name: str, length_scale: Any, smoothness: float) -> Kernel:
    if name == "rbf":
        return Gaussian(length_scale=length_scale)
    if name == "laplacian":
        return Laplacian(length_scale=length_scale)
    if name == "matern":
        return Matern(smoothness=smoothness, length_scale=length_scale)
    return RationalQuadratic(length_scale=length_scale)


def _length_scale(length_scale: Any, points: Points) -> Any:
    if not isinstance(length_scale, str):
        return length_scale
    if length_scale != "median":
        raise InvalidParameter(f"A length scale must be a number, one per column, or 'median', got {length_scale!r}.")
    return median_length_scale(points, seed=0)


class SimilarityRidge:
    """Mean and width from similarities to the observed points: mean = kᵀA⁻¹y, width² = (k(x, x) − kᵀA⁻¹k)/γ.

    A = K + γI. The posteriors of this library evaluate a kernel; here the caller passes the similarities.

    Parameters
    ----------
    gram
        Similarities of the observed points to each other.
    rewards
        Observed rewards.

    >>> ridge = SimilarityRidge(np.eye(2), np.array([1.0, 3.0]), regularization=1.0)
    >>> ridge.mean(np.array([[0.0, 1.0]]))
    array([1.5])
    """

    def __init__(self, gram: Matrix, rewards: Vector, *, regularization: float) -> None:
        from scipy.linalg import cho_factor, cho_solve

        self.regularization = checked_regularization(regularization)
        try:
            self._factor = cho_factor(gram + self.regularization * np.eye(len(gram)), lower=True)
        except np.linalg.LinAlgError as error:
            raise NotPositiveSemidefinite(
                "The similarities are not those of a kernel: their matrix has an eigenvalue below −regularization. "
                "Repair them: kernelbandits.kernels.repair."
            ) from error
        self._dual_weights = cho_solve(self._factor, rewards)

    def mean(self, similarities: Matrix) -> Vector:
        """Mean at points with these similarities to the observed ones, one row per point."""
        return np.asarray(similarities @ self._dual_weights)

    def width(self, similarities: Matrix, diagonal: Vector) -> Vector:
        """Width at these points, k(x, x) being `diagonal`."""
        from scipy.linalg import solve_triangular

        whitened = solve_triangular(self._factor[0], similarities.T, lower=True)
        unexplained = diagonal - np.sum(whitened**2, axis=0)
        # Rounding can push a known point slightly below zero.
        return np.asarray(np.sqrt(np.maximum(unexplained, 0.0) / self.regularization))


class KernelUCBRegressor(_Estimator):
    """Kernel ridge regression with confidence widths: mean, width, and the upper confidence bound.

    `predict` gives the mean kᵀ(K + γI)⁻¹y, `predict(X, return_width=True)` the width γ^(-1/2)·sqrt(k(x, x) −
    kᵀ(K + γI)⁻¹k) as well, and `decision_function` what KernelUCB ranks actions by: mean + exploration · width. The
    prior mean is 0: center y where it lies far off (`TransformedTargetRegressor`).

    Parameters
    ----------
    kernel
        "rbf", "laplacian", "matern", "rational_quadratic", "linear", "poly", "cosine"; "precomputed", X being the
        similarities to the rows that were fitted; a kernel of kernelbandits, which need not be over rows; a kernel
        object of scikit-learn; or a function (first, second) → matrix.
    regularization
        γ > 0; scikit-learn's `KernelRidge` calls it alpha.
    exploration
        Multiplier of the width in `decision_function`.
    length_scale
        Of "rbf", "laplacian", "matern", "rational_quadratic": a number, one per column, or "median", the median
        distance of the rows of the first fit. scikit-learn's gamma is 1/(2·length_scale²) for "rbf" and 1/length_scale
        for "laplacian".
    smoothness
        Of "matern": 0.5, 1.5 or 2.5.
    degree, offset
        Of "poly": (x · z + offset)^degree.
    posterior
        Form of the posterior, as in `KernelUCB`.

    Attributes
    ----------
    kernel_
        The kernel in use; None for "precomputed".
    posterior_
        The fitted posterior.
    n_features_in_, feature_names_in_
        Number of columns in `fit`, if X has columns.

    Examples
    --------
    >>> regressor = KernelUCBRegressor("rbf", length_scale=0.5, regularization=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> mean, width = regressor.predict([[1.0], [9.0]], return_width=True)
    >>> mean.round(2), width.round(2)
    (array([0.91, 0.  ]), array([0.95, 3.16]))
    >>> (regressor.decision_function([[1.0]]) == mean[0] + width[0]).all()
    np.True_

    References
    ----------
    Valko et al. (2013), KernelUCB.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        regularization: float = 1.0,
        exploration: float = 1.0,
        length_scale: Any = 1.0,
        smoothness: float = 1.5,
        degree: int = 3,
        offset: float = 1.0,
        posterior: Any = "auto",
    ) -> None:
        # Stored unchanged: scikit-learn copies an estimator by its parameters, and `fit` validates them.
        self.kernel = kernel
        self.regularization = regularization
        self.exploration = exploration
        self.length_scale = length_scale
        self.smoothness = smoothness
        self.degree = degree
        self.offset = offset
        self.posterior = posterior

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit to these rows and rewards; earlier data are discarded."""
        X, rewards = self._checked(X, y, reset=True)
        check_nonnegative(self.exploration, "The exploration")
        if self._is_precomputed:
            self.kernel_ = None
            self.posterior_: Any = SimilarityRidge(_square(X), rewards, regularization=self.regularization)
            return self
        self.kernel_ = self._kernel(X)
        fitted = make_posterior(posterior_factory(self.posterior), self.kernel_, self.regularization)
        fitted.observe(X, rewards)
        self.posterior_ = fitted
        return self

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Add rows and rewards; the result equals `fit` on all of them."""
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        if self._is_precomputed:
            raise NotSupported(
                "Similarities to the fitted rows do not include those among new rows. Call `fit` with all rows."
            )
        X, rewards = self._checked(X, y, reset=False)
        self.posterior_.observe(X, rewards)
        return self

    def predict(self, X: Any, return_width: bool = False, *, diagonal: ArrayLike | None = None) -> Any:
        """Return the estimated reward of each row.

        Parameters
        ----------
        X
            Rows, or what the kernel takes.
        return_width
            Whether to return the confidence widths as well.
        diagonal
            k(x, x) of each row, required for widths with "precomputed" similarities, which do not contain it.
        """
        X = self._checked_points(X)
        if self._is_precomputed:
            mean = self.posterior_.mean(X)
            return (mean, self.posterior_.width(X, _diagonal(diagonal, len(mean)))) if return_width else mean
        if diagonal is not None:
            raise InvalidParameter("The diagonal must be passed with 'precomputed' only; a kernel computes k(x, x).")
        prediction = self.posterior_.predict(X)
        return (prediction.mean, prediction.width) if return_width else prediction.mean

    def decision_function(self, X: Any, *, diagonal: ArrayLike | None = None) -> Vector:
        """Return the upper confidence bound of each row: mean + exploration · width."""
        mean, width = self.predict(X, return_width=True, diagonal=diagonal)
        return np.asarray(mean + check_nonnegative(self.exploration, "The exploration") * width)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        takes_sparse = isinstance(self.kernel, str) or (isinstance(self.kernel, Kernel) and self.kernel.is_certified)
        tags.input_tags.sparse = takes_sparse and not self._is_precomputed
        tags.input_tags.pairwise = self._is_precomputed
        return tags

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _takes_rows(self) -> bool:
        """Whether scikit-learn can validate the points; strings, ids and pairs are validated by the kernel."""
        return not isinstance(self.kernel, Kernel) or isinstance(self.kernel.kind, Rows)

    def _kernel(self, points: Points) -> Kernel:
        return named_kernel(
            self.kernel,
            points,
            length_scale=self.length_scale,
            smoothness=self.smoothness,
            degree=self.degree,
            offset=self.offset,
        )

    def _checked(self, X: Any, y: ArrayLike, *, reset: bool) -> tuple[Points, Vector]:
        if not self._takes_rows:
            return X, check_vector(y, "The rewards")
        X, y = self._validated(X, y=y, reset=reset, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _checked_points(self, X: Any) -> Points:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "posterior_")
        return self._validated(X, reset=False) if self._takes_rows else X

    def _validated(self, X: Any, **others: Any) -> Any:
        """Rows, and y if given, as validated by scikit-learn."""
        from sklearn.utils.validation import validate_data

        accepted = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        rows = sound(X) if accepted and is_sparse(X) else X
        return validate_data(self, rows, accept_sparse=accepted, dtype=np.float64, order="C", **others)


def _square(gram: Any) -> Any:
    if gram.shape[0] != gram.shape[1]:
        raise InvalidParameter(
            f"With kernel='precomputed' X must be the square matrix of similarities, got shape {gram.shape}."
        )
    return gram


def _diagonal(diagonal: ArrayLike | None, n_points: int) -> Vector:
    if diagonal is None:
        raise InvalidParameter(
            "Widths need k(x, x), which precomputed similarities to the fitted rows do not contain. Pass it: "
            "diagonal=..., ones where every point has similarity 1 to itself."
        )
    values = check_vector(np.full(n_points, diagonal) if np.ndim(diagonal) == 0 else diagonal, "The diagonal")
    if len(values) != n_points:
        raise InvalidParameter(f"The diagonal must have one number for each of {n_points} points, got {len(values)}.")
    return values
