"""Experts that look at no context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import MOST_IN_MEMORY, a_count
from kernelbandits.kernels import kind_of
from kernelbandits.policies.experts.advice import Expert, JointAdvice, all_on, checked_experts
from kernelbandits.types import Parameters, Points, Vector

__all__ = ["ConstantExpert", "UniformExpert", "with_uniform"]


@dataclass(frozen=True)
class UniformExpert:
    """Every action alike.

    >>> UniformExpert().advise([[1.0], [2.0]])
    array([0.5, 0.5])
    """

    def advise(self, contexts: Points) -> Vector:
        """1 / n for each of n actions."""
        n_actions = kind_of(contexts).count(contexts)
        return np.full(n_actions, 1.0 / n_actions)

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "UniformExpert"}


@dataclass(frozen=True)
class ConstantExpert:
    """Always the same row; the last one of a round that has fewer.

    >>> ConstantExpert(1).advise([[1.0], [2.0], [3.0]])
    array([0., 1., 0.])
    """

    action: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", a_count(self.action, "The action", least=0, most=MOST_IN_MEMORY))

    def advise(self, contexts: Points) -> Vector:
        """1 at its row."""
        advice = np.zeros(kind_of(contexts).count(contexts))
        advice[min(self.action, len(advice) - 1)] = 1.0
        return advice

    @staticmethod
    def together(experts: Sequence[ConstantExpert]) -> JointAdvice:
        """The advice of many."""
        rows = np.array([expert.action for expert in experts], dtype=np.intp)
        return lambda _, n_actions: all_on(rows, n_actions)

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": "ConstantExpert", "action": self.action}


def with_uniform(experts: Sequence[Expert]) -> tuple[Expert, ...]:
    """The experts, and one who advises uniformly behind them where none of them is `UniformExpert`."""
    listed = checked_experts(experts)
    return listed if any(isinstance(expert, UniformExpert) for expert in listed) else (*listed, UniformExpert())
