"""Base class of randomized policies, and the uniformly random baseline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import parameter
from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.base import REWARD_RANGE, SEED, Policy
from kernelbandits.policies.slates import Ranking
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions, ActionSet, plain_points
from kernelbandits.types import EMPTY, Decision, Matrix, Parameters, Points, Prediction, Seed, Selection, Vector

__all__ = ["ActionDistribution", "DistributionRanking", "RandomizedPolicy", "UniformRandom", "drawn"]


class ActionDistribution(NamedTuple):
    """Action probabilities of the eligible actions, with optional estimates."""

    probabilities: Vector
    prediction: Prediction | None = None
    """Mean and width of each action, if the policy has them."""

    score: Vector | None = None
    """Scores from which the probabilities were computed, if there is one number per action."""

    memo: Mapping[str, Any] = EMPTY
    """Values that `learn` will need, independent of the draw."""


class RandomizedPolicy(Policy):
    """Base class of policies that draw the action of each round.

    The propensity of each decision is exact, so the log can be used to evaluate any other policy. A subclass implements
    `_distribution` instead of `_pick`.
    """

    @abstractmethod
    def _distribution(self, actions: Actions) -> ActionDistribution:
        """Return the action probabilities of the eligible actions. Deterministic: does not use the random generator."""

    def _pick(self, actions: Actions) -> Selection:
        return self._drawn_choice(actions, self._distribution(actions))

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        """Draw once per round; the action probabilities of a repeated round are computed once."""
        choices: list[Selection] = []
        points, distribution = None, None
        for actions in rounds:
            is_plain = actions.rows is None and actions.offset is None
            if distribution is None or not is_plain or actions.points is not points:
                distribution = self._distribution(actions)
                points = actions.points if is_plain else None
            choices.append(self._drawn_choice(actions, distribution))
        return choices

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        """Draw one action and return it with its estimates."""
        probabilities, prediction, score, memo = distribution
        place = drawn(probabilities, self._rng)
        choice = Selection(place, propensity=float(probabilities[place]), memo=memo)
        if prediction is not None:
            choice = choice._replace(mean=float(prediction.mean[place]), width=float(prediction.width[place]))
        return choice if score is None else choice._replace(score=float(score[place]))

    def _probabilities(self, actions: Actions) -> Vector:
        return self._distribution(actions).probabilities


class DistributionRanking(Ranking):
    """Slate of a randomized policy: each place is drawn as `choose` would draw it among the remaining actions."""

    def __init__(self, policy: RandomizedPolicy, actions: Actions) -> None:
        super().__init__(actions.n_actions)
        self._policy, self._kind, self._points = policy, policy._kind(actions.points), actions.points

    def select(self) -> Selection:
        remaining = self._remaining()
        choice = self._policy._drawn_choice(remaining, self._policy._distribution(remaining))
        return choice._replace(row=int(self.left[choice.row]))

    def probabilities(self) -> Vector:
        return self._policy._distribution(self._remaining()).probabilities

    def estimate_of(self, row: int) -> tuple[float, float]:
        return self._policy._estimate_of(ActionSet(self._kind, self._points, None, None), row)

    def _remaining(self) -> ActionSet:
        return ActionSet(self._kind, self._kind.take(self._points, self.left), None, None)


def drawn(probabilities: Vector, rng: np.random.Generator) -> int:
    """Draw an index from probabilities, which may sum to 1 only up to rounding; never one with probability 0.

    >>> drawn(np.array([0.0, 1.0, 0.0]), np.random.default_rng(0))
    1
    """
    ends = np.cumsum(probabilities)
    return int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))


class UniformRandom(Policy):
    """Uniformly random baseline. Its log can be used to evaluate any other policy. A round costs O(N).

    Parameters
    ----------
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.
    seed
        Seed of the draws.

    Examples
    --------
    >>> policy = UniformRandom(seed=0)
    >>> policy.choose(["a", "b", "c", "d"]).propensity
    0.25
    """

    learns_from_any_action = True
    accepts_offsets = True  # it has no scores
    keeps_data_only = True  # nothing

    reward_range: tuple[float, float] | None = parameter(REWARD_RANGE, default=None)
    seed: Seed = parameter(SEED, default=None, is_described=False)

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalog_points(self, view: CatalogView) -> Points:
        return plain_points(view)

    def _pick(self, actions: Actions) -> Selection:
        return Selection(int(self._rng.integers(actions.n_actions)), propensity=1.0 / actions.n_actions)

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        return _UniformRanking(self, actions.n_actions)

    def _probabilities(self, actions: Actions) -> Vector:
        return np.full(actions.n_actions, 1.0 / actions.n_actions)

    def _update(self, decision: Decision, reward: float) -> None:
        """Do nothing: there is no model. The round still counts."""

    def _note_model(self) -> None:
        """Do nothing: there is no model."""

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        """Do nothing: there is no model."""

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        """Do nothing: there is no model."""

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        """Do nothing: there is no model."""

    def _state(self) -> Parameters:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no model."""


class _UniformRanking(Ranking):
    """Slate drawn without replacement; always diverse."""

    def __init__(self, policy: UniformRandom, n_actions: int) -> None:
        super().__init__(n_actions)
        self._policy = policy

    def select(self) -> Selection:
        return Selection(int(self._policy._rng.choice(self.left)), propensity=1.0 / len(self.left))

    def probabilities(self) -> Vector:
        return np.full(len(self.left), 1.0 / len(self.left))

    def place_probabilities(self, k: int) -> Matrix:
        found = np.zeros((k, int(self.left[-1]) + 1))
        found[:, self.left] = 1.0 / len(self.left)
        return found
