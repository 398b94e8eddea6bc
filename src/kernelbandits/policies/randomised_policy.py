"""What policies share that draw their actions from probabilities they know."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice, Policy
from kernelbandits.types import EMPTY, Prediction, Vector

__all__ = ["Odds", "RandomisedPolicy", "drawn"]


class Odds(NamedTuple):
    """Probabilities of the eligible actions, and what a policy knows besides."""

    probabilities: Vector
    prediction: Prediction | None = None
    """Mean and width of each action, where the policy has them."""

    score: Vector | None = None
    """What the probabilities were made of, where that is one number an action."""

    memo: Mapping[str, Any] = EMPTY
    """What `learn` will need, whatever the draw."""


class RandomisedPolicy(Policy):
    """Draws the action of each round, with a propensity that is exact, so that its log can evaluate any other policy.

    A subclass writes `_odds` instead of `_pick`.
    """

    @abstractmethod
    def _odds(self, actions: Actions) -> Odds:
        """Probabilities of the eligible actions, from the model alone: no chance is used here."""

    def _pick(self, actions: Actions) -> Choice:
        return self._drawn_choice(actions, self._odds(actions))

    def _pick_for_each(self, rounds: Sequence[Actions]) -> list[Choice]:
        """One draw a round; the odds of a round that is asked about again and again are computed once."""
        if type(self)._pick is not RandomisedPolicy._pick:  # there is more to a choice than the draw
            return super()._pick_for_each(rounds)
        choices: list[Choice] = []
        points, odds = None, None
        for actions in rounds:
            if odds is None or actions.rows is not None or actions.points is not points:
                odds = self._odds(actions)
                points = actions.points if actions.rows is None else None
            choices.append(self._drawn_choice(actions, odds))
        return choices

    def _drawn_choice(self, actions: Actions, odds: Odds) -> Choice:
        """One draw, with what is known of it."""
        probabilities, prediction, score, memo = odds
        place = drawn(probabilities, self._rng)
        choice = Choice(place, propensity=float(probabilities[place]), memo=memo)
        if prediction is not None:
            choice = choice._replace(mean=float(prediction.mean[place]), width=float(prediction.width[place]))
        return choice if score is None else choice._replace(score=float(score[place]))

    def _probabilities(self, actions: Actions) -> Vector:
        return self._odds(actions).probabilities


def drawn(probabilities: Vector, rng: np.random.Generator) -> int:
    """A place drawn from probabilities (which may sum to 1 only up to rounding); never one of probability 0.

    >>> drawn(np.array([0.0, 1.0, 0.0]), np.random.default_rng(0))
    1
    """
    ends = np.cumsum(probabilities)
    return int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
