"""Experts: the interface, panels of experts, decision memos and weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from kernelbandits._saved_state import saved_array
from kernelbandits._sparse import sound
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Indices, Matrix, Pairs, Parameters, Points, Vector
from kernelbandits.validation import as_list

__all__ = [
    "Expert",
    "JointAdvice",
    "Panel",
    "advice_of",
    "all_on",
    "checked_experts",
    "known_propensity",
    "memo_array",
    "memo_shares",
    "picks_of",
    "saved_log_weights",
    "shared_row",
    "shares",
]

JointAdvice: TypeAlias = Callable[[Points, int], Matrix]
"""(contexts, n_actions) → one row of probabilities per expert."""


@runtime_checkable
class Expert(Protocol):
    """Interface of experts: advice for a round, one probability per action.

    A member of a policy class puts probability 1 on one action. The advice is deterministic: the same round gets the
    same advice. A class whose experts can be evaluated jointly, at less than one call each, may also define a static
    method `together(experts) -> JointAdvice`, called once per policy.
    """

    def advise(self, contexts: Points) -> Vector:
        """Return probabilities of all actions passed: non-negative, with sum 1."""

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""


def all_on(rows: Indices, n_actions: int) -> Matrix:
    """Return the advice of experts that each put probability 1 on one row; on the last row if the round has fewer.

    >>> all_on(np.array([1, 0, 7]), 2)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    advice = np.zeros((len(rows), n_actions))
    advice[np.arange(len(rows)), np.minimum(rows, n_actions - 1)] = 1.0
    return advice


def checked_experts(experts: Sequence[Expert]) -> tuple[Expert, ...]:
    """Return the experts as a tuple; raise InvalidParameter if it is empty or contains any other object."""
    try:
        listed = tuple(as_list(experts))
    except TypeError as error:
        raise InvalidParameter(f"A sequence of experts is needed, got {type(experts).__name__}.") from error
    if not listed:
        raise InvalidParameter("There must be at least one expert, got none. constant_experts(n_actions) is a start.")
    for expert in listed:
        if not isinstance(expert, Expert):
            raise InvalidParameter(
                f"An expert has `advise(contexts)` and `describe()`, got {type(expert).__name__}. The factories of "
                "kernelbandits.policies.experts make such."
            )
    return listed


def advice_of(experts: Sequence[Expert], contexts: Points, n_actions: int) -> Matrix:
    """Return one row of probabilities per expert; raise InvalidParameter for invalid advice."""
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
    """Return the action of each expert of a policy class; raise InvalidParameter if one of them randomizes."""
    picks: Indices = np.argmax(advice, axis=1)
    if not (advice[np.arange(len(advice)), picks] == 1.0).all():
        raise InvalidParameter(
            "A class of policies consists of experts that put all probability on one action; one of these spreads it."
        )
    return picks


