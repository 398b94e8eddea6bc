"""Experts and policy classes: constant, stump, linear and kernel ridge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import brief, repr_of_fields
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Kernel, KernelLike, Rows, as_kernel, kind_of, unpack_kernel
from kernelbandits.kernels._distances import dense
from kernelbandits.kernels.points import digest_of
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.policies.experts.base import (
    Expert,
    JointAdvice,
    Panel,
    all_on,
    checked_experts,
    picks_of,
    shared_row,
)
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection.ties import best_of_each
from kernelbandits.types import Matrix, Parameters, Points, Seed, Vector
from kernelbandits.validation import (
    MOST_IN_MEMORY,
    as_generator,
    check_float,
    check_int,
    check_list,
    check_positive,
    check_size,
    check_vector,
)

__all__ = [
    "ConstantExpert",
    "FiniteClass",
    "GreedyRidge",
    "LinearScorer",
    "PolicyClass",
    "Stump",
    "StumpClass",
    "UniformExpert",
    "constant_experts",
    "linear_experts",
    "ridge_experts",
    "stump_experts",
    "thresholds_between",
    "with_uniform",
]


@dataclass(frozen=True)
class UniformExpert:
    """Expert that assigns the same probability to every action.

    >>> UniformExpert().advise([[1.0], [2.0]])
    array([0.5, 0.5])
    """

    def advise(self, contexts: Points) -> Vector:
        """Return 1 / n for each of n actions."""
        n_actions = kind_of(contexts).count(contexts)
        return np.full(n_actions, 1.0 / n_actions)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "UniformExpert"}


@dataclass(frozen=True)
class ConstantExpert:
    """Expert that always advises the same row; the last row if the round has fewer.

    >>> ConstantExpert(1).advise([[1.0], [2.0], [3.0]])
    array([0., 1., 0.])
    """

    action: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", check_int(self.action, "The action", least=0, most=MOST_IN_MEMORY))

    def advise(self, contexts: Points) -> Vector:
        """Return 1 at its row."""
        advice = np.zeros(kind_of(contexts).count(contexts))
        advice[min(self.action, len(advice) - 1)] = 1.0
        return advice

    @staticmethod
    def together(experts: Sequence[ConstantExpert]) -> JointAdvice:
        """Return the joint advice of many experts."""
        rows = np.array([expert.action for expert in experts], dtype=np.intp)
        return lambda _, n_actions: all_on(rows, n_actions)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "ConstantExpert", "action": self.action}


def with_uniform(experts: Sequence[Expert]) -> tuple[Expert, ...]:
    """Return the experts, with a `UniformExpert` appended if there is none."""
    listed = checked_experts(experts)
    return listed if any(isinstance(expert, UniformExpert) for expert in listed) else (*listed, UniformExpert())


@dataclass(frozen=True, repr=False)
class LinearScorer:
    """Expert that advises the row x with the highest weights · x; the lowest row among ties.

    >>> LinearScorer((1.0, -1.0)).advise([[0.5, 0.5], [2.0, 1.0]])
    array([0., 1.])
    """

    __repr__ = repr_of_fields

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = check_vector(self.weights, "The weights of a linear scorer")
        if not len(weights):
            raise InvalidParameter("A linear scorer has a weight for each column of the contexts, got none.")
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    def advise(self, contexts: Points) -> Vector:
        """Return 1 at the row with the highest score."""
        rows = Rows().check(contexts)
        advice: Vector = self.together([self])(rows, rows.shape[0])[0]
        return advice

    @staticmethod
    def together(experts: Sequence[LinearScorer]) -> JointAdvice:
        """Return the joint advice of many experts: one matrix product for all with the same number of weights."""
        lengths = {len(expert.weights) for expert in experts}
        if len(lengths) > 1:
            raise InvalidParameter(f"All linear scorers of a policy have equally many weights, got {sorted(lengths)}.")
        weights = np.array([expert.weights for expert in experts])

        def advice(contexts: Points, n_actions: int) -> Matrix:
            if not (is_sparse(contexts) or isinstance(contexts, np.ndarray)) or contexts.shape[1] != weights.shape[1]:
                raise InvalidContexts(
                    f"These linear scorers weigh {weights.shape[1]} columns; actions must be rows of as many "
                    f"numbers, got {type(contexts).__name__}{getattr(contexts, 'shape', '')}."
                )
            return all_on(best_of_each((contexts @ weights.T).T), n_actions)

        return advice

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "LinearScorer", "weights": list(self.weights)}


@dataclass(frozen=True, kw_only=True)
class Stump:
    """Decision stump: one row if a column shared by all actions is at most a threshold, another row if it is above.

    The column is that of the round's first row, or of the context if the round is `Pairs`. A row index beyond the last
    row of a round is replaced by the last.

    >>> Stump(column=0, threshold=0.5, below=0, above=2).advise([[0.7], [0.7], [0.7]])
    array([0., 0., 1.])
    """

    column: int
    threshold: float
    below: int
    above: int

    def __post_init__(self) -> None:
        for name in ("column", "below", "above"):
            object.__setattr__(
                self, name, check_int(getattr(self, name), f"A stump's `{name}`", least=0, most=MOST_IN_MEMORY)
            )
        threshold = check_float(self.threshold, "A stump's threshold")
        if not np.isfinite(threshold):
            raise InvalidParameter(
                f"A stump's threshold must be finite, got {threshold}. ConstantExpert(row) never asks."
            )
        object.__setattr__(self, "threshold", threshold)

    def advise(self, contexts: Points) -> Vector:
        """Return 1 at the row selected by the column."""
        advice: Vector = self.together([self])(contexts, kind_of(contexts).count(contexts))[0]
        return advice

    @staticmethod
    def together(experts: Sequence[Stump]) -> JointAdvice:
        """Return the joint advice of many stumps."""
        columns = np.array([expert.column for expert in experts], dtype=np.intp)
        thresholds = np.array([expert.threshold for expert in experts])
        below = np.array([expert.below for expert in experts], dtype=np.intp)
        above = np.array([expert.above for expert in experts], dtype=np.intp)
        last = int(columns.max())

        def advice(contexts: Points, n_actions: int) -> Matrix:
            row = shared_row(contexts)
            if last >= len(row):
                raise InvalidContexts(f"A stump reads column {last}; this round has columns 0 to {len(row) - 1}.")
            return all_on(np.where(row[columns] <= thresholds, below, above), n_actions)

        return advice

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {
            "class": "Stump",
            "column": self.column,
            "threshold": self.threshold,
            "below": self.below,
            "above": self.above,
        }


def thresholds_between(values: Vector) -> Vector:
    """Return one threshold in each gap between the distinct values of a column.

    >>> thresholds_between(np.array([4.0, 0.0, 1.0, 0.0]))
    array([0.5, 2.5])
    """
    distinct = np.unique(values)
    low, high = distinct[:-1], distinct[1:]
    middle = np.maximum(low / 2.0 + high / 2.0, low)
    return np.where(middle < high, middle, low)  # adjacent floating-point numbers have no value between them


@dataclass(frozen=True, eq=False, repr=False)
class GreedyRidge:
    """Expert that advises the action with the highest estimate Σ α k(x, z) over points z; the lowest row among ties.

    Created by `taught`: α are the dual weights of kernel ridge regression, α = (K + γI)⁻¹ y.

    >>> from kernelbandits.kernels import Linear
    >>> GreedyRidge.taught(Linear(), [[1.0], [2.0]], [0.1, 0.4], regularization=0.5).advise([[0.5], [3.0]])
    array([0., 1.])
    """

    __repr__ = repr_of_fields

    kernel: Kernel
    regularization: float
    points: Points
    weights: Vector

    @classmethod
    def taught(cls, kernel: KernelLike, contexts: Points, rewards: ArrayLike, *, regularization: float) -> GreedyRidge:
        """Fit a model to actions and their rewards.

        Parameters
        ----------
        kernel
            Similarity of actions.
        contexts
            Actions that were selected, one per reward.
        rewards
            Their rewards.
        regularization
            γ, above zero.
        """
        posterior = ExactPosterior(as_kernel(kernel), regularization=regularization)
        posterior.observe(contexts, rewards)
        if not posterior.n_observations:
            raise InvalidContexts("A ridge expert is taught by at least one action and its reward, got none.")
        points, weights, _, _ = posterior.support()
        kind = posterior.kernel.kind
        own = kind.take(points, np.arange(kind.count(points)))  # copy: the caller may change the original
        return cls(posterior.kernel, posterior.regularization, own, weights)

    def estimate(self, contexts: Points) -> Vector:
        """Return the estimated reward of each action."""
        estimates: Vector = self.kernel.gram(self.kernel.kind.check(contexts), self.points) @ self.weights
        return estimates

    def advise(self, contexts: Points) -> Vector:
        """Return 1 at the action with the highest estimate."""
        estimates = self.estimate(contexts)
        advice: Vector = all_on(best_of_each(estimates[None]), len(estimates))[0]
        return advice

    @staticmethod
    def together(experts: Sequence[GreedyRidge]) -> JointAdvice:
        """Return the joint advice of many experts: one Gram matrix for all with the same kernel and points."""
        groups: dict[tuple[int, str], list[int]] = {}
        kernels: list[Kernel] = []
        for place, expert in enumerate(experts):
            known = next((n for n, kernel in enumerate(kernels) if kernel == expert.kernel), len(kernels))
            if known == len(kernels):
                kernels.append(expert.kernel)
            groups.setdefault((known, expert.points_digest()), []).append(place)
        stacked = [
            (experts[rows[0]], rows, np.array([experts[row].weights for row in rows])) for rows in groups.values()
        ]

        def advice(contexts: Points, n_actions: int) -> Matrix:
            estimates = np.empty((len(experts), n_actions))
            for first, rows, weights in stacked:
                kernel = first.kernel
                estimates[rows] = weights @ kernel.gram(first.points, kernel.kind.check(contexts))
            return all_on(best_of_each(estimates), n_actions)

        return advice

    def points_digest(self) -> str:
        """Digest of the points: equal for equal points."""
        return digest_of(self.kernel.kind, self.points)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {
            "class": "GreedyRidge",
            "kernel": self.kernel.describe(),
            "regularization": self.regularization,
            "points": self.points_digest(),
            "weights": hashlib.sha256(self.weights.tobytes()).hexdigest()[:16],
        }

    def pack(self) -> Parameters:
        """Return plain values and arrays for a file; raise CannotSave if the kernel is user-defined."""
        parameters, arrays = self.kernel.pack()
        return {
            "kernel": {"parameters": parameters, "arrays": arrays},
            "regularization": self.regularization,
            "points": self.kernel.kind.pack(self.points),
            "weights": self.weights,
        }

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> GreedyRidge:
        """Inverse of `pack`."""
        kernel = unpack_kernel(packed["kernel"]["parameters"], packed["kernel"]["arrays"])
        return cls(kernel, packed["regularization"], kernel.kind.unpack(packed["points"]), packed["weights"])


MOST_EXPERTS: Final = 10**7
"""Largest number of experts that a factory creates."""


def constant_experts(n_actions: int) -> list[ConstantExpert]:
    """Return one expert per row that always advises this row.

    >>> constant_experts(2)
    [ConstantExpert(action=0), ConstantExpert(action=1)]
    """
    return [
        ConstantExpert(action) for action in range(check_int(n_actions, "The number of actions", most=MOST_EXPERTS))
    ]


def stump_experts(
    contexts: Points, *, n_actions: int, per_feature: int = 10, columns: Sequence[int] | None = None
) -> list[Stump]:
    """Return threshold rules on single columns: for each threshold, every pair of different rows below and above it.

    A column with only one value has no threshold. Stumps with equal rows would be `constant_experts`.

    Parameters
    ----------
    contexts
        Sample of rounds, one row per round (rounds × columns): thresholds are quantiles of its columns.
    n_actions
        The stumps advise rows 0 to n_actions − 1.
    per_feature
        Largest number of thresholds per column, evenly spaced over its quantiles.
    columns
        The columns to use; None: all.

    >>> [stump.threshold for stump in stump_experts([[0.0], [1.0], [4.0]], n_actions=2, per_feature=2)]
    [0.5, 0.5, 2.5, 2.5]
    """
    n_actions = check_int(n_actions, "The number of actions", least=2, hint="One action leaves nothing to choose.")
    per_feature = check_int(per_feature, "The number of thresholds per feature")
    rows = Rows().check(contexts)
    rows = dense(rows)
    looked_at = range(rows.shape[1]) if columns is None else check_list(columns, "Columns")
    check_size("Stumps", len(looked_at) * per_feature, n_actions, n_actions)
    experts = []
    for column in looked_at:
        if check_int(column, "A column", least=0) >= rows.shape[1]:
            raise InvalidParameter(f"There is no column {column}: the contexts have {rows.shape[1]}, counted from 0.")
        between = thresholds_between(rows[:, int(column)])
        if len(between) > per_feature:
            between = between[np.linspace(0, len(between) - 1, per_feature + 2)[1:-1].round().astype(np.intp)]
        experts += [
            Stump(column=int(column), threshold=float(threshold), below=below, above=above)
            for threshold in between
            for below, above in permutations(range(n_actions), 2)
        ]
    return experts


def linear_experts(n_features: int, *, n_experts: int = 100, seed: Seed = None) -> list[LinearScorer]:
    """Return linear scorers with random weights, uniformly distributed over all directions.

    >>> [len(expert.weights) for expert in linear_experts(3, n_experts=2, seed=0)]
    [3, 3]
    """
    n_features = check_int(n_features, "The number of features")
    n_experts = check_int(n_experts, "The number of experts")
    check_size("The weights of experts", n_experts, n_features)
    weights = as_generator(seed).normal(size=(n_experts, n_features))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return [LinearScorer(tuple(row)) for row in weights.tolist()]


def ridge_experts(
    kernels: Iterable[KernelLike] | KernelLike,
    contexts: Points,
    rewards: ArrayLike,
    *,
    regularization: float | Sequence[float] = 1.0,
) -> list[GreedyRidge]:
    """Return greedy kernel ridge models, one per kernel and regularization, all fitted to the same historical data.

    Parameters
    ----------
    kernels
        One or several kernels: similarities of actions.
    contexts
        Actions that were selected, one per reward.
    rewards
        Their rewards.
    regularization
        One γ or several.

    >>> from kernelbandits.kernels import Gaussian, Linear
    >>> len(ridge_experts([Linear(), Gaussian(length_scale=0.5)], [[1.0], [2.0]], [0.1, 0.4], regularization=[0.1, 1]))
    4
    """
    listed = list(kernels) if isinstance(kernels, list | tuple) else [kernels]
    are_many = isinstance(regularization, Iterable) and getattr(regularization, "ndim", 1) > 0
    gammas = check_list(regularization, "The regularizations") if are_many else [regularization]  # type: ignore[arg-type]
    return [
        GreedyRidge.taught(kernel, contexts, rewards, regularization=check_positive(gamma, "The regularization"))  # type: ignore[arg-type]
        for kernel in listed
        for gamma in gammas
    ]


@runtime_checkable
class PolicyClass(Protocol):
    """Interface of policy classes; each policy selects one action of a round."""

    def summarize_round(self, contexts: Points, n_actions: int) -> Vector:
        """Return a fixed-length summary of a round: all that the class needs to know of it."""

    def distinct(self, summaries: Matrix) -> Sequence[Expert]:
        """Return one policy per distinct labeling of these rounds: per distinct sequence of selected actions."""

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""


class FiniteClass:
    """Finite policy class: experts that each put probability 1 on one action.

    >>> from kernelbandits.policies.experts.library import ConstantExpert
    >>> policies = FiniteClass([ConstantExpert(0), ConstantExpert(1), ConstantExpert(2)])
    >>> summaries = np.array([policies.summarize_round([[1.0], [2.0]], 2)])
    >>> policies.distinct(summaries)  # of two actions, ConstantExpert(2) plays the last as well
    [ConstantExpert(action=0), ConstantExpert(action=1)]
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.panel = Panel(experts)

    def __repr__(self) -> str:
        return f"FiniteClass({len(self.panel)} experts)"

    def summarize_round(self, contexts: Points, n_actions: int) -> Vector:
        """Return the row that each policy selects."""
        return picks_of(self.panel.advice_on(contexts, n_actions)).astype(np.float64)

    def distinct(self, summaries: Matrix) -> list[Expert]:
        """Return the first policy of each labeling, in order."""
        _, first = np.unique(summaries, axis=1, return_index=True)
        return self.panel.subset(np.sort(first))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "FiniteClass", "n_experts": len(self.panel), "digest": self.panel.digest}


