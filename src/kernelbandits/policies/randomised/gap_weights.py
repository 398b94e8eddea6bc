"""How strongly inverse gap weighting prefers the action that looks best."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol, runtime_checkable

from kernelbandits.checks import a_count, positive
from kernelbandits.errors import CannotSave, ForeignFile, InvalidParameter
from kernelbandits.types import Parameters

__all__ = [
    "ConstantGapWeight",
    "GapWeight",
    "GrowingGapWeight",
    "as_gap_weight",
    "gap_weight_from",
    "packed_gap_weight",
]


@runtime_checkable
class GapWeight(Protocol):
    """Weight of a gap in a round; a plain number is the constant one. Write your own with these two methods."""

    @abstractmethod
    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """What gaps are multiplied by, zero or above."""

    @abstractmethod
    def describe(self) -> Parameters:
        """Class and parameters as plain values."""


@dataclass(frozen=True)
class ConstantGapWeight:
    """The same in every round."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive(self.value, "The weight of gaps", "Large is greedy."))

    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """The value."""
        return self.value

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "ConstantGapWeight", "value": self.value}


@dataclass(frozen=True, kw_only=True)
class GrowingGapWeight:
    """scale · sqrt(N T) with a known horizon T; scale · sqrt(N t), growing with the round t, without one.

    The order of Foster and Rakhlin's weight, sqrt(N T / regret of the oracle): in theory scale is one over the square
    root of the cumulative squared error of the estimates (rewards in [0, 1]), which nobody knows beforehand.

    >>> GrowingGapWeight(scale=2.0)(round_index=9, n_actions=4)
    12.0
    """

    scale: float = 1.0
    horizon: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "The scale of gap weights", "Large is greedy."))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", a_count(self.horizon, "The horizon"))

    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """The weight of this round."""
        return self.scale * sqrt(n_actions * (round_index if self.horizon is None else self.horizon))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "GrowingGapWeight", "scale": self.scale, "horizon": self.horizon}


KNOWN: Mapping[str, type[Any]] = {known.__name__: known for known in (ConstantGapWeight, GrowingGapWeight)}
"""What a file may name. Nothing is imported by a name found in a file."""


def as_gap_weight(value: float | GapWeight) -> GapWeight:
    """A number as the constant weight."""
    if isinstance(value, type):
        raise InvalidParameter(f"A weight of gaps is a number or a schedule, got the class {value.__name__} itself.")
    return value if isinstance(value, GapWeight) else ConstantGapWeight(value)


def packed_gap_weight(weight: GapWeight) -> Parameters:
    """Its description, or CannotSave where it is not one of the library's."""
    if KNOWN.get(type(weight).__name__) is not type(weight):
        raise CannotSave(f"A weight of gaps of your own ({type(weight).__name__}) cannot be saved.")
    return weight.describe()


def gap_weight_from(description: Mapping[str, Any]) -> GapWeight:
    """Inverse of `packed_gap_weight`."""
    arguments = dict(description)
    name = arguments.pop("class")
    if name not in KNOWN:
        raise ForeignFile(f"The file holds a weight of gaps {name!r}, which is not known here.")
    weight: GapWeight = KNOWN[name](**arguments)
    return weight
