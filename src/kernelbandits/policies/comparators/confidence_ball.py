"""ConfidenceBall (Dani et al. 2008), and barycentric spanners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import saved_part
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Linear
from kernelbandits.policies.base import REWARD_RANGE
from kernelbandits.policies.comparators.fixed_set import ACTIONS, FixedActionsPolicy
from kernelbandits.policies.comparators.spanning import coordinates_of, spanning_rows, to_one
from kernelbandits.posterior import PrimalPosterior
from kernelbandits.posterior.pending import Pending
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Indices, Matrix, Parameters, Points, Prediction, Selection, Vector
from kernelbandits.validation import check_positive, check_probability, short_repr

__all__ = ["ConfidenceBall", "barycentric_spanner"]


def barycentric_spanner(points: Matrix, *, factor: float = 2.0) -> Indices:
    """Return rows of independent points such that all points are combinations with coefficients in [−factor, factor].

    The algorithm is determinant swaps: a coefficient z_i of x is the factor by which the volume of the spanner changes
    when x replaces its i-th point. While some coefficient is larger than `factor`, that point is swapped in, which
    multiplies the volume by more than `factor`. From a greedy start there are O(r log r / log factor) swaps for rank r,
    of O(N r) each. If the points span only a subspace, the result is a spanner of the subspace.

    Reference: Awerbuch and Kleinberg (2004), approximate barycentric spanners.

    >>> barycentric_spanner(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 5.0], [0.3, 0.3]])).tolist()
    [2, 0]
    """
    if not check_positive(factor, "The factor of a barycentric spanner") > 1.0:
        raise InvalidParameter(
            f"The factor of a barycentric spanner must be above 1, got {factor!r}: a spanner with factor 1 exists, "
            "but finding it can take exponentially many swaps. 2.0 is usual."
        )
    rows = spanning_rows(points)
    coordinates = coordinates_of(points, rows)
    while True:
        row, place = np.unravel_index(int(np.abs(coordinates).argmax()), coordinates.shape)
        if abs(coordinates[row, place]) <= factor:
            return rows
        rows[place] = row
        share = coordinates[:, place] / coordinates[row, place]  # coefficient of the new point in every point
        coordinates = coordinates - np.outer(share, coordinates[row])
        coordinates[:, place] = share


def _one_or_two(norm: int) -> int:
    if not isinstance(norm, int | np.integer) or isinstance(norm, bool) or norm not in (1, 2):
        raise InvalidParameter(f"The ball is that of norm 2 or of norm 1, got norm={short_repr(norm)}.")
    return int(norm)


class ConfidenceBall(FixedActionsPolicy):
    """Maximize the reward over a confidence set of θ (Dani, Hayes and Kakade 2008), for one fixed set of actions.

    With b_1 … b_d a barycentric spanner of the actions, used for regularization only, A = Σ b bᵀ + Σ x xᵀ over the
    rounds, θ̂ = A⁻¹ Σ r x, and β_t = max(128 d ln t ln(t²/δ), (8/3 ln(t²/δ))²) in round t:

        norm=2   ellipsoid ‖A^½ (θ − θ̂)‖₂ ≤ sqrt(β):     score = x·θ̂ + sqrt(β)   · sqrt(xᵀ A⁻¹ x)
        norm=1   its hull  ‖A^½ (θ − θ̂)‖₁ ≤ sqrt(d β):   score = x·θ̂ + sqrt(d β) · max_i |(A^−½ x)_i|

    In the coordinates of the spanner, A is I + Σ z zᵀ: ridge regression with regularization 1. So norm=2 is LinUCB in
    these coordinates with exploration sqrt(β). A round costs O(N d² + d³) for any t.

    β is chosen for the proof: with an exploration of 1 the policy explores for many thousands of rounds, so the default
    is a practical one (docs/defaults.md). If the actions span only a subspace, the policy works in that subspace: d is
    then its dimension, and norm=1 uses an orthonormal basis of it. Pending decisions count in A and not in θ̂, with the
    radius widened so that the confidence statement still holds.

    Parameters
    ----------
    actions
        The fixed set, one row per action.
    norm
        2, or 1: wider by up to sqrt(d); its maximum over a polytope requires only 2d linear problems.
    failure_probability
        δ: the probability that θ is outside the confidence set in some round.
    exploration
        Factor of the radius sqrt(β). The guarantee holds for "theory", which is 1.
    reward_range
        The theory assumes [−1, 1]; for another range the radius is multiplied by its largest absolute reward.

    Examples
    --------
    >>> actions = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    >>> policy = ConfidenceBall(actions, exploration=0.02)
    >>> for _ in range(60):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=float(decision.context @ [0.2, 0.5]))
    >>> policy.choose(actions).action
    1
    """

    needs_reward_range = True
    learns_from_any_action = True

    actions: Points = parameter(ACTIONS, kw_only=False, attribute="_fixed_actions")
    norm: Literal[1, 2] = parameter(_one_or_two, default=2)
    failure_probability: float = parameter(check_probability, default=0.05)
    exploration: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The exploration", hint="1.0 keeps the theorem; 0.01 to 0.03 learns."),
        default=0.01,
        theory=1.0,
        is_assignable=True,
    )
    reward_range: tuple[float, float] = parameter(REWARD_RANGE, default=(0.0, 1.0))

    def _setup(self) -> None:
        super()._setup()
        self._largest_reward = max(abs(end) for end in self.reward_range)
        self._features: Matrix = Linear().features(self.actions)
        self.spanner: Indices = barycentric_spanner(self._features)
        """Rows of the barycentric spanner, factor 2."""
        self._coordinates = coordinates_of(self._features, self.spanner)
        self.posterior = PrimalPosterior(Linear(), regularization=1.0)
        """Posterior given the learned data, in coordinates of the spanner."""
        self._own_posterior(self.posterior)
        self._from_own_axes = self._own_axes() if self.norm == 1 else None

    def _own_axes(self) -> tuple[Matrix, Matrix]:
        """Return the actions, in an orthonormal basis if they span a subspace, and the spanner's inverse."""
        points = to_one(self._features)
        if len(self.spanner) < points.shape[1]:
            basis = np.linalg.qr(points[self.spanner].T)[0]  # (d, rank)
            points = points @ basis
        inverse: Matrix = np.linalg.inv(points[self.spanner]).astype(np.float64)
        return points, inverse

    # -- choosing --------------------------------------------------------------------------------------------------

    @property
    def beta(self) -> float:
        """β of the next round: the squared radius of the confidence set, for rewards in [−1, 1]."""
        share = log(self.round_index**2 / self.failure_probability)
        return self.exploration**2 * max(
            128.0 * len(self.spanner) * log(self.round_index) * share, (8.0 / 3.0 * share) ** 2
        )

    def _pick(self, actions: Actions) -> Selection:
        rows = self._eligible(actions)
        waiting = self._waiting()
        prediction = self.posterior._estimate(self._coordinates[rows])
        radius = sqrt(self.beta) * self._largest_reward * (waiting.inflation if waiting else 1.0)
        widths = self._widths(rows, prediction, waiting)
        scores = prediction.mean + radius * widths
        place = int(tied_for_best(scores)[0])
        return Selection(place, float(prediction.mean[place]), float(widths[place]), float(scores[place]))

    def _waiting(self) -> Pending | None:
        counts = self._pending_rows()
        pending = np.flatnonzero(counts)
        if not pending.size:
            return None
        return Pending(self.posterior, self._coordinates[pending], counts[pending].astype(np.float64))

    def _widths(self, rows: Indices, prediction: Prediction, waiting: Pending | None) -> Vector:
        """Return the factor of the radius: the dual norm of x, including the sqrt(d) of norm 1."""
        if self._from_own_axes is None:
            if waiting is None:
                return prediction.width
            return waiting.narrowed(self._coordinates[rows], prediction).width
        points, spanner_inverse = self._from_own_axes
        axes = np.eye(len(self.spanner))
        inverse = self.posterior.covariance(axes) if waiting is None else waiting.covariance(axes, axes)
        # A = Bᵀ (I + Σ z zᵀ) B with B the spanner's rows, so A⁻¹ = B⁻¹ (I + Σ z zᵀ)⁻¹ B⁻ᵀ.
        spread, directions = np.linalg.eigh(spanner_inverse @ inverse @ spanner_inverse.T)
        root = (directions * np.sqrt(np.maximum(spread, 0.0))) @ directions.T  # A^−½
        return np.asarray(sqrt(len(axes)) * np.abs(points[rows] @ root).max(axis=1))

    # -- learning --------------------------------------------------------------------------------------------------

    def _point_of(self, decision: Decision) -> Matrix:
        row = self._row_of(decision)
        return self._coordinates[row : row + 1]

    def _update(self, decision: Decision, reward: float) -> None:
        self.posterior._observe_one(self._point_of(decision), reward)

    def _note_model(self) -> None:
        self.posterior._note_change()

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self.posterior.amend(self._point_of(decision), was=[was], now=[now])

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self.posterior.remove(self._point_of(decision), [reward])

    # -- description and serialization -----------------------------------------------------------------------------

    def _state(self) -> Parameters:
        return {"posterior": self.posterior.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.posterior.restore(saved_part(state, "posterior"))
