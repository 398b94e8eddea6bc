"""The estimate behind KernelUCB as a regressor of scikit-learn."""

# ruff: noqa: N803 – scikit-learn calls rows X

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.adapters.extras import MISSING
from kernelbandits.adapters.named_kernels import named_kernel
from kernelbandits.adapters.similarity_ridge import SimilarityRidge
from kernelbandits.checks import a_vector, not_negative
from kernelbandits.errors import InvalidParameter, MissingExtra, NotSupported
from kernelbandits.kernels import Kernel, Rows
from kernelbandits.posterior import posterior_factory
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.types import Points, Vector

if TYPE_CHECKING:

    class _Estimator:
        """What the class below needs of scikit-learn, for the type checker."""

        def __init__(self) -> None: ...
        def __sklearn_tags__(self) -> Any: ...

else:
    try:
        from sklearn.base import BaseEstimator, RegressorMixin

        class _Estimator(RegressorMixin, BaseEstimator):
            """Parameters, copies, score and tags: scikit-learn's part."""

    except ImportError:

        class _Estimator:
            """Stands in where scikit-learn is missing: the class can be had, and no object of it."""

            def __new__(cls, *_, **__):
                raise MissingExtra(f"{cls.__name__} needs scikit-learn, which is not installed. {MISSING}")


__all__ = ["KernelUCBRegressor"]


class KernelUCBRegressor(_Estimator):
    """Kernel ridge regression that knows how far it can be off: mean, width, and their upper confidence bound.

    `predict` gives the mean kᵀ(K + γI)⁻¹y, `predict(X, return_width=True)` the width γ^(-1/2)·sqrt(k(x, x) −
    kᵀ(K + γI)⁻¹k) as well, and `decision_function` what KernelUCB ranks actions by: mean + exploration · width. The
    prior mean is 0: centre y where it lies far off (`TransformedTargetRegressor`).

    Parameters
    ----------
    kernel
        "rbf", "laplacian", "matern", "rational_quadratic", "linear", "poly", "cosine"; "precomputed", X being the
        similarities to the rows that were fitted; a kernel of kernelbandits, which need not be over rows; a kernel
        object of scikit-learn; or a function (first, second) → matrix.
    regularisation
        γ > 0; scikit-learn's `KernelRidge` calls it alpha.
    exploration
        How many widths `decision_function` adds.
    length_scale
        Of "rbf", "laplacian", "matern", "rational_quadratic": a number, one per column, or "median", the median
        distance of the rows of the first fit. scikit-learn's gamma is 1/(2·length_scale²) for "rbf" and 1/length_scale
        for "laplacian".
    smoothness
        Of "matern": 0.5, 1.5 or 2.5.
    degree, offset
        Of "poly": (x · z + offset)^degree.
    posterior
        The form of the computation, as in `KernelUCB`.

    Attributes
    ----------
    kernel_
        The kernel in use; None for "precomputed".
    posterior_
        The posterior that was fitted.
    n_features_in_, feature_names_in_
        Columns seen in `fit`, where X has columns.

    Examples
    --------
    >>> regressor = KernelUCBRegressor("rbf", length_scale=0.5, regularisation=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
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
        regularisation: float = 1.0,
        exploration: float = 1.0,
        length_scale: Any = 1.0,
        smoothness: float = 1.5,
        degree: int = 3,
        offset: float = 1.0,
        posterior: Any = "auto",
    ) -> None:
        # Kept as given: scikit-learn copies an estimator by its parameters, and they are checked when it is fitted.
        self.kernel = kernel
        self.regularisation = regularisation
        self.exploration = exploration
        self.length_scale = length_scale
        self.smoothness = smoothness
        self.degree = degree
        self.offset = offset
        self.posterior = posterior

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Forget what was learnt and learn from these rows and rewards."""
        X, rewards = self._checked(X, y, reset=True)
        not_negative(self.exploration, "The exploration")
        if self._is_precomputed:
            self.kernel_ = None
            self.posterior_: Any = SimilarityRidge(_square(X), rewards, regularisation=self.regularisation)
            return self
        self.kernel_ = self._kernel(X)
        fitted = make_posterior(posterior_factory(self.posterior), self.kernel_, self.regularisation)
        fitted.observe(X, rewards)
        self.posterior_ = fitted
        return self

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from more rows and rewards; the result is that of `fit` on all of them."""
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        if self._is_precomputed:
            raise NotSupported(
                "Similarities to the rows fitted so far say nothing of new ones among each other: fit all."
            )
        X, rewards = self._checked(X, y, reset=False)
        self.posterior_.observe(X, rewards)
        return self

    def predict(self, X: Any, return_width: bool = False, *, diagonal: ArrayLike | None = None) -> Any:
        """Estimated reward of every row.

        Parameters
        ----------
        X
            Rows, or what the kernel takes.
        return_width
            Whether to return the confidence widths as well.
        diagonal
            k(x, x) of every row: with "precomputed" similarities, which do not tell it, widths need it.
        """
        X = self._checked_points(X)
        if self._is_precomputed:
            mean = self.posterior_.mean(X)
            return (mean, self.posterior_.width(X, _diagonal(diagonal, len(mean)))) if return_width else mean
        if diagonal is not None:
            raise InvalidParameter("The kernel tells k(x, x) by itself; give the diagonal with 'precomputed' only.")
        prediction = self.posterior_.predict(X)
        return (prediction.mean, prediction.width) if return_width else prediction.mean

    def decision_function(self, X: Any, *, diagonal: ArrayLike | None = None) -> Vector:
        """Upper confidence bound of every row: mean + exploration · width."""
        mean, width = self.predict(X, return_width=True, diagonal=diagonal)
        return np.asarray(mean + not_negative(self.exploration, "The exploration") * width)

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
        """Whether scikit-learn can look at the points; strings, ids and pairs are left to the kernel."""
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
            return X, a_vector(y, "The rewards")
        from sklearn.utils.validation import validate_data

        accepted = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        X, y = validate_data(
            self, X, y, reset=reset, accept_sparse=accepted, dtype=np.float64, y_numeric=True, order="C"
        )
        return X, np.asarray(y, dtype=np.float64)

    def _checked_points(self, X: Any) -> Points:
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self, "posterior_")
        if not self._takes_rows:
            return X
        accepted = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return validate_data(self, X, reset=False, accept_sparse=accepted, dtype=np.float64, order="C")


def _square(gram: Any) -> Any:
    if gram.shape[0] != gram.shape[1]:
        raise InvalidParameter(
            f"With kernel='precomputed' X is the square matrix of similarities of the rows, got shape {gram.shape}."
        )
    return gram


def _diagonal(diagonal: ArrayLike | None, n_points: int) -> Vector:
    if diagonal is None:
        raise InvalidParameter(
            "Widths need k(x, x), and precomputed similarities to the fitted rows do not tell it. Give it: "
            "diagonal=..., ones where every point has similarity 1 to itself."
        )
    values = a_vector(np.full(n_points, diagonal) if np.ndim(diagonal) == 0 else diagonal, "The diagonal")
    if len(values) != n_points:
        raise InvalidParameter(f"The diagonal has one number for each of {n_points} points, got {len(values)}.")
    return values
