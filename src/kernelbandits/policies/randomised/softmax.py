"""Softmax over upper confidence bounds."""

from __future__ import annotations

import numpy as np

from kernelbandits.checks import positive
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.randomised.upper_confidence_wrapper import UpperConfidenceWrapper
from kernelbandits.policies.randomised_policy import Odds, RandomisedPolicy
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.types import Parameters, Seed

__all__ = ["Softmax"]


class Softmax(UpperConfidenceWrapper, RandomisedPolicy):
    """Draw actions with probability ∝ exp(score / temperature), score = mean + exploration · width.

    The scores are those of a policy that takes the highest one, such as KernelUCB or LinUCB: this is its smoothed
    choice, with exact propensities, and it learns like it. Exploration 0 inside is Boltzmann exploration by the means.
    A low temperature is nearly the policy inside, a high one nearly uniform; a temperature that does not fall keeps a
    regret that grows with the rounds. Every action of a round is scored: O(N m²) after m distinct contexts.

    Parameters
    ----------
    policy
        KernelUCB, LinUCB, GP-UCB or another that takes the highest upper confidence bound; taken over, not copied.
    temperature
        In units of the reward: actions whose scores differ by so much differ by a factor e in probability.
    seed
        Of the draws.

    Examples
    --------
    >>> from kernelbandits.policies import LinUCB
    >>> policy = Softmax(LinUCB(exploration=1.0), temperature=0.5, seed=0)
    >>> policy.probabilities([[1.0], [0.0]]).round(4)
    array([0.8808, 0.1192])
    """

    def __init__(self, policy: UpperConfidencePolicy, *, temperature: float, seed: Seed = None) -> None:
        super().__init__(policy, seed=seed)
        way_out = "For the highest score alone take its policy."
        self._temperature = positive(temperature, "The temperature", way_out, may_be_tiny=True)

    @property
    def temperature(self) -> float:
        """What scores are divided by."""
        return self._temperature

    def _odds(self, actions: Actions) -> Odds:
        estimate = self._estimate(actions)
        scores = estimate.scores
        with np.errstate(over="ignore"):  # a tiny temperature: all weight is on the best
            weights = np.exp((scores - scores.max()) / self._temperature)
        return Odds(weights / weights.sum(), estimate.prediction, scores)

    def _parameters(self) -> Parameters:
        return {**self._wrapped_parameters(), "temperature": self._temperature}
