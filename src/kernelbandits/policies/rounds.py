"""Batches of rounds with the reward of every action: validation and grouping into blocks of equal shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts, InvalidReward
from kernelbandits.kernels.rows import FLOAT64
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.selection.actions import checked_ids, eligible_rows, one_id_per_action
from kernelbandits.types import ItemId, Matrix, Points, Vector
from kernelbandits.validation import as_iterable, as_list, check_list

__all__ = [
    "KnownRounds",
    "RewardLog",
    "listed_rounds",
    "per_round",
]


@runtime_checkable
class RewardLog(Protocol):
    """Observed actions of another policy with their rewards; a `Log` is one."""

    def observations(self) -> Iterator[tuple[Points, ItemId, float]]:
        """Yield every observed action, as a set of one action, with its id and its reward."""


NUMBERS_AT_ONCE: Final = 130_000
"""Largest number of context values copied per block: one megabyte, which fits in the cache."""


def listed_rounds(rounds: Sequence[Points]) -> list[Points]:
    """Return the rounds as a list, or raise InvalidContexts."""
    try:
        if not isinstance(rounds, Catalog | CatalogView | Mapping | set | frozenset):
            return as_list(rounds)
    except TypeError:
        pass
    raise InvalidContexts(
        f"Rounds are a sequence with one set of actions each, got {type(rounds).__name__}. For one: choose(…)."
    )


def per_round(values: Sequence[Any] | None, n_rounds: int, name: str) -> list[Any]:
    """Return one entry per round; raise InvalidContexts for any other number. None stands for none in every round."""
    if values is None:
        return [None] * n_rounds
    listed = check_list(values, f"`{name}` of many rounds")
    if len(listed) != n_rounds:
        raise InvalidContexts(
            f"Every round has its entry of `{name}` or None: there are {n_rounds} rounds and {len(listed)} entries."
        )
    return listed


class KnownRounds:
    """Points of every round, and the reward of each of its actions.

    Rows of float64 with the same shape in all rounds are validated only when they are run: by `round`, or by the loop
    that runs `blocks` and stops at a value that is not finite. Validating all of them beforehand would take as long as
    running them.
    """

    def __init__(
        self,
        rounds: Sequence[Points],
        rewards: Sequence[Any] | Matrix,
        *,
        ids: Sequence[Sequence[ItemId] | None] | None = None,
        eligible: Sequence[NDArray[np.bool_] | None] | None = None,
        points_of: Callable[[Points, Sequence[ItemId] | None], Points],
        count: Callable[[Points], int],
        checked_rewards: Callable[[Any, int], Vector],
        table_of: Callable[[NDArray[Any]], Matrix],
    ) -> None:
        rounds, rewards = as_iterable(rounds), as_iterable(rewards)
        if not isinstance(rounds, Sequence | np.ndarray):
            rounds = listed_rounds(rounds)
        n_rounds = _length(rounds, InvalidContexts("Rounds are a sequence with one set of actions each."))
        n_rewards = _length(rewards, InvalidReward("Rewards are a sequence with a row for each round."))
        if n_rounds != n_rewards:
            raise InvalidReward(f"Rewards are a row per round: there are {n_rounds} rounds and {n_rewards} rows.")
        self._points_of = points_of
        self._whole: NDArray[np.float64] | None = None  # rounds × actions × columns, if passed as one array
        self._room: Vector = np.zeros(0)
        self.ids: list[list[ItemId] | None] | None = None
        """Ids of the actions of every round, if any were passed."""
        if ids is not None:
            self.ids = [checked_ids(names) for names in per_round(ids, n_rounds, "ids")]
        first = points_of(rounds[0], self._ids_of(0)) if n_rounds else None
        if isinstance(rounds, np.ndarray) and rounds.ndim == 3 and type(first) is np.ndarray:
            rounds = self._whole = np.ascontiguousarray(
                rounds, dtype=np.float64 if rounds.dtype.kind in "buif" else None
            )
        self._is_even = first is not None and _are_alike(rounds, first)
        self._points: Any = rounds
        if not self._is_even:
            self._points = [points_of(contexts, self._ids_of(t)) for t, contexts in enumerate(rounds)]
        sizes = {count(points) for points in (self._points[:1] if self._is_even else self._points)}
        self.rewards: Sequence[Vector] | Matrix
        if self._is_even and not isinstance(rewards, np.ndarray) and _are_even(rewards):
            rewards = np.array(rewards)  # validating all at once costs no more than one by one
        if isinstance(rewards, np.ndarray) and rewards.ndim == 2 and sizes <= {rewards.shape[1]}:
            self.rewards = table_of(rewards)
        else:
            self.rewards = [
                checked_rewards(row, count(points)) for row, points in zip(rewards, self._points, strict=True)
            ]
        self.eligible: list[NDArray[np.bool_] | None] | None = None
        """Which actions of every round may be selected, if any were passed."""
        self._check_restrictions(eligible)

    def _check_restrictions(self, eligible: Sequence[NDArray[np.bool_] | None] | None) -> None:
        for t, names in enumerate(self.ids or ()):
            one_id_per_action(names, len(self.rewards[t]))
        if eligible is not None:
            self.eligible = per_round(eligible, len(self), "eligible")
            for t, mask in enumerate(self.eligible):
                if mask is not None:
                    eligible_rows(mask, len(self.rewards[t]))

    def round(self, t: int) -> Points:
        """Return the validated points of one round, also of actions that are not eligible."""
        return self._points_of(self._points[t], self._ids_of(t)) if self._is_even else self._points[t]

    def n_actions(self, t: int) -> int:
        """Return the number of eligible actions of one round."""
        mask = None if self.eligible is None else self.eligible[t]
        return len(self.rewards[t]) if mask is None else int(np.count_nonzero(mask))

    def _ids_of(self, t: int) -> list[ItemId] | None:
        return None if self.ids is None else self.ids[t]

    def _at_once(self, points: NDArray[np.float64]) -> int:
        """Return the number of rounds of this shape per block."""
        return max(1, NUMBERS_AT_ONCE // points.size)

    def _stacked(self, start: int, stop: int) -> NDArray[np.float64]:
        """Stack rounds of the same shape into one array, which the next call overwrites."""
        shape, size = self._points[start].shape, self._points[start].size
        if len(self._room) < (stop - start) * size:
            self._room = np.empty((stop - start) * size)  # allocated once: fresh memory costs more than the copy
        block = self._room[: (stop - start) * size].reshape(stop - start, *shape)
        np.concatenate(self._points[start:stop], out=block.reshape(-1, shape[1]))
        return block

    def __len__(self) -> int:
        return len(self._points)

    def blocks(self, start: int, end: int) -> Iterator[tuple[int, NDArray[np.float64], Matrix]]:
        """Yield blocks of the rounds from `start` to `end`: the first round, contexts, and rewards.

        Contexts are an array rounds × actions × columns, overwritten by those of the next block. The consumer checks
        whether they are finite. Iteration ends at the first round whose contexts are not rows of numbers. Rounds with
        restrictions form no blocks.
        """
        if self.eligible is not None:
            return
        if self._whole is not None:
            yield start, self._whole[start:end], np.asarray(self.rewards[start:end])
            return
        while start < end and type(self._points[start]) is np.ndarray:
            first = self._points[start]
            stop, last = start + 1, min(end, start + self._at_once(first))
            while stop < last and (self._is_even or getattr(self._points[stop], "shape", None) == first.shape):
                stop = last if self._is_even else stop + 1
            yield start, self._stacked(start, stop), np.asarray(self.rewards[start:stop])
            start = stop


def _are_alike(rounds: Sequence[Points], first: Points) -> bool:
    """Whether all rounds are rows of float64 of one shape, so that they can be validated together."""
    if type(first) is not np.ndarray:  # then a point is more than a row
        return False
    shape = first.shape
    if isinstance(rounds, np.ndarray):
        return rounds.dtype is FLOAT64 and rounds.shape[1:] == shape
    for points in rounds:
        if type(points) is not np.ndarray or points.shape != shape or points.dtype is not FLOAT64:
            return False
    return all(points.flags.c_contiguous for points in rounds)


def _are_even(rewards: Sequence[Any]) -> bool:
    """Whether all rewards are arrays of one shape."""
    return all(type(row) is np.ndarray and row.shape == rewards[0].shape for row in rewards)


def _length(values: Any, refusal: Exception) -> int:
    try:
        return len(values)
    except TypeError as error:
        raise refusal from error
