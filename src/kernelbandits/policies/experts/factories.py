"""Whole families of experts, for every policy that takes such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_count, a_generator, a_list, a_size, positive
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import KernelLike, Rows
from kernelbandits.kernels.pairwise import dense
from kernelbandits.policies.experts.basic_experts import ConstantExpert
from kernelbandits.policies.experts.greedy_ridge import GreedyRidge
from kernelbandits.policies.experts.linear_scorer import LinearScorer
from kernelbandits.policies.experts.stump import Stump, thresholds_between
from kernelbandits.types import Points, Seed

__all__ = ["constant_experts", "linear_experts", "ridge_experts", "stump_experts"]


MOST_EXPERTS: Final = 10**7
"""That are made one by one."""


def constant_experts(n_actions: int) -> list[ConstantExpert]:
    """One expert per row that always advises this row.

    >>> constant_experts(2)
    [ConstantExpert(action=0), ConstantExpert(action=1)]
    """
    return [ConstantExpert(action) for action in range(a_count(n_actions, "The number of actions", most=MOST_EXPERTS))]


def stump_experts(
    contexts: Points, *, n_actions: int, per_feature: int = 10, columns: Sequence[int] | None = None
) -> list[Stump]:
    """Thresholds on single columns: for each of them every two different rows, one below and one above.

    A column that takes one value only has no threshold. `constant_experts` are what stumps with equal rows would be.

    Parameters
    ----------
    contexts
        What rounds look like, one row per round (rounds × columns): thresholds are quantiles of its columns.
    n_actions
        Rows 0 to n_actions − 1 are played.
    per_feature
        Thresholds per column at most, evenly spread over its quantiles.
    columns
        The columns to look at; None: all.

    >>> [stump.threshold for stump in stump_experts([[0.0], [1.0], [4.0]], n_actions=2, per_feature=2)]
    [0.5, 0.5, 2.5, 2.5]
    """
    n_actions = a_count(n_actions, "The number of actions", least=2, way_out="One action leaves nothing to choose.")
    per_feature = a_count(per_feature, "The number of thresholds per feature")
    rows = Rows().check(contexts)
    rows = dense(rows)
    looked_at = range(rows.shape[1]) if columns is None else a_list(columns, "Columns")
    a_size("Stumps", len(looked_at) * per_feature, n_actions, n_actions)
    experts = []
    for column in looked_at:
        if a_count(column, "A column", least=0) >= rows.shape[1]:
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
    """Linear scorers whose weights are drawn evenly from all directions.

    >>> [len(expert.weights) for expert in linear_experts(3, n_experts=2, seed=0)]
    [3, 3]
    """
    n_features = a_count(n_features, "The number of features")
    n_experts = a_count(n_experts, "The number of experts")
    a_size("The weights of experts", n_experts, n_features)
    weights = a_generator(seed).normal(size=(n_experts, n_features))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return [LinearScorer(tuple(row)) for row in weights.tolist()]


def ridge_experts(
    kernels: Iterable[KernelLike] | KernelLike,
    contexts: Points,
    rewards: ArrayLike,
    *,
    regularisation: float | Sequence[float] = 1.0,
) -> list[GreedyRidge]:
    """Greedy kernel ridge models, one per kernel and regularisation, all taught by the same history.

    Parameters
    ----------
    kernels
        Similarities of actions, or one.
    contexts
        Actions that were played, one per reward.
    rewards
        What they paid.
    regularisation
        One γ or several.

    >>> from kernelbandits.kernels import Gaussian, Linear
    >>> len(ridge_experts([Linear(), Gaussian(length_scale=0.5)], [[1.0], [2.0]], [0.1, 0.4], regularisation=[0.1, 1]))
    4
    """
    listed = list(kernels) if isinstance(kernels, list | tuple) else [kernels]
    are_many = isinstance(regularisation, Iterable) and getattr(regularisation, "ndim", 1) > 0
    gammas = a_list(regularisation, "The regularisations") if are_many else [regularisation]  # type: ignore[arg-type]
    return [
        GreedyRidge.taught(kernel, contexts, rewards, regularisation=positive(gamma, "The regularisation"))  # type: ignore[arg-type]
        for kernel in listed
        for gamma in gammas
    ]
