"""Now and then an action at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelbandits.checks import a_number
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.randomised.wrapped_policy import WrappedPolicy
from kernelbandits.types import Parameters, Seed, Vector

__all__ = ["Mixed"]


class Mixed(WrappedPolicy):
    """Any action with probability epsilon, the choice of another policy otherwise: a log that can evaluate others.

    An action that the policy inside takes with probability p is played with (1 − epsilon) p + epsilon / N, exactly; no
    propensity is below epsilon / N. Every reward goes to the policy inside. What it makes of an action that it did not
    choose is a matter of the policy:

    - with one posterior (KernelUCB, LinUCB, GP-UCB, KernelThompson, …) it learns from any action;
    - with levels (SupKernelUCB, SupLinUCB) it learns nothing from an action that no level chose: each level may only
      know rounds that it explored itself. The round counts, and its regret is part of the price;
    - one that says that it does not learn from such actions (`learns_from_any_action`) is refused, EXP4 among them: its
      importance weights are made of its own probabilities, and it mixes on its own.

    Cost: that of the policy inside; where it randomises itself, its probabilities too in every random round.

    Parameters
    ----------
    policy
        The policy inside; taken over, not copied.
    epsilon
        Probability of a random action, from 0 to 1.
    seed
        Of the coin and of the random actions; the policy inside draws from its own.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> from kernelbandits.policies import KernelUCB
    >>> policy = Mixed(KernelUCB(Gaussian(length_scale=0.3)), epsilon=0.1, seed=0)
    >>> policy.probabilities([[0.0], [0.5], [1.0], [1.5]])
    array([0.925, 0.025, 0.025, 0.025])
    """

    def __init__(self, policy: Policy, *, epsilon: float, seed: Seed = None) -> None:
        super().__init__(policy, seed=seed)
        if not policy.learns_from_any_action:
            raise NotSupported(
                f"{type(policy).__name__} cannot be mixed with random actions: it does not say that it learns rightly "
                "from actions that it did not choose. A policy of your own that does sets learns_from_any_action = "
                "True."
            )
        self._epsilon = a_number(epsilon, "Epsilon")
        if not 0.0 <= self._epsilon <= 1.0:  # also catches NaN
            raise InvalidParameter(f"Epsilon is a probability from 0 to 1, got {epsilon!r}. 0.05 is a good start.")

    @property
    def epsilon(self) -> float:
        """Probability of a random action."""
        return self._epsilon

    def _pick(self, actions: Actions) -> Choice:
        choice = self.policy._pick(actions)
        if self._rng.random() >= self._epsilon:
            return choice._replace(propensity=self._total(choice.propensity, actions.n_actions))
        place = int(self._rng.integers(actions.n_actions))
        if place == choice.action:  # it is the choice as well, and is learnt as such
            return choice._replace(propensity=self._total(choice.propensity, actions.n_actions))
        own = 0.0 if choice.propensity == 1.0 else float(self.policy._probabilities(actions)[place])
        taken = Choice(place, propensity=self._total(own, actions.n_actions), memo=choice.memo, cost=choice.cost)
        mean, width = self.policy._estimate_of(actions, place)
        return taken._replace(mean=mean, width=width)

    def _total(self, own: float, n_actions: int) -> float:
        """Probability of an action that the policy inside takes with probability `own`."""
        return (1.0 - self._epsilon) * own + self._epsilon / n_actions

    def _probabilities(self, actions: Actions) -> Vector:
        return self._probabilities_for_each([actions])[0]

    def _probabilities_for_each(self, rounds: Sequence[Actions]) -> list[Vector]:
        found = self.policy._probabilities_for_each(rounds)
        return [
            np.asarray((1.0 - self._epsilon) * own + self._epsilon / actions.n_actions)
            for own, actions in zip(found, rounds, strict=True)
        ]

    def _parameters(self) -> Parameters:
        return {**self._wrapped_parameters(), "epsilon": self._epsilon}