class Panel:
    """Ordered panel of experts; experts of a class that supports joint evaluation cost one call together.

    >>> from kernelbandits.policies.experts.library import ConstantExpert, UniformExpert
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
        self._groups = [(np.array(rows, dtype=np.intp), self._advice_of(kind, rows)) for kind, rows in places.items()]
        self._is_one_group = len(self._groups) == 1

    def __len__(self) -> int:
        return len(self.experts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Panel:
        """Return the panel itself: experts are immutable, and a copied policy uses the same ones."""
        del memo
        return self

    def __reduce__(self) -> tuple[type[Panel], tuple[tuple[Expert, ...]]]:
        """Pickle the experts only; the joint evaluation is rebuilt."""
        return Panel, (self.experts,)

    def advice_on(self, contexts: Points, n_actions: int) -> Matrix:
        """Return one row per expert with the probabilities of all actions of a round."""
        if self._is_one_group:
            return self._groups[0][1](contexts, n_actions)
        advice = np.empty((len(self.experts), n_actions))
        for rows, advise in self._groups:
            advice[rows] = advise(contexts, n_actions)
        return advice

    def advice(self, actions: Actions) -> Matrix:
        """Return one row per expert with the probabilities of the eligible actions.

        Experts receive the whole round. The probability of ineligible actions is redistributed over the eligible ones
        in proportion, or uniformly if their total is zero.
        """
        advice = self.advice_on(actions.whole, actions.n_rows)
        if actions.rows is None:
            return advice
        left = advice[:, actions.rows]
        mass = left.sum(axis=1, keepdims=True)
        return np.where(mass > 0.0, left / np.where(mass > 0.0, mass, 1.0), 1.0 / actions.n_actions)

    def subset(self, rows: Indices) -> list[Expert]:
        """Return some of the experts."""
        return [self.experts[row] for row in rows]

    @cached_property
    def digest(self) -> str:
        """Digest of the experts' descriptions, in order; distinguishes panels."""
        text = json.dumps([expert.describe() for expert in self.experts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _advice_of(self, kind: type, rows: Sequence[int]) -> JointAdvice:
        members = [self.experts[row] for row in rows]
        if hasattr(kind, "together"):
            joint: JointAdvice = kind.together(members)
            return joint
        return lambda contexts, n_actions: advice_of(members, contexts, n_actions)


def memo_array(decision: Decision, name: str, size: int) -> Vector:
    """Return an array of the memo; raise DecisionError if it is missing or has another length."""
    numbers = np.asarray(decision.memo.get(name, ()))
    if numbers.shape != (size,) or numbers.dtype.kind not in "biuf":
        raise DecisionError(
            f"Decision {decision.id!r} has to bring {size} numbers as memo[{name!r}], got {numbers.size}. Keep the "
            "decision that `choose` gave, memo included: to_dict() has it all."
        )
    return numbers.astype(np.float64)


def memo_shares(decision: Decision, name: str, size: int) -> Vector:
    """Return an array of probabilities of the memo, validated likewise."""
    shares = memo_array(decision, name, size)
    if not ((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all():
        raise DecisionError(
            f"Decision {decision.id!r} has to bring probabilities as memo[{name!r}], got {shares!r:.80}. Keep the "
            "decision that `choose` gave."
        )
    return shares


def known_propensity(decision: Decision) -> float:
    """Return the probability of the selected action; raise DecisionError if it is not a valid divisor."""
    if not 0.0 < decision.propensity <= 1.0:
        raise DecisionError(
            f"Rewards are divided by the decision's propensity, which lies above 0 and at most at 1; decision "
            f"{decision.id!r} has {decision.propensity!r}. Learn from decisions as `choose` gives them."
        )
    return float(decision.propensity)


def shares(log_weights: Vector) -> Vector:
    """Return weights proportional to exp(log_weights) with sum 1, without overflow for any size.

    >>> shares(np.array([5000.0, 5000.0]))
    array([0.5, 0.5])
    """
    weights: Vector = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights


LARGEST_LOG_WEIGHT: Final = 1e300
"""Largest absolute log-weight in a file: differences of two such numbers are finite."""


def saved_log_weights(state: Any, n_weights: int) -> Vector:
    """Return the log-weights of a file, or raise DamagedFile; `shares` accepts any of these."""
    return saved_array(state, "log_weights", "f", (n_weights,), least=-LARGEST_LOG_WEIGHT, most=LARGEST_LOG_WEIGHT)


def shared_row(contexts: Points) -> Vector:
    """Return the features of a round as a whole: the context of pairs, or the first row if actions are rows.

    >>> shared_row([[1.0, 2.0], [3.0, 4.0]])
    array([1., 2.])
    """
    if isinstance(contexts, Pairs | PairRows):
        contexts = contexts.context if isinstance(contexts, Pairs) else contexts.contexts
        contexts = contexts if is_sparse(contexts) else np.atleast_2d(contexts)
    if is_sparse(contexts):
        contexts = sound(contexts).tocsr()[[0]].toarray()
    rows = np.asarray(contexts)
    if rows.ndim != 2 or not len(rows) or rows.dtype.kind not in "buif":
        raise InvalidContexts(
            f"Columns are read from rows of numbers, or from the context of kb.Pairs, got {type(contexts).__name__} of "
            f"dtype {rows.dtype}."
        )
    row: Vector = rows[0].astype(np.float64)
    return row
