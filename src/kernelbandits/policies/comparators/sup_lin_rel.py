"""SupLinRel (Auer 2002)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from kernelbandits._parameters import parameter
from kernelbandits.errors import InvalidContexts, NotSupported
from kernelbandits.kernels import Linear
from kernelbandits.policies.base import HORIZON, N_ACTIONS, NORM_BOUND
from kernelbandits.policies.comparators.spanning import unit_rows
from kernelbandits.policies.explanation import Explanation
from kernelbandits.policies.sup_kernel_ucb import BaseKernelUCB, LevelPolicy
from kernelbandits.types import Decision, Indices, Matrix, Points, Prediction, StageStep, Vector

__all__ = ["BaseLinRel", "SupLinRel"]

EIGENVALUE_TOLERANCE: Final = 1e-10
"""Tolerance of the threshold 1 for eigenvalues: a unit vector selected once has an eigenvalue of exactly 1."""

NORM_TOLERANCE: Final = 1e-9
"""Rounding tolerance for contexts of length 1."""


class _Axes(NamedTuple):
    """Eigendecomposition of G = Σ x xᵀ over a level's rounds, split into well-observed and other directions."""

    known: Matrix
    """Eigenvectors of eigenvalues λ ≥ 1, as columns."""

    weights: Vector
    """(Σ r x)_i / λ_i along `known`."""

    inverse: Vector
    """1/λ_i of `known`."""

    unknown: Matrix
    """The other eigenvectors."""


class BaseLinRel(BaseKernelUCB):
    """Least squares along the directions well observed by one level's rounds; zero along the others.

    With G = Σ x xᵀ = Σ λ_i e_i e_iᵀ, u the part of x along eigenvectors with λ_i ≥ 1 and v the rest:

        a = X G⁺ u,   mean = a·y = Σ u_i (e_i·Σ r x) / λ_i,   width = ‖a‖ + bias · ‖v‖,   ‖a‖² = Σ u_i² / λ_i

    G is computed from the ridge posterior with regularization 1, whose C = G + I has the same eigenvectors; so rewards
    can be corrected as there. The decomposition is cached until the level learns.
    """

    def __init__(self, *, bias: float) -> None:
        super().__init__(Linear(), regularization=1.0, posterior="primal")
        self._bias = bias
        self._axes: _Axes | None = None

    def estimate(self, contexts: Points) -> Prediction:
        """Return mean and width of the actions still active."""
        axes = self._axes
        if axes is None or len(axes.known) != contexts.shape[1]:  # a new dimension is rejected if data exist
            axes = self._axes = self._decomposed(contexts)
        features = self.posterior.kernel.features(contexts)
        along = features @ axes.known  # u
        noise = np.sqrt(along**2 @ axes.inverse)
        return Prediction(along @ axes.weights, noise + self._bias * np.linalg.norm(features @ axes.unknown, axis=1))

    def _decomposed(self, like: Points) -> _Axes:
        units = unit_rows(like)
        # C⁻¹ has the eigenvalues s = 1/(λ + 1), so λ ≥ 1 is s ≤ 1/2 and 1/λ is s/(1 − s).
        shrunk, directions = np.linalg.eigh(self.posterior.covariance(units))
        is_known = shrunk <= 0.5 + EIGENVALUE_TOLERANCE / 4.0
        known, inverse = directions[:, is_known], shrunk[is_known] / (1.0 - shrunk[is_known])
        # The ridge estimate is Σ r x divided by λ + 1: divide by λ instead.
        weights = (self.posterior.predict(units).mean @ known) / (1.0 - shrunk[is_known])
        return _Axes(known, weights, inverse, directions[:, ~is_known])

    def observe(self, context: Points, reward: float) -> None:
        """Add one round to this level; `context` is a collection of size one."""
        super().observe(context, reward)
        self._axes = None

    def forget_axes(self) -> None:
        """Discard the cached decomposition after an external change of the posterior."""
        self._axes = None


