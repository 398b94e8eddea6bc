"""Selector interface: search for the action with the highest upper confidence bound.

The rule of a policy (exploration, ties) and the search for its best action are separate objects. `Selectors`
(`selection/selectors.py`) picks the selector of a round; no other component does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from kernelbandits.selection.actions import Actions
from kernelbandits.selection.ties import TieBreaker
from kernelbandits.types import Selection

__all__ = ["Selector"]


class Selector(ABC):
    """Finds the action with the highest mean + exploration · width. All selectors return the same result up to ties.

    A selector is derived state: never saved and never copied. An interrupt or an error may leave an update incomplete:
    then `is_finished` stays false, and the owner replaces the selector.
    """

    def __init__(self) -> None:
        self.is_finished = True
        """Whether every query and update so far has completed."""
        self.posterior: Any = None
        """Posterior whose upper confidence bounds are compared, with the capabilities that the selector needs."""

    @abstractmethod
    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection | None:
        """Selection of the row with the best score; None if all must be scored. Several tied rows go to `break_tie`."""

    def log_det_gain(self) -> float | None:
        """Ln det(I + K/γ) over all observations; None if the selector does not know it."""
        return None
