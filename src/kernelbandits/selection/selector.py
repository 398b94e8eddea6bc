"""Selector interface: the search for the action of the highest upper confidence bound.

The rule of a policy (exploration, ties) and the search for its best action are two objects. `Selectors`
(`selection/selectors.py`) picks the selector of a round, in one place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from kernelbandits.selection.actions import Actions
from kernelbandits.types import Selection

__all__ = ["Selector"]


class Selector(ABC):
    """Finds the action of the highest mean + exploration · width. Every selector gives the same answer up to ties.

    A selector is derived state: never saved and never copied. An interrupt or an error may leave half of an update
    behind: then `is_finished` stays false, and its owner replaces it.
    """

    is_finished: bool = True
    """Whether every query and update so far has come to its end."""

    @abstractmethod
    def select(self, actions: Actions, exploration: float) -> Selection | None:
        """The lowest row tied for the best score, and all that are tied; None where all actions have to be scored."""

    @abstractmethod
    def estimate_of(self, actions: Actions, row: int) -> tuple[float, float]:
        """Mean and width of a row that is tied for the best score of the last selection."""

    def note_chosen(self, row: int) -> None:  # noqa: B027 – most keep nothing
        """The row is chosen and may be observed next: keep what makes that cheap."""

    def log_det_gain(self) -> float | None:
        """Ln det(I + K/γ) over all observations where the selector knows it."""
        return None
