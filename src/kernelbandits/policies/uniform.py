"""The policy that every other one has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.action_set import Actions, plain_points
from kernelbandits.policies.base import Choice, Policy
from kernelbandits.selection import CatalogueView
from kernelbandits.types import Decision, Parameters, Points, Seed, Vector

__all__ = ["UniformRandom"]


class UniformRandom(Policy):
    """Every action alike: the baseline, and a logging policy whose log can evaluate any other. A round costs O(N).

    Parameters
    ----------
    reward_range
        Rewards outside it are refused; None takes any finite number.
    seed
        Of the draws.

    Examples
    --------
    >>> policy = UniformRandom(seed=0)
    >>> policy.choose(["a", "b", "c", "d"]).propensity
    0.25
    """

    learns_from_any_action = True

    def __init__(self, *, reward_range: tuple[float, float] | None = None, seed: Seed = None) -> None:
        super().__init__(reward_range=reward_range, seed=seed)

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return plain_points(view)

    def _parameters(self) -> Parameters:
        return {"reward_range": self.reward_range}

    def _pick(self, actions: Actions) -> Choice:
        return Choice(int(self._rng.integers(actions.n_actions)), propensity=1.0 / actions.n_actions)

    def _rank(self, actions: Actions, k: int, *, diverse: bool) -> list[Choice]:
        rows = self._rng.permutation(actions.n_actions)[:k]
        return [Choice(int(row), propensity=1.0 / (actions.n_actions - place)) for place, row in enumerate(rows)]

    def _probabilities(self, actions: Actions) -> Vector:
        return np.full(actions.n_actions, 1.0 / actions.n_actions)

    def _take_in(self, decision: Decision, reward: float) -> None:
        """There is nothing to learn; the round counts all the same."""

    def _note_model(self) -> None:
        """There is nothing to undo."""

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        """There is nothing to correct."""

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        """There is nothing to take back."""

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        """There is nothing to learn."""

    def _state(self) -> Parameters:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""
