"""Many rounds at once, with the reward of every action: checked, and in blocks of equal shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts, InvalidReward
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["KnownRounds", "listed_rounds"]

NUMBERS_AT_ONCE: Final = 130_000
"""Of the contexts in a block that is copied together: one megabyte, which stays in cache."""

SMALL_ROUND: Final = 4_000
"""Numbers of the contexts of a round up to which all rounds are copied together at once: a copy costs less than a look
at each of them."""


def listed_rounds(rounds: Sequence[Points]) -> list[Points]:
    """One by one, or InvalidContexts."""
    try:
        if not isinstance(rounds, Catalogue | CatalogueView):
            return list(rounds)
    except TypeError:
        pass
    raise InvalidContexts(
        f"Rounds are a sequence with one set of actions each, got {type(rounds).__name__}. For one: choose(…)."
    )


class KnownRounds:
    """Checked points of every round, and what each of its actions would pay."""

    def __init__(
        self,
        rounds: Sequence[Points],
        rewards: Sequence[Any] | Matrix,
        *,
        points_of: Callable[[Points], Points],
        count: Callable[[Points], int],
        checked_rewards: Callable[[Any, int], Vector],
    ) -> None:
        n_rounds = _length(rounds, InvalidContexts("Rounds are a sequence with one set of actions each."))
        n_rewards = _length(rewards, InvalidReward("Rewards are a sequence with a row for each round."))
        if n_rounds != n_rewards:
            raise InvalidReward(f"Rewards are a row per round: there are {n_rounds} rounds and {n_rewards} rows.")
        self.whole = _as_one_array(rounds, points_of)
        """Rounds × actions × columns, where all rounds are rows of numbers of the same shape."""
        if self.whole is not None:
            shape = self.whole.shape
            self.whole = np.asarray(points_of(self.whole.reshape(-1, shape[2]))).reshape(shape)
        self.points: Any = [points_of(contexts) for contexts in rounds] if self.whole is None else self.whole
        sizes = [count(points) for points in self.points] if self.whole is None else [shape[1]] * shape[0]
        self.rewards: Sequence[Vector] | Matrix
        if isinstance(rewards, np.ndarray) and rewards.ndim == 2 and set(sizes) <= {rewards.shape[1]}:
            self.rewards = checked_rewards(rewards.reshape(-1), rewards.size).reshape(rewards.shape)
        else:
            self.rewards = [checked_rewards(row, size) for row, size in zip(rewards, sizes, strict=True)]

    def __len__(self) -> int:
        return len(self.points)

    def blocks(self, start: int) -> Iterator[tuple[int, NDArray[np.float64], Matrix]]:
        """From a round on: where a block begins, its contexts as rounds × actions × columns, and its rewards.

        It ends with the first round whose contexts are no rows of numbers. The contexts of a block are overwritten by
        those of the next.
        """
        if self.whole is not None:
            yield start, self.whole[start:], np.asarray(self.rewards[start:])
            return
        room = np.empty(0)
        while start < len(self.points) and type(self.points[start]) is np.ndarray:
            first = self.points[start]
            stop, last = start + 1, min(len(self.points), start + max(1, NUMBERS_AT_ONCE // first.size))
            while stop < last and getattr(self.points[stop], "shape", None) == first.shape:
                stop += 1
            if len(room) < (stop - start) * first.size:
                room = np.empty((last - start) * first.size)  # once: fresh memory costs as much as the copy
            block = room[: (stop - start) * first.size].reshape(stop - start, *first.shape)
            np.stack(self.points[start:stop], out=block)
            yield start, block, np.asarray(self.rewards[start:stop])
            start = stop


def _as_one_array(rounds: Sequence[Points], points_of: Callable[[Points], Points]) -> NDArray[np.float64] | None:
    """All rounds in one array, or None where they are not rows of one shape, or too large to copy."""
    first = rounds[0] if len(rounds) else None
    if first is None or type(points_of(first)) is not np.ndarray:  # then a point is more than a row
        return None
    if isinstance(rounds, np.ndarray):
        return rounds if rounds.ndim == 3 else None
    if type(first) is not np.ndarray or first.ndim != 2 or first.size > SMALL_ROUND:
        return None
    kind = first.shape, first.dtype
    if not all(type(points) is np.ndarray and (points.shape, points.dtype) == kind for points in rounds):
        return None
    return np.array(rounds)


def _length(values: Any, refusal: Exception) -> int:
    try:
        return len(values)
    except TypeError as error:
        raise refusal from error
