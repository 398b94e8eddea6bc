"""Many rounds at once, with the reward of every action: checked, and in blocks of equal shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts, InvalidReward
from kernelbandits.kernels.rows import FLOAT64
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["KnownRounds", "listed_rounds"]

NUMBERS_AT_ONCE: Final = 130_000
"""Of the contexts in a block that is copied together: one megabyte, which stays in cache."""


SMALL_ROUND: Final = 500
"""Numbers of the contexts of a round up to which a copy costs less than a look at it alone."""


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
        self.whole: NDArray[np.float64] | None = None
        """Rounds × actions × columns, where the rounds came as one array."""
        self._room: Vector = np.zeros(0)
        plain = points_of(rounds[0]) if n_rounds else None
        if isinstance(rounds, np.ndarray) and rounds.ndim == 3 and type(plain) is np.ndarray:
            self.whole = np.asarray(points_of(rounds.reshape(-1, rounds.shape[2]))).reshape(rounds.shape)
        self.points: Any = rounds if self.whole is None else self.whole
        self._is_even = self.whole is not None or (plain is not None and _are_alike(rounds, plain))
        if self.whole is None and plain is not None:
            self._check_all(rounds, plain, points_of)
        sizes = {count(points) for points in (self.points[:1] if self._is_even else self.points)}
        self.rewards: Sequence[Vector] | Matrix
        if isinstance(rewards, np.ndarray) and rewards.ndim == 2 and sizes <= {rewards.shape[1]}:
            self.rewards = checked_rewards(rewards.reshape(-1), rewards.size).reshape(rewards.shape)
        else:
            self.rewards = [
                checked_rewards(row, count(points)) for row, points in zip(rewards, self.points, strict=True)
            ]

    def _check_all(self, rounds: Sequence[Points], first: Points, points_of: Callable[[Points], Points]) -> None:
        """Small rounds of one shape many at a time, others one by one."""
        if not self._is_even or first.size > SMALL_ROUND:
            self.points = [points_of(contexts) for contexts in rounds]
            return
        for start in range(0, len(rounds), self._at_once(first)):
            block = self._stacked(start, min(len(rounds), start + self._at_once(first)))
            points_of(block.reshape(-1, first.shape[1]))

    def _at_once(self, points: NDArray[np.float64]) -> int:
        """Rounds like this one in a block."""
        return max(1, NUMBERS_AT_ONCE // points.size)

    def _stacked(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rounds of the same shape in one array, which the next call overwrites."""
        shape, size = self.points[start].shape, self.points[start].size
        if len(self._room) < (stop - start) * size:
            self._room = np.empty((stop - start) * size)  # once: fresh memory costs more than the copy
        block = self._room[: (stop - start) * size].reshape(stop - start, *shape)
        np.concatenate(self.points[start:stop], out=block.reshape(-1, shape[1]))
        return block

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
        while start < len(self.points) and type(self.points[start]) is np.ndarray:
            first = self.points[start]
            stop, last = start + 1, min(len(self.points), start + self._at_once(first))
            while stop < last and (self._is_even or getattr(self.points[stop], "shape", None) == first.shape):
                stop = last if self._is_even else stop + 1
            yield start, self._stacked(start, stop), np.asarray(self.rewards[start:stop])
            start = stop


def _are_alike(rounds: Sequence[Points], first: Points) -> bool:
    """Whether all are rows of float64 of one shape, so that they can be looked at together."""
    if type(first) is not np.ndarray:  # then a point is more than a row
        return False
    shape = first.shape
    for points in rounds:
        if type(points) is not np.ndarray or points.shape != shape or points.dtype is not FLOAT64:
            return False
    return all(points.flags.c_contiguous for points in rounds)


def _length(values: Any, refusal: Exception) -> int:
    try:
        return len(values)
    except TypeError as error:
        raise refusal from error
