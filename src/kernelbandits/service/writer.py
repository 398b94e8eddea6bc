"""The writer: one thread that commits rows in groups and then answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Final, NamedTuple

from kernelbandits.service.problems import Problem
from kernelbandits.service.store import Draft, Row, Store, StoreFull

__all__ = ["Batch", "Writer"]

MOST_ROWS: Final = 256
MOST_BYTES: Final = 2 << 20

Reply = Callable[[list[Row]], Any]


class Batch(NamedTuple):
    """Rows that are committed together, and the answer that is given afterwards."""

    drafts: Sequence[Draft]
    reply: Reply
    future: Future[Any]
    erase: Sequence[int] = ()


def _nothing(point: str) -> None:
    """Default of `at`: do nothing."""


class Writer:
    """Commits whatever queued up while the last commit was flushed, in one transaction, in order.

    Parameters
    ----------
    store
        The store; nothing else appends to it.
    committed
        Called with the rows of each commit, before the answers are given.
    failed
        Called with the error after which nothing is committed any more: `StoreFull`, until `reset`, or another one,
        after which the process has to end.
    at
        Called with the name of each point at which a crash is tested.
    """

    def __init__(
        self,
        store: Store,
        committed: Callable[[list[Row]], None],
        failed: Callable[[BaseException], None],
        *,
        at: Callable[[str], None] = _nothing,
    ) -> None:
        self._store, self._committed, self._failed, self._at = store, committed, failed, at
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kernelbandits-writer", daemon=True)
        self._putting = threading.Lock()
        self._n_put = 0  # batches ever queued; changed under `_putting`
        self._idle = threading.Condition()
        self._n_done = 0  # batches ever committed or failed; changed under `_idle`, by this thread only
        self.error: BaseException | None = None
        """Error after which nothing is committed."""
        self.seconds = 0.0
        """Duration of the last commit."""
        self.observe: Callable[[float, int], None] = lambda seconds, n_rows: None
        """Called with the duration and the number of rows of each commit."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Queue rows; the future is resolved after their commit."""
        batch.future.set_running_or_notify_cancel()  # from here on it cannot be cancelled
        with self._putting:  # not a lock that the writer takes: the learner would wait for it, and then for the GIL
            self._n_put += 1
        self._queue.put(batch)

    @property
    def n_outstanding(self) -> int:
        """Number of batches that are not committed."""
        return self._n_put - self._n_done

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until every batch so far is committed or has failed."""
        with self._idle:
            return self._idle.wait_for(lambda: not self.n_outstanding, timeout)

    def reset(self) -> None:
        """Commit again after the disk was full."""
        self.error = None

    def stop(self) -> None:
        """Commit what is queued and end the thread."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        waiting: Batch | None = None
        while True:
            first = waiting if waiting is not None else self._queue.get()
            waiting = None
            if first is None:
                return
            group = [first]
            n_rows, n_bytes = len(first.drafts), sum(len(draft.body) for draft in first.drafts)
            while n_rows < MOST_ROWS and n_bytes < MOST_BYTES and not first.erase and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)
                    break
                if following.erase:
                    waiting = following
                    break
                group.append(following)
                n_rows += len(following.drafts)
                n_bytes += sum(len(draft.body) for draft in following.drafts)
            self._commit(group)

    def _commit(self, group: list[Batch]) -> None:
        rows: list[Row] = []
        error = self.error
        if error is None:
            try:
                rows = self._append(group)
            except BaseException as raised:
                error = self.error = raised
                self._failed(raised)
        start = 0
        for batch in group:
            end = start + len(batch.drafts)
            self._resolve(batch, rows[start:end], error)
            start = end
        with self._idle:
            self._n_done += len(group)
            self._idle.notify_all()

    def _append(self, group: list[Batch]) -> list[Row]:
        drafts = [draft for batch in group for draft in batch.drafts]
        if not drafts:
            return []
        self._at("before commit")
        start = perf_counter()
        rows = self._store.append(drafts, erase=group[0].erase)
        self.seconds = perf_counter() - start
        self.observe(self.seconds, len(rows))
        self._at("after commit")
        self._committed(rows)
        return rows

    def _resolve(self, batch: Batch, rows: list[Row], error: BaseException | None) -> None:
        if error is not None:
            batch.future.set_exception(_problem(error))
            return
        try:
            answer = batch.reply(rows)
        except Exception as raised:
            batch.future.set_exception(raised)
            return
        batch.future.set_result(answer)


def _problem(error: BaseException) -> Problem:
    if isinstance(error, StoreFull):
        return Problem("read-only", "The disk is full: nothing was stored. Reads go on.", retry_after=5)
    return Problem("read-only", f"The store failed, and the service ends: {error}", retry_after=5)
