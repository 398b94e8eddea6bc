"""Pairs of a context and an action, and kernels over them.

Reference: Krause and Ong (2011), CGP-UCB.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits._saved_state import below
from kernelbandits.errors import DamagedFile, InvalidContexts
from kernelbandits.kernels.base import Kernel, check_kernel
from kernelbandits.kernels.composite import (
    paired_features,
    weighted_gradient,
    weighted_parameters,
    weighted_parts,
    weights_of_factor,
    with_values,
)
from kernelbandits.kernels.points import PointKind, Shared, check_kind, describe_kind
from kernelbandits.types import Indices, Matrix, Pairs, Parameters, Point, Points, Vector

__all__ = ["PairPoints", "PairProduct", "PairRows", "PairSum"]


class PairRows:
    """Canonical pairs: two collections of equal length; the first may be a single point shared by all pairs."""

    __slots__ = ("actions", "contexts", "is_shared")

    def __init__(self, contexts: Points, actions: Points, *, is_shared: bool) -> None:
        self.contexts, self.actions, self.is_shared = contexts, actions, is_shared


class PairPoints(Shared):
    """Kind of pairs of a context and an action, each half with its own kind.

    A round is `Pairs(context, actions)`; learned data are many pairs, each with its own context.
    """

    def __init__(self, context: PointKind, action: PointKind) -> None:
        for kind in (context, action):
            if isinstance(kind, type) or not hasattr(kind, "check"):  # cheap: kernels create a kind on every access
                check_kind(kind)
        self.context, self.action = context, action

    def check(self, points: Points) -> PairRows:
        if isinstance(points, PairRows):
            return points
        if not isinstance(points, Pairs):
            raise InvalidContexts(
                f"This kernel compares (context, action) pairs, got {type(points).__name__}. Give the round as "
                "kb.Pairs(context, actions)."
            )
        return PairRows(self.context.as_collection(points.context), self.action.check(points.actions), is_shared=True)

    def count(self, points: PairRows) -> int:
        return self.action.count(points.actions)

    def take(self, points: PairRows, rows: Indices) -> PairRows:
        context_rows = np.zeros(len(rows), dtype=np.intp) if points.is_shared else rows
        contexts = self.context.take(points.contexts, context_rows)
        return PairRows(contexts, self.action.take(points.actions, rows), is_shared=False)

    def one(self, points: PairRows, row: int) -> Pairs:
        context = self.context.one(points.contexts, 0 if points.is_shared else row)
        return Pairs(context, self.action.one(points.actions, row))

    def as_collection(self, point: Point) -> PairRows:
        if not isinstance(point, Pairs):
            raise InvalidContexts(f"A pair is kb.Pairs(context, action), got {type(point).__name__}.")
        return PairRows(
            self.context.as_collection(point.context), self.action.as_collection(point.actions), is_shared=False
        )

    def from_trusted(self, point: Point) -> PairRows:
        return PairRows(
            self.context.from_trusted(point.context), self.action.from_trusted(point.actions), is_shared=False
        )

    def validate_comparable(self, known: PairRows, points: PairRows) -> None:
        self.context.validate_comparable(known.contexts, points.contexts)
        self.action.validate_comparable(known.actions, points.actions)

    def stack(self, *collections: PairRows) -> PairRows:
        pairs = [self.spread(points) for points in collections]
        contexts = self.context.stack(*(points.contexts for points in pairs))
        return PairRows(contexts, self.action.stack(*(points.actions for points in pairs)), is_shared=False)

    def keys(self, points: PairRows) -> list[Hashable]:
        context_keys = self.context.keys(points.contexts)
        action_keys = self.action.keys(points.actions)
        if points.is_shared:
            context_keys = context_keys * len(action_keys)
        return list(zip(context_keys, action_keys, strict=True))

    def grow(self, store: Any, count: int, points: PairRows) -> tuple[Any, Any]:
        contexts, actions = (None, None) if store is None else store
        points = self.spread(points)
        return self.context.grow(contexts, count, points.contexts), self.action.grow(actions, count, points.actions)

    def view(self, store: Any, count: int) -> PairRows:
        contexts, actions = store
        return PairRows(self.context.view(contexts, count), self.action.view(actions, count), is_shared=False)

    def pack(self, points: PairRows) -> dict[str, NDArray[Any]]:
        points = self.spread(points)
        halves = {"context": self.context.pack(points.contexts), "action": self.action.pack(points.actions)}
        return {f"{half}.{name}": array for half, arrays in halves.items() for name, array in arrays.items()}

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> PairRows:
        contexts = self.context.unpack(below("context.", arrays))
        actions = self.action.unpack(below("action.", arrays))
        if self.context.count(contexts) != self.action.count(actions):
            raise DamagedFile("The pairs in the file must have equally many contexts and actions.")
        return PairRows(contexts, actions, is_shared=False)

    def describe(self) -> Parameters:
        """Kinds of both halves as plain values."""
        return {"context": describe_kind(self.context), "action": describe_kind(self.action)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairPoints) and (other.context, other.action) == (self.context, self.action)

    def __hash__(self) -> int:
        return hash((PairPoints, self.context, self.action))

    def __repr__(self) -> str:
        return f"PairPoints({self.context!r}, {self.action!r})"

    def spread(self, points: PairRows) -> PairRows:
        """The same pairs with one context per pair."""
        return self.take(points, np.arange(self.count(points))) if points.is_shared else points


@dataclass(frozen=True, repr=False)
class _PairKernel(Kernel):
    """Base class: one kernel per half. Similarities of a context shared by all pairs are computed once."""

    context: Kernel
    action: Kernel

    def __post_init__(self) -> None:
        check_kernel(self.context)
        check_kernel(self.action)

    @property
    def kind(self) -> PairPoints:  # type: ignore[override]
        return PairPoints(self.context.kind, self.action.kind)

    def _halves(self, first: Points, second: Points | None) -> tuple[Matrix, Matrix]:
        """Similarities of the contexts, broadcastable to the similarities of the actions, and the latter."""
        left = self.kind.check(first)
        if second is None and not left.is_shared:
            return self.context.gram(left.contexts), self.action.gram(left.actions)
        right = left if second is None else self.kind.check(second)
        actions = self.action.gram(left.actions, None if second is None else right.actions)
        return self.context.gram(left.contexts, right.contexts), actions

    def _diagonals(self, points: Points) -> tuple[Vector, Vector]:
        pairs = self.kind.check(points)
        return self.context.diagonal(pairs.contexts), self.action.diagonal(pairs.actions)

    def _sizes(self, points: Points) -> tuple[int, int] | None:
        """Numbers of features of both halves, or None if one has no finite feature map."""
        pairs = self.kind.check(points)
        sizes = self.context.n_features(pairs.contexts), self.action.n_features(pairs.actions)
        return None if sizes[0] is None or sizes[1] is None else (sizes[0], sizes[1])

    def _features(self, points: Points) -> tuple[Matrix, Matrix]:
        """Features of both halves, one row per pair."""
        pairs = self.kind.check(points)
        contexts, actions = self.context.features(pairs.contexts), self.action.features(pairs.actions)
        return np.broadcast_to(contexts, (len(actions), contexts.shape[1])), actions


@dataclass(frozen=True, repr=False)
class PairProduct(_PairKernel):
    """k_context · k_action: observations of an action inform about it in similar contexts.

    >>> from kernelbandits.kernels import Gaussian, Spectrum
    >>> kernel = PairProduct(context=Gaussian(length_scale=1.0), action=Spectrum(n=2))
    >>> kernel.gram(Pairs([0.5, 1.0], ["apple", "apply", "pear"])).round(2)
    array([[1.  , 0.75, 0.  ],
           [0.75, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        contexts, actions = self._halves(first, second)
        return contexts * actions

    def diagonal(self, points: Points) -> Vector:
        contexts, actions = self._diagonals(points)
        return contexts * actions

    def n_features(self, points: Points) -> int | None:
        sizes = self._sizes(points)
        return None if sizes is None else sizes[0] * sizes[1]

    def features(self, points: Points) -> Matrix:
        """All products of a feature of the context and a feature of the action."""
        return paired_features(*self._features(points))

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        left, right = self.kind.check(first), self.kind.check(second)
        similarity = self.context.gram(left.contexts, right.contexts)
        return self.action.gradient(left.actions, right.actions, weights * similarity)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        contexts, actions = self._features(points)
        return self.action.feature_gradient(
            self.kind.check(points).actions, weights_of_factor(weights, [contexts, actions], 1)
        )

    def log_parameters(self) -> Vector:
        return np.concatenate([self.context.log_parameters(), self.action.log_parameters()])

    def with_log_parameters(self, values: Vector) -> PairProduct:
        return PairProduct(*with_values((self.context, self.action), values))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        pairs = self.kind.spread(self.kind.check(points))
        contexts, actions = self._halves(pairs, None)
        of_context = self.context.parameter_gradient(pairs.contexts, weights * actions)
        return np.concatenate([of_context, self.action.parameter_gradient(pairs.actions, weights * contexts)])


@dataclass(frozen=True, repr=False)
class PairSum(_PairKernel):
    """k_context + k_action: models the reward as a term of the context plus a term of the action.

    The context term is the same for all actions of a round: it does not affect the choice by itself, and it explains
    rewards that are high or low for all actions alike.
    """

    def gram(self, first: Points, second: Points | None = None) -> Matrix:
        contexts, actions = self._halves(first, second)
        return contexts + actions

    def diagonal(self, points: Points) -> Vector:
        contexts, actions = self._diagonals(points)
        return contexts + actions

    def n_features(self, points: Points) -> int | None:
        sizes = self._sizes(points)
        return None if sizes is None else sizes[0] + sizes[1]

    def features(self, points: Points) -> Matrix:
        """Features of the context and of the action, concatenated."""
        return np.hstack(self._features(points))

    def gradient(self, first: Points, second: Points, weights: Matrix) -> Matrix:
        return self.action.gradient(self.kind.check(first).actions, self.kind.check(second).actions, weights)

    def feature_gradient(self, points: Points, weights: Matrix) -> Matrix:
        actions = self.kind.check(points).actions
        n_features = self.action.n_features(actions)
        return self.action.feature_gradient(actions, weights[:, weights.shape[1] - int(n_features or 0) :])

    def log_parameters(self) -> Vector:
        return weighted_parameters((self.context, self.action))

    def with_log_parameters(self, values: Vector) -> PairSum:
        return PairSum(*weighted_parts((self.context, self.action), values))

    def parameter_gradient(self, points: Points, weights: Matrix) -> Vector:
        pairs = self.kind.spread(self.kind.check(points))
        return weighted_gradient([(self.context, pairs.contexts, weights), (self.action, pairs.actions, weights)])
