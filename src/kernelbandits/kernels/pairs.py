"""Pairs of a context and an action, and kernels over them (CGP-UCB)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels.points import PointKind
from kernelbandits.types import Indices, Pairs, Point, Points

__all__ = ["PairPoints", "PairRows"]


class PairRows:
    """Canonical pairs: two collections side by side; the first may be a single point that all share."""

    __slots__ = ("actions", "contexts", "is_shared")

    def __init__(self, contexts: Points, actions: Points, *, is_shared: bool) -> None:
        self.contexts, self.actions, self.is_shared = contexts, actions, is_shared


class PairPoints:
    """Pairs of a context and an action, each half with its own kind.

    A round is `Pairs(context, actions)`; what was learnt is many pairs, each with its own context.
    """

    def __init__(self, context: PointKind, action: PointKind) -> None:
        self.context, self.action = context, action

    def check(self, points: Points) -> PairRows:
        if isinstance(points, PairRows):
            return points
        if not isinstance(points, Pairs):
            raise InvalidContexts(
                f"This kernel compares (context, action) pairs, got {type(points).__name__}. Give the round as "
                "kb.Pairs(context, actions)."
            )
        return PairRows(self.context.single(points.context), self.action.check(points.actions), is_shared=True)

    def count(self, points: PairRows) -> int:
        return self.action.count(points.actions)

    def take(self, points: PairRows, rows: Indices) -> PairRows:
        context_rows = np.zeros(len(rows), dtype=np.intp) if points.is_shared else rows
        contexts = self.context.take(points.contexts, context_rows)
        return PairRows(contexts, self.action.take(points.actions, rows), is_shared=False)

    def one(self, points: PairRows, row: int) -> Pairs:
        context = self.context.one(points.contexts, 0 if points.is_shared else row)
        return Pairs(context, self.action.one(points.actions, row))

    def single(self, point: Point) -> PairRows:
        if not isinstance(point, Pairs):
            raise InvalidContexts(f"A pair is kb.Pairs(context, action), got {type(point).__name__}.")
        return PairRows(self.context.single(point.context), self.action.single(point.actions), is_shared=False)

    def stack(self, first: PairRows, second: PairRows) -> PairRows:
        first, second = self._spread(first), self._spread(second)
        contexts = self.context.stack(first.contexts, second.contexts)
        return PairRows(contexts, self.action.stack(first.actions, second.actions), is_shared=False)

    def keys(self, points: PairRows) -> list[Hashable]:
        context_keys = self.context.keys(points.contexts)
        action_keys = self.action.keys(points.actions)
        if points.is_shared:
            context_keys = context_keys * len(action_keys)
        return list(zip(context_keys, action_keys, strict=True))

    def grow(self, store: Any, count: int, points: PairRows) -> tuple[Any, Any]:
        contexts, actions = (None, None) if store is None else store
        points = self._spread(points)
        return self.context.grow(contexts, count, points.contexts), self.action.grow(actions, count, points.actions)

    def view(self, store: Any, count: int) -> PairRows:
        contexts, actions = store
        return PairRows(self.context.view(contexts, count), self.action.view(actions, count), is_shared=False)

    def pack(self, points: PairRows) -> dict[str, NDArray[Any]]:
        points = self._spread(points)
        halves = {"context": self.context.pack(points.contexts), "action": self.action.pack(points.actions)}
        return {f"{half}.{name}": array for half, arrays in halves.items() for name, array in arrays.items()}

    def unpack(self, arrays: Mapping[str, NDArray[Any]]) -> PairRows:
        contexts = self.context.unpack(_below("context.", arrays))
        return PairRows(contexts, self.action.unpack(_below("action.", arrays)), is_shared=False)

    def _spread(self, points: PairRows) -> PairRows:
        """The same pairs, each with its own context."""
        return self.take(points, np.arange(self.count(points))) if points.is_shared else points


def _below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
