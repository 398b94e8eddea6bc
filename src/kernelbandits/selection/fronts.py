"""When a front pays, how large it is, and when all items catch up with it."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernelbandits.posterior.threads import few_threads
from kernelbandits.selection import batches
from kernelbandits.selection.columns import BEST, LARGEST, READ, UPDATES
from kernelbandits.selection.following import Follower
from kernelbandits.selection.front import Front
from kernelbandits.types import Matrix

__all__ = ["Fronts"]

LEAST_ITEMS: Final = 4096
"""Fewer are always all kept up to date."""

MANY_ITEMS: Final = 200_000
"""From here on a front pays even where a pull is a single pass over all items."""

MANY_ENTRIES: Final = 1_500_000
"""Entries of columns read by a pull, nearly a millisecond, from which on a front pays at any size; below a third of it
the front is given up."""

SHARE: Final = 8
LEAST_FRONT: Final = 512
MOST_FRONT: Final = 8192
"""Items in a front at first: an eighth of all within these limits."""

MOST_BEHIND: Final = 96
"""Runs that all items may be behind the front; then they catch up, in products that are large enough to be fast."""

LONG, SHORT = 8.0, 3.0
"""Pulls that a front's bound is expected to last at first, and fewer than which a front does not pay."""

PAUSE: Final = 64
"""Rounds without a front after fronts that did not last, or were given up for a question about other items."""


class Fronts:
    """Makes fronts of a follower's items, refreshes them, and lets all items catch up with them."""

    def __init__(self, items: Follower) -> None:
        self._items = items
        self._memory: Matrix | None = None  # of the last front, for the next
        self._period = LONG  # pulls that a bound lasted, a running mean
        self._reach = 0.0  # how far it had to reach, likewise
        self._rests_until = 0
        self.n_made = 0

    @property
    def n_bytes(self) -> int:
        """Memory kept for the next front."""
        return 0 if self._memory is None else self._memory.nbytes

    def is_due(self, n_rounds: int) -> bool:
        """Whether a front would pay from now on."""
        items = self._items
        if items.n_items < LEAST_ITEMS or n_rounds < self._rests_until or not items.log.n_runs:
            return False
        return items.n_items >= MANY_ITEMS or items.n_items * items.log.state.item(READ) >= MANY_ENTRIES

    def pays(self, front: Front) -> bool:
        """Whether this front is still cheaper than a pass over all items."""
        n_items = self._items.n_items
        return n_items >= MANY_ITEMS or 3 * n_items * front.log.state.item(READ) >= MANY_ENTRIES

    def make(self, beta: float) -> Front:
        """A front of the items with the highest bounds, all items being up to date."""
        items = self._items
        size = min(items.n_items // 2, max(items.n_items // SHARE, LEAST_FRONT), MOST_FRONT)
        front = Front(items.log, items.n_items, size, beta, self._expected_reach(beta), items.between, self._memory)
        front.points = items.kernel.kind.take(items.points, front.rows)
        self._memory = front.log.rows
        self.n_made += 1
        return front

    def refresh(self, front: Front, beta: float, n_rounds: int) -> bool:
        """Refresh a front whose bound does not hold any more; False where it lasted too briefly or too long."""
        items, log = self._items, front.log
        n_pulls = log.state.item(UPDATES) - front.n_pulls
        if not n_pulls:
            return False
        self._period += 0.25 * (n_pulls - self._period)
        self._reach += 0.5 * (front.reach - self._reach)
        if self._period < SHORT:
            self.pause(n_rounds)
            self._period = LONG
        if n_pulls < SHORT or log.n_runs > items.log.n_runs + MOST_BEHIND:
            return False
        with few_threads(batches.SMALL_PRODUCT):
            front.refresh(beta, self._expected_reach(beta), log.state.item(BEST), items.similarities)
        front.points = items.kernel.kind.take(items.points, front.rows)
        return True

    def pause(self, n_rounds: int) -> None:
        """No front for a while."""
        self._rests_until = n_rounds + PAUSE

    def _expected_reach(self, beta: float) -> float:
        return max(self._reach, 0.02 * beta * beta, 1e-6)

    def catch_up_with(self, front: Front) -> None:
        """Bring all items to where the front is, at matrix-matrix speed; the front is of no use afterwards."""
        items, log, taken = self._items, self._items.log, front.log.taken
        log.state[READ] = front.log.state[READ]
        log.state[LARGEST] = max(log.state.item(LARGEST), front.log.state.item(LARGEST))
        slots = np.flatnonzero(taken[0, : log.n_slots] != log.taken[0, : log.n_slots])
        slots = slots[np.argsort(front.log.last_run[slots])]  # pulled last, placed last
        if len(slots) > 1:
            batches.pull_many(log, slots, taken[0, slots], taken[1, slots], items.similarities, front.filled)
        elif len(slots):
            log.pull(int(slots[0]), taken.item(0, slots[0]), taken.item(1, slots[0]), items.similarities)
        items.tidy()