MOST_COLUMNS: Final = 10**6
"""Largest number of columns of a class that is given by their number."""


class StumpClass:
    """Class of all stumps on given columns: every threshold and pair of rows below and above it, and all constants.

    The class is infinite, but n rounds distinguish only as many policies as there are gaps between their values: with
    two actions and one column of distinct values, 2n.

    Parameters
    ----------
    columns
        Columns that a stump may use; a number n means the first n columns.
    n_actions
        The stumps select rows 0 to n_actions − 1.

    >>> StumpClass(1).distinct(np.array([[0.5], [1.5]]))  # doctest: +NORMALIZE_WHITESPACE
    [ConstantExpert(action=0), ConstantExpert(action=1),
     Stump(column=0, threshold=1.0, below=0, above=1), Stump(column=0, threshold=1.0, below=1, above=0)]
    """

    def __init__(self, columns: int | Sequence[int], *, n_actions: int = 2) -> None:
        if isinstance(columns, int):
            columns = range(check_int(columns, "The number of columns", most=MOST_COLUMNS))
        listed = [
            check_int(column, "A column", least=0, most=MOST_IN_MEMORY) for column in check_list(columns, "Columns")
        ]
        self.columns = tuple(dict.fromkeys(listed))
        check_int(len(self.columns), "The number of columns")
        self.n_actions = check_int(n_actions, "The number of actions", least=2)

    def __repr__(self) -> str:
        return f"StumpClass({brief(list(self.columns))}, n_actions={self.n_actions})"

    def summarize_round(self, contexts: Points, n_actions: int) -> Vector:
        """Return the columns, as shared by all actions of the round."""
        del n_actions
        row = shared_row(contexts)
        if max(self.columns) >= len(row):
            raise InvalidContexts(
                f"These stumps read column {max(self.columns)}; this round has columns 0 to {len(row) - 1}."
            )
        return row[list(self.columns)]

    def distinct(self, summaries: Matrix) -> list[Expert]:
        """Return constant rows first, then each split of the rounds in two with all pairs of rows.

        A split and its complement are the same, since every pair of rows occurs in both orders.
        """
        known: dict[bytes, tuple[int, float]] = {}
        for place, column in enumerate(self.columns):
            for threshold in thresholds_between(summaries[:, place]):
                is_below = summaries[:, place] <= threshold
                known.setdefault(np.packbits(is_below ^ is_below[0]).tobytes(), (column, float(threshold)))
        constants: list[Expert] = [ConstantExpert(action) for action in range(self.n_actions)]
        return constants + [
            Stump(column=column, threshold=threshold, below=below, above=above)
            for column, threshold in known.values()
            for below, above in permutations(range(self.n_actions), 2)
        ]

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "StumpClass", "columns": list(self.columns), "n_actions": self.n_actions}
