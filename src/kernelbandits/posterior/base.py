"""Posterior interface: capabilities, methods, and validation of their arguments."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._text import brief, html_table
from kernelbandits._transactions import Journal, Transactional, handles_transaction
from kernelbandits.errors import (
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    NotSupported,
    NumericalError,
)
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._chunks import blocks
from kernelbandits.posterior.observations import NO_SLOTS, NOTHING
from kernelbandits.types import Indices, Matrix, Points, Prediction, Selection, Vector
from kernelbandits.validation import LARGEST, check_array, check_positive, check_vector, short_repr

__all__ = [
    "SMALLEST_REGULARIZATION",
    "Capabilities",
    "Posterior",
    "References",
    "Sections",
    "check_no_overflow",
    "checked_regularization",
    "checked_rewards",
    "checked_times",
    "least_regularization",
    "too_small",
]

SMALLEST_REGULARIZATION: Final = 1e-8
"""Multiple of max k below which widths lose accuracy. Measured with 500 points of a Gaussian kernel on a line, the
relative error of width² is 6e-6 at this value and grows in inverse proportion."""

SLACK: Final = 1e-8
"""Fraction of k(x, x) by which a similarity may violate positive semi-definiteness before it is rejected."""

ROUNDING: Final = 4.0 * float(np.finfo(np.float64).eps)
"""Multiple of tr K / γ that bounds the fraction of k(x, x) lost to rounding."""

MOST_TIMES: Final = 2**53
"""Largest value of `times`: larger integers are not exact as floats."""


class Capabilities(NamedTuple):
    """What a posterior offers beyond the interface. Callers read it instead of its type."""

    has_record: bool = False
    """Whether `record` holds the observations: distinct points, counts and reward sums (`RecordedPosterior`)."""

    has_factor: bool = False
    """Whether it keeps a Cholesky factor over the distinct points (`ExactPosterior.whitening`, `expect`)."""

    finds_best: bool = False
    """Whether it finds the best point without predicting all (`_best`): in a finite feature space."""

    is_exact: bool = False
    """Whether means and widths are those of all observations, up to rounding."""

    forgets: bool = False
    """Whether older observations have a smaller weight or none: then widths can grow, and no confidence interval is
    proved."""

    predicts_log_odds: bool = False
    """Whether means and widths are those of the log-odds of a reward of 1, not of rewards; then no confidence interval
    is proved either."""

    array_library: str = "numpy"
    """Library of the arrays that `predict` and `covariance` return. Points of a kind are converted in `PointKind`, and
    results in `Prediction`; a posterior on another device converts in these two places."""


class Sections(NamedTuple):
    """Points z_m with mean(x) = Σ a_m k(x, z_m) and c(x, x') = (k(x, x') − Σ b_m(x') k(x, z_m)) / γ."""

    points: Points
    """z."""

    of_mean: Vector
    """a."""

    of_others: Matrix
    """b, one column per other point x'."""


class References:
    """Points whose covariance with others is queried many times. Valid until the posterior changes."""

    def __init__(self, posterior: Posterior, points: Points) -> None:
        self._posterior, self._points = posterior, points

    def covariance(self) -> Matrix:
        """Covariance among the points."""
        return self._posterior.covariance(self._points)

    def covariance_with(self, others: Points) -> Matrix:
        """Covariance with other points, one column per point."""
        return self._posterior.covariance(self._points, others)

    def estimate(self, others: Points) -> tuple[Prediction, Matrix]:
        """Prediction at other points, and the covariance with them."""
        return self._posterior._estimate(others), self.covariance_with(others)


class Posterior(Transactional, ABC):
    """Mean and width of the reward at any point, given the observations.

    With A = K + γI over the observed points, y their rewards and k the similarities of x to them:

        mean(x)  = kᵀ A⁻¹ y
        width(x) = γ^(-1/2) · sqrt(k(x, x) − kᵀ A⁻¹ k)

    Before any observation the mean is 0 and the width sqrt(k(x, x) / γ). Repeated points are one point with a count. A
    posterior handles points and rewards; it has no notion of actions.

    Every public method may be called from any thread. Methods of the library's posteriors are atomic: they apply a
    change completely or not at all. So is every posterior inside a policy, which shares its lock with it.
    """

    kernel: Kernel
    regularization: float

    capabilities: Capabilities = Capabilities()
    """What it offers beyond this interface."""

    changes_form: bool = False
    """Whether its form, and with it the capabilities, changes with the data and the queries."""

    def _current_form(self, points: Points | None = None) -> Posterior:
        """Posterior that answers: the current form of one that changes it, otherwise itself.

        A query at these validated points may be a reason to change it.
        """
        return self

    @abstractmethod
    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        """Add one or many observations; each reward counts `times` times."""

    @abstractmethod
    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        """Replace rewards of observed points; widths do not depend on rewards.

        `numbers` are values of `last_number`, needed if it matters which observation of a point is meant.
        """

    @abstractmethod
    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        """Remove observations, exactly; `numbers` as in `amend`."""

    @property
    def last_number(self) -> int | None:
        """Number of the latest observation; None if all observations of a point are equivalent."""
        return None

    has_policy: bool = False
    """Whether a policy uses this posterior."""

    n_merged: int = 0
    """Observations whose points are no longer stored: they count in every prediction and cannot be changed."""

    def _join(self, journal: Journal) -> None:
        """Join the transactions of a policy or of another posterior."""
        self._journal = journal

    def _note_change(self) -> None:
        """Record how to undo the next change.

        The default records a copy of all attributes, for user-defined posteriors. The library's posteriors record less,
        where they make the change.
        """
        self._note_copy()

    @property
    @handles_transaction
    def residual(self) -> float:
        """Upper bound on ‖K − K̃‖ over all observations, K̃ the Gram matrix that is used instead of K; 0 if exact.

        An interval around the mean holds with sqrt(residual) · ‖f‖ added to its factor, and widths and `log_det_gain`
        of this posterior (`NystroemPosterior`).
        """
        return 0.0

    @property
    @handles_transaction
    def inflation(self) -> float:
        """Factor on an interval around a mean that is older than the widths; 1 if both are of the same data."""
        return 1.0

    @abstractmethod
    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        """Mean from the data; width from the data and from the `pending` points, as if they had been observed."""

    # -- optional fast paths -------------------------------------------------------------------------------------------
    # A policy calls these with validated points, inside its own transaction. No posterior has to implement them.

    def _observe_one(self, point: Points, reward: float) -> None:
        """`observe` for a collection of one point and a finite reward."""
        self.observe(point, [reward])

    def _estimate(self, points: Points) -> Prediction:
        """`predict` without pending points."""
        return self.predict(points)

    def _best(self, points: Points, exploration: float) -> Selection | None:
        """Best point by mean + exploration · width, without `predict` for all.

        None if `predict` is required: unless `capabilities.finds_best`, and if the bounds do not decide.
        """
        return None

    def _draw_weights(
        self, n_draws: int, rng: np.random.Generator, spread: float, pending: Points | None, times: ArrayLike
    ) -> Matrix | None:
        """Draw weights w of functions φ·w as in `draw_paths`, one column per draw; None without a feature space."""
        return None

    def _play(
        self,
        rounds: NDArray[np.float64],
        rewards: Matrix,
        exploration: float,
    ) -> tuple[Indices, Vector, Vector]:
        """Alternate `_best` and `_observe_one` for rounds × points × columns; return rows, means and widths.

        The points need not be validated before: it stops at numbers that are not finite, or rejects them.
        """
        return NO_SLOTS, NOTHING, NOTHING

    @property
    @handles_transaction
    def is_well_posed(self) -> bool:
        """Whether the kernel is PSD-certified and the system is well conditioned; then no call is rejected."""
        return False

    @property
    @handles_transaction
    def supports_batch_play(self) -> bool:
        """Whether `_play` has an implementation; most posteriors have none."""
        return False

    def information(self, points: Points) -> Vector:
        """Information of one more reward at each point, in units of that of a reward with noise γ."""
        return np.ones(self.kernel.kind.count(points))

    @abstractmethod
    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        """Posterior covariance divided by γ; its diagonal is width²."""

    def _knows(self, point: Points) -> bool:
        """Whether a single point was observed, and so is comparable with all others; False if that is not cheap."""
        return False

    def _references(self, points: Points) -> References:
        """These points, prepared for queries of their covariance with others."""
        return References(self, points)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        """Covariance of the weighted sum Σ w f(x) over the points with the reward at each of the others, divided by γ.

        Equals weights @ covariance(points, others), without storing that matrix.
        """
        points, weights, others = self._checked_sum(points, weights, others)
        total = np.zeros(self.kernel.kind.count(others))
        for block, part in blocks(self.kernel.kind, points, len(total)):
            total += weights[block] @ self.covariance(part, others)
        return total

    def _checked_sum(self, points: Points, weights: Vector, others: Points) -> tuple[Points, Vector, Points]:
        """Validated arguments of `covariance_of_sum`."""
        kind = self.kernel.kind
        points, values, others = kind.check(points), check_vector(weights, "The weights"), kind.check(others)
        if len(values) != kind.count(points):
            raise InvalidParameter(
                f"The weights must be one number per point, got {len(values)} for {kind.count(points)} points."
            )
        return points, values, others

    def gradient(self, points: Points, others: Points, weights: Matrix) -> Matrix:
        """Gradient at each point x_i of mean(x_i) + Σ_j w_ij c(x_i, z_j), with c the `covariance`; one row per point.

        As c(x, x) = width², twice the gradient of c(x, z) at z = x is that of width². See `Kernel.gradient`.

        Parameters
        ----------
        points, others
            Points x and z.
        weights
            w, shape (len(points), len(others)).
        """
        points, others, weights = self._checked_weights(points, others, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = self.kernel.gradient(points, others, weights / self.regularization)
            if self.n_observations:
                known, of_mean, of_others = self._sections(others)
                explained = weights @ of_others.T
                explained *= -1.0 / self.regularization
                explained += of_mean
                gradient = gradient + self.kernel.gradient(points, known, explained)
        check_no_overflow(gradient)
        return gradient

    def _checked_weights(self, points: Points, others: Points, weights: Matrix) -> tuple[Points, Points, Matrix]:
        """Validated arguments of `gradient`."""
        kind = self.kernel.kind
        points, others, values = kind.check(points), kind.check(others), check_array(weights, "The weights")
        shape = kind.count(points), kind.count(others)
        if values.shape != shape or not np.isfinite(values).all():
            raise InvalidParameter(
                f"The weights must be one finite number per pair of points, shape {shape}, got {short_repr(weights)}, "
                f"shape {values.shape}."
            )
        return points, others, values

    def _sections(self, others: Points) -> Sections:
        """Mean and covariance with these points as combinations of similarities; requires an observation."""
        known, of_mean, _, _ = self.support()
        return Sections(known, of_mean, self.weights_for(self.kernel.gram(known, others)))

    @abstractmethod
    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        """Distinct points, dual weights α, counts and reward sums of the stored observations; requires an observation.

        mean = Σ α k, if no observations were merged.
        """

    def weights_for(self, values: Matrix) -> Matrix:
        """Dual weights for other mean rewards of the `support` points: (K + γ D⁻¹)⁻¹ values, D = diag(counts).

        One column per right-hand side, one row per point. Computed from the fit f, as γα = s − n f; requires an
        observation.
        """
        if self.n_merged:
            raise NotSupported(
                f"{self.n_merged} observations were merged into sums, so their dual weights are not known. Keep all "
                "points: PrimalPosterior(kernel, regularization=…)."
            )
        points, _, counts, _ = self.support()
        sums = counts[:, None] * values
        return (sums - counts[:, None] * (self.covariance(points) @ sums)) / self.regularization

    @property
    @abstractmethod
    def log_det_gain(self) -> float:
        """Ln det(I + K/γ) over all observations."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of distinct points stored."""

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """Number of observations, including repeats."""

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function.

        ‖θ‖² = αᵀKα, and the fit at an observed point is f = (s − γα)/n, so no Gram matrix is needed.
        """
        if not self.size:
            return 0.0
        _, weights, counts, sums = self.support()
        squared = float(weights @ ((sums - self.regularization * weights) / counts))
        return sqrt(max(0.0, squared))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({brief(self.kernel)}, regularization={self.regularization:g}; "
            f"{self.n_observations:,} observations of {self.size:,} points)"
        )

    def _repr_html_(self) -> str:
        rows = [
            ["kernel", brief(self.kernel)],
            ["regularization", f"{self.regularization:g}"],
            ["observations", f"{self.n_observations:,}"],
            ["distinct points", f"{self.size:,}"],
        ]
        return html_table(type(self).__name__, rows)

    def copy(self) -> Self:
        """Independent copy; the kernel is immutable and shared."""
        return copy.deepcopy(self)

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore` needs."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; only before any observation."""


def check_no_overflow(*arrays: NDArray[np.float64]) -> None:
    """Raise InvalidContexts unless all numbers are finite: finite contexts can still have infinite similarities."""
    for array in arrays:
        if np.isfinite(array).all():
            continue
        raise InvalidContexts(
            "The similarities of these contexts overflow or are not numbers. Check the kernel's parameters and the "
            "scale of the contexts."
        )


def least_regularization(diagonal: Vector, counts: Vector) -> float:
    """Smallest γ at which rounding is harmless for these counts of points with these k(x, x).

    Above it widths are accurate, and the rounding error eps · tr K · k(x, x) / γ stays below the slack.
    """
    largest = float(diagonal.max()) * max(1.0, float(counts.max()))
    return max(SMALLEST_REGULARIZATION * largest, ROUNDING * float(diagonal @ counts) / SLACK)


def too_small(regularization: float, diagonal: Vector, counts: Vector) -> NumericalError:
    """Error for a γ that is lost in the rounding errors of these counts of points with these k(x, x)."""
    return NumericalError(
        f"The regularization {regularization:.3g} is too small beside similarities of up to {diagonal.max():.3g} of "
        f"{int(counts.sum())} observations: rounding errors are larger than it. Nothing was changed. Take a "
        f"regularization of at least {least_regularization(diagonal, counts):.2g}."
    )


def checked_regularization(regularization: float) -> float:
    """Validate a positive finite number; raise InvalidParameter otherwise."""
    try:
        value = check_positive(regularization, "The regularization")
    except InvalidParameter as error:
        raise InvalidParameter(
            f"The regularization must be positive and finite ({1 / LARGEST:g} to {LARGEST:g}), got "
            f"{short_repr(regularization)}. It keeps the Gram matrix invertible; 1.0 is a good start."
        ) from error
    return value


def checked_rewards(rewards: ArrayLike, n_points: int) -> Vector:
    """Validate one finite number per point; raise InvalidReward otherwise."""
    if isinstance(rewards, np.ma.MaskedArray) and np.ma.is_masked(rewards):
        raise InvalidReward("A masked value is no reward. Leave out what was not observed.")
    values = _numbers(rewards)
    if values.ndim == 0 and n_points == 1:
        values = values.reshape(1)
    if values.shape != (n_points,):
        raise InvalidReward(
            f"There must be one reward per context: {n_points} contexts, rewards of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise InvalidReward(f"A reward must be a finite number, got {values[~np.isfinite(values)][0]}.")
    return values


def _numbers(values: ArrayLike) -> Vector:
    try:
        return check_array(values, "Rewards")
    except InvalidParameter as error:
        raise InvalidReward(f"A reward must be a real number, got {short_repr(values)}.") from error


def checked_times(times: ArrayLike, n_points: int) -> Vector:
    """Validate a positive integer per point; raise InvalidParameter otherwise."""
    if isinstance(times, int) and times == 1:
        return np.ones(n_points)
    repeats = check_array(times, "`times`")
    if not (np.isfinite(repeats).all() and (repeats >= 1).all() and (repeats == np.round(repeats)).all()):
        raise InvalidParameter(f"`times` must be whole numbers from 1, got {short_repr(times)}.")
    if repeats.size and repeats.max() > MOST_TIMES:
        raise InvalidParameter(f"`times` must be at most {MOST_TIMES:,}, got {short_repr(times)}.")
    if repeats.ndim and repeats.shape != (n_points,):
        raise InvalidParameter(
            f"`times` must be one number, or one per context ({n_points}), got shape {repeats.shape}."
        )
    return np.broadcast_to(repeats, (n_points,)).astype(np.float64)
