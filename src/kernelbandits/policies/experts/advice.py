"""Experts: whoever gives, for each round, one probability per action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Indices, Matrix, Parameters, Points, Vector

__all__ = ["Expert", "JointAdvice", "advice_of", "all_on", "checked_experts", "picks_of"]

JointAdvice: TypeAlias = Callable[[Points, int], Matrix]
"""(contexts, n_actions) → a row of probabilities per expert."""


@runtime_checkable
class Expert(Protocol):
    """Advice for a round: one probability per action. A member of a policy class puts 1 on one of them.

    The same round gets the same advice whenever it is asked for. A class whose experts can be asked together at less
    than one call each has, besides, a static method `together(experts) -> JointAdvice`, asked once per policy.
    """

    def advise(self, contexts: Points) -> Vector:
        """Probabilities of the actions of a round, all that were passed: not negative, and 1 in sum."""

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""


def all_on(rows: Indices, n_actions: int) -> Matrix:
    """Advice of experts that each put everything on one row; on the last one of a round that has fewer.

    >>> all_on(np.array([1, 0, 7]), 2)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    advice = np.zeros((len(rows), n_actions))
    advice[np.arange(len(rows)), np.minimum(rows, n_actions - 1)] = 1.0
    return advice


def checked_experts(experts: Sequence[Expert]) -> tuple[Expert, ...]:
    """At least one, and experts all of them, or InvalidParameter."""
    try:
        listed = tuple(experts)
    except TypeError as error:
        raise InvalidParameter(f"A sequence of experts is needed, got {type(experts).__name__}.") from error
    if not listed:
        raise InvalidParameter("There has to be at least one expert, got none. constant_experts(n_actions) is a start.")
    for expert in listed:
        if not isinstance(expert, Expert):
            raise InvalidParameter(
                f"An expert has `advise(contexts)` and `describe()`, got {type(expert).__name__}. The factories of "
                "kernelbandits.policies.experts make such."
            )
    return listed


def advice_of(experts: Sequence[Expert], contexts: Points, n_actions: int) -> Matrix:
    """A row of probabilities per expert, or InvalidParameter for advice that is none."""
    advice = np.empty((len(experts), n_actions))
    for row, expert in enumerate(experts):
        given = np.asarray(expert.advise(contexts), dtype=np.float64)
        if given.shape != (n_actions,) or not (given >= 0.0).all() or not abs(given.sum() - 1.0) <= 1e-9:
            raise InvalidParameter(
                f"Advice is one probability per action ({n_actions}), 1 in sum; {expert.describe()} gave {given!r:.80}."
            )
        advice[row] = given
    return advice


def picks_of(advice: Matrix) -> Indices:
    """The action of each expert of a policy class, or InvalidParameter where one of them randomises."""
    picks: Indices = np.argmax(advice, axis=1)
    if not (advice[np.arange(len(advice)), picks] == 1.0).all():
        raise InvalidParameter(
            "A class of policies is made of experts that put all probability on one action; one of these spreads it."
        )
    return picks
