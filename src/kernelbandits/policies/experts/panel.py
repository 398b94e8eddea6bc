"""Many experts who are asked together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.experts.advice import Expert, JointAdvice, advice_of, checked_experts
from kernelbandits.types import Indices, Matrix, Points

__all__ = ["Panel"]


class Panel:
    """Experts in their order; those of a class that can be asked together cost one call, however many they are.

    >>> from kernelbandits.policies.experts.basic_experts import ConstantExpert, UniformExpert
    >>> Panel([ConstantExpert(1), UniformExpert(), ConstantExpert(0)]).advice_on([[1.0], [2.0]], 2)
    array([[0. , 1. ],
           [0.5, 0.5],
           [1. , 0. ]])
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.experts = checked_experts(experts)
        places: dict[type, list[int]] = {}
        for place, expert in enumerate(self.experts):
            places.setdefault(type(expert), []).append(place)
        self._groups = [(np.array(rows, dtype=np.intp), self._asked(kind, rows)) for kind, rows in places.items()]
        self._is_one_group = len(self._groups) == 1

    def __len__(self) -> int:
        return len(self.experts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Panel:
        """Itself: experts do not change, and a copied policy goes on asking the same."""
        del memo
        return self

    def __reduce__(self) -> tuple[type[Panel], tuple[tuple[Expert, ...]]]:
        """Experts alone: how they are asked together is found again."""
        return Panel, (self.experts,)

    def advice_on(self, contexts: Points, n_actions: int) -> Matrix:
        """A row per expert of probabilities of all actions of a round."""
        if self._is_one_group:
            return self._groups[0][1](contexts, n_actions)
        advice = np.empty((len(self.experts), n_actions))
        for rows, asked in self._groups:
            advice[rows] = asked(contexts, n_actions)
        return advice

    def advice(self, actions: Actions) -> Matrix:
        """A row per expert of probabilities of the eligible actions.

        Experts see the whole round. What they gave to other actions is spread over these in proportion, or evenly
        where nothing else is left.
        """
        advice = self.advice_on(actions.whole, actions.n_rows)
        if actions.rows is None:
            return advice
        left = advice[:, actions.rows]
        mass = left.sum(axis=1, keepdims=True)
        return np.where(mass > 0.0, left / np.where(mass > 0.0, mass, 1.0), 1.0 / actions.n_actions)

    def subset(self, rows: Indices) -> list[Expert]:
        """Some of them."""
        return [self.experts[row] for row in rows]

    @cached_property
    def digest(self) -> str:
        """Tells one panel from another: of what the experts say of themselves, in their order."""
        text = json.dumps([expert.describe() for expert in self.experts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _asked(self, kind: type, rows: Sequence[int]) -> JointAdvice:
        members = [self.experts[row] for row in rows]
        if hasattr(kind, "together"):
            joint: JointAdvice = kind.together(members)
            return joint
        return lambda contexts, n_actions: advice_of(members, contexts, n_actions)
