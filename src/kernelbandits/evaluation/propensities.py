"""Propensities of logs without them: a model of the logging policy, with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.environments import Log
from kernelbandits.environments.logged import single_actions
from kernelbandits.errors import InvalidContexts, InvalidParameter, KernelBanditWarning, NumericalError, warn_user
from kernelbandits.evaluation._inputs import DistinctRounds, check_log_to_judge, parts, sizes_of, stacked
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.posterior._basis import Basis
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.cholesky import cholesky, solve_lower
from kernelbandits.types import Indices, ItemId, Matrix, Points, Vector
from kernelbandits.validation import check_array, check_int, check_size, pluralize

__all__ = ["EstimatedLog", "PropensityModel", "propensity_error", "propensity_warnings", "warn_if_estimated"]

LANDMARKS: Final = 1_000
"""Number of actions, evenly spaced in the log, among which the points of the model are chosen."""

TOLERANCE: Final = 1e-6
"""Fraction of k(x, x) that the points may leave unexplained before another one is added."""

STEPS: Final = 100
"""Largest number of Newton steps; ten are usual."""

CONVERGED: Final = 1e-16
"""Square of the Newton decrement per round at which the fit ends: the next step would change no digit."""

UNKNOWN_CAUSES: Final = (
    "The propensities were estimated from the logged actions: where the logging policy used anything that the contexts "
    "do not hold, or never showed some actions, the value is wrong by an amount that no interval contains."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EstimatedLog(Log):
    """A log whose propensities are estimates; estimators add their uncertainty to the interval, and warn.

    `PropensityModel` makes it. Its parts are logs of the same kind.

    Parameters
    ----------
    log_losses
        −ln of the estimated probability of the logged action, by the model of the other folds, per round. Their mean is
        the score of the model: that of uniform choice is the mean of ln(number of actions).
    scores
        ∂ ln p / ∂θ of every round: one row per round, one column per weight θ of the model.
    fold_of
        Fold of each round, whose propensity comes from the model of the other folds.
    factors
        Cholesky factor of the inverse covariance of θ, for each fold.
    """

    log_losses: Vector = field(kw_only=True)
    scores: Matrix = field(kw_only=True)
    fold_of: Indices = field(kw_only=True)
    factors: tuple[Matrix, ...] = field(kw_only=True)

    def __getitem__(self, part: slice | Sequence[int] | Indices | NDArray[np.bool_]) -> EstimatedLog:
        """Return some of the rounds, as of any log, with the same models of the logging policy."""
        log = Log.__getitem__(self, part)
        rows = np.arange(len(self))[part]
        return EstimatedLog(
            log.rounds, log.actions, log.propensities, log.rewards, log.ids,
            log_losses=self.log_losses[rows], scores=self.scores[rows], fold_of=self.fold_of[rows],
            factors=self.factors,
        )  # fmt: skip

    @property
    def relative_errors(self) -> Vector:
        """Standard error of ln p of each round: about the relative error of its propensity."""
        errors = np.empty(len(self))
        for fold, factor in enumerate(self.factors):
            own = self.fold_of == fold
            errors[own] = np.linalg.norm(_whitened(factor, self.scores[own].T), axis=0)
        return errors

    def error_of_sum(self, weights: Vector) -> float:
        """Standard error of Σ_t w_t ln p_t for weights w, from the uncertainty of the models.

        Models of different folds share data, so their errors are added as if they were fully correlated.
        """
        errors = 0.0
        for fold, factor in enumerate(self.factors):
            own = self.fold_of == fold
            errors += float(np.linalg.norm(_whitened(factor, (weights[own] @ self.scores[own])[:, None])))
        return errors


def _whitened(factor: Matrix, columns: Matrix) -> Matrix:
    whitened = np.array(columns, order="C")
    solve_lower(factor, whitened)
    return whitened


def propensity_error(log: Log, sensitivity: Vector) -> float:
    """Standard error of a value from estimated propensities, given its derivatives by ln p_t; 0 if they are known."""
    return log.error_of_sum(sensitivity) if isinstance(log, EstimatedLog) else 0.0


def propensity_warnings(log: Log) -> tuple[str, ...]:
    """Warnings of a log with estimated propensities; none if they are known."""
    return (UNKNOWN_CAUSES,) if isinstance(log, EstimatedLog) else ()


def warn_if_estimated(log: Log) -> None:
    """Warn that a format for known propensities is about to hold estimated ones."""
    if isinstance(log, EstimatedLog):
        warn_user(
            "The propensities of this log were estimated, and the format holds them as if they were known: estimators "
            "that read it state no error of theirs. Estimate them again from what is read: PropensityModel.",
            KernelBanditWarning,
        )


class _Actions(NamedTuple):
    """Features of all actions of the distinct sets of a log, one after the other."""

    features: Matrix
    starts: Indices
    """Row of the first action of each set."""
    owners: Indices
    """Set of each row."""


@dataclass(frozen=True)
class PropensityModel:
    """Model of a logging policy whose propensities were not logged: a multinomial over similarities.

    The logging policy is modeled as softmax choice, with scores s from the space of a kernel:

        P(a | x) = exp s(x, a) / Σ_b exp s(x, b),   s ~ Gaussian process with covariance k / λ,

    so that s maximizes Σ_t ln P(a_t | x_t) − λ‖s‖²/2 (multinomial logistic regression, conditional logit). The actions
    may differ from round to round. Each round gets its propensity from a model of the other folds, so that no action
    explains itself. The uncertainty of s is that of the Laplace approximation, N(ŝ, (λI + Σ_t Cov_P φ)⁻¹) for features
    φ of the kernel; where it has more than `max_features`, these are coordinates in the span of as many of the log's
    actions, the largest residual first.

    Estimators add the error that this uncertainty causes in their value, as if it were independent of the rewards.
    Part of the two cancels in fact, so that intervals are too wide rather than too narrow, if the model is right. What
    it cannot know is said in a warning of every estimate: whether the logging policy used something that is not in the
    contexts, such as an editor's judgment that also predicts the reward; and what it would have done with actions that
    it never showed.

    Reference: McFadden (1974), conditional logit; for off-policy evaluation with estimated propensities, Hirano, Imbens
    and Ridder (2003).

    Parameters
    ----------
    kernel
        Similarity of actions, of (context, action) pairs where rounds are `Pairs`. `Delta` estimates frequencies.
    regularization
        λ: the larger, the nearer to uniform choice. Compare `log.log_losses.mean()` of several.
    max_features
        Largest number of features. The cost is O(actions · max_features²) per step of the fit.
    folds
        Number of folds, round t in fold t mod `folds`; 1 fits one model to all rounds, without cross-fitting.

    Examples
    --------
    >>> from kernelbandits.evaluation import IPS
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import UniformRandom
    >>> rounds, actions = [["a", "b"]] * 400, [0, 0, 0, 1] * 100
    >>> log = PropensityModel(Delta(), regularization=0.1).estimate(rounds, actions, rewards=[1, 1, 1, 0] * 100)
    >>> log.propensities[[0, 3]].round(2)
    array([0.75, 0.25])
    >>> print(round(IPS().estimate(log, UniformRandom()).value, 2))
    0.5
    """

    kernel: Kernel
    regularization: float = 1.0
    _: KW_ONLY
    max_features: int = 100
    folds: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "regularization", checked_regularization(self.regularization))
        object.__setattr__(self, "max_features", check_int(self.max_features, "The number of features"))
        object.__setattr__(self, "folds", check_int(self.folds, "The number of folds"))

    def estimate(
        self,
        rounds: Sequence[Points],
        actions: ArrayLike,
        rewards: ArrayLike,
        ids: Sequence[Sequence[ItemId]] | None = None,
    ) -> EstimatedLog:
        """Estimate the propensities of logged actions; return the log that they complete.

        Parameters
        ----------
        rounds, actions, rewards, ids
            As in `Log`, of single actions.
        """
        certain = np.ones(check_array(actions, "The actions of a log").shape)
        log = Log(rounds, actions, certain, rewards, ids)  # type: ignore[arg-type]
        check_log_to_judge(single_actions(log, "A model of the logging policy"))
        n_rounds = len(log)
        if n_rounds < self.folds:
            raise InvalidParameter(
                f"Every fold needs a round: there are {self.folds} folds and {pluralize(n_rounds, 'round')}."
            )
        sets = DistinctRounds.of_log(log)
        known = self._actions(sets.contexts)
        chosen = known.starts[sets.which] + log.actions
        fold_of = np.arange(n_rounds) % self.folds
        log_losses, scores, factors = np.empty(n_rounds), np.empty((n_rounds, known.features.shape[1])), []
        for fold in range(self.folds):
            own = fold_of == fold
            learned = ~own if self.folds > 1 else own
            choices = np.bincount(chosen[learned], minlength=len(known.features)).astype(np.float64)
            weights, factor = _fitted(known, choices, self.regularization)
            _, means, losses = _choice(known, weights)
            log_losses[own] = losses[chosen[own]]
            scores[own] = known.features[chosen[own]] - means[sets.which[own]]
            factors.append(factor)
        return EstimatedLog(
            log.rounds, log.actions, np.exp(-log_losses), log.rewards, log.ids,
            log_losses=log_losses, scores=scores, fold_of=fold_of, factors=tuple(factors),
        )  # fmt: skip

    def _actions(self, contexts: Sequence[Points]) -> _Actions:
        kind, sizes = self.kernel.kind, sizes_of(contexts)
        starts = np.cumsum(sizes) - sizes
        blocks = [stacked(kind, contexts[part]) for part in parts(sizes)]
        n_features = self.kernel.n_features(blocks[0])
        if n_features is not None and n_features <= self.max_features:
            described = [self.kernel.features(block) for block in blocks]
        else:
            basis = self._basis(blocks)
            check_size("The features of all actions", int(sizes.sum()), basis.size)
            described = [basis.coordinates(block).T for block in blocks]
        features = np.concatenate(described)
        if not np.isfinite(features).all():
            raise InvalidContexts("The similarities of these contexts overflow. Check the scale of the contexts.")
        return _Actions(features, starts, np.repeat(np.arange(len(sizes)), sizes))

    def _basis(self, blocks: Sequence[Points]) -> Basis:
        """Points of the log, the largest residual first, that span the model."""
        kind = self.kernel.kind
        points = kind.stack(*blocks)
        some = np.unique(np.linspace(0, kind.count(points) - 1, LANDMARKS).round().astype(np.intp))
        basis = Basis(self.kernel, tolerance=TOLERANCE)
        basis.append(kind.take(points, some))
        size = min(basis.size, self.max_features)
        basis.points = kind.take(basis.points, np.arange(size))
        basis.lower = np.ascontiguousarray(basis.lower[:size, :size])
        return basis


def _choice(known: _Actions, weights: Vector) -> tuple[Vector, Matrix, Vector]:
    """Return the probability of each action, the mean features of each set, and −ln p of each action."""
    values = known.features @ weights
    values -= np.maximum.reduceat(values, known.starts)[known.owners]
    powers = np.exp(values)
    totals = np.add.reduceat(powers, known.starts)
    shares = powers / totals[known.owners]
    means = np.add.reduceat(shares[:, None] * known.features, known.starts, axis=0)
    return shares, means, np.log(totals)[known.owners] - values


def _fitted(known: _Actions, choices: Vector, regularization: float) -> tuple[Vector, Matrix]:
    """Return the weights of largest posterior density, and the Cholesky factor of its negative Hessian, by Newton."""
    times = np.add.reduceat(choices, known.starts)  # how often each set was seen
    weights = np.zeros(known.features.shape[1])
    shares, means, losses = _choice(known, weights)
    loss = float(choices @ losses)
    for _ in range(STEPS):
        expected = times[known.owners] * shares
        gradient = known.features.T @ (choices - expected) - regularization * weights
        factor = _factor(known, expected, means, times, regularization)
        step = _solved(factor, gradient)
        decrement = float(gradient @ step)
        if decrement <= CONVERGED * (1.0 + choices.sum()):
            return weights, factor
        length = 1.0
        while True:
            trial = weights + length * step
            shares, means, losses = _choice(known, trial)
            tried = float(choices @ losses) + 0.5 * regularization * float(trial @ trial)
            if tried <= loss - 0.25 * length * decrement or length < 1e-6:
                break
            length *= 0.5
        weights, loss = trial, tried
    raise NumericalError(
        f"The model of the logging policy did not converge in {STEPS} steps. Take a larger regularization than "
        f"{regularization:g}."
    )


def _factor(known: _Actions, expected: Vector, means: Matrix, times: Vector, regularization: float) -> Matrix:
    """Cholesky factor of λI + Σ_t Cov_P φ."""
    scaled, centers = known.features * np.sqrt(expected)[:, None], means * np.sqrt(times)[:, None]
    precision = scaled.T @ scaled - centers.T @ centers
    precision[np.diag_indices_from(precision)] += regularization
    return cholesky(precision)


def _solved(factor: Matrix, right: Vector) -> Vector:
    from scipy.linalg import cho_solve

    solved: Vector = cho_solve((factor, True), right, check_finite=False)
    return solved