class SupLinRel(LevelPolicy):
    """Elimination by levels for linear rewards, with estimates from an eigendecomposition (Auer 2002, SupLinRel).

    Predecessor of SupLinUCB: a level's estimate uses only the directions in which its rounds have an eigenvalue of at
    least 1. With a and v as in `BaseLinRel`, w = sqrt(ln(2TN/δ)) ‖a‖ + B ‖v‖, a round goes through levels s = 1, 2, …:

    - some w > 2^(−s): select such an action, and update level s with its reward;
    - every w ≤ 1/sqrt(T): select the highest mean + w, and do not learn from it;
    - otherwise: retain the actions within 2^(1−s) of the highest mean + w, and go to level s + 1.

    Every context must have length 1 or less; others are rejected (divide all by the largest possible length). The
    contexts must not depend on rewards. Like SupKernelUCB and SupLinUCB it has a practical exploration by default,
    without the guarantee; that of the proof, `exploration="theory"`, explores for a very long time. A round costs O(N
    d²) per level visited, and O(d³) for a level that has learned since.

    Parameters
    ----------
    horizon, n_actions
        Number of rounds and largest number of actions per round; a round with more is rejected.
    failure_probability
        δ.
    norm_bound
        B ≥ ‖θ‖; 1 in the paper.
    reward_range
        Rewards outside this range are rejected; thresholds and sqrt(ln(2TN/δ)) are multiplied by its length.
    exploration
        Factor of ‖a‖: a number; None: 0.2 times the length of the reward range. Neither has a guarantee. "theory":
        sqrt(ln(2TN/δ)) times this length.
    explore
        Which wide action to explore: the "widest", or the "lowest" row.

    Examples
    --------
    >>> policy = SupLinRel(horizon=1000, n_actions=2)
    >>> decision = policy.choose(np.array([[0.6, 0.0], [0.0, 1.0]]))
    >>> decision.action, decision.stage
    (1, 1)
    >>> policy.learn(decision, reward=0.4)
    """

    horizon: int = parameter(HORIZON)
    n_actions: int = parameter(N_ACTIONS)
    norm_bound: float = parameter(NORM_BOUND, default=1.0)

    def _new_level(self) -> BaseLinRel:
        # Widths are multiplied by the scale; the unobserved part counts without it.
        scale = self._scale_for(self.horizon, self.n_actions, self.failure_probability)
        return BaseLinRel(bias=self.norm_bound / scale)

    def _theory_scale(self, horizon: int, n_actions: int, failure_probability: float) -> float:
        return self._span * sqrt(log(2.0 * horizon * n_actions / failure_probability))

    def _validate_theory(self) -> None:
        """Every constant has a value."""

    def _least_exploration(self, widest: float) -> float | None:
        return None  # initial widths do not depend on the exploration

    # -- choosing --------------------------------------------------------------------------------------------------

    def _walk(self, points: Points, n_actions: int) -> Any:
        _check_length(points)
        return super()._walk(points, n_actions)

    def _step(self, stage: int, active: Indices, prediction: Prediction, rules: Any) -> StageStep:
        step = super()._step(stage, active, prediction, rules)
        # Auer tests for wide actions first; this matters if 2^(−s) has fallen below 1/sqrt(T).
        if step.outcome == "exploit" and (step.scaled_width > self._coarse(stage)).any():
            return replace(step, outcome="explore")
        return step

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Not supported: the mean of this policy is not a sum over similar past actions."""
        raise NotSupported("SupLinRel's mean is made along eigenvectors, not of past actions. SupLinUCB explains.")

    # -- learning --------------------------------------------------------------------------------------------------

    def _validate_decision(self, decision: Decision) -> None:
        super()._validate_decision(decision)
        _check_length(self._point(decision))

    def _note_model(self) -> None:
        super()._note_model()
        self._journal.note(self._forget_axes)

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        super()._amend_reward(decision, was, now, number)
        self._forget_axes()

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        super()._remove_reward(decision, reward, number)
        self._forget_axes()

    def _forget_axes(self) -> None:
        for level in self._levels:
            assert isinstance(level, BaseLinRel)
            level.forget_axes()

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        for level in self._levels:
            if level.posterior.size:
                _check_length(level.posterior.support()[0])


def _check_length(points: Points) -> None:
    """Raise InvalidContexts for contexts longer than 1."""
    with np.errstate(over="ignore"):  # overflow means longer
        longest = float(Linear().diagonal(points).max())
    if not longest <= (1.0 + NORM_TOLERANCE) ** 2:
        raise InvalidContexts(
            f"SupLinRel is defined for contexts of length at most 1, got one of length {sqrt(longest):.6g}. Divide "
            "all contexts of all rounds by the largest length there can be, and multiply norm_bound by it."
        )
