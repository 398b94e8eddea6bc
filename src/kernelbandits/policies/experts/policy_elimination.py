"""PolicyElimination (Dudík et al. 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log, sqrt
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kernelbandits._parameters import Parameter, parameter
from kernelbandits._saved_state import saved_array
from kernelbandits.errors import DamagedFile
from kernelbandits.policies.experts.class_policy import ClassMixture, ClassPolicy, PickTable
from kernelbandits.types import Indices, Parameters, Vector
from kernelbandits.validation import check_positive

__all__ = ["Balance", "PolicyElimination", "balanced_weights"]

ROUNDING: Final = 1e-9
"""Relative tolerance of the variance bound: if the mixing is almost 1 / 2N, it can only be met up to rounding."""

MOST_STEPS: Final = 10_000
"""Largest number of steps, more than ever needed: a few are usual."""


class Balance(NamedTuple):
    """Result of `balanced_weights`."""

    weights: Vector
    """Probability of each policy, zero for inactive policies."""

    n_steps: int
    """Number of steps."""


def balanced_weights(table: PickTable, active: Indices, mixing: float) -> Balance:
    """Find weights P on the active policies with mean_x 1 / W'(x, π(x)) ≤ 2N for each of them.

    The step P(π) ← P(π) · mean_x 1 / W'(x, π(x)), renormalized, is an expectation-maximization step for Σ_x Σ_a
    ln W'(x, a). At the maximum, no policy's value exceeds the mean over P, which is at most N / (1 − N m) ≤ 2N for
    m ≤ 1 / 2N; so the bound is met after finitely many steps. The iteration starts from equal weights.

    Reference: Dudík et al. (2011), PolicyElimination, the distribution whose existence they prove.
    """
    bound = 2.0 * table.n_actions * (1.0 + ROUNDING)
    weights = np.zeros(table.n_policies)
    weights[active] = 1.0 / len(active)
    if not table.n_rounds:
        return Balance(weights, 0)
    policies = None if len(active) == table.n_policies else active
    n_steps = 0
    while n_steps < MOST_STEPS:
        variances = table.variances(table.probabilities(weights, mixing), policies)
        if variances.max() <= bound:
            break
        weights[active] *= variances
        weights /= weights.sum()
        n_steps += 1
    return Balance(weights, n_steps)


class PolicyElimination(ClassPolicy):
    """PolicyElimination: estimate all active policies with bounded variance, and eliminate suboptimal ones.

    There are N actions and M policies, and δ_t = δ / (4 M t²). Round t draws from

        W'(x, a) = (1 − N m_t) Σ_π P(π) 1[π(x) = a] + m_t,
        m_t = min(1 / 2N, uniform_factor · sqrt(ln(1 / δ_t) / (2 N t))),

    with weights P on the active policies such that the mean of 1 / W'(x, π(x)) is at most 2N for each of them. Then the
    active policies are retained whose estimated value is at least the best minus 2 b_t, b_t = exploration · 2 sqrt(2 N
    ln(1 / δ_t) / t). An eliminated policy never returns. Nothing is eliminated before t ≥ exploration · 2N ln(1 / δ_t):
    until then single importance weights are as large as b_t, which a small exploration would take for differences.

    The mean over contexts is taken over the learned rounds, whereas the authors assume the context distribution to be
    known; t counts the learned rounds. Contexts are i.i.d.; rewards lie in `reward_range`.

    The b_t of the proof is wide: with N = 3, M = 50 and δ = 0.05 it is 0.39 after 4000 rounds, so only gaps above 0.77
    would be detected, and nothing is gained until a policy is eliminated. So the default is a practical exploration,
    without the guarantee (docs/defaults.md): it may eliminate the best policy and keep one that is almost as good.

    A round costs O(U M) for U distinct learned rounds (see `PickTable`), which is up to t: it grows with t if contexts
    do not repeat and there are many policies. Up to round 4000, with 50 policies, it was 4 ms on average.

    Parameters
    ----------
    experts
        The class: experts that put all probability on one action.
    n_actions
        N, the largest number of actions of a round.
    failure_probability
        δ, the probability with which the best policy may be eliminated.
    exploration
        Factor of b_t. "theory" is the 1 of the proof.
    uniform_factor
        Factor of m_t. "theory" is the 1 of the proof.
    reward_range
        Range of rewards, which are scaled to [0, 1].
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.policies.experts import ConstantExpert
    >>> policy = PolicyElimination(
    ...     [ConstantExpert(0), ConstantExpert(1)], n_actions=2, failure_probability=0.1, exploration=0.2, seed=0
    ... )
    >>> for _ in range(300):
    ...     decision = policy.choose(["left", "right"])
    ...     policy.learn(decision, reward=1.0 if decision.item == 0 else 0.2)
    >>> policy.active.tolist()
    [0]

    References
    ----------
    Dudík et al. (2011), PolicyElimination.
    """

    exploration: Parameter[float | Literal["theory"], float] = parameter(
        partial(check_positive, name="The exploration", hint="1.0 keeps the theorem."), default=0.05, theory=1.0
    )

    def _setup(self) -> None:
        super()._setup()
        self._active = np.arange(self.n_policies)
        self._known_mixture: ClassMixture | None = None

    @property
    def active(self) -> Indices:
        """Indices, among the experts, of the policies that have not been eliminated."""
        return self._active.copy()

    def _mixture(self) -> ClassMixture:
        if self._known_mixture is None:
            t = self._table.n_rounds + 1
            rate = sqrt(self._confidence(t) / (2 * self.n_actions * t))
            mixing = min(0.5 / self.n_actions, self.uniform_factor * rate)  # m_t
            self._known_mixture = ClassMixture(balanced_weights(self._table, self._active, mixing).weights, mixing)
        return self._known_mixture

    def _after_round(self) -> None:
        t = self._table.n_rounds
        self._known_mixture = None
        if t < self.exploration * 2 * self.n_actions * self._confidence(t):
            return  # a few large importance weights would decide
        half_width = self.exploration * 2.0 * sqrt(2 * self.n_actions * self._confidence(t) / t)  # b_t
        values = self._estimates()[self._active]
        self._active = self._active[values >= values.max() - 2.0 * half_width]

    def _confidence(self, t: int) -> float:
        """ln(1 / δ_t)."""
        return log(4 * self.n_policies * t**2 / self.failure_probability)

    def _state(self) -> Parameters:
        return {**super()._state(), "active": self._active.astype(np.int64)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        active = saved_array(state, "active", "i", (None,), least=0, most=self.n_policies - 1)
        if not len(active) or (np.diff(active) <= 0).any():
            raise DamagedFile("The active policies in the file must be distinct, in order and at least one.")
        self._active = active.astype(np.intp)
        self._known_mixture = None
