"""Store interface: an append-only log of numbered rows, with indexes, snapshots and keys.

What a store promises:

- `append` is one transaction: all rows or none. When it returns, the rows are durable: the operating system has
  confirmed the flush. When it raises `StoreFull`, nothing was written and a later call may succeed; when it raises
  `StoreFailed`, the state of the file is unknown and the process must end and open the store again.
- Rows are numbered from 1 without a gap. Each row holds the digest of its body and a chain of digests over all rows
  before it. An erased row has no body and keeps both.
- The indexes (decisions, rewards) are committed with the rows they are made of. `append` derives them from the marks
  of the drafts; nothing else changes them.
- Only one thread calls `append`. Every other method may be called by any thread; a reader sees committed rows only, in
  short transactions.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kernelbandits.errors import KernelBanditError

__all__ = [
    "ZERO",
    "Draft",
    "Entry",
    "Key",
    "Mark",
    "MarkDecision",
    "MarkExtended",
    "MarkReward",
    "MarkStatus",
    "NewerStore",
    "RewardEntry",
    "Row",
    "SnapshotEntry",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "chained",
    "checked",
    "digest_of",
]

DIGEST_SIZE: Final = 16
"""Bytes of a digest: a change that keeps it takes 2⁶⁴ attempts."""

ZERO: Final = bytes(DIGEST_SIZE)
"""Chain before the first row."""

HEADER: Final = struct.Struct("<qd")


class StoreError(KernelBanditError, OSError):
    """A store cannot be used as requested."""


class StoreFull(StoreError):
    """The disk is full: nothing was written."""


class StoreFailed(StoreError):
    """An I/O error: whether the last commit is on disk is unknown."""


class StoreBusy(StoreError):
    """Another process has the store open."""


class StoreDamaged(StoreError):
    """The file is not a sound database of this service."""


class NewerStore(StoreError):
    """The database was written by a later version."""


class MarkDecision(NamedTuple):
    """Index entry of a new decision."""

    status: str
    closes_at: float
    request: str
    subject: str | None


class MarkStatus(NamedTuple):
    """Change of the index entry of a decision; None keeps a value."""

    decision: str
    status: str | None = None
    closes_at: float | None = None
    learned: str | None = None


class MarkReward(NamedTuple):
    """Index entry of a new reward; `learned` and `status` are those of its decision afterwards."""

    decision: str
    value: float
    place: int
    is_late: bool
    request: str


class MarkExtended(NamedTuple):
    """Extension of every open window of the experiment, in seconds."""

    seconds: float


Mark: TypeAlias = MarkDecision | MarkStatus | MarkReward | MarkExtended


class Draft(NamedTuple):
    """A row to be appended: the store numbers it."""

    experiment: str
    type: str
    id: str
    at: float
    body: bytes
    marks: tuple[Mark, ...] = ()


class Row(NamedTuple):
    """A row of the log."""

    seq: int
    experiment: str
    type: str
    id: str
    at: float
    body: bytes | None
    """None if the row was erased."""

    digest: bytes
    chain: bytes


class Entry(NamedTuple):
    """Index entry of a decision."""

    experiment: str
    id: str
    seq: int
    status: str
    closes_at: float
    request: str
    learned: str | None


class RewardEntry(NamedTuple):
    """Index entry of a reward."""

    decision: str
    id: str
    seq: int
    value: float
    place: int
    is_late: bool
    request: str


class SnapshotEntry(NamedTuple):
    """A snapshot: a file that holds the model of one policy after the rows up to `seq`."""

    experiment: str
    policy: str
    seq: int
    file: str
    record: str
    """Digest of the learned record, which a replay must reproduce."""


class Key(NamedTuple):
    """An access key; the secret itself is stored nowhere."""

    id: str
    digest: bytes
    scopes: frozenset[str]
    experiments: frozenset[str]
    """Names of experiments; empty: all."""

    created: float
    revoked: float | None


def digest_of(body: bytes) -> bytes:
    """Digest of a body; that of nothing for what is no body, in a file that was changed."""
    if not isinstance(body, bytes):
        return b""
    return blake2b(body, digest_size=DIGEST_SIZE).digest()


def checked(row: Row) -> Row:
    """The row, or StoreDamaged if its body is not what was written."""
    if row.body is not None and digest_of(row.body) != row.digest:
        raise StoreDamaged(
            f"Row {row.seq} ({row.type} {row.id}) has another body than was written. Restore a backup: "
            "kernelbandits restore"
        )
    return row


def chained(before: bytes, seq: int, draft: Draft | Row, digest: bytes) -> bytes:
    """Chain digest of a row: over the chain before it, its header and the digest of its body."""
    made = blake2b(before, digest_size=DIGEST_SIZE)
    made.update(HEADER.pack(seq, draft.at))
    for part in (draft.experiment, draft.type, draft.id):
        text = part.encode()
        made.update(len(text).to_bytes(4, "little"))
        made.update(text)
    made.update(digest)
    return made.digest()


class Store(ABC):
    """Append-only log with indexes, snapshots and keys."""

    @abstractmethod
    def append(self, drafts: Sequence[Draft], *, erase: Sequence[int] = ()) -> list[Row]:
        """Append rows in one durable transaction; also remove the bodies of the rows to erase."""

    @abstractmethod
    def head(self) -> Row | None:
        """The last row."""

    @abstractmethod
    def row(self, seq: int) -> Row | None:
        """One row; StoreDamaged if its body has changed."""

    @abstractmethod
    def rows(
        self,
        experiment: str | None = None,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] = (),
        is_checked: bool = True,
    ) -> Iterator[Row]:
        """Rows in order, of one experiment or all, read in short transactions; StoreDamaged for a changed body."""

    @abstractmethod
    def decision(self, experiment: str, id: str) -> Entry | None:
        """Index entry of a decision."""

    @abstractmethod
    def decisions(self, experiment: str, *, status: Sequence[str] = (), subject: str | None = None) -> Iterator[Entry]:
        """Index entries of decisions in order of their rows."""

    @abstractmethod
    def rewards(self, experiment: str, decision: str) -> list[RewardEntry]:
        """Rewards of a decision in order."""

    @abstractmethod
    def counts(self, experiment: str) -> dict[str, int]:
        """Number of rows by type."""

    @abstractmethod
    def add_snapshot(self, snapshot: SnapshotEntry) -> None:
        """Record a snapshot whose file is complete."""

    @abstractmethod
    def snapshots(self, experiment: str, policy: str | None = None) -> list[SnapshotEntry]:
        """Snapshots, the latest first."""

    @abstractmethod
    def remove_snapshots(self, experiment: str, *, upto: int, policy: str | None = None) -> list[SnapshotEntry]:
        """Remove the records of snapshots up to a row, and return them."""

    @abstractmethod
    def add_key(self, key: Key) -> None:
        """Add an access key."""

    @abstractmethod
    def keys(self) -> list[Key]:
        """All keys."""

    @abstractmethod
    def key(self, digest: bytes) -> Key | None:
        """The key with this digest of its secret."""

    @abstractmethod
    def revoke_key(self, id: str, at: float) -> bool:
        """Revoke a key; return whether it exists."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Write a consistent copy of the database."""

    @abstractmethod
    def probe(self) -> None:
        """Write and flush as much as some commits need, or raise as `append` does."""

    @abstractmethod
    def check(self) -> list[str]:
        """Findings of the integrity check of the database; empty if it is sound."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""
